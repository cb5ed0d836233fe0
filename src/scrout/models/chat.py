"""A client of OpenAI-compatible chat completions. One call in, one reply out; no streaming, no money, no memory.

What an endpoint answers is parsed here and nowhere else. The key goes into one header and into no message: error texts
have it cut out, even where the endpoint echoes it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import httpx
from pydantic import BaseModel, Field, JsonValue, ValidationError

from scrout.errors import ModelError
from scrout.money import Usage

TRIES = 4
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 60.0
CONNECT_TIMEOUT_S = 15.0
MAX_EXCERPT = 300
"""Characters of an endpoint's answer that an error message quotes."""

NEXT_STEPS = {
    400: "The endpoint does not accept this request; check the model's name and what it supports.",
    401: "Check the key in the fixer's key_env.",
    403: "The key in the fixer's key_env may not use this model.",
    404: "Check the fixer's base_url and model.",
    429: "The endpoint limits the rate; run fewer attempts at once or try later.",
}
LOST_BEHIND_A_GATEWAY = frozenset({502, 504, 520, 524})
"""A gateway got no answer, and the model behind it may have finished one. With 429, 500, 503 or 529 it is the server
itself that says it gave none, and no provider bills that."""


class Refused(ModelError):
    """No reply was generated, so nothing was billed. Any other ModelError may hide a call that was."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Of the HTTP answer; None: there was none, or it said 200."""


@dataclass(frozen=True)
class Tool:
    """A function the model may call."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    """JSON Schema of the arguments."""


@dataclass(frozen=True)
class ToolCall:
    """What the model wants run."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: JSON, one hopes."""


@dataclass(frozen=True)
class Message:
    """One entry of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Assistant only."""
    call_id: str = ""
    """Tool only: the call this answers."""


