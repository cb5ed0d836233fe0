"""The attributes of stages and calls, and which of them may be sent.

Numbers, words of closed sets, the user's own names, and texts without secrets, as Unicode, cut to a length.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, JsonValue

from scrout.config.settings import Settings, read_key
from scrout.money import Usage
from scrout.records import Attempt, Check, Decision, GatedHandoff, Scouting
from scrout.redact import redact
from scrout.telemetry import names
from scrout.telemetry.exporter import Value
from scrout.trajectory import BilledCall, ModelRequest, ModelResponse

MAX_CHARS = 8_000
MAX_LABEL = 200
MAX_MESSAGES = 50
"""Maximum number of messages of one request; the last ones are kept."""
OTHER = "_OTHER"
FINISHES = frozenset(
    (
        *("stop", "length", "tool_calls", "content_filter", "function_call"),
        *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
        *("completed", "incomplete", "max_output_tokens", "model_context_window_exceeded"),
    )
)
"""Known words for the end of an answer. An endpoint may send any text, so others are not passed on."""


class Censor:
    def __init__(self, settings: Settings) -> None:
        self._known = frozenset(_secrets(settings))

    def label(self, text: str) -> str:
        """A shortened name."""
        return self._clean(text)[:MAX_LABEL]

    def content(self, text: str, most: int = MAX_CHARS) -> str:
        """A text from outside. It is cut after redaction, so that no half of a secret remains."""
        clean = self._clean(text)
        return clean if len(clean) <= most else f"{clean[:most]}[{len(clean) - most} more characters]"

    def asked(self, asked: ModelRequest) -> str:
        """The new messages of a request, in the conventions' format."""
        new = asked.new[-MAX_MESSAGES:]
        share = MAX_CHARS // max(1, len(new))
        return json.dumps([self._message(entry, share) for entry in new])

    def said(self, said: ModelResponse, finish: str) -> str:
        """The answer, in the conventions' format."""
        share = MAX_CHARS // (2 + len(said.calls))
        parts: list[JsonValue] = []
        if said.reasoning:
            parts.append({"type": "reasoning", "content": self.content(said.reasoning, share)})
        if said.text:
            parts.append({"type": "text", "content": self.content(said.text, share)})
        for call in said.calls:
            name, arguments = str(call.get("name") or ""), str(call.get("arguments") or "")
            parts.append(
                {
                    "type": "tool_call",
                    "id": self.label(str(call.get("id") or "")),
                    "name": self.label(name),
                    "arguments": self.content(arguments, share),
                }
            )
        return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": finish}])

    def arguments(self, arguments: Mapping[str, JsonValue]) -> str:
        share = MAX_CHARS // max(1, len(arguments))
        return json.dumps({self.label(key): self.content(_text(value), share) for key, value in arguments.items()})

    def _message(self, entry: JsonValue, most: int) -> JsonValue:
        given = entry if isinstance(entry, dict) else {"content": entry}
        role = given.get("role")
        text = given["content"] if "content" in given else {key: given[key] for key in given if key != "role"}
        return {
            "role": role if role in ("system", "user", "assistant", "tool", "developer") else "user",
            "parts": [{"type": "text", "content": self.content(_text(text), most)}],
        }

    def _clean(self, text: str) -> str:
        # A lone surrogate, as in the patch of a Latin-1 file, cannot be sent, and would make its whole batch fail.
        return redact(text, self._known).encode("utf-8", "replace").decode()


def finish_of(word: str) -> str:
    """Why an answer ended, as a known word."""
    return word if word in FINISHES else OTHER


def server_of(base_url: str) -> dict[str, str | int]:
    """An endpoint's host and port; the rest of its URL is not sent."""
    try:
        parts = urlsplit(base_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return {}
    return {names.SERVER_ADDRESS: parts.hostname, names.SERVER_PORT: port} if parts.hostname else {}


def provider_of(base_url: str, api: str) -> str:
    """The provider, from the endpoint's host; for an unknown host, the maker of the API that it uses."""
    host = str(server_of(base_url).get(names.SERVER_ADDRESS, ""))
    for end, provider in names.PROVIDERS.items():
        if host == end or host.endswith((f".{end}", f"-{end}")):
            return provider
    return "anthropic" if api == "messages" else "openai"


def _text(value: JsonValue) -> str:
    if isinstance(value, list) and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in value):
        return "\n".join(str(part["text"]) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else json.dumps(value)


def _secrets(settings: Settings) -> Iterable[str]:
    """Secrets that no rule finds by format or variable name."""
    for key_env in (
        settings.scout.model.key_env,
        settings.route.embedder.key_env,
        *(fixer.key_env for fixer in settings.fixers),
    ):
        if key := read_key(key_env):
            yield key
    for name, value in os.environ.items():
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            for pair in value.split(","):
                secret = unquote(pair.partition("=")[2]).strip()
                yield from (secret, secret.rpartition(" ")[2])


NO_ANSWER = "no_answer"
INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class StageFacts:
    """The facts about a stage's result."""

    facts: Mapping[str, Value]
    names: dict[str, str] = field(default_factory=dict)
    """The searcher or fixer, as the settings call it."""
    texts: dict[str, str] = field(default_factory=dict)
    """Content, which is sent only if the user enables it."""


def facts_of(result: BaseModel) -> StageFacts:
    match result:
        case Scouting():
            found = {names.STOP: result.stop, names.TURNS: result.turns, names.FILES: len(result.handoff.files)}
            texts = {names.HANDOFF: result.text, names.DETAIL: result.detail}
            return StageFacts({**found, **_cost(result.cost_usd)}, {names.SEARCHER: result.searcher}, texts)
        case GatedHandoff():
            verdict = {names.VERDICT: result.verdict, names.KEPT: result.kept}
            return StageFacts(verdict, texts={names.DETAIL: result.reason})
        case Decision():
            chosen = {names.FIXER: result.fixer, names.POLICY: result.policy}
            counts = {names.CANDIDATES: len(result.candidates), names.FALLBACK: result.fallback}
            return StageFacts(counts, chosen, {names.DETAIL: result.reason})
        case Attempt():
            tried = {names.STOP: result.stop, names.CALLS: result.calls, names.PATCHED: bool(result.patch)}
            who = {names.FIXER: result.fixer, names.HANDOFF_MODE: result.handoff}
            texts = {names.PATCH: result.patch, names.DETAIL: result.detail}
            return StageFacts({**tried, **_cost(result.cost_usd)}, who, texts)
        case Check():
            tests = {names.CHECK: result.outcome, names.TESTS: result.tests, names.TESTS_RUN: result.tests_run}
            return StageFacts(tests, texts={names.DETAIL: result.detail})
    return StageFacts({})


def _cost(cost_usd: Decimal | None) -> dict[str, Value]:
    """Empty if unknown."""
    return {} if cost_usd is None else {names.COST: float(cost_usd)}


def token_facts(usage: Usage) -> dict[str, Value]:
    """The conventions count cached tokens as input too, and reasoning as output; scrout's buckets are disjoint."""
    parts = {
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens + usage.cache_write_1h_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    return {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens + usage.reasoning_tokens,
        **{name: count for name, count in parts.items() if count},
    }


def error_of(call: BilledCall) -> str:
    """The error of a call that may have been billed; empty: none."""
    if call.status is None:
        return NO_ANSWER
    if not 200 <= call.status < 300:
        return str(call.status)
    return INCOMPLETE if call.said.error else ""
