"""Reconstruct, replay, classify, confirm; then strip the claim or make it ready for the fixer."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from scrout.base import SandboxError
from scrout.config.settings import GateSettings
from scrout.gate import python
from scrout.gate.basis import with_basis
from scrout.gate.classify import classify, judge_program
from scrout.gate.counterfactual import CounterfactualTrials
from scrout.gate.execution_trace import WatchedRun, run_watched
from scrout.gate.flakiness import runs_needed
from scrout.gate.injection import as_data, remove_injections
from scrout.gate.normalize import normalize_handoff
from scrout.gate.observation import disagreement
from scrout.gate.printed import ShellCheck, read_check
from scrout.gate.replay_context import Classification, ReplayContext
from scrout.gate.runners import decides_how
from scrout.gate.sources import own_sources
from scrout.gate.strip import strip
from scrout.handoff import Handoff, Reproduction, render
from scrout.records import KEPT, Evidence, GatedHandoff
from scrout.sandbox.replay import Replay, replay
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Base, Workspace
from scrout.task import Task
from scrout.text import without_comments

MAX_COMMAND_CHARS = 10_000
"""More than a page holds; the kernel takes no argument beyond 128 KiB either."""
MAX_OWN_BYTES = 100_000
"""Of a script that the command wrote; a longer one is not read."""

_READ = (".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".xml")
"""What is read of the files that a command wrote."""


async def gate(task: Task, handoff: Handoff, task_sandbox: TaskSandbox, settings: GateSettings) -> GatedHandoff:
    """The handoff with its claim verified, or without it, and with nothing in it that gives the fixer orders."""
    handoff, flags = await asyncio.to_thread(lambda: remove_injections(normalize_handoff(handoff, task_sandbox.base)))
    gated = await _gate(task, handoff, task_sandbox, settings)
    return gated.model_copy(update={"flags": (*flags, *gated.flags)})


def pass_through(handoff: Handoff, task_sandbox: TaskSandbox) -> GatedHandoff:
    """The handoff with its claims left in, for measuring what the gate is worth. What could mislead is taken out."""
    handoff, flags = remove_injections(normalize_handoff(handoff, task_sandbox.base))
    return GatedHandoff(
        verdict="not_replayed",
        kept=False,
        materialized=False,
        reason="claims are passed through without being replayed",
        evidence=Evidence(),
        handoff=handoff,
        text=render(handoff),
        flags=flags,
    )


async def _gate(task: Task, handoff: Handoff, task_sandbox: TaskSandbox, settings: GateSettings) -> GatedHandoff:
    base = task_sandbox.base
    reproduction = handoff.reproduction
    if reproduction is None:
        return await _stripped(handoff, base, Classification("no_repro", "the handoff has no reproduction"), Evidence())
    if not reproduction.claim:
        return await _stripped(
            handoff, base, Classification("claim_not_true", "the scout does not claim to have seen it"), Evidence()
        )
    if reproduction.command is None:
        return await _stripped(
            handoff, base, Classification("no_command", "the claim names no command to run"), Evidence()
        )

    if len(reproduction.command) > MAX_COMMAND_CHARS:
        too_long = f"the command has {len(reproduction.command):,} characters; at most {MAX_COMMAND_CHARS:,} are run"
        return await _stripped(handoff, base, Classification("usage_error", too_long), Evidence())

    started = time.monotonic()
    findings, last = await _replay(task, reproduction, reproduction.command, task_sandbox, settings)
    evidence = last.evidence(len(findings)) if last else Evidence()
    seconds = round(time.monotonic() - started, 3)
    evidence = evidence.model_copy(update={"command": reproduction.command, "seconds": seconds})
    finding = _confirm(findings)
    if finding.verdict == "environment_missing" and task_sandbox.environment.missing:
        finding = replace(finding, reason=f"{finding.reason} {task_sandbox.environment.missing}")
    if finding.verdict not in KEPT:
        return await _stripped(handoff, base, finding, evidence)
    remark = await asyncio.to_thread(disagreement, reproduction.observed, evidence.output_tail)
    output, flags = await asyncio.to_thread(as_data, evidence.output_tail)
    evidence = evidence.model_copy(update={"output_tail": output})
    handoff = handoff.model_copy(update={"reproduction": reproduction.model_copy(update={"observed": output})})
    return GatedHandoff(
        verdict=finding.verdict,
        kept=True,
        materialized=True,
        reason=f"{finding.reason}; {remark}" if remark else finding.reason,
        evidence=evidence,
        handoff=handoff,
        text=render(handoff),
        flags=flags,
        basis=finding.basis or reproduction.basis,
    )


async def _replay(
    task: Task, reproduction: Reproduction, command: str, task_sandbox: TaskSandbox, settings: GateSettings
) -> tuple[list[Classification], Replay | None]:
    """One finding a run, each in a clean workspace; a run that cannot be kept anyway ends it early."""
    findings: list[Classification] = []
    last: Replay | None = None
    started = time.monotonic()
    for number in range(runs_needed(reproduction.files.values(), command, settings.runs)):
        workspace = task_sandbox.fresh()
        try:
            tampering = _write_files(reproduction, workspace)
            if tampering:
                return [tampering], last
            # The witness slows Python down, so one run does without it: a claim must hold either way.
            run = replay if number else run_watched
            last = await run(task_sandbox, workspace, command, timeout_s=settings.timeout_s)
            replay_context, finding = await asyncio.to_thread(_judge, last, task, reproduction, workspace)
        finally:
            workspace.remove()
        may_check = not number and finding.verdict == "nonzero_other"
        if may_check and (check := await asyncio.to_thread(read_check, command, replay_context.own)):
            finding = await _program(check, finding, last, replay_context, reproduction, task_sandbox, settings)
        if not number and finding.trial == "may pass":
            finding = await _wrapped(finding, last, replay_context, reproduction, task_sandbox, settings)
        # A check that recon composed, of a failure that the report tells of, needs no trial.
        if not number and finding.trial and not (finding.basis and reproduction.basis != "assumed"):
            finding = await _caused(finding, last, replay_context, reproduction, task_sandbox, settings)
        findings.append(finding)
        enough = number + 1 >= settings.runs and time.monotonic() - started > settings.timeout_s
        if findings[0].verdict not in KEPT or enough:
            break
    return findings, last


def _judge(
    run: Replay, task: Task, reproduction: Reproduction, workspace: Workspace
) -> tuple[ReplayContext, Classification]:
    written = _written(workspace)
    replay_context = ReplayContext(
        issue=without_comments(task.text),
        sources=own_sources(reproduction, written),
        base=workspace.base,
        brought=reproduction.files,
        written=written,
        observed=reproduction.observed,
        run=run,
    )
    return replay_context, _tampered(workspace) or with_basis(classify(run, replay_context), run, replay_context)


async def _wrapped(
    finding: Classification,
    run: Replay,
    replay_context: ReplayContext,
    reproduction: Reproduction,
    task_sandbox: TaskSandbox,
    settings: GateSettings,
) -> Classification:
    """What the programs show that a command starts, if nothing but their failures decides how it ends."""
    inner = await asyncio.to_thread(python.inner_failure, run, replay_context)
    if inner is None or not isinstance(run, WatchedRun):
        return finding
    found, failures = inner
    trials = _trials(run, replay_context, reproduction, task_sandbox, settings)
    if found.verdict not in KEPT or not await trials.hinges_on(failures):
        return finding
    return replace(found, signature=finding.signature)


def _trials(
    run: WatchedRun,
    replay_context: ReplayContext,
    reproduction: Reproduction,
    task_sandbox: TaskSandbox,
    settings: GateSettings,
) -> CounterfactualTrials:
    write = partial(_write_files, reproduction)
    return CounterfactualTrials(task_sandbox, write, run.command, run, replay_context, timeout_s=settings.timeout_s)


async def _caused(
    finding: Classification,
    run: Replay,
    replay_context: ReplayContext,
    reproduction: Reproduction,
    task_sandbox: TaskSandbox,
    settings: GateSettings,
) -> Classification:
    """The finding about a failed check, given whether another result of the repository makes the claim pass."""
    if not isinstance(run, WatchedRun):
        return finding
    trials = _trials(run, replay_context, reproduction, task_sandbox, settings)
    found = await trials.explain(surely=finding.trial == "may pass")
    if found:
        return replace(finding, verdict="real_failure", reason=f"{finding.reason}; {found}")
    if finding.trial == "may pass":
        return finding
    reason = f"{finding.reason}, but no other result of the repository makes it pass"
    return replace(finding, verdict="unrelated_failure", reason=reason)


async def _program(
    check: ShellCheck,
    finding: Classification,
    last: Replay,
    replay_context: ReplayContext,
    reproduction: Reproduction,
    task_sandbox: TaskSandbox,
    settings: GateSettings,
) -> Classification:
    """What the program shows whose output the command looks at: it is run once more, alone."""
    workspace = task_sandbox.fresh()
    try:
        _write_files(reproduction, workspace)
        alone = await run_watched(task_sandbox, workspace, check.program, timeout_s=settings.timeout_s)

        def judge() -> Classification:
            sources = own_sources(reproduction.model_copy(update={"command": check.program}), replay_context.written)
            return _tampered(workspace) or judge_program(
                alone, last, replace(replay_context, run=alone, sources=sources)
            )

        return replace(await asyncio.to_thread(judge), signature=finding.signature)
    finally:
        workspace.remove()


def _write_files(reproduction: Reproduction, workspace: Workspace) -> Classification | None:
    for path, content in reproduction.files.items():
        if PurePosixPath(path).stem in sys.stdlib_module_names and path.endswith(".py"):
            return Classification("tampered", f"the reproduction's {path} would take the place of Python's own module")
        if theirs := _in_place_of(path, workspace.base):
            return Classification(
                "tampered", f"the reproduction's {path} would take the place of the repository's {theirs}"
            )
        try:
            workspace.write(path, content.encode())
        except (SandboxError, OSError) as error:
            return Classification("tampered", f"the reproduction's file {path!r} cannot be written: {error}")
    return None


def _in_place_of(path: str, base: Base) -> str | None:
    """What of the repository's a file at this path replaces: the file itself, or a file or link above it."""
    for step in (*reversed(PurePosixPath(path).parents), PurePosixPath(path)):
        original = base.tree / step
        if os.path.lexists(original) and (original.is_symlink() or not original.is_dir() or str(step) == path):
            return str(step)
    return None


