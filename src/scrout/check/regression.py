"""The project's tests under a patch: what passed without it and fails with it.

A patch may change tests, so they are judged by what they were: its other files are tried against the original tests,
and then all of it against its own. A test counts as broken only when it fails again alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from scrout.base import SandboxError
from scrout.check.flags import MOST_NAMED, shown
from scrout.check.patch import FileChange
from scrout.check.patched import patched_workspace
from scrout.records import Evidence
from scrout.sandbox.suite import (
    Suite,
    SuiteRun,
    belongs_to_tests,
    find_suite,
    is_test_file,
    related_tests,
    run_on_base,
    run_suite,
)
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.text import plural

SUITE_TIMEOUT_S = 300.0
ALL_TIMEOUT_S = 60.0
"""For all tests, where none of those near the patch executes its lines."""
SAMPLE_S = 180.0
"""For test files one by one, where the related tests do not finish together."""
SAMPLE_FILE_S = 60.0
LATE_S = 450.0
"""After this the tests as the patch changes them are not run any more: the original ones come first."""
AGAIN_TIMEOUT_S = 60.0
MOST_AGAIN = 20
"""Newly failing tests that are run again; so many do not fail by chance, so the others count as broken."""
MOST_CHANGED = 8
"""Test files of the patch's own that are run beside the related ones."""
MAX_NAMING = 4
"""Test files that name a changed function, run beside those."""

_WORD = re.compile(r"[a-z]{3,40}", re.IGNORECASE)


@dataclass(frozen=True)
class SuiteComparison:
    """What the project's tests say of a patch."""

    tests: Literal["pass", "fail", "none", "not_run"]
    count: int = 0
    """Tests that ran with the patch."""
    detail: str = ""
    flags: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    suite: Suite | None = None
    files: tuple[str, ...] = ()
    """Test files that ran; empty: all that there are."""
    passed: frozenset[str] = frozenset()
    """Tests that passed before the patch and with it."""
    broken: frozenset[str] = frozenset()
    """Tests that passed before the patch and fail with it."""
    rewritten: frozenset[str] = frozenset()
    """Those of them that pass as the patch rewrote them."""
    removed: frozenset[str] = frozenset()
    """Those of them that the patch takes out of files that it changes."""
    own: frozenset[str] = frozenset()
    """Tests that pass as the patch leaves them, and that did not pass before."""


@dataclass(frozen=True)
class _Trial:
    """One run of tests on the base with the patch, or a part of it."""

    run: SuiteRun
    broken: frozenset[str] = frozenset()
    """Passed before the patch, and failed twice with it."""
    shaky: frozenset[str] = frozenset()
    """Failed with the others, and passed alone or the next time."""


async def run_all_tests(
    changes: Sequence[FileChange], task_sandbox: TaskSandbox, near: SuiteComparison
) -> SuiteComparison:
    """All tests, where they finish in a while; else what those near the patch came to."""
    if near.suite is None or near.tests != "pass" or not near.files or len(near.files) == len(near.suite.files):
        return near
    regression = await asyncio.to_thread(_Regression, task_sandbox, near.suite, changes)
    regression.files = ()
    before = await run_on_base(task_sandbox, near.suite, timeout_s=ALL_TIMEOUT_S)
    if not before.finished or not before.passed >= near.passed:
        return near
    try:
        return await regression.compare(before)
    except SandboxError:
        return near


async def run_tests(
    changes: Sequence[FileChange], task_sandbox: TaskSandbox, names: Collection[str] = ()
) -> SuiteComparison:
    """Tests that the patch changes or that are near it, before and after; all of them where there are none.

    `names` are those of the changed functions. Where the tests do not finish together, files run one by one, nearest
    first, and those that finish in time count.
    """
    suite = await find_suite(task_sandbox)
    if suite is None:
        return SuiteComparison("none", detail="the project has no tests that can be run here")
    regression = await asyncio.to_thread(_Regression, task_sandbox, suite, changes, names)
    before = await run_on_base(task_sandbox, suite, regression.files, timeout_s=SUITE_TIMEOUT_S)
    seen = before.replay.evidence()
    if not before.finished or not before.passed:
        sample = await regression.sample()
        if sample is None:
            why = "no test file passes or finishes without the patch either"
            return SuiteComparison("not_run", detail=why, evidence=(seen,))
        before = sample
    try:
        return await regression.compare(before)
    except SandboxError as error:
        # They have just run on the base, so this is the patch's doing: a file where a folder is mounted, say.
        why = "the project's tests cannot be run with the patch"
        return SuiteComparison(
            "not_run", detail=why, flags=(f"keeps its tests from being run: {error}",), evidence=(seen,)
        )


