"""The paper's tables about any benchmark: what each way solves and costs, what the handoff changes, how the scout does.

Each figure has its interval: Wilson's for a share of tasks, else the percentiles over resampled tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark, ScoutRecord
from scrout.lab.study.sources.paper import FIXERS, OPUS, PaperRouting, fill_gaps
from scrout.lab.study.stats import Paired, Statistic, bootstrap, bootstraps, mcnemar, mean_of, paired, ratio_of, wilson
from scrout.records import Arm
from scrout.route.calibrate import Walk
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats, hull_at

_PASSES = ("passed_stripped", "passed")
"""In the paper's words and in ours."""


class Located(FrozenModel):
    """How well the files that were named fit the true ones: means over a group of tasks."""

    group: str
    n: int
    recall: Estimate
    precision: Estimate
    all_gold: Estimate
    """Share of tasks with every true file named."""
    gold_files: float
    named_median: float


class Claims(FrozenModel):
    """What became of the reproductions that were claimed."""

    group: str
    n: int
    claiming: int
    verdicts: dict[str, int]
    genuine: Estimate | None
    """Of those claiming, the share that fails for real. None: nobody claims."""
    passes: Estimate | None
    """Of those claiming, the share whose command succeeds on the unpatched repository."""
    kept: int
    """Claims that survived the gate."""


def located(benchmark: Benchmark, solved: Bools | None) -> tuple[Located, ...]:
    """How well handoffs name the files, by group; only where the true ones are known."""
    found = []
    for name, group in _groups(benchmark, solved).items():
        known = [one for one in group if one.gold]
        if known:
            recall, precision = ([getattr(one, figure) for one in known] for figure in ("recall", "precision"))
            drawn = bootstraps(len(known), {"recall": mean_of(recall), "precision": mean_of(precision)})
            found.append(
                Located(
                    group=name,
                    n=len(known),
                    recall=drawn["recall"],
                    precision=drawn["precision"],
                    all_gold=wilson(sum(one.all_gold for one in known), len(known)),
                    gold_files=float(np.mean([one.gold for one in known if one.gold])),
                    named_median=float(np.median([one.named for one in known])),
                )
            )
    return tuple(found)


def claims(benchmark: Benchmark) -> tuple[Claims, ...]:
    """What the gate made of claims, overall and by kind of handoff."""
    found = []
    for name in ("overall", "spontaneous", "forced"):
        group = [one for one in _groups(benchmark).get(name, ()) if one.verdict]
        claiming = [one for one in group if one.claimed]
        if group:
            genuine = sum(one.verdict == "real_failure" for one in claiming)
            passes = sum(one.verdict in _PASSES for one in claiming)
            found.append(
                Claims(
                    group=name,
                    n=len(group),
                    claiming=len(claiming),
                    verdicts=dict(Counter(one.verdict for one in group).most_common()),
                    genuine=wilson(genuine, len(claiming)) if claiming else None,
                    passes=wilson(passes, len(claiming)) if claiming else None,
                    kept=sum(one.kept for one in claiming),
                )
            )
    return tuple(found)


def _groups(benchmark: Benchmark, solved: Bools | None = None) -> dict[str, list[ScoutRecord]]:
    """Handoffs overall, by kind, by repository, and by whether the task was solved."""
    overall = [benchmark.scouted[task] for task in benchmark.ids if task in benchmark.scouted]
    groups: dict[str, list[ScoutRecord]] = {"overall": overall}
    for kind in ("spontaneous", "forced"):
        groups[kind] = [one for one in overall if one.kind == kind]
    outcomes = [""] * len(benchmark.ids) if solved is None else ["solved" if yes else "unsolved" for yes in solved]
    for names in (benchmark.repositories, outcomes):
        for name in sorted(set(names) - {""}):
            groups[name] = [
                benchmark.scouted[task]
                for task, of in zip(benchmark.ids, names, strict=True)
                if of == name and task in benchmark.scouted
            ]
    return {name: group for name, group in groups.items() if group}


