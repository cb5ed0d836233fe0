"""A server of scrout's at an address of this machine, until it is told to end."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from scrout.base import ConfigError

BACKLOG = 512
MAX_HEAD_BYTES = 65_536
"""Of a request before its body, and of what is between the parts of a body."""
MAX_PIPELINED = 16
"""Requests that wait behind one on their connection. No client sends even one before it has its answer."""
GRACE_S = 5
"""For requests under way when the server is told to end."""


class HttpServer:
    """A server that listens already. `end` ends what is under way: then whoever waits for it is told, and need not be
    cut off."""

    def __init__(
        self, app: ASGIApp, host: str, listening: socket.socket, end: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        self._socket = listening
        config = uvicorn.Config(
            app,
            http=_BoundedProtocol,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Ending(config, end)

    def run(self) -> None:
        """Answer until the process is interrupted, which is how it is meant to end."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])

    async def serve(self) -> None:
        """The same in a loop that runs already."""
        await self._server.serve(sockets=[self._socket])


class _BoundedProtocol(HttpToolsProtocol):
    """uvicorn's, with bounds on what a connection may send before it is known whose it is. By itself it takes a head of
    any length, in time by the square of it, and keeps any number of requests that come before their turn."""

    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests at once")  # answered with 400
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)


class _Ending(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, end: Callable[[], Awaitable[None]] | None) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._end:
            await self._end()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes a free one."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # With the protocol named, asyncio turns Nagle's waiting off for what is accepted.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            # From now on, so that who reads where it is may come at once.
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {error.strerror or error}. Name another port, or 0 for a free one."
        ) from None
    return listening
