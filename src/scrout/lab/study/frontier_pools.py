"""Every pool of four: what perfect routing would add to drawing fixers at random, and what a constant gives up.

One attempt was made of each pair, so the oracle also picks the luckier of two equals: its gain is an upper bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats as scipy_stats

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.audit import containment_of
from scrout.lab.study.policies import Policy, over_mix
from scrout.lab.study.stats import Statistic, bootstraps, mcnemar, mean_of
from scrout.route.calibrate import Worth
from scrout.route.outcome_table import Bools, Ints, OutcomeTable
from scrout.route.stats import Floats, hull, hull_at, resamples
from scrout.text import percent

SIZE = 4
DRAWS = 500
CHUNK = 50
THETAS = (0.30, 0.50, 0.60, 0.70)
LEVEL = 0.05


class Pool(FrozenModel):
    """Four fixers."""

    fixers: tuple[str, ...]
    cheapest: str
    strongest: str
    lead: float
    """The strongest's solve rate less the cheapest's."""
    lead_p: float
    """Exact McNemar."""
    price: float | None
    """How often the cheapest could be paid for one of the strongest; None: it is free."""
    corners: int
    """Of the hull; 1: the cheapest is the strongest, and a constant is all there is."""
    containment: float
    """Mean over pairs of what both solve as a share of what the weaker one does."""
    oracle_gain: Estimate
    """The oracle's solve rate less that of the best random mix at the same cost."""
    oracle_usd: float
    routed_gain: dict[str, Estimate]
    """The same of the value policy on held-out probabilities, by what a solve is worth; empty: nothing is seen of
    tasks.
    """


class Ablation(FrozenModel):
    """No router: always the cheapest fixer whose solve rate reaches theta, else the strongest."""

    theta: float
    cheapest: float
    """Share of pools in which that is the cheapest fixer."""
    strongest: float
    on_hull: float
    """Share of pools in which no random mix does better at its cost."""
    below_hull: tuple[float, float]
    """Points that it lies below: median and worst, as solve rates."""
    saved: float
    """Median share of the strongest's cost that it saves."""
    given_up: float
    """Median of the solve rate that it gives up for that."""


class PoolKind(FrozenModel):
    """Pools that leave a router alike much."""

    name: str
    share: float
    """Of all pools."""
    oracle_gain: float
    """Median over them."""
    routed_gain: dict[str, float]
    """Median over them, by what a solve is worth."""


class PoolCensus(FrozenModel):
    """All pools of one benchmark."""

    benchmark: str
    tasks: int
    models: int
    pools: tuple[Pool, ...]
    constant: float
    """Share of pools whose cheapest fixer is also the strongest."""
    lead_not_shown: float
    """Share of pools in which the strongest is not shown to beat the cheapest, unadjusted."""
    oracle_gain: tuple[float, float, float]
    """Least, median, most over pools."""
    goes_with: dict[str, float]
    """Spearman's correlation of the oracle's gain with what a pool is like; pools overlap, so there is no p."""
    kinds: tuple[PoolKind, ...]
    ablations: tuple[Ablation, ...]
    routed: dict[str, tuple[float, float, float, float]]
    """By worth: median gain over pools, share of pools above 0 with their interval, below 0, and not a constant."""


