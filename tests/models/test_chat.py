"""The client against the scripted endpoint, over real HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.base import ModelError
from scrout.config.settings import Sampling
from scrout.models.chat import (
    MAX_ANSWER_BYTES,
    RETRY_S,
    STOP_HEADER,
    TRIES,
    CallRefused,
    Chat,
    Message,
    Reply,
    RequestRejected,
    Tool,
    ToolCall,
    message_json,
    secrets_of,
)
from scrout.models.chat_response import MAX_WAIT_S
from scrout.models.scripted import Hang, Reset, ScriptedEndpoint, ScriptedReply, ScriptedRequest, Status
from scrout.money import Usage

KEY = "sk-very-secret-0123456789"
HELLO = (Message("user", "hello"),)
TOOL = Tool("bash", "runs a command", {"type": "object"})

IN_TWO_DAYS = datetime.now(UTC) + timedelta(days=2)


class Naps:
    """A sleep that takes no time and remembers."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def ask(endpoint: ScriptedEndpoint, naps: Naps | None = None, timeout_s: float = 5) -> Reply:
    async with Chat(endpoint.base_url, "toy", KEY, timeout_s, sleep=naps or Naps()) as chat:
        return await chat.complete(HELLO, [TOOL], 100)


def answering(body: bytes, headers: dict[str, str] | None = None) -> Chat:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body, headers=headers))
    return Chat("http://toy.invalid/v1", "toy", KEY, transport=transport, sleep=Naps())


async def test_a_reply_with_text_and_disjoint_usage() -> None:
    script = [ScriptedReply("hi", usage=Usage(input_tokens=70, cache_read_tokens=30, output_tokens=5))]
    with ScriptedEndpoint(script) as endpoint:
        reply = await ask(endpoint)
    usage = Usage(input_tokens=70, cache_read_tokens=30, output_tokens=5)
    assert reply == Reply("hi", (), usage, "stop", "toy")
    sent = json.loads(endpoint.requests[0].body)
    assert sent["max_tokens"] == 100
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert sent["tools"][0]["function"]["name"] == "bash"
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_no_authorization_is_sent() -> None:
    with ScriptedEndpoint([ScriptedReply("hi")]) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            reply = await chat.complete(HELLO, [], 10)
    assert reply.usage is None
    assert "authorization" not in endpoint.requests[0].headers
    assert "tools" not in json.loads(endpoint.requests[0].body)


async def test_tool_calls_come_back_and_history_is_sent_in_a_form_endpoints_accept() -> None:
    good, bad = ToolCall("a", "bash", '{"command": "ls"}'), ToolCall("b", "no such.tool", '{"command": ')
    with ScriptedEndpoint([ScriptedReply(calls=(good, bad)), ScriptedReply("done")]) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            reply = await chat.complete(HELLO, [TOOL], 10)
            assert reply.calls == (good, bad)
            history = (*HELLO, Message("assistant", "", reply.calls), Message("tool", "x\ud800", call_id="a"))
            await chat.complete(history, [TOOL], 10)
    _, assistant, tool = json.loads(endpoint.requests[1].body)["messages"]
    functions = [call["function"] for call in assistant["tool_calls"]]
    assert functions[0] == {"name": "bash", "arguments": good.arguments}
    assert functions[1]["name"] == "no_such_tool"
    assert json.loads(functions[1]["arguments"]) == {"malformed": bad.arguments}
    assert tool == {"role": "tool", "content": "x?", "tool_call_id": "a"}


FREE = [Status(429), Status(500), Status(503)]
LOST = [Status(502), Status(504), Status(524), Reset()]


@pytest.mark.parametrize("fault", [*FREE, *LOST])
async def test_retries_are_bounded(fault: Status | Reset) -> None:
    naps = Naps()
    with (
        ScriptedEndpoint([ScriptedReply(fault=fault)] * 20) as endpoint,
        pytest.raises(ModelError, match=r"http://127\.0\.0\.1") as caught,
    ):
        await ask(endpoint, naps)
    assert len(endpoint.requests) == TRIES
    assert len(naps.seconds) == TRIES - 1
    assert isinstance(caught.value, RequestRejected) == (fault in FREE)


