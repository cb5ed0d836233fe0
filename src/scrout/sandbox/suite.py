"""The project's own tests: their runner, the test files near a change, and the result of a run."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from scrout.files import real_beneath
from scrout.sandbox.environment import Environment
from scrout.sandbox.replay import TAIL_CHARACTERS, Replay, replay
from scrout.sandbox.reports import read_pytest, read_unittest
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Base, Workspace

_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests)\.py$")
_IMPORT = re.compile(r"^[ \t]*+(?:from|import)\b[^\n]*+", re.MULTILINE)
# Like `python -m pytest`, except that a pytest.py in the repository cannot replace the runner.
_PYTEST = "import os,sys; sys.path.pop(0); import pytest; sys.path.insert(0,os.getcwd()); sys.exit(pytest.main())"
_TEST_FUNCTION = re.compile(rb"^(?:async )?def test_(?!suite\b|main\b)\w+\(", re.MULTILINE)
"""Signs of a test that unittest does not see."""
_SETTINGS = ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini")
_CANNOT_START = 4
"""pytest's exit codes if its settings or a conftest.py are wrong."""
MOST_RELATED = 8
MOST_REMEMBERED = 256
"""Cache of runs on unchanged repositories."""


@dataclass(frozen=True)
class Suite:
    """How to run the project's tests."""

    runner: Literal["pytest", "unittest"]
    files: tuple[str, ...]
    source_root: str = ""
    """Folder to put on Python's path; empty: the environment has the project's packages."""
    options: str = ""
    """More options for pytest."""

    def command(self, files: Sequence[str] = ()) -> str:
        """A shell command for these test files; all of them if none is named."""
        command = self._command(files)
        if not self.source_root:
            return command
        # Keep the existing PYTHONPATH: the sandbox uses it to watch a run.
        return f'PYTHONPATH="{self.source_root}${{PYTHONPATH:+:$PYTHONPATH}}" {command}'

    def _command(self, files: Sequence[str]) -> str:
        names = " ".join(shlex.quote(name) for name in files)
        if self.runner == "pytest":
            # The project's own addopts may request plugins, coverage or quiet output that hides test names.
            options = "-o addopts= -p no:cacheprovider -q -rA --tb=short --color=no --continue-on-collection-errors"
            parts = ("python -c", shlex.quote(_PYTEST), options, self.options, names)
            return " ".join(part for part in parts if part)
        if not files:
            return "python -m unittest discover -v" + self._start_folder()
        modules = " ".join(shlex.quote(_module(name)) for name in files)
        return f"python -m unittest -v {modules}"

    def _start_folder(self) -> str:
        folders = {PurePosixPath(name).parts[0] for name in self.files if "/" in name}
        for folder in ("tests", "test"):
            if folder in folders:
                return f" -s {folder} -t ."
        return ""


@dataclass(frozen=True)
class SuiteRun:
    """The result of one test run."""

    passed: frozenset[str]
    failed: frozenset[str]
    finished: bool
    """False: stopped at its time limit or killed, so a missing name means nothing."""
    replay: Replay


async def find_suite(task_sandbox: TaskSandbox) -> Suite | None:
    """Find the project's tests, if it has Python tests and a runner for them."""
    files = test_files(task_sandbox.base)
    if not files or not task_sandbox.environment.python:
        return None
    contents = [task_sandbox.base.read(name) or b"" for name in files]
    root = await _source_root(task_sandbox)
    unittest = Suite("unittest", files, root) if any(b"unittest" in content for content in contents) else None
    if unittest and not _asks_for_pytest(task_sandbox.base, contents):
        return unittest
    workspace = task_sandbox.fresh()
    try:
        if (await task_sandbox.shell(workspace, "python -c 'import pytest'", timeout_s=30)).exit_code != 0:
            return unittest
        return Suite("pytest", files, root, await _options(task_sandbox, workspace, files[0]))
    finally:
        workspace.remove()


async def _options(task_sandbox: TaskSandbox, workspace: Workspace, file: str) -> str:
    """Options that pytest needs to start.

    Warning filters for other versions, or filters that turn new packages' warnings into errors, can prevent every test
    from running.
    """
    if not any(b"filterwarnings" in (task_sandbox.base.read(name) or b"") for name in _SETTINGS):
        return ""
    collect = f"python -c {shlex.quote(_PYTEST)} -o addopts= -p no:cacheprovider --collect-only -q {shlex.quote(file)}"
    without = "-o filterwarnings="
    if (await task_sandbox.shell(workspace, collect, timeout_s=30)).exit_code != _CANNOT_START:
        return ""
    again = await task_sandbox.shell(workspace, f"{collect} {without}", timeout_s=30)
    return "" if again.exit_code == _CANNOT_START else without


