"""The stand-in, as any client sees it: three protocols over real HTTP, whole and streamed."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.models.chat import ToolCall
from scrout.models.scripted import (
    Cut,
    Drip,
    ErrorBody,
    Reset,
    Restart,
    ScriptedEndpoint,
    ScriptedReply,
    ScriptedRequest,
    Stall,
    Status,
    Truncated,
)
from scrout.money import Usage

CHAT = {"model": "toy", "messages": [{"role": "user", "content": "hello"}]}
ASKS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": "toy", "input": "hello"},
    "/v1/messages": CHAT | {"max_tokens": 100},
}
USAGE = Usage(input_tokens=70, cache_read_tokens=20, cache_write_tokens=10, output_tokens=5)
CALL = ToolCall("c1", "bash", '{"command": "ls -la in some longer folder"}')
REPLY = ScriptedReply("Some text that takes a few pieces.", (CALL,), USAGE, reasoning="Thoughts come before the text.")

anywhere = pytest.mark.parametrize("path", list(ASKS))


class Script:
    """Says what it is told to say next."""

    reply = REPLY

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        return self.reply


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def client(script: Script) -> Iterator[httpx.Client]:
    with (
        ScriptedEndpoint(script, models=("toy", "other")) as endpoint,
        httpx.Client(base_url=endpoint.base_url.removesuffix("/v1"), verify=False, timeout=5) as client,
    ):
        yield client


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    """Names and data of a stream's events."""
    assert response.headers["content-type"] == "text/event-stream"
    found = []
    for block in response.text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        data = fields["data"]
        found.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return found


# Each puts a stream together again, to what the protocol says that the whole reply is.


def chat(stream: list[tuple[str, Any]]) -> Any:
    assert stream.pop() == ("", "[DONE]")
    *chunks, last = [data for _, data in stream]
    assert last["choices"] == []
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    finished = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert finished[:-1] == [None] * (len(chunks) - 1)
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk" and chunk["usage"] is None
        delta = chunk["choices"][0]["delta"]
        for key in ("content", "reasoning_content"):
            if key in delta:
                message[key] = message.get(key, "") + delta[key]
        for part in delta.get("tool_calls", ()):
            calls = message.setdefault("tool_calls", [])
            if "id" in part:
                calls.append({key: part[key] for key in ("id", "type", "function")})
            else:
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    message["content"] = message["content"] or None
    whole = {key: last[key] for key in ("id", "created", "model")} | {"object": "chat.completion"}
    usage = {"usage": last["usage"]} if last["usage"] else {}
    return whole | {"choices": [{"index": 0, "message": message, "finish_reason": finished[-1]}]} | usage


def responses(stream: list[tuple[str, Any]]) -> Any:
    assert [name for name, _ in stream[:2]] == ["response.created", "response.in_progress"]
    assert [data["sequence_number"] for _, data in stream] == list(range(len(stream)))
    output: list[Any] = []
    said = ""
    for name, data in stream[2:-1]:
        assert name == data["type"]
        if name == "response.output_item.added":
            assert data["output_index"] == len(output)
            said = ""
        elif name.endswith(".delta"):
            said += data["delta"]
        elif name.endswith((".output_text.done", "_summary_text.done")):
            assert data["text"] == said
        elif name == "response.function_call_arguments.done":
            assert data["arguments"] == said
        elif name == "response.output_item.done":
            output.append(data["item"])
    name, data = stream[-1]
    assert name == f"response.{data['response']['status']}" and data["response"]["output"] == output
    return data["response"]


