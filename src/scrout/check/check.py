"""The patch, examined on a clean workspace: does it apply, is the bug gone, does everything that passed still pass, and
does something besides the reproduction agree?

What is unusual about it is flagged and decides nothing. A flag is for a reviewer; an outcome is what runs have shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from scrout.base import SandboxError
from scrout.check.agreement import Executed, executing_tests, sentence
from scrout.check.changed import ChangedFunction, changed_functions, words_for_tests
from scrout.check.doctests import run_doctests, with_doctests
from scrout.check.flags import flags, patch_flags
from scrout.check.guard import DisputedTests, GuardComparison, GuardReport, disputed_tests, guard
from scrout.check.half_fixes import named_example_fails, same_code_elsewhere
from scrout.check.patch import FileChange, read_patch, with_texts
from scrout.check.pinned import open_change
from scrout.check.regression import SuiteComparison, run_all_tests, run_tests, some_names
from scrout.handoff import Reproduction
from scrout.records import Attempt, Check, CheckOutcome, Evidence, GatedHandoff
from scrout.sandbox.replay import replay
from scrout.sandbox.suite import Suite
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace

REPLAY_TIMEOUT_S = 120.0
_WEAKENED = ("removes assertions", "skips a test", "deletes")
"""Starts of flags."""

Reproduced = Literal["passes", "fails", "none"]


async def check(report: str, gated: GatedHandoff, attempt: Attempt, task_sandbox: TaskSandbox) -> Check:
    """Examine an attempt's patch. `report` is the issue's text.

    The reproduction is judged by its exit code, so only a failing one can tell.
    """
    started = time.monotonic()
    if not attempt.patch:
        return Check(
            outcome="no_patch", applies=False, reproduction="none", tests="not_run", detail="there is no patch to check"
        )
    patched = task_sandbox.fresh()
    try:
        refusal = await task_sandbox.apply(patched, attempt.patch)
        if refusal:
            return _refused(attempt.patch, refusal, time.monotonic() - started)
        changes = await asyncio.to_thread(lambda: with_texts(read_patch(attempt.patch), task_sandbox.base, patched))
        raised_flags = await asyncio.to_thread(flags, changes)
        reproduction, seen, kept_from_running = await _run_reproduction(gated, patched, task_sandbox)
    finally:
        patched.remove()
    # On workspaces of their own: the reproduction's files must not be there when the project's tests are collected.
    functions = await asyncio.to_thread(changed_functions, changes, task_sandbox.base)
    claim = gated.handoff.reproduction if reproduction == "passes" else None
    patch = _Patch(attempt.patch, changes, functions, claim, gated.verified, task_sandbox)
    near = await run_tests(changes, task_sandbox, words_for_tests(functions))
    examples = await run_doctests(changes, functions, attempt.patch, task_sandbox)
    tested = with_doctests(near, examples)
    disputed = await patch.disputed(tested)
    is_wrong = (reproduction == "fails" and gated.verified) or patch.breaks(tested, disputed)
    executed = Executed() if is_wrong else await patch.executing(tested)
    if claim and gated.verified and not (is_wrong or executed.tests or examples.executing):
        # No test near the patch says anything of it. Another one may.
        tested = with_doctests(await run_all_tests(changes, task_sandbox, near), examples)
        disputed = await patch.disputed(tested) if tested.files != near.files else disputed
        is_wrong = patch.breaks(tested, disputed)
        executed = Executed() if is_wrong else await patch.executing(tested)
    agreement: list[str] = []
    guarded = GuardReport()
    if not is_wrong:
        by_noun = {"test": executed.tests, "doctest": examples.executing}
        agreement = [sentence(names, noun) for noun, names in by_noun.items() if names]
        if claim:
            guarded = await guard(changes, functions, claim, attempt.patch, tested.suite, executed, task_sandbox)
            if guarded.agrees:
                agreement.append(guarded.sentence())
    # What the report complains about is known only from a reproduction that it backs.
    doubts = guarded.doubts if gated.verified else ()
    doubted = () if gated.verified else guarded.doubts
    of_the_bug = _of_the_bug(disputed, executed, raised_flags)
    missing = () if is_wrong else tuple(_missing(gated, reproduction, tested, agreement, disputed.names - of_the_bug))
    if claim and not (is_wrong or doubts or missing):
        tests = tuple(dict.fromkeys((*sorted(tested.own | of_the_bug), *executed.tests, *executed.calling)))
        missing = await patch.left_open(report, tested.suite, tests, examples.executing, guarded.compared)
    return Check(
        outcome=_outcome(is_wrong, doubts, missing),
        applies=True,
        reproduction=reproduction,
        tests=tested.tests,
        tests_run=tested.count,
        flags=(*raised_flags, *kept_from_running, *tested.flags, *_flags(of_the_bug), *guarded.flags, *doubted),
        agreement=tuple(agreement),
        doubts=doubts,
        missing=missing,
        detail=f"{_REPRODUCED[reproduction]}; {tested.detail}",
        evidence=(*tested.evidence, *seen),
        seconds=round(time.monotonic() - started, 3),
    )


@dataclass(frozen=True)
class _Patch:
    """A patch with what its examination needs."""

    text: str
    changes: Sequence[FileChange]
    functions: Sequence[ChangedFunction]
    claim: Reproduction | None
    """The reproduction, if it passes with the patch."""
    verified: bool
    """Whether the report backs the reproduction."""
    task_sandbox: TaskSandbox

    async def disputed(self, tested: SuiteComparison) -> DisputedTests:
        """Broken tests that may have expected the bug. Only a report that backs its reproduction can say so."""
        if self.claim is None or not self.verified:
            return DisputedTests()
        return await disputed_tests(self.changes, self.functions, self.claim, tested, self.task_sandbox)

    def breaks(self, tested: SuiteComparison, disputed: DisputedTests) -> bool:
        return tested.tests == "fail" and not (tested.broken and tested.broken <= disputed.names)

    async def executing(self, tested: SuiteComparison) -> Executed:
        return await executing_tests(self.functions, self.text, tested, self.task_sandbox)

    async def left_open(
        self,
        report: str,
        suite: Suite | None,
        tests: Sequence[str],
        doctests: Sequence[str],
        compared: GuardComparison | None,
    ) -> tuple[str, ...]:
        """Why the patch may be half a fix, or another one as well; empty: for no reason."""
        assert self.claim is not None
        half = same_code_elsewhere(self.changes, self.functions)
        half = half or await named_example_fails(report, self.claim, self.text, self.task_sandbox)
        if half:
            return (half,)
        unnoticed = await open_change(
            self.changes, self.functions, self.claim, self.text, suite, tests, doctests, compared, self.task_sandbox
        )
        return (unnoticed.sentence(),) if unnoticed else ()


def _of_the_bug(disputed: DisputedTests, executed: Executed, raised: Sequence[str]) -> frozenset[str]:
    """Rewritten tests that expected the bug. That the report complains about all their calls says so only where more
    tests of the same lines pass as they were, and no test asserts less."""
    weakened = any(flag.startswith(_WEAKENED) for flag in raised)
    unchanged = frozenset(executed.tests) - disputed.names
    reported = disputed.reported if len(unchanged) > len(disputed.names) and not weakened else frozenset[str]()
    return disputed.asserting | reported


def _refused(patch: str, refusal: str, seconds: float) -> Check:
    return Check(
        outcome="failed",
        applies=False,
        reproduction="none",
        tests="not_run",
        flags=patch_flags(read_patch(patch)),
        detail=f"the patch does not apply: {refusal[-500:]}",
        seconds=round(seconds, 3),
    )


async def _run_reproduction(
    gated: GatedHandoff, patched: Workspace, task_sandbox: TaskSandbox
) -> tuple[Reproduced, tuple[Evidence, ...], tuple[str, ...]]:
    """How it ended, what was seen, and a flag if it could not even be started."""
    reproduction = gated.handoff.reproduction
    if gated.verdict != "real_failure" or reproduction is None or reproduction.command is None:
        return "none", (), ()
    try:
        for path, content in reproduction.files.items():
            patched.write(path, content.encode())
    except SandboxError as error:
        # The patch put a link or a folder in its place.
        return "fails", (Evidence(command=reproduction.command, output_tail=str(error)),), ()
    try:
        done = await replay(task_sandbox, patched, reproduction.command, timeout_s=REPLAY_TIMEOUT_S)
    except SandboxError as error:
        # Most likely a file of the patch lies where something is mounted; but a machine in trouble looks the same.
        return "none", (), (f"keeps the reproduction from being run: {error}",)
    return "passes" if done.exit_code == 0 else "fails", (done.evidence(),), ()


def _outcome(is_wrong: bool, doubts: Sequence[str], missing: Sequence[str]) -> CheckOutcome:
    if is_wrong:
        return "failed"
    if doubts:
        return "doubtful"
    return "unverified" if missing else "passed"


def _flags(of_the_bug: Collection[str]) -> Iterator[str]:
    if of_the_bug:
        yield f"rewrites or removes tests that expected what the report complains about: {some_names(of_the_bug)}"


def _missing(
    gated: GatedHandoff,
    reproduction: Reproduced,
    tested: SuiteComparison,
    agreement: Sequence[str],
    disputed: Collection[str] = (),
) -> Iterator[str]:
    """What would have to be shown for `passed`."""
    if not gated.kept or gated.handoff.reproduction is None:
        yield "No reproduction was verified, so nothing shows that the bug is gone."
    elif reproduction == "none":
        yield "The reproduction could not judge the patch: no run of it fails before the patch and ends after it."
    elif not gated.verified:
        ends = "It still fails" if reproduction == "fails" else "It no longer fails"
        yield f"What the reproduction expects was assumed, the report does not say it. {ends}, which shows nothing."
    if disputed:
        yield (
            f"Tests broke, and the patch rewrites or removes them: {some_names(disputed)}. They call what the patch "
            "changes. Either they expected the bug, or the patch is wrong."
        )
    if tested.tests == "not_run":
        yield f"The project's tests did not judge the patch: {tested.detail}."
    if not agreement:
        yield "Nothing else speaks for the patch: no passing test or example executes the changed lines."


_REPRODUCED: dict[Reproduced, str] = {
    "passes": "the reproduction no longer fails",
    "fails": "the reproduction still fails",
    "none": "no reproduction to judge it by",
}
