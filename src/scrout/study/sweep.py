"""What the paper's router would solve and cost at each threshold, by the receipts.

Only some pairs of task and fixer were run with the handoff. For the others the paper takes the fixer's outcome and cost
alone, and where there is none either, no cost and no solve. That rule gives its figures; what it hides is beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scrout.money import Record
from scrout.route.calibrate import Walk
from scrout.route.stats import Estimate, Floats
from scrout.route.table import Bools, Ints
from scrout.study.benchmark import Benchmark, Played
from scrout.study.paper import FIXERS, OPUS, SHARED_USD, Routing
from scrout.study.stats import Statistic, bootstraps, mean_of, ratio_of, wilson
from scrout.study.tables import Column


class Threshold(Record):
    """The router at one threshold."""

    theta: float
    split: dict[str, int]
    """How many tasks each fixer gets."""
    unmeasured: int
    """Tasks whose fixer was not run with the handoff there."""
    solves: int
    """By the paper's rule."""
    least: Estimate
    """Share solved if all unmeasured ones fail, with the interval of a sample."""
    most: Estimate
    """The same if all of them succeed."""
    usd_task: Estimate
    """By the paper's rule."""
    usd_solve: Estimate | None
    """None: nothing is solved."""
    usd_task_priced: float
    """Dollars a task if what has no cost at all costs as much as that fixer's measured attempts do."""


class Chances(Record):
    """What one head says of the cheapest fixer."""

    head: str
    sd: float
    lowest: float
    highest: float


def sweep(benchmark: Benchmark, solo: Played, routing: Routing, thetas: Sequence[float]) -> tuple[Threshold, ...]:
    """A row a threshold; `solo` fills gaps. What reaches none goes to the most capable fixer, as the paper has it."""
    walk = Walk(FIXERS.index(OPUS))
    every = walk.choices(routing.blend, np.arange(len(FIXERS), dtype=np.float64), np.array(thetas))
    played = [_play(benchmark, solo, taken) for taken in every]
    drawn = bootstraps(
        len(benchmark.ids),
        {f"{what} {at}": of for at, one in enumerate(played) for what, of in one.statistics.items()},
    )
    return tuple(
        Threshold(
            theta=theta,
            split={fixer: int((taken == column).sum()) for column, fixer in enumerate(FIXERS)},
            unmeasured=int((~one.measured).sum()),
            solves=int(one.resolved.sum()),
            least=wilson(int((one.resolved & one.measured).sum()), len(taken)),
            most=wilson(int((one.resolved | ~one.measured).sum()), len(taken)),
            usd_task=drawn[f"task {at}"],
            usd_solve=drawn[f"solve {at}"] if one.resolved.any() else None,
            usd_task_priced=float(one.priced.mean()),
        )
        for at, (theta, taken, one) in enumerate(zip(thetas, every, played, strict=True))
    )


def routed(benchmark: Benchmark, routing: Routing) -> Column:
    """The router as it was run, with what its handoffs cost."""
    played = _play(benchmark, benchmark.arm("solo"), np.array([FIXERS.index(fixer) for fixer in routing.decisions]))
    return Column("router", played.resolved, played.cost, alone=False)


def chances(routing: Routing) -> tuple[Chances, ...]:
    """How far each head tells tasks apart."""
    heads = {"text": routing.text, "state": routing.state, "blend": routing.blend}
    return tuple(
        Chances(
            head=name,
            sd=float(said[:, 0].std()),
            lowest=float(said[:, 0].min()),
            highest=float(said[:, 0].max()),
        )
        for name, said in heads.items()
    )


@dataclass(frozen=True, eq=False)
class _Play:
    """The fixer of each task, by the paper's rule. Costs have each task's part of what was paid once for all."""

    resolved: Bools
    cost: Floats
    measured: Bools
    """Whether it was run with the handoff there."""
    priced: Floats
    """Cost, with the fixer's mean where nothing is known."""

    @property
    def statistics(self) -> dict[str, Statistic]:
        return {"task": mean_of(self.cost), "solve": ratio_of(self.cost, self.resolved)}


def _play(benchmark: Benchmark, solo: Played, taken: Ints) -> _Play:
    rows, handed = np.arange(len(taken)), benchmark.arm("handoff").only(FIXERS)
    measured = handed.measured[rows, taken]
    resolved, cost = handed.resolved[rows, taken] & measured, np.where(measured, handed.cost[rows, taken], np.nan)
    for at, fixer in enumerate(FIXERS):
        if fixer in solo.fixers:
            alone, column = ~measured & (taken == at), solo.column(fixer)
            resolved = np.where(alone, solo.resolved[:, column], resolved)
            cost = np.where(alone, solo.cost[:, column], cost)
    known = handed.measured & np.isfinite(handed.cost)
    means = np.where(known, handed.cost, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    shared = SHARED_USD / len(taken)
    priced = np.where(np.isnan(cost), means[taken], cost)
    return _Play(resolved.astype(bool), np.nan_to_num(cost) + shared, measured, priced + shared)
