"""Runs work that a client watches and may cancel."""

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
    """The result of the work; `report` gets its progress messages. If cancelled, it waits until the work has ended."""
    loop = asyncio.get_running_loop()
    said: asyncio.Queue[str] = asyncio.Queue()

    def say(words: str) -> None:  # from any thread
        loop.call_soon_threadsafe(said.put_nowait, words)

    task = loop.create_task(work(say))
    telling = loop.create_task(_tell(said, report))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Cancel once, in a task that anyio does not know: anyio would cancel again at each await, and ending a sandbox
        # has some of them.
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        raise
    finally:
        telling.cancel()


async def in_thread(function: Callable[[], T]) -> T:
    """The result of a blocking function. If cancelled, it waits, because only the function can undo its work."""
    done = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait({done})
        raise


async def _tell(said: asyncio.Queue[str], report: Report) -> None:
    number, last = 0, ""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the listener is gone
        while True:
            words = await said.get()
            if words != last:
                number, last = number + 1, words
                await report(number, words)
