"""The meter's process: every paid call of an attempt goes through it, and only it has the endpoint's key.

It serves all attempts of one user, and outlives the processes that opened them: if they die, calls in progress are
still settled and recorded. It ends by itself when it has been idle for a while.

An account is opened over a socket in a folder that only the owner can access. The key is sent over the socket: no
argument, environment or file has it. Not covered: an agent that has another connection to the endpoint; its sandbox
must prevent that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import resource
import sys
from pathlib import Path

from pydantic import ValidationError

from scrout.models.proxy.apis import Json
from scrout.models.proxy.caps import Account
from scrout.models.proxy.endpoint import ProxyEndpoint

CONTROL = "control"
"""The socket's name in the process's folder."""
LINGER_S = 10.0
"""How long an idle process stays, so that the next attempt need not start another."""


class Proxy:
    """All open accounts of one user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._doors = 0
        self._names = itertools.count(1)
        self._idle = asyncio.Event()

    async def serve(self) -> None:
        """Serve until no account has been open for a while."""
        socket = self.folder / CONTROL
        socket.unlink(missing_ok=True)
        for left in self.folder.glob("[0-9]*-[0-9]*"):  # of a process that was killed
            left.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._control, str(socket), limit=2**20)
        try:
            while await self._needed():
                pass
        finally:
            server.close()
            socket.unlink(missing_ok=True)

    async def _needed(self) -> bool:
        self._idle.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._idle.wait()
        return bool(self._doors) or self._idle.is_set()

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one account: when the connection ends, for whatever reason, so does the account."""
        self._doors += 1
        self._idle.set()
        proxy_endpoint: ProxyEndpoint | None = None

        def tell(event: Json) -> None:
            writer.write(json.dumps(event).encode() + b"\n")

        try:
            account = Account.model_validate_json(await reader.readline())
            path = self.folder / f"{os.getpid()}-{next(self._names)}"
            proxy_endpoint = ProxyEndpoint(account, path, tell)
            await proxy_endpoint.open()
            tell({"kind": "opened", "socket": str(path)})
            await reader.read()
        except (ValidationError, ConnectionError, ValueError, OSError) as error:
            tell({"kind": "failed", "detail": f"{type(error).__name__}: {getattr(error, 'strerror', '') or 'refused'}"})
        finally:
            if proxy_endpoint is not None:
                await proxy_endpoint.close()
                tell(proxy_endpoint.summary())
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()
            self._doors -= 1
            self._idle.set()


def _limits() -> None:
    """Raise the limit of open files for every attempt's connections, and disable core dumps, because the memory has
    keys in it.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    _limits()
    asyncio.run(Proxy(Path(sys.argv[1])).serve())


if __name__ == "__main__":
    main()
