"""What the frontier's pictures look like."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from scrout.lab.study.figures import DASHES, INK, MARKERS, SHADES
from scrout.lab.study.frontier.escalation import FALSE_ALARMS, Escalation
from scrout.lab.study.frontier.fields import CostPlane
from scrout.lab.study.frontier.pools import SIZE, PoolCensus
from scrout.lab.study.policies import PolicyPoint
from scrout.lab.study.report import Figure, points
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_OPEN = 0.25
"""A policy with a larger share of unmeasured outcomes is in the table alone."""


def field_picture(field: CostPlane) -> Figure:
    best = max(field.spots, key=lambda spot: spot.solve.value)
    told = "; ".join(f"{spot.name}: {percent(spot.solve.value)} at {usd(spot.usd.value, 3)}" for spot in field.spots)
    return Figure(
        f"frontier-{_slug(field.benchmark)}",
        f"{field.benchmark}: solve rate against cost",
        partial(_draw_field, field=field),
        f"{best.name} solves most. {told}",
        height=4.6,
    )


def _draw_field(axes: Axes, field: CostPlane) -> None:
    for corners, dash, name in (
        (field.hull, "-", "mix of fixers alone"),
        (field.hull_handed, "--", "with handoff too"),
    ):
        if corners:
            xs, ys = [one.usd for one in corners], [100 * one.solve for one in corners]
            axes.plot(xs, ys, color=INK, linestyle=dash, linewidth=1.0, label=name)
    kinds = (
        ("alone", "fixer alone", SHADES[0], MARKERS[0]),
        ("handoff", "fixer with handoff", SHADES[2], MARKERS[1]),
        ("random", "any fixer at random", SHADES[3], MARKERS[6]),
        ("oracle", "oracle", SHADES[4], MARKERS[2]),
    )
    for kind, label, shade, marker in kinds:
        some = [spot for spot in field.spots if spot.kind == kind]
        if some:
            _bars(axes, some, [(spot.solve.low, spot.solve.high) for spot in some], shade, marker, "none", label)
    for at, (label, some) in enumerate(_families(field).items()):
        shade, dash = SHADES[(1, 5, 6, 3, 2)[at % 5]], DASHES[(at + 2) % len(DASHES)]
        _bars(axes, some, [(spot.solve_low, spot.solve_high) for spot in some], shade, MARKERS[3 + at % 3], dash, label)
    _name_corners(axes, field)
    axes.set(xlabel="dollars a task", ylabel="solved, %")
    axes.set_xlim(left=0)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=2)


def _bars(
    axes: Axes,
    some: Sequence[PolicyPoint],
    ends: Sequence[tuple[float, float]],
    shade: str,
    marker: str,
    dash: str,
    label: str,
) -> None:
    values = [spot.solve.value for spot in some]
    axes.errorbar(
        [spot.usd.value for spot in some],
        [100 * value for value in values],
        yerr=[
            [max(0.0, 100 * (value - low)) for value, (low, _) in zip(values, ends, strict=True)],
            [max(0.0, 100 * (high - value)) for value, (_, high) in zip(values, ends, strict=True)],
        ],
        color=shade,
        marker=marker,
        markersize=4 if dash != "none" else None,
        linestyle=dash,
        linewidth=0.9,
        elinewidth=0.6,
        label=label,
    )


def _families(field: CostPlane) -> dict[str, list[PolicyPoint]]:
    """Settings of one policy, in order, without those that are mostly unmeasured."""
    found: dict[str, list[PolicyPoint]] = {}
    for spot in field.spots:
        if spot.family and spot.unmeasured <= MOST_OPEN * field.tasks:
            found.setdefault(spot.family, []).append(spot)
    return found


def _name_corners(axes: Axes, field: CostPlane) -> None:
    from matplotlib.patheffects import Normal, Stroke

    corners = (*field.hull, *field.hull_handed)
    fixed = [spot for spot in field.spots if spot.kind in ("alone", "handoff")]
    most_expensive = max(spot.usd.value for spot in fixed)
    for spot in fixed:
        x, y = spot.usd.value, spot.solve.value
        if not any(math.isclose(x, one.usd) and math.isclose(y, one.solve) for one in corners):
            continue
        left = x > 0.25 * most_expensive
        axes.annotate(
            spot.name,
            (x, 100 * y),
            xytext=(-6 if left else 6, 6),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=7.5,
            color=INK,
            path_effects=[Stroke(linewidth=2, foreground="white"), Normal()],
        )


def pools_picture(found: Sequence[PoolCensus]) -> Figure:
    told = "; ".join(
        f"{one.benchmark}: the oracle gains {points(one.oracle_gain[0])} to {points(one.oracle_gain[2])} points over "
        "the mix"
        for one in found
    )
    return Figure(
        "frontier-pools",
        f"Every pool of {SIZE}: what perfect routing adds to mixing",
        partial(_draw_pools, found=found),
        told,
        height=4.0,
    )


def _draw_pools(axes: Axes, found: Sequence[PoolCensus]) -> None:
    for at, one in enumerate(found):
        axes.scatter(
            [100 * pool.lead for pool in one.pools],
            [100 * pool.oracle_gain.value for pool in one.pools],
            s=12,
            color=SHADES[(0, 2)[at % 2]],
            marker=MARKERS[at],
            alpha=0.55,
            linewidths=0,
            label=one.benchmark,
        )
    axes.set(xlabel="lead of the strongest over the cheapest, points", ylabel="oracle over the best mix, points")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right")


def second_picture(found: Escalation) -> Figure:
    last = next(one for one in found.grid if one.recall == 1 and one.false_alarms == 0)
    return Figure(
        f"frontier-second-{_slug(found.benchmark)}",
        f"A second try, simulated: {found.benchmark}",
        partial(_draw_second, found=found),
        f"{found.first}, then {found.second}. A perfect verifier gains {points(last.over_mix)} points over the mix. "
        + " ".join(
            f"With {percent(false, 0)} false alarms the gain is above 0 from a recall of "
            f"{or_never(found.break_even[f'{false:g}'])}."
            for false in FALSE_ALARMS
        ),
        height=4.0,
    )


def _draw_second(axes: Axes, found: Escalation) -> None:
    for at, false in enumerate(FALSE_ALARMS):
        some = [one for one in found.grid if one.false_alarms == false]
        x = [one.recall for one in some]
        axes.plot(
            x,
            [100 * one.over_mix.value for one in some],
            color=SHADES[at],
            marker=MARKERS[at],
            markersize=4,
            linestyle=DASHES[at % len(DASHES)],
            label=f"{percent(false, 0)} false alarms",
        )
        if not at:
            low, high = ([100 * getattr(one.over_mix, end) for one in some] for end in ("low", "high"))
            axes.fill_between(x, low, high, color=SHADES[at], alpha=0.12, linewidth=0, label="95% of the first")
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(f"wrong patches caught (recall)\n{found.first}, then {found.second}")
    axes.set_ylabel("points over the best mix at that cost")
    axes.set_xlim(0, 1)
    axes.legend(loc="upper left")


def or_never(recall: float | None) -> str:
    """A recall, where there is one that is enough."""
    return "never" if recall is None else f"{recall:.1f}"


def _slug(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))
