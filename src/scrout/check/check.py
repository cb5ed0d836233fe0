"""The patch, examined on a clean workspace: does it apply, is the bug gone, does everything that passed still pass, and
does something besides the reproduction agree?

What is unusual about it is flagged and decides nothing. A flag is for a reviewer; an outcome is what runs have shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from scrout.base import SandboxError
from scrout.check.agreement import Executed, executing_tests, sentence
from scrout.check.changed import ChangedFunction, changed_functions, words_for_tests
from scrout.check.doctests import run_doctests, with_doctests
from scrout.check.flags import flags, patch_flags
from scrout.check.guard import DisputedTests, GuardReport, disputed_tests, guard
from scrout.check.patch import FileChange, read_patch, with_texts
from scrout.check.pinned import open_change
from scrout.check.regression import SuiteComparison, run_all_tests, run_tests, some_names
from scrout.records import Attempt, Check, CheckOutcome, Evidence, GatedHandoff
from scrout.sandbox.replay import replay
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace

REPLAY_TIMEOUT_S = 120.0

Reproduced = Literal["passes", "fails", "none"]


async def check(gated: GatedHandoff, attempt: Attempt, task_sandbox: TaskSandbox) -> Check:
    """Examine an attempt's patch. The reproduction is judged by its exit code, so only a failing one can tell."""
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
    functions = await asyncio.to_thread(changed_functions, changes)
    near = await run_tests(changes, task_sandbox, words_for_tests(functions))
    examples = await run_doctests(changes, functions, attempt.patch, task_sandbox)
    tested = with_doctests(near, examples)
    disputed = await _disputed(gated, changes, functions, reproduction, tested, task_sandbox)
    broken = tested.tests == "fail" and not (tested.broken and tested.broken <= disputed.names)
    is_wrong = (reproduction == "fails" and gated.verified) or broken
    agreement: list[str] = []
    guarded = GuardReport()
    executed = Executed()
    claim = gated.handoff.reproduction if reproduction == "passes" else None
    if not is_wrong:
        executed = await executing_tests(functions, attempt.patch, tested, task_sandbox)
        if claim and gated.verified and not (executed.tests or examples.executing):
            # No test near the patch says anything of it. Another one may.
            tested = with_doctests(await run_all_tests(changes, task_sandbox, near), examples)
            executed = await executing_tests(functions, attempt.patch, tested, task_sandbox)
            is_wrong = tested.tests == "fail" and not disputed.names
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
    missing = (
        () if is_wrong else tuple(_missing(gated, reproduction, tested, agreement, disputed.names - disputed.asserting))
    )
    if claim and not (is_wrong or doubts or missing):
        tests = tuple(dict.fromkeys((*sorted(tested.own | disputed.asserting), *executed.tests, *executed.calling)))
        unnoticed = await open_change(
            changes,
            functions,
            claim,
            attempt.patch,
            tested.suite,
            tests,
            examples.executing,
            guarded.compared,
            task_sandbox,
        )
        missing = (unnoticed.sentence(),) if unnoticed else ()
    return Check(
        outcome=_outcome(is_wrong, doubts, missing),
        applies=True,
        reproduction=reproduction,
        tests=tested.tests,
        tests_run=tested.count,
        flags=(*raised_flags, *kept_from_running, *tested.flags, *_flags(disputed), *guarded.flags, *doubted),
        agreement=tuple(agreement),
        doubts=doubts,
        missing=missing,
        detail=f"{_REPRODUCED[reproduction]}; {tested.detail}",
        evidence=(*tested.evidence, *seen),
        seconds=round(time.monotonic() - started, 3),
    )


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


async def _disputed(
    gated: GatedHandoff,
    changes: Sequence[FileChange],
    functions: Sequence[ChangedFunction],
    reproduction: Reproduced,
    tested: SuiteComparison,
    task_sandbox: TaskSandbox,
) -> DisputedTests:
    """Broken tests that contradict the report. Only one that backs its reproduction can be contradicted."""
    claim = gated.handoff.reproduction
    if not gated.verified or reproduction != "passes" or claim is None:
        return DisputedTests()
    return await disputed_tests(changes, functions, claim, tested, task_sandbox)


def _flags(disputed: DisputedTests) -> Iterator[str]:
    if disputed.asserting:
        yield f"rewrites tests that expected the reported exception: {some_names(disputed.asserting)}"


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
            f"Tests broke and pass as the patch rewrote them: {some_names(disputed)}. They call what the patch "
            "changes, and the report complains about such a call. Either they expected the bug, or the patch is wrong."
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
