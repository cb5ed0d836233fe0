"""The patch, examined on a clean workspace: does it apply, is the bug gone, does everything that passed still pass?"""

from __future__ import annotations

import re
import time
from typing import Literal

from scrout.errors import SandboxError
from scrout.records import Attempt, Check, CheckOutcome, Evidence, GatedHandoff
from scrout.sandbox.replay import replay
from scrout.sandbox.suite import belongs_to_tests, find_suite, related_tests, run_suite
from scrout.sandbox.workshop import Workshop
from scrout.sandbox.workspace import Workspace

SUITE_TIMEOUT_S = 300.0
REPLAY_TIMEOUT_S = 120.0

_HEADER = re.compile(r'^diff --git (?:"?a/.*"?) (?:"?b/(.*?)"?)$', re.MULTILINE)

Reproduced = Literal["passes", "fails", "none"]
Tested = Literal["pass", "fail", "none", "not_run"]


async def check(gated: GatedHandoff, attempt: Attempt, workshop: Workshop) -> Check:
    """Examine an attempt's patch. The reproduction is judged by its exit code, so only a failing one can tell."""
    started = time.monotonic()
    if not attempt.patch:
        return Check(
            outcome="no_patch", applies=False, reproduction="none", tests="not_run", detail="there is no patch to check"
        )
    patched = workshop.fresh()
    try:
        refusal = await workshop.apply(patched, attempt.patch)
        if refusal:
            return Check(
                outcome="failed",
                applies=False,
                reproduction="none",
                tests="not_run",
                detail=f"the patch does not apply: {refusal[-500:]}",
                seconds=time.monotonic() - started,
            )
        # Tests first: the reproduction's files must not be there when the project's own tests are collected.
        changed = changed_paths(attempt.patch)
        tests, count, broken, tested = await _run_tests(changed, patched, workshop)
        reproduction, seen = await _run_reproduction(gated, patched, workshop)
    finally:
        patched.remove()
    return Check(
        outcome=_outcome(reproduction, tests),
        applies=True,
        reproduction=reproduction,
        tests=tests,
        tests_run=count,
        flags=tuple(f"changes a test: {path}" for path in changed if belongs_to_tests(path)),
        detail=_detail(reproduction, tests, count, broken),
        evidence=(*tested, *seen),
        seconds=round(time.monotonic() - started, 3),
    )


def changed_paths(patch: str) -> tuple[str, ...]:
    """The files a patch touches, under their new names."""
    return tuple(dict.fromkeys(_HEADER.findall(patch)))


async def _run_tests(
    changed: tuple[str, ...], patched: Workspace, workshop: Workshop
) -> tuple[Tested, int, frozenset[str], tuple[Evidence, ...]]:
    """Tests near the change, before and after it; all of them where none is near."""
    suite = await find_suite(workshop)
    if suite is None:
        return "none", 0, frozenset(), ()
    files = related_tests(workshop.base, changed)
    untouched = workshop.fresh()
    try:
        before = await run_suite(workshop, untouched, suite, files, timeout_s=SUITE_TIMEOUT_S)
    finally:
        untouched.remove()
    if not before.finished or not before.passed:
        return "not_run", 0, frozenset(), (before.replay.evidence(),)
    after = await run_suite(workshop, patched, suite, files, timeout_s=SUITE_TIMEOUT_S)
    broken = before.passed - after.passed
    return "fail" if broken else "pass", len(after.passed | after.failed), broken, (after.replay.evidence(),)


async def _run_reproduction(
    gated: GatedHandoff, patched: Workspace, workshop: Workshop
) -> tuple[Reproduced, tuple[Evidence, ...]]:
    reproduction = gated.handoff.reproduction
    if gated.verdict != "real_failure" or reproduction is None or reproduction.command is None:
        return "none", ()
    try:
        for path, content in reproduction.files.items():
            patched.write(path, content.encode())
    except SandboxError as error:
        # The patch put a link or a folder in its place.
        seen = Evidence(command=reproduction.command, output_tail=str(error))
        return "fails", (seen,)
    done = await replay(workshop, patched, reproduction.command, timeout_s=REPLAY_TIMEOUT_S)
    return "passes" if done.exit_code == 0 else "fails", (done.evidence(),)


def _outcome(reproduction: Reproduced, tests: Tested) -> CheckOutcome:
    if reproduction == "fails" or tests == "fail":
        return "failed"
    # Without tests a patch that merely avoids the reproduction looks just as good as one that fixes the bug.
    return "passed" if reproduction == "passes" and tests == "pass" else "unverified"


def _detail(reproduction: Reproduced, tests: Tested, count: int, broken: frozenset[str]) -> str:
    bug = {
        "passes": "the reproduction no longer fails",
        "fails": "the reproduction still fails",
        "none": "no verified reproduction to judge it by",
    }[reproduction]
    suite = {
        "pass": f"{count} related tests ran and none broke",
        "fail": f"{len(broken)} tests that passed before fail now: {', '.join(sorted(broken)[:3])}",
        "none": "the project has no tests that can be run here",
        "not_run": "the project's tests do not pass or finish without the patch either",
    }[tests]
    return f"{bug}; {suite}"
