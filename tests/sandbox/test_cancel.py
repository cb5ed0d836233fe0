"""Commands that are cancelled in their first milliseconds, when bwrap is still setting itself up."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from scrout.sandbox.task_sandbox import TaskSandbox


async def test_early_cancels_neither_hang_nor_leave_a_process(
    make_repo: Callable[..., Path], task_sandbox: Callable[[Path], AbstractContextManager[TaskSandbox]]
) -> None:
    probability = random.Random(7)
    with task_sandbox(make_repo({"a.txt": "a"})) as shop:
        for _ in range(60):
            workspace = shop.fresh()
            running = asyncio.create_task(shop.shell(workspace, "sleep 987.125"))
            await asyncio.sleep(probability.random() * 0.03)
            running.cancel()
            async with asyncio.timeout(20):
                await asyncio.gather(running, return_exceptions=True)
    for process in Path("/proc").glob("[0-9]*/cmdline"):  # noqa: ASYNC240
        try:
            assert b"987.125" not in process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
