"""Summarizes a batch from its ledger and its grades.

Runs are read one by one, so thousands need no more memory than one. Of a task's runs in an arm, the last finished one
decides whether it was solved; every run counts for the cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scrout.batch.folder import Batch, BatchFolder
from scrout.batch.grading.judge import digest
from scrout.batch.outputs.arm_statistics import ArmStatistics, RunCost, comparisons, costs_of
from scrout.batch.outputs.predictions import disk_explained
from scrout.batch.outputs.results import Summary
from scrout.batch.tasks import TaskRow, UnusableRow
from scrout.files import write_atomic
from scrout.ledger.store import Ledger
from scrout.records import Run
from scrout.redact import redact_command

__all__ = ["Grades", "Summary", "TaskFacts", "known_of", "read_grades", "summarize", "tally_runs"]

MAX_GRADE_CHARS = 1_000_000
"""Longer lines of grades are not read."""


def summarize(
    folder: BatchFolder,
    batch: Batch,
    ledger: Ledger,
    problems: Sequence[UnusableRow] = (),
    rows: Iterable[TaskRow] = (),
    command: str = "",
) -> Summary:
    """Summarize the ledger's current state, and write it. `rows` give repositories and known answers."""
    grades = read_grades(folder.grades)
    tallies = tally_runs(ledger, ledger.runs_of(batch.id), grades, known_of(rows), batch.arms)
    summary = Summary(
        batch=batch,
        command=redact_command(command),
        problems=tuple(problems),
        costs=costs_of(tally.paid for tally in tallies.values()),
        arms=tuple(tally.result(batch.tasks) for tally in tallies.values()),
        comparisons=tuple(comparisons(tallies)),
        unreadable_grades=grades.unreadable,
    )
    with disk_explained(folder):
        write_atomic(folder.summary, json.dumps(summary.model_dump(mode="json"), indent=2) + "\n")
    return summary


def tally_runs(
    ledger: Ledger,
    runs: Iterable[Run],
    grades: Grades,
    known: Mapping[str, TaskFacts],
    arms: Iterable[str] = (),
    see: Callable[[Run], None] = lambda run: None,
) -> dict[str, ArmStatistics]:
    """Count runs by arm, given oldest first and without their steps.

    `see` is called with each complete run that counts.
    """
    tallies = {arm: ArmStatistics(arm) for arm in arms}
    heads = [_Head.of(run, known) for run in runs]
    last = {(head.task, head.arm): head.run for head in heads if head.closed}
    scouted: dict[str, RunCost] = {}
    for head in heads:
        tally = tallies.setdefault(head.arm, ArmStatistics(head.arm))
        counts = last.get((head.task, head.arm)) == head.run
        again = head.closed and not counts
        scouted[head.run] = tally.pay(head.task, head.repository, ledger.steps(head.run), again=again)
        if counts:
            run = ledger.run(head.run)
            gold = known[head.task].files if head.task in known else frozenset[str]()
            tally.add(run, grades.verdict(run), gold)
            see(run)
    by_run = {head.run: head.arm for head in heads}
    for tally in tallies.values():
        tally.share(scouted, by_run)
    return tallies


@dataclass(frozen=True)
class TaskFacts:
    """The facts in a task file besides the issue."""

    repository: str
    files: frozenset[str]
    """Of the answer; empty: unknown."""


def known_of(rows: Iterable[TaskRow]) -> dict[str, TaskFacts]:
    """Facts by task."""
    return {row.id: TaskFacts(_repository(row.repo), frozenset(row.gold.files if row.gold else ())) for row in rows}


@dataclass
class Grades:
    """Verdicts of grading, the latest of each patch."""

    by_patch: dict[tuple[str, str], str] = field(default_factory=dict)
    """By task and digest of the patch: arms with the same patch share a grade, and a new patch has none yet."""
    by_arm: dict[tuple[str, str], str] = field(default_factory=dict)
    """By task and arm, for grades without a patch digest."""
    unreadable: int = 0

    def verdict(self, run: Run) -> str | None:
        found = self.by_patch.get((run.task.id, digest(run.patch)))
        return self.by_arm.get((run.task.id, run.arm)) if found is None else found


def read_grades(path: Path) -> Grades:
    """The readable lines of a file of grades; none if there is no file."""
    grades = Grades()
    try:
        opened = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return grades
    with opened:
        while line := opened.readline(MAX_GRADE_CHARS):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            match row:
                case {"id": str(task_id), "verdict": str(verdict), "patch_digest": str(patch)}:
                    grades.by_patch[task_id, patch] = verdict
                case {"id": str(task_id), "verdict": str(verdict), "arm": str(arm)}:
                    grades.by_arm[task_id, arm] = verdict
                case _:
                    grades.unreadable += bool(line.strip())
    return grades


def _repository(repo: str) -> str:
    """owner/name unchanged; of a path, its last part."""
    is_name = repo.count("/") == 1 and not repo.startswith(("/", "."))
    return repo if is_name else Path(repo).name or repo


@dataclass(frozen=True)
class _Head:
    run: str
    task: str
    arm: str
    repository: str
    closed: bool

    @staticmethod
    def of(run: Run, known: Mapping[str, TaskFacts]) -> _Head:
        task = run.task
        repository = known[task.id].repository if task.id in known else task.repo.name
        return _Head(run.id, task.id, run.arm, repository, run.finished is not None)
