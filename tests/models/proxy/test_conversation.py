"""What a conversation may be made of: what real agents send passes, and what is to be had elsewhere does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.models.proxy.allowlist import refusal
from scrout.models.proxy.apis import APIS, CHAT, MESSAGES, RESPONSES, Api, Json
from scrout.models.proxy.conversation import unkept

ALL = list(APIS.values())
PNG = "iVBORw0KGgo="
DATA = f"data:image/png;base64,{PNG}"
ADDRESS = "https://example.org/a.png"
MARK: Json = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def why(api: Api, *turns: JsonValue, **more: JsonValue) -> str:
    return refusal(api, {"model": "m", api.turns: list(turns), **more})


def call(**more: JsonValue) -> Json:
    return {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}, **more}


def said(**more: JsonValue) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": [call()], **more}


# Entries as real agents send them.
SENT: dict[str, tuple[Api, list[JsonValue]]] = {
    "the built-in agent, opencode": (
        CHAT,
        [
            {"role": "system", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"}]},
            said(reasoning_content="hm"),
            {"role": "tool", "tool_call_id": "c1", "content": "c"},
        ],
    ),
    "an answer as OpenAI, vLLM and OpenRouter give it": (
        CHAT,
        [
            said(refusal=None, annotations=[], audio=None, function_call=None, reasoning=None),
            said(content="a", reasoning="b", reasoning_details=[{"type": "reasoning.text", "text": "b", "index": 0}]),
            {"role": "assistant", "tool_calls": [call(index=0, extra_content={"google": {"thought_signature": "x"}})]},
        ],
    ),
    "an answer as LiteLLM gives it, to mini-SWE-agent and aider": (
        CHAT,
        [
            {"role": "user", "content": [{"type": "text", "text": "a", **MARK}]},
            said(provider_specific_fields={"refusal": None}, images=[], thinking_blocks=[]),
            said(thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": "s"}]),
            {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": "b", **MARK},
            {"role": "assistant", "content": "", "function_call": {"name": "a", "arguments": "{}"}},
            {"role": "function", "name": "a", "content": "c"},
        ],
    ),
    "pictures in chat": (
        CHAT,
        [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA, "detail": "low"}}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": DATA}]},
        ],
    ),
    "Claude Code": (
        MESSAGES,
        [
            {"role": "user", "content": "a"},
            {"role": "system", "content": "b"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "text", "text": "c", "citations": None},
                    {
                        "type": "tool_use",
                        "id": "t",
                        "name": "Bash",
                        "input": {"url": ADDRESS},
                        "caller": {"type": "direct"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "d", "is_error": False, **MARK},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{"type": "tool_reference", "tool_name": "x"}],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [
                            {"type": "text", "text": "e"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        ],
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "f"},
                        "title": "g",
                    },
                    {"type": "text", "text": "h", "cache_control": {"type": "ephemeral"}},
                ],
            },
        ],
    ),
    "Codex": (
        RESPONSES,
        [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
            {"role": "user", "content": "b"},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_image", "image_url": DATA, "detail": "high"}],
            },
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "c"}], "content": None},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None, "content": None},
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "status": "completed",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "d", "annotations": [], "logprobs": []}],
            },
            {"type": "function_call", "id": "fc", "call_id": "c", "name": "shell", "arguments": "{}", "namespace": "n"},
            {"type": "function_call_output", "call_id": "c", "output": "e"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": DATA}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "f", "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "g"},
            {
                "type": "local_shell_call",
                "call_id": "c",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"]},
            },
            {"type": "local_shell_call_output", "call_id": "c", "output": "h"},
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "q"}},
            {
                "type": "tool_search_output",
                "call_id": "c",
                "execution": "client",
                "status": "completed",
                "tools": [{"type": "function", "name": "a", "parameters": {}, "defer_loading": True}],
            },
        ],
    ),
}


@pytest.mark.parametrize(("api", "turns"), SENT.values(), ids=SENT.keys())
def test_what_agents_say_passes(api: Api, turns: list[JsonValue]) -> None:
    assert [why(api, turn) for turn in turns] == [""] * len(turns)
    assert why(api, *turns) == ""


TEXT = "Send its text."
PICTURE = "Send the picture itself, as base64 data."
WHOLE = 'Send the whole conversation in each request, with "store": false.'


def user(*parts: JsonValue) -> Json:
    return {"role": "user", "content": list(parts)}


def result(part: JsonValue) -> Json:
    return user({"type": "tool_result", "tool_use_id": "t", "content": [part]})


BY_ADDRESS: Json = {"type": "image", "source": {"type": "url", "url": ADDRESS}}
BY_NAME: Json = {"type": "image", "source": {"type": "file", "file_id": "f"}}

# What an endpoint would get elsewhere, and what to send in its place.
FROM_ELSEWHERE: list[tuple[Api, JsonValue, str]] = [
    *(
        (CHAT, user({"type": "image_url", "image_url": image}), PICTURE)
        for image in (
            *(ADDRESS, {"url": ADDRESS}, {"url": "file:///etc/passwd"}, {"url": "gs://a/b"}, {"url": "//a/b"}),
            *({"url": f" {ADDRESS}"}, {"url": DATA, "file_id": "f"}, {"url": "data:text/html,<a>"}, {"url": [DATA]}),
            *({"url": f"{DATA}\x00{ADDRESS}"}, {"url": "DATA:application/pdf;base64,AA=="}, {"url": "sediment://f"}),
        )
    ),
    (CHAT, user({"image_url": {"url": ADDRESS}}), PICTURE),
    (CHAT, user({"type": "image_url", "image_url": {"url": DATA}, "url": ADDRESS}), PICTURE),
    (CHAT, user({"type": "file", "file": {"file_id": "f"}}), TEXT),
    (CHAT, user({"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}}), TEXT),
    (CHAT, user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}), TEXT),
    (CHAT, user({"type": "video_url", "video_url": {"url": ADDRESS}}), TEXT),
    (CHAT, {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": ADDRESS}]}, PICTURE),
    (CHAT, said(audio={"id": "audio_1"}), ""),
    (CHAT, said(images=[{"image_url": {"url": ADDRESS}}]), ""),
    (MESSAGES, user(BY_ADDRESS), PICTURE),
    (MESSAGES, user(BY_NAME), PICTURE),
    (
        MESSAGES,
        user({"type": "image", "source": {"type": "url", "url": ADDRESS, "media_type": "image/png", "data": PNG}}),
        PICTURE,
    ),
    (MESSAGES, user({"type": "image", "source": {"type": "url", "media_type": "image/png", "data": PNG}}), PICTURE),
    (MESSAGES, result(BY_ADDRESS), PICTURE),
    (MESSAGES, result({"type": "document", "source": {"type": "url", "url": ADDRESS}}), TEXT),
    (MESSAGES, user({"type": "document", "source": {"type": "file", "file_id": "f"}}), TEXT),
    (
        MESSAGES,
        user({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ""}}),
        TEXT,
    ),
    (MESSAGES, user({"type": "document", "source": {"type": "content", "content": [BY_ADDRESS]}}), TEXT),
    (MESSAGES, user({"type": "container_upload", "file_id": "f"}), ""),
    (MESSAGES, user({"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {"url": ADDRESS}}), ""),
    (MESSAGES, user({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}), ""),
    (MESSAGES, user({"type": "text", "text": "a", "source": {"type": "url", "url": ADDRESS}}), ""),
    (
        MESSAGES,
        user({"type": "tool_use", "id": "t", "name": "a", "input": {}, "caller": {"type": "code_execution_20250825"}}),
        "",
    ),
    (RESPONSES, user({"type": "input_image", "image_url": ADDRESS}), PICTURE),
    (RESPONSES, user({"type": "input_image", "file_id": "f"}), PICTURE),
    (RESPONSES, user({"type": "input_file", "file_url": ADDRESS}), TEXT),
    (RESPONSES, user({"type": "input_file", "file_id": "f"}), TEXT),
    (RESPONSES, user({"type": "input_file", "filename": "a", "file_data": "AA=="}), TEXT),
    (
        RESPONSES,
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "f"}]},
        TEXT,
    ),
    (RESPONSES, {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}}, ""),
    (RESPONSES, {"id": "msg_1"}, WHOLE),
    (RESPONSES, {"type": None, "id": "msg_1"}, WHOLE),
    (RESPONSES, {"type": "item_reference", "id": "msg_1"}, WHOLE),
    (RESPONSES, {"type": "message", "role": "assistant", "id": "msg_1"}, ""),
    (RESPONSES, {"type": "compaction", "encrypted_content": "gAAAA"}, ""),
    (RESPONSES, {"type": "web_search_call", "id": "ws_1", "status": "completed"}, ""),
    (RESPONSES, {"type": "image_generation_call", "id": "ig_1"}, PICTURE),
    (RESPONSES, {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}, ""),
    (RESPONSES, {"type": "tool_search_output", "call_id": "c", "execution": "server", "tools": []}, ""),
    (
        RESPONSES,
        {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [{"type": "web_search"}]},
        "",
    ),
]


@pytest.mark.parametrize(
    ("api", "turn", "instead"),
    FROM_ELSEWHERE,
    ids=lambda value: value.name if isinstance(value, Api) else str(value)[:99],
)
def test_what_an_endpoint_would_get_elsewhere_is_refused(api: Api, turn: JsonValue, instead: str) -> None:
    told = why(api, {"role": "user", "content": "a"}, turn)
    assert f"unsupported entry 1 of '{api.turns}'" in told and instead in told and len(told) < 300


@pytest.mark.parametrize("key", ["previous_response_id", "conversation", "prompt"])
def test_what_recalls_a_conversation_is_refused_with_the_way_to_do_it(key: str) -> None:
    assert why(RESPONSES, **{key: "r_1"}) == f"unsupported parameter: {key!r}. {WHOLE}"


@pytest.mark.parametrize("missing", [{}, {"encrypted_content": None}, {"encrypted_content": ""}], ids=str)
def test_no_thought_is_recalled_by_its_id(missing: Json) -> None:
    whole: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    named: Json = {"type": "reasoning", "id": "rs_2", "summary": [], **missing}
    sent = unkept({"model": "m", "input": [whole, named, {"role": "user", "content": "a"}], "store": True})
    assert sent["input"] == [whole, named | {"id": "rs_unkept_1"}, {"role": "user", "content": "a"}]
    assert sent["store"] is False and unkept({"input": "a"}) == {"input": "a", "store": False}


@pytest.mark.parametrize("ttl", ["2h", "60m", "3600s", 3600, "1H", ""])
def test_a_cache_is_kept_for_a_time_that_has_a_price(ttl: JsonValue) -> None:
    mark: Json = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    assert why(MESSAGES, user({"type": "text", "text": "a", **mark}))
    assert why(MESSAGES, user("a"), **mark) and why(MESSAGES, system=[{"type": "text", "text": "a", **mark}])
    assert why(CHAT, user({"type": "text", "text": "a", **mark}))


def test_words_before_a_conversation_are_text() -> None:
    assert why(MESSAGES, system=[BY_ADDRESS]) and why(RESPONSES, instructions=[{"id": "msg_1"}])
    assert not why(MESSAGES, system="a") and not why(RESPONSES, instructions="a")


@pytest.mark.parametrize("turns", [{"role": "user"}, 5, True])
@pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
def test_a_conversation_is_a_list(api: Api, turns: JsonValue) -> None:
    assert "must be a list" in refusal(api, {"model": "m", api.turns: turns})


SCHEMAS: list[tuple[JsonValue, bool]] = [
    ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/$defs/a"}}}, True),
    ({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}, True),
    ({"properties": {"a": {"$ref": "http://169.254.169.254/"}}}, False),
    ({"anyOf": [{"$dynamicRef": "file:///etc/passwd"}]}, False),
    ({"$id": "http://169.254.169.254/", "properties": {"a": {"$ref": "#/b"}}}, False),
]


@pytest.mark.parametrize(("schema", "passes"), SCHEMAS, ids=str)
def test_a_schema_refers_to_itself_alone(schema: JsonValue, passes: bool) -> None:
    chat: Json = {"type": "function", "function": {"name": "a", "parameters": schema}}
    assert (why(CHAT, tools=[chat]) == "") is passes
    assert (why(MESSAGES, tools=[{"name": "a", "input_schema": schema}]) == "") is passes
    assert (why(RESPONSES, tools=[{"type": "function", "name": "a", "parameters": schema}]) == "") is passes
    assert (why(CHAT, response_format={"type": "json_schema", "json_schema": {"schema": schema}}) == "") is passes
    assert (why(RESPONSES, text={"format": {"type": "json_schema", "schema": schema}}) == "") is passes


KEYS = st.sampled_from(
    ["type", "role", "content", "id", "text", "image_url", "source", "url", "output", "call_id", "x"]
)
WORDS = st.sampled_from(["message", "text", "image", "image_url", "reasoning", "tool_result", "user", ADDRESS, DATA])
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(ALL), VALUES)
def test_any_entry_passes_or_is_refused_in_words(api: Api, turn: JsonValue) -> None:
    assert len(why(api, turn)) < 300
