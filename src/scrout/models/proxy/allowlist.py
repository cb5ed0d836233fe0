"""The allow-list of an agent's requests: keys, values, tools, queries and headers for each API. Conversations have one
of their own, in conversation.py.

Listed keys cost nothing but tokens, which are reserved. Every other key is refused by name before a cent is spent:
endpoints bill searches, tiers, other models and more, under keys that cannot be listed completely. An agent that needs
another key gets it from the user, by `extra` in the fixer's entry. Unlisted headers are dropped instead, because
clients add many.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping

from pydantic import JsonValue

from scrout.models.proxy.apis import Api, Json, answers
from scrout.models.proxy.conversation import CACHE_CONTROL, NAME, NAMED_TOOL, NAMESPACE, SYSTEM, TURNS, WHOLE, explain
from scrout.models.proxy.json_checks import (
    Check,
    an_object,
    anything,
    each_of,
    either,
    labels,
    like,
    list_of,
    one_of,
    scalar,
    schema,
    text,
    texts,
)
from scrout.trajectory import ApiName

MAX_SHOWN = 60
"""Characters of a key to quote in an error."""


# Tools that run where the agent is. Some run at the endpoint by a key more, or by one less.

_FUNCTION = an_object("name", name=NAME, description=scalar, parameters=schema, strict=scalar)
_CUSTOM = an_object("name", name=NAME, description=scalar, format=schema)
_CHAT_TOOL = either(
    an_object(
        "type", "function", type=one_of("function"), function=_FUNCTION, strict=scalar, cache_control=CACHE_CONTROL
    ),
    an_object("type", "custom", type=one_of("custom"), custom=_CUSTOM),
)
_SHOWN = {"name": NAME, "description": scalar, "defer_loading": scalar}
_RESPONSES_TOOL = either(
    NAMED_TOOL,
    an_object("type", type=one_of("local_shell", "apply_patch")),
    NAMESPACE,
    an_object(
        *("type", "execution"),
        type=one_of("tool_search"),
        execution=one_of("client"),
        description=scalar,
        parameters=schema,
    ),
)
_MESSAGES_TOOL = an_object(
    "name",
    type=either(one_of("custom"), like(r"(bash|text_editor|computer|memory)_[0-9]{8}")),
    input_schema=schema,
    input_examples=anything,
    cache_control=CACHE_CONTROL,
    **each_of(scalar, "strict", "eager_input_streaming", "max_characters"),
    **each_of(scalar, "display_width_px", "display_height_px", "display_number", "enable_zoom"),
    **_SHOWN,
)
_CHOICES = ("auto", "none", "required", "any")
_CHOSEN = an_object(
    type=one_of(*_CHOICES, "tool", "function", "custom", "allowed_tools", "local_shell", "apply_patch"),
    name=NAME,
    function=an_object(name=NAME),
    custom=an_object(name=NAME),
    mode=one_of(*_CHOICES),
    tools=list_of(an_object(type=one_of("function", "custom"), name=NAME, function=an_object(name=NAME))),
    disable_parallel_tool_use=scalar,
)

# Keys

_COMMON = {
    **each_of(anything, "model"),
    **each_of(scalar, "stream", "temperature", "top_p"),
    "tool_choice": either(one_of(*_CHOICES), _CHOSEN),
}
_OPENAI = {
    **_COMMON,
    **each_of(scalar, "parallel_tool_calls", "user", "safety_identifier", "top_logprobs", "prompt_cache_key", "store"),
    "prompt_cache_retention": one_of("in_memory", "in-memory", "24h"),
    "stream_options": an_object(**each_of(scalar, "include_usage", "include_obfuscation", "continuous_usage_stats")),
    "metadata": labels,
    # Those that cost no more than the price.
    "service_tier": one_of("auto", "default", "flex"),
}
_THINKING = an_object(**each_of(scalar, "type", "display"), budget_tokens=lambda value: type(value) is int)
_CUTS = like(r"clear_(thinking|tool_uses)_[0-9]{8}")
_EDITS = list_of(lambda edit: isinstance(edit, dict) and _CUTS(edit.get("type")))
"""Those that cut. One that sums up reads all of the conversation once more, at a price of its own."""

ALLOWED: dict[ApiName, Mapping[str, Check]] = {
    "chat": {
        **_OPENAI,
        **each_of(anything, "max_tokens", "max_completion_tokens", "n", "logit_bias"),
        "messages": TURNS["chat"],
        "response_format": schema,
        **each_of(scalar, "frequency_penalty", "presence_penalty", "repetition_penalty", "top_k", "min_p", "seed"),
        **each_of(scalar, "logprobs", "reasoning_effort", "verbosity", "cache_salt", "return_token_ids"),
        **each_of(scalar, "return_hidden_states"),
        "stop": texts,
        "tools": list_of(_CHAT_TOOL),
        "functions": list_of(_FUNCTION),
        "function_call": either(one_of(*_CHOICES), an_object(name=NAME)),
        "modalities": lambda value: value == ["text"],
        "reasoning": an_object(**each_of(scalar, "effort", "exclude", "enabled", "summary")),
        "thinking": _THINKING,
        "usage": an_object(include=scalar),
    },
    "responses": {
        **_OPENAI,
        **each_of(anything, "max_output_tokens"),
        **each_of(scalar, "max_tool_calls"),
        "input": TURNS["responses"],
        "instructions": text,
        "truncation": one_of("auto", "disabled"),
        "tools": list_of(_RESPONSES_TOOL),
        "reasoning": an_object(**each_of(scalar, "effort", "summary", "generate_summary", "context")),
        "text": an_object(format=schema, verbosity=scalar),
        "include": list_of(one_of("reasoning.encrypted_content", "message.output_text.logprobs")),
        "client_metadata": labels,
        # One that goes on by itself is never seen to end, nor what it used.
        "background": one_of(False),
    },
    "messages": {
        **_COMMON,
        **each_of(anything, "max_tokens"),
        "messages": TURNS["messages"],
        "system": SYSTEM,
        "output_format": schema,
        **each_of(scalar, "top_k"),
        "stop_sequences": texts,
        "tools": list_of(_MESSAGES_TOOL),
        "thinking": _THINKING,
        "metadata": labels,
        "service_tier": one_of("auto", "standard_only"),
        "speed": one_of("standard"),
        "inference_geo": one_of("global"),
        "cache_control": CACHE_CONTROL,
        "context_management": an_object(edits=_EDITS),
        "output_config": an_object(effort=scalar, format=schema),
    },
    "embeddings": {
        **each_of(anything, "model"),
        # Texts, or the numbers of their tokens.
        "input": either(texts, list_of(list_of(lambda token: type(token) is int))),
        "encoding_format": one_of("float", "base64"),
        **each_of(scalar, "dimensions", "user"),
    },
}
_INSTEAD = {("responses", key): WHOLE for key in ("previous_response_id", "conversation", "prompt")}
QUERIES = frozenset({"", "beta=true"})
"""Of a request that generates: Claude Code asks for the second, which changes no price."""


def refusal(api: Api, request: Json, query: str = "") -> str:
    """Why a request is refused, in an endpoint's words; empty: it is allowed."""
    allowed = ALLOWED[api.name]
    for key, value in request.items():
        if key not in allowed:
            return f"unsupported parameter: {key[:MAX_SHOWN]!r}. {_INSTEAD.get((api.name, key), '')}".removesuffix(". ")
        if value is None or allowed[key](value):
            continue
        if api.name in TURNS and key == api.turns:
            return explain(api, value)
        return f"unsupported value of {key!r}{_which(api, key, value)}"
    if answers(request) < 1:
        return "'n' must be a whole number"
    if query not in QUERIES:
        return f"unsupported parameter of the address: {query[:MAX_SHOWN]!r}"
    return ""


