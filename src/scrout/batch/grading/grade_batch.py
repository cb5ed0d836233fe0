"""Grades many patches, several tasks at once. || Every grade is stored immediately, by task, patch and gold: the same
command skips graded patches, and retries those that infrastructure failed.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import RootModel, ValidationError

from scrout.base import FrozenModel, ScroutError, TaskError
from scrout.batch.grading.grade import NO_PATCH, Control, Grade, Verdict, control, grade, grade_of, without_run
from scrout.batch.grading.judge import TIMEOUT_S, Case, digest, gold_digest, open_judge
from scrout.batch.grading.patches import Prediction
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import Settings
from scrout.files import JsonLines, lock_folder, write_atomic
from scrout.pipeline import build_missing
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import make_base
from scrout.task import Gold, Task

Arms = Mapping[str, Mapping[str, Prediction]]
"""Predictions by arm and task; the arm is empty if they are not from a batch."""

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ArmGrades(FrozenModel):
    arm: str
    tasks: int
    """Tasks with gold, with or without a submitted patch, whether their controls held or not."""
    verdicts: dict[Verdict, int]
    missing: int
    control_failed: int
    """Tasks whose controls failed, with or without a submitted patch. No other verdict counts them."""
    rate: float | None
    """Share of resolved tasks, without those that infrastructure or a control failed; None: there are no others."""
    grades: tuple[Grade, ...]


class GradingReport(FrozenModel):
    arms: tuple[ArmGrades, ...]
    control_failed: tuple[Control, ...]
    """Tasks with invalid tests. No rate counts them."""
    without_gold: tuple[str, ...]
    """Tasks without tests that judge. They are not counted."""
    unknown: tuple[str, ...]
    """Predictions for tasks that the task file does not have."""

    @property
    def infrastructure(self) -> int:
        return sum(arm.verdicts.get("infrastructure", 0) for arm in self.arms)


class GradeStore:
    """The grades in a folder. One process at a time may add to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._grades = JsonLines(folder / "grades.jsonl", Grade)
        self._controls = JsonLines(folder / "controls.jsonl", Control)
        self._graded: dict[tuple[str, str, str], Grade] = {}
        self._newest: dict[tuple[str, str], Grade] = {}
        """By task and arm: the current grade for readers of the file."""
        self._controlled: dict[tuple[str, str], Control] = {}

    def load(self) -> None:
        for one in self._grades.read():
            self._remember(one)
        self._controlled = {one.key: one for one in self._controls.read()}

    def grade(self, task_id: str, patch: str, gold: str, repeats: int = 1) -> Grade | None:
        """The grade of a patch under this gold's digest, if it is final and has enough runs."""
        found = self._graded.get((task_id, digest(patch), gold))
        if found is None or found.verdict == "infrastructure" or 0 < found.runs < repeats:
            return None
        return found

    def newest(self, task_id: str, arm: str) -> Grade | None:
        """The arm's latest grade of a task, whatever its verdict."""
        return self._newest.get((task_id, arm))

    def control(self, task_id: str, gold: str, repeats: int = 1) -> Control | None:
        found = self._controlled.get((task_id, gold))
        if found is None or found.outcome == "infrastructure" or 0 < found.runs < repeats:
            return None
        return found

    @property
    def controls(self) -> Mapping[tuple[str, str], Control]:
        return self._controlled

    def add(self, made: Grade, arms: Sequence[str]) -> None:
        """Store a grade for each arm that submitted the patch, unless it is already that arm's latest."""
        of_arms = (made.model_copy(update={"arm": arm}) for arm in arms)
        if new := [one for one in of_arms if self._newest.get((one.id, one.arm)) != one]:
            self._grades.append(*new)
        for one in new:
            self._remember(one)

    def add_control(self, made: Control) -> None:
        self._controls.append(made)
        self._controlled[made.key] = made

    def _remember(self, one: Grade) -> None:
        self._graded[one.key] = one
        self._newest[one.id, one.arm] = one


