"""The allow-list of a conversation's entries and their parts, for each API.

Everything on the list includes its own bytes, so that the request's size limits its tokens. Content that an endpoint
would get from elsewhere is not allowed: a URL or a stored file that it would load, or a stored item or answer. The
meter cannot see its size, and a URL is a way out of the sandbox.
"""

from __future__ import annotations

import re
import reprlib

from pydantic import JsonValue

from scrout.models.proxy.apis import Api, Json
from scrout.models.proxy.json_checks import (
    Check,
    an_object,
    anything,
    by_type,
    each_of,
    either,
    empty,
    like,
    list_of,
    one_of,
    scalar,
    schema,
    text,
)
from scrout.trajectory import ApiName

MAX_SHOWN = 60
"""Characters of an entry to quote in an error."""

CACHE_CONTROL = an_object(type=one_of("ephemeral"), ttl=one_of("5m", "1h"), scope=text)
"""Lifetimes of a prompt cache: each of these has a price."""
NAME = like(
    r"(?!(google_?search(_?retrieval)?|codeExecution|urlContext|litellm_web_search)\Z)[A-Za-z0-9_.-]{1,128}",
    re.IGNORECASE,
)
"""Name of an agent's own tool. Names of built-in ones start with a special character at some endpoints, and gateways
such as new-api and LiteLLM treat a function with one of these names as their own tool.
"""
_BASE64 = r"[A-Za-z0-9+/\r\n]*={0,2}"
_IMAGE_TYPE = r"image/(png|jpe?g|gif|webp)"
_IMAGE_DATA = like(rf"data:{_IMAGE_TYPE};base64,{_BASE64}")


def part(*required: str, **keys: Check) -> Check:
    """A part or an entry; its type is checked first."""
    return an_object(*required, type=text, **keys)


# Chat completions

_CHAT_TEXT = part("text", text=text, cache_control=CACHE_CONTROL, annotations=empty)
_THOUGHT = list_of(
    an_object(**each_of(scalar, "type", "text", "thinking", "signature", "data", "summary", "id", "format", "index"))
)
_SIGNED = an_object(
    **each_of(text, "thought_signature", "reasoning_content", "refusal"), thought_signatures=list_of(text)
)
_CHAT_PARTS = by_type(
    text=_CHAT_TEXT,
    refusal=part("refusal", refusal=text),
    image_url=part(
        "image_url",
        image_url=either(_IMAGE_DATA, an_object("url", url=_IMAGE_DATA, detail=text, format=text)),
        cache_control=CACHE_CONTROL,
    ),
    thinking=part(thinking=either(text, list_of(by_type(text=_CHAT_TEXT))), signature=text, closed=scalar),
    redacted_thinking=part("data", data=text),
)
_CHAT_CALL = an_object(
    id=text,
    type=one_of("function", "custom"),
    index=scalar,
    function=an_object(name=text, arguments=anything, thought_signature=text, provider_specific_fields=_SIGNED),
    custom=an_object(name=text, input=text),
    extra_content=an_object(google=_SIGNED),
    provider_specific_fields=_SIGNED,
)
_CHAT_MESSAGE = an_object(
    "role",
    role=one_of("system", "developer", "user", "assistant", "tool", "function"),
    content=either(text, list_of(_CHAT_PARTS)),
    tool_calls=list_of(_CHAT_CALL),
    function_call=an_object(name=text, arguments=text),
    reasoning_details=_THOUGHT,
    thinking_blocks=_THOUGHT,
    provider_specific_fields=_SIGNED,
    cache_control=CACHE_CONTROL,
    **each_of(text, "name", "tool_call_id", "refusal", "reasoning_content", "reasoning", "reasoning_text"),
    **each_of(one_of(True, False), "prefix", "partial"),
    **each_of(empty, "annotations", "audio", "images", "citations"),
)

# Responses

FUNCTION_TOOL = an_object(
    *("type", "name"),
    type=one_of("function"),
    name=NAME,
    parameters=schema,
    output_schema=schema,
    **each_of(scalar, "description", "strict", "defer_loading"),
)
_CUSTOM_TOOL = an_object(
    *("type", "name"),
    type=one_of("custom"),
    name=NAME,
    format=schema,
    **each_of(scalar, "description", "defer_loading"),
)
NAMED_TOOL = either(FUNCTION_TOOL, _CUSTOM_TOOL)
NAMESPACE = an_object(
    *("type", "name"),
    type=one_of("namespace"),
    name=NAME,
    tools=list_of(NAMED_TOOL),
    **each_of(scalar, "description", "defer_loading"),
)

_INPUT_PARTS = by_type(
    input_text=part("text", text=text),
    output_text=part("text", text=text, annotations=empty, logprobs=empty),
    text=part("text", text=text),
    refusal=part("refusal", refusal=text),
    input_image=part("image_url", image_url=_IMAGE_DATA, detail=text),
)
_OUTPUT = either(text, list_of(_INPUT_PARTS))


def item(*required: str, **keys: Check) -> Check:
    return part(*required, **each_of(text, "id", "call_id", "status", "namespace"), **keys)


_MESSAGE_ITEM = item(
    *("role", "content"),
    role=one_of("user", "assistant", "system", "developer"),
    content=_OUTPUT,
    phase=text,
    end_turn=one_of(True, False),
)
_REASONING_ITEM = item(
    encrypted_content=text,
    summary=list_of(by_type(summary_text=part("text", text=text))),
    content=list_of(by_type(reasoning_text=part("text", text=text), text=part("text", text=text))),
)

