"""Reconstruct, replay, classify, confirm; then strip the claim or make it ready for the fixer."""

from __future__ import annotations

import time

from scrout.config import GateSettings
from scrout.errors import SandboxError
from scrout.gate.classify import Finding, classify
from scrout.gate.strip import strip
from scrout.gate.tidy import CONTAINER_ROOTS, tidy
from scrout.handoff import Handoff, Reproduction, render
from scrout.records import KEPT, Evidence, GatedHandoff
from scrout.sandbox.replay import Replay, replay
from scrout.sandbox.workshop import Workshop
from scrout.sandbox.workspace import Workspace
from scrout.task import Task


async def gate(task: Task, handoff: Handoff, workshop: Workshop, settings: GateSettings) -> GatedHandoff:
    """The handoff with its claim verified, or without it."""
    handoff = tidy(handoff, workshop.base)
    reproduction = handoff.reproduction
    if reproduction is None:
        return _verdict(handoff, Finding("no_repro", "the handoff has no reproduction"), Evidence())
    if not reproduction.claim:
        return _verdict(handoff, Finding("claim_not_true", "the scout does not claim to have seen it"), Evidence())
    if reproduction.command is None:
        return _verdict(handoff, Finding("no_command", "the claim names no command to run"), Evidence())

    started = time.monotonic()
    findings, last = await _replay(task, reproduction, reproduction.command, workshop, settings)
    evidence = last.evidence(len(findings)) if last else Evidence(command=reproduction.command)
    evidence = evidence.model_copy(update={"seconds": round(time.monotonic() - started, 3)})
    return _verdict(handoff, _confirm(findings), evidence)


async def _replay(
    task: Task, reproduction: Reproduction, command: str, workshop: Workshop, settings: GateSettings
) -> tuple[list[Finding], Replay | None]:
    """One finding a run, each in a clean workspace; a run that cannot be kept anyway ends it early."""
    findings: list[Finding] = []
    last: Replay | None = None
    aliases = tuple(root for root in CONTAINER_ROOTS if root in command)
    for number in range(settings.runs):
        workspace = workshop.fresh()
        try:
            tampering = _write_files(reproduction, workspace)
            if tampering:
                return [tampering], last
            # The witness slows Python down, so one run does without it: a claim must hold either way.
            watch = number == 0
            last = await replay(
                workshop, workspace, command, timeout_s=settings.timeout_s, watch=watch, aliases=aliases
            )
            finding = _tampered(reproduction, workspace) or classify(last, task.text, reproduction, workshop.base)
        finally:
            workspace.remove()
        findings.append(finding)
        if findings[0].verdict not in KEPT:
            break
    return findings, last


def _write_files(reproduction: Reproduction, workspace: Workspace) -> Finding | None:
    for path, content in reproduction.files.items():
        if workspace.base.read(path) is not None:
            return Finding("tampered", f"the reproduction would overwrite the repository's {path}")
        try:
            workspace.write(path, content.encode())
        except (SandboxError, OSError) as error:
            return Finding("tampered", f"the reproduction's file {path!r} cannot be written: {error}")
    return None


def _tampered(reproduction: Reproduction, workspace: Workspace) -> Finding | None:
    """A failure of code that the command changed first says nothing about the repository."""
    for path in sorted(workspace.changed()):
        if path not in reproduction.files and workspace.base.read(path) is not None:
            return Finding("tampered", f"the command changed or deleted the repository's {path}")
    return None


def _confirm(findings: list[Finding]) -> Finding:
    first = findings[0]
    for other in findings[1:]:
        # Without the witness a later run cannot tell an exercised repository from an idle one; what must agree is
        # whether it failed, and how.
        if other.signature != first.signature:
            return Finding("flaky", f"run 1: {first.reason}; a later run: {other.reason}")
    return first


def _verdict(handoff: Handoff, finding: Finding, evidence: Evidence) -> GatedHandoff:
    kept = finding.verdict in KEPT
    if kept and handoff.reproduction:
        seen = handoff.reproduction.model_copy(update={"observed": evidence.output_tail})
        handoff = handoff.model_copy(update={"reproduction": seen})
    else:
        handoff = strip(handoff)
    return GatedHandoff(
        verdict=finding.verdict,
        kept=kept,
        materialized=kept,
        reason=finding.reason,
        evidence=evidence,
        handoff=handoff,
        text=render(handoff),
    )