@contextmanager
def open_grade_store(folder: Path) -> Iterator[GradeStore]:
    """Open the folder's grades and lock them against other writers."""
    with lock_folder(folder, ".grading"):
        book = GradeStore(folder)
        book.load()
        yield book


@dataclass(frozen=True)
class Grader:
    book: GradeStore
    repositories: Repositories
    tier: Tier
    settings: Settings
    jobs: int = 1
    repeats: int = 1
    timeout_s: float = TIMEOUT_S
    say: Callable[[str], None] = field(default=lambda words: None)

    async def run(self, rows: Sequence[TaskRow], arms: Arms) -> None:
        """Grade all patches that have no final grade."""
        places = asyncio.Semaphore(self.jobs)
        todo = [(row, row.gold, wanted) for row in rows if row.gold and (wanted := self._wanted(row, row.gold, arms))]
        patches = sum(len(wanted) for _, _, wanted in todo)
        verdicts: Counter[Verdict] = Counter()

        async def one(row: TaskRow, gold: Gold, wanted: Mapping[str, Sequence[str]]) -> None:
            async with places:
                verdicts.update(made.verdict for made in await self._grade(row, gold, wanted))
                self.say(f"{verdicts.total()} of {patches} patches graded, {verdicts['resolved']} resolved")

        self.say(f"{patches} patches of {len(todo)} tasks to grade")
        try:
            async with asyncio.TaskGroup() as group:
                for row, gold, wanted in todo:
                    group.create_task(one(row, gold, wanted))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first of them cancelled the others

    def _wanted(self, row: TaskRow, gold: Gold, arms: Arms) -> dict[str, tuple[str, ...]]:
        """Patches without a final grade, each with its arms. Empty ones too, because their task needs its controls."""
        by_patch: dict[str, tuple[str, ...]] = {}
        for arm, predictions in arms.items():
            one = predictions.get(row.id)
            if one and not one.lost:
                by_patch[one.patch] = (*by_patch.get(one.patch, ()), arm)
        checked = self.book.control(row.id, gold_digest(row.base_commit, gold), self.repeats)
        for patch, names in list(by_patch.items()):
            known = self.book.grade(row.id, patch, gold_digest(row.base_commit, gold), self.repeats)
            # A task may be at HEAD, which may have moved.
            if known and checked and row.base_commit != "HEAD" and _agree(known, checked):
                self.book.add(known, names)
                del by_patch[patch]
        return by_patch

    async def _grade(self, row: TaskRow, gold: Gold, wanted: Mapping[str, Sequence[str]]) -> list[Grade]:
        """Grade one task's patches, and store each grade immediately."""
        made: list[Grade] = []
        try:
            async with AsyncExitStack() as stack:
                task, task_sandbox = await self._open(row, stack)
                case = Case(task, gold, gold_digest(row.base_commit, gold))
                judge = await open_judge(case, task_sandbox, self.timeout_s)
                checked = self.book.control(row.id, case.digest, self.repeats)
                if checked is None:
                    checked = await control(judge, repeats=self.repeats)
                    self.book.add_control(checked)
                for patch, arms in wanted.items():
                    made.append(await grade(judge, patch, control=checked, repeats=self.repeats))
                    self.book.add(made[-1], arms)
        except ScroutError as error:
            for patch, arms in list(wanted.items())[len(made) :]:
                why: tuple[Verdict, str] = (
                    ("infrastructure", str(error)) if patch.strip() else ("empty_patch", NO_PATCH)
                )
                made.append(grade_of(row, gold, patch, *why))
                self.book.add(made[-1], arms)
        return made

    async def _open(self, row: TaskRow, stack: AsyncExitStack) -> tuple[Task, TaskSandbox]:
        task = await asyncio.to_thread(self.repositories.task, row)
        await build_missing(task, self.settings, lambda words: None)
        await asyncio.to_thread(make_base, task.repo, task.base_commit, bounds=self.settings.sandbox)
        return task, stack.enter_context(open_task_sandbox(task, self.tier, self.settings))


