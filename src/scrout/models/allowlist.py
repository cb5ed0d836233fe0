"""What an agent's request may ask for: an allow-list of keys, values, tools, queries and headers for each API.

What is listed costs nothing but the tokens that are held for. Everything else is refused by its name before a cent is
spent: endpoints bill searches, tiers, other models and more, under keys that nobody can list in full. An agent that
needs another key gets it from the user, by `extra` in the fixer's entry. A header that is not listed is left out
instead, since clients add many.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from scrout.models.apis import Api, Json, answers
from scrout.trajectory import ApiName

Check = Callable[[JsonValue], bool]
"""Whether a value that is not null may pass."""

MAX_SHOWN = 60
"""Characters of a key that an error repeats."""


def _any(value: JsonValue) -> bool:
    return True


def _scalar(value: JsonValue) -> bool:
    return not isinstance(value, dict | list)


def _texts(value: JsonValue) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _labels(value: JsonValue) -> bool:
    """Texts by name. Some gateways route by lists and objects here."""
    return isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values())


def _one_of(*values: str | bool) -> Check:
    return lambda value: any(value is one if isinstance(one, bool) else value == one for one in values)


def _object(*required: str, **keys: Check) -> Check:
    def check(value: JsonValue) -> bool:
        if not isinstance(value, dict) or any(value.get(key) is None for key in required):
            return False
        return all(key in keys and (item is None or keys[key](item)) for key, item in value.items())

    return check


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _like(pattern: str) -> Check:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _all(check: Check, *keys: str) -> dict[str, Check]:
    return dict.fromkeys(keys, check)


# Tools that run where the agent is. Some run at the endpoint by a key more, or by one less.

_NAME = _like(r"[A-Za-z0-9_.-]{1,128}")
"""An agent's own: names of built-in tools begin with a sign at some endpoints."""
_KEPT = _object(**_all(_scalar, "type", "ttl", "scope"))
"""Of a prompt cache; what is kept for an hour is held for at its price."""
_FUNCTION = _object("name", name=_NAME, description=_scalar, parameters=_any, strict=_scalar)
_CUSTOM = _object("name", name=_NAME, description=_scalar, format=_any)
_CHAT_TOOL = _either(
    _object("type", "function", type=_one_of("function"), function=_FUNCTION, strict=_scalar, cache_control=_KEPT),
    _object("type", "custom", type=_one_of("custom"), custom=_CUSTOM),
)
_SHOWN = {"name": _NAME, "description": _scalar, "defer_loading": _scalar}
_NAMED_TOOL = _either(
    _object(*("type", "name"), type=_one_of("function"), parameters=_any, output_schema=_any, strict=_scalar, **_SHOWN),
    _object("type", "name", type=_one_of("custom"), format=_any, **_SHOWN),
)
_RESPONSES_TOOL = _either(
    _NAMED_TOOL,
    _object("type", type=_one_of("local_shell", "apply_patch")),
    _object("type", "name", type=_one_of("namespace"), tools=_list_of(_NAMED_TOOL), **_SHOWN),
    _object(
        *("type", "execution"),
        type=_one_of("tool_search"),
        execution=_one_of("client"),
        description=_scalar,
        parameters=_any,
    ),
)
_MESSAGES_TOOL = _object(
    "name",
    type=_either(_one_of("custom"), _like(r"(bash|text_editor|computer|memory)_[0-9]{8}")),
    input_schema=_any,
    input_examples=_any,
    cache_control=_KEPT,
    **_all(_scalar, "strict", "eager_input_streaming", "max_characters"),
    **_all(_scalar, "display_width_px", "display_height_px", "display_number", "enable_zoom"),
    **_SHOWN,
)
_CHOICES = ("auto", "none", "required", "any")
_CHOSEN = _object(
    type=_one_of(*_CHOICES, "tool", "function", "custom", "allowed_tools", "local_shell", "apply_patch"),
    name=_NAME,
    function=_object(name=_NAME),
    custom=_object(name=_NAME),
    mode=_one_of(*_CHOICES),
    tools=_any,
    disable_parallel_tool_use=_scalar,
)

# Keys

