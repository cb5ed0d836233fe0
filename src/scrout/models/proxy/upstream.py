"""One caller's connection to an endpoint, which stays open between calls as long as servers allow.

A caller has one request in progress at a time, so one connection is enough. httptools parses answers in C, because a
general client would cost more than all other work on a call. It uses the environment's proxies if they speak HTTP.
"""

from __future__ import annotations

import asyncio
import select
import ssl
import time
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.request import getproxies, proxy_bypass

import httptools
import httpx

from scrout.models.chat import CONNECT_TIMEOUT_S, KEEP_ALIVE_S, certificates
from scrout.models.proxy.bounds import ENCODINGS, MAX_ANSWER_BYTES, Decompressor

MAX_HEAD_BYTES = 100_000
MAX_UNREAD_BYTES = 65_536
"""Maximum unread bytes of an answer; beyond it, the endpoint has to wait."""
NEXT_ADDRESS_S = 0.25
"""If a host's address does not answer for this long, its next address is also tried."""
_PORTS = {"http": 80, "https": 443}


class ConnectFailed(Exception):
    """The request was never sent. The message is the reason, in a few words."""


class StreamBroken(Exception):
    """The request may have been sent, but the answer is incomplete. The message is the reason, in a few words."""


class Oversized(StreamBroken):
    """Cut off, because it is larger than any answer of a model."""


@dataclass(frozen=True)
class StreamingResponse:
    """An answer that is being received."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    more: Callable[[], Awaitable[bytes]]
    """Waits for the next part of its body; empty: the body has ended."""

    async def rest(self) -> bytes:
        """Read the rest, up to an answer's maximum size."""
        body = bytearray()
        while part := await self.more():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise Oversized(f"more than {MAX_ANSWER_BYTES:,} bytes")
        return bytes(body)


