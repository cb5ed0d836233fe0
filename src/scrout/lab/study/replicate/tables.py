"""The paper's tables about any benchmark: what each way solves and costs, what the handoff changes, how the scout does.

Each figure has its interval: Wilson's for a share of tasks, else the percentiles over resampled tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.replicate.scouted import Claims, Located, claims, located
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.stats import Paired, Statistic, bootstrap, bootstraps, mcnemar, mean_of, paired, ratio_of, wilson
from scrout.records import Arm
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats, hull_at

MOST = 0.5
"""A way that fewer of the tasks were tried with is left out, else it would take the others' tasks with it."""


class ArmRow(FrozenModel):
    """One way to handle every task, such as a fixer alone."""

    name: str
    alone: bool
    """Whether it is a fixer alone."""
    tasks: int
    solves: int
    rate: Estimate
    usd_task: Estimate | None
    """None: no cost is known, as below."""
    usd_solve: Estimate | None
    """None, too: it solves nothing."""
    over_mix: Estimate | None
    """Solve rate less that of the best random mix of fixers alone at the same cost. None: this is one of them, or no
    mix is as cheap."""


class Pair(FrozenModel):
    """Two fixers alone, on the tasks that both tried."""

    first: str
    second: str
    paired: Paired


class PairedEffect(FrozenModel):
    """A fixer alone, then with the handoff, on the tasks that it tried in both ways."""

    fixer: str
    """`pooled`: all of them, on the tasks that all tried in both ways."""
    paired: Paired


class Attempts(FrozenModel):
    """What a fixer's attempts in one arm took."""

    fixer: str
    arm: Arm
    n: int
    solved: int
    usd: float | None
    """All of them together; None: unknown."""
    most_expensive_usd: float | None
    mean_steps: float | None
    at_cap: int | None
    """Attempts that took as many steps as are allowed; None: steps or the cap are unknown."""
    solved_at_cap: int | None


