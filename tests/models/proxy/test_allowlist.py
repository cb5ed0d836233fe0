"""What an agent's request may ask for: forms that real agents send pass, and whatever else is refused by its name."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.models.proxy.allowlist import ALLOWED, forwarded, refusal
from scrout.models.proxy.apis import APIS, CHAT, MESSAGES, RESPONSES, Api, Json
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage

from .test_endpoint import BUDGET_WORDS, opened

ALL = list(APIS.values())
per_api = pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
SCHEMA: Json = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
FUNCTION: Json = {"name": "bash", "description": "Runs it.", "parameters": SCHEMA}
TOOLS: dict[str, Json] = {
    "chat": {"type": "function", "function": FUNCTION},
    "responses": {"type": "function", "strict": False, **FUNCTION},
    "messages": {"name": "Bash", "description": "Runs it.", "input_schema": SCHEMA},
}
BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,thinking-token-count-2026-05-13,"
    "context-management-2025-06-27,prompt-caching-scope-2026-01-05,mid-conversation-system-2026-04-07,effort-2025-11-24"
)


def request(api: Api, **more: JsonValue) -> Json:
    return {"model": "m", api.turns: [{"role": "user", "content": "hi"}], api.limits[0]: 900, **more}


# What real agents send, as scripts/add-agents installs them, without their words.
AGENTS: dict[str, tuple[Api, str, Json]] = {
    "Claude Code, a model it knows": (
        MESSAGES,
        "beta=true",
        {
            "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "tools": [TOOLS["messages"], {**TOOLS["messages"], "cache_control": {"type": "ephemeral"}}],
            "metadata": {"user_id": '{"device_id":"a","session_id":"b"}'},
            "thinking": {"type": "enabled", "budget_tokens": 31_999},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "stream": True,
            "temperature": 1,
        },
    ),
    "Claude Code, any model": (
        MESSAGES,
        "beta=true",
        {
            "tools": [{**TOOLS["messages"], "eager_input_streaming": True, "defer_loading": True}],
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
            "tool_choice": {"type": "tool", "name": "Bash"},
            "stream": True,
        },
    ),
    "Codex": (
        RESPONSES,
        "",
        {
            "instructions": "a",
            "stream": True,
            "tools": [
                TOOLS["responses"],
                {"type": "custom", "name": "apply_patch", "description": "a", "format": {"type": "grammar"}},
                {"type": "local_shell"},
                {"type": "namespace", "name": "mcp", "description": "a", "tools": [TOOLS["responses"]]},
                {"type": "tool_search", "execution": "client", "description": "a", "parameters": SCHEMA},
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "high", "summary": "auto"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "a",
            "client_metadata": {"session_id": "a", "x-codex-turn-metadata": "{}"},
            "service_tier": None,
        },
    ),
    "opencode": (
        CHAT,
        "",
        {
            "tools": [TOOLS["chat"]],
            "tool_choice": "auto",
            "stream": True,
            "stream_options": {"include_usage": True},
            "reasoning_effort": "high",
        },
    ),
    "aider": (CHAT, "", {"stream": True, "temperature": 0, "reasoning_effort": "high"}),
    "aider, by functions": (CHAT, "", {"functions": [FUNCTION], "function_call": {"name": "bash"}}),
    "mini-SWE-agent": (CHAT, "", {"parallel_tool_calls": True, "tools": [TOOLS["chat"]]}),
    "the built-in agent": (
        CHAT,
        "",
        {
            "tools": [TOOLS["chat"]],
            **{"temperature": 0.1, "top_p": 0.9, "top_k": -1, "repetition_penalty": 1.1, "seed": 4, "stop": ["\n"]},
            **{"presence_penalty": 0, "frequency_penalty": 0, "return_token_ids": True, "cache_salt": "a"},
            "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}},
        },
    ),
    "an SDK's tools": (
        MESSAGES,
        "",
        {"tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "custom", **TOOLS["messages"]}]},
    ),
    "several answers": (CHAT, "", {"n": 3, "user": "a", "metadata": {"Model": "x"}, "logit_bias": {"5": -100}}),
}


@pytest.mark.parametrize(("api", "query", "more"), AGENTS.values(), ids=AGENTS.keys())
def test_what_agents_ask_for_passes(api: Api, query: str, more: Json) -> None:
    assert refusal(api, request(api, **more), query) == ""


# By API, or for all of them; what the error has to name, and the request's part that it is about.
REFUSED: list[tuple[str, Json]] = [
    ("search_parameters", {"search_parameters": {"mode": "auto"}}),
    ("enable_search", {"enable_search": True}),
    ("search_settings", {"search_settings": {"country": "de"}}),
    ("web_search_options", {"web_search_options": {}}),
    ("plugins", {"plugins": [{"id": "web"}]}),
    ("plugins", {"plugins": []}),
    ("preset", {"preset": "with-search"}),
    ("models", {"models": ["dearer"]}),
    ("route", {"route": "fallback"}),
    ("provider", {"provider": {"sort": "throughput"}}),
    ("fallbacks", {"fallbacks": ["dearer"]}),
    ("transforms", {"transforms": ["middle-out"]}),
    ("extra_body", {"extra_body": {"n": 9}}),
    ("extra_headers", {"extra_headers": {"x": "y"}}),
    ("mcp_servers", {"mcp_servers": [{"url": "https://example.org"}]}),
    ("container", {"container": "c_1"}),
    ("conversation", {"conversation": "conv_1"}),
    ("prompt", {"prompt": {"id": "p_1"}}),
    ("background", {"background": True}),
    ("service_tier", {"service_tier": "priority"}),
    ("speed", {"speed": "fast"}),
    ("inference_geo", {"inference_geo": "us"}),
    ("best_of", {"best_of": 5}),
    ("audio", {"audio": {"voice": "a"}}),
    ("modalities", {"modalities": ["text", "audio"]}),
    ("prediction", {"prediction": {"type": "content", "content": "a"}}),
    ("api_base", {"api_base": "https://example.org"}),
    ("anthropic_beta", {"anthropic_beta": ["fast-mode-2026-02-01"]}),
    ("metadata", {"metadata": {"tags": ["dearer"]}}),
    ("reasoning", {"reasoning": {"effort": "low", "search": True}}),
    ("context_management", {"context_management": {"edits": [{"type": "compact_20260112"}]}}),
    ("context_management", {"context_management": [{"type": "compaction"}]}),
    ("stream_options", {"stream_options": {"route": "x"}}),
    ("n", {"n": "5"}),
    ("n", {"n": 0}),
    ("n", {"n": 2.0}),
    ("N", {"N": 5}),
    ("Max_Tokens", {"Max_Tokens": 100_000}),
    ("MODEL", {"MODEL": "dearer"}),
    ("tools", {"tools": {"web_search": {}}}),
    ("tools", {"tools": "web_search"}),
    ("tools", {"tools": [{"google_search": {}}]}),
    ("tools", {"tools": [{"name": "a", "google_search": {}}]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "a"}, "google_search": {}}]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "a", "google_search": {}}}]}),
    ("tools", {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "$web_search"}}]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "googleSearch"}}]}),
    ("tools", {"tools": [{"type": "function", "name": "google_search_retrieval"}]}),
    ("tools", {"tools": [{"name": "litellm_web_search", "input_schema": {}}]}),
    ("tools", {"tools": [{"type": "openrouter:web_search"}]}),
    ("tools", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ("tools", {"tools": [{"type": "bash_code_execution_20250825", "name": "bash"}]}),
    ("tools", {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "dearer"}]}),
    ("tools", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    ("tools", {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}),
    ("tools", {"tools": [{"type": "image_generation"}]}),
    ("tools", {"tools": [{"type": "mcp", "server_url": "https://example.org"}]}),
    ("tools", {"tools": [{"type": "tool_search"}]}),
    ("tools", {"tools": [{"type": "tool_search", "execution": "server"}]}),
    ("tools", {"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "web_search"}]}]}),
    ("tools", {"tools": [{"type": ["function"]}]}),
    ("tools", {"tools": ["web_search"]}),
    ("tool_choice", {"tool_choice": {"type": "web_search_preview"}}),
]


@pytest.mark.parametrize(("named", "more"), REFUSED, ids=str)
@per_api
def test_what_may_be_billed_beside_the_tokens_is_refused_by_its_name(api: Api, named: str, more: Json) -> None:
    why = refusal(api, request(api, **more))
    assert f"'{named}'" in why
    assert not re.search(r"\b(budget|cap|budget|meter|cost|dollars?)\b", why)


def test_one_hosted_tool_among_others_is_named() -> None:
    tools: JsonValue = [TOOLS["responses"], {"type": "web_search"}]
    assert refusal(RESPONSES, request(RESPONSES, tools=tools)) == "unsupported value of 'tools': {'type': 'web_search'}"


@pytest.mark.parametrize("query", ["beta=false", "beta=true&model=dearer", "key=a", "BETA=true"])
def test_a_query_that_is_not_known_is_refused(query: str) -> None:
    assert refusal(MESSAGES, request(MESSAGES), query)


VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(ALL), st.text(max_size=100), VALUES)
def test_no_other_key_passes_whatever_its_value(api: Api, key: str, value: JsonValue) -> None:
    if key not in ALLOWED[api.name]:
        why = refusal(api, request(api) | {key: value})
        assert repr(key[:60]) in why and len(why) < 700


@given(st.sampled_from(ALL), st.text(max_size=20), VALUES)
def test_no_other_key_of_a_tool_passes(api: Api, key: str, value: JsonValue) -> None:
    known = {"type", "name", "description", "strict", "cache_control", "defer_loading", "eager_input_streaming"}
    known |= {"function", "parameters", "output_schema", "input_schema", "input_examples", "max_characters"}
    if key not in known | {"display_width_px", "display_height_px", "display_number", "enable_zoom"}:
        assert "'tools'" in refusal(api, request(api, tools=[TOOLS[api.name] | {key: value}]))


@given(st.sampled_from(ALL), st.sampled_from(sorted(set().union(*ALLOWED.values()))), VALUES)
def test_any_value_of_a_known_key_passes_or_is_refused_in_words(api: Api, key: str, value: JsonValue) -> None:
    assert len(refusal(api, request(api) | {key: value})) < 700


# Headers


def test_headers_that_agents_need_pass() -> None:
    sent = {"anthropic-version": "2023-06-01", "anthropic-beta": BETAS, "user-agent": "a", "session-id": "b"}
    assert forwarded(sent) == sent


@pytest.mark.parametrize(
    "name",
    [
        *(
            "x-openrouter-provider",
            "http-referer",
            "x-title",
            "helicone-auth",
            "helicone-fallbacks",
            "x-portkey-config",
        ),
        *("openai-beta", "openai-organization", "x-litellm-tags", "cf-aig-step", "x-goog-user-project"),
        *("authorization", "x-api-key", "cookie", "host", "transfer-encoding", "content-encoding", "accept-encoding"),
        "x-http-method-override",
    ],
)
def test_headers_that_may_route_or_pay_are_left_out(name: str) -> None:
    assert forwarded({name: "x", "accept": "*/*"}) == {"accept": "*/*"}


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_no_other_header_passes(name: str) -> None:
    known = {"accept", "content-type", "user-agent", "anthropic-version", "session-id", "thread-id"}
    known |= {"x-session-affinity", "x-client-request-id", "originator"}
    assert set(forwarded({name.lower(): "x"})) <= known


@pytest.mark.parametrize(
    "beta",
    [
        *("fast-mode-2026-02-01", "context-1m-2025-08-07", "mcp-client-2025-11-20", "code-execution-2025-05-22"),
        *("web-search-2025-03-05", "advisor-tool-2026-03-01", "server-side-fallback-2026-07-01", "compact-2026-01-12"),
        "effort-2025-11-24 fast-mode-2026-02-01",
    ],
)
def test_of_an_endpoints_features_those_with_a_price_are_left_out(beta: str) -> None:
    assert forwarded({"anthropic-beta": f"{BETAS}, {beta}"}) == {"anthropic-beta": BETAS}
    assert forwarded({"anthropic-beta": beta}) == {}


# At the meter


@per_api
async def test_a_refusal_has_the_apis_own_form_and_reaches_no_endpoint(api: Api) -> None:
    with ScriptedEndpoint([]) as endpoint:
        async with opened(endpoint.base_url) as there:
            answer = await there.client.post(f"/v1/{api.path}", json=request(api, search_parameters={"mode": "on"}))
            by_address = await there.client.post(f"/v1/{api.path}?provider=dearer", json=request(api))
        assert endpoint.connections == 0
    assert (answer.status_code, by_address.status_code) == (400, 400)
    told = answer.json()
    assert told["error"]["type"] == "invalid_request_error" and "'search_parameters'" in told["error"]["message"]
    assert (told.get("type") == "error") is (api is MESSAGES)
    assert not BUDGET_WORDS.search(answer.content)
    assert there.receipts == [] and there.proxy_endpoint.meter.budget.calls == 0
    assert there.proxy_endpoint.fault_own and "provider=dearer" in there.proxy_endpoint.fault


@per_api
async def test_the_endpoint_gets_listed_headers_alone(api: Api) -> None:
    sent = {"x-openrouter-provider": "dearer", "helicone-auth": "a", "anthropic-beta": f"fast-mode-2026-02-01,{BETAS}"}
    with ScriptedEndpoint([ScriptedReply("a", usage=Usage(input_tokens=5, output_tokens=2))]) as endpoint:
        async with opened(endpoint.base_url) as there:
            assert (await there.client.post(f"/v1/{api.path}", json=request(api), headers=sent)).status_code == 200
        headers = {name.lower(): value for name, value in endpoint.requests[0].headers.items()}
    assert headers.pop("anthropic-beta") == BETAS and headers["accept-encoding"] == "identity"
    ours = {"host", "content-length", "content-type", "accept", "accept-encoding", "user-agent"}
    assert set(headers) == ours | {"x-api-key" if api is MESSAGES else "authorization"}


async def test_what_a_user_adds_is_the_users_to_add() -> None:
    reply = ScriptedReply("a", usage=Usage(input_tokens=5, output_tokens=2))
    with ScriptedEndpoint([reply]) as endpoint:
        async with opened(endpoint.base_url, extra={"provider": {"order": ["one"]}}) as there:
            body = json.dumps(request(CHAT)).encode()
            assert (await there.client.post("/v1/chat/completions", content=body)).status_code == 200
        assert endpoint.requests[0].content["provider"] == {"order": ["one"]}
