"""Work that a client watches, and may call off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

import anyio

T = TypeVar("T")
Say = Callable[[str], None]
Report = Callable[[int, str], Awaitable[None]]


async def cancellable(work: Callable[[Say], Coroutine[object, object, T]], report: Report) -> T:
    """What the work gives, while `report` hears what it says. Called off, it is let come to its end first."""
    loop = asyncio.get_running_loop()
    said: asyncio.Queue[str] = asyncio.Queue()

    def say(words: str) -> None:  # from any thread
        loop.call_soon_threadsafe(said.put_nowait, words)

    task = loop.create_task(work(say))
    telling = loop.create_task(_tell(said, report))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Once, and to a task that anyio does not know: it would cancel again at each await, and what ends a sandbox has
        # some of them.
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        raise
    finally:
        telling.cancel()


async def in_thread(function: Callable[[], T]) -> T:
    """What a function gives that blocks. Called off, it is waited for: nobody else could undo what it does."""
    done = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait({done})
        raise


async def _tell(said: asyncio.Queue[str], report: Report) -> None:
    number, last = 0, ""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens any more
        while True:
            words = await said.get()
            if words != last:
                number, last = number + 1, words
                await report(number, words)