class PaperTables(FrozenModel):
    """All of them, about one benchmark. Empty ones are of what it does not have."""

    benchmark: str
    tasks: int
    ways: tuple[ArmRow, ...]
    pairs: tuple[Pair, ...]
    effects: tuple[PairedEffect, ...]
    located: tuple[Located, ...]
    claims: tuple[Claims, ...]
    attempts: tuple[Attempts, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Column:
    """A way's outcomes: a row a task."""

    name: str
    resolved: Bools
    cost: Floats
    """Dollars; nan: unknown."""
    alone: bool
    """Whether it is a fixer alone: the corners of the mixing line."""


def tables(
    benchmark: Benchmark,
    *,
    shared_usd: float = 0.0,
    more: Sequence[Column] = (),
    solved: Bools | None = None,
    cap: int | None = None,
) -> PaperTables:
    """The tables. `shared_usd` is what was paid once for all handoffs and is in no attempt's cost; `more` are further
    ways on all tasks; `solved` tells which tasks count as solved where the scout is looked at."""
    columns, common, notes = _columns(benchmark, shared_usd)
    if not columns and not benchmark.scouted:
        raise StudyError(
            f"{benchmark.source}: neither an outcome nor a handoff. Run a batch first, or name other data."
        )
    return PaperTables(
        benchmark=benchmark.name,
        tasks=len(benchmark.ids),
        ways=ways([*columns, *(_only(column, common) for column in more)]) if columns else (),
        pairs=_pairs(benchmark),
        effects=effects(benchmark),
        located=located(benchmark, solved),
        claims=claims(benchmark),
        attempts=_attempts(benchmark, cap),
        notes=tuple(notes),
    )


def _columns(benchmark: Benchmark, shared_usd: float) -> tuple[list[Column], Bools, list[str]]:
    """The ways that most tasks were tried with, on the tasks that all of these tried."""
    tasks = len(benchmark.ids)
    kept: list[tuple[Arm, str]] = []
    common, notes = np.ones(tasks, dtype=bool), []
    for arm, played in benchmark.played.items():
        for at, fixer in enumerate(played.fixers):
            tried = int(played.measured[:, at].sum())
            if tried >= MOST * tasks:
                kept.append((arm, fixer))
                common &= played.measured[:, at]
            else:
                notes.append(f"{way_name(fixer, arm)} is left out of the main table: {tried} of {tasks} tasks tried.")
    if not common.any():
        return [], common, [*notes, "No task was tried in every way, so there is no main table."]
    columns = []
    for arm, fixer in kept:
        played = benchmark.arm(arm)
        at, alone = played.column(fixer), arm == "solo"
        cost = played.cost[:, at] + (0.0 if alone else shared_usd / tasks)
        columns.append(_only(Column(way_name(fixer, arm), played.resolved[:, at], cost, alone), common))
    return columns, common, notes


def way_name(fixer: str, arm: Arm) -> str:
    """Kimi K2.5 solo"""
    return f"{fixer} {'solo' if arm == 'solo' else f'with {arm}'}"


def _only(column: Column, mask: Bools) -> Column:
    return Column(column.name, column.resolved[mask], column.cost[mask], column.alone)


def ways(columns: Sequence[Column]) -> tuple[ArmRow, ...]:
    """Every way beside the others, over the same draws of tasks."""
    tasks = len(columns[0].resolved)
    costs = {column.name: cost for column in columns if (cost := _priced(column.cost)) is not None}
    alone = [column for column in columns if column.alone and column.name in costs]
    wanted: dict[str, Statistic] = {}
    for column in columns:
        if column.name in costs:
            cost = costs[column.name]
            wanted[f"{column.name} task"] = mean_of(cost)
            wanted[f"{column.name} solve"] = ratio_of(cost, column.resolved)
            if alone and not column.alone:
                corners = np.column_stack([costs[one.name] for one in alone])
                solves = np.column_stack([one.resolved for one in alone]).astype(np.float64)
                wanted[f"{column.name} mix"] = _over_mix(column.resolved, cost, corners, solves)
    found = {name: one if np.isfinite(one.value) else None for name, one in bootstraps(tasks, wanted).items()}
    return tuple(
        ArmRow(
            name=column.name,
            alone=column.alone,
            tasks=tasks,
            solves=int(column.resolved.sum()),
            rate=wilson(int(column.resolved.sum()), tasks),
            usd_task=found.get(f"{column.name} task"),
            usd_solve=found.get(f"{column.name} solve"),
            over_mix=found.get(f"{column.name} mix"),
        )
        for column in columns
    )


def _priced(cost: Floats) -> Floats | None:
    """With the mean in place of a cost that is unknown; None: all are."""
    known = np.isfinite(cost)
    return np.where(known, cost, cost[known].mean()) if known.any() else None


def _over_mix(resolved: Bools, cost: Floats, corners: Floats, solves: Floats) -> Statistic:
    def over(shares: Floats) -> Floats:
        return shares @ resolved.astype(np.float64) - hull_at(shares @ corners, shares @ solves, shares @ cost)

    return over


def _pairs(benchmark: Benchmark) -> tuple[Pair, ...]:
    """Fixers alone, two and two, the one that solves more second."""
    if "solo" not in benchmark.played:
        return ()
    played, found = benchmark.arm("solo"), []
    for pair in combinations(range(len(played.fixers)), 2):
        both = played.measured[:, pair].all(axis=1)
        if both.any():
            first, second = sorted(pair, key=lambda at: int(played.resolved[both, at].sum()))
            compared = paired(played.resolved[both, first], played.resolved[both, second])
            found.append(Pair(first=played.fixers[first], second=played.fixers[second], paired=compared))
    return tuple(found)


def effects(benchmark: Benchmark, tasks: Bools | None = None) -> tuple[PairedEffect, ...]:
    """What the handoff does to each fixer, on some tasks or on all, and to all of them together."""
    if not {"solo", "handoff"} <= set(benchmark.played):
        return ()
    benchmark = benchmark if tasks is None else benchmark.rows(tasks)
    solo, handed = benchmark.arm("solo"), benchmark.arm("handoff")
    fixers = [fixer for fixer in solo.fixers if fixer in handed.fixers]
    first, second = solo.only(fixers), handed.only(fixers)
    both = first.measured & second.measured
    found = [
        PairedEffect(fixer=fixer, paired=paired(first.resolved[mask, at], second.resolved[mask, at]))
        for at, fixer in enumerate(fixers)
        if (mask := both[:, at]).any()
    ]
    everywhere = both.all(axis=1)
    if len(fixers) > 1 and everywhere.any():
        found.append(
            PairedEffect(fixer="pooled", paired=_pooled(first.resolved[everywhere], second.resolved[everywhere]))
        )
    return tuple(found)


def _pooled(first: Bools, second: Bools) -> Paired:
    """All fixers' pairs. A task's pairs are drawn together; p takes them for independent, which flatters it."""
    gained, lost = int((second & ~first).sum()), int((first & ~second).sum())
    return Paired(
        tasks=len(first),
        first=float(first.mean()),
        second=float(second.mean()),
        gained=gained,
        lost=lost,
        change=bootstrap(len(first), mean_of((second.astype(np.float64) - first).mean(axis=1))),
        p=mcnemar(gained, lost),
    )


def _attempts(benchmark: Benchmark, cap: int | None) -> tuple[Attempts, ...]:
    found = []
    for arm, played in benchmark.played.items():
        for at, fixer in enumerate(played.fixers):
            tried = played.measured[:, at]
            cost, steps = (column[tried & np.isfinite(column)] for column in (played.cost[:, at], played.steps[:, at]))
            reached = tried & (played.steps[:, at] >= cap) if cap and steps.size else None
            found.append(
                Attempts(
                    fixer=fixer,
                    arm=arm,
                    n=int(tried.sum()),
                    solved=int((tried & played.resolved[:, at]).sum()),
                    usd=float(cost.sum()) if cost.size else None,
                    most_expensive_usd=float(cost.max()) if cost.size else None,
                    mean_steps=float(steps.mean()) if steps.size else None,
                    at_cap=int(reached.sum()) if reached is not None else None,
                    solved_at_cap=int((reached & played.resolved[:, at]).sum()) if reached is not None else None,
                )
            )
    return tuple(found)


def by_name(found: Sequence[ArmRow]) -> Mapping[str, ArmRow]:
    """Ways by their names."""
    return {way.name: way for way in found}