def messages(stream: list[tuple[str, Any]]) -> Any:
    assert all(name == data["type"] for name, data in stream)
    assert [name for name, _ in stream[-2:]] == ["message_delta", "message_stop"]
    whole = stream[0][1]["message"]
    arguments = ""
    for name, data in stream[1:-2]:
        if name == "content_block_start":
            assert data["index"] == len(whole["content"])
            whole["content"].append(data["content_block"])
            arguments = ""
        elif name == "content_block_delta":
            block, delta = whole["content"][data["index"]], data["delta"]
            if delta["type"] == "input_json_delta":
                arguments += delta["partial_json"]
            else:
                key = delta["type"].removesuffix("_delta")
                block[key] += delta[key]
        elif whole["content"][-1]["type"] == "tool_use":
            whole["content"][-1]["input"] = json.loads(arguments)
    end = stream[-2][1]
    return whole | end["delta"] | {"usage": whole["usage"] | end["usage"]}


ASSEMBLE: dict[str, Callable[[list[tuple[str, Any]]], Any]] = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/messages": messages,
}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
REPLIES = st.builds(
    ScriptedReply,
    text=st.text(max_size=80),
    calls=st.lists(
        st.builds(
            ToolCall, st.text("abc", min_size=1), st.text("xyz", min_size=1), st.just('{"command": "ls é 漢字"}')
        ),
        max_size=2,
    ).map(tuple),
    usage=st.none() | st.just(USAGE),
    finish_reason=st.sampled_from(["", "length"]),
    reasoning=st.text(max_size=50),
)


@given(reply=REPLIES, path=st.sampled_from(list(ASKS)))
def test_a_stream_adds_up_to_the_whole_reply(
    client: httpx.Client, script: Script, reply: ScriptedReply, path: str
) -> None:
    script.reply = reply
    whole = client.post(path, json=ASKS[path])
    streamed = client.post(path, json=ASKS[path] | STREAM)
    assert ASSEMBLE[path](events(streamed)) == whole.json()


def test_usage_as_each_protocol_gives_it(client: httpx.Client, script: Script) -> None:
    script.reply = REPLY
    usage = {path: client.post(path, json=ask).json()["usage"] for path, ask in ASKS.items()}
    assert usage["/v1/chat/completions"]["prompt_tokens"] == usage["/v1/responses"]["input_tokens"] == 100
    assert usage["/v1/chat/completions"]["prompt_tokens_details"] == {"cached_tokens": 20}
    assert usage["/v1/messages"] == {
        "input_tokens": 70,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 10,
        "output_tokens": 5,
    }


def test_a_streamed_chat_counts_only_when_asked(client: httpx.Client, script: Script) -> None:
    script.reply = REPLY
    stream = events(client.post("/v1/chat/completions", json=CHAT | {"stream": True}))
    assert not any("usage" in data for _, data in stream[:-1])


@anywhere
@pytest.mark.parametrize("stream", [True, False])
def test_a_stall_is_passed_and_a_drip_is_whole(client: httpx.Client, script: Script, path: str, stream: bool) -> None:
    ask = ASKS[path] | {"stream": stream}
    script.reply = ScriptedReply("hi")
    plain = client.post(path, json=ask)
    for fault in (Stall(0.05), Drip(0)):
        script.reply = ScriptedReply("hi", fault=fault)
        assert client.post(path, json=ask).text == plain.text


@anywhere
@pytest.mark.parametrize("stream", [True, False])
def test_a_stream_that_hangs_or_breaks_in_the_middle(
    client: httpx.Client, script: Script, path: str, stream: bool
) -> None:
    ask = ASKS[path] | {"stream": stream}
    for fault, error in (
        (Stall(30), httpx.ReadTimeout),
        (Cut(), httpx.RemoteProtocolError),
        (Reset(), httpx.ReadError),
    ):
        script.reply = ScriptedReply("x" * 300, fault=fault)
        with pytest.raises(error), client.stream("POST", path, json=ask, timeout=0.2) as response:
            if not isinstance(fault, Reset):
                assert response.status_code == 200
            response.read()


@anywhere
def test_json_that_ends_in_the_middle(client: httpx.Client, script: Script, path: str) -> None:
    script.reply = ScriptedReply("x" * 300, fault=Truncated())
    with pytest.raises(ValueError):
        client.post(path, json=ASKS[path]).json()
    streamed = client.post(path, json=ASKS[path] | STREAM).text
    with pytest.raises(ValueError):
        json.loads(streamed.rpartition("data: ")[2])


