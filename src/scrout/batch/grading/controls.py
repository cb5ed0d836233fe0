"""The controls of a task: it can tell right from wrong only if its gold patch passes and an empty one does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal

from scrout.base import FrozenModel, SandboxError
from scrout.batch.grading.judge import (
    MOST_DETAIL,
    NO_TESTS,
    Case,
    GradingRun,
    Judge,
    NotRun,
    failing,
    in_words,
    wavering,
)

_LACKS = re.compile(r"\bModuleNotFoundError: No module named '([\w.]{1,200})'")

Outcome = Literal["held", "failed", "infrastructure"]


class Control(FrozenModel):
    """Of one task. A line of controls.jsonl."""

    id: str
    gold_digest: str
    outcome: Outcome
    """`infrastructure`: its tests could not be run here, so no patch can be graded."""
    flaky: tuple[str, ...] = ()
    """Tests that the gold patch passes in some runs only."""
    runs: int = 0
    seconds: float = 0.0
    """The longest run with the gold patch."""
    detail: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.id, self.gold_digest


async def control(judge: Judge, *, repeats: int = 1) -> Control:
    """Run the tests with the gold patch, and without any."""
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
    """What the runs with the gold patch, and one without any, come to."""
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
    """Whether the empty patch does what the gold patch is to do."""
    if not case.tests:
        return bare.exit_code == 0
    failed = failing(case, [bare])
    return not failed or (bool(case.gold.fail_to_pass) and set(failed).isdisjoint(case.gold.fail_to_pass))


def _lack(trial: GradingRun) -> str:
    """The module that even the gold patch does not bring, in words; empty: none is missing."""
    match = _LACKS.search(trial.tail)
    return f"the environment lacks {match[1]}" if match else ""
