"""What speaks for a patch besides the reproduction: tests that pass before and after it, and execute its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scrout.base import SandboxError
from scrout.check.changed import ChangedFunction
from scrout.check.patched import patched_workspace
from scrout.check.recording import Entry, record
from scrout.check.regression import SuiteComparison, some_names
from scrout.sandbox.task_sandbox import TaskSandbox

RECORD_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Executed:
    """Tests, of those that passed before and with the patch, that come to its functions."""

    tests: tuple[str, ...] = ()
    """Those that execute changed lines."""
    calling: tuple[str, ...] = ()
    """Those that call a changed function."""
    entries: tuple[Entry, ...] = ()
    """The functions that they call on the way."""


async def executing_tests(
    functions: Sequence[ChangedFunction], patch: str, tested: SuiteComparison, task_sandbox: TaskSandbox
) -> Executed:
    """Run the tests once more on the patched tree, and see which of them execute what."""
    if not tested.passed or tested.suite is None or not any(function.after for function in functions):
        return Executed()
    command = tested.suite.command(tested.files)
    try:
        async with patched_workspace(task_sandbox, patch) as workspace:
            recording = await record(task_sandbox, workspace, command, functions, "after", timeout_s=RECORD_TIMEOUT_S)
    except SandboxError:
        return Executed()
    calling = tuple(test for test in recording.tests if test in tested.passed)
    tests = tuple(test for test in calling if any(recording.tests[test].values()))
    return Executed(tests, calling, recording.entries)


def sentence(tests: Sequence[str], noun: str = "test") -> str:
    """What agrees, in words."""
    if len(tests) == 1:
        return f"A passing {noun} executes the changed lines: {some_names(tests)}."
    return f"{len(tests)} passing {noun}s execute the changed lines: {some_names(tests)}."
