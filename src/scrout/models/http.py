"""The little of HTTP/1.1 that a server for agents needs: read a request, write an answer, whole or in chunks.

For peers on this machine. What it cannot read it refuses; nothing here bounds how long a peer may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

MAX_BODY_BYTES = 256_000_000
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Unreadable(Exception):
    """What came is no request that this server takes; the connection is of no further use."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
    """The next request. A connection that ends raises what asyncio raises, and one that is out of form Unreadable."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = (*first.split(" "), "", "")[:3]
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "transfer-encoding" in headers:
        return Asked(method, path, headers, await _chunked(reader, headers["transfer-encoding"]))
    length = headers.get("content-length", "0")
    if not length.isdecimal():
        raise Unreadable(411)
    if int(length) > MAX_BODY_BYTES:
        raise Unreadable(413)
    return Asked(method, path, headers, await reader.readexactly(int(length)))


async def _chunked(reader: asyncio.StreamReader, coding: str) -> bytes:
    if coding.lower() != "chunked":
        raise Unreadable(501)
    body = bytearray()
    while True:
        try:
            size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        except ValueError:
            raise Unreadable(400) from None
        if size < 0 or len(body) + size > MAX_BODY_BYTES:
            raise Unreadable(413)
        if not size:
            break
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers, which nobody here has a use for
    return bytes(body)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The beginning of an answer."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = (f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items()))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer: JSON, unless the headers say otherwise."""
    about = {"content-type": "application/json", "content-length": str(len(body))}
    return head(status, about | dict(headers or {})) + body


def chunk(data: bytes) -> bytes:
    """One part of an answer whose length is not known before its end."""
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""