@anywhere
def test_errors_in_each_protocols_form(client: httpx.Client, script: Script, path: str) -> None:
    script.reply = ScriptedReply(fault=Status(418, {"X-Why": "tea"}, "no coffee"))
    refused = client.post(path, json=ASKS[path] | STREAM)
    assert (refused.status_code, refused.headers["x-why"]) == (418, "tea")
    script.reply = ScriptedReply(fault=ErrorBody("no coffee"))
    plain, streamed = client.post(path, json=ASKS[path]), client.post(path, json=ASKS[path] | STREAM)
    assert plain.status_code == streamed.status_code == 200
    for error in (refused.json(), plain.json(), events(streamed)[0][1]):
        assert error["error"]["message"] == "no coffee"
        assert (error.get("type") == "error") == (path == "/v1/messages")


@anywhere
def test_a_request_that_lacks_something_is_refused(client: httpx.Client, path: str) -> None:
    for key in ASKS[path]:
        without = {name: value for name, value in ASKS[path].items() if name != key}
        assert client.post(path, json=without).status_code == 400
    assert client.post(path, content="{").status_code == 400


def test_models_tokens_and_other_paths(client: httpx.Client) -> None:
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["toy", "other"]
    counts = [
        client.post("/tokenize", json=CHAT | more).json()["count"] for more in ({}, {}, {"tools": [{"x": "y" * 40}]})
    ]
    assert 0 < counts[0] == counts[1] < counts[2] - 10
    assert client.get("/v1/chat/completions").status_code == client.post("/v1/nothing").status_code == 404


def test_a_script_that_raises_is_shown_to_the_client() -> None:
    def broken(request: ScriptedRequest) -> ScriptedReply:
        raise KeyError("turn 7")

    with ScriptedEndpoint(broken) as endpoint:
        answer = httpx.post(f"{endpoint.base_url}/chat/completions", json=CHAT, verify=False)
    assert answer.status_code == 500 and "KeyError('turn 7')" in answer.text


def test_what_was_asked_is_kept_unless_told_otherwise() -> None:
    for keep in (True, False):
        with ScriptedEndpoint([REPLY] * 2, keep=keep) as endpoint:
            for _ in range(2):
                httpx.post(f"{endpoint.base_url}/chat/completions", json=CHAT, verify=False)
        assert (endpoint.served, len(endpoint.requests)) == (2, 2 if keep else 0)
        assert all(request.content == CHAT for request in endpoint.requests)


@pytest.mark.slow
def test_a_restart_closes_the_port_and_opens_it_again() -> None:
    with ScriptedEndpoint([ScriptedReply(fault=Restart(0.3)), REPLY]) as endpoint:
        url = f"{endpoint.base_url}/chat/completions"
        with pytest.raises(httpx.NetworkError):
            httpx.post(url, json=CHAT, verify=False)
        with pytest.raises(httpx.ConnectError):
            httpx.post(url, json=CHAT, verify=False)
        time.sleep(0.6)
        assert httpx.post(url, json=CHAT, verify=False).status_code == 200


def test_leaving_in_the_midst_of_a_restart() -> None:
    with ScriptedEndpoint([ScriptedReply(fault=Restart(60))]) as endpoint, pytest.raises(httpx.NetworkError):
        httpx.post(f"{endpoint.base_url}/chat/completions", json=CHAT, verify=False)


@pytest.mark.parametrize(
    "head", [b"nonsense\r\n\r\n", b"x" * 100_000, b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"]
)
def test_what_is_no_request_hurts_nobody(client: httpx.Client, script: Script, head: bytes) -> None:
    host, port = client.base_url.host, client.base_url.port
    assert port is not None
    with socket.create_connection((host, port)) as connection:
        connection.sendall(head)
    script.reply = REPLY
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
