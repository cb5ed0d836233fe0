"""What speaks for a patch besides the reproduction: tests that pass before and after it, and execute its lines."""

from __future__ import annotations

from collections.abc import Sequence

from scrout.base import SandboxError
from scrout.fix.check.changed import ChangedFunction
from scrout.fix.check.recording import record
from scrout.fix.check.regression import Tested, some_names
from scrout.sandbox.workshop import Workshop

RECORD_TIMEOUT_S = 60.0


async def executing_tests(
    functions: Sequence[ChangedFunction], patch: str, tested: Tested, workshop: Workshop
) -> tuple[str, ...]:
    """The tests, of those that passed before and with the patch, that execute changed lines."""
    if not tested.passed or tested.suite is None or not any(function.after for function in functions):
        return ()
    workspace = workshop.fresh()
    try:
        if await workshop.apply(workspace, patch):
            return ()
        command = tested.suite.command(tested.files)
        recording = await record(workshop, workspace, command, functions, "after", timeout_s=RECORD_TIMEOUT_S)
    except SandboxError:
        return ()
    finally:
        workspace.remove()
    executed = (test for test, touched in recording.tests.items() if any(touched.values()))
    return tuple(test for test in executed if test in tested.passed)


def sentence(tests: Sequence[str], noun: str = "test") -> str:
    """What agrees, in words."""
    if len(tests) == 1:
        return f"A passing {noun} executes the changed lines: {some_names(tests)}."
    return f"{len(tests)} passing {noun}s execute the changed lines: {some_names(tests)}."
