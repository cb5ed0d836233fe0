"""The model under [scout.model]: it looks around in the sandbox for a number of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # the settings ask the searcher for its facts while they are still being imported
    from scrout.records import Scouting
    from scrout.scout.searcher import ScoutJob


class ModelSearcher:
    """One episode of a model with tools."""

    has_model: ClassVar[bool] = True

    async def search(self, job: ScoutJob) -> Scouting:
        from scrout.scout.episode import episode

        return await episode(job.task, job.task_sandbox, job.settings, job.progress, job.record, job.folder)


PART = ModelSearcher()
