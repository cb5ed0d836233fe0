"""Commands that are cancelled in their first milliseconds, when bwrap is still setting itself up."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from scrout.sandbox.workshop import Workshop


async def test_early_cancels_neither_hang_nor_leave_a_process(
    make_repo: Callable[..., Path], workshop: Callable[[Path], AbstractContextManager[Workshop]]
) -> None:
    chance = random.Random(7)
    with workshop(make_repo({"a.txt": "a"})) as shop:
        for _ in range(60):
            workspace = shop.fresh()
            running = asyncio.create_task(shop.shell(workspace, "sleep 987.125"))
            await asyncio.sleep(chance.random() * 0.03)
            running.cancel()
            async with asyncio.timeout(20):
                await asyncio.gather(running, return_exceptions=True)
    for process in Path("/proc").glob("[0-9]*/cmdline"):  # noqa: ASYNC240
        try:
            assert b"987.125" not in process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
