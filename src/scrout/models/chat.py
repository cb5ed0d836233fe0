"""A client of OpenAI-compatible chat completions. One call returns one reply; no streaming, no prices, no history.

The key is sent in one header and appears in no message: it is removed from error texts, even if the endpoint echoes it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import TracebackType
from typing import Literal

import httpx
from pydantic import JsonValue, ValidationError

from scrout.base import ModelError
from scrout.config.settings import Sampling
from scrout.models.chat_response import Completion, code_of, retry_after_s
from scrout.models.context_overflow import too_long
from scrout.models.proxy.bounds import ENCODINGS, MAX_ANSWER_BYTES, Decompressor, has_too_many_values
from scrout.models.proxy.usage import believable, of_chat
from scrout.models.token_counter import Counter
from scrout.money import Usage

TRIES = 4
GARBLED_TRIES = 2
"""Tries if an endpoint answers 200 without a reply: a gateway's error passes, a wrong address does not."""
RESTART_TRIES = 7
"""Tries if an endpoint that has answered before cannot be reached or says 503: it may be restarting, which takes
a while.
"""
FIRST_WAIT_S = 1.0
RETRY_S = 200.0
"""No retry starts when earlier tries and waits have taken longer."""
CONNECT_TIMEOUT_S = 15.0
KEEP_ALIVE_S = 4.0
"""Servers (uvicorn, llama.cpp) close idle connections after 5 seconds; a request sent at that moment is lost."""
TOO_LONG = f"the answer is longer than {MAX_ANSWER_BYTES:,} bytes"
MAX_EXCERPT = 300
"""Characters of an endpoint's answer to quote in an error message."""
ENDPOINTS_OWN = Sampling()

NEXT_STEPS = {
    400: "The endpoint does not accept this request; check the model's name and what it supports.",
    401: "Check the key in key_env.",
    403: "The key in key_env may not use this model.",
    404: "Check base_url and model.",
    429: "The endpoint limits the rate; run fewer attempts at once or try later.",
}
PASSING = frozenset({408, 429})
MeterStop = Literal["cap_calls", "cap_usd", "endpoint"]
METER_STOPS: dict[str, MeterStop] = {"cap_calls": "cap_calls", "cap_usd": "cap_usd", "endpoint": "endpoint"}
STOP_HEADER = "x-scrout-stop"
"""Why the meter refuses a call. The meter forwards no header of this name from an endpoint."""
LOST_BEHIND_A_GATEWAY = frozenset({502, 504, 520, 524})
"""A gateway got no answer, but the model behind it may have finished one.

With 429, 500, 503 or 529, the server itself says that it gave no answer, and no provider bills that.
"""


class RequestRejected(ModelError):
    """No reply was generated, so nothing was billed. After any other ModelError, a call may have been billed."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Status of the HTTP answer, or the error code in an answer with status 200; None: neither."""


class CallRefused(Exception):
    """The meter refuses the call: its account is at a cap, or the endpoint has refused permanently.

    Callers handle this; users never see it.
    """

    def __init__(self, stop: MeterStop, detail: str) -> None:
        super().__init__(detail)
        self.stop: MeterStop = stop


class Overflow(RequestRejected):
    """The request is too long for the model; a shorter one may succeed."""


@dataclass(frozen=True)
class Tool:
    """A function the model may call."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    """JSON Schema of the arguments."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool by the model."""

    id: str
    name: str
    arguments: str
    """As the model wrote them; may be invalid JSON."""


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Assistant only."""
    call_id: str = ""
    """Tool only: the call that this message answers."""


@dataclass(frozen=True)
class Reply:
    """The result of one call."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage | None
    """None: the endpoint reported none that is plausible."""
    finish_reason: str
    model: str
    """The model that answered, as the endpoint names it."""
    reasoning: str = ""
    """The reasoning, if the endpoint separates it."""
    answer: bytes = field(default=b"", repr=False, compare=False)
    """The complete JSON: some servers send more than the protocol has."""


@dataclass(frozen=True)
class _Fault:
    """A failed try."""

    error: ModelError
    tries: int = 1
    """Maximum number of tries, including this one."""
    wait_s: float | None = None
    """The wait that the endpoint requests."""


