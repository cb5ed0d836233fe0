"""Reconstruct, replay, classify, confirm; then strip the claim or make it ready for the fixer."""

from __future__ import annotations

import os
import re
import time
from pathlib import PurePosixPath

from scrout.config import GateSettings
from scrout.errors import SandboxError
from scrout.gate.classify import Finding, Scene, classify
from scrout.gate.sources import own_sources
from scrout.gate.strip import strip
from scrout.gate.tidy import tidy
from scrout.handoff import Handoff, Reproduction, render
from scrout.records import KEPT, Evidence, GatedHandoff
from scrout.sandbox.replay import Replay, replay
from scrout.sandbox.workshop import Workshop
from scrout.sandbox.workspace import Base, Workspace
from scrout.task import Task

MAX_OWN_BYTES = 100_000
"""Of a script that the command wrote; a longer one is not read."""
_OPAQUE = "user.overlay.opaque"
"""How an overlay marks a folder that was removed and made again."""
_SETS_PYTHONPATH = re.compile(r"\bPYTHONPATH=")


async def gate(task: Task, handoff: Handoff, workshop: Workshop, settings: GateSettings) -> GatedHandoff:
    """The handoff with its claim verified, or without it."""
    handoff = tidy(handoff, workshop.base)
    reproduction = handoff.reproduction
    if reproduction is None:
        return _verdict(handoff, workshop.base, Finding("no_repro", "the handoff has no reproduction"), Evidence())
    if not reproduction.claim:
        return _verdict(
            handoff, workshop.base, Finding("claim_not_true", "the scout does not claim to have seen it"), Evidence()
        )
    if reproduction.command is None:
        return _verdict(handoff, workshop.base, Finding("no_command", "the claim names no command to run"), Evidence())

    started = time.monotonic()
    findings, last = await _replay(task, reproduction, reproduction.command, workshop, settings)
    evidence = last.evidence(len(findings)) if last else Evidence()
    seconds = round(time.monotonic() - started, 3)
    evidence = evidence.model_copy(update={"command": reproduction.command, "seconds": seconds})
    return _verdict(handoff, workshop.base, _confirm(findings), evidence)


async def _replay(
    task: Task, reproduction: Reproduction, command: str, workshop: Workshop, settings: GateSettings
) -> tuple[list[Finding], Replay | None]:
    """One finding a run, each in a clean workspace; a run that cannot be kept anyway ends it early."""
    findings: list[Finding] = []
    last: Replay | None = None
    for number in range(settings.runs):
        workspace = workshop.fresh()
        try:
            tampering = _write_files(reproduction, workspace)
            if tampering:
                return [tampering], last
            # The witness slows Python down, so one run does without it: a claim must hold either way.
            watch = number == 0
            # The witness is found through PYTHONPATH; a command that sets its own must not lose it.
            line = _SETS_PYTHONPATH.sub('PYTHONPATH="$PYTHONPATH:"', command) if watch else command
            last = await replay(workshop, workspace, line, timeout_s=settings.timeout_s, watch=watch)
            sources = own_sources(reproduction, _written(workspace))
            finding = _tampered(workspace) or classify(last, Scene(task.text, sources, workshop.base))
        finally:
            workspace.remove()
        findings.append(finding)
        if findings[0].verdict not in KEPT:
            break
    return findings, last


def _write_files(reproduction: Reproduction, workspace: Workspace) -> Finding | None:
    tree = workspace.base.tree
    for path, content in reproduction.files.items():
        if os.path.lexists(tree / path):
            return Finding("tampered", f"the reproduction would overwrite the repository's {path}")
        if any(
            not (tree / parent).is_dir() and os.path.lexists(tree / parent) for parent in PurePosixPath(path).parents
        ):
            return Finding("tampered", f"the reproduction's {path} lies below a file of the repository")
        try:
            workspace.write(path, content.encode())
        except (SandboxError, OSError) as error:
            return Finding("tampered", f"the reproduction's file {path!r} cannot be written: {error}")
    return None


def _is_theirs(path: str, base: Base) -> bool:
    """Whether the repository has something at a path that a command names."""
    name = PurePosixPath(os.path.relpath(base.repo / path, base.repo))
    return ".." not in name.parts and os.path.lexists(base.tree / name)


def _written(workspace: Workspace) -> dict[str, str]:
    """Python scripts that the command itself wrote into the repository."""
    found = {}
    for path in workspace.changed():
        if path.endswith(".py") and not os.path.lexists(workspace.base.tree / path):
            content = workspace.read(path)
            if content is not None and len(content) <= MAX_OWN_BYTES:
                found[path] = content.decode("utf-8", errors="replace")
    return found


def _tampered(workspace: Workspace) -> Finding | None:
    """A failure of code that the command changed first says nothing about the repository.

    A change that was undone before the end counts too: the file was written again.
    """
    upper, tree = workspace.overlay.upper, workspace.base.tree
    for folder, folders, files in os.walk(upper):
        here = PurePosixPath(os.path.relpath(folder, upper))
        if str(here) == ".":
            folders[:] = [name for name in folders if name != ".git"]
        elif (tree / here).is_dir() and _OPAQUE in os.listxattr(folder):
            return Finding("tampered", f"the command deleted the repository's {here}")
        for name in (*files, *folders):
            changed, original = upper / here / name, tree / here / name
            both_folders = (
                changed.is_dir() and original.is_dir() and not (changed.is_symlink() or original.is_symlink())
            )
            if os.path.lexists(original) and not both_folders:
                return Finding("tampered", f"the command changed or deleted the repository's {here / name}")
    return None


def _confirm(findings: list[Finding]) -> Finding:
    first = findings[0]
    for other in findings[1:]:
        # Without the witness a later run cannot tell an exercised repository from an idle one; what must agree is
        # whether it failed, and how.
        if other.signature != first.signature:
            return Finding("flaky", f"run 1: {first.reason}; a later run: {other.reason}")
    return first


def _verdict(handoff: Handoff, base: Base, finding: Finding, evidence: Evidence) -> GatedHandoff:
    kept = finding.verdict in KEPT
    if kept and handoff.reproduction:
        seen = handoff.reproduction.model_copy(update={"observed": evidence.output_tail})
        handoff = handoff.model_copy(update={"reproduction": seen})
    else:
        handoff = strip(handoff, lambda path: _is_theirs(path, base))
    return GatedHandoff(
        verdict=finding.verdict,
        kept=kept,
        materialized=kept,
        reason=finding.reason,
        evidence=evidence,
        handoff=handoff,
        text=render(handoff),
    )