@pytest.mark.parametrize("error", [httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError, httpx.ConnectError])
@pytest.mark.parametrize("refused", [True, False])
async def test_a_try_that_the_meter_refuses_ends_it_by_the_failure_before(
    error: type[httpx.TransportError], refused: bool
) -> None:
    sent: list[httpx.Request] = []

    def fail(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if refused and len(sent) == 2:
            return httpx.Response(402, text="all 1 calls used", headers={STOP_HEADER: "cap_calls"})
        raise error("scripted")

    chat = Chat("http://toy.invalid/v1", "toy", KEY, transport=httpx.MockTransport(fail), sleep=Naps())
    with pytest.raises(ModelError, match=error.__name__) as caught:
        await chat.complete(HELLO, [], 10)
    assert isinstance(caught.value, RequestRejected) == (error is httpx.ConnectError)
    assert len(sent) == (2 if refused else TRIES)


async def test_what_the_meter_refuses_is_no_failure_of_the_endpoint() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(402, text="$0.01 left", headers={STOP_HEADER: "cap_usd"})

    chat = Chat("http://toy.invalid/v1", "toy", KEY, transport=httpx.MockTransport(refuse), sleep=Naps())
    with pytest.raises(CallRefused, match=r"\$0\.01 left") as caught:
        await chat.complete(HELLO, [], 10)
    assert caught.value.stop == "cap_usd"


async def test_extra_keys_are_sent_and_the_whole_answer_is_kept() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, content=b'{"choices": [{"message": {"content": "hi"}}], "mine": 1}')

    sent: list[dict[str, object]] = []
    chat = Chat("http://toy.invalid/v1", "toy", None, extra={"a": "b"}, transport=httpx.MockTransport(answer))
    reply = await chat.complete(HELLO, [], 10)
    assert sent[0]["a"] == "b" and json.loads(reply.answer)["mine"] == 1


@pytest.mark.parametrize("code", [302, 400, 401, 403, 404, 418])
async def test_what_cannot_pass_is_not_retried(code: int) -> None:
    naps = Naps()
    with (
        ScriptedEndpoint([ScriptedReply(fault=Status(code, message="no: " + KEY)), ScriptedReply("ok")]) as endpoint,
        pytest.raises(RequestRejected) as caught,
    ):
        await ask(endpoint, naps)
    assert len(endpoint.requests) == 1 and not naps.seconds
    assert f"status {code}" in str(caught.value) and "no: [key]" in str(caught.value)
    assert KEY not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        ("86400", MAX_WAIT_S, MAX_WAIT_S),
        pytest.param(
            format_datetime(datetime.now(UTC) + timedelta(days=2), usegmt=True), MAX_WAIT_S, MAX_WAIT_S, id="date"
        ),
        ("0", 0.5, 1),
        ("-5", 0.5, 1),
        ("nan", 0.5, 1),
        ("soon", 0.5, 1),
    ],
)
async def test_retry_after_is_honoured_and_capped(header: str, least: float, most: float) -> None:
    naps = Naps()
    script = [ScriptedReply(fault=Status(429, {"Retry-After": header})), ScriptedReply("ok")]
    with ScriptedEndpoint(script) as endpoint:
        await ask(endpoint, naps)
    assert len(naps.seconds) == 1 and least <= naps.seconds[0] <= most


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"[" * 10**5])
async def test_bodies_that_hold_no_reply(body: bytes) -> None:
    with pytest.raises(ModelError, match="status 200"):
        await answering(body).complete(HELLO, [], 10)


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(ModelError, match="longer than") as caught:
        await answering(b" " * (MAX_ANSWER_BYTES + 1)).complete(HELLO, [], 10)
    assert not isinstance(caught.value, RequestRejected)


async def test_a_broken_compression_is_an_endpoint_error() -> None:
    chat = answering(gzip.compress(b"{}")[:-9] + b"garbage..", {"content-encoding": "gzip"})
    with pytest.raises(ModelError):
        await chat.complete(HELLO, [], 10)


async def test_silence_after_thinking_is_a_reply() -> None:
    with ScriptedEndpoint([ScriptedReply("", usage=Usage(input_tokens=9, output_tokens=40))]) as endpoint:
        assert (await ask(endpoint)).text == ""


