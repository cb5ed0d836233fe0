"""What a connection may send to any of the servers before it is known whose it is."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="servers need scrout[web]")

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from scrout.server.serving import MAX_PIPELINED, HttpServer, listen

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says how long a body is."""
    if scope["type"] == "http":
        size = 0
        async for part in Request(scope, receive).stream():
            size += len(part)
        await PlainTextResponse(f"{size} bytes")(scope, receive, send)


@pytest.fixture
def port() -> Iterator[int]:
    listening = listen("127.0.0.1", 0)
    server = HttpServer(app, "127.0.0.1", listening)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield int(listening.getsockname()[1])
    server._server.should_exit = True
    thread.join()


def ask(port: int, *parts: bytes) -> bytes:
    """What is answered until the server hangs up."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire, contextlib.suppress(ConnectionError):
        for part in parts:
            wire.sendall(part)
        while part := wire.recv(65_536):
            said += part
    return said


@pytest.mark.parametrize(
    "begun",
    [
        HEAD + b"X: ",
        b"GET /",
        b"GET /?",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1;",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
    ],
)
def test_a_head_without_an_end_is_hung_up_on(port: int, begun: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire, pytest.raises(ConnectionError):
        wire.sendall(begun)
        for _ in range(30):  # far more than the kernel keeps for a peer that does not read
            wire.sendall(b"a" * 1_000_000)
    assert b"200 OK" in ask(port, HEAD + b"Connection: close\r\n\r\n")


def test_many_short_headers_are_hung_up_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire, pytest.raises(ConnectionError):
        wire.sendall(HEAD)
        for _ in range(30):
            wire.sendall(b"x: y\r\n" * 160_000)


def test_requests_before_their_turn_are_few(port: int) -> None:
    answered = ask(port, (HEAD + b"\r\n") * 200)
    assert answered.count(b"200 OK") <= MAX_PIPELINED + 1 and answered.count(b"400 Bad Request") <= 1


def test_a_large_body_and_a_long_head_are_taken(port: int) -> None:
    head = POST + b"X: " + b"a" * 30_000 + b"\r\nConnection: close\r\n"
    assert b"20000000 bytes" in ask(port, head + b"Content-Length: 20000000\r\n\r\n", b"a" * 20_000_000)
    chunks = b"7a120\r\n" + b"a" * 500_000 + b"\r\n"
    assert b"10000000 bytes" in ask(port, head + b"Transfer-Encoding: chunked\r\n\r\n", chunks * 20, b"0\r\n\r\n")
    two = ask(port, HEAD + b"\r\n" + HEAD + b"Connection: close\r\n\r\n")
    assert two.count(b"200 OK") == 2
