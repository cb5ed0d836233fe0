"""The arms of a batch: the same pipeline without a scout, with one that was paid before, or without a gate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from scrout.gate.gate import pass_through
from scrout.handoff import Handoff
from scrout.pipeline import Kit, Stages
from scrout.records import Arm, GatedHandoff, Run, Scouting
from scrout.task import Task

Result = TypeVar("Result")
NO_SCOUT = Scouting(handoff=Handoff(), text="", seconds=0, searcher="none", detail="the arm has no scout")


@dataclass(frozen=True)
class ArmKit(Kit):
    arm: Arm = "handoff"
    known: Run | None = None
    """A run of the same task that has scouted it: its scouting is taken over, and paid once."""

    def open(self, task: Task) -> Stages:
        return ArmStages(self, task, self.open_run(task))


@dataclass(frozen=True)
class ArmStages(Stages):
    """Scouts and gates as the arm does."""

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
