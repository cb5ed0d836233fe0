"""How well the files that a scout names fit those that the true patch changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.batch.jobs import ROUTED
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import Benchmark, ScoutRecord
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.source import Own, Source
from scrout.lab.study.stats import MeanDifference, bootstraps, holm, mean_difference, mean_of, wilson

Division = Literal["kind", "repository", "language", "outcome"]
RANKS = (1, 3, 5)
LEAST = 5
"""Groups of fewer tasks are not compared."""


class HandoffGroup(FrozenModel):
    """Some handoffs."""

    by: Division
    name: str
    tasks: int
    recall: Estimate
    """Share of the gold files that was named, a task's mean."""
    precision: Estimate
    """Share of the named files that is gold; of a task without a file named: 0."""
    f1: Estimate
    all_gold: Estimate
    """Tasks of which every gold file was named, with Wilson's interval."""
    acc: dict[int, Estimate] | None
    """Tasks of which every gold file is among the first k named; None: the order is not known."""
    named: float
    """Files a task."""
    gold: float


class GroupComparison(FrozenModel):
    group: str
    others: str
    measure: str
    apart: MeanDifference
    p_holm: float
    """Adjusted over the figures that these two are compared in."""


class LocalizeStudy(FrozenModel):
    tasks: int
    unknown: int
    """Handoffs whose true files are not known."""
    solved_by: str
    """Whose outcomes divide the tasks, in words; empty: there are none."""
    groups: tuple[HandoffGroup, ...]
    compared: tuple[GroupComparison, ...]
    notes: tuple[str, ...]


def study(source: Source) -> LocalizeStudy:
    """The handoffs of the paper's evaluation, or of one's own runs."""
    benchmark = source.evaluation if isinstance(source, Paper) else source.benchmark
    judged = {task: scouted for task, scouted in benchmark.scouted.items() if scouted.gold is not None}
    if not judged:
        raise StudyError(
            f"{benchmark.source}: {len(benchmark.scouted)} handoffs, and of none the true files are known. "
            "Name the tasks' file, with its answers: --tasks FILE"
        )
    solved_by, solved = _solved(source)
    divisions = _divisions(benchmark, judged, solved)
    return LocalizeStudy(
        tasks=len(judged),
        unknown=len(benchmark.scouted) - len(judged),
        solved_by=solved_by,
        groups=tuple(
            _group(by, name, [judged[task] for task in tasks])
            for by, groups in divisions.items()
            for name, tasks in groups.items()
        ),
        compared=(*_compared(judged, divisions, "kind"), *_compared(judged, divisions, "outcome")),
        notes=_notes(source, judged, solved_by),
    )


def _solved(source: Source) -> tuple[str, dict[str, bool]]:
    """By whom tasks were solved with handoff, a router's choice or else the fixer that tried the most, and which.

    Empty: no such arm was run.
    """
    if isinstance(source, Paper):
        benchmark, handed = source.evaluation, source.evaluation.arm("handoff")
        one = handed.chosen("the fixer that the paper's router chose", source.routing.decisions)
    elif "handoff" in source.benchmark.arms:
        benchmark, handed = source.benchmark, source.benchmark.arm("handoff")
        most = handed.fixers[int(handed.measured.sum(axis=0).argmax())]
        one = handed.of(ROUTED if ROUTED in handed.fixers else most)
        one = replace(one, name=f"{one.name} with handoff")
    else:
        return "", {}
    outcomes = zip(benchmark.ids, one.measured.tolist(), one.resolved.tolist(), strict=True)
    return one.name, {task: won for task, tried, won in outcomes if tried}


def _divisions(
    benchmark: Benchmark, judged: Mapping[str, ScoutRecord], solved: Mapping[str, bool]
) -> dict[Division, dict[str, list[str]]]:
    """Tasks by the name of their group, in each way to divide them."""
    tasks = [task for task in benchmark.ids if task in judged]
    repository = dict(zip(benchmark.ids, benchmark.repositories, strict=True))
    kinds = _grouped({task: judged[task].kind for task in tasks})
    whole = {f"all ({' and '.join(kinds)} pooled)": tasks} if len(kinds) > 1 else {}
    won = {True: "solved", False: "not solved"}
    return {
        "kind": whole | kinds,
        "repository": _grouped({task: repository[task] for task in tasks}),
        "language": _grouped({task: benchmark.languages.get(task, "unknown") for task in tasks}),
        "outcome": _grouped({task: won[solved[task]] for task in tasks if task in solved}),
    }


def _grouped(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Tasks by name, the largest group first."""
    groups: dict[str, list[str]] = {}
    for task, name in names.items():
        groups.setdefault(name, []).append(task)
    return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


def _group(by: Division, name: str, handoffs: Sequence[ScoutRecord]) -> HandoffGroup:
    means = bootstraps(len(handoffs), {measure: mean_of(_column(handoffs, measure)) for measure in _MEANS})
    return HandoffGroup(
        by=by,
        name=name,
        tasks=len(handoffs),
        recall=means["recall"],
        precision=means["precision"],
        f1=means["f1"],
        all_gold=wilson(sum(one.all_gold for one in handoffs), len(handoffs)),
        acc=_accuracy(handoffs),
        named=float(np.mean([one.named for one in handoffs])),
        gold=float(np.mean([one.gold or 0 for one in handoffs])),
    )


_MEANS = ("recall", "precision", "f1")
_MEASURES = (*_MEANS, "all_gold")


def _column(handoffs: Sequence[ScoutRecord], measure: str) -> list[float]:
    return [float(getattr(one, measure)) for one in handoffs]


def _accuracy(handoffs: Sequence[ScoutRecord]) -> dict[int, Estimate] | None:
    ranked = [(one.hits, one.gold) for one in handoffs if one.hits is not None]
    if len(ranked) < len(handoffs):
        return None
    return {k: wilson(sum(sum(hits[:k]) == gold for hits, gold in ranked), len(ranked)) for k in RANKS}


def _compared(
    judged: Mapping[str, ScoutRecord], divisions: Mapping[Division, Mapping[str, list[str]]], by: Division
) -> list[GroupComparison]:
    """The two groups of a division that have the most tasks, in each figure; none where one is too small."""
    names = ("spontaneous", "forced") if by == "kind" else ("solved", "not solved")
    groups = [divisions[by].get(name, []) for name in names]
    if min(map(len, groups)) < LEAST:
        return []
    handoffs = [judged[task] for tasks in groups for task in tasks]
    inside = np.arange(len(handoffs)) < len(groups[0])
    found = [mean_difference(_column(handoffs, measure), inside) for measure in _MEASURES]
    return [
        GroupComparison(group=names[0], others=names[1], measure=measure, apart=one, p_holm=p)
        for measure, one, p in zip(_MEASURES, found, holm([one.p for one in found]), strict=True)
    ]


def _notes(source: Source, judged: Mapping[str, ScoutRecord], solved_by: str) -> tuple[str, ...]:
    notes = []
    if any(one.hits is None for one in judged.values()):
        notes.append("The order of the named files is not told, so there is no Acc@k.")
    if not solved_by:
        notes.append("No arm with a handoff was run, so nothing is said of solved tasks.")
    elif isinstance(source, Own) and source.judged_by == "check":
        notes.append("Solved is what the check passed, which needs a reproduction that fails for real: no grade.")
    if isinstance(source, Paper):
        notes.append("The label run tells nothing of its handoffs; these figures are of the evaluation alone.")
    return tuple(notes)
