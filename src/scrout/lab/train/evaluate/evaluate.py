"""Runs an evaluation: each held-out task, arm and draw is one real episode in the sandbox, saved as soon as it ends.

Episodes that infrastructure failed are neither saved nor scored; the same command tries them again. The card in the
folder has model, settings, prompts, weights and tasks, and no episodes of others are ever added.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from scrout import __version__
from scrout.base import FrozenModel, ModelError, ScroutError, TaskError
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import ScoutSettings, Settings
from scrout.files import JsonLines, lock_folder, write_atomic
from scrout.lab.train.episodes import (
    EPISODES,
    MAX_OPENING,
    TRACES,
    digest_tasks,
    in_parallel,
    infrastructure_failed,
    open_episode,
    seed_of,
    with_gold,
    with_sampling,
)
from scrout.lab.train.evaluate.episode import Arm, EvaluationEpisode, read_turns, scored
from scrout.lab.train.evaluate.score import Score, compare, score
from scrout.lab.train.run_card import keep_card, read_card, require_run_or_empty
from scrout.models.chat import shown
from scrout.sandbox.probe import require_tier
from scrout.sandbox.tier import Tier
from scrout.scout.episode import episode
from scrout.scout.hidden_state.checkpoint import digest, find
from scrout.scout.prompts import read_prompts

CARD, SCORE = "evaluation.json", "score.json"
MAX_IN_A_ROW = 10
"""Failures of infrastructure, after which no further episode starts: the next would fail as well."""
_ELSEWHERE = {"model": {"base_url", "key_env"}}
"""Settings that may change within an evaluation: where the same model is served."""


@dataclass(frozen=True)
class EvaluationPlan:
    arms: tuple[Arm, ...] = ("greedy", "sampled")
    draws: int = 1
    """Of each task in the arm `sampled`; `greedy` has one."""
    temperature: float = 0.9
    """Of the arm `sampled`."""
    parallel: int = 2
    """Episodes at once."""

    def jobs(self, rows: Iterable[TaskRow]) -> Iterator[EvaluationJob]:
        """Task by task, so that an evaluation that is cut off has tasks with all of their episodes."""
        for row in rows:
            for arm in self.arms:
                for draw in range(1 if arm == "greedy" else self.draws):
                    yield EvaluationJob(row, arm, draw)


@dataclass(frozen=True)
class EvaluationJob:
    """One episode of an evaluation."""

    row: TaskRow
    arm: Arm
    draw: int

    @property
    def key(self) -> tuple[str, Arm, int]:
        return self.row.id, self.arm, self.draw

    @property
    def name(self) -> str:
        return f"{self.row.id} {self.arm} {self.draw}"

    @property
    def seed(self) -> int:
        """By task and draw alone, so that every evaluation of the same tasks has the same."""
        return seed_of(f"{self.row.id}\0{self.draw}")

    def settings(self, settings: ScoutSettings, temperature: float) -> ScoutSettings:
        if self.arm == "greedy":
            return with_sampling(settings, temperature=0.0, seed=self.seed)
        own = settings.model.sampling.top_p
        return with_sampling(settings, temperature=temperature, seed=self.seed, top_p=1.0 if own is None else own)


class EvaluationCard(FrozenModel):
    """What an evaluation is. Written once, when it begins."""

    format: Literal[1] = 1
    scrout: str
    """The version that began it."""
    started: datetime
    model: str
    base_url: str
    """Where it was when the evaluation began, without secrets."""
    checkpoint: str
    """Digest of the weights; empty: the settings do not name them."""
    prompts: str
    """Digest of the five prompts."""
    tasks: int
    tasks_digest: str
    """Of ids, texts, repositories, commits and gold files."""
    arms: tuple[Arm, ...]
    draws: int
    temperature: float
    settings: dict[str, JsonValue]
    """[scout], without where the model is served."""


def run_evaluation(
    rows: Sequence[TaskRow],
    out: Path,
    settings: Settings,
    plan: EvaluationPlan,
    repositories: Repositories,
    progress: Callable[[str], None] = lambda words: None,
) -> Score:
    """Begin an evaluation in `out`, or go on with the one that lies there, and score what it has."""
    held = with_gold(rows)
    card = _card(held, settings.scout, plan)
    tier = require_tier(settings.sandbox)
    with lock_folder(out):
        require_run_or_empty(out / CARD)
        keep_card(out / CARD, card, ("scrout", "started", "base_url"))
        journal = JsonLines(out / EPISODES, EvaluationEpisode, durable=True)
        jobs = list(plan.jobs(held))
        before = {(one.task, one.arm, one.draw) for one in journal.read()}
        left = [job for job in jobs if job.key not in before]
        runner = _Runner(out, settings, plan, repositories, tier, journal, progress, len(jobs), len(before))
        asyncio.run(runner.run(left))
        found = score(journal.read(), card.model, len(jobs), runner.failed)
        write_atomic(out / SCORE, found.model_dump_json(indent=2) + "\n")
    return found


def read_evaluation(folder: Path) -> tuple[EvaluationCard, list[EvaluationEpisode]]:
    """An evaluation that was run; a TaskError where there is none."""
    card = read_card(folder / CARD, EvaluationCard)
    if card is None:
        raise TaskError(f"{folder} holds no evaluation ({CARD}). Name a folder that `scrout train evaluate` wrote.")
    return card, JsonLines(folder / EPISODES, EvaluationEpisode).read()


def compare_with(found: Score, folder: Path, other: Path) -> Score:
    """The score of an evaluation with what changed since another one of the same tasks."""
    (old, before), (new, after) = read_evaluation(other), read_evaluation(folder)
    if old.tasks_digest != new.tasks_digest and not {one.task for one in before} & {one.task for one in after}:
        raise TaskError(f"{other} is an evaluation of other tasks. Name one of the same.")
    return found.model_copy(update={"changes": compare(before, after)})


@dataclass
class _Runner:
    """Where episodes are run, several at once."""

    out: Path
    settings: Settings
    plan: EvaluationPlan
    repositories: Repositories
    tier: Tier
    journal: JsonLines[EvaluationEpisode]
    progress: Callable[[str], None]
    total: int
    done: int
    failed: dict[str, str] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    in_a_row: int = 0

    async def run(self, jobs: Sequence[EvaluationJob]) -> None:
        """All of these, however each of them ends. What no episode can start without is an error."""
        opening = asyncio.Semaphore(MAX_OPENING)
        await in_parallel(jobs, self.plan.parallel, lambda job: self._one(job, opening))

    async def _one(self, job: EvaluationJob, opening: asyncio.Semaphore) -> None:
        if self.in_a_row >= MAX_IN_A_ROW:
            self.failed[job.name] = f"not tried, after {self.in_a_row} failures in a row"
            return
        self.running.add(job.name)
        self._report()
        try:
            outcome = await self._episode(job, opening)
        except ModelError:  # the canary's: no episode would pass it
            raise
        except (ScroutError, OSError) as error:
            outcome = str(error) if isinstance(error, ScroutError) else f"{type(error).__name__}: {error}"
        if isinstance(outcome, EvaluationEpisode):
            try:
                self.journal.append(outcome)
            except OSError as error:
                raise TaskError(
                    f"{self.journal.path}: {error.strerror}. Make room; the same command goes on."
                ) from None
            self.done, self.in_a_row = self.done + 1, 0
        else:
            self.failed[job.name] = outcome
            self.in_a_row += 1
        self.running.discard(job.name)
        self._report()

    async def _episode(self, job: EvaluationJob, opening: asyncio.Semaphore) -> EvaluationEpisode | str:
        """The episode, or in words what infrastructure did to it."""
        async with AsyncExitStack() as stack:
            task, task_sandbox = await open_episode(
                stack, opening, job.row, self.repositories, self.tier, self.settings
            )
            settings = job.settings(self.settings.scout, self.plan.temperature)
            scouting = await episode(task, task_sandbox, settings)
        reading = await asyncio.to_thread(read_turns, Path(scouting.trace), scouting)
        if infrastructure_failed(scouting, refused=reading.refused):
            return f"{scouting.stop}: {scouting.detail}"
        assert job.row.gold is not None
        gold = tuple(dict.fromkeys(job.row.gold.files))
        outcome = scored(scouting, reading, task=job.row.id, arm=job.arm, draw=job.draw, seed=job.seed, gold=gold)
        return outcome.model_copy(update={"trace": self._keep_trace(Path(scouting.trace))})

    def _keep_trace(self, trace: Path) -> str:
        """The trace's folder becomes part of the evaluation's."""
        place = self.out / TRACES / trace.parent.name
        place.parent.mkdir(exist_ok=True)
        shutil.move(trace.parent, place)
        return f"{TRACES}/{place.name}/{trace.name}"

    def _report(self) -> None:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        now = f": {', '.join(sorted(self.running)[:2])}" if self.running else ""
        self.progress(f"{self.done} of {self.total} episodes{failed}{now}")


def _card(rows: Sequence[TaskRow], settings: ScoutSettings, plan: EvaluationPlan) -> EvaluationCard:
    return EvaluationCard(
        scrout=__version__,
        started=datetime.now(UTC),
        model=settings.model.model,
        base_url=shown(settings.model.base_url),
        checkpoint=digest(find(settings.model.checkpoint)) if settings.model.checkpoint else "",
        prompts=read_prompts(settings.model.prompts).digest(),
        tasks=len(rows),
        tasks_digest=digest_tasks(rows),
        arms=plan.arms,
        draws=plan.draws,
        temperature=plan.temperature,
        settings=settings.model_dump(mode="json", exclude=_ELSEWHERE),
    )