@pytest.mark.parametrize("key", ["", "sk-secret\nx", "sk-secret x", "sk-secré", "sk-secret\0"])
async def test_a_key_no_header_can_carry_is_named_but_not_shown(key: str) -> None:
    with ScriptedEndpoint([]) as endpoint, pytest.raises(RequestRejected, match="the key") as caught:
        async with Chat(endpoint.base_url, "toy", key) as chat:
            await chat.complete(HELLO, [], 10)
    assert "secr" not in str(caught.value)
    assert not endpoint.requests


@pytest.mark.parametrize(
    "url", ["", "localhost:8000/v1", "ftp://host/v1", "http://", "http://[::1/v1", "http://a:99999"]
)
async def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(RequestRejected, match="http"):
        await Chat(url, "toy", None, sleep=Naps()).complete(HELLO, [], 10)


async def test_secrets_in_a_base_url_are_sent_and_stay_out_of_messages() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(404, text=f"nothing at {request.url}"))
    chat = Chat("http://me:hunter2@toy.invalid/v1?token=hunter3", "toy", None, transport=transport)
    with pytest.raises(
        RequestRejected, match=r"nothing at http://.*toy\.invalid/v1/chat/completions\?token=\[key\]"
    ) as caught:
        await chat.complete(HELLO, [], 10)
    assert "hunter" not in str(caught.value)


def test_the_secrets_of_an_endpoint_are_its_key_and_what_its_url_carries() -> None:
    url = "https://token-as-user:hunter2@toy.invalid/v1?api-key=plain%2Bvalue%3Dof%2Bit&v=1"
    assert secrets_of(url, "key") == ("plain+value=of+it", "token-as-user", "hunter2", "key")
    assert secrets_of("http://[::1/v1", None) == ()


def test_a_message_for_a_template_has_its_arguments_parsed() -> None:
    calls = (ToolCall("a", "bash", '{"command": "ls"}'), ToolCall("b", "no such.tool", "[1"))
    wire, template = (message_json(Message("assistant", "", calls), parsed=parsed) for parsed in (False, True))
    decoded = json.loads(json.dumps(wire))
    for call in decoded["tool_calls"]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    assert template == decoded
    functions = [call["function"] for call in decoded["tool_calls"]]
    assert functions[1] == {"name": "no_such_tool", "arguments": {"malformed": "[1"}}


async def test_nobody_listens() -> None:
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{placeholder.getsockname()[1]}/v1"
        with pytest.raises(RequestRejected, match="Is it running"):
            async with Chat(url, "toy", KEY, sleep=Naps()) as chat:
                await chat.complete(HELLO, [], 10)


async def test_a_script_that_has_run_out_says_so() -> None:
    with ScriptedEndpoint([ScriptedReply("one")]) as endpoint:
        assert (await ask(endpoint)).text == "one"
        with pytest.raises(RequestRejected, match="script has 1 replies and this is request"):
            await ask(endpoint)


async def test_retries_never_eat_an_episode() -> None:
    naps = Naps()
    busy = ScriptedReply(fault=Status(503, {"Retry-After": "60"}))
    with ScriptedEndpoint([ScriptedReply("hi"), *[busy] * 20]) as endpoint:
        async with Chat(endpoint.base_url, "toy", KEY, sleep=naps) as chat:
            await chat.complete(HELLO, [], 10)
            with pytest.raises(RequestRejected, match="status 503"):
                await chat.complete(HELLO, [], 10)
    assert naps.seconds == [60] * 3 and sum(naps.seconds) <= RETRY_S


async def test_what_is_not_pinned_is_not_sent_and_what_is_goes_as_servers_take_it() -> None:
    plain = json.loads(Chat("http://toy.invalid/v1", "toy", None).encode(HELLO, [], 10))
    assert set(plain) == {"model", "messages", "max_tokens"}
    pinned = Sampling(temperature=0, top_k=-1, repetition_penalty=1.0, stop=("<|im_end|>",), seed=7)
    chat = Chat("http://toy.invalid/v1", "toy", None, sampling=pinned, cache_salt="task-1f")
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}}
    sent = json.loads(chat.encode(HELLO, [], 10, schema))
    assert {key: sent[key] for key in sent.keys() - plain.keys()} == {
        "temperature": 0,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "stop": ["<|im_end|>"],
        "seed": 7,
        "cache_salt": "task-1f",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": schema, "strict": True},
        },
    }


