"""Runs the tests that a task's gold names over a patch, each time in a clean workspace.

The gold's test files win over the patch's. A test has passed only if a report says so; a missing or skipped test has
not. If possible, a report is a document that the runner writes outside of the repository; otherwise, it is the runner's
output, which code under test can forge.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from scrout.batch.grading.test_names import NamedTest, judge_names, places_of
from scrout.check.flags import flags
from scrout.check.patch import read_patch, with_texts
from scrout.files import read_beneath
from scrout.sandbox.outbox import read_outbox
from scrout.sandbox.reports import TestReport
from scrout.sandbox.reports_by_name import PYTEST, read_documents, read_printed
from scrout.sandbox.suite import Suite, find_suite, is_test_file, python_files
from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Base, Workspace
from scrout.task import Gold, Task
from scrout.text import plural

TIMEOUT_S = 1_800.0
"""Time limit of one run of the tests."""
REPORTS = "/opt/scrout/reports"
REPORTS_VARIABLE = "SCROUT_REPORTS"
PYTEST_REPORT = "pytest.xml"
UNITTEST_REPORT = "unittest.xml"
MOST_REPORT_BYTES = 20_000_000
"""Total size of a run's reports."""
MOST_OUTPUT_BYTES = 20_000_000
"""Maximum output of tests: a result in the middle must not be cut."""
MOST_TAIL = 4_000
MOST_LISTED = 5
MOST_DETAIL = 1_000
"""In characters."""

NO_TESTS = (
    "the project has no tests that can be found, or no runner for them. Give the gold a test_command, and see "
    "`scrout env` for what the project lacks"
)

_INSIDE = Path(__file__).with_name("inside")
_SEEN_INSIDE = "/opt/scrout/judge"
_UNITTEST = f"{_SEEN_INSIDE}/unittest_report.py"
# At the base's version, or deleted if the base does not have it.
_RESTORE = """
for path; do
  if git cat-file -e "HEAD:$path" 2> /dev/null; then git checkout -q -f HEAD -- ":(literal)$path"
  else rm -rf -- "./$path"; fi || exit
done
"""


@dataclass(frozen=True)
class Case:
    """A task with its answer. No stage ever sees it."""

    task: Task
    gold: Gold
    digest: str

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that judge, without duplicates."""
        return tuple(dict.fromkeys((*self.gold.fail_to_pass, *self.gold.pass_to_pass)))


@dataclass(frozen=True)
class GradingRun:
    """One run of the tests that judge."""

    passed: frozenset[str]
    """By the gold's names."""
    seen: int
    """Tests in the report, by any name."""
    exit_code: int | None
    """None: stopped at the time limit."""
    seconds: float
    tail: str
    ambiguous: tuple[str, ...] = ()
    """Tests that count as not passed because their name is ambiguous."""

    @property
    def killed(self) -> bool:
        return self.exit_code in (137, 143)

    @property
    def stopped(self) -> str:
        """Why it was stopped; empty: it ended by itself."""
        if self.exit_code is None:
            return "the tests did not end in time"
        return "the tests were killed" if self.killed else ""


@dataclass(frozen=True)
class NotRun:
    of: Literal["patch", "tests"]
    why: str


