"""The little of HTTP/1.1 that a server for agents needs: read a request, write an answer, whole or in chunks.

It is for peers on this machine. It refuses invalid requests, but does not limit a peer's time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

MAX_BODY_BYTES = 32_000_000
"""About the providers' maximum."""
LAST_CHUNK = b"0\r\n\r\n"

Take = Callable[[int], bool]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[!-~]+")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,8}[ \t]*(;[^\r\n]*)?\r\n")


@dataclass(frozen=True)
class HttpRequest:
    """A request as received."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    last: bool = False
    """The peer accepts no further answer on this connection."""


class BadRequest(Exception):
    """An invalid or unsupported request; the connection cannot be used further."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


async def read(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, take: Take = lambda size: True
) -> HttpRequest:
    """Read the next request.

    A closed connection raises asyncio's errors, an invalid request BadRequest. `take` reserves memory before a body is
    read.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, version = (*first.split(" "), "", "")[:3]
    if not _TARGET.fullmatch(path):
        raise BadRequest(400)
    headers = _headers(lines)
    last = version != "HTTP/1.1" or "close" in headers.get("connection", "").lower()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "transfer-encoding" in headers:
        return HttpRequest(method, path, headers, await _chunked(reader, headers["transfer-encoding"], take), last)
    length = headers.get("content-length", "0")
    if not length.isdecimal():
        raise BadRequest(411)
    if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
        raise BadRequest(413)
    if not take(int(length)):
        raise BadRequest(503)
    return HttpRequest(method, path, headers, await reader.readexactly(int(length)), last)


def _headers(lines: list[str]) -> dict[str, str]:
    """Headers by name.

    Headers that no server accepts are refused here; forwarded, they would look like the endpoint's fault.
    """
    headers = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadRequest(400)
        headers[name.lower()] = value.strip()
    return headers


async def _chunked(reader: asyncio.StreamReader, coding: str, take: Take) -> bytes:
    if coding.lower() != "chunked":
        raise BadRequest(501)
    body = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        if not _HEX.fullmatch(line):
            raise BadRequest(400)
        size = int(line.partition(b";")[0], 16)
        if len(body) + size > MAX_BODY_BYTES:
            raise BadRequest(413)
        if not size:
            break
        if not take(size):
            raise BadRequest(503)
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise BadRequest(400)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers, which are ignored
    return bytes(body)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and headers of an answer."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = (f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items()))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A complete answer: JSON, unless the headers say otherwise."""
    about = {"content-type": "application/json", "content-length": str(len(body))}
    return head(status, about | dict(headers or {})) + body


def chunk(data: bytes) -> bytes:
    """One chunk of an answer with unknown length."""
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""
