"""Episodes to learn from: several of each task, by the model as it is now, several at once, in the real sandbox.

A finished episode is on the disk with its reward before the next one starts in its place, so a kill loses those in
flight alone, and the same call goes on with the group. An episode's seed is that of its place, not of its start.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path

from scrout.base import FrozenModel, GateError, ModelError, SandboxError, TaskError
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import ScoutSettings, Settings
from scrout.files import JsonLines, atomic, sync
from scrout.gate.gate import gate
from scrout.handoff import Handoff
from scrout.lab.train.episodes import (
    EPISODES,
    MAX_OPENING,
    TRACES,
    in_parallel,
    open_episode,
    seed_of,
    was_refused,
    with_sampling,
)
from scrout.lab.train.grpo.reward import Reward, reward
from scrout.lab.train.grpo.run_folder import GrpoSettings
from scrout.money import Usd
from scrout.records import Scouting, ScoutStop
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Tier
from scrout.scout.episode import episode
from scrout.task import Task

TRIES = 2
"""Of an episode whose endpoint fails; then the server counts as dead."""


class Rollout(FrozenModel):
    """One finished episode."""

    step: int
    task: str
    number: int
    """Within its group, from 0."""
    adapter: str
    """The version of the model that drew it."""
    trace: str
    """Relative to the run's folder; empty: the sandbox failed before there was one."""
    stop: ScoutStop
    turns: int
    reward: Reward | None
    """None: `problem` says why, and nothing is learned from it."""
    problem: str = ""
    verdict: str = ""
    """The gate's; empty: it reached none."""
    seconds: float
    cost_usd: Usd | None = Decimal(0)
    """None: a call had no known price."""


class Rollouts:
    def __init__(
        self,
        folder: Path,
        settings: Settings,
        tier: Tier,
        repositories: Repositories,
        run: GrpoSettings,
        parallel: int,
        progress: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.tier = tier
        self.repositories = repositories
        self.run = run
        self.progress = progress
        self.parallel = parallel
        """Episodes at once."""
        self.journal = JsonLines(folder / EPISODES, Rollout, durable=True)
        self.lost: dict[str, str] = {}
        """Tasks that the last call could draw nothing for, and why."""

    async def collect(self, step: int, rows: Sequence[TaskRow], adapter: str) -> dict[str, list[Rollout]]:
        """A group for each task, in the tasks' order; what an earlier call has finished is not done again."""
        groups: dict[str, dict[int, Rollout]] = {row.id: {} for row in rows}
        self.lost = {}
        for rollout in self.journal.read():
            if rollout.step == step and rollout.task in groups:
                groups[rollout.task][rollout.number] = rollout
        places, opening = asyncio.Semaphore(self.parallel), asyncio.Semaphore(MAX_OPENING)
        await in_parallel(rows, len(rows), lambda row: self._group(step, row, adapter, groups, places, opening))
        return {task: [group[number] for number in sorted(group)] for task, group in groups.items()}

    async def _group(
        self,
        step: int,
        row: TaskRow,
        adapter: str,
        groups: dict[str, dict[int, Rollout]],
        places: asyncio.Semaphore,
        opening: asyncio.Semaphore,
    ) -> None:
        group = groups[row.id]
        missing = [number for number in range(self.run.group_size) if number not in group]
        if not missing:
            return
        async with AsyncExitStack() as stack:
            try:
                task, task_sandbox = await open_episode(
                    stack, opening, row, self.repositories, self.tier, self.settings
                )
            except (TaskError, SandboxError) as error:  # one bad task must not end a run of days
                self.lost[row.id] = str(error)
                return

            async def draw(number: int) -> None:
                async with places:
                    rollout = await self._one(step, row, task, task_sandbox, number, adapter)
                self.journal.append(rollout)
                group[number] = rollout
                self._report(step, groups)

            await in_parallel(missing, len(missing), draw)

    async def _one(
        self, step: int, row: TaskRow, task: Task, task_sandbox: TaskSandbox, number: int, adapter: str
    ) -> Rollout:
        seed = seed_of(f"{self.run.seed}/{step}/{row.id}/{number}")
        settings = with_sampling(self.settings.scout, seed=seed)
        scouting = await self._search(task, task_sandbox, settings)
        verdict, problem, verified = "", "", False
        try:
            gated = await gate(task, scouting.handoff, task_sandbox, self.settings.gate)
            verdict, verified = gated.verdict, gated.kept
        except (GateError, SandboxError) as error:
            problem = str(error)
        gold = row.gold.files if row.gold else ()
        refused = bool(scouting.stop == "crashed" and scouting.trace and was_refused(Path(scouting.trace)))
        weights = self.run.weights
        worth = None if problem else reward(scouting, gold, settings.model, verified, weights, refused=refused)
        if worth is None and not problem:
            problem = f"{scouting.stop}: {scouting.detail}"
        return Rollout(
            step=step,
            task=row.id,
            number=number,
            adapter=adapter,
            trace=self._keep(scouting),
            stop=scouting.stop,
            turns=scouting.turns,
            reward=worth,
            problem=problem,
            verdict=verdict,
            seconds=scouting.seconds,
            cost_usd=scouting.cost_usd,
        )

    async def _search(self, task: Task, task_sandbox: TaskSandbox, settings: ScoutSettings) -> Scouting:
        for _ in range(TRIES):
            try:
                scouting = await episode(task, task_sandbox, settings)
            except SandboxError as error:
                return Scouting(handoff=Handoff(), text="", seconds=0, stop="crashed", detail=str(error))
            if scouting.stop != "endpoint":
                return scouting
        raise ModelError(
            f"the rollout server failed in an episode of {task.id}: {scouting.detail} Finished episodes are kept: see "
            "to the server and repeat the command."
        )

    def _keep(self, scouting: Scouting) -> str:
        """The trace beside the run, since the other one may be cleared away; empty: there is none."""
        if not scouting.trace:
            return ""
        source = Path(scouting.trace)
        kept = Path(TRACES) / f"{source.parent.name}.jsonl"
        (self.folder / TRACES).mkdir(exist_ok=True)
        try:
            os.link(source, self.folder / kept)
        except OSError:
            with atomic(self.folder / kept) as file:
                shutil.copyfile(source, file.name)
        sync(self.folder / kept)
        return str(kept)

    def _report(self, step: int, groups: dict[str, dict[int, Rollout]]) -> None:
        done = [rollout for group in groups.values() for rollout in group.values()]
        totals = [rollout.reward.total for rollout in done if rollout.reward]
        mean = f", mean reward {sum(totals) / len(totals):.3f}" if totals else ""
        self.progress(f"step {step + 1}: episode {len(done)} of {len(groups) * self.run.group_size}{mean}")
