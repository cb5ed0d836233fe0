"""On which tasks a handoff helps: exploratory looks, each a division of the tasks, adjusted for how many there are.

A division by length takes the length from another model's run alone: the fixer's own would already know the outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scrout.base import FrozenModel
from scrout.lab.study.groups import MeanDifference, mean_difference
from scrout.lab.study.handoff.effects import Pairs
from scrout.lab.study.sources.benchmark import ScoutRecord
from scrout.lab.study.stats import Paired, holm, paired
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats

POOR = 0.3
"""A recall below it is a poor one."""
REAL = "real_failure"
"""The verdict of a claim that failed because of the repository's behaviour."""
LEAST = 5
"""A group of fewer tasks is not looked at."""


class Side(FrozenModel):
    """One group of a look."""

    paired: Paired
    p_holm: float
    """Adjusted over both groups of all looks at the benchmark."""


class SubgroupEffect(FrozenModel):
    """The effect within a group of tasks, and outside of it."""

    benchmark: str
    fixer: str
    group: str
    """Which tasks are in it, in words."""
    yardstick: str
    """The model whose run tells the length; empty: the look is not about length."""
    inside: Side
    outside: Side
    between: MeanDifference
    """The effect inside less that outside."""
    p_holm: float
    """Of that difference, adjusted over the looks at the benchmark."""


@dataclass(frozen=True, eq=False)
class TaskSplit:
    """A division of a fixer's tasks."""

    group: str
    inside: Bools
    known: Bools
    """Tasks of which it is known on which side they are."""
    yardstick: str = ""


def subgroup_effects(found: Sequence[Pairs], most_steps: int | None) -> list[SubgroupEffect]:
    """All looks at a benchmark, at the fixers whose tasks were not chosen."""
    raw = [
        (pairs, split, _paired(pairs, split.inside), _paired(pairs, split.known & ~split.inside))
        for pairs in found
        if not pairs.selected
        for split in splits(pairs, most_steps)
    ]
    within = holm([side.p for _, _, inside, outside in raw for side in (inside, outside)])
    between = [mean_difference(pairs.change[split.known], split.inside[split.known]) for pairs, split, _, _ in raw]
    adjusted = holm([one.p for one in between])
    return [
        SubgroupEffect(
            benchmark=pairs.tasks.name,
            fixer=pairs.fixer,
            group=split.group,
            yardstick=split.yardstick,
            inside=Side(paired=inside, p_holm=within[2 * at]),
            outside=Side(paired=outside, p_holm=within[2 * at + 1]),
            between=between[at],
            p_holm=adjusted[at],
        )
        for at, (pairs, split, inside, outside) in enumerate(raw)
    ]


def splits(pairs: Pairs, most_steps: int | None) -> list[TaskSplit]:
    """Those that leave some tasks on both sides."""
    asked = [*_by_length(pairs, most_steps), *_by_scouting(pairs)]
    return [split for split in asked if min(split.inside.sum(), (split.known & ~split.inside).sum()) >= LEAST]


def _paired(pairs: Pairs, mask: Bools) -> Paired:
    return paired(pairs.before[mask], pairs.after[mask])


def _by_length(pairs: Pairs, most_steps: int | None) -> Iterator[TaskSplit]:
    """By each other model alone: reached the limit of calls, else above its median of calls, else of dollars."""
    alone = pairs.tasks.arm("solo")
    for other in alone.fixers:
        if other == pairs.fixer:
            continue
        at = alone.column(other)
        steps, cost = (np.where(alone.measured[:, at], column[:, at], np.nan) for column in (alone.steps, alone.cost))
        if np.isfinite(steps).any() and most_steps is not None:
            name = f"{other} alone took all {most_steps} steps"
            yield TaskSplit(name, steps >= most_steps, np.isfinite(steps), other)
        elif np.isfinite(steps).any():
            yield TaskSplit(f"{other} alone took more steps than its median", _upper(steps), np.isfinite(steps), other)
        elif np.isfinite(cost).any():
            yield TaskSplit(f"{other} alone cost more than its median", _upper(cost), np.isfinite(cost), other)


def _by_scouting(pairs: Pairs) -> Iterator[TaskSplit]:
    """By what the scout handed over, and how well it fits the answer."""
    told = [pairs.tasks.scouted.get(task) for task in pairs.tasks.ids]
    if all(one is None for one in told):
        return
    has = np.array([one is not None for one in told])
    answered = np.array([one is not None and one.gold is not None for one in told])

    def which(asked: Sequence[bool]) -> Bools:
        return np.array(asked, dtype=bool)

    yield TaskSplit("the handoff names every gold file", which([_is_whole(one) for one in told]), answered)
    poor = which([one is not None and one.recall < POOR for one in told])
    yield TaskSplit(f"its recall is below {POOR}", poor & answered, answered)
    yield TaskSplit("its claim failed for real", which([one is not None and one.verdict == REAL for one in told]), has)
    yield TaskSplit("its claim was kept by the gate", which([one is not None and one.kept for one in told]), has)
    yield TaskSplit("it was forced", which([one is not None and one.kind == "forced" for one in told]), has)


def _is_whole(scouted: ScoutRecord | None) -> bool:
    return scouted is not None and scouted.gold is not None and scouted.all_gold


def _upper(values: Floats) -> Bools:
    """Above the median of what is known."""
    above: Bools = np.nan_to_num(values, nan=-np.inf) > np.nanmedian(values)
    return above
