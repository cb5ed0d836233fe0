"""Program repair: a search for a small edit, without a model and free."""

from __future__ import annotations

from typing import ClassVar, Literal

from scrout.fix.kind import FixerKind, FixJob
from scrout.records import Attempt


class RepairFixer(FixerKind):
    kind: Literal["repair"] = "repair"

    has_model: ClassVar[bool] = False

    async def attempt(self, job: FixJob) -> Attempt:
        from scrout.check.check import check
        from scrout.fix.repair.repair import repair

        async def doubt(patch: str) -> str:
            """Why the check would doubt or refuse a patch that is about to be proposed; empty: it would accept it."""
            found = Attempt(fixer=self.name, patch=patch, stop="finished", detail="", seconds=0)
            checked = await check(job.task.text, job.gated, found, job.task_sandbox)
            return "; ".join(checked.doubts) or checked.detail if checked.outcome in ("failed", "doubtful") else ""

        # It reads no text: it needs the reproduction and the files for its search, whatever the handoff mode.
        return await repair(
            job.gated,
            job.task_sandbox,
            job.settings.repair,
            progress=job.progress,
            name=self.name,
            accept=doubt,
        )


PART = RepairFixer
