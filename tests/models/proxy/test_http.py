"""Reading requests from peers that may send anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.models.proxy import http


class Sink:
    """What a writer is given."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


async def _read(parts: Sequence[bytes], sink: Sink | None = None) -> http.HttpRequest:
    reader = asyncio.StreamReader()
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    return await http.read(reader, sink or Sink())  # type: ignore[arg-type]


def read(*parts: bytes) -> http.HttpRequest:
    return asyncio.run(_read(parts))


def test_a_request_with_a_length() -> None:
    asked = read(b"POST /v1/messages?beta=true HTTP/1.1\r\nContent-Length: 2\r\nX-A:  b \r\n\r\n{}")
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1/messages?beta=true", b"{}")
    assert asked.headers["x-a"] == "b"
    assert not asked.last


@pytest.mark.parametrize("line", [b"GET / HTTP/1.0\r\n", b"GET / HTTP/1.1\r\nConnection: Close\r\n"])
def test_a_peer_that_takes_one_answer_is_known(line: bytes) -> None:
    assert read(line + b"\r\n").last


def test_who_waits_for_leave_to_send_is_given_it() -> None:
    sink = Sink()
    head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    assert asyncio.run(_read([head, b"x"], sink)).body == b"x"
    assert sink.written == b"HTTP/1.1 100 Continue\r\n\r\n"


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(1, 50)))
def test_a_body_in_chunks_is_whole_however_it_arrives(chunks: list[bytes], cuts: list[int]) -> None:
    encoded = b"".join(b"%X;note=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    wire = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + encoded + b"0\r\nTrailer: x\r\n\r\n"
    parts = []
    for cut in cuts:
        parts.append(wire[:cut])
        wire = wire[cut:]
    assert read(*parts, wire).body == b"".join(chunks)


def test_requests_that_follow_each_other_at_once_are_read_one_by_one() -> None:
    async def both() -> list[bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(
            b"POST /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nAPOST /b HTTP/1.1\r\nContent-Length: 1\r\n\r\nB"
        )
        return [(await http.read(reader, Sink())).body for _ in range(2)]  # type: ignore[arg-type]

    assert asyncio.run(both()) == [b"A", b"B"]


REFUSED = {
    "no length": (b"Content-Length: many\r\n", b"", 411),
    "negative length": (b"Content-Length: -1\r\n", b"", 411),
    "too long": (b"Content-Length: 32000001\r\n", b"", 413),
    "too long to be a number": (b"Content-Length: " + b"9" * 5000 + b"\r\n", b"", 413),
    "unknown coding": (b"Transfer-Encoding: gzip\r\n", b"", 501),
    "no chunk": (b"Transfer-Encoding: chunked\r\n", b"zz\r\n", 400),
    "negative chunk": (b"Transfer-Encoding: chunked\r\n", b"-1\r\n", 400),
    "a chunk's size in Python's own form": (b"Transfer-Encoding: chunked\r\n", b"1_0\r\n0123456789abcdef\r\n", 400),
    "too long a chunk": (b"Transfer-Encoding: chunked\r\n", b"ffffffff\r\n", 413),
    "a chunk that goes on": (b"Transfer-Encoding: chunked\r\n", b"1\r\nxyz0\r\n\r\n", 400),
    "a line without a colon": (b"nothing\r\n", b"", 400),
    "a name with a space": (b"a b: c\r\n", b"", 400),
    "a name that is empty": (b": c\r\n", b"", 400),
    "a value with a control character": (b"a: b\x01\r\n", b"", 400),
}


@pytest.mark.parametrize(("header", "body", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_out_of_form_is_refused(header: bytes, body: bytes, status: int) -> None:
    with pytest.raises(http.BadRequest) as refused:
        read(b"POST / HTTP/1.1\r\n" + header + b"\r\n" + body)
    assert refused.value.status == status


@pytest.mark.parametrize("first", [b"\r\n", b"GET\r\n", b"GET /\xff HTTP/1.1\r\n", b"GET  HTTP/1.1\r\n"])
def test_a_first_line_that_asks_for_nothing_is_refused(first: bytes) -> None:
    with pytest.raises(http.BadRequest):
        read(first + b"\r\n")


@given(st.binary(max_size=300))
def test_noise_is_refused_or_ends_and_raises_nothing_else(noise: bytes) -> None:
    with contextlib.suppress(http.BadRequest, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        read(noise, b"\r\n\r\n")


def test_a_head_without_an_end_is_not_kept() -> None:
    with pytest.raises(asyncio.LimitOverrunError):
        read(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000)