@dataclass(frozen=True)
class Reply:
    """What one call gave."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage | None
    """None: the endpoint reported none that can be true."""
    finish_reason: str
    model: str
    """As the endpoint names what answered."""


class Chat:
    """One model at one endpoint."""

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str | None,
        timeout_s: float = 300,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.timeout_s = timeout_s
        self._key = key
        self._transport = transport
        self._sleep = sleep

    def encode(self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int) -> bytes:
        """The request's body, as it is sent; its size bounds what the input can cost."""
        body: dict[str, object] = {
            "model": self.model,
            "messages": [_message_json(message) for message in messages],
            "max_tokens": max_tokens,
        }
        if tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
                }
                for t in tools
            ]
        # Command output may hold lone surrogates, which UTF-8 has no bytes for.
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        max_tokens: int,
        again: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """One reply, after bounded retries of what may pass: rate limits, server errors, dropped connections.

        `again` is asked before a retry where the try before it may have been billed, and may decline.
        """
        url, headers = self._target()
        body = self.encode(messages, tools, max_tokens)
        timeout = httpx.Timeout(self.timeout_s, connect=min(CONNECT_TIMEOUT_S, self.timeout_s))
        async with httpx.AsyncClient(timeout=timeout, transport=self._transport) as client:
            for left in reversed(range(TRIES)):
                failure: ModelError
                wait_s = FIRST_WAIT_S * 2 ** (TRIES - 1 - left) * random.uniform(0.5, 1)
                try:
                    response = await client.post(url, content=body, headers=headers)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    failure = self._refused(f"the connection failed ({type(error).__name__})", "Is it running?")
                except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                    failure = self._error(f"the connection was lost ({type(error).__name__})", "Is it running?")
                except httpx.TimeoutException:
                    raise self._error(f"no answer within {self.timeout_s:g} s", "Is it overloaded?") from None
                except httpx.DecodingError:
                    raise self._error("the answer cannot be decompressed", "Try again.") from None
                except httpx.HTTPError as error:
                    raise self._refused(f"the request failed ({type(error).__name__})", "Check base_url.") from None
                else:
                    status = response.status_code
                    if status == 200:
                        return self._reply(response)
                    next_step = NEXT_STEPS.get(status, "Try later." if status >= 500 else "Check base_url.")
                    if status in LOST_BEHIND_A_GATEWAY:
                        failure = self._error(f"status {status}", next_step, response.text)
                    else:
                        failure = self._refused(f"status {status}", next_step, response.text, status)
                    if status != 429 and status < 500:
                        raise failure
                    wait_s = _retry_after_s(response.headers.get("retry-after", "")) or wait_s
                if left:
                    await self._sleep(wait_s)
                    if not isinstance(failure, Refused) and not again():
                        break
        raise failure

    def _target(self) -> tuple[httpx.URL, dict[str, str]]:
        try:
            url = httpx.URL(self.base_url.rstrip("/") + "/chat/completions")
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            raise self._refused("base_url is no http(s) URL", "Write it like http://127.0.0.1:8000/v1.")
        headers = {"content-type": "application/json"}
        if self._key is not None:
            # The HTTP library quotes a header it rejects, key and all, so it must never get to see a bad one.
            if not self._key or not all("!" <= character <= "~" for character in self._key):
                raise self._refused("the key is empty or holds characters no header can carry", "Export it again.")
            headers["authorization"] = f"Bearer {self._key}"
        return url, headers

    def _reply(self, response: httpx.Response) -> Reply:
        try:
            completion = _Completion.model_validate_json(response.content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            what = f"status 200, but the answer is no chat completion ({where + ': ' if where else ''}{problem['msg']})"
            raise self._error(what, "Is base_url a chat completions endpoint?", response.text) from None
        if completion.error is not None:
            raise self._refused("status 200 with an error", "See the endpoint's message.", str(completion.error))
        if not completion.choices:
            raise self._error("status 200 with no choice in the answer", "Try again.", response.text)
        choice = completion.choices[0]
        text = choice.message.content or ""
        calls = tuple(
            ToolCall(call.id or f"call_{number}", call.function.name, call.function.arguments)
            for number, call in enumerate(choice.message.tool_calls or ())
        )
        usage = _usage(completion.usage)
        # A model may stop without a word after it thought, and that has been counted; a reply of nothing is a fault.
        if not text and not calls and not (usage and usage.output_tokens):
            raise self._error("status 200 with an empty reply", "Try again.", response.text)
        return Reply(text, calls, usage, choice.finish_reason or "", completion.model or self.model)

    def _refused(self, what: str, next_step: str, answer: str = "", status: int | None = None) -> Refused:
        return Refused(self._explain(what, next_step, answer), status)

    def _error(self, what: str, next_step: str, answer: str = "") -> ModelError:
        return ModelError(self._explain(what, next_step, answer))

    def _explain(self, what: str, next_step: str, answer: str) -> str:
        if self._key:
            answer = answer.replace(self._key, "[key]")
        quote = " ".join("".join(c if c.isprintable() else " " for c in answer).split())[:MAX_EXCERPT]
        return f"{self.model} at {_shown(self.base_url)}: {what}. {next_step}" + (f" It said: {quote}" if quote else "")


class _Function(BaseModel):
    name: str
    arguments: str = ""


class _Call(BaseModel):
    id: str | None = None
    function: _Function


class _AssistantMessage(BaseModel):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    message: _AssistantMessage
    finish_reason: str | None = None


class _Completion(BaseModel):
    """The wire form. Fields we do not know are the endpoint's business."""

    error: JsonValue = None
    choices: list[_Choice] = []
    usage: JsonValue = None
    model: str | None = None


class _Details(BaseModel):
    cached_tokens: int | None = Field(None, ge=0)


class _WireUsage(BaseModel):
    # No call has an empty prompt: zero means that the endpoint did not count. The upper bound keeps cost a number.
    prompt_tokens: int = Field(gt=0, le=10**9)
    completion_tokens: int = Field(ge=0, le=10**9)
    prompt_tokens_details: _Details | None = None


def _usage(raw: JsonValue) -> Usage | None:
    try:
        wire = _WireUsage.model_validate(raw)
    except ValidationError:
        return None
    cached = (wire.prompt_tokens_details.cached_tokens or 0) if wire.prompt_tokens_details else 0
    cached = min(cached, wire.prompt_tokens)
    return Usage(
        input_tokens=wire.prompt_tokens - cached, cache_read_tokens=cached, output_tokens=wire.completion_tokens
    )


def _message_json(message: Message) -> dict[str, object]:
    wire: dict[str, object] = {"role": message.role, "content": message.content}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _name(call.name), "arguments": _object(call.arguments)},
            }
            for call in message.calls
        ]
    if message.role == "tool":
        wire["tool_call_id"] = message.call_id
    return wire


# Endpoints refuse a history with a malformed call in it, and would be blamed for what the model wrote.
def _name(name: str) -> str:
    """A function's name, with what the protocol forbids in one made harmless."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"


def _object(arguments: str) -> str:
    """The arguments, wrapped where they are no JSON object."""
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"malformed": arguments})


def _retry_after_s(value: str) -> float | None:
    """Seconds that a Retry-After header asks for, capped; None: it asks for none that can be read."""
    try:
        if value.isdecimal():
            seconds = float(value)
        else:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_WAIT_S)


def _shown(base_url: str) -> str:
    """The endpoint without what a URL may carry as a secret."""
    try:
        return str(httpx.URL(base_url).copy_with(userinfo=b"", query=None, fragment=None))
    except httpx.InvalidURL:
        return "its endpoint"