def report(rows: Sequence[TaskRow], arms: Arms, book: GradeStore) -> GradingReport:
    known = {row.id for row in rows}
    named = dict.fromkeys(task_id for predictions in arms.values() for task_id in predictions)
    golds = {row.id: gold_digest(row.base_commit, row.gold) for row in rows if row.gold}
    controls = (book.controls.get((task_id, gold)) for task_id, gold in golds.items())
    return GradingReport(
        arms=tuple(_arm(arm, predictions, rows, book) for arm, predictions in arms.items()),
        control_failed=tuple(one for one in controls if one and one.outcome == "failed"),
        without_gold=tuple(row.id for row in rows if not row.gold),
        unknown=tuple(task_id for task_id in named if task_id not in known),
    )


def _arm(arm: str, predictions: Mapping[str, Prediction], rows: Sequence[TaskRow], book: GradeStore) -> ArmGrades:
    judged = [(row, row.gold) for row in rows if row.gold]
    found = [
        made
        for row, gold in judged
        if row.id in predictions and (made := _graded(arm, row, gold, predictions[row.id], book))
    ]
    controls = (book.controls.get((row.id, gold_digest(row.base_commit, gold))) for row, gold in judged)
    without_control = {one.id for one in controls if one and one.outcome == "failed"}
    verdicts = Counter(one.verdict for one in found if one.id not in without_control)
    counted = len(judged) - verdicts["infrastructure"] - len(without_control)
    return ArmGrades(
        arm=arm,
        tasks=len(judged),
        verdicts=dict(verdicts),
        missing=len(judged) - len(without_control) - verdicts.total(),
        control_failed=len(without_control),
        rate=round(verdicts["resolved"] / counted, 4) if counted else None,
        grades=tuple(found),
    )


def _graded(arm: str, row: TaskRow, gold: Gold, one: Prediction, book: GradeStore) -> Grade | None:
    """None: no grade yet."""
    if one.lost and (ended := without_run(row, gold, one)):
        # Not stored: it says something about a run, not about a patch.
        return ended.model_copy(update={"arm": arm})
    made = book.newest(row.id, arm)
    return made if made and made.key == (row.id, digest(one.patch), gold_digest(row.base_commit, gold)) else None


class _Submitted(RootModel[dict[str, dict[str, str]]]):
    """Digests of patches by arm and task."""


def reserve(folder: Path, run_id: str, arms: Arms) -> None:
    """Reserve a run id for these patches. More tasks may be added, but a different patch for one of them is refused."""
    if not _RUN_ID.fullmatch(run_id):
        raise TaskError(
            f"--run-id {run_id!r} cannot be a file name. Use letters, digits, dots, dashes and underscores."
        )
    path = folder / "runs" / f"{run_id}.json"
    try:
        former = _Submitted.model_validate_json(path.read_bytes()).root
    except FileNotFoundError:
        former = {}
    except ValidationError:
        raise TaskError(f"{path} cannot be read. Choose another --run-id.") from None
    new = {arm: {one.id: digest(one.patch) for one in predictions.values()} for arm, predictions in arms.items()}
    differ = [
        task_id
        for arm, digests in new.items()
        for task_id, patch in digests.items()
        if former.get(arm, {}).get(task_id, patch) != patch
    ]
    if differ:
        raise TaskError(
            f"run id {run_id!r} in {folder} was used for other patches ({len(differ)} differ, {differ[0]} first). "
            "Choose another --run-id for these."
        )
    path.parent.mkdir(exist_ok=True)
    joined = {arm: {**former.get(arm, {}), **new.get(arm, {})} for arm in {**former, **new}}
    write_atomic(path, _Submitted(joined).model_dump_json() + "\n")


def _agree(made: Grade, checked: Control) -> bool:
    """Whether a stored grade considers failed controls. Earlier versions ignored them."""
    return (made.verdict == "control_failed") == (checked.outcome == "failed")
