"""The meter's account for an embedder's endpoint: the run's account within a run, otherwise a new one per call."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from decimal import Decimal
from pathlib import Path

from scrout.base import ConfigError
from scrout.config.folders import data_folder
from scrout.config.settings import EmbedderSettings
from scrout.models.proxy.caps import Account
from scrout.models.proxy.client import open_proxy_client
from scrout.money import Price, Receipt
from scrout.trajectory import FILE_NAME

QWEN3 = "Qwen/Qwen3-Embedding-0.6B"
"""Name of the paper's embedder on a server, unless the settings have another."""
MAX_CALLS = 1_000_000
"""More than any caller needs: the cap is in dollars."""

SOCKET: ContextVar[Path | None] = ContextVar("scrout.embedder", default=None)
"""The meter's socket for this task's run; None: no run is in progress."""


def account_of(
    base_url: str, model: str, key: str | None, price: Price | None, trajectory: Path, cap_usd: Decimal | None = None
) -> Account:
    return Account(
        component="route",
        fixer="",
        model=model,
        base_url=base_url,
        key=key,
        price=price,
        cap_usd=cap_usd,
        cap_calls=MAX_CALLS,
        trajectory=str(trajectory),
        silent=False,
    )


@asynccontextmanager
async def on_the_bill(settings: EmbedderSettings, folder: Path, book: Callable[[Receipt], None]) -> AsyncIterator[None]:
    """Book the embedder's payments within the block, in this task and the threads that it starts."""
    try:
        key = settings.key()
    except ConfigError:  # the error is raised when a vector is requested, which may never happen
        yield
        return
    account = account_of(
        settings.base_url,
        settings.model or QWEN3,
        key,
        settings.price,
        folder / FILE_NAME,
        settings.max_cost_usd if settings.price else None,
    )
    async with open_proxy_client(account, book) as client:
        token = SOCKET.set(client.socket)
        try:
            yield
        finally:
            SOCKET.reset(token)


@contextmanager
def metered(base_url: str, model: str, key: str | None, price: Price | None) -> Iterator[Path]:
    """The meter's socket. Outside of a run, payments are in a trajectory beside the searcher's traces."""
    if (socket := SOCKET.get()) is not None:
        yield socket
        return
    trajectory = data_folder() / "traces" / f"embedder-{secrets.token_hex(4)}" / FILE_NAME
    account, stack = account_of(base_url, model, key, price, trajectory), AsyncExitStack()
    with asyncio.Runner() as runner:
        client = runner.run(stack.enter_async_context(open_proxy_client(account, lambda receipt: None)))
        try:
            yield client.socket
        finally:
            runner.run(stack.aclose())
