"""What the paper's router would solve and cost at each threshold, by the receipts.

Only some pairs of task and fixer were run with the handoff; stand_in.py has the paper's rule for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.replicate.tables import Column
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import FIXERS, OPUS, PaperRouting
from scrout.lab.study.sources.stand_in import stood_in
from scrout.lab.study.stats import Statistic, bootstraps, mean_of, ratio_of, wilson
from scrout.route.calibrate import Walk


class Threshold(FrozenModel):
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


class Probabilities(FrozenModel):
    """What one head says of the cheapest fixer."""

    head: str
    sd: float
    lowest: float
    highest: float


def sweep(
    benchmark: Benchmark, solo: ArmOutcomes, routing: PaperRouting, thetas: Sequence[float]
) -> tuple[Threshold, ...]:
    """A row a threshold; `solo` fills gaps. What reaches none goes to the most capable fixer, as the paper has it."""
    walk = Walk(FIXERS.index(OPUS))
    every = walk.choices(routing.blend, np.arange(len(FIXERS), dtype=np.float64), np.array(thetas))
    pairs = stood_in(benchmark, solo)
    played = [pairs.taken(taken) for taken in every]
    statistics: dict[str, Statistic] = {}
    for at, one in enumerate(played):
        statistics |= {f"task {at}": mean_of(one.cost), f"solve {at}": ratio_of(one.cost, one.resolved)}
    drawn = bootstraps(len(benchmark.ids), statistics)
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
            usd_task_priced=float(one.likely.mean()),
        )
        for at, (theta, taken, one) in enumerate(zip(thetas, every, played, strict=True))
    )


def routed(benchmark: Benchmark, routing: PaperRouting) -> Column:
    """The router as it was run, with what its handoffs cost."""
    chosen = np.array([FIXERS.index(fixer) for fixer in routing.decisions])
    played = stood_in(benchmark, benchmark.arm("solo")).taken(chosen)
    return Column("router", played.resolved, played.cost, alone=False)


def probabilities(routing: PaperRouting) -> tuple[Probabilities, ...]:
    """How far each head tells tasks apart."""
    heads = {"text": routing.text, "state": routing.state, "blend": routing.blend}
    return tuple(
        Probabilities(
            head=name,
            sd=float(said[:, 0].std()),
            lowest=float(said[:, 0].min()),
            highest=float(said[:, 0].max()),
        )
        for name, said in heads.items()
    )
