"""Answers that are larger than any model's: cut off in little memory, in linear time, and booked at what was held."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal

import httpx
import pytest

from scrout.base import ModelError
from scrout.models.chat import Chat, Message
from scrout.models.proxy import http
from scrout.models.proxy.apis import APIS, CHAT, MESSAGES, AnswerReader, Api, Stream, parse, parse_request
from scrout.models.proxy.bounds import MAX_EVENT_BYTES, MAX_VALUES, Decompressor, has_too_many_values
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Price, Usage
from scrout.trajectory import BilledCall, ReservedCall, read

from ...conftest import assert_linear
from .test_endpoint import ANSWER, IN_CHUNKS, counted, opened, raw_endpoint, request, stream_head, until

MB = 1_000_000
SENT_MB = 600

# The client of an endpoint in a process of its own, which prints by how much its memory has grown, and how it ended.
CLIENT = """
import asyncio, json, sys, tempfile
from decimal import Decimal
from pathlib import Path
import httpx
from scrout.base import ModelError
from scrout.models.chat import Chat, Message
from scrout.models.proxy.endpoint import ProxyEndpoint
from scrout.models.proxy.caps import Account
from scrout.money import Price

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

async def nap(seconds):
    pass

async def by_meter(url):
    with tempfile.TemporaryDirectory() as folder:
        price = Price(input=Decimal(1), output=Decimal(1))
        account = Account(fixer="f", model="m", base_url=url, price=price, cap_usd=Decimal(2), cap_calls=9,
                          trajectory=f"{folder}/t")
        told = []
        door = ProxyEndpoint(account, Path(folder, "s"), told.append)
        await door.open()
        transport = httpx.AsyncHTTPTransport(uds=str(door.path))
        async with httpx.AsyncClient(transport=transport, base_url="http://door", timeout=120) as client:
            before = peak()
            body = {"model": "m", "messages": [], "max_tokens": 900}
            try:
                async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                    async for _ in answer.aiter_raw():
                        pass
            except httpx.HTTPError:
                pass
            grown = peak() - before
        await door.close()
        return {"grown": grown, "fault": door.fault, "estimated": [one["receipt"]["estimated"] for one in told]}

async def by_chat(url):
    async with Chat(url, "m", None, 120, sleep=nap) as chat:
        before = peak()
        try:
            await chat.complete((Message("user", "a"),), [], 9)
            fault = ""
        except ModelError as error:
            fault = str(error)
        return {"grown": peak() - before, "fault": fault, "estimated": [True]}