class _Regression:
    """The runs that one patch needs."""

    def __init__(
        self, task_sandbox: TaskSandbox, suite: Suite, changes: Sequence[FileChange], names: Collection[str] = ()
    ) -> None:
        self.task_sandbox = task_sandbox
        self.suite = suite
        self.changes = changes
        self.late_at = time.monotonic() + LATE_S
        self.is_sample = False
        self.touched = [path for change in changes if _is_of_tests(change) for path in _paths(change)]
        """Files of tests, or that tests stand on, that the patch changes."""
        changed = [path for path in self.touched if path in suite.files][:MOST_CHANGED]
        near = related_tests(task_sandbox.base, [path for change in changes for path in _paths(change)])
        self.naming = _naming(task_sandbox, suite, names)
        self.files = tuple(dict.fromkeys((*changed, *near, *self.naming[:MAX_NAMING])))
        """Empty: all that there are."""

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.late_at

    async def sample(self) -> SuiteRun | None:
        """Test files one by one on the base, nearest first, as many as finish in time; None: none does and passes."""
        ends = time.monotonic() + SAMPLE_S
        runs: dict[str, SuiteRun] = {}
        for file in dict.fromkeys((*self.files, *self.naming, *_by_folder(self.suite.files, self.changes))):
            left_s = ends - time.monotonic()
            if left_s <= 0:
                break
            run = await run_on_base(self.task_sandbox, self.suite, (file,), timeout_s=min(left_s, SAMPLE_FILE_S))
            if run.finished and run.passed:
                runs[file] = run
        if not runs:
            return None
        self.files = tuple(runs)
        self.is_sample = True
        passed = frozenset[str]().union(*(run.passed for run in runs.values()))
        failed = frozenset[str]().union(*(run.failed for run in runs.values()))
        return replace(next(iter(runs.values())), passed=passed, failed=failed)

    async def compare(self, before: SuiteRun) -> SuiteComparison:
        source = without_tests(self.changes)
        original = await self._try(source, self.files, before.passed) if source else _Trial(before)
        own = await self._try_own(before)
        broken = original.broken | own.broken if own else original.broken
        count = len(original.run.passed | original.run.failed)
        rewritten = original.broken & own.run.passed if own else frozenset[str]()
        sampled = f" in the {plural(len(self.files), 'file')} that finished in time" if self.is_sample else ""
        return SuiteComparison(
            "fail" if broken else "pass",
            count=count,
            detail=_failure(broken, rewritten) if broken else f"{count} related tests ran{sampled} and none broke",
            flags=tuple(self._flags(before, original, own)),
            evidence=tuple(trial.run.replay.evidence() for trial in (original, own) if trial),
            suite=self.suite,
            files=self.files,
            passed=before.passed & original.run.passed,
            broken=broken,
            rewritten=rewritten,
            removed=self._removed(original, own) if own else frozenset(),
            own=own.run.passed - before.passed if own else frozenset(),
        )

    def _removed(self, original: _Trial, own: _Trial) -> frozenset[str]:
        left = {name for name in original.broken - own.run.passed - own.run.failed if _is_in(name, self.touched)}
        return frozenset(left) if own.run.finished else frozenset()

    async def _try_own(self, before: SuiteRun) -> _Trial | None:
        """The whole patch against the tests as it leaves them; None: it changes none, or nothing is left to run."""
        if not self.touched:
            return None
        gone = {change.old for change in self.changes if change.old != change.new}
        added = [change.new for change in self.changes if change.new and change.old != change.new]
        kept = [file for file in self.files if file not in gone]
        files = (*kept, *[file for file in added if is_test_file(file)][:MOST_CHANGED])
        if (self.files and not files) or self.late:
            return None
        whole = "".join(change.section for change in self.changes)
        # A test that the patch took out of its file cannot fail any more; the original one has been tried.
        optional = {name for name in before.passed if _is_in(name, self.touched)}
        return await self._try(whole, files if self.files else (), before.passed, optional)

    async def _try(
        self, patch: str, files: Sequence[str], expected: frozenset[str], optional: Collection[str] = ()
    ) -> _Trial:
        run = await self.run(patch, files, SUITE_TIMEOUT_S)
        names = [name for name in expected - run.passed if name in run.failed or name not in optional]
        names = [name for name in names if name in run.failed or not _is_named_anew(name, expected, run.passed)]
        if not names:
            return _Trial(run)
        # First those that were seen to fail: of a run that ended early the others are only missing.
        chosen = sorted(names, key=lambda name: (name not in run.failed, name))[:MOST_AGAIN]
        again = await self.run(patch, arguments_of(self.suite, chosen), AGAIN_TIMEOUT_S)
        shaky = again.passed.intersection(names)
        if broken := again.failed.intersection(names) - shaky:
            shaky |= await self._failing_by_chance(patch, files, broken)
        return _Trial(run, frozenset(names) - shaky, shaky)

    async def _failing_by_chance(self, patch: str, files: Sequence[str], broken: frozenset[str]) -> frozenset[str]:
        """Tests that fail alone without the patch, too, which says nothing, and pass with it among the others."""
        without = await self.run("", arguments_of(self.suite, sorted(broken)), AGAIN_TIMEOUT_S)
        doubtful = without.failed & broken if without.finished else frozenset[str]()
        return doubtful & (await self.run(patch, files, SUITE_TIMEOUT_S)).passed if doubtful else doubtful

    async def run(self, patch: str, files: Sequence[str], timeout_s: float) -> SuiteRun:
        """Tests on a workspace of their own, so that nothing is left of other runs."""
        async with patched_workspace(self.task_sandbox, patch) as workspace:
            return await run_suite(self.task_sandbox, workspace, self.suite, files, timeout_s=timeout_s)

    def _flags(self, before: SuiteRun, original: _Trial, own: _Trial | None) -> Iterator[str]:
        if shaky := original.shaky | (own.shaky if own else frozenset()):
            yield f"a test failed with the others and passed alone: {some_names(shaky)}"
        if own and (failed := own.run.failed - before.failed - before.passed):
            yield f"fails a test of its own: {some_names(failed)}"
        if self.touched and not own and self.late:
            yield "no time was left for the tests as it changes them"


