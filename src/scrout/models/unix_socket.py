"""httpx over a unix socket, by the connection that the meter has to its endpoints: a fraction of the cost of its own.

It has one request under way at a time, which is all that an agent's turns need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from scrout.models.proxy.upstream import ConnectFailed, StreamBroken, StreamingResponse, Upstream


class SocketTransport(httpx.AsyncBaseTransport):
    """The way through one socket, whatever host a URL names."""

    def __init__(self, socket: Path, base_url: str = "http://meter/v1") -> None:
        self._upstream = Upstream("http://socket", str(socket))
        self._base = httpx.URL(base_url).path.rstrip("/")
        """Of an endpoint that the meter stands for: its own begins with /v1."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        # Without the query, which is the endpoint's: the meter adds that itself.
        path = f"/v1{request.url.raw_path.partition(b'?')[0].decode('ascii').removeprefix(self._base)}"
        try:
            reached = await self._upstream.ask(request.method, path, headers, await request.aread())
        except ConnectFailed as error:
            raise httpx.ConnectError(str(error)) from error
        except StreamBroken as error:
            raise httpx.ReadError(str(error)) from error
        return httpx.Response(reached.status, headers=dict(reached.headers), stream=_Body(reached))

    async def aclose(self) -> None:
        self._upstream.close()


class _Body(httpx.AsyncByteStream):
    def __init__(self, reached: StreamingResponse) -> None:
        self._reached = reached

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while part := await self._reached.more():
                yield part
        except StreamBroken as error:
            raise httpx.ReadError(str(error)) from error