MOST = 0.5
"""A way that fewer of the tasks were tried with is left out, else it would take the others' tasks with it."""


class PolicyRow(FrozenModel):
    """One way to handle every task, such as a fixer alone."""

    name: str
    alone: bool
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
    ways: tuple[PolicyRow, ...]
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
    for arm, outcomes in benchmark.arms.items():
        for one in outcomes.each():
            tried = int(one.measured.sum())
            if tried >= MOST * tasks:
                kept.append((arm, one.name))
                common &= one.measured
            else:
                notes.append(
                    f"{way_name(one.name, arm)} is left out of the main table: {tried} of {tasks} tasks tried."
                )
    if not common.any():
        return [], common, [*notes, "No task was tried in every way, so there is no main table."]
    columns = []
    for arm, fixer in kept:
        one, alone = benchmark.arm(arm).of(fixer), arm == "solo"
        cost = one.cost + (0.0 if alone else shared_usd / tasks)
        columns.append(_only(Column(way_name(fixer, arm), one.resolved, cost, alone), common))
    return columns, common, notes


def way_name(fixer: str, arm: Arm) -> str:
    return f"{fixer} {'solo' if arm == 'solo' else f'with {arm}'}"


def _only(column: Column, mask: Bools) -> Column:
    return Column(column.name, column.resolved[mask], column.cost[mask], column.alone)


def ways(columns: Sequence[Column]) -> tuple[PolicyRow, ...]:
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
        PolicyRow(
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
    if "solo" not in benchmark.arms:
        return ()
    outcomes, found = benchmark.arm("solo"), []
    for pair in combinations(range(len(outcomes.fixers)), 2):
        both = outcomes.measured[:, pair].all(axis=1)
        if both.any():
            first, second = sorted(pair, key=lambda at: int(outcomes.resolved[both, at].sum()))
            compared = paired(outcomes.resolved[both, first], outcomes.resolved[both, second])
            found.append(Pair(first=outcomes.fixers[first], second=outcomes.fixers[second], paired=compared))
    return tuple(found)


def effects(benchmark: Benchmark, tasks: Bools | None = None) -> tuple[PairedEffect, ...]:
    """What the handoff does to each fixer, on some tasks or on all, and to all of them together."""
    if not {"solo", "handoff"} <= set(benchmark.arms):
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
    for arm, outcomes in benchmark.arms.items():
        for one in outcomes.each():
            cost, steps = (column[one.measured & np.isfinite(column)] for column in (one.cost, one.steps))
            reached = one.measured & (one.steps >= cap) if cap and steps.size else None
            found.append(
                Attempts(
                    fixer=one.name,
                    arm=arm,
                    n=int(one.measured.sum()),
                    solved=int((one.measured & one.resolved).sum()),
                    usd=float(cost.sum()) if cost.size else None,
                    most_expensive_usd=float(cost.max()) if cost.size else None,
                    mean_steps=float(steps.mean()) if steps.size else None,
                    at_cap=int(reached.sum()) if reached is not None else None,
                    solved_at_cap=int((reached & one.resolved).sum()) if reached is not None else None,
                )
            )
    return tuple(found)


def by_name(found: Sequence[PolicyRow]) -> Mapping[str, PolicyRow]:
    return {way.name: way for way in found}


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
    pairs = fill_gaps(benchmark, solo)
    outcomes = [pairs.taken(taken) for taken in every]
    statistics: dict[str, Statistic] = {}
    for at, one in enumerate(outcomes):
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
        for at, (theta, taken, one) in enumerate(zip(thetas, every, outcomes, strict=True))
    )


def routed(benchmark: Benchmark, routing: PaperRouting) -> Column:
    """The router as it was run, with what its handoffs cost."""
    chosen = np.array([FIXERS.index(fixer) for fixer in routing.decisions])
    outcomes = fill_gaps(benchmark, benchmark.arm("solo")).taken(chosen)
    return Column("router", outcomes.resolved, outcomes.cost, alone=False)


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
