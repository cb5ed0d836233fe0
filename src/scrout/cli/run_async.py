"""asyncio.run for a terminal: Ctrl-C does not wait for threads that only read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[object, object, T]) -> T:
    return asyncio.run(_with_impatience(work))


async def _with_impatience(work: Coroutine[object, object, T]) -> T:
    asyncio.get_running_loop().set_default_executor(_Impatient())
    return await work


class _Impatient(ThreadPoolExecutor):
    """A finished run leaves no thread to wait for; an interrupted one leaves a half-read index."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
