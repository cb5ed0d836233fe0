"""Which code to show: what the failing run executed and passing tests did not, then what the handoff names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scrout.fix.repair.spectrum import Spectrum, contrast_of
from scrout.fix.repair.suspects import rank
from scrout.handoff import FileRef
from scrout.records import GatedHandoff
from scrout.sandbox.replay import replay
from scrout.sandbox.suite import belongs_to_tests, find_suite, related_tests
from scrout.sandbox.task_sandbox import TaskSandbox

MOST_STATEMENTS = 60
MOST_TEST_FILES = 8
TESTS_S = 8.0


async def suspected_files(gated: GatedHandoff, task_sandbox: TaskSandbox) -> tuple[FileRef, ...]:
    """One entry per suspected statement, likeliest first, then the files of the handoff."""
    named = gated.handoff.files
    reproduction = gated.handoff.reproduction
    if not gated.kept or reproduction is None or not reproduction.command or not task_sandbox.environment.python:
        return named
    workspace = task_sandbox.fresh()
    try:
        for path, content in reproduction.files.items():
            workspace.write(path, content.encode())
        seen = await replay(task_sandbox, workspace, reproduction.command, watch=True)
    finally:
        workspace.remove()
    if seen.execution_trace is None:
        return named
    sources = _sources(seen.execution_trace.lines, reproduction.files, task_sandbox)
    passing = await _passing(list(sources), task_sandbox)
    suspects = rank(sources, seen.execution_trace, passing, gated.handoff, reproduction.files)[:MOST_STATEMENTS]
    found = [FileRef(path=one.path, regions=((one.first_line, one.last_line),)) for one in suspects]
    return (*found, *named)


def _sources(paths: Collection[str], own: Collection[str], task_sandbox: TaskSandbox) -> dict[str, str]:
    """The repository's files that ran. Paths come from inside the sandbox: any may be forged."""
    ran = (path for path in sorted(paths) if path not in own and not belongs_to_tests(path))
    return {path: data.decode("utf-8", "replace") for path in ran if (data := task_sandbox.base.read(path))}


async def _passing(paths: Sequence[str], task_sandbox: TaskSandbox) -> Spectrum:
    """What the passing tests near these files execute; empty: there are none that run here."""
    suite = await find_suite(task_sandbox)
    if suite is None:
        return {}
    near = [path for path in related_tests(task_sandbox.base, paths) if path in suite.files]
    files = near[:MOST_TEST_FILES] or suite.files
    workspace = task_sandbox.fresh()
    try:
        found = await contrast_of(task_sandbox, workspace, paths, files, TESTS_S, suite.runner, suite.options)
    finally:
        workspace.remove()
    return found.spectrum
