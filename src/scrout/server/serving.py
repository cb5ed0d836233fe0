"""Runs a scrout server at a local address until it is interrupted."""

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
"""Maximum size of a request before its body, and between the parts of a body."""
MAX_PIPELINED = 16
"""Maximum number of pipelined requests per connection. Ordinary clients send none."""
GRACE_S = 5
"""Time for requests in progress when the server ends."""


class HttpServer:
    """A server that is already listening. `end` ends the work in progress, so that waiting clients get an answer."""

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
        """Serve until the process is interrupted, which is the normal end."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])

    async def serve(self) -> None:
        """The same in a loop that is already running."""
        await self._server.serve(sockets=[self._socket])


class _BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits on what a connection may send before it is authenticated.

    Without them, it accepts a head of any length, in quadratic time, and queues any number of pipelined requests.
    """

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
        # With the protocol named, asyncio turns off Nagle's algorithm for accepted connections.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            # From now on, so that a client can connect as soon as it knows the address.
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {error.strerror or error}. Name another port, or 0 for a free one."
        ) from None
    return listening
