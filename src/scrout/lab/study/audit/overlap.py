"""How far the fixers of a pool solve the same tasks: what is left for a router to win."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.stats import Statistic, bootstraps, mean_of, ratio_of
from scrout.records import Arm
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats

POOL = 4
"""Fixers of a pool, where every pool of a benchmark is looked at."""
MAX_POOLS = 5_000
"""Of one benchmark; more fixers than that takes are more than anyone routes among."""


class Overlap(FrozenModel):
    """A pool on the tasks that all of it tried. All figures are fractions, the shell too."""

    benchmark: str
    fixers: tuple[str, ...]
    n: int
    """Tasks that all of them tried."""
    best_fixer: str
    best: float
    """Share that the strongest one solves."""
    containment: float | None
    """Mean over the pairs: of what the weaker one solves, the share that the other does too. None: one solves none."""
    shell: float | None
    """Of the tasks that some solve and others don't, the share that exactly one solves. None: there is no such task."""
    any: float
    """Share that at least one solves: as much as a router that never errs."""


class OverlapIntervals(FrozenModel):
    """The same figures with intervals over resampled tasks."""

    best: Estimate
    containment: Estimate | None
    shell: Estimate | None


class Quantiles(FrozenModel):
    """How a figure is spread over pools."""

    lowest: float
    quarter: float
    median: float
    three_quarters: float
    highest: float


class PoolsOfFour(FrozenModel):
    """Every pool of four of one benchmark."""

    benchmark: str
    fixers: int
    pools: int
    fewest_tasks: int
    """Of any pool: it is measured on the tasks that all of it tried."""
    containment: Quantiles
    shell: Quantiles
    headroom: Quantiles
    """What a router that never errs would solve beyond the best fixer."""
    below_published: float | None
    """Share of the pools with a lower containment than the published one's. None: there is none."""
    each: tuple[Overlap, ...]


def overlap(name: str, played: ArmOutcomes) -> Overlap:
    """The figures of a pool; every pair must be measured."""
    _refuse_odd(name, played)
    everything = np.full((1, len(played.resolved)), 1 / len(played.resolved))
    rates = played.resolved.mean(axis=0)
    return Overlap(
        benchmark=name,
        fixers=played.fixers,
        n=len(played.resolved),
        best_fixer=played.fixers[int(rates.argmax())],
        best=float(rates.max()),
        containment=_known(float(containment_of(played.resolved)(everything)[0])),
        shell=_known(float(shell_of(played.resolved)(everything)[0])),
        any=float(played.resolved.any(axis=1).mean()),
    )


def spread(played: ArmOutcomes) -> OverlapIntervals:
    """The figures with intervals. The strongest fixer is the one that is so on all tasks."""
    resolved = played.resolved
    strongest = int(resolved.mean(axis=0).argmax())
    found = bootstraps(
        len(resolved),
        {
            "best": mean_of(resolved[:, strongest]),
            "containment": containment_of(resolved),
            "shell": shell_of(resolved),
        },
    )
    containment, shell = (found[key] if np.isfinite(found[key].value) else None for key in ("containment", "shell"))
    return OverlapIntervals(best=found["best"], containment=containment, shell=shell)


def pools(benchmark: Benchmark, arm: Arm, published: Overlap | None = None) -> PoolsOfFour | str:
    """Every pool of four, each on the tasks that all four tried; or why there is none."""
    played = benchmark.arm(arm)
    every = comb(len(played.fixers), POOL)
    if every > MAX_POOLS:
        return (
            f"{benchmark.name}, {arm}: {len(played.fixers)} fixers make {every} pools of {POOL}, more than are tried."
        )
    each = tuple(
        overlap(benchmark.name, benchmark.pool(pool, arm))
        for pool in combinations(played.fixers, POOL)
        if played.only(pool).measured.all(axis=1).any()
    )
    containments = [one.containment for one in each if one.containment is not None]
    shells = [one.shell for one in each if one.shell is not None]
    if not containments or not shells:
        return f"{benchmark.name}, {arm}: no pool of {POOL} whose fixers solve some tasks, and not all the same ones."
    beside = published.containment if published else None
    return PoolsOfFour(
        benchmark=benchmark.name,
        fixers=len(played.fixers),
        pools=len(each),
        fewest_tasks=min(one.n for one in each),
        containment=_quantiles(containments),
        shell=_quantiles(shells),
        headroom=_quantiles([one.any - one.best for one in each]),
        below_published=float(np.mean([one < beside for one in containments])) if beside is not None else None,
        each=each,
    )


def _quantiles(values: Sequence[float]) -> Quantiles:
    ends = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return Quantiles(lowest=ends[0], quarter=ends[1], median=ends[2], three_quarters=ends[3], highest=ends[4])


def containment_of(resolved: Bools) -> Statistic:
    """Mean over the pairs of fixers: tasks that both solve, by those that the weaker one does."""
    solved = resolved.astype(np.float64)
    pairs = list(combinations(range(resolved.shape[1]), 2))
    both = np.column_stack([solved[:, a] * solved[:, b] for a, b in pairs])

    def containment(shares: Floats) -> Floats:
        each = shares @ solved
        weaker = np.column_stack([np.minimum(each[:, a], each[:, b]) for a, b in pairs])
        together = shares @ both
        parts = np.divide(together, weaker, out=np.full(together.shape, np.nan), where=weaker > 0)
        return np.asarray(parts.mean(axis=1), dtype=np.float64)

    return containment


def shell_of(resolved: Bools) -> Statistic:
    """Tasks that exactly one solves, by those that some but not all do."""
    solvers = resolved.sum(axis=1)
    return ratio_of(solvers == 1, (solvers > 0) & (solvers < resolved.shape[1]))


def _refuse_odd(name: str, played: ArmOutcomes) -> None:
    if len(played.fixers) < 2:
        raise StudyError(
            f"{name}: a pool of {len(played.fixers)} ({', '.join(played.fixers)}) leaves nothing to compare. "
            "Add outcomes of another fixer on the same tasks."
        )
    if not len(played.resolved) or not played.measured.all():
        raise StudyError(
            f"{name}: not every task was tried by all of {', '.join(played.fixers)}. Leave the others out."
        )


def _known(figure: float) -> float | None:
    return figure if np.isfinite(figure) else None
