"""Arms of a batch beside each other: a saving is told together with the baselines that the arms allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from scrout.batch.jobs import ROUTED
from scrout.batch.outputs.arm_statistics import ArmStatistics, each
from scrout.batch.outputs.results import Baseline, Comparison, JudgedBy
from scrout.money import total_usd
from scrout.records import Arm
from scrout.route.stats import hull_at


@dataclass(frozen=True)
class _Score:
    arm: str
    usd: Decimal | None
    won: frozenset[str]

    @property
    def cheapness(self) -> tuple[Decimal, int]:
        """The least is the cheapest, of equally cheap ones the strongest."""
        return Decimal("Infinity") if self.usd is None else self.usd, -len(self.won)

    @property
    def weakness(self) -> tuple[int, Decimal]:
        return self.cheapness[1], self.cheapness[0]


def comparisons(tallies: Mapping[str, ArmStatistics]) -> Iterator[Comparison]:
    """Every arm beside the baselines that there are arms for, each time on the tasks that all of these have done."""
    begun = [tally for tally in tallies.values() if any(task.done for task in tally.tasks.values())]
    fixed = [tally for tally in begun if _fixed(tally.arm, "solo") or _fixed(tally.arm, "handoff")]
    for tally in begun:
        if _fixed(tally.arm, "solo"):
            continue
        played = [tally, *(other for other in fixed if other is not tally)]
        graded = all(any(task.graded for task in one.tasks.values()) for one in played)
        by: JudgedBy = "grade" if graded else "check"
        common = [task_id for task_id in tally.tasks if all(_has(one, task_id, by) for one in played)]
        if common:
            yield from _compare([_score(one, common, by) for one in played], len(common), by)


def _compare(scores: Sequence[_Score], n: int, by: JudgedBy) -> Iterator[Comparison]:
    mine, *others = scores
    solo = [score for score in others if _fixed(score.arm, "solo")]
    for baseline, other in _baselines(solo, [score for score in others if score not in solo]):
        yield Comparison(
            arm=mine.arm,
            baseline=baseline,
            baseline_arm=other.arm,
            judged_by=by,
            tasks=n,
            usd_a_task=each(mine.usd, n),
            baseline_usd_a_task=each(other.usd, n),
            saved=float(1 - mine.usd / other.usd) if mine.usd is not None and other.usd else None,
            solved=len(mine.won),
            baseline_solved=len(other.won),
            only_arm=len(mine.won - other.won),
            only_baseline=len(other.won - mine.won),
            mix=_mix(mine, solo, n),
        )


def _has(tally: ArmStatistics, task_id: str, by: JudgedBy) -> bool:
    task = tally.tasks.get(task_id)
    return task is not None and (task.graded if by == "grade" else task.done)


def _score(tally: ArmStatistics, tasks: Sequence[str], by: JudgedBy) -> _Score:
    won = frozenset(task_id for task_id in tasks if tally.tasks[task_id].won(by))
    return _Score(tally.arm, total_usd(tally.tasks[task_id].paid.usd for task_id in tasks), won)


def _baselines(solo: Sequence[_Score], handed: Sequence[_Score]) -> Iterator[tuple[Baseline, _Score]]:
    if solo:
        yield "cheapest alone", min(solo, key=lambda score: score.cheapness)
        yield "strongest alone", min(solo, key=lambda score: score.weakness)
    if handed:
        yield "cheapest with handoff", min(handed, key=lambda score: score.cheapness)


def _mix(mine: _Score, solo: Sequence[_Score], n: int) -> float | None:
    priced = [(float(score.usd) / n, len(score.won) / n) for score in solo if score.usd is not None]
    if mine.usd is None or len(priced) < 2:
        return None
    points = np.array(priced)
    found = float(hull_at(points[:, 0], points[:, 1], float(mine.usd) / n))
    return None if math.isnan(found) else found


def _fixed(label: str, arm: Arm) -> bool:
    """Whether one fixer has every task of the arm."""
    kind, _, fixer = label.partition("/")
    return kind == arm and fixer != ROUTED
