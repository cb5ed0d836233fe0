"""httpx over the meter's socket, with the meter's own HTTP connection, which is far cheaper than httpx's.

It handles one request at a time, which is enough for an agent's turns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from scrout.base import ModelError
from scrout.models.chat import KEEP_ALIVE_S, certificates
from scrout.models.proxy.apis import PAID
from scrout.models.proxy.upstream import ConnectFailed, StreamBroken, StreamingResponse, Upstream

GONE = "the meter's process ended, and every call passes it. Run the same command again."


class SocketTransport(httpx.AsyncBaseTransport):
    """The transport to one endpoint: generating calls go through the meter's socket, whatever host their URL names.
    Other requests, such as token counts, are free and go directly to the server.
    """

    def __init__(self, socket: Path, base_url: str = "http://meter/v1") -> None:
        self._upstream = Upstream("http://socket", str(socket))
        self._base = httpx.URL(base_url).path.rstrip("/")
        """Path prefix of metered calls: the meter's own paths start with /v1."""
        self._direct: httpx.AsyncClient | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # Without the query, which belongs to the endpoint: the meter adds it itself.
        path = request.url.raw_path.partition(b"?")[0].decode("ascii").removeprefix(self._base)
        if path.strip("/") not in PAID:
            found = await self._client().send(request, stream=True)
            return httpx.Response(found.status_code, headers=found.headers, stream=found.stream)
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        try:
            reached = await self._upstream.ask(request.method, f"/v1{path}", headers, await request.aread())
        except ConnectFailed as error:
            raise ModelError(GONE) from error
        except StreamBroken as error:
            raise httpx.ReadError(str(error)) from error
        return httpx.Response(reached.status, headers=dict(reached.headers), stream=_Body(reached))

    async def aclose(self) -> None:
        self._upstream.close()
        if self._direct is not None:
            await self._direct.aclose()

    def _client(self) -> httpx.AsyncClient:
        """A client and not a bare transport, because only a client uses the environment's proxies."""
        if self._direct is None:
            limits = httpx.Limits(keepalive_expiry=KEEP_ALIVE_S)
            self._direct = httpx.AsyncClient(verify=certificates(), limits=limits)
        return self._direct


class _Body(httpx.AsyncByteStream):
    def __init__(self, reached: StreamingResponse) -> None:
        self._reached = reached

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while part := await self._reached.more():
                yield part
        except StreamBroken as error:
            raise httpx.ReadError(str(error)) from error
