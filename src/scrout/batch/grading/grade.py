"""Grades one patch with the tests that its task's gold names.

If the sandbox, the environment or the tests themselves fail, the verdict is `infrastructure`; if the task's controls
fail, it is `control_failed`. Neither is ever counted. A task is valid only if its gold patch passes and an empty one
does not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import Literal, NotRequired, TypedDict

from scrout.base import FrozenModel, SandboxError
from scrout.batch.grading.judge import (
    MOST_DETAIL,
    NO_TESTS,
    Case,
    GradingRun,
    Judge,
    NotRun,
    digest,
    failing,
    gold_digest,
    in_words,
    wavering,
)
from scrout.batch.grading.patches import Prediction
from scrout.batch.task_formats import TaskRow
from scrout.task import Gold

_LACKS = re.compile(r"\bModuleNotFoundError: No module named '([\w.]{1,200})'")

Outcome = Literal["held", "failed", "infrastructure"]


class Control(FrozenModel):
    """The control of one task. A line of controls.jsonl."""

    id: str
    gold_digest: str
    outcome: Outcome
    """`infrastructure`: its tests cannot run here, so no patch can be graded."""
    flaky: tuple[str, ...] = ()
    """Tests that the gold patch passes only in some runs."""
    runs: int = 0
    seconds: float = 0.0
    """Duration of the longest run with the gold patch."""
    detail: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.id, self.gold_digest


async def control(judge: Judge, *, repeats: int = 1) -> Control:
    """Run the tests with the gold patch and with an empty one."""
    case = judge.case
    made = partial(Control, id=case.task.id, gold_digest=case.digest)
    if not judge.has_tests:
        return made(outcome="infrastructure", detail=NO_TESTS)
    if not case.gold.patch.strip():
        return made(outcome="failed", detail="the gold has no patch, so nothing shows that its tests can pass")
    golden: list[GradingRun] = []
    try:
        while len(golden) < repeats and not (golden and golden[-1].stopped):
            trial = await judge.trial(case.gold.patch)
            if isinstance(trial, NotRun):
                what = "gold patch" if trial.of == "patch" else "gold's test patch"
                return made(outcome="failed", detail=f"the {what} does not apply: {trial.why}")
            golden.append(trial)
        outcome, detail = await _compare(judge, golden)
    except (SandboxError, OSError) as error:
        return made(outcome="infrastructure", detail=f"the sandbox failed: {error}"[:MOST_DETAIL])
    return made(
        outcome=outcome,
        flaky=wavering(case, golden),
        runs=len(golden),
        seconds=round(max(trial.seconds for trial in golden), 3),
        detail=detail[:MOST_DETAIL],
    )


async def _compare(judge: Judge, golden: Sequence[GradingRun]) -> tuple[Outcome, str]:
    """The verdict of the runs with the gold patch and the one without a patch."""
    case, missing = judge.case, judge.task_sandbox.environment.missing
    for trial in golden:
        if trial.stopped:
            return "infrastructure", f"with the gold patch {trial.stopped} ({trial.seconds:.0f} s). Raise --timeout-s"
    failed = failing(case, golden, wavering(case, golden))
    if failed or not (case.tests or all(trial.exit_code == 0 for trial in golden)):
        told = f"with the gold patch, {in_words(case, failed, golden)}"
        lacks = missing or next((words for trial in golden if (words := _lack(trial))), "")
        if lacks or (case.tests and not any(trial.seen for trial in golden)):
            return "infrastructure", f"{lacks}; {told}" if lacks else told
        return "failed", told
    bare = await judge.trial("")
    if isinstance(bare, GradingRun) and _passes(case, bare):
        return "failed", "without any patch all its tests pass, so they show nothing"
    return "held", ""


def _passes(case: Case, bare: GradingRun) -> bool:
    """Whether the empty patch passes the tests that the gold patch is meant to fix."""
    if not case.tests:
        return bare.exit_code == 0
    failed = failing(case, [bare])
    return not failed or (bool(case.gold.fail_to_pass) and set(failed).isdisjoint(case.gold.fail_to_pass))


def _lack(trial: GradingRun) -> str:
    """The module that is missing even with the gold patch, in words; empty: none."""
    match = _LACKS.search(trial.tail)
    return f"the environment lacks {match[1]}" if match else ""


Verdict = Literal["resolved", "unresolved", "empty_patch", "does_not_apply", "infrastructure", "control_failed"]
UNCOUNTED: frozenset[str] = frozenset({"infrastructure", "control_failed"})
"""Verdicts that say nothing about a patch. No rate counts them."""


NO_PATCH = "there is no patch"


class Grade(FrozenModel):
    """The grade of a patch. A line of grades.jsonl."""

    id: str
    arm: str = ""
    """The arm of a batch; empty: the predictions are not from a batch."""
    verdict: Verdict
    patch_digest: str
    gold_digest: str
    """Digest of the gold and the base commit: if it changes, the grade is obsolete."""
    failed: tuple[str, ...] = ()
    """Tests that judge and did not pass, by the gold's names."""
    flaky: tuple[str, ...] = ()
    """Tests that passed only in some runs."""
    runs: int = 0
    """Number of planned runs; a run that was stopped is not repeated."""
    seconds: float = 0.0
    detail: str = ""
    flags: tuple[str, ...] = ()
    """Doubts about the patch, such as changed test settings. Flags do not change the verdict."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.id, self.patch_digest, self.gold_digest


def grade_of(
    row: TaskRow, gold: Gold, patch: str, verdict: Verdict, detail: str, failed: tuple[str, ...] = ()
) -> Grade:
    """A verdict without a run in scrout's sandbox."""
    return Grade(
        id=row.id,
        verdict=verdict,
        patch_digest=digest(patch),
        gold_digest=gold_digest(row.base_commit, gold),
        failed=failed,
        runs=1 if verdict in ("resolved", "unresolved") else 0,
        detail=detail,
    )