_ITEM = by_type(
    "message",
    message=_MESSAGE_ITEM,
    reasoning=_REASONING_ITEM,
    function_call=item("call_id", "name", "arguments", name=text, arguments=text),
    function_call_output=item("call_id", "output", output=_OUTPUT),
    custom_tool_call=item("call_id", "name", "input", name=text, input=text),
    custom_tool_call_output=item("call_id", "output", output=_OUTPUT, name=text),
    local_shell_call=item("action", action=anything),
    local_shell_call_output=item("output", output=text),
    apply_patch_call=item("call_id", "operation", operation=anything),
    apply_patch_call_output=item("call_id", output=text),
    tool_search_call=item("call_id", "execution", execution=one_of("client"), arguments=anything),
    tool_search_output=item(
        "call_id", "execution", execution=one_of("client"), tools=list_of(either(NAMED_TOOL, NAMESPACE))
    ),
)

# Messages

_TEXT_BLOCK = part("text", text=text, cache_control=CACHE_CONTROL, citations=empty)
_INLINE_BLOCKS: dict[str, Check] = {
    "text": _TEXT_BLOCK,
    "image": part(
        "source",
        source=an_object(
            *("type", "media_type", "data"), type=one_of("base64"), media_type=like(_IMAGE_TYPE), data=like(_BASE64)
        ),
        cache_control=CACHE_CONTROL,
    ),
    # Only its text: the number of tokens of a page is unknown.
    "document": part(
        "source",
        source=an_object("type", "data", type=one_of("text"), media_type=one_of("text/plain"), data=text),
        cache_control=CACHE_CONTROL,
        **each_of(text, "title", "context"),
    ),
}
_BLOCKS = by_type(
    **_INLINE_BLOCKS,
    thinking=part(**each_of(text, "thinking", "signature")),
    redacted_thinking=part("data", data=text),
    tool_use=part(
        *("id", "name", "input"),
        **each_of(text, "id", "name"),
        input=anything,
        caller=an_object(type=one_of("direct")),
        cache_control=CACHE_CONTROL,
    ),
    tool_result=part(
        "tool_use_id",
        tool_use_id=text,
        is_error=scalar,
        content=either(
            text,
            list_of(
                by_type(**_INLINE_BLOCKS, tool_reference=part("tool_name", tool_name=text, cache_control=CACHE_CONTROL))
            ),
        ),
        cache_control=CACHE_CONTROL,
    ),
)
_MESSAGE = an_object(
    *("role", "content"),
    role=one_of("user", "assistant", "system"),
    content=either(text, list_of(_BLOCKS)),
)

SYSTEM = either(text, list_of(by_type(text=_TEXT_BLOCK)))
_ENTRIES: dict[ApiName, Check] = {"chat": _CHAT_MESSAGE, "responses": _ITEM, "messages": _MESSAGE}
_PARTS: dict[ApiName, Check] = {"chat": _CHAT_PARTS, "responses": _INPUT_PARTS, "messages": _BLOCKS}
TURNS: dict[ApiName, Check] = {
    "chat": list_of(_CHAT_MESSAGE),
    "responses": either(text, list_of(_ITEM)),
    "messages": list_of(_MESSAGE),
}
"""A whole conversation."""

WHOLE = 'Send the whole conversation in each request, with "store": false.'
_INSTEAD = {
    "image": "Send the picture itself, as base64 data.",
    "document": "Send its text.",
    "file": "Send its text.",
    "audio": "Send its text.",
    "video": "Send its text.",
    "reference": WHOLE,
}


def unkept(request: Json) -> Json:
    """A request of the responses API that makes the endpoint store and recall nothing.

    Otherwise, it would look up a reasoning item by its id if the content is missing.
    """
    items = request.get("input")
    if isinstance(items, list):
        request = {**request, "input": [_unnamed(item, place) for place, item in enumerate(items)]}
    return {**request, "store": False}


def _unnamed(item: JsonValue, place: int) -> JsonValue:
    if not isinstance(item, dict) or item.get("type") != "reasoning" or item.get("encrypted_content"):
        return item
    return {**item, "id": f"rs_unkept_{place}"} if "id" in item else item


def explain(api: Api, turns: JsonValue) -> str:
    """Explain which entry of a conversation is refused, and what to send instead."""
    if not isinstance(turns, list):
        return f"{api.turns!r} must be a list"
    place, entry = next((place, entry) for place, entry in enumerate(turns) if not _ENTRIES[api.name](entry))
    culprit = _culprit(api, entry)
    instead = next((words for word, words in _INSTEAD.items() if word in _kind(api, culprit)), "")
    return f"unsupported entry {place} of {api.turns!r}: {reprlib.repr(culprit)[:MAX_SHOWN]} {instead}".strip()


def _culprit(api: Api, entry: JsonValue) -> JsonValue:
    """The refused part of an entry; the entry itself if no part is the cause."""
    for key in ("content", "output"):
        parts = entry.get(key) if isinstance(entry, dict) else None
        for inner in parts if isinstance(parts, list) else ():
            if not _PARTS[api.name](inner):
                return _culprit(api, inner)
    return entry


def _kind(api: Api, culprit: JsonValue) -> str:
    if not isinstance(culprit, dict):
        return ""
    kind = culprit.get("type")
    if isinstance(kind, str):
        return kind
    return "reference" if "id" in culprit and "content" not in culprit else " ".join(culprit)
