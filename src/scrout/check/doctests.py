"""The examples in docstrings: those of the modules that a patch touches, before and after it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from scrout.base import SandboxError
from scrout.check.changed import ChangedFunction, touched_modules
from scrout.check.patch import FileChange
from scrout.check.patched import patched_workspace
from scrout.check.recording import FunctionRecording, Version, record
from scrout.check.regression import SuiteComparison, some_names
from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.workspace import Workspace
from scrout.text import plural

DOCTESTS_S = 20.0
MAX_MODULES = 20
_PROMPT = ">>> "
_SCRIPTS = ("setup.py", "conf.py", "noxfile.py", "__main__.py")
"""Importing one would do what it is for."""
_INSIDE = (Path(__file__).with_name("inside") / "doctests.py").read_text(encoding="utf-8")


class _Result(BaseModel):
    """Of one docstring."""

    held: frozenset[int]
    """The numbers of its examples that hold."""
    count: int
    digest: str

    @property
    def passed(self) -> bool:
        return len(self.held) == self.count


_RESULTS = TypeAdapter(dict[str, _Result])

Example = tuple[str, int]
"""A docstring by its place, and the example's number in it."""


@dataclass(frozen=True)
class DoctestReport:
    """What the doctests near a patch say of it."""

    passed: frozenset[str] = frozenset()
    """Passed before the patch and with it."""
    broken: frozenset[str] = frozenset()
    """An example in them held before the patch, and failed twice with it, as it was written."""
    rewritten: frozenset[str] = frozenset()
    """An example in them held before the patch, which changes what they say."""
    executing: tuple[str, ...] = ()
    """Those that passed, and execute changed lines."""


async def run_doctests(
    changes: Sequence[FileChange], functions: Sequence[ChangedFunction], patch: str, task_sandbox: TaskSandbox
) -> DoctestReport:
    """Run them on workspaces of their own; nothing is told where no touched module has any, or none can be run."""
    texts = {change.new: change.before or "" for change in changes}
    modules = [path for path in touched_modules(changes) if not path.endswith(_SCRIPTS) and _PROMPT in texts[path]]
    if not modules or not task_sandbox.environment.python:
        return DoctestReport()
    try:
        before, _ = await _run(modules[:MAX_MODULES], functions, "", task_sandbox)
        good = {name: result.held for name, result in before.items() if result.held}
        if not good:
            return DoctestReport()
        after, recording = await _run(modules[:MAX_MODULES], functions, patch, task_sandbox)
        kept = {name for name in good if name in after and after[name].digest == before[name].digest}
        passed = {name for name in kept if before[name].passed and after[name].passed}
        if broken := {name for name in kept if not good[name] <= after[name].held}:
            again, _ = await _run(modules[:MAX_MODULES], functions, patch, task_sandbox)
            broken = {name for name in broken if not (name in again and good[name] <= again[name].held)}
    except SandboxError:
        return DoctestReport()
    executing = tuple(name for name in sorted(passed) if any(recording.tests.get(name, {}).values()))
    return DoctestReport(frozenset(passed), frozenset(broken), frozenset(good.keys() - kept), executing)


def with_doctests(tested: SuiteComparison, doctested: DoctestReport) -> SuiteComparison:
    """What tests and doctests say together: a broken doctest is a broken test."""
    count = tested.count + len(doctested.passed) + len(doctested.broken)
    rewritten = f"changes what a doctest expects: {some_names(doctested.rewritten)}"
    flags = (*tested.flags, rewritten) if doctested.rewritten else tested.flags
    if doctested.broken:
        broken = (
            f"{plural(len(doctested.broken), 'doctest')} that passed before fail now: {some_names(doctested.broken)}"
        )
        names = tested.broken | doctested.broken
        return replace(
            tested, tests="fail", count=count, flags=flags, detail=f"{tested.detail}; {broken}", broken=names
        )
    if doctested.passed and tested.tests in ("none", "pass"):
        detail = f"{plural(len(doctested.passed), 'doctest')} ran and none broke"
        detail = detail if tested.tests == "none" else f"{tested.detail}; {detail}"
        return replace(tested, tests="pass", count=count, flags=flags, detail=detail)
    return replace(tested, flags=flags)


async def held_examples(task_sandbox: TaskSandbox, workspace: Workspace, path: str) -> frozenset[Example]:
    """The examples in a module's docstrings that hold; none where it cannot be imported or does not end in time."""
    results = await _results(task_sandbox, workspace, [path])
    return frozenset((name, number) for name, result in results.items() for number in result.held)


async def doctests_pass(task_sandbox: TaskSandbox, workspace: Workspace, names: Sequence[str]) -> bool:
    """Whether these docstrings pass as a whole."""
    results = await _results(task_sandbox, workspace, list(dict.fromkeys(name.partition("::")[0] for name in names)))
    return all(name in results and results[name].passed for name in names)


async def _results(task_sandbox: TaskSandbox, workspace: Workspace, modules: Sequence[str]) -> dict[str, _Result]:
    done = await task_sandbox.run(workspace, shell_argv(_command(modules)), timeout_s=DOCTESTS_S + 10)
    return _read(done.text)


async def _run(
    modules: Sequence[str], functions: Sequence[ChangedFunction], patch: str, task_sandbox: TaskSandbox
) -> tuple[dict[str, _Result], FunctionRecording]:
    version: Version = "after" if patch else "before"
    async with patched_workspace(task_sandbox, patch) as workspace:
        command = _command(modules)
        done = await record(task_sandbox, workspace, command, functions, version, timeout_s=DOCTESTS_S + 10)
    return _read(done.output), done


def _command(modules: Sequence[str]) -> str:
    order = json.dumps({"paths": list(modules), "seconds": DOCTESTS_S})
    return f"python -c {shlex.quote(_INSIDE)} {shlex.quote(order)}"


def _read(told: str) -> dict[str, _Result]:
    try:
        return _RESULTS.validate_json(told)
    except ValidationError:
        return {}
