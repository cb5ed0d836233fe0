"""Statistics of one arm, run by run, and comparisons of arms: each saving is shown with the possible baselines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import get_args

import numpy as np

from scrout.batch.grading.grade import UNCOUNTED
from scrout.batch.jobs import ROUTED
from scrout.batch.outputs.results import (
    ArmResult,
    Baseline,
    Cap,
    Census,
    Comparison,
    Costs,
    FixerUse,
    Graded,
    JudgedBy,
    Kind,
    Localization,
    RepositoryResult,
    Share,
)
from scrout.intervals import Z95, Estimate
from scrout.ledger.store import StepRecord
from scrout.money import CENT_FRACTION, Component, known_usd, total_usd
from scrout.records import Arm, Attempt, Run, Scouting
from scrout.route.stats import hull_at

COMPONENTS: tuple[Component, ...] = get_args(Component)
CAPS = ("cap_calls", "cap_usd", "timeout")
"""Stops of an attempt at a limit."""


@dataclass
class RunCost:
    by_component: defaultdict[Component, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    lost_usd: Decimal = Decimal(0)
    estimated_usd: Decimal = Decimal(0)
    calls: int = 0
    unpriced_calls: int = 0
    estimated_calls: int = 0

    def take(self, step: StepRecord, *, again: bool) -> None:
        """Add a step's payments. `again`: the run was repeated."""
        for receipt in step.receipts:
            usd = receipt.cost_usd or Decimal(0)
            self.by_component[receipt.component] += usd
            self.calls += 1
            self.unpriced_calls += receipt.cost_usd is None
            self.estimated_calls += receipt.estimated
            self.estimated_usd += usd if receipt.estimated else Decimal(0)
            # A repeated run's scouting is used by the next run.
            if step.result is None or (again and step.name != "scout"):
                self.lost_usd += usd

    def add(self, other: RunCost) -> None:
        for component, usd in other.by_component.items():
            self.by_component[component] += usd
        self.lost_usd += other.lost_usd
        self.estimated_usd += other.estimated_usd
        self.calls += other.calls
        self.unpriced_calls += other.unpriced_calls
        self.estimated_calls += other.estimated_calls

    @property
    def known_usd(self) -> Decimal:
        return known_usd(self.by_component.values())

    @property
    def usd(self) -> Decimal | None:
        return None if self.unpriced_calls else self.known_usd


@dataclass
class TaskOutcome:
    repository: str
    paid: RunCost = field(default_factory=RunCost)
    """Shared scouting included, once known."""
    borrowed: dict[str, float] = field(default_factory=dict)
    """Runs whose scouting it used, and its seconds."""
    seconds: float = 0.0
    outcome: str = ""
    """Empty: no run of it has ended."""
    verdict: str | None = None

    @property
    def done(self) -> bool:
        return self.outcome not in ("", "infrastructure")

    @property
    def graded(self) -> bool:
        return self.done and self.verdict is not None and self.verdict not in UNCOUNTED

    def won(self, by: JudgedBy) -> bool:
        return self.verdict == "resolved" if by == "grade" else self.outcome == "solved"


