"""Runs jobs in this process.

Every arm uses the same pipeline: without a scout, with a shared scouting, or without a gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TypeVar

from scrout.base import LedgerError, ScroutError, TaskError
from scrout.batch.folder import Batch, BatchFolder
from scrout.batch.jobs import BatchJob, JobResult
from scrout.batch.repositories import FetchError
from scrout.batch.tasks import Repositories
from scrout.config.settings import Settings
from scrout.gate.gate import pass_through
from scrout.handoff import Handoff
from scrout.ledger.opening import paid
from scrout.ledger.store import Ledger, OpenRun
from scrout.pipeline import Kit, RunContext, Stages, build_missing, router, solve
from scrout.records import Arm, GatedHandoff, Run, Scouting
from scrout.route.router import Router
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.task import Task

Result = TypeVar("Result")
NO_SCOUT = Scouting(handoff=Handoff(), text="", seconds=0, searcher="none", detail="the arm has no scout")


@dataclass(frozen=True)
class ArmKit(Kit):
    arm: Arm = "handoff"
    known: Run | None = None
    """A run of the same task with a scouting to reuse; it is paid only once."""

    def open(self, task: Task) -> Stages:
        return ArmStages(self, task, self.open_run(task))


@dataclass(frozen=True)
class ArmStages(Stages):
    """Scouts and gates as the arm specifies."""

    kit: ArmKit

    async def scout(self) -> Scouting:
        known = self.kit.known.scouting if self.kit.known else None
        if self.kit.arm == "solo":
            return await self.run.step("scout", _same, NO_SCOUT)
        if self.kit.known and known:
            taken = {"cost_usd": Decimal(0), "receipts": (), "paid_by": known.paid_by or self.kit.known.id}
            return await self.run.step("scout", _same, known.model_copy(update=taken))
        return await super().scout()

    async def gate(self, scouting: Scouting) -> GatedHandoff:
        known = self.kit.known.gated if self.kit.known else None
        if self.kit.arm == "passthrough":
            return await self.run.step("gate", self._pass_through, scouting)
        if self.kit.arm == "handoff" and known and known.verdict != "not_replayed":
            return await self.run.step("gate", _same, known)
        return await super().gate(scouting)

    async def _pass_through(self, scouting: Scouting) -> GatedHandoff:
        return await asyncio.to_thread(pass_through, scouting.handoff, self.kit.task_sandbox)


async def _same(result: Result) -> Result:
    return result


MOST_OPENING = 2
"""Number of repositories to copy at once: more would only wait for the same disk."""


@dataclass
class LocalWorker:
    batch: Batch
    folder: BatchFolder
    settings: Settings
    ledger: Ledger
    repositories: Repositories
    tier: Tier
    _routers: dict[str, Router] = field(default_factory=dict)
    _opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_OPENING))

    async def run(self, job: BatchJob, known: str, say: Callable[[str], None]) -> JobResult:
        """Try a job once. An external failure becomes a result with a reason."""
        opened: list[OpenRun] = []
        before: list[Decimal] = []

        def note(run: OpenRun) -> None:
            opened.append(run)
            if run.resumed:  # a worker may have died with it in this session
                run.recover(partial(paid, self.folder.attempts))
            before.append(self.ledger.paid_usd(run.id))

        try:
            run = await self._solve(job, known, say, note)
        except (ScroutError, OSError) as error:
            added = self._added_usd(opened[0].id, before[0]) if before else Decimal(0)
            run_id = opened[0].id if opened else ""
            lasting = isinstance(error, TaskError) and not isinstance(error, FetchError)
            return JobResult("failed", run_id, added, _words(error), lasting=lasting)
        return JobResult(
            outcome=run.outcome,
            run=run.id,
            paid_usd=self._added_usd(run.id, before[0]),
            detail=_detail(run),
            scouted=run.scouting is not None and run.scouting.stop != "endpoint" and job.scouts,
        )

    async def _solve(
        self, job: BatchJob, known_id: str, say: Callable[[str], None], opened: Callable[[OpenRun], None]
    ) -> Run:
        settings = job.settings(self.settings)
        say("opening the repository")
        async with AsyncExitStack() as stack:
            async with self._opening:
                task = await asyncio.to_thread(self.repositories.task, job.row)
                await build_missing(task, settings, say)
                task_sandbox = await asyncio.to_thread(
                    stack.enter_context, open_task_sandbox(task, self.tier, settings)
                )
            scouted = self.ledger.run(known_id) if known_id and job.scouts else None
            context = RunContext(
                batch=self.batch.id,
                label=job.label,
                router=self._router(job, settings),
                attempts=self.folder.attempts,
                opened=opened,
            )
            # HEAD may have moved since.
            known = scouted if scouted and scouted.task.base_commit == task.base_commit else None
            kit = ArmKit(settings, self.ledger, task_sandbox, say, context, job.arm, known)
            return await solve(task, kit)

    def _router(self, job: BatchJob, settings: Settings) -> Router:
        if job.fixer not in self._routers:
            self._routers[job.fixer] = router(settings)
        return self._routers[job.fixer]

    def _added_usd(self, run_id: str, before_usd: Decimal) -> Decimal | None:
        """None: unknown, because the ledger itself may have failed."""
        try:
            return self.ledger.paid_usd(run_id) - before_usd
        except LedgerError:
            return None


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, ScroutError) else f"{type(error).__name__}: {error}"


def _detail(run: Run) -> str:
    if run.attempts:
        return run.attempts[-1].detail
    return run.scouting.detail if run.scouting else ""
