"""The three APIs as the meter reads them: limits, what cannot be counted, and streams in whatever pieces they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.models.chat import ToolCall
from scrout.models.proxy.apis import (
    APIS,
    CHAT,
    MESSAGES,
    MIN_THINKING_TOKENS,
    RESPONSES,
    AnswerReader,
    Api,
    Json,
    Stream,
    answers,
    canonical,
    is_cut,
    parse_request,
    pictures,
    read_whole,
    tool_references,
    without_cache_control,
)
from scrout.models.proxy.usage import believable
from scrout.models.scripted.protocols import PROTOCOLS
from scrout.models.scripted.script import ScriptedReply, ScriptedRequest
from scrout.money import Usage
from scrout.trajectory import ApiName

ALL = list(APIS.values())
REPLY = ScriptedReply(
    text="The loop ends one item early. " * 3,
    reasoning="Look at the bounds first, then at the callers. " * 2,
    calls=(ToolCall("c1", "bash", '{"command": "ls -l"}'), ToolCall("c2", "bash", '{"command": "cat a"}')),
    usage=Usage(input_tokens=70, cache_read_tokens=30, output_tokens=9, reasoning_tokens=4),
)


def request(**more: JsonValue) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi", "max_tokens": 9, **more}


def asked(**more: JsonValue) -> ScriptedRequest:
    return ScriptedRequest("", {}, json.dumps(request(**more)))


def events(api: Api, reply: ScriptedReply = REPLY, newline: str = "\n", **more: JsonValue) -> bytes:
    sent = "".join(PROTOCOLS[f"/v1/{api.path}"].events(reply, asked(stream=True, **more)))
    return sent.replace("\n", newline).encode()


def whole(api: Api, reply: ScriptedReply = REPLY) -> bytes:
    return json.dumps(PROTOCOLS[f"/v1/{api.path}"].whole(reply, asked())).encode()


def facts(said: AnswerReader) -> tuple[object, ...]:
    """All that it says, whatever pieces it came in."""
    return said.text, said.reasoning, said.calls, said.finish, said.usage, said.error, said.ended


# Limits


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
def test_a_limit_is_read_lowered_and_set(api: Api) -> None:
    key = api.limits[0]
    assert api.limit({key: 700}) == 700
    assert api.limited({"a": 1, key: 700}, 600) == {"a": 1, key: 600}
    assert api.limited({"a": 1}, 600) == {"a": 1, key: 600}
    assert api.limit({}) is None


def test_of_two_limits_the_larger_counts_and_both_are_lowered() -> None:
    both: Json = {"max_tokens": 10, "max_completion_tokens": 100_000}
    assert CHAT.limit(both) == 100_000
    assert CHAT.limited(both, 500) == {"max_tokens": 500, "max_completion_tokens": 500}


def test_a_limit_under_its_other_name_keeps_that_name() -> None:
    assert CHAT.limited({"max_completion_tokens": 900}, 500) == {"max_completion_tokens": 500}
    assert CHAT.limited({}, 500, "max_completion_tokens") == {"max_completion_tokens": 500}


@pytest.mark.parametrize("odd", [0, -1, "100", 1e5, True, [], 10**12])
def test_a_limit_that_is_no_number_of_tokens_is_none_and_is_replaced(odd: JsonValue) -> None:
    assert CHAT.limit({"max_tokens": odd, "max_completion_tokens": 5}) is None
    assert CHAT.limited({"max_tokens": odd}, 500) == {"max_tokens": 500}


def test_a_budget_for_thinking_beyond_the_limit_is_what_is_asked_for() -> None:
    assert MESSAGES.limit({"max_tokens": 900, "thinking": {"type": "enabled", "budget_tokens": 60_000}}) == 60_000
    assert MESSAGES.limit({"max_tokens": 900, "thinking": {"type": "enabled", "budget_tokens": "60_000"}}) is None
    assert MESSAGES.limit({"max_tokens": 900, "thinking": {"type": "adaptive"}}) == 900


@given(st.integers(1, 100_000), st.integers(MIN_THINKING_TOKENS, 100_000))
def test_a_budget_for_thinking_stays_one_that_the_api_takes(tokens: int, budget: int) -> None:
    lowered = MESSAGES.limited(
        {"max_tokens": 200_000, "thinking": {"type": "enabled", "budget_tokens": budget}}, tokens
    )
    thinking = lowered["thinking"]
    assert isinstance(thinking, dict)
    if thinking["type"] == "disabled":
        assert tokens <= MIN_THINKING_TOKENS and "budget_tokens" not in thinking
        return
    kept = thinking["budget_tokens"]
    assert isinstance(kept, int) and MIN_THINKING_TOKENS <= kept < tokens
    assert kept == budget or budget >= tokens


# What cannot be counted


def test_how_many_answers_are_asked_for() -> None:
    assert [answers({}), answers({"n": 7}), answers({"n": None}), answers({"n": True})] == [1, 7, 1, 0]


@pytest.mark.parametrize(
    ("turn", "count"),
    [
        ("text", 0),
        ({"role": "user", "content": "an image_url in words"}, 0),
        ({"role": "user", "content": [{"type": "text", "text": "file"}]}, 0),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}] * 2}, 2),
        ({"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image", "source": {}}]}]}, 1),
        ({"type": "function_call_output", "output": [{"type": "input_image", "image_url": "data:"}]}, 1),
        ({"role": "assistant", "content": [{"type": "tool_use", "input": {"type": "document", "file": "a"}}]}, 0),
    ],
)
def test_pictures_are_found(turn: JsonValue, count: int) -> None:
    assert pictures(turn) == count


def test_names_that_stand_for_tools_are_found() -> None:
    named: Json = {"type": "tool_reference", "tool_name": "a"}
    result: Json = {"type": "tool_result", "tool_use_id": "1", "content": [named, {"type": "text", "text": "b"}, named]}
    assert tool_references({"role": "user", "content": [result, {"type": "text", "text": "c"}]}) == 2
    assert tool_references({"role": "assistant", "content": [{"type": "tool_use", "input": {"content": [named]}}]}) == 0


@pytest.mark.parametrize(
    ("request_", "cut"),
    [
        ({}, False),
        ({"truncation": "disabled"}, False),
        ({"truncation": "auto"}, True),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}, False),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, True),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919", "keep": "all"}]}}, True),
    ],
)
def test_what_lets_an_endpoint_cut_a_prompt_is_known(request_: Json, cut: bool) -> None:
    assert is_cut(request_) is cut


def test_marks_for_a_prompt_cache_are_no_part_of_what_is_said() -> None:
    mark: Json = {"cache_control": {"type": "ephemeral"}}
    called: Json = {"type": "tool_use", "id": "1", "name": "a", "input": mark}
    result: Json = {
        "type": "tool_result",
        "tool_use_id": "1",
        "content": [{"type": "text", "text": "b", **mark}],
        **mark,
    }
    assert without_cache_control({"role": "user", "content": [called, result], **mark}) == {
        "role": "user",
        "content": [called, {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "b"}]}],
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"a": NaN}',
        b'{"model": "cheap", "model": "dear"}',
        b'{"model": "dear", "mod\\u0065l": "cheap"}',
        b'{"messages": [{"content": "a", "content": "b"}]}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": 1e999}',
        b'{"a": [-1e999]}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-16-le"),
        '{"a": 1}'.encode("utf-32"),
        b'{"a": "\xff"}',
        b'{"a": "\xc0\xaf"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": {"\\ud800": 1, "?": 2}}',
        b'{"a": 1} {"b": 2}',
    ],
)
def test_a_body_that_two_servers_may_read_differently_is_none(body: bytes) -> None:
    assert parse_request(body) is None


SPOKEN: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), SPOKEN, max_size=4), st.booleans())
def test_what_is_written_anew_says_what_was_read(request_: Json, ascii_alone: bool) -> None:
    read = parse_request(json.dumps(request_, ensure_ascii=ascii_alone, indent=2).encode())
    assert read == request_
    assert canonical(read) == canonical(parse_request(canonical(read)) or {}) and json.loads(canonical(read)) == read


@pytest.mark.parametrize(
    ("body", "text"),
    [(b'{"a": "x\\ud800y"}', "x?y"), (b'{"a": "\\ud83d\\ude00"}', "\U0001f600"), (b'{"a": "\\\\ud800"}', "\\ud800")],
)
def test_half_a_character_is_replaced_before_anything_is_checked(body: bytes, text: str) -> None:
    assert parse_request(body) == {"a": text}


# Answers


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
def test_a_stream_says_what_a_whole_answer_says(api: Api) -> None:
    streamed, plain = AnswerReader(), AnswerReader()
    Stream(api, streamed, drop_usage=False).feed(events(api, stream_options={"include_usage": True}))
    read_whole(api, whole(api), plain)
    assert facts(streamed) == facts(plain)
    assert (plain.text, plain.reasoning) == (REPLY.text, REPLY.reasoning)
    assert [json.loads(str(call["arguments"])) for call in plain.calls] == [{"command": "ls -l"}, {"command": "cat a"}]
    assert [call["id"] for call in plain.calls] == ["c1", "c2"]
    assert plain.ended and plain.finish


def test_an_answer_that_begins_with_a_mark_of_its_encoding_is_read() -> None:
    said = AnswerReader()
    read_whole(CHAT, b"\xef\xbb\xbf" + whole(CHAT), said)
    assert said.text == REPLY.text and said.usage == REPLY.usage


def test_equal_traffic_has_equal_usage_but_for_reasoning_that_messages_counts_as_output() -> None:
    found = {}
    for api in ALL:
        said = AnswerReader()
        read_whole(api, whole(api), said)
        found[api.name] = said.usage
    assert found["chat"] == found["responses"] == REPLY.usage
    assert found["messages"] == Usage(input_tokens=70, cache_read_tokens=30, output_tokens=13)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in pairwise(edges))


@given(
    st.sampled_from(ALL),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(0, 10**6), max_size=30),
    st.integers(0, 10**6) | st.none(),
)
def test_a_stream_passes_byte_for_byte_in_whatever_pieces(
    api: Api, newline: str, counted: bool, cuts: list[int], end: int | None
) -> None:
    """Whole or cut off anywhere; and what it says does not depend on the pieces."""
    sent = events(api, newline=newline, **({"stream_options": {"include_usage": True}} if counted else {}))
    sent = sent if end is None else sent[: end % len(sent)]
    apart, at_once = AnswerReader(), AnswerReader()
    stream = Stream(api, apart, drop_usage=False)
    assert b"".join(map(stream.feed, pieces(sent, cuts))) + stream.flush() == sent
    once = Stream(api, at_once, drop_usage=False)
    once.feed(sent)
    once.flush()
    assert facts(apart) == facts(at_once)


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 10**6), max_size=30))
def test_usage_that_nobody_asked_for_is_dropped_and_nothing_else(newline: str, cuts: list[int]) -> None:
    sent = events(CHAT, newline=newline, stream_options={"include_usage": True})
    blank = newline * 2
    kept = [event for event in sent.decode().split(blank) if '"choices": []' not in event]
    assert len(kept) == len(sent.decode().split(blank)) - 1
    said = AnswerReader()
    stream = Stream(CHAT, said, drop_usage=True)
    assert b"".join(map(stream.feed, pieces(sent, cuts))) + stream.flush() == blank.join(kept).encode()
    assert said.usage == REPLY.usage


def test_a_chunk_without_choices_that_is_no_usage_stays() -> None:
    filtered = b'data: {"choices": [], "prompt_filter_results": [], "usage": null}\n\n'
    assert Stream(CHAT, AnswerReader(), drop_usage=True).feed(filtered) == filtered


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
@pytest.mark.parametrize("event", [{"error": {"message": "overloaded"}}, {"error": "overloaded"}], ids=str)
def test_an_error_in_a_stream_is_heard_in_every_api(api: Api, event: Json) -> None:
    said = AnswerReader()
    Stream(api, said, drop_usage=False).feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert said.error == "overloaded"


def _nested(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    keys = st.sampled_from(["message", "usage", "tool_calls", "index", "function", "text", "input", "content", "type"])
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)


@given(st.sampled_from(ALL), st.recursive(st.none() | st.integers() | st.text(max_size=5), _nested, max_leaves=20))
def test_no_answer_of_whatever_form_raises(api: Api, value: JsonValue) -> None:
    keys = ("choices", "usage", "message", "delta", "response", "content", "output", "error", "type", "content_block")
    for key in keys:
        for kind in ("message_start", "message_delta", "content_block_start", "response.completed", "error", "x"):
            body = json.dumps({"type": kind, key: value}).encode()
            read_whole(api, body, AnswerReader())
            Stream(api, AnswerReader(), drop_usage=True).feed(b"data: " + body + b"\n\n")


def test_bounds_of_the_responses_api_are_its_own() -> None:
    assert RESPONSES.limit({"max_tokens": 5}) is None


NO_TOKENS: dict[ApiName, Json] = {
    "chat": {"prompt_tokens": 9, "completion_tokens": 0},
    "responses": {"input_tokens": 9, "output_tokens": 0},
    "messages": {"input_tokens": 9, "output_tokens": 0},
}
WRITTEN: list[tuple[Api, Json]] = [
    (CHAT, {"function_call": {"name": "f", "arguments": "{}"}}),
    (CHAT, {"refusal": "I will not do that."}),
    (CHAT, {"reasoning_details": [{"type": "reasoning.text", "text": "First"}]}),
    (CHAT, {"audio": {"transcript": "Hello"}}),
    (RESPONSES, {"type": "reasoning", "encrypted_content": "gAAAA"}),
    (RESPONSES, {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}),
    (MESSAGES, {"type": "redacted_thinking", "data": "gAAAA"}),
    (MESSAGES, {"type": "a_block_of_next_year", "content": "Hello"}),
]
NOTHING_WRITTEN: list[tuple[Api, Json]] = [
    (CHAT, {"role": "assistant", "content": "", "refusal": None, "annotations": [], "tool_calls": []}),
    (MESSAGES, {"type": "text", "text": "", "citations": None}),
]


def _answer_with(api: Api, part: Json) -> bytes:
    around: dict[ApiName, Json] = {
        "chat": {"choices": [{"finish_reason": "stop", "message": part}]},
        "responses": {"output": [part], "status": "completed"},
        "messages": {"content": [part], "stop_reason": "end_turn"},
    }
    return json.dumps({**around[api.name], "usage": NO_TOKENS[api.name]}).encode()


@pytest.mark.parametrize(("api", "part"), WRITTEN)
def test_no_answer_of_any_form_has_no_tokens(api: Api, part: Json) -> None:
    """Or an endpoint could write all that it likes in a form that is not read here, and report nothing."""
    said = AnswerReader()
    read_whole(api, _answer_with(api, part), said)
    assert said.usage is not None and said.wrote and believable(said.usage, wrote=said.wrote) is None


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        (CHAT, {"choices": [{"text": "Hello", "finish_reason": "stop"}]}),
        (CHAT, {"choices": [{"message": "Hello"}]}),
        (CHAT, {"choices": {"0": {"message": {"content": "Hello"}}}}),
        (CHAT, {"choices": ["Hello"]}),
        (CHAT, {"choices": [], "output_text": "Hello"}),
        (RESPONSES, {"status": "completed", "output": [], "output_text": "Hello"}),
        (MESSAGES, {"content": "Hello", "stop_reason": "end_turn"}),
        (MESSAGES, {"content": ["Hello"], "stop_reason": "end_turn"}),
        (MESSAGES, {"completion": "Hello", "stop_reason": "end_turn"}),
    ],
)
def test_no_answer_around_its_parts_has_no_tokens(api: Api, answer: Json) -> None:
    body = json.dumps({**answer, "usage": NO_TOKENS[api.name]}).encode()
    said = AnswerReader()
    read_whole(api, body, said)
    assert said.usage is not None and believable(said.usage, wrote=said.wrote) is None
    if api is CHAT:
        said = AnswerReader()
        Stream(api, said, drop_usage=False).feed(b"data: " + body.replace(b"message", b"delta") + b"\n\n")
        assert said.usage is not None and believable(said.usage, wrote=said.wrote) is None


END_OF_STREAM: dict[ApiName, list[Json]] = {
    "chat": [{"choices": [], "usage": NO_TOKENS["chat"]}],
    "responses": [
        {"type": "response.completed", "response": {"status": "completed", "usage": NO_TOKENS["responses"]}},
    ],
    "messages": [
        {"type": "message_start", "message": {"usage": NO_TOKENS["messages"]}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}},
        {"type": "message_stop"},
    ],
}


def _streamed(api: Api, *events: bytes) -> AnswerReader:
    said = AnswerReader()
    stream = Stream(api, said, drop_usage=False)
    for event in (*events, *(json.dumps(event).encode() for event in END_OF_STREAM[api.name])):
        stream.feed(b"data: " + event + b"\n\n")
    return said


@pytest.mark.parametrize(
    ("api", "event"),
    [
        (CHAT, b'"Hello"'),
        (CHAT, b"Hello"),
        (CHAT, b'[{"choices": [{"delta": {"content": "Hello"}}]}]'),
        (CHAT, b'{"choices": [{"delta": {"content": "Hello"}}], "id": [' + b"0," * 1_000_000 + b"0]}"),
        (CHAT, b'{"choices": [{"delta": {"content": "Hello"}}], "id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        (CHAT, b'{"choices": [{"logprobs": {"content": [{"token": "Hello"}]}}]}'),
        (CHAT, b'{"choices": [{"token_ids": [9, 10]}]}'),
        (RESPONSES, b'{"type": "response.output_item.done", "item": {"content": [{"text": "Hello"}]}}'),
        (RESPONSES, b'{"type": "response.output_text.done", "text": "Hello"}'),
        (RESPONSES, b'{"text": "Hello"}'),
        (MESSAGES, b'{"type": "message_start", "message": {"content": [{"type": "text", "text": "Hello"}]}}'),
        (MESSAGES, b'{"type": "completion", "completion": "Hello"}'),
        (MESSAGES, b'{"type": "message_delta", "delta": {"text": "Hello"}}'),
        (MESSAGES, b'{"type": "content_block_start", "text": "Hello"}'),
        (MESSAGES, b'{"type": "message_stop", "text": "Hello"}'),
    ],
    ids=lambda value: value[:60].decode() if isinstance(value, bytes) else value.name,
)
def test_no_event_of_a_stream_has_no_tokens(api: Api, event: bytes) -> None:
    said = _streamed(api, event)
    assert said.usage is not None and believable(said.usage, wrote=said.wrote) is None


@pytest.mark.parametrize(
    ("api", "event"),
    [
        (
            CHAT,
            {"id": "c-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}]},
        ),
        (
            RESPONSES,
            {
                "type": "response.created",
                "sequence_number": 1,
                "response": {"id": "r-1", "output": [], "text": {"format": {"type": "text"}, "verbosity": "medium"}},
            },
        ),
        (MESSAGES, {"type": "ping"}),
        (MESSAGES, {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
    ],
)
def test_a_stream_with_nothing_in_it_may_have_no_tokens(api: Api, event: Json) -> None:
    said = _streamed(api, json.dumps(event).encode())
    assert not said.wrote and said.usage is not None
    assert believable(said.usage, wrote=said.wrote) == said.usage


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES])
def test_words_beside_the_parts_of_an_answer_have_tokens(api: Api) -> None:
    said = AnswerReader()
    read_whole(api, json.dumps({"reply": "Hello", "usage": NO_TOKENS[api.name]}).encode(), said)
    assert said.usage is not None and believable(said.usage, wrote=said.wrote) is None


def test_words_about_an_error_are_no_answer() -> None:
    said = AnswerReader()
    read_whole(CHAT, b'{"error": {"message": "busy"}, "user_id": "u", "detail": "later"}', said)
    assert said.error == "busy" and not said.wrote


@pytest.mark.parametrize(("api", "part"), NOTHING_WRITTEN)
def test_an_answer_with_nothing_in_it_may_have_no_tokens(api: Api, part: Json) -> None:
    said = AnswerReader()
    read_whole(api, _answer_with(api, part), said)
    assert said.usage is not None and believable(said.usage, wrote=said.wrote) == said.usage


@pytest.mark.parametrize(
    "kind", ["output_text", "function_call_arguments", "reasoning_summary_text", "refusal", "next"]
)
def test_what_was_streamed_counts_as_written_though_the_end_leaves_it_out(kind: str) -> None:
    end: Json = {"status": "completed", "output": [], "usage": NO_TOKENS["responses"]}
    events: list[Json] = [
        {"type": f"response.{kind}.delta", "delta": "some of it"},
        {"type": "response.completed", "response": end},
    ]
    said = AnswerReader()
    stream = Stream(RESPONSES, said, drop_usage=False)
    for event in events:
        stream.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert said.ended and said.wrote


@pytest.mark.parametrize("block", [{"type": "redacted_thinking", "data": "gAAAA"}, {"type": "text", "text": ""}])
@pytest.mark.parametrize(
    "delta", [{"type": "signature_delta", "signature": "gAAAA"}, {"type": "text_delta", "text": ""}]
)
def test_blocks_of_a_stream_count_as_written_whatever_they_hold(block: Json, delta: Json) -> None:
    said = AnswerReader()
    stream = Stream(MESSAGES, said, drop_usage=False)
    for event in (
        {"type": "content_block_start", "content_block": block},
        {"type": "content_block_delta", "delta": delta},
    ):
        stream.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert said.wrote == ("data" in block or "signature" in delta)