def pool_census(
    benchmark: str, table: OutcomeTable, probabilities: Floats | None, folds: Ints | None, worths: Mapping[str, float]
) -> PoolCensus:
    """Each pool of four fixers of a table in which every pair is measured."""
    if len(table.fixers) < SIZE:
        raise StudyError(f"{benchmark} has {len(table.fixers)} fixers on the same tasks, and a pool takes {SIZE}.")
    pools = np.array(list(itertools.combinations(range(len(table.fixers)), SIZE)))
    solves, costs = table.resolved.mean(axis=0), table.cost.mean(axis=0)
    oracle_solved, oracle_cost = _oracle(table, pools)
    oracle_gain = _gains(table, pools, oracle_solved, oracle_cost)
    routed, varied = _routed(table, pools, probabilities, folds, worths)
    mcnemars = _mcnemars(table.resolved)
    everything = np.full((1, len(table.ids)), 1 / len(table.ids))
    found = []
    for at, pool in enumerate(pools):
        cheapest, strongest = _ends(pool, solves, costs)
        found.append(
            Pool(
                fixers=tuple(table.fixers[one] for one in pool),
                cheapest=table.fixers[cheapest],
                strongest=table.fixers[strongest],
                lead=float(solves[strongest] - solves[cheapest]),
                lead_p=float(mcnemars[cheapest, strongest]),
                price=float(costs[strongest] / costs[cheapest]) if costs[cheapest] > 0 else None,
                corners=len(hull(np.column_stack([costs[pool], solves[pool]]))),
                containment=float(containment_of(table.resolved[:, pool])(everything)[0]),
                oracle_gain=oracle_gain[at],
                oracle_usd=float(oracle_cost[:, at].mean()),
                routed_gain={name: gains[at] for name, gains in routed.items()},
            )
        )
    gains = np.array([one.oracle_gain.value for one in found])
    return PoolCensus(
        benchmark=benchmark,
        tasks=len(table.ids),
        models=len(table.fixers),
        pools=tuple(found),
        constant=float(np.mean([one.corners == 1 for one in found])),
        lead_not_shown=float(np.mean([one.lead_p >= LEVEL for one in found])),
        oracle_gain=(float(gains.min()), float(np.median(gains)), float(gains.max())),
        goes_with=_goes_with(found),
        kinds=_kinds(found),
        ablations=tuple(_ablation(theta, pools, solves, costs) for theta in THETAS),
        routed={name: _summed(rows, varied[name]) for name, rows in routed.items()},
    )


def _oracle(table: OutcomeTable, pools: Ints) -> tuple[Floats, Floats]:
    """A row a task, a column a pool: the cheapest that solves it; where none does, the cheapest."""
    resolved, cost = table.resolved[:, pools], table.cost[:, pools]
    solved = np.asarray(resolved.any(axis=2))
    paid = np.where(solved, np.where(resolved, cost, np.inf).min(axis=2), cost.min(axis=2))
    return solved.astype(np.float64), paid


def _routed(
    table: OutcomeTable, pools: Ints, probabilities: Floats | None, folds: Ints | None, worths: Mapping[str, float]
) -> tuple[dict[str, list[Estimate]], dict[str, Bools]]:
    """The value policy on every pool, and whether it takes more than one fixer."""
    if probabilities is None or folds is None:
        return {}, {}
    rows, rule = np.arange(len(table.ids)), Worth()
    shape = len(worths), len(rows), len(pools)
    solved, paid, varied = np.zeros(shape), np.zeros(shape), np.zeros((len(worths), len(pools)), dtype=bool)
    values = np.array(list(worths.values()))
    means = {fold: table.rows(folds != fold).mean_costs for fold in np.unique(folds)}
    for at, pool in enumerate(pools):
        chosen = np.zeros((len(worths), len(rows)), dtype=np.int64)
        for fold, costs in means.items():
            new = folds == fold
            chosen[:, new] = pool[rule.choices(probabilities[new][:, pool], costs[pool], values)]
        solved[:, :, at], paid[:, :, at] = table.resolved[rows, chosen], table.cost[rows, chosen]
        varied[:, at] = (chosen != chosen[:, :1]).any(axis=1)
    gains = {name: _gains(table, pools, solved[at], paid[at]) for at, name in enumerate(worths)}
    return gains, {name: varied[at] for at, name in enumerate(worths)}


def _gains(table: OutcomeTable, pools: Ints, solved: Floats, paid: Floats) -> list[Estimate]:
    """Over the best random mix at the same cost, pool by pool, with intervals over tasks."""
    draws = resamples(len(table.ids), DRAWS)
    everything = np.full((1, len(table.ids)), 1 / len(table.ids))
    drawn = np.concatenate(
        [_over_mix(table, pools, solved, paid, draws[at : at + CHUNK]) for at in range(0, len(draws), CHUNK)]
    )
    values = _over_mix(table, pools, solved, paid, everything)[0]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return [
        Estimate(value=round(float(v), 12) + 0.0, low=round(float(a), 12) + 0.0, high=round(float(b), 12) + 0.0)
        for v, a, b in zip(values, low, high, strict=True)
    ]


