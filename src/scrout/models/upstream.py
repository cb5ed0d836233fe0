"""Connections to an endpoint, a pool for each caller: a shared one compares every request with every connection.

On httpcore, without what httpx puts around it, which costs a millisecond a call. Proxies are those of the environment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from scrout.models.chat import CONNECT_TIMEOUT_S, KEEP_ALIVE_S, certificates

Unreached = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.ProxyError)
"""The request was never sent."""
Lost = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)
"""It may have been."""


@dataclass(frozen=True)
class Reached:
    """An answer that is coming in."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    parts: AsyncIterator[bytes]


class Upstream:
    """One caller's way to an endpoint; a connection stays open between calls for as long as servers keep it."""

    def __init__(self, base_url: str) -> None:
        url = httpx.URL(base_url)
        known = {} if proxy_bypass(url.host) else getproxies()
        proxy = known.get(url.scheme) or known.get("all")
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=certificates() if url.scheme == "https" else None,
            proxy=_proxy(proxy) if proxy else None,
            keepalive_expiry=KEEP_ALIVE_S,
        )

    def ask(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[httpcore.Response]:
        return self._pool.stream(
            method,
            str(url),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            content=body,
            extensions={"timeout": {"connect": CONNECT_TIMEOUT_S}},
        )

    async def close(self) -> None:
        await self._pool.aclose()


def reached(response: httpcore.Response) -> Reached:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Reached(response.status, headers, response.aiter_stream())


def _proxy(address: str) -> httpcore.Proxy:
    url = httpx.URL(address if "://" in address else f"http://{address}")
    auth = (url.username, url.password) if url.username else None
    return httpcore.Proxy(str(url.copy_with(userinfo=b"")), auth=auth)
