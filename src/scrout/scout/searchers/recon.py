"""recon: no model, no network, no cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # the settings ask the searcher for its facts while they are still being imported
    from scrout.records import Scouting
    from scrout.scout.searcher import ScoutJob


class ReconSearcher:
    """Signals from issue and repository, ranked by weights that were learned once."""

    has_model: ClassVar[bool] = False

    async def search(self, job: ScoutJob) -> Scouting:
        from scrout.scout.recon.recon import recon

        return await recon(job.task, job.task_sandbox, job.settings, job.progress)


PART = ReconSearcher()