_COMMON = {
    **_all(_any, "model"),
    **_all(_scalar, "stream", "temperature", "top_p"),
    "tool_choice": _either(_one_of(*_CHOICES), _CHOSEN),
}
_OPENAI = {
    **_COMMON,
    **_all(_scalar, "parallel_tool_calls", "store", "user", "safety_identifier", "top_logprobs"),
    **_all(_scalar, "prompt_cache_key", "prompt_cache_retention"),
    "stream_options": _object(**_all(_scalar, "include_usage", "include_obfuscation", "continuous_usage_stats")),
    "metadata": _labels,
    # Those that cost no more than the price.
    "service_tier": _one_of("auto", "default", "flex"),
}
_THINKING = _object(**_all(_scalar, "type", "budget_tokens", "display"))
_CUTS = _like(r"clear_(thinking|tool_uses)_[0-9]{8}")
_EDITS = _list_of(lambda edit: isinstance(edit, dict) and _CUTS(edit.get("type")))
"""Those that cut. One that sums up reads all of the conversation once more, at a price of its own."""

ALLOWED: dict[ApiName, Mapping[str, Check]] = {
    "chat": {
        **_OPENAI,
        **_all(_any, "messages", "max_tokens", "max_completion_tokens", "n", "response_format", "logit_bias"),
        **_all(_scalar, "frequency_penalty", "presence_penalty", "repetition_penalty", "top_k", "min_p", "seed"),
        **_all(_scalar, "logprobs", "reasoning_effort", "verbosity", "cache_salt", "return_token_ids"),
        "stop": _texts,
        "tools": _list_of(_CHAT_TOOL),
        "functions": _list_of(_FUNCTION),
        "function_call": _either(_one_of(*_CHOICES), _object(name=_NAME)),
        "modalities": lambda value: value == ["text"],
        "reasoning": _object(**_all(_scalar, "effort", "exclude", "enabled", "summary")),
        "thinking": _THINKING,
        "usage": _object(include=_scalar),
    },
    "responses": {
        **_OPENAI,
        **_all(_any, "input", "instructions", "max_output_tokens"),
        **_all(_scalar, "previous_response_id", "truncation", "max_tool_calls"),
        "tools": _list_of(_RESPONSES_TOOL),
        "reasoning": _object(**_all(_scalar, "effort", "summary", "generate_summary", "context")),
        "text": _object(format=_any, verbosity=_scalar),
        "include": _texts,
        "client_metadata": _labels,
        # One that goes on by itself is never seen to end, nor what it used.
        "background": _one_of(False),
    },
    "messages": {
        **_COMMON,
        **_all(_any, "messages", "system", "max_tokens", "output_format"),
        **_all(_scalar, "top_k"),
        "stop_sequences": _texts,
        "tools": _list_of(_MESSAGES_TOOL),
        "thinking": _THINKING,
        "metadata": _labels,
        "service_tier": _one_of("auto", "standard_only"),
        "speed": _one_of("standard"),
        "inference_geo": _one_of("global"),
        "cache_control": _KEPT,
        "context_management": _object(edits=_EDITS),
        "output_config": _object(effort=_scalar, format=_any),
    },
}
QUERIES = frozenset({"", "beta=true"})
"""Of a request that generates: Claude Code asks for the second, which changes no price."""


def refusal(api: Api, request: Json, query: str = "") -> str:
    """Why a request is not passed on, in an endpoint's words; empty: it is."""
    allowed = ALLOWED[api.name]
    for key, value in request.items():
        if key not in allowed:
            return f"unsupported parameter: {key[:MAX_SHOWN]!r}"
        if value is not None and not allowed[key](value):
            return f"unsupported value of {key!r}{_which(api, key, value)}"
    if answers(request) < 1:
        return "'n' must be a whole number"
    if query not in QUERIES:
        return f"unsupported parameter of the address: {query[:MAX_SHOWN]!r}"
    return ""


def _which(api: Api, key: str, value: JsonValue) -> str:
    """The part of it that is at fault, where one is."""
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
        *("accept", "content-type", "user-agent", "anthropic-version"),
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
    """Those of an agent's headers that go on to the endpoint."""
    passed = {name: value for name, value in headers.items() if name in _HEADERS}
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",")]
    if kept := [beta for beta in betas if _BETAS.fullmatch(beta)]:
        passed["anthropic-beta"] = ",".join(kept)
    return passed