@dataclass
class Judge:
    case: Case
    task_sandbox: TaskSandbox
    suite: Suite | None
    """None: the gold has its own command, or the project has no tests."""

    @property
    def has_tests(self) -> bool:
        return self.suite is not None or bool(self.case.gold.test_command.strip())

    @property
    def timeout_s(self) -> float:
        return self.task_sandbox.limits.timeout_s

    async def trial(self, patch: str) -> GradingRun | NotRun:
        """Apply the patch and the gold's tests in a new workspace, and run the tests once."""
        workspace = self.task_sandbox.fresh()
        try:
            return await self._trial(workspace, patch)
        finally:
            workspace.remove()

    async def _trial(self, workspace: Workspace, patch: str) -> GradingRun | NotRun:
        if patch and (why := await self.task_sandbox.apply(workspace, _whole(patch))):
            return NotRun("patch", why[-500:])
        if refusal := await self._bring_tests(workspace):
            return refusal
        return await self._run(workspace)

    async def bring_tests_alone(self) -> NotRun | None:
        """Whether the gold's tests apply to the base without any patch."""
        workspace = self.task_sandbox.fresh()
        try:
            return await self._bring_tests(workspace)
        finally:
            workspace.remove()

    async def flags(self, patch: str) -> tuple[str, ...]:
        """Doubts about a patch; empty if it does not apply."""
        workspace = self.task_sandbox.fresh()
        try:
            if await self.task_sandbox.apply(workspace, _whole(patch)):
                return ()
            return flags(with_texts(read_patch(patch), self.task_sandbox.base, workspace))
        finally:
            workspace.remove()

    async def _bring_tests(self, workspace: Workspace) -> NotRun | None:
        """Write the gold's version of the test files, whatever the patch changed in them."""
        gold = self.case.gold
        brought = (name for change in read_patch(gold.test_patch) for name in (change.old, change.new) if name)
        paths = list(dict.fromkeys((*brought, *self._named_files())))
        if paths:
            done = await self.task_sandbox.run(workspace, ["bash", "-c", _RESTORE, "restore", *paths])
            if done.exit_code != 0:
                return NotRun("tests", done.text.strip()[-500:])
        if gold.test_patch.strip() and (why := await self.task_sandbox.apply(workspace, _whole(gold.test_patch))):
            return NotRun("tests", why[-500:])
        return None

    def _named_files(self) -> Iterator[str]:
        """Test files of the base that test names refer to. A doctest's file is the code under test itself."""
        fixed = {name for change in read_patch(self.case.gold.patch) for name in (change.old, change.new)}
        for path in self._told_files(self.task_sandbox.base):
            if is_test_file(path) and path not in fixed:
                yield path

    def _told_files(self, tree: Base | Workspace) -> Iterator[str]:
        """The file of each test, without duplicates; empty for a test whose file is unknown."""
        files = dict.fromkeys(place.file for place in self._places.values())
        yield from dict.fromkeys(file if file and tree.read(file) is not None else "" for file in files)

    @cached_property
    def _places(self) -> dict[str, NamedTest]:
        """The place of each test, in the base or in the gold's files. The patch's files do not count."""
        gold = self.case.gold
        brought = (change.new for patch in (gold.test_patch, gold.patch) for change in read_patch(patch) if change.new)
        return places_of(self.case.tests, {*python_files(self.task_sandbox.base), *brought})

    async def _run(self, workspace: Workspace) -> GradingRun:
        command, variables, only = self._command(workspace)
        done = await self.task_sandbox.run(
            workspace,
            shell_argv(command),
            variables={REPORTS_VARIABLE: REPORTS, **variables},
            mounts=(Mount(workspace.outbox, REPORTS, writable=True), Mount(_INSIDE, _SEEN_INSIDE)),
        )
        report = await asyncio.to_thread(_read_report, workspace, only, done.text, command)
        judged = judge_names(self._places, report, lambda path: workspace.read(path) is not None)
        seen = len(report.passed) + len(report.failed)
        tail = done.text.strip()[-MOST_TAIL:]
        return GradingRun(judged.passed, seen, done.exit_code, done.seconds, tail, judged.ambiguous)

    def _command(self, workspace: Workspace) -> tuple[str, dict[str, str], str]:
        """The command, its variables, and the only report that counts; empty: any report."""
        junit = f"--junitxml={REPORTS}/{PYTEST_REPORT}"
        if self.suite is None:
            command = self.case.gold.test_command
            # A second pytest would overwrite the first one's report, and the command's own report would overwrite ours.
            if len(PYTEST.findall(command)) == 1 and "--junit" not in command:
                return command, {"PYTEST_ADDOPTS": junit}, PYTEST_REPORT
            return command, {}, ""
        told = tuple(self._told_files(workspace))
        if self.suite.runner == "pytest":
            return f"{self.suite.command([path for path in told if path])} {junit}", {}, PYTEST_REPORT
        # If one module is not known by its name, all have to run.
        command = self.suite.command(told if all(told) else ()).replace("-m unittest", _UNITTEST, 1)
        return command, {"SCROUT_UNITTEST_REPORT": f"{REPORTS}/{UNITTEST_REPORT}"}, UNITTEST_REPORT


async def open_judge(case: Case, task_sandbox: TaskSandbox, timeout_s: float = TIMEOUT_S) -> Judge:
    """Detect, once for all patches, how to run the task's tests."""
    limits = replace(task_sandbox.limits, timeout_s=timeout_s, output_bytes=MOST_OUTPUT_BYTES)
    roomy = TaskSandbox(task_sandbox.workspaces, task_sandbox.tier, task_sandbox.environment, limits)
    return Judge(case, roomy, None if case.gold.test_command.strip() else await find_suite(task_sandbox))


def failing(case: Case, trials: Sequence[GradingRun], excused: Sequence[str] = ()) -> tuple[str, ...]:
    """Tests that did not pass in every run; of the excused ones, only those that never passed."""
    always = frozenset.intersection(*(trial.passed for trial in trials))
    once = frozenset.union(*(trial.passed for trial in trials))
    return tuple(test for test in case.tests if test not in always and not (test in excused and test in once))


def wavering(case: Case, trials: Sequence[GradingRun]) -> tuple[str, ...]:
    """Tests that passed in some runs only."""
    return tuple(test for test in case.tests if 0 < sum(test in trial.passed for trial in trials) < len(trials))


def gold_digest(base_commit: str, gold: Gold) -> str:
    """Digest of everything that decides a grade, except the patch."""
    return digest(f"{base_commit}\0{gold.model_dump_json()}")


def digest(text: str) -> str:
    """Digest of a patch, or of the tests that judge it."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def in_words(case: Case, failed: Sequence[str], trials: Sequence[GradingRun]) -> str:
    last = trials[-1]
    if not case.tests:
        return f"no tests are named, so the exit code decides: {last.exit_code}"
    if not failed:
        return f"all {len(case.tests)} tests pass"
    if not last.seen:
        return f"no test result could be read (exit code {last.exit_code}): {last.tail[-300:]}"
    told = f"{len(failed)} of {len(case.tests)} tests do not pass: {_listed(failed)}"
    if last.ambiguous:
        told = f"{plural(len(last.ambiguous), 'name')} could mean several tests: {_listed(last.ambiguous)}; {told}"
    return told[:MOST_DETAIL]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_LISTED]) + (", and more" if len(names) > MOST_LISTED else "")


def _read_report(workspace: Workspace, only: str, printed: str, command: str) -> TestReport:
    report = read_documents(content.decode("utf-8", errors="replace") for content in _documents(workspace, only))
    if report is not None:
        return report
    # If a document was requested, printed output in its place may be forged.
    return TestReport(frozenset(), frozenset()) if only else read_printed(printed, command)


def _documents(workspace: Workspace, only: str) -> Iterator[bytes]:
    if not only:
        yield from read_outbox(workspace.outbox, MOST_REPORT_BYTES)
    elif (content := read_beneath(workspace.outbox, only, MOST_REPORT_BYTES)) is not None:
        yield content


def _whole(patch: str) -> str:
    """Some tools cut the last line's end, and git rejects such a patch as damaged."""
    return patch if patch.endswith("\n") else f"{patch}\n"