class ArmStatistics:
    def __init__(self, arm: str) -> None:
        self.arm = arm
        self.paid = RunCost()
        self.shared = RunCost()
        self.tasks: dict[str, TaskOutcome] = {}
        self.hits: Counter[str] = Counter()
        self.rescued: Counter[tuple[str, str]] = Counter()
        self.scout_stops: Counter[str] = Counter()
        self.verdicts: dict[Kind, Counter[str]] = {}
        self.kept: Counter[Kind] = Counter()
        self.found: dict[Kind, list[tuple[float, float, bool, int]]] = {}
        self.escalated = 0
        self.chosen: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.solved_by: Counter[str] = Counter()
        self.had_a_choice = False

    def pay(self, task_id: str, repository: str, steps: Sequence[StepRecord], *, again: bool) -> RunCost:
        """Count a run's cost; returns the scouting's part. `again`: another run has replaced it."""
        task = self.tasks.setdefault(task_id, TaskOutcome(repository))
        scouting, whole = RunCost(), RunCost()
        for step in steps:
            whole.take(step, again=again)
            if step.name == "scout":
                scouting.take(step, again=again)
            task.seconds += step.seconds or 0.0
            if isinstance(step.result, Scouting) and step.result.paid_by:
                task.borrowed[step.result.paid_by] = step.result.seconds
        self.paid.add(whole)
        task.paid.add(whole)
        return scouting

    def share(self, scouted: Mapping[str, RunCost], arms: Mapping[str, str]) -> None:
        """Add the scouting that other arms paid for."""
        for task in self.tasks.values():
            for run, seconds in task.borrowed.items():
                if run in scouted and arms[run] != self.arm:
                    self.shared.add(scouted[run])
                    task.paid.add(scouted[run])
                    task.seconds += seconds

    def add(self, run: Run, verdict: str | None, gold: frozenset[str]) -> None:
        task = self.tasks[run.task.id]
        task.outcome, task.verdict = run.outcome, verdict
        if run.scouting is not None and run.scouting.searcher != "none":
            self._add_scouting(run.scouting, run, gold)
        if run.decision is not None:
            self.chosen[run.decision.fixer] += 1
            self.had_a_choice |= len(run.decision.candidates) > 1
        self.escalated += len(run.attempts) > 1
        for attempt in run.attempts:
            self.attempts[attempt.fixer] += 1
            self.hits[attempt.stop] += attempt.stop in CAPS
        if run.attempts:
            self._add_end(run.attempts[-1], task)

    def _add_scouting(self, scouting: Scouting, run: Run, gold: frozenset[str]) -> None:
        kind = kind_of(scouting)
        if kind is None:
            return
        self.scout_stops[scouting.stop] += 1
        if run.gated is not None:
            self.verdicts.setdefault(kind, Counter())[run.gated.verdict] += 1
            self.kept[kind] += run.gated.kept
        if gold:
            hits = hits_of(scouting, gold)
            measured = (sum(hits) / len(gold), sum(hits) / max(1, len(hits)), sum(hits) == len(gold), len(hits))
            self.found.setdefault(kind, []).append(measured)

    def _add_end(self, attempt: Attempt, task: TaskOutcome) -> None:
        self.solved_by[attempt.fixer] += task.won("check")
        if attempt.stop in CAPS:
            self.rescued[attempt.stop, "check"] += task.won("check")
            self.rescued[attempt.stop, "grade"] += task.won("grade")

    def result(self, tasks: int) -> ArmResult:
        outcomes = Counter(task.outcome for task in self.tasks.values() if task.outcome)
        done = [task for task in self.tasks.values() if task.done]
        usd = [task.paid.usd for task in done]
        graded = [task for task in done if task.graded]
        graded_usd = total_usd(task.paid.usd for task in graded)
        resolved = sum(task.won("grade") for task in graded)
        begun = sum(not task.outcome for task in self.tasks.values())
        return ArmResult(
            arm=self.arm,
            tasks=tasks,
            done=len(done),
            infrastructure=outcomes["infrastructure"],
            not_run=max(tasks - len(done) - outcomes["infrastructure"], begun),
            begun=begun,
            solved=Share.make(outcomes["solved"], len(done)),
            outcomes=dict(sorted(outcomes.items())),
            graded=self._graded(),
            paid=costs_of([self.paid]),
            shared_usd=self.shared.known_usd,
            shared_unpriced_calls=self.shared.unpriced_calls,
            usd_a_task=each(total_usd(usd), len(done)),
            usd_a_task_interval=_mean_interval(usd),
            usd_a_solve=each(total_usd(usd), outcomes["solved"]),
            usd_a_resolve=each(graded_usd, resolved),
            seconds=sum(task.seconds for task in self.tasks.values()),
            seconds_a_task=sum(task.seconds for task in done) / len(done) if done else None,
            caps=tuple(self._caps()),
            scout_stops=dict(sorted(self.scout_stops.items())),
            census=tuple(self._census()),
            localization=tuple(self._localization()),
            escalated=self.escalated,
            fixers=tuple(self._fixers()),
            constant=self.had_a_choice and self.chosen.total() > 1 and len(self.chosen) == 1,
            repositories=tuple(self._places()),
        )

    def _graded(self) -> Graded | None:
        verdicts = Counter(task.verdict for task in self.tasks.values() if task.done and task.verdict is not None)
        if not verdicts:
            return None
        graded = [task for task in self.tasks.values() if task.graded]
        return Graded(
            resolved=Share.make(sum(task.won("grade") for task in graded), len(graded)),
            infrastructure=verdicts["infrastructure"],
            verdicts={str(verdict): count for verdict, count in sorted(verdicts.items())},
        )

    def _caps(self) -> Iterator[Cap]:
        any_grade = any(task.verdict is not None for task in self.tasks.values())
        for stop in CAPS:
            yield Cap(
                stop=stop,
                hit=self.hits[stop],
                rescued=self.rescued[stop, "check"],
                rescued_by_grade=self.rescued[stop, "grade"] if any_grade else None,
            )

    def _census(self) -> Iterator[Census]:
        for kind in get_args(Kind):
            if verdicts := self.verdicts.get(kind):
                ordered = dict(sorted(verdicts.items(), key=lambda pair: (-pair[1], pair[0])))
                yield Census(kind=kind, handoffs=verdicts.total(), kept=self.kept[kind], verdicts=ordered)

    def _localization(self) -> Iterator[Localization]:
        for kind in get_args(Kind):
            if found := self.found.get(kind):
                recall, precision, _, files = (math.fsum(column) / len(found) for column in zip(*found, strict=True))
                yield Localization(
                    kind=kind,
                    tasks=len(found),
                    recall=recall,
                    precision=precision,
                    all_gold=Share.make(sum(whole for _, _, whole, _ in found), len(found)),
                    files=files,
                )

    def _fixers(self) -> Iterator[FixerUse]:
        for fixer in sorted(self.chosen | self.attempts):
            yield FixerUse(
                fixer=fixer,
                chosen=self.chosen[fixer],
                attempts=self.attempts[fixer],
                solved=self.solved_by[fixer],
            )

    def _places(self) -> Iterator[RepositoryResult]:
        places: dict[str, list[TaskOutcome]] = {}
        for task in self.tasks.values():
            if task.done:
                places.setdefault(task.repository, []).append(task)
        for repository, tasks in sorted(places.items()):
            graded = [task for task in tasks if task.graded]
            yield RepositoryResult(
                repository=repository,
                done=len(tasks),
                graded=len(graded),
                solved=sum(task.won("check") for task in tasks),
                resolved=sum(task.won("grade") for task in graded) if graded else None,
                cost_usd=total_usd(task.paid.usd for task in tasks),
            )