def _over_mix(table: OutcomeTable, pools: Ints, solved: Floats, paid: Floats, shares: Floats) -> Floats:
    costs, solves = (shares @ table.cost)[:, pools], (shares @ table.resolved)[:, pools]
    return np.asarray(shares @ solved - hull_at(costs, solves, np.maximum(shares @ paid, costs.min(axis=2))))


def _ablation(theta: float, pools: Ints, solves: Floats, costs: Floats) -> Ablation:
    rows = []
    for pool in pools:
        cheapest, strongest = _ends(pool, solves, costs)
        enough = [at for at in pool if solves[at] >= theta]
        taken = min(enough, key=lambda at: (costs[at], -solves[at])) if enough else strongest
        below = float(hull_at(costs[pool], solves[pool], costs[taken])) - solves[taken]
        saved = 1 - costs[taken] / costs[strongest] if costs[strongest] > 0 else 0.0
        rows.append((taken == cheapest, taken == strongest, below, saved, solves[strongest] - solves[taken]))
    first, last, below, saved, given_up = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return Ablation(
        theta=theta,
        cheapest=float(first.mean()),
        strongest=float(last.mean()),
        on_hull=float((below < 1e-9).mean()),
        below_hull=(float(np.median(below)) + 0.0, float(below.max()) + 0.0),
        saved=float(np.median(saved)),
        given_up=float(np.median(given_up)),
    )


def _ends(pool: Ints, solves: Floats, costs: Floats) -> tuple[int, int]:
    cheapest = min(pool.tolist(), key=lambda at: (costs[at], -solves[at]))
    return cheapest, min(pool.tolist(), key=lambda at: (-solves[at], costs[at]))


def _mcnemars(resolved: Bools) -> Floats:
    n = resolved.shape[1]
    found = np.ones((n, n))
    for a, b in itertools.combinations(range(n), 2):
        one, other = resolved[:, a], resolved[:, b]
        found[a, b] = found[b, a] = mcnemar(int((one & ~other).sum()), int((other & ~one).sum()))
    return found


def _goes_with(pools: Sequence[Pool]) -> dict[str, float]:
    traits = {
        "containment": [(one.containment, one.oracle_gain.value) for one in pools],
        "the strongest's lead": [(one.lead, one.oracle_gain.value) for one in pools],
        "the strongest's price": [(one.price, one.oracle_gain.value) for one in pools if one.price is not None],
    }
    found = {}
    for name, pairs in traits.items():
        values, gains = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        if values.size and np.ptp(values) > 0 and np.ptp(gains) > 0:
            found[name] = float(scipy_stats.spearmanr(values, gains).statistic)
    return found


def _kinds(pools: Sequence[Pool]) -> tuple[PoolKind, ...]:
    names = {
        "one fixer is cheapest and strongest": [one for one in pools if one.corners == 1],
        "the strongest's lead is not shown": [one for one in pools if one.corners > 1 and one.lead_p >= LEVEL],
        "the strongest's lead is shown": [one for one in pools if one.corners > 1 and one.lead_p < LEVEL],
    }
    return tuple(
        PoolKind(
            name=name,
            share=len(some) / len(pools),
            oracle_gain=float(np.median([one.oracle_gain.value for one in some])),
            routed_gain={
                worth: float(np.median([one.routed_gain[worth].value for one in some])) for worth in some[0].routed_gain
            },
        )
        for name, some in names.items()
        if some
    )


def _summed(gains: Sequence[Estimate], varied: Bools) -> tuple[float, float, float, float]:
    above, below = (float(np.mean([one.low > 0 for one in gains])), float(np.mean([one.high < 0 for one in gains])))
    return float(np.median([one.value for one in gains])), above, below, float(varied.mean())


RECALLS = tuple(at / 10 for at in range(11))
FALSE_ALARMS = (0.0, 0.05, 0.1, 0.2, 0.4)
FIRST_USD = 3.0
"""What a solve is worth in the first try: little, since a second one may follow."""
ESCALATION_DRAWS = 2000

GATE_RECALL = 228 / 231
"""True claims that the gate keeps (docs/research/gate.md, bench/results/gate.json): the most that a reproduction can
catch, reached if every wrong patch fails it."""
GATE_FALSE = 0.0035
"""False claims that it keeps, at most (95%)."""
COVERAGES = (0.5, 1.0)
"""Shares of tasks with a reproduction, beside what was measured."""