def _is_named_anew(name: str, before: Collection[str], after: Collection[str]) -> bool:
    """Whether a parameter in a test's name differs from run to run, such as the time: as many of its function pass."""
    function, bracket, _ = name.partition("[")
    counts = [sum(one.startswith(f"{function}[") for one in names) for names in (before, after)]
    return bool(bracket) and counts[0] <= counts[1]


def _failure(broken: Collection[str], rewritten: Collection[str]) -> str:
    failure = f"{len(broken)} tests that passed before fail now: {some_names(broken)}"
    if not rewritten:
        return failure
    return f"{failure}; {len(rewritten)} of them pass as the patch rewrote them, which is for a reviewer to judge"


def some_names(names: Collection[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - MOST_NAMED
    named = ", ".join(shown(name) for name in sorted(names)[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _naming(task_sandbox: TaskSandbox, suite: Suite, names: Collection[str]) -> tuple[str, ...]:
    """Test files that name a changed function, those with the most of them first."""
    if not names:
        return ()
    pattern = re.compile(rb"\b(?:" + b"|".join(re.escape(name.encode()) for name in sorted(names)) + rb")\b")
    found = {file: len(set(pattern.findall(task_sandbox.base.read(file) or b""))) for file in suite.files}
    return tuple(sorted((file for file in found if found[file]), key=lambda file: (-found[file], file)))


def _by_folder(files: Sequence[str], changes: Sequence[FileChange]) -> list[str]:
    """Test files, those first whose path has the most words of the changed files' paths."""
    words = {word for change in changes for word in _WORD.findall(change.path)}
    return sorted(files, key=lambda file: (-len(words.intersection(_WORD.findall(file))), file))


def without_tests(changes: Sequence[FileChange]) -> str:
    """The patch without what it changes in tests."""
    return "".join(change.section for change in changes if not _is_of_tests(change))


def _is_of_tests(change: FileChange) -> bool:
    """Whether nothing but tests is changed by it; a file that leaves the tests for the code is code."""
    return all(belongs_to_tests(path) for path in _paths(change))


def _paths(change: FileChange) -> list[str]:
    """The name it has, and the one it had."""
    return [path for path in dict.fromkeys((change.old, change.new)) if path]


def _is_in(name: str, files: Collection[str]) -> bool:
    """Whether a test, as its runner names it, is in one of these files."""
    for file in files:
        module = ".".join(PurePosixPath(file).with_suffix("").parts)
        if name.startswith((f"{file}::", f"{module}.")):
            return True
    return False


def arguments_of(suite: Suite, names: Sequence[str]) -> tuple[str, ...]:
    """Names of tests, as a suite takes them where it wants files."""
    if suite.runner == "pytest":
        # A parameter's value is not always printed as it has to be given.
        return tuple(dict.fromkeys(name.partition("[")[0] for name in names))
    return tuple(f"{name}.py" for name in names)
