"""What evaluation and GRPO share: episodes are opened and seeded alike, and their traces are read alike."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from scrout.base import TaskError
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import Sampling, ScoutSettings, Settings
from scrout.models.chat_response import Completion
from scrout.records import Scouting
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.scout.trace import Exchange, Recorded
from scrout.task import Task

Item = TypeVar("Item")
EPISODES, TRACES = "episodes.jsonl", "traces"
MAX_OPENING = 2
"""Repositories that are copied at once: more would only wait for the same disk."""
_COMPLETIONS = "/chat/completions"


def with_gold(rows: Iterable[TaskRow]) -> list[TaskRow]:
    """The rows whose fix is known; a TaskError if there are none."""
    rows = list(rows)
    found = [row for row in rows if row.gold and row.gold.files]
    if not found:
        raise TaskError(f"none of the {len(rows)} tasks says which files its fix changes. Pass tasks with gold files.")
    return found


def digest_tasks(rows: Iterable[TaskRow]) -> str:
    """Of ids, texts, repositories, commits and gold files."""
    fields = [[row.id, row.text, row.repo, row.base_commit, sorted(row.gold.files if row.gold else ())] for row in rows]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def seed_of(name: str) -> int:
    """An episode's seed depends on its name alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1


def with_sampling(settings: ScoutSettings, **changes: object) -> ScoutSettings:
    """The same settings with another sampling of the model."""
    sampling = Sampling.model_validate(settings.model.sampling.model_dump() | changes)
    return settings.model_copy(update={"model": settings.model.model_copy(update={"sampling": sampling})})


async def open_episode(
    stack: AsyncExitStack,
    opening: asyncio.Semaphore,
    row: TaskRow,
    repositories: Repositories,
    tier: Tier,
    settings: Settings,
) -> tuple[Task, TaskSandbox]:
    """A row's task and sandbox, until the stack is closed."""
    async with opening:
        task = await asyncio.to_thread(repositories.task, row)
        sandbox = await asyncio.to_thread(stack.enter_context, open_task_sandbox(task, tier, settings))
        return task, sandbox


def chat_exchanges(recorded: Recorded) -> Iterator[Exchange]:
    """The requests for replies in a trace, in order."""
    while not recorded.is_over:
        event = recorded.take()
        if isinstance(event, Exchange) and event.path.endswith(_COMPLETIONS):
            yield event


def completion_of(exchange: Exchange) -> Completion | None:
    """None: the endpoint gave no reply."""
    if exchange.status != 200 or exchange.error:
        return None
    try:
        completion = Completion.model_validate_json(exchange.response)
    except ValidationError:
        return None
    return None if completion.error or not completion.choices else completion


def was_refused(trace: Path) -> bool:
    """Whether the endpoint did not take the last request, for instance because it was too long."""
    *_, last = (None, *chat_exchanges(Recorded(trace)))
    return last is not None and last.status != 200


def infrastructure_failed(scouting: Scouting, *, refused: bool) -> bool:
    """Whether infrastructure ended an episode. A crash is the model's if the endpoint refused what it had said."""
    return scouting.stop == "endpoint" or (scouting.stop == "crashed" and not refused)


async def in_parallel(items: Iterable[Item], most: int, work: Callable[[Item], Awaitable[None]]) -> None:
    """Work on all items, at most so many at once. The first error stops the others and is raised."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(most):
                workers.create_task(worker())
    except* Exception as failures:
        error: BaseException = failures
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
