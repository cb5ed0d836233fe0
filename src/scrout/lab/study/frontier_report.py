"""Tables, figures and findings of `frontier`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scrout.lab.study.figures import DASHES, INK, MARKERS, SHADES
from scrout.lab.study.frontier import (
    COUNTS,
    ROUTER,
    CostPlane,
    Frontier,
)
from scrout.lab.study.frontier_pools import FALSE_ALARMS, SIZE, Escalation, Pool, PoolCensus
from scrout.lab.study.policies import PolicyPoint
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, points, usd_interval
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


def plane_table(field: CostPlane) -> ReportTable:
    """Every way of a benchmark."""
    handed = any(spot.over_constants for spot in field.spots)
    open_ = any(spot.unmeasured for spot in field.spots)
    columns = ["Way", "$/task", "Solved", "$/solve", "Over mix"]
    columns += ["Over mix with handoff"] if handed else []
    columns += ["Unmeasured", "Solved, if", "$ full"] if open_ else []
    columns += ["Differs"] if field.differs else []
    rows = []
    for spot in field.spots:
        row = [spot.name, usd_interval(spot.usd), interval(spot.solve)]
        row.append(usd_interval(spot.usd_per_solve) if spot.usd_per_solve else "-")
        row.append(points(spot.over_mix))
        row += [points(spot.over_constants)] if spot.over_constants else []
        solves = f"{percent(spot.solve_low)} to {percent(spot.solve_high)}"
        row += [str(spot.unmeasured), solves, usd(spot.usd_full, 3)] * open_
        row += [str(field.differs.get(spot.name, "-"))] if field.differs else []
        rows.append(row)
    note = (
        f"{field.tasks} tasks. Over mix: points over the best random mix of fixers alone at the same cost"
        + (", and where those with handoff may be mixed in" if handed else "")
        + ". Differs: tasks decided otherwise than the paper's router did." * bool(field.differs)
        + "." * (not field.differs)
    )
    return ReportTable(
        f"{field.benchmark}: what each way costs and solves", columns, rows, " ".join([note, *field.notes])
    )


def pools_table(found: Sequence[PoolCensus]) -> ReportTable:
    """What pools leave to win."""
    rows = [
        [
            one.benchmark,
            f"{len(one.pools)} of {one.models} models",
            percent(one.constant),
            percent(one.lead_not_shown),
            " / ".join(points(gain) for gain in one.oracle_gain),
            percent(float(np.mean([pool.oracle_gain.low > 0 for pool in one.pools]))),
            ", ".join(f"{name} {rho:+.2f}" for name, rho in one.goes_with.items()),
        ]
        for one in found
    ]
    return ReportTable(
        f"Every pool of {SIZE}: what is there to win",
        [
            "Benchmark",
            "Pools",
            "One fixer best and cheapest",
            "Lead not shown",
            "Oracle over mix",
            "Above 0",
            "Goes with",
        ],
        rows,
        "Lead not shown: the strongest fixer is not shown to beat the "
        "cheapest (McNemar, .05, unadjusted). Oracle over mix: points over the best random mix at the same cost; "
        "least, median, most. Goes with: Spearman's correlation of that gain over the pools, which share models, so it "
        "is a description.",
    )


def kinds_table(found: Sequence[PoolCensus]) -> ReportTable:
    """The same by kind of pool."""
    rows = [
        [
            f"{one.benchmark}: {kind.name}",
            percent(kind.share),
            points(kind.oracle_gain),
            *(points(kind.routed_gain[worth]) if worth in kind.routed_gain else "-" for worth in _worths(found)),
        ]
        for one in found
        for kind in one.kinds
    ]
    return ReportTable(
        "Pools by kind: what perfect routing adds to mixing, and what ours does",
        ["Pools", "Share", "Oracle", *(f"Ours, {worth} a solve" for worth in _worths(found))],
        rows,
        "Points over the best random mix at the same cost, medians over pools. Ours: the value policy by counts of the "
        "text, held out by repository.",
    )


def extremes_table(found: Sequence[PoolCensus]) -> ReportTable:
    """Single pools, from both ends."""
    rows = [
        [
            f"{one.benchmark}: {', '.join(pool.fixers)}",
            f"{pool.cheapest} to {pool.strongest}",
            points(pool.lead),
            "-" if pool.price is None else f"{pool.price:.1f}",
            points(pool.oracle_gain),
        ]
        for one in found
        for pool in _ends(one.pools)
    ]
    return ReportTable(
        "The pools with least and most to win",
        ["Pool", "Cheapest to strongest", "Lead", "Times the price", "Oracle over mix"],
        rows,
        "The first and last three by the oracle's gain, picked in hindsight.",
    )


def _ends(pools: Sequence[Pool]) -> list[Pool]:
    ranked = sorted(pools, key=lambda pool: pool.oracle_gain.value)
    return ranked if len(ranked) <= 6 else [*ranked[:3], *ranked[-3:]]


def _worths(found: Sequence[PoolCensus]) -> list[str]:
    return list(dict.fromkeys(worth for one in found for worth in one.routed))


def ablations_table(found: Sequence[PoolCensus]) -> ReportTable:
    """What a constant gives up."""
    rows = [
        [
            f"{one.benchmark}, theta {each.theta:.2f}",
            percent(each.cheapest),
            percent(each.strongest),
            percent(each.on_hull),
            f"{points(-each.below_hull[0])} / {points(-each.below_hull[1])}",
            percent(each.saved),
            points(-each.given_up),
        ]
        for one in found
        for each in one.ablations
    ]
    return ReportTable(
        "No router: always the cheapest fixer whose solve rate reaches theta",
        ["Pools of", "It is the cheapest", "It is the strongest", "On the hull", "Off it", "Saved", "Points"],
        rows,
        "Shares are of pools. Off it: points from the best random mix at its cost, median and worst. Saved and points: "
        "beside the strongest fixer, medians over pools.",
    )


def routed_tables(found: Sequence[PoolCensus]) -> list[ReportTable]:
    """What our policy does on pools; nothing where no text is known."""
    rows = [
        [f"{one.benchmark}, {worth} a solve", points(median), percent(above), percent(below), percent(varied)]
        for one in found
        for worth, (median, above, below, varied) in one.routed.items()
    ]
    if not rows:
        return []
    return [
        ReportTable(
            "The value policy on every pool, by counts of the text",
            ["Pools of", "Over mix, median", "Above 0", "Below 0", "Takes more than one fixer"],
            rows,
            "Shares are of pools; above and below 0 by the pool's own interval, unadjusted. Probabilities are held out "
            "by repository.",
        )
    ]


def escalation_table(found: Sequence[Escalation]) -> ReportTable:
    """A second try under the gate."""
    rows = [
        [
            f"{one.benchmark}: {each.verifier}",
            f"{each.recall:.3f}",
            "-" if each.precision is None else f"{each.precision:.3f}",
            percent(each.again),
            usd_interval(each.usd),
            interval(each.solve),
            points(each.over_mix),
        ]
        for one in found
        for each in one.named
    ]
    return ReportTable(
        "A second try, where the check as good as the gate proves the first patch wrong (simulated)",
        ["Benchmark, verifier", "Recall", "Precision", "Tried again", "$/task", "Solved", "Over mix"],
        rows,
        " ".join(f"{one.benchmark}: {one.first}, then {one.second}." for one in found)
        + " The share of tasks with a reproduction is that of the paper's handoffs (or of one's own scouted tasks), "
        "half, and all. Assumed: catches do not depend on the task, the second fixer does as it did alone, its patch "
        "is not looked at again, looking is free; the pair was chosen on these tasks.",
    )


def break_even_table(found: Sequence[Escalation]) -> ReportTable:
    """How good a verifier has to be."""
    rows = [[one.benchmark, *(or_never(one.break_even[f"{false:g}"]) for false in FALSE_ALARMS)] for one in found]
    return ReportTable(
        "The least recall from which a second try beats a random mix",
        ["Benchmark", *(f"{percent(false, 0)} false alarms" for false in FALSE_ALARMS)],
        rows,
        "On a grid of tenths; the interval of the gain lies above 0 from there on.",
    )


def report(result: Frontier) -> StudyReport:
    """Tables and pictures of it."""
    parts: list[ReportTable | Figure] = []
    for field in result.fields:
        parts += [plane_table(field), field_picture(field)]
    if result.pools:
        parts += [
            pools_table(result.pools),
            kinds_table(result.pools),
            extremes_table(result.pools),
            ablations_table(result.pools),
        ]
        parts += [*routed_tables(result.pools), pools_picture(result.pools)]
    if result.escalations:
        parts += [escalation_table(result.escalations), break_even_table(result.escalations)]
        parts += [second_picture(one) for one in result.escalations]
    findings = [line for field in result.fields for line in _field_findings(field)]
    findings += [line for pools in result.pools for line in _pool_findings(pools)]
    findings += [_second_finding(one) for one in result.escalations]
    return StudyReport("The frontier of cost and solve rate", findings, parts, _notes(result))


def _field_findings(field: CostPlane) -> list[str]:
    by_name = {spot.name: spot for spot in field.spots}
    fixed = [spot for spot in field.spots if spot.kind in ("alone", "handoff")]
    whole = by_name.get("oracle, also with handoff") or by_name["oracle, alone"]
    strongest = max(fixed, key=lambda spot: (spot.solve.value, -spot.usd.value))
    said = [
        f"{field.benchmark}: the strongest constant is {strongest.name} ({interval(strongest.solve)} at "
        f"{usd(strongest.usd.value, 3)} a task); an oracle would solve {percent(whole.solve.value)} at "
        f"{usd(whole.usd.value, 3)}."
    ]
    looked = [spot for spot in field.spots if spot.family]
    tried = [spot for spot in looked if not spot.unmeasured]
    if tried:
        beside = [spot.over_constants or spot.over_mix for spot in tried]
        above, below = sum(one.low > 0 for one in beside), sum(one.high < 0 for one in beside)
        constant = sum(len(spot.shares) == 1 for spot in tried)
        said.append(
            f"{field.benchmark}: of {len(tried)} settings of policies {above} are shown above the best random mix of "
            f"constants at their cost and {below} below; {constant} take one fixer for every task."
        )
    if unknown := [spot.unmeasured for spot in looked if spot.unmeasured]:
        said.append(
            f"{field.benchmark}: {len(unknown)} further settings take {min(unknown)} to {max(unknown)} pairs that "
            "nobody measured, so that only bounds can be given."
        )
    if field.differs:
        others = [f"{spot.name}: {field.differs[spot.name]}" for spot in looked if spot.family == "worth, blend"]
        said += [
            _router_finding(by_name[ROUTER]),
            f"Of the paper's {field.tasks} decisions, the value policy on the same probabilities makes others on: "
            f"{'; '.join(others)}.",
        ]
    return said


def _router_finding(router: PolicyPoint) -> str:
    handed = (
        f", and {points(router.over_constants)} where that with handoff may be mixed in"
        if router.over_constants
        else ""
    )
    return (
        f"The paper's router solves {interval(router.solve)} at {usd_interval(router.usd)} a task: "
        f"{points(router.over_mix)} points over a mix of fixers alone{handed}."
    )


def _pool_findings(one: PoolCensus) -> list[str]:
    least, median, most = one.oracle_gain
    first = one.ablations[0]
    said = [
        f"{one.benchmark}, {len(one.pools)} pools of {SIZE}: in {percent(one.constant)} one fixer is both cheapest and "
        f"strongest, so a constant is the whole hull; in {percent(one.lead_not_shown)} the strongest is not shown to "
        f"beat the cheapest. Perfect routing would add {points(median)} points to mixing in the median ("
        f"{points(least)} to {points(most)}), luck of single attempts included.",
        f"{one.benchmark}: at theta {first.theta:.2f} the cheapest fixer's solve rate reaches it in "
        f"{percent(first.cheapest)} of the pools, where `no router` is the cheapest fixer: {percent(first.saved)} "
        f"cheaper than the strongest, at {points(-first.given_up)} points, medians over pools.",
    ]
    if one.routed:
        above = max(share for _, share, _, _ in one.routed.values())
        below = [share for _, _, share, _ in one.routed.values()]
        said.append(
            f"{one.benchmark}: the value policy by counts of the text is shown above the mix in {percent(above)} of "
            f"the pools at best, and below it in {percent(min(below))} to {percent(max(below))}, by what "
            "a solve is worth."
        )
    return said


def _second_finding(one: Escalation) -> str:
    perfect = next(each for each in one.grid if each.recall == 1 and each.false_alarms == 0)
    named = one.named[0]
    return (
        f"A second try on {one.benchmark} ({one.first}, then {one.second}; simulated): {points(perfect.over_mix)} "
        f"points over the mix under a perfect verifier, {points(named.over_mix)} under {named.verifier}; with 10% "
        f"false alarms the least recall that is enough is {or_never(one.break_even['0.1'])}."
    )


def _notes(result: Frontier) -> list[str]:
    said = [
        "Intervals are 95%, from resampling tasks (percentile; $/solve by BCa); settings are held. Each way beside a "
        "mix is one of many looks, and none is adjusted: read an interval that just leaves 0 out with care.",
        "The oracle takes for each task the cheapest fixer that solves it, and where none does the cheapest.",
        f"Policies: `theta` walks from the cheapest up, `a solve` weighs what it is worth. `{COUNTS}` and résumés are "
        "held out by repository, expected costs too.",
    ]
    return [*said, *(f"Left out: {line}" for line in result.left_out)]