def kind_of(scouting: Scouting) -> Kind | None:
    """How the scout produced its handoff; None: infrastructure failed, which says nothing about the scout."""
    if scouting.stop == "endpoint":
        return None
    if scouting.stop == "forced":
        return "forced"
    return "spontaneous" if scouting.stop == "finished" else "none"


def hits_of(scouting: Scouting, gold: frozenset[str]) -> tuple[bool, ...]:
    """For each file it named, the likeliest first, whether the answer changes it."""
    return tuple(path in gold for path in dict.fromkeys(ref.path for ref in scouting.handoff.files))


def costs_of(parts: Iterable[RunCost]) -> Costs:
    whole = RunCost()
    for part in parts:
        whole.add(part)
    return Costs(
        by_component={component: whole.by_component[component] for component in COMPONENTS},
        known_usd=whole.known_usd,
        lost_usd=whole.lost_usd,
        estimated_usd=whole.estimated_usd,
        calls=whole.calls,
        unpriced_calls=whole.unpriced_calls,
        estimated_calls=whole.estimated_calls,
    )


def each(usd: Decimal | None, n: int) -> Decimal | None:
    """None: unknown, or of no items."""
    return (usd / n).quantize(CENT_FRACTION) if usd is not None and n else None


def _mean_interval(costs: Sequence[Decimal | None]) -> Estimate | None:
    """The mean with its 95% interval, assuming normal means; None: a cost is unknown, or there are fewer than two."""
    known = [float(usd) for usd in costs if usd is not None]
    if len(known) < 2 or len(known) < len(costs):
        return None
    mean = math.fsum(known) / len(known)
    spread = math.fsum((usd - mean) ** 2 for usd in known) / max(1, len(known) - 1)
    half = Z95 * math.sqrt(spread / len(known))
    return Estimate(value=mean, low=max(0.0, mean - half), high=mean + half)


@dataclass(frozen=True)
class _Score:
    arm: str
    usd: Decimal | None
    won: frozenset[str]

    @property
    def cheapness(self) -> tuple[Decimal, int]:
        """Sort key: the cheapest first, of equally cheap ones the strongest."""
        return Decimal("Infinity") if self.usd is None else self.usd, -len(self.won)

    @property
    def weakness(self) -> tuple[int, Decimal]:
        return self.cheapness[1], self.cheapness[0]


def comparisons(tallies: Mapping[str, ArmStatistics]) -> Iterator[Comparison]:
    """Compare every arm with every available baseline, on the tasks that both have done."""
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
