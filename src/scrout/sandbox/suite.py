"""The project's own tests: which runner they want, which files are near a change, and what a run of them gave."""

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

from scrout.sandbox.environment import Environment
from scrout.sandbox.replay import TAIL_CHARACTERS, Replay, replay
from scrout.sandbox.reports import read_pytest, read_unittest
from scrout.sandbox.workshop import Workshop
from scrout.sandbox.workspace import Base, Workspace

_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests)\.py$")
_IMPORT = re.compile(r"^[ \t]*+(?:from|import)\b[^\n]*+", re.MULTILINE)
# As `python -m pytest`, but for this: a pytest.py of the repository cannot take the runner's place.
_PYTEST = "import os,sys; sys.path.pop(0); import pytest; sys.path.insert(0,os.getcwd()); sys.exit(pytest.main())"
MOST_RELATED = 8
MOST_REMEMBERED = 256
"""Runs on unchanged repositories."""


@dataclass(frozen=True)
class Suite:
    """How the project's tests are run."""

    runner: Literal["pytest", "unittest"]
    files: tuple[str, ...]
    source_root: str = ""
    """Folder to be put on Python's path; empty: the environment has the project's packages."""

    def command(self, files: Sequence[str] = ()) -> str:
        """A shell command for these test files; all of them when none is named."""
        command = self._command(files)
        if not self.source_root:
            return command
        # What PYTHONPATH holds already stays: the sandbox watches a run from there.
        return f'PYTHONPATH="{self.source_root}${{PYTHONPATH:+:$PYTHONPATH}}" {command}'

    def _command(self, files: Sequence[str]) -> str:
        names = " ".join(shlex.quote(name) for name in files)
        if self.runner == "pytest":
            # The project's own addopts may ask for plugins, coverage or quiet that hide the names we read.
            options = "-o addopts= -p no:cacheprovider -q -rA --tb=short --color=no --continue-on-collection-errors"
            return f"python -c {shlex.quote(_PYTEST)} {options} {names}".rstrip()
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
    """What one run of tests gave."""

    passed: frozenset[str]
    failed: frozenset[str]
    finished: bool
    """False: stopped at its time limit or killed, so a missing name means nothing."""
    replay: Replay


async def find_suite(workshop: Workshop) -> Suite | None:
    """The project's tests, if it has Python tests and a runner for them."""
    files = test_files(workshop.base)
    if not files or not workshop.environment.python:
        return None
    contents = [workshop.base.read(name) or b"" for name in files]
    root = await _source_root(workshop)
    unittest = Suite("unittest", files, root) if any(b"unittest" in content for content in contents) else None
    if unittest and not _asks_for_pytest(workshop.base, contents):
        return unittest
    workspace = workshop.fresh()
    try:
        has_pytest = (await workshop.shell(workspace, "python -c 'import pytest'", timeout_s=30)).exit_code == 0
    finally:
        workspace.remove()
    return Suite("pytest", files, root) if has_pytest else unittest


async def _source_root(workshop: Workshop) -> str:
    """`src`, where the project's package is there and not installed; else empty."""
    folder = workshop.base.tree / "src"
    packages = sorted(path.parent.name for path in folder.glob("*/__init__.py")) if folder.is_dir() else []
    if not packages or not packages[0].isidentifier() or (folder / "__init__.py").exists():
        return ""
    workspace = workshop.fresh()
    try:
        line = f"python -c 'import {packages[0]}' || ! PYTHONPATH=src python -c 'import {packages[0]}'"
        return "" if (await workshop.shell(workspace, line, timeout_s=30)).exit_code == 0 else "src"
    finally:
        workspace.remove()


def _asks_for_pytest(base: Base, contents: Sequence[bytes]) -> bool:
    """Whether the project is written for pytest; one that is not runs under unittest, without a stranger's plugins."""
    declared = (base.read(name) or b"" for name in ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "setup.py"))
    return any(b"pytest" in content for content in (*declared, *contents))


def test_files(base: Base) -> tuple[str, ...]:
    """Python test files at the base commit, in git's order."""
    return tuple(path for path in python_files(base) if is_test_file(path))


def python_files(base: Base) -> tuple[str, ...]:
    """Python files at the base commit, in git's order."""
    names = base.git("ls-tree", "-r", "-z", "--name-only", base.commit)
    paths = (os.fsdecode(name) for name in names.split(b"\0") if name.endswith(b".py"))
    return tuple(path for path in paths if path.isprintable())


def belongs_to_tests(path: str) -> bool:
    """Whether a path is a test file, or something that tests stand on: fixtures, helpers, data."""
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
        # Only these lines are searched below, so that no file can make the search slow.
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
    workshop: Workshop,
    workspace: Workspace,
    suite: Suite,
    files: Sequence[str] = (),
    *,
    timeout_s: float,
    watch: bool = False,
) -> SuiteRun:
    """Run the named test files, or the whole suite."""
    done = await replay(workshop, workspace, suite.command(files), timeout_s=timeout_s, watch=watch)
    report = await asyncio.to_thread(read_pytest if suite.runner == "pytest" else read_unittest, done.output)
    return SuiteRun(report.passed, report.failed, done.exit_code is not None and not done.killed, done)


async def run_on_base(workshop: Workshop, suite: Suite, files: tuple[str, ...] = (), *, timeout_s: float) -> SuiteRun:
    """The same on the unchanged repository. Remembered for as long as the process lives: the tasks of a batch often
    have a commit in common."""
    key = (workshop.base.tree, workshop.tier.name, workshop.environment, suite.runner, suite.source_root, files)
    if key in _on_base:
        _on_base.move_to_end(key)
        return _on_base[key]
    workspace = workshop.fresh()
    try:
        run = await run_suite(workshop, workspace, suite, files, timeout_s=timeout_s)
    finally:
        workspace.remove()
    if run.finished:
        _on_base[key] = replace(run, replay=replace(run.replay, output=run.replay.output[-TAIL_CHARACTERS:]))
        while len(_on_base) > MOST_REMEMBERED:
            _on_base.popitem(last=False)
    return run


_on_base: OrderedDict[tuple[Path, str, Environment, str, str, tuple[str, ...]], SuiteRun] = OrderedDict()


def _module(path: str) -> str:
    return ".".join(PurePosixPath(path).with_suffix("").parts)
