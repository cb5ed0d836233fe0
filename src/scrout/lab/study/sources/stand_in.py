"""The paper's rule for pairs of a task and a fixer that were never run with the handoff.

The fixer's solo episode stands in; where there is none either, as for Gemini 3 Flash, the pair costs nothing and solves
nothing. That rule gives the published figures. What it hides is kept beside it: which pairs were measured, and what
each costs with the mean of its fixer's measured attempts in place of nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import FIXERS, SHARED_USD
from scrout.route.outcome_table import Bools, Ints
from scrout.route.stats import Floats


@dataclass(frozen=True, eq=False)
class StoodIn:
    """A row a task, a column for each of `FIXERS`. Costs have each task's part of what was paid once for all."""

    resolved: Bools
    cost: Floats
    likely: Floats
    """Cost, with the fixer's mean where nothing is known."""
    measured: Bools
    """Whether the pair was run with the handoff."""

    def taken(self, choices: Ints) -> StoodIn:
        """The fixer of each task alone, as columns without rows."""
        at = np.arange(len(choices)), choices
        return StoodIn(self.resolved[at], self.cost[at], self.likely[at], self.measured[at])


def stood_in(benchmark: Benchmark, solo: ArmOutcomes) -> StoodIn:
    """Every pair, by the rule. `solo` has the episodes that may stand in."""
    handed = benchmark.arm("handoff").only(FIXERS)
    resolved, cost = handed.resolved & handed.measured, np.where(handed.measured, handed.cost, 0.0)
    likely = cost.copy()
    for at, fixer in enumerate(FIXERS):
        missing = ~handed.measured[:, at]
        if fixer in solo.fixers:
            column = solo.column(fixer)
            resolved[missing, at], cost[missing, at] = solo.resolved[missing, column], solo.cost[missing, column]
            likely[missing, at] = cost[missing, at]
        elif not missing.all():
            likely[missing, at] = np.nanmean(handed.cost[~missing, at])
    shared = SHARED_USD / len(benchmark.ids)
    return StoodIn(resolved, cost + shared, likely + shared, handed.measured)