def without_run(row: TaskRow, gold: Gold, one: Prediction) -> Grade | None:
    """The grade of a prediction that needs no run; None: there is a patch to run."""
    if one.lost:
        detail = "infrastructure ended its run before anything was submitted"
        return grade_of(row, gold, one.patch, "infrastructure", detail)
    return None if one.patch.strip() else grade_of(row, gold, one.patch, "empty_patch", NO_PATCH)


async def grade(judge: Judge, patch: str, *, control: Control | None = None, repeats: int = 1) -> Grade:
    """Grade a patch. Tests that are flaky with the gold patch need to pass only once."""
    started = time.monotonic()
    case = judge.case
    made = partial(Grade, id=case.task.id, patch_digest=digest(patch), gold_digest=case.digest)
    if control and control.outcome == "failed":
        return made(verdict="control_failed", detail=control.detail)
    if not patch.strip():
        return made(verdict="empty_patch", detail=NO_PATCH)
    if not judge.has_tests:
        return made(verdict="infrastructure", detail=NO_TESTS)
    if control and control.outcome == "infrastructure":
        return made(verdict="infrastructure", detail=control.detail)
    try:
        trials = await _trials(judge, patch, repeats)
        if isinstance(trials, NotRun):
            found = made(**await _refused(judge, trials))
        elif trials[-1].stopped:
            found = made(runs=repeats, **_stopped(judge, trials[-1], control))
        else:
            found = made(runs=repeats, flaky=wavering(case, trials), **_judged(case, trials, control))
        doubts = await judge.flags(patch)
    except (SandboxError, OSError) as error:
        found, doubts = made(verdict="infrastructure", detail=f"the sandbox failed: {error}"[:MOST_DETAIL]), ()
    return found.model_copy(update={"flags": doubts, "seconds": round(time.monotonic() - started, 3)})


class _Found(TypedDict):
    """The part of a grade that runs decide."""

    verdict: Verdict
    failed: NotRequired[tuple[str, ...]]
    detail: str


async def _trials(judge: Judge, patch: str, repeats: int) -> list[GradingRun] | NotRun:
    """All requested runs, or those up to one that was stopped."""
    trials: list[GradingRun] = []
    while len(trials) < repeats and not (trials and trials[-1].stopped):
        trial = await judge.trial(patch)
        if isinstance(trial, GradingRun) and trial.killed:
            trial = await judge.trial(patch)  # a machine that is short of memory kills arbitrary processes
        if isinstance(trial, NotRun):
            return trial
        trials.append(trial)
    return trials


def _judged(case: Case, trials: Sequence[GradingRun], control: Control | None) -> _Found:
    failed = failing(case, trials, control.flaky if control else ())
    solved = not failed if case.tests else all(trial.exit_code == 0 for trial in trials)
    detail = in_words(case, failed, trials)
    return {"verdict": "resolved" if solved else "unresolved", "failed": failed, "detail": detail}


def _stopped(judge: Judge, trial: GradingRun, control: Control | None) -> _Found:
    """Uses the gold patch's duration to tell a patch that hangs from a slow machine."""
    detail = f"{trial.stopped} ({trial.seconds:.0f} s)"
    if control is None or control.outcome != "held" or 2 * control.seconds > judge.timeout_s:
        return {"verdict": "infrastructure", "detail": detail}
    detail += f"; with the gold patch they took {control.seconds:.0f} s"
    return {"verdict": "unresolved", "failed": judge.case.tests, "detail": detail}


async def _refused(judge: Judge, refusal: NotRun) -> _Found:
    if refusal.of == "patch":
        return {"verdict": "does_not_apply", "detail": f"the patch does not apply: {refusal.why}"}
    if alone := await judge.bring_tests_alone():
        detail = f"the gold's test patch does not apply to the base commit: {alone.why}"
        return {"verdict": "infrastructure", "detail": detail}
    detail = f"the patch keeps the tests from being brought in: {refusal.why}"
    return {"verdict": "unresolved", "failed": judge.case.tests, "detail": detail}
