"""The frontier's tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrout.lab.study.frontier.escalation import FALSE_ALARMS, Escalation
from scrout.lab.study.frontier.fields import CostPlane
from scrout.lab.study.frontier.figures import or_never
from scrout.lab.study.frontier.pools import SIZE, Pool, PoolCensus
from scrout.lab.study.report import ReportTable, interval, points, usd_interval
from scrout.text import percent, usd


def plane(field: CostPlane) -> ReportTable:
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


def pools_sheet(found: Sequence[PoolCensus]) -> ReportTable:
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


def kinds(found: Sequence[PoolCensus]) -> ReportTable:
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


def extremes(found: Sequence[PoolCensus]) -> ReportTable:
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


def ablations(found: Sequence[PoolCensus]) -> ReportTable:
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


def routed(found: Sequence[PoolCensus]) -> list[ReportTable]:
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


def seconds(found: Sequence[Escalation]) -> ReportTable:
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


def break_even(found: Sequence[Escalation]) -> ReportTable:
    """How good a verifier has to be."""
    rows = [[one.benchmark, *(or_never(one.break_even[f"{false:g}"]) for false in FALSE_ALARMS)] for one in found]
    return ReportTable(
        "The least recall from which a second try beats a random mix",
        ["Benchmark", *(f"{percent(false, 0)} false alarms" for false in FALSE_ALARMS)],
        rows,
        "On a grid of tenths; the interval of the gain lies above 0 from there on.",
    )