def _which(api: Api, key: str, value: JsonValue) -> str:
    """The part of it that is at fault, if there is one."""
    check = ALLOWED[api.name][key]
    if isinstance(value, list):
        wrong: list[JsonValue] = [item for item in value if not check([item])]
    elif isinstance(value, dict):
        wrong = [{name: item} for name, item in value.items() if not check({name: item})]
    else:
        wrong = [value]
    return f": {reprlib.repr(wrong[0])[:MAX_SHOWN]}" if wrong else ""


# Headers

_HEADERS = frozenset(
    {
        *("accept", "user-agent", "anthropic-version"),
        # By which an endpoint finds a conversation's prompt cache again.
        *("session-id", "thread-id", "x-session-affinity", "x-client-request-id", "originator"),
    }
)
_BETAS = re.compile(
    r"(claude-code|interleaved-thinking|dev-full-thinking|redact-thinking|thinking-token-count|effort"
    r"|context-management|mid-conversation-system|model-context-window-exceeded"
    r"|prompt-caching|prompt-caching-scope|extended-cache-ttl|token-counting|output-128k"
    r"|fine-grained-tool-streaming|token-efficient-tools|structured-outputs|advanced-tool-use)-[0-9]{4}-?[0-9]{2}-?[0-9]{2}"
)
"""Features that change what a request looks like, and no price. A longer context, for one, has a price of its own."""


def forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    """The agent's headers that are forwarded to the endpoint."""
    passed = {name: value for name, value in headers.items() if name in _HEADERS}
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",")]
    if kept := [beta for beta in betas if _BETAS.fullmatch(beta)]:
        passed["anthropic-beta"] = ",".join(kept)
    return passed