def _is_theirs(path: str, base: Base) -> bool:
    """Whether the repository has something at a path that a command names."""
    name = PurePosixPath(os.path.relpath(base.repo / path, base.repo))
    return ".." not in name.parts and base.has(str(name))


def _written(workspace: Workspace) -> dict[str, str]:
    """Code that the command itself wrote into the repository, and reports of its test runner."""
    found = {}
    for path in workspace.changed():
        if (path.endswith(_READ) or decides_how(path)) and not workspace.base.has(path):
            content = workspace.read(path)
            if content is not None and len(content) <= MAX_OWN_BYTES:
                found[path] = content.decode("utf-8", errors="replace")
    return found


def _tampered(workspace: Workspace) -> Classification | None:
    """A failure of code that the command changed first says nothing about the repository.

    A change that was undone before the end counts too: the file was written again.
    """
    for path in sorted(workspace.changed()):
        if theirs := _in_place_of(path, workspace.base):
            return Classification("tampered", f"the command changed or deleted the repository's {theirs}")
    return None


def _confirm(findings: list[Classification]) -> Classification:
    first = findings[0]
    for other in findings[1:]:
        # Without the witness a later run cannot tell an exercised repository from an idle one; what must agree is
        # whether it failed, and how.
        if other.signature != first.signature:
            return Classification("flaky", f"run 1: {first.reason}; a later run: {other.reason}")
    return first


async def _stripped(handoff: Handoff, base: Base, finding: Classification, evidence: Evidence) -> GatedHandoff:
    handoff = await asyncio.to_thread(strip, handoff, lambda path: _is_theirs(path, base))
    return GatedHandoff(
        verdict=finding.verdict,
        kept=False,
        materialized=False,
        reason=finding.reason,
        evidence=evidence,
        handoff=handoff,
        text=render(handoff),
    )