async def test_a_schema_reaches_the_endpoint() -> None:
    with ScriptedEndpoint([ScriptedReply("{}")]) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            await chat.complete(HELLO, [], 10, schema={"type": "object"})
    assert endpoint.requests[0].body.encode() == chat.encode(HELLO, [], 10, {"type": "object"})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("text", ["", "done"])
async def test_thoughts_that_the_endpoint_splits_off_are_kept(field: str, text: str) -> None:
    body = json.dumps({"choices": [{"message": {"content": text, field: "hm"}}]}).encode()
    reply = await answering(body).complete(HELLO, [], 10)
    assert (reply.text, reply.reasoning) == (text, "hm")


async def test_one_connection_serves_a_conversation_and_close_ends_it() -> None:
    with ScriptedEndpoint([ScriptedReply("hi")] * 6) as endpoint:
        chat = Chat(endpoint.base_url, "toy", None)
        for _ in range(5):
            await chat.complete(HELLO, [], 10)
        assert endpoint.connections == 1
        await chat.aclose()
        await chat.aclose()
        await chat.complete(HELLO, [], 10)
        assert endpoint.connections == 2
        await chat.aclose()


async def test_one_client_may_be_used_by_many_at_once() -> None:
    def echo(request: ScriptedRequest) -> ScriptedReply:
        return ScriptedReply(str(json.loads(request.body)["messages"][0]["content"]))

    with ScriptedEndpoint(echo) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            questions = [f"question {number}" for number in range(64)]
            replies = await asyncio.gather(*(chat.complete((Message("user", q),), [], 10) for q in questions))
    assert [reply.text for reply in replies] == questions


async def test_a_cancelled_call_leaves_the_client_usable() -> None:
    with ScriptedEndpoint([ScriptedReply("late", fault=Hang(60)), ScriptedReply("ok")]) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await chat.complete(HELLO, [], 10)
            assert (await chat.complete(HELLO, [], 10)).text == "ok"


async def test_leaving_the_endpoint_does_not_wait_for_a_hang() -> None:
    before = set(threading.enumerate())
    with ScriptedEndpoint([ScriptedReply("late", fault=Hang(60))]) as endpoint, pytest.raises(ModelError):
        await ask(endpoint, timeout_s=0.1)
    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
WIRE_USAGE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": st.integers(-5, 10**12) | JSON,
        "completion_tokens": st.integers(-5, 10**12) | JSON,
        "prompt_tokens_details": st.fixed_dictionaries({}, optional={"cached_tokens": st.integers(-5, 10**12) | JSON}),
    },
)


@given(usage=WIRE_USAGE | JSON)
def test_any_usage_is_a_sound_count_or_none(usage: object) -> None:
    body = json.dumps({"choices": [{"message": {"content": "x"}}], "usage": usage}).encode()
    counted = asyncio.run(answering(body).complete(HELLO, [], 10)).usage
    if counted is not None:
        assert isinstance(usage, dict)
        assert counted.input_tokens + counted.cache_read_tokens == int(usage["prompt_tokens"]) > 0
        assert counted.output_tokens == int(usage["completion_tokens"])


@given(message=JSON, choice=JSON)
def test_any_json_is_a_reply_or_a_model_error(message: object, choice: object) -> None:
    for body in ({"choices": [{"message": message}]}, {"choices": choice}, choice):
        try:
            asyncio.run(answering(json.dumps(body).encode()).complete(HELLO, [], 10))
        except ModelError as error:
            assert "toy.invalid" in str(error)


@pytest.mark.parametrize("effort", ["", "high"])
async def test_an_effort_is_sent_where_one_is_set(effort: str) -> None:
    with ScriptedEndpoint([ScriptedReply("hi")]) as endpoint:
        async with Chat(endpoint.base_url, "toy", None, effort=effort) as chat:
            await chat.complete(HELLO, [], 10)
    assert json.loads(endpoint.requests[0].body).get("reasoning_effort", "") == effort