class Chat:
    """One model at one endpoint. Connections stay open until `aclose` or the end of an `async with`.

    Safe for concurrent use within one event loop.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str | None,
        timeout_s: float = 300,
        *,
        sampling: Sampling = ENDPOINTS_OWN,
        cache_salt: str = "",
        effort: str = "",
        extra: Mapping[str, JsonValue] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.timeout_s = timeout_s
        """For one try, from the connection to the last byte."""
        self.sampling = sampling
        self.cache_salt = cache_salt
        self.effort = effort
        """The reasoning effort, in the endpoint's own word; empty: not sent, because some endpoints refuse the key
        itself.
        """
        self.extra = extra or {}
        """More keys of each request."""
        self._key = key
        self._transport = transport
        self._sleep = sleep
        self._client: httpx.AsyncClient | None = None
        self._counter = Counter(self._ask)
        self._answered = False

    async def __aenter__(self) -> Chat:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def encode(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        max_tokens: int,
        schema: Mapping[str, JsonValue] | None = None,
    ) -> bytes:
        """The request's body as it is sent; its size limits the possible cost of the input."""
        body = self._prompt((), tools)
        body["max_tokens"] = max_tokens
        body |= self.sampling.model_dump(mode="json", exclude_defaults=True)
        if self.cache_salt:
            body["cache_salt"] = self.cache_salt
        if self.effort:
            body["reasoning_effort"] = self.effort
        if schema is not None:
            form: JsonValue = {"name": "reply", "schema": dict(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        body |= self.extra
        del body["messages"]
        # Each message is serialized once, not again in every later turn.
        said = b", ".join(map(_message_bytes, messages))
        return _encode(body).removesuffix(b"}") + b', "messages": [' + said + b"]}"

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        max_tokens: int,
        *,
        schema: Mapping[str, JsonValue] | None = None,
    ) -> Reply:
        """Request a reply, with limited retries of temporary failures: rate limits, server errors, dropped connections.

        `schema` is a JSON Schema for the reply, if the endpoint supports it. Raises CallRefused if a meter refuses the
        call; if it refuses a retry, the failure before it is raised.
        """
        url, headers = self._target("chat/completions")
        body = self.encode(messages, tools, max_tokens, schema)
        tried, spent_s = 0, 0.0
        failed: ModelError | None = None
        while True:
            started = time.monotonic()
            try:
                outcome = await self._try(url, headers, body)
            except CallRefused:
                if failed is None:
                    raise
                raise failed from None
            if isinstance(outcome, Reply):
                self._answered = True
                return outcome
            wait_s = outcome.wait_s or FIRST_WAIT_S * 2**tried * random.uniform(0.5, 1)
            tried += 1
            spent_s += time.monotonic() - started + wait_s
            if tried >= outcome.tries or spent_s > RETRY_S:
                raise outcome.error
            failed = outcome.error
            await self._sleep(wait_s)

    async def count(self, messages: Sequence[Message], tools: Sequence[Tool]) -> int | None:
        """Tokens of this prompt, counted by the server's tokenizer and template; None: not offered, or no answer."""
        return await self._counter.count(self._prompt(messages, tools)) if self._counter.can else None

    def _prompt(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JsonValue]:
        prompt: dict[str, JsonValue] = {
            "model": self.model,
            "messages": [message_json(message) for message in messages],
        }
        if tools:
            prompt["tools"] = [tool_json(tool) for tool in tools]
        return prompt

    async def _try(self, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> Reply | _Fault:
        try:
            # A read timeout alone would let a server send single bytes forever.
            async with (
                asyncio.timeout(self.timeout_s),
                self._open().stream("POST", url, content=body, headers=headers) as response,
            ):
                answer = await read_body(response)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            what = f"the connection failed ({type(error).__name__})"
            return _Fault(self._refused(what, "Is it running?"), self._patience())
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            what = f"the connection was lost ({type(error).__name__})"
            return _Fault(self._error(what, "Is it running?"), TRIES)
        except (TimeoutError, httpx.TimeoutException):
            return _Fault(self._error(f"no whole answer within {self.timeout_s:g} s", "Is it overloaded?"))
        except httpx.DecodingError:
            return _Fault(self._error("the answer cannot be decompressed", "Try again."), GARBLED_TRIES)
        except httpx.HTTPError as error:
            return _Fault(self._refused(f"the request failed ({type(error).__name__})", "Check base_url."))
        if answer is None:
            return _Fault(self._error(TOO_LONG, "Does it keep to max_tokens?"))
        if stop := METER_STOPS.get(response.headers.get(STOP_HEADER, "")):
            raise CallRefused(stop, answer.decode())
        if response.status_code == 200:
            return self._reply(answer)
        status, said = response.status_code, answer.decode("utf-8", "replace")
        return self._failed(f"status {status}", status, said, response.headers.get("retry-after", ""))

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                transport=self._transport,
                verify=certificates() if self._transport is None else False,
                timeout=httpx.Timeout(None, connect=min(CONNECT_TIMEOUT_S, self.timeout_s)),
                limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
            )
        return self._client

    async def _ask(self, path: str, body: Mapping[str, JsonValue]) -> JsonValue:
        """The server's answer to a request below its root, outside of the common protocol; None: it refuses."""
        url, headers = self._target(path, root=True)
        async with self._open().stream("POST", url, content=_encode(body), headers=headers) as response:
            read = await read_body(response)
        if read is None or has_too_many_values(read):
            raise self._refused(TOO_LONG, "Check base_url.")
        if response.status_code >= 500:
            raise self._refused(f"status {response.status_code}", "Try later.")
        answer: JsonValue = json.loads(read) if response.status_code == 200 else None
        return answer

    def _target(self, path: str, *, root: bool = False) -> tuple[httpx.URL, dict[str, str]]:
        try:
            url = httpx.URL(self.base_url)
            base = url.path.rstrip("/").removesuffix("/v1" if root else "")
            url = url.copy_with(path=f"{base}/{path}")
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            raise self._refused("base_url is not an http(s) URL", "Write it like http://127.0.0.1:8000/v1.")
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if self._key is not None:
            # The HTTP library quotes a header that it rejects, including the key, so it must never see an invalid one.
            if not self._key or not all("!" <= character <= "~" for character in self._key):
                raise self._refused(
                    "the key is empty or contains characters that an HTTP header cannot carry", "Export it again."
                )
            headers["authorization"] = f"Bearer {self._key}"
        return url, headers

    def _reply(self, answer: bytes) -> Reply | _Fault:
        """The reply in an answer with status 200."""
        if has_too_many_values(answer):
            return _Fault(self._error("status 200 with more values than a reply has", "Check base_url."))
        said = answer.decode("utf-8", "replace")
        try:
            completion = Completion.model_validate_json(answer)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            what = f"status 200, but the answer is no chat completion ({where + ': ' if where else ''}{problem['msg']})"
            return _Fault(self._error(what, "Is base_url a chat completions endpoint?", said), GARBLED_TRIES)
        if completion.error or completion.object == "error":
            return self._failed("status 200 with an error", code_of(completion.error), str(completion.error or said))
        if not completion.choices:
            return _Fault(self._error("status 200 with no choice in the answer", "Try again.", said), GARBLED_TRIES)
        choice = completion.choices[0]
        message = choice.message
        text = message.content or ""
        calls = tuple(
            ToolCall(call.id or f"call_{number}", call.function.name, call.function.arguments)
            for number, call in enumerate(message.tool_calls or ())
        )
        thoughts = (message.reasoning_content, message.reasoning)
        reasoning = next((thought for thought in thoughts if isinstance(thought, str)), "")
        usage = believable(of_chat(completion.usage), wrote=bool(text or calls or reasoning))
        # A model may stop after reasoning without any text, and its tokens are counted; a reply without either is a
        # fault.
        if not text and not calls and not reasoning and not (usage and usage.output_tokens):
            return _Fault(self._error("status 200 with an empty reply", "Try again.", said), GARBLED_TRIES)
        named = completion.model or self.model
        return Reply(text, calls, usage, choice.finish_reason or "", named, reasoning, answer)

    def _failed(self, what: str, status: int | None, said: str, retry_after: str = "") -> _Fault:
        """The kind of failure in an error answer: too long, temporary, or final."""
        if too_long(status, said):
            return _Fault(Overflow(self._explain(what, "The request is too long for the model.", said), status))
        if status is None:
            return _Fault(self._refused(what, "See the endpoint's message.", said), GARBLED_TRIES)
        next_step = NEXT_STEPS.get(status, "Try later." if status >= 500 else "Check base_url.")
        if status in LOST_BEHIND_A_GATEWAY:
            return _Fault(self._error(what, next_step, said), TRIES, retry_after_s(retry_after))
        tries = self._patience() if status == 503 else TRIES if status in PASSING or status >= 500 else 1
        return _Fault(self._refused(what, next_step, said, status), tries, retry_after_s(retry_after))

    def _patience(self) -> int:
        return RESTART_TRIES if self._answered else TRIES

    def _refused(self, what: str, next_step: str, answer: str = "", status: int | None = None) -> RequestRejected:
        return RequestRejected(self._explain(what, next_step, answer), status)

    def _error(self, what: str, next_step: str, answer: str = "") -> ModelError:
        return ModelError(self._explain(what, next_step, answer))

    def _explain(self, what: str, next_step: str, answer: str) -> str:
        for secret in secrets_of(self.base_url, self._key):
            answer = answer.replace(secret, "[key]")
        answer = answer[: 4 * MAX_EXCERPT]
        quote = " ".join("".join(c if c.isprintable() else " " for c in answer).split())[:MAX_EXCERPT]
        return f"{self.model} at {shown(self.base_url)}: {what}. {next_step}" + (f" It said: {quote}" if quote else "")


async def read_body(response: httpx.Response) -> bytes | None:
    """The body; None: it is too long. Not read by the library, which decompresses without a limit."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in (*ENCODINGS, "identity"):
        raise httpx.DecodingError(f"encoding {encoding[:40]!r}")
    decompressor = None if encoding == "identity" else Decompressor()
    body = bytearray()
    assert isinstance(response.stream, httpx.AsyncByteStream)
    async for data in response.stream:
        try:
            for piece in decompressor.pieces(data) if decompressor else (data,):
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    return None
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error
    return bytes(body)


def _encode(body: Mapping[str, JsonValue]) -> bytes:
    # Command output may contain lone surrogates, which have no UTF-8 bytes.
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


@cache
def certificates() -> ssl.SSLContext:
    """Loading them takes about 100 ms, so once per process."""
    return httpx.create_ssl_context()


@lru_cache(maxsize=4096)
def _message_bytes(message: Message) -> bytes:
    return _encode(message_json(message))


def message_json(message: Message, *, parsed: bool = False) -> dict[str, JsonValue]:
    """A message in the protocol's form. `parsed`: a call's arguments as an object, as chat templates need them."""
    wire: dict[str, JsonValue] = {"role": message.role, "content": message.content}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _name(call.name),
                    "arguments": json.loads(_object(call.arguments)) if parsed else _object(call.arguments),
                },
            }
            for call in message.calls
        ]
    if message.role == "tool":
        wire["tool_call_id"] = message.call_id
    return wire


def tool_json(tool: Tool) -> dict[str, JsonValue]:
    """A tool in the protocol's form."""
    function: JsonValue = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


# Endpoints reject a history with a malformed call, and would be blamed for the model's mistake.
def _name(name: str) -> str:
    """A function's name, with forbidden characters replaced."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"


def _object(arguments: str) -> str:
    """The arguments, wrapped if they are not a JSON object."""
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"malformed": arguments})


def secrets_of(base_url: str, key: str | None) -> tuple[str, ...]:
    """An endpoint's key and the secrets in its URL; longest first, because one may contain another."""
    try:
        url = httpx.URL(base_url)
        carried = {value for value in (url.username, url.password, *url.params.values()) if len(value) > 3}
    except httpx.InvalidURL:
        carried = set()
    return tuple(sorted(carried | ({key} if key else set()), key=len, reverse=True))


def shown(base_url: str) -> str:
    """The endpoint's URL without secrets."""
    try:
        return str(httpx.URL(base_url).copy_with(userinfo=b"", query=None, fragment=None))
    except httpx.InvalidURL:
        return "its endpoint"
