"""Runs any fixer of the pool behind one seam: a task and a gated handoff in, an attempt with its diff out."""

from __future__ import annotations

import time
from collections.abc import Callable

from scrout.config import Fixer, Settings
from scrout.errors import SandboxError
from scrout.money import Receipt
from scrout.records import Attempt, GatedHandoff
from scrout.sandbox.tier import Completed
from scrout.sandbox.workshop import Workshop
from scrout.task import Task


async def fix(
    fixer: Fixer,
    task: Task,
    gated: GatedHandoff,
    workshop: Workshop,
    settings: Settings,
    progress: Callable[[str], None],
    book: Callable[[Receipt], None],
) -> Attempt:
    """Let one fixer try. Whatever stops it, the diff that exists is the submission, and what it paid is booked."""
    if fixer.kind == "repair":
        from scrout.fix.repair import repair

        return await repair(gated, workshop, settings.repair, progress=progress, name=fixer.name)
    return await _with_agent(fixer, task, gated, workshop, progress, book)


async def _with_agent(
    fixer: Fixer,
    task: Task,
    gated: GatedHandoff,
    workshop: Workshop,
    progress: Callable[[str], None],
    book: Callable[[Receipt], None],
) -> Attempt:
    from scrout.agent.tools import Bash, Toolset
    from scrout.fix.agent import run_agent

    started = time.monotonic()
    workspace = workshop.fresh()
    reproduction = gated.handoff.reproduction
    files = reproduction.files if reproduction else {}
    try:
        for path, content in files.items():
            workspace.write(path, content.encode())

        longest_s = workshop.limits.timeout_s
        async with workshop.session(workspace) as session:

            async def shell(command: str, timeout_s: float) -> Completed:
                progress(f"{fixer.name}: {command.strip().splitlines()[0][:80]}")
                return await session.shell(command, timeout_s=timeout_s)

            done = await run_agent(fixer, task, gated, Toolset(Bash(shell, longest_s, longest_s)), book)
        stop, detail = done.stop, done.detail
        try:
            # The reproduction was put there for the fixer; it is not part of the fix.
            patch = await workshop.diff(workspace, without=tuple(files))
        except SandboxError as error:
            patch, stop, detail = "", "crashed", str(error)
    finally:
        workspace.remove()
    return Attempt(
        fixer=fixer.name,
        patch=patch,
        stop=stop,
        detail=detail,
        seconds=round(time.monotonic() - started, 3),
        calls=done.calls,
        cost_usd=done.cost_usd,
        receipts=done.receipts,
    )
