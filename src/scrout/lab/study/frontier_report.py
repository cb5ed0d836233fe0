"""Tables, figures and findings of `frontier`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scrout.lab.study.figures import DASHES, INK, MARKERS, SHADES, error_bars
from scrout.lab.study.frontier import COUNTS, ROUTER, CostPlane, Frontier
from scrout.lab.study.frontier_pools import FALSE_ALARMS, SIZE, Escalation, Pool, PoolCensus, PoolKind
from scrout.lab.study.policies import PolicyPoint
from scrout.lab.study.report import (
    Figure,
    ReportTable,
    StudyReport,
    interval,
    number,
    points,
    table,
    usd_interval,
    with_content,
)
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_UNMEASURED = 0.25
"""A policy with a larger share of unmeasured outcomes is in the table alone."""


def report(result: Frontier) -> StudyReport:
    planes = [part for plane in result.fields for part in (_plane_table(plane), _plane_figure(plane))]
    pools = result.pools
    parts = with_content(
        *planes,
        _pools_table(pools),
        _kinds_table(pools),
        _extremes_table(pools),
        _ablations_table(pools),
        _routed_table(pools),
        _pools_figure(pools) if pools else None,
        _escalation_table(result.escalations),
        _break_even_table(result.escalations),
        *map(_escalation_figure, result.escalations),
    )
    findings = [
        *(line for plane in result.fields for line in _plane_findings(plane)),
        *(line for one in result.pools for line in _pool_findings(one)),
        *(_escalation_finding(one) for one in result.escalations),
    ]
    return StudyReport("The frontier of cost and solve rate", findings, parts, _notes(result))


def _plane_findings(plane: CostPlane) -> Iterator[str]:
    by_name = {spot.name: spot for spot in plane.spots}
    fixers = [spot for spot in plane.spots if spot.kind in ("alone", "handoff")]
    oracle = by_name.get("oracle, also with handoff") or by_name["oracle, alone"]
    strongest = max(fixers, key=lambda spot: (spot.solve.value, -spot.usd.value))
    yield (
        f"{plane.benchmark}: the strongest constant is {strongest.name} ({interval(strongest.solve)} at "
        f"{usd(strongest.usd.value, 3)} per task); an oracle would solve {percent(oracle.solve.value)} at "
        f"{usd(oracle.usd.value, 3)}."
    )
    policies = [spot for spot in plane.spots if spot.family]
    if measured := [spot for spot in policies if not spot.unmeasured]:
        over = [spot.over_constants or spot.over_mix for spot in measured]
        yield (
            f"{plane.benchmark}: of {len(measured)} settings of policies {sum(one.low > 0 for one in over)} are shown "
            f"above the best random mix of constants at their cost and {sum(one.high < 0 for one in over)} below; "
            f"{sum(len(spot.shares) == 1 for spot in measured)} take one fixer for every task."
        )
    if unknown := [spot.unmeasured for spot in policies if spot.unmeasured]:
        yield (
            f"{plane.benchmark}: {len(unknown)} further settings take {min(unknown)} to {max(unknown)} pairs that "
            "were never measured, so that only bounds can be given."
        )
    if router := by_name.get(ROUTER):
        handed = f", {points(router.over_constants)} over one with handoff too" if router.over_constants else ""
        yield (
            f"The paper's router solves {interval(router.solve)} at {usd_interval(router.usd)} per task: "
            f"{points(router.over_mix)} points over a mix of fixers alone{handed}."
        )
    if plane.differs:
        others = [f"{spot.name}: {plane.differs[spot.name]}" for spot in policies if spot.family == "worth, blend"]
        yield (
            f"Of the paper's {plane.tasks} decisions, the value policy on the same probabilities makes others on: "
            f"{'; '.join(others)}."
        )


def _pool_findings(one: PoolCensus) -> Iterator[str]:
    least, median, most = one.oracle_gain
    first = one.ablations[0]
    yield (
        f"{one.benchmark}, {len(one.pools)} pools of {SIZE}: in {percent(one.constant)} one fixer is both cheapest and "
        f"strongest, so a constant is the whole hull; in {percent(one.lead_not_shown)} the strongest is not shown to "
        f"beat the cheapest. Perfect routing would add {points(median)} points to mixing in the median ("
        f"{points(least)} to {points(most)}), luck of single attempts included."
    )
    yield (
        f"{one.benchmark}: at theta {first.theta:.2f} the cheapest fixer's solve rate reaches it in "
        f"{percent(first.cheapest)} of the pools, where `no router` is the cheapest fixer: {percent(first.saved)} "
        f"cheaper than the strongest, at {points(-first.given_up)} points, medians over pools."
    )
    if one.routed:
        above = max(share for _, share, _, _ in one.routed.values())
        below = [share for _, _, share, _ in one.routed.values()]
        yield (
            f"{one.benchmark}: the value policy by counts of the text is shown above the mix in {percent(above)} of "
            f"the pools at best, and below it in {percent(min(below))} to {percent(max(below))}, by what "
            "a solve is worth."
        )


def _escalation_finding(one: Escalation) -> str:
    perfect = next(each for each in one.grid if each.recall == 1 and each.false_alarms == 0)
    named = one.named[0]
    return (
        f"A second try on {one.benchmark} ({one.first}, then {one.second}; simulated): {points(perfect.over_mix)} "
        f"points over the mix under a perfect verifier, {points(named.over_mix)} under {named.verifier}; with 10% "
        f"false alarms the least recall that is enough is {_least_recall(one, 0.1)}."
    )


def _notes(result: Frontier) -> list[str]:
    return [
        "Intervals are 95%, from resampling tasks (percentile; $/solve by BCa); settings are held. Each policy beside "
        "a mix is one of many looks, and none is adjusted: read an interval that just leaves 0 out with care.",
        "The oracle takes for each task the cheapest fixer that solves it, and where none does the cheapest.",
        f"Policies: `theta` walks from the cheapest up, `a solve` weighs what it is worth. `{COUNTS}` and résumés are "
        "held out by repository, expected costs too.",
        *(f"Left out: {line}" for line in result.left_out),
    ]


def _plane_table(plane: CostPlane) -> ReportTable:
    handed, open_ = any(spot.over_constants for spot in plane.spots), any(spot.unmeasured for spot in plane.spots)
    columns: dict[str, Callable[[PolicyPoint], str]] = {
        "Policy": lambda spot: spot.name,
        "$/task": lambda spot: usd_interval(spot.usd),
        "Solved": lambda spot: interval(spot.solve),
        "$/solve": lambda spot: usd_interval(spot.usd_per_solve),
        "Over mix": lambda spot: points(spot.over_mix),
    }
    note = f"{plane.tasks} tasks. Over mix: points over the best random mix of fixers alone at the same cost"
    if handed:
        columns["Over mix with handoff"] = lambda spot: points(spot.over_constants)
        note += ", and where those with handoff may be mixed in"
    if open_:
        columns["Unmeasured"] = lambda spot: str(spot.unmeasured)
        columns["Solved, if"] = lambda spot: f"{percent(spot.solve_low)} to {percent(spot.solve_high)}"
        columns["$ full"] = lambda spot: usd(spot.usd_full, 3)
    note += "."
    if plane.differs:
        columns["Differs"] = lambda spot: str(plane.differs.get(spot.name, "-"))
        note += " Differs: tasks decided otherwise than the paper's router did."
    title = f"{plane.benchmark}: what each policy costs and solves"
    return table(title, plane.spots, columns, " ".join([note, *plane.notes]))


def _pools_table(found: Sequence[PoolCensus]) -> ReportTable:
    return table(
        f"Every pool of {SIZE}: what is there to win",
        found,
        {
            "Benchmark": lambda one: one.benchmark,
            "Pools": lambda one: f"{len(one.pools)} of {one.models} models",
            "One fixer best and cheapest": lambda one: percent(one.constant),
            "Lead not shown": lambda one: percent(one.lead_not_shown),
            "Oracle over mix": lambda one: " / ".join(points(gain) for gain in one.oracle_gain),
            "Above 0": lambda one: percent(sum(pool.oracle_gain.low > 0 for pool in one.pools) / len(one.pools)),
            "Goes with": lambda one: ", ".join(f"{name} {rho:+.2f}" for name, rho in one.goes_with.items()),
        },
        "Lead not shown: the strongest fixer is not shown to beat the cheapest (McNemar, .05, unadjusted). Oracle over "
        "mix: points over the best random mix at the same cost; least, median, most. Goes with: Spearman's "
        "correlation of that gain over the pools, which share models, so it is a description.",
    )


def _kinds_table(found: Sequence[PoolCensus]) -> ReportTable:
    worths = dict.fromkeys(worth for one in found for worth in one.routed)
    return table(
        "Pools by kind: what perfect routing adds to mixing, and what ours does",
        [(one, kind) for one in found for kind in one.kinds],
        {
            "Pools": lambda row: f"{row[0].benchmark}: {row[1].name}",
            "Share": lambda row: percent(row[1].share),
            "Oracle": lambda row: points(row[1].oracle_gain),
            **{f"Ours, {worth} a solve": partial(_routed_gain, worth=worth) for worth in worths},
        },
        "Points over the best random mix at the same cost, medians over pools. Ours: the value policy by counts of the "
        "text, held out by repository.",
    )


def _routed_gain(row: tuple[PoolCensus, PoolKind], worth: str) -> str:
    return points(row[1].routed_gain.get(worth))


def _extremes_table(found: Sequence[PoolCensus]) -> ReportTable:
    return table(
        "The pools with least and most to win",
        [(one, pool) for one in found for pool in _extremes(one.pools)],
        {
            "Pool": lambda row: f"{row[0].benchmark}: {', '.join(row[1].fixers)}",
            "Cheapest to strongest": lambda row: f"{row[1].cheapest} to {row[1].strongest}",
            "Lead": lambda row: points(row[1].lead),
            "Times the price": lambda row: number(row[1].price, 1),
            "Oracle over mix": lambda row: points(row[1].oracle_gain),
        },
        "The first and last three by the oracle's gain, picked in hindsight.",
    )


def _extremes(pools: Sequence[Pool]) -> list[Pool]:
    ranked = sorted(pools, key=lambda pool: pool.oracle_gain.value)
    return ranked if len(ranked) <= 6 else [*ranked[:3], *ranked[-3:]]


def _ablations_table(found: Sequence[PoolCensus]) -> ReportTable:
    return table(
        "No router: always the cheapest fixer whose solve rate reaches theta",
        [(one.benchmark, ablation) for one in found for ablation in one.ablations],
        {
            "Pools of": lambda row: f"{row[0]}, theta {row[1].theta:.2f}",
            "It is the cheapest": lambda row: percent(row[1].cheapest),
            "It is the strongest": lambda row: percent(row[1].strongest),
            "On the hull": lambda row: percent(row[1].on_hull),
            "Off it": lambda row: " / ".join(points(-below) for below in row[1].below_hull),
            "Saved": lambda row: percent(row[1].saved),
            "Points": lambda row: points(-row[1].given_up),
        },
        "Shares are of pools. Off it: points from the best random mix at its cost, median and worst. Saved and points: "
        "beside the strongest fixer, medians over pools.",
    )


def _routed_table(found: Sequence[PoolCensus]) -> ReportTable:
    return ReportTable(
        "The value policy on every pool, by counts of the text",
        ["Pools of", "Over mix, median", "Above 0", "Below 0", "Takes more than one fixer"],
        [
            [f"{one.benchmark}, {worth} a solve", points(median), percent(above), percent(below), percent(varied)]
            for one in found
            for worth, (median, above, below, varied) in one.routed.items()
        ],
        "Shares are of pools; above and below 0 by the pool's own interval, unadjusted. Probabilities are held out "
        "by repository.",
    )


def _escalation_table(found: Sequence[Escalation]) -> ReportTable:
    return table(
        "A second try, where the check as good as the gate proves the first patch wrong (simulated)",
        [(one.benchmark, second) for one in found for second in one.named],
        {
            "Benchmark, verifier": lambda row: f"{row[0]}: {row[1].verifier}",
            "Recall": lambda row: number(row[1].recall),
            "Precision": lambda row: number(row[1].precision),
            "Tried again": lambda row: percent(row[1].again),
            "$/task": lambda row: usd_interval(row[1].usd),
            "Solved": lambda row: interval(row[1].solve),
            "Over mix": lambda row: points(row[1].over_mix),
        },
        " ".join(f"{one.benchmark}: {one.first}, then {one.second}." for one in found)
        + " The share of tasks with a reproduction is that of the paper's handoffs (or of your own scouted tasks), "
        "half, and all. Assumed: catches do not depend on the task, the second fixer does as it did alone, its patch "
        "is not looked at again, looking is free; the pair was chosen on these tasks.",
    )


def _break_even_table(found: Sequence[Escalation]) -> ReportTable:
    return table(
        "The least recall from which a second try beats a random mix",
        found,
        {
            "Benchmark": lambda one: one.benchmark,
            **{
                f"{percent(false, 0)} false alarms": partial(_least_recall, false_alarms=false)
                for false in FALSE_ALARMS
            },
        },
        "On a grid of tenths; the interval of the gain lies above 0 from there on.",
    )


def _least_recall(found: Escalation, false_alarms: float) -> str:
    recall = found.break_even[f"{false_alarms:g}"]
    return "never" if recall is None else f"{recall:.1f}"


def _plane_figure(plane: CostPlane) -> Figure:
    best = max(plane.spots, key=lambda spot: spot.solve.value)
    words = "; ".join(f"{spot.name}: {percent(spot.solve.value)} at {usd(spot.usd.value, 3)}" for spot in plane.spots)
    return Figure(
        f"frontier-{_slug(plane.benchmark)}",
        f"{plane.benchmark}: solve rate against cost",
        partial(_draw_plane, plane=plane),
        f"{best.name} solves most. {words}",
        height=4.6,
    )


def _draw_plane(axes: Axes, plane: CostPlane) -> None:
    for corners, dash, name in (
        (plane.hull, "-", "mix of fixers alone"),
        (plane.hull_handed, "--", "with handoff too"),
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
    for kind, label, color, marker in kinds:
        if some := [spot for spot in plane.spots if spot.kind == kind]:
            _draw_points(axes, some, color, marker, "none", label)
    families: dict[str, list[PolicyPoint]] = {}
    for spot in plane.spots:
        if spot.family and spot.unmeasured <= MAX_UNMEASURED * plane.tasks:
            bounds = spot.solve.model_copy(update={"low": spot.solve_low, "high": spot.solve_high})
            families.setdefault(spot.family, []).append(spot.model_copy(update={"solve": bounds}))
    for at, (label, some) in enumerate(families.items()):
        color, dash = SHADES[(1, 5, 6, 3, 2)[at % 5]], DASHES[(at + 2) % len(DASHES)]
        _draw_points(axes, some, color, MARKERS[3 + at % 3], dash, label)
    _name_corners(axes, plane)
    axes.set(xlabel="dollars per task", ylabel="solved, %", xlim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=2)


def _draw_points(axes: Axes, some: Sequence[PolicyPoint], color: str, marker: str, linestyle: str, label: str) -> None:
    axes.errorbar(
        [spot.usd.value for spot in some],
        [100 * spot.solve.value for spot in some],
        yerr=error_bars([spot.solve for spot in some], 100),
        linewidth=0.9,
        elinewidth=0.6,
        color=color,
        marker=marker,
        markersize=6 if linestyle == "none" else 4,
        linestyle=linestyle,
        label=label,
    )


def _name_corners(axes: Axes, plane: CostPlane) -> None:
    from matplotlib.patheffects import Normal, Stroke

    corners = (*plane.hull, *plane.hull_handed)
    fixers = [spot for spot in plane.spots if spot.kind in ("alone", "handoff")]
    most_expensive = max(spot.usd.value for spot in fixers)
    for spot in fixers:
        x, y = spot.usd.value, spot.solve.value
        if any(math.isclose(x, one.usd) and math.isclose(y, one.solve) for one in corners):
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


def _pools_figure(found: Sequence[PoolCensus]) -> Figure:
    words = "; ".join(
        f"{one.benchmark}: the oracle gains {points(one.oracle_gain[0])} to {points(one.oracle_gain[2])} points over "
        "the mix"
        for one in found
    )
    title = f"Every pool of {SIZE}: what perfect routing adds to mixing"
    return Figure("frontier-pools", title, partial(_draw_pools, found=found), words, height=4.0)


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


def _escalation_figure(found: Escalation) -> Figure:
    perfect = next(one for one in found.grid if one.recall == 1 and one.false_alarms == 0)
    return Figure(
        f"frontier-second-{_slug(found.benchmark)}",
        f"A second try, simulated: {found.benchmark}",
        partial(_draw_escalation, found=found),
        f"{found.first}, then {found.second}. A perfect verifier gains {points(perfect.over_mix)} points over the mix. "
        + " ".join(
            f"With {percent(false, 0)} false alarms the gain is above 0 from a recall of {_least_recall(found, false)}."
            for false in FALSE_ALARMS
        ),
        height=4.0,
    )


def _draw_escalation(axes: Axes, found: Escalation) -> None:
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


def _slug(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))