class Upstream:
    """The connection to one endpoint."""

    def __init__(self, base_url: str, socket: str = "") -> None:
        self._url = httpx.URL(base_url)
        self._socket = socket
        """A unix socket in place of the host; empty: none."""
        known = {} if socket or proxy_bypass(self._url.host) else getproxies()
        proxy = known.get(self._url.scheme) or known.get("all")
        self._proxy = httpx.URL(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
        self._origin = ""
        """URL prefix of a path, for a proxy that forwards plain requests; encrypted ones use a tunnel."""
        self._always = {"host": self._url.netloc.decode()}
        if self._proxy is not None and self._url.scheme == "http":
            self._origin = f"http://{self._url.netloc.decode()}"
            self._always |= _authorization(self._proxy)
        self._line: _Line | None = None

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> StreamingResponse:
        """Send a request; returns the start of its answer. If it is not read to its end, the connection is closed."""
        request = _head(f"{method} {self._origin}{path} HTTP/1.1", {**self._always, **headers}, len(body)) + body
        if self._line is None or not self._line.idle():
            self.close()
            self._line = await self._open()
        return _decoded(await self._line.ask(request))

    def close(self) -> None:
        if self._line is not None:
            self._line.transport.abort()
            self._line = None

    async def _open(self) -> _Line:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self._socket:
                    return (await asyncio.get_running_loop().create_unix_connection(_Line, self._socket))[1]
                if self._proxy is None:
                    return await _connect(self._url)
                line = await _connect(self._proxy)
                return line if self._origin else await self._tunnel(line, self._proxy)
        except StreamBroken as error:
            raise ConnectFailed(str(error)) from error
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(type(error).__name__) from error

    async def _tunnel(self, line: _Line, proxy: httpx.URL) -> _Line:
        """A tunnel to the endpoint through a proxy."""
        netloc, inner = self._url.netloc.decode(), _Line()
        where = netloc if self._url.port else f"{netloc}:{_PORTS['https']}"
        try:
            answer = await line.ask(_head(f"CONNECT {where} HTTP/1.1", {"host": where, **_authorization(proxy)}))
            if not 200 <= answer.status < 300:
                raise ConnectFailed(f"status {answer.status} of the proxy")
            loop = asyncio.get_running_loop()
            name = self._url.raw_host.decode()
            transport = await loop.start_tls(line.transport, inner, _tls(), server_hostname=name)
        except BaseException:
            line.transport.abort()
            raise
        assert transport is not None
        inner.connection_made(transport)
        return inner


def _decoded(reached: StreamingResponse) -> StreamingResponse:
    """A decompressed answer, if its endpoint compressed it against the request."""
    encoding = reached.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return reached
    if encoding not in ENCODINGS:
        raise StreamBroken("an encoding that was not asked for")
    headers = {
        name: value for name, value in reached.headers.items() if name not in ("content-encoding", "content-length")
    }
    return StreamingResponse(reached.status, headers, _Decoding(reached.more).more)


class _Decoding:
    """A body that is decompressed as it is read."""

    def __init__(self, more: Callable[[], Awaitable[bytes]]) -> None:
        self._more = more
        self._decompressor = Decompressor()
        self._pieces: Iterator[bytes] = iter(())

    async def more(self) -> bytes:
        try:
            while True:
                if piece := next(self._pieces, b""):
                    return piece
                data = await self._more()
                if not data:
                    break
                self._pieces = self._decompressor.pieces(data)
        except zlib.error as error:
            raise StreamBroken("what cannot be decompressed") from error
        if not self._decompressor.ended:
            raise StreamBroken("cut off")
        return b""


class _Line(asyncio.Protocol):
    """A connection, and the answer that it receives."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._asked = False
        """Whether an answer is in progress."""
        self._since = time.monotonic()
        """When the last one ended."""
        self._size = 0
        """Bytes since the last part of a body: a head, chunk headers, or trailers."""
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._fault = ""
        """Why no more data will come; empty: it may."""
        self._paused = False
        self._news: asyncio.Future[None] | None = None

    def idle(self) -> bool:
        """Whether it can take another request."""
        quiet = not (self._asked or self._parts or self._fault or self.transport.is_closing())
        return quiet and time.monotonic() - self._since < KEEP_ALIVE_S and not _readable(self.transport)

    async def ask(self, request: bytes) -> StreamingResponse:
        """Only for an idle connection."""
        self._asked, self._size, self._status, self._headers, self._parts = True, 0, 0, {}, []
        self.transport.write(request)
        while not self._status:
            await self._wait()
        return StreamingResponse(self._status, self._headers, self.more)

    async def more(self) -> bytes:
        while self._asked and not self._parts:
            await self._wait()
        data = b"".join(self._parts)
        self._parts.clear()
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return data

    async def _wait(self) -> None:
        if self._fault:
            raise StreamBroken(self._fault)
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _broken(self, fault: str) -> None:
        self._fault = self._fault or fault
        self.transport.abort()
        self._wake()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._broken(type(error).__name__)
            return
        if self._asked and self._size > MAX_HEAD_BYTES:
            self._broken("a head without an end")
        elif sum(map(len, self._parts)) > MAX_UNREAD_BYTES and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if not (error or self._fault) and self._status and _ends_with_the_connection(self._headers):
            self._asked = False
        self._fault = self._fault or (type(error).__name__ if error else "closed")
        self._wake()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if not self._asked:
            raise StreamBroken("an unexpected answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # fields after a body are not headers
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status
        else:  # another answer follows
            self._headers = {}

    def on_body(self, data: bytes) -> None:
        self._size = 0
        self._parts.append(data)

    def on_message_complete(self) -> None:
        if not self._status:
            return
        self._asked, self._since = False, time.monotonic()
        if not self._parser.should_keep_alive():
            self._fault = "closed"


async def _connect(url: httpx.URL) -> _Line:
    if url.scheme not in _PORTS:
        raise ConnectFailed(f"no way through a proxy of the kind {url.scheme}")
    _, line = await asyncio.get_running_loop().create_connection(
        _Line,
        url.raw_host.decode(),
        url.port or _PORTS[url.scheme],
        ssl=_tls() if url.scheme == "https" else None,
        happy_eyeballs_delay=NEXT_ADDRESS_S,
    )
    return line


def _tls() -> ssl.SSLContext:
    context = certificates()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _head(first: str, headers: Mapping[str, str], length: int | None = None) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    if length is not None:
        lines.append(f"content-length: {length}")
    head = "\r\n".join(lines)
    # A key may contain a line break, and the text after it would be parsed as a header.
    if max(head.count("\r"), head.count("\n")) >= len(lines):
        raise ConnectFailed("a key or header of several lines")
    try:
        return head.encode("latin-1") + b"\r\n\r\n"
    except UnicodeEncodeError as error:
        raise ConnectFailed("a key or header that HTTP has no bytes for") from error


def _authorization(proxy: httpx.URL) -> dict[str, str]:
    if not proxy.username:
        return {}
    return {"proxy-authorization": f"Basic {b64encode(f'{proxy.username}:{proxy.password}'.encode()).decode()}"}


def _ends_with_the_connection(headers: Mapping[str, str]) -> bool:
    return "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "").lower()


def _readable(transport: asyncio.Transport) -> bool:
    """Whether there is data that the loop has not seen yet: on an idle connection, that means that the server
    closed it.
    """
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