class SecondTry(FrozenModel):
    """A second try under one verifier."""

    verifier: str
    """Its name; empty: a place of the grid."""
    recall: float
    """Wrong patches that it catches."""
    false_alarms: float
    """Right patches that it suspects."""
    precision: float | None
    """Of what it suspects, the share that is wrong; None: it suspects nothing."""
    again: float
    """How often the second fixer gets a task."""
    solve: Estimate
    usd: Estimate
    over_mix: Estimate
    """Solve rate less that of the best random mix of fixers at the same cost, one try each."""


class Escalation(FrozenModel):
    """First one fixer, then another."""

    benchmark: str
    first: str
    second: str
    coverage: float | None
    """Share of scouted tasks whose reproduction the gate kept; None: none was scouted."""
    grid: tuple[SecondTry, ...]
    named: tuple[SecondTry, ...]
    """Under the gate as it was measured, by how many tasks have a reproduction."""
    break_even: dict[str, float | None]
    """By false alarms, the least recall of the grid from which the gain's interval lies above 0; None: none."""


def escalation(benchmark: str, alone: Sequence[Policy], coverage: float | None) -> Escalation:
    """The fixer that a low worth takes, then the strongest of the others."""
    solves, costs = (np.array([getattr(way, name).mean() for way in alone]) for name in ("solved", "cost"))
    first = int(Worth().choices(solves[None, :], costs, np.array([FIRST_USD]))[0, 0])
    others = [at for at in range(len(alone)) if at != first]
    second = max(others, key=lambda at: (solves[at], -costs[at]))
    places = [("", recall, false) for false in FALSE_ALARMS for recall in RECALLS]
    grid = _second_tries(alone, alone[first], alone[second], places)
    shares = [*([coverage] if coverage is not None else []), *COVERAGES]
    gates = [
        (f"the gate, {percent(share, 0)} of tasks with a reproduction", share * GATE_RECALL, share * GATE_FALSE)
        for share in shares
    ]
    return Escalation(
        benchmark=benchmark,
        first=alone[first].name,
        second=alone[second].name,
        coverage=coverage,
        grid=grid,
        named=_second_tries(alone, alone[first], alone[second], gates),
        break_even={f"{false:g}": _break_even(grid, false) for false in FALSE_ALARMS},
    )


def second_try(first: Policy, second: Policy, recall: float, false_alarms: float) -> Policy:
    """What comes of both, over many runs of the verifier."""
    again = np.where(first.solved > 0, false_alarms, recall)
    return Policy(
        f"{first.name}, then {second.name}",
        "escalation",
        (1 - again) * first.solved + again * second.solved,
        first.cost + again * second.cost,
    )


def _second_tries(
    alone: Sequence[Policy], first: Policy, second: Policy, places: Sequence[tuple[str, float, float]]
) -> tuple[SecondTry, ...]:
    wanted: dict[str, Statistic] = {}
    for at, (_, recall, false) in enumerate(places):
        way = second_try(first, second, recall, false)
        wanted |= {f"{at} s": mean_of(way.solved), f"{at} $": mean_of(way.cost), f"{at} mix": over_mix(way, alone)}
    found = bootstraps(len(first.solved), wanted, draws=ESCALATION_DRAWS)
    right = float(first.solved.mean())
    made = []
    for at, (name, recall, false) in enumerate(places):
        caught, suspected = recall * (1 - right), false * right
        made.append(
            SecondTry(
                verifier=name,
                recall=recall,
                false_alarms=false,
                precision=caught / (caught + suspected) if caught + suspected > 0 else None,
                again=caught + suspected,
                solve=found[f"{at} s"],
                usd=found[f"{at} $"],
                over_mix=found[f"{at} mix"],
            )
        )
    return tuple(made)


def _break_even(grid: Sequence[SecondTry], false_alarms: float) -> float | None:
    """From there on to full recall the interval stays above 0."""
    least = None
    for one in sorted((one for one in grid if one.false_alarms == false_alarms), key=lambda one: -one.recall):
        if one.over_mix.low <= 0:
            break
        least = one.recall
    return least