print(json.dumps(asyncio.run({"meter": by_meter, "chat": by_chat}[sys.argv[1]](sys.argv[2]))))
"""


def zeros(size_mb: int) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS + 16)
    return b"".join([packer.compress(b" " * MB) for _ in range(size_mb)]) + packer.flush()


def forms(name: str) -> list[bytes]:
    text, some = b"x" * MB, SENT_MB
    match name:
        case "a body":
            return [http.head(200, {"content-length": str(some * MB)}), *[text] * some]
        case "chunks":
            return [IN_CHUNKS, *[http.chunk(text)] * some]
        case "to the end of the connection":
            return [b"HTTP/1.1 200 OK\r\n\r\n", *[text] * some]
        case "an event without an end":
            return [stream_head(), http.chunk(b"data: "), *[http.chunk(text)] * some]
        case "events without an end":
            return [stream_head(), *[http.chunk(b"data: " + text + b"\n\n")] * some]
        case "deltas without an end":
            delta = b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % (b"x" * 5000)
            return [stream_head(), *[http.chunk(delta * 200)] * some]
        case "a compressed body":
            packed = zeros(some)
            return [http.head(200, {"content-encoding": "gzip", "content-length": str(len(packed))}), packed]
        case "a head":
            return [b"HTTP/1.1 200 OK\r\na: ", *[text] * some]
        case "headers":
            return [b"HTTP/1.1 200 OK\r\n", *[b"a: b\r\n" * (MB // 6)] * some]
        case "what follows the body":
            return [IN_CHUNKS, http.chunk(b"{}"), b"0\r\na: ", *[text] * some]
        case "hints before it":
            return [b"HTTP/1.1 103 Early Hints\r\na: b\r\n\r\n" * (MB // 34)] * some
        case _:
            body = b'{"choices": [' + b"{}," * (10 * MB) + b"{}]}"
            return [http.head(200, {"content-length": str(len(body))}), body]


async def grown(client: str, parts: Sequence[bytes]) -> dict[str, object]:
    async with raw_endpoint(parts) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT, client, url), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
    told: dict[str, object] = json.loads(said)
    return told


FORMS = (
    *("a body", "chunks", "to the end of the connection", "an event without an end", "events without an end"),
    *("deltas without an end", "a compressed body", "a head", "headers", "what follows the body", "hints before it"),
    "many values",
)


@pytest.mark.parametrize("name", FORMS)
async def test_no_answer_takes_more_than_a_share_of_its_size_from_the_meter(name: str) -> None:
    told = await grown("meter", forms(name))
    assert int(str(told["grown"])) < SENT_MB * MB // 3
    assert told["estimated"] == [True]
    assert ("cut off" in str(told["fault"]) or "lost" in str(told["fault"])) == (name != "many values")


# A client asks for no events. Hints without an end are the library's to read, in no memory, until the time is over.
WHOLE = [name for name in FORMS if "event" not in name and name not in ("deltas without an end", "hints before it")]


@pytest.mark.parametrize("name", WHOLE)
async def test_no_answer_takes_more_than_a_share_of_its_size_from_a_client(name: str) -> None:
    told = await grown("chat", forms(name))
    assert int(str(told["grown"])) < SENT_MB * MB // 3 and told["fault"]


# Time


@pytest.mark.parametrize("start", [b"data: ", b"", b": ", b"data: \r"], ids=str)
def test_an_event_without_an_end_takes_linear_time(start: bytes) -> None:
    def feed(text: str) -> None:
        stream = Stream(CHAT, AnswerReader(), drop_usage=True)
        stream.feed(start)
        for _ in range(len(text) // 10):
            stream.feed(b"0123456789")

    assert_linear(feed, "0123456789", 400_000)


DELTAS = {
    "chat": b'data: {"choices": [{"delta": {"content": "0123456789", "reasoning": "0123456789"}}]}\n\n',
    "responses": b'data: {"type": "response.output_text.delta", "delta": "01234567890123456789"}\n\n',
    "messages": b'data: {"type": "content_block_delta", "delta": {"text": "01234567890123456789"}}\n\n',
}
CALLED = {
    "chat": b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "0123456789"}}]}}]}\n\n',
    "messages": b'data: {"type": "content_block_delta", "delta": {"partial_json": "0123456789"}}\n\n',
}
USED = b'data: {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "a", "name": "b"}}\n\n'


@pytest.mark.parametrize(
    ("api", "event"),
    [(api, some[api.name]) for some in (DELTAS, CALLED) for api in APIS.values() if api.name in some],
    ids=lambda value: getattr(value, "name", "event"),
)
def test_what_is_said_in_many_pieces_takes_linear_time(api: Api, event: bytes) -> None:
    said = AnswerReader()

    def feed(text: str) -> None:
        nonlocal said
        said = AnswerReader()
        stream = Stream(api, said, drop_usage=False)
        if api is MESSAGES:
            stream.feed(USED)
        for _ in range(len(text)):
            stream.feed(event)

    assert_linear(feed, "x", 30_000)
    assert said.wrote and max(map(len, [said.text, *(str(call["arguments"]) for call in said.calls)])) >= 1_200_000


# What is read, and what is not


def test_an_event_of_the_largest_size_is_known_by_it() -> None:
    stream = Stream(CHAT, AnswerReader(), drop_usage=False)
    stream.feed(b"x" * MAX_EVENT_BYTES)
    assert stream.begun_bytes == MAX_EVENT_BYTES
    stream.feed(b"\n")
    stream.feed(b"\ny")
    assert stream.begun_bytes == 1


def test_a_document_of_too_many_values_is_not_read() -> None:
    most = b'{"a": [' + b"0," * (MAX_VALUES - 3) + b"0]}"
    more = b'{"a": [' + b"0," * MAX_VALUES + b"0]}"
    assert not has_too_many_values(most) and parse(most) and parse_request(most)
    assert has_too_many_values(more) and parse(more) is None and parse_request(more) is None


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_what_was_compressed_is_read_in_whatever_pieces(pack: Callable[[bytes], bytes], size: int) -> None:
    text = b"The loop ends one item early. " * 9_000
    packed, unpacked = pack(text), Decompressor()
    pieces = [piece for at in range(0, len(packed), size) for piece in unpacked.pieces(packed[at : at + size])]
    assert b"".join(pieces) == text and unpacked.ended
    assert list(unpacked.pieces(b"what follows it")) == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "GZIP"])
async def test_an_endpoint_that_compresses_unasked_is_understood(encoding: str) -> None:
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[encoding.lower()](ANSWER)
    parts = [http.whole(200, packed, {"content-encoding": encoding})]
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        answer = await there.ask()
        async with Chat(base_url, "m", None) as chat:
            assert (await chat.complete((Message("user", "a"),), [], 9)).text == "yes"
    assert answer.content == ANSWER and "content-encoding" not in answer.headers
    assert [one.estimated for one in there.receipts] == [False]


@pytest.mark.parametrize(
    "told",
    [
        ("br", b"abc"),
        ("gzip, gzip", gzip.compress(gzip.compress(ANSWER))),
        ("gzip", ANSWER),
        ("gzip", gzip.compress(ANSWER)[:-20]),
    ],
    ids=["another", "twice", "not at all", "in part"],
)
async def test_what_cannot_be_decompressed_is_the_endpoints_fault(told: tuple[str, bytes]) -> None:
    parts = [http.whole(200, told[1], {"content-encoding": told[0]})]
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        with pytest.raises(httpx.HTTPStatusError if told[0] != "gzip" else httpx.HTTPError):
            (await there.ask()).raise_for_status()
        async with Chat(base_url, "m", None, sleep=lambda _: asyncio.sleep(0)) as chat:
            with pytest.raises(ModelError):
                await chat.complete((Message("user", "a"),), [], 9)
    assert [one.estimated for one in there.receipts] == [True] and "lost" in there.proxy_endpoint.fault


async def test_a_stream_that_breaks_after_its_end_is_booked_once() -> None:
    ending = (
        b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": %s}\n\ndata: [DONE]\n\n'
    )
    usage = b'{"prompt_tokens": 5, "completion_tokens": 2}'
    async with raw_endpoint([stream_head(), http.chunk(ending % usage)]) as base_url, opened(base_url) as there:
        with pytest.raises(httpx.HTTPError):
            await there.ask(stream=True, **counted(CHAT))
        await until(lambda: not there.proxy_endpoint._talks or bool(there.receipts))
    assert [(one.usage.output_tokens, one.estimated) for one in there.receipts] == [(2, False)]
    assert (there.proxy_endpoint.meter.under_way, there.proxy_endpoint.meter.budget.held_usd) == (0, 0)


# What an endpoint says that it used


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_words_without_a_token_count_as_no_usage(api: Api, streamed: bool) -> None:
    reply = ScriptedReply("Forty words for nothing.", usage=Usage(input_tokens=200, output_tokens=0))
    with ScriptedEndpoint([reply]) as endpoint:
        async with opened(endpoint.base_url) as there:
            assert (await there.ask(api, stream=streamed)).status_code == 200
            (held,) = [line for line in read(there.trajectory) if isinstance(line, ReservedCall)]
    assert [(one.estimated, one.cost_usd) for one in there.receipts] == [(True, held.held_usd)]


async def test_words_without_a_token_count_as_no_usage_for_a_client() -> None:
    with ScriptedEndpoint([ScriptedReply("a", usage=Usage(input_tokens=200, output_tokens=0))]) as endpoint:
        async with Chat(endpoint.base_url, "m", None) as chat:
            assert (await chat.complete((Message("user", "a"),), [], 9)).usage is None


async def test_a_call_that_uses_more_than_it_was_asked_for_is_booked_in_full_and_is_the_last() -> None:
    """Nobody here can keep an endpoint to max_tokens; what is held is what it was asked for."""
    price = Price(input=Decimal(3), output=Decimal(15))
    used = Usage(input_tokens=20, output_tokens=1_000_000)
    replies = [ScriptedReply("a", usage=Usage(input_tokens=20, output_tokens=9)), ScriptedReply("a", usage=used)]
    with ScriptedEndpoint([*replies, replies[0]]) as endpoint:
        async with opened(endpoint.base_url, cap_usd="0.50", price=price) as there:
            for _ in range(2):
                assert (await there.ask()).status_code == 200
            with pytest.raises(httpx.ReadTimeout):
                await there.client.post("/v1/chat/completions", json=request(), timeout=0.3)
            calls = [line for line in read(there.trajectory) if isinstance(line, BilledCall)]
            held = [line.held_usd for line in read(there.trajectory) if isinstance(line, ReservedCall)]
        assert endpoint.served == 2
        assert all(int(str(asked.content["max_tokens"])) <= 2000 for asked in endpoint.requests)
    assert there.receipts[1].cost_usd == price.cost(used) > Decimal("15")
    assert [line.over_usd for line in calls] == [None, price.cost(used) - held[1]]
    (stop,) = [event for event in there.told if event["kind"] == "stop"]
    assert stop["stop"] == "cap_usd" and "more tokens than its endpoint was asked for" in str(stop["detail"])