async def _source_root(task_sandbox: TaskSandbox) -> str:
    """`src` if the project's package is there and not installed; otherwise empty."""
    folder = real_beneath(task_sandbox.base.tree, "src")
    packages = sorted(path.parent.name for path in folder.glob("*/__init__.py")) if folder and folder.is_dir() else []
    if not packages or not packages[0].isidentifier() or task_sandbox.base.has("src/__init__.py"):
        return ""
    workspace = task_sandbox.fresh()
    try:
        line = f"python -c 'import {packages[0]}' || ! PYTHONPATH=src python -c 'import {packages[0]}'"
        return "" if (await task_sandbox.shell(workspace, line, timeout_s=30)).exit_code == 0 else "src"
    finally:
        workspace.remove()


def _asks_for_pytest(base: Base, contents: Sequence[bytes]) -> bool:
    """Whether the project is written for pytest. Others run under unittest, without third-party plugins."""
    declared = (base.read(name) or b"" for name in (*_SETTINGS, "setup.py"))
    named = any(b"pytest" in content for content in (*declared, *contents))
    return named or any(_TEST_FUNCTION.search(content) for content in contents)


def test_files(base: Base) -> tuple[str, ...]:
    """Python test files at the base commit, in git's order."""
    return tuple(path for path in python_files(base) if is_test_file(path))


def python_files(base: Base) -> tuple[str, ...]:
    """Python files at the base commit, in git's order."""
    names = base.git("ls-tree", "-r", "-z", "--name-only", base.commit)
    paths = (os.fsdecode(name) for name in names.split(b"\0") if name.endswith(b".py"))
    return tuple(path for path in paths if path.isprintable())


def belongs_to_tests(path: str) -> bool:
    """Whether a path is a test file, or a file that tests depend on: fixtures, helpers, data."""
    pure = PurePosixPath(path)
    return is_test_file(path) or pure.name == "conftest.py" or not {"test", "tests"}.isdisjoint(pure.parts)


def is_test_file(path: str) -> bool:
    """Whether a path looks like a Python test file."""
    return _TEST_FILE.search(path) is not None


def related_tests(base: Base, paths: Sequence[str]) -> tuple[str, ...]:
    """Test files near the given source files, nearest first: named after one, or importing one."""
    scores: dict[str, int] = {}
    for test in test_files(base):
        content = (base.read(test) or b"").decode("utf-8", errors="replace")
        # Only these lines are searched below, so that no file can slow down the search.
        imports = "\n".join(_IMPORT.findall(content))
        for path in paths:
            source = PurePosixPath(path)
            parts = source.parent.parts if source.stem == "__init__" else (*source.parent.parts, source.stem)
            if not parts:
                continue
            score = 0
            if PurePosixPath(test).stem in (f"test_{parts[-1]}", f"{parts[-1]}_test"):
                score += 4
            if re.search(rf"\b{re.escape('.'.join(parts[-2:]))}\b", imports):
                score += 3
            elif re.search(rf"\b{re.escape(parts[-1])}\b", imports):
                score += 2
            scores[test] = max(scores.get(test, 0), score)
    near = sorted((test for test, score in scores.items() if score), key=lambda test: (-scores[test], test))
    return tuple(near[:MOST_RELATED])


async def run_suite(
    task_sandbox: TaskSandbox,
    workspace: Workspace,
    suite: Suite,
    files: Sequence[str] = (),
    *,
    timeout_s: float,
    watch: bool = False,
) -> SuiteRun:
    """Run the named test files, or the whole suite."""
    done = await replay(task_sandbox, workspace, suite.command(files), timeout_s=timeout_s, watch=watch)
    report = await asyncio.to_thread(read_pytest if suite.runner == "pytest" else read_unittest, done.output)
    return SuiteRun(report.passed, report.failed, done.exit_code is not None and not done.killed, done)


async def run_on_base(
    task_sandbox: TaskSandbox, suite: Suite, files: tuple[str, ...] = (), *, timeout_s: float
) -> SuiteRun:
    """Run the tests on the unchanged repository.

    Results are cached for the life of the process, because tasks of a batch often share a commit.
    """
    key = (task_sandbox.base.tree, task_sandbox.tier.name, task_sandbox.environment, replace(suite, files=()), files)
    if key in _on_base:
        _on_base.move_to_end(key)
        return _on_base[key]
    workspace = task_sandbox.fresh()
    try:
        run = await run_suite(task_sandbox, workspace, suite, files, timeout_s=timeout_s)
    finally:
        workspace.remove()
    if run.finished:
        _on_base[key] = replace(run, replay=replace(run.replay, output=run.replay.output[-TAIL_CHARACTERS:]))
        while len(_on_base) > MOST_REMEMBERED:
            _on_base.popitem(last=False)
    return run


_on_base: OrderedDict[tuple[Path, str, Environment, Suite, tuple[str, ...]], SuiteRun] = OrderedDict()


def _module(path: str) -> str:
    return ".".join(PurePosixPath(path).with_suffix("").parts)
