"""The trace of an episode: all that came in from outside, line by line, and the same episode again from it.

One JSON document a line: a header, then each HTTP exchange and each tool's answer in their order, what the searcher
left in its workspace, and the result. A line is written before the episode goes on, so one that was killed leaves a
trace that can be read. No header of a request is ever written, and secrets are cut out of what comes in before anybody
sees it: model, trace and replay all get the same text.

A replay asks nobody. Each request must be, byte for byte, the recorded one; what does not follow is a TaskError.
"""

from __future__ import annotations

import asyncio
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import httpx
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from scrout import __version__
from scrout.agent.dialect import Toolbox, ToolUse
from scrout.agent.tools import drop_middle
from scrout.base import ConfigError, FrozenModel, TaskError
from scrout.config.settings import SearcherSettings
from scrout.files import LineFile
from scrout.models.chat import STOP_HEADER, Tool, secrets_of
from scrout.models.proxy.bounds import MAX_ANSWER_BYTES
from scrout.records import Scouting
from scrout.redact import redact, redact_json
from scrout.scout.prompts import Prompts

FILE_NAME = "trace.jsonl"
MAX_TRACE_BYTES = 500_000_000
MAX_SECRET_CHARS = 4_000
CUT_OFF = "CancelledError"
"""The error of an exchange that was given up waiting for."""

_KEPT_HEADERS = ("content-type", "retry-after", STOP_HEADER)


class ToolSpec(FrozenModel):
    """A tool as the model was offered it."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


class EpisodeHeader(FrozenModel):
    """What an episode starts from."""

    kind: Literal["header"] = "header"
    format: Literal[1] = 1
    scrout: str = __version__
    python: str = Field(default_factory=platform.python_version)
    task_id: str
    base_commit: str
    root: str
    """Where the searcher saw the repository."""
    issue: str
    language: str = ""
    """Which most of the repository is in; empty: no prompt asks."""
    shortlist: str = ""
    settings: SearcherSettings
    """With the seed that was drawn."""
    salt: str
    prompts: Prompts
    prompts_digest: str
    tools: tuple[ToolSpec, ...]
    checkpoint: str = ""
    """Digest of the weights, where the settings name them."""
    metered: bool = True
    """Whether its calls passed the meter: those of earlier versions did only where they cost money."""

    def offered(self) -> tuple[Tool, ...]:
        return tuple(Tool(tool.name, tool.description, tool.parameters) for tool in self.tools)


class Exchange(FrozenModel):
    """One HTTP request and what came back."""

    kind: Literal["http"] = "http"
    method: str
    path: str
    request: str
    status: int | None = None
    """None: there was no answer."""
    headers: dict[str, str] = Field(default_factory=dict)
    response: str = ""
    error: str = ""
    """The class of what the transport raised; empty: there was an answer."""
    seconds: float


class ToolRecord(FrozenModel):
    """One call of a tool and its answer."""

    kind: Literal["tool"] = "tool"
    name: str
    arguments: str
    """As JSON."""
    answer: str
    seconds: float


class LeftFiles(FrozenModel):
    """What the searcher left in its workspace."""

    kind: Literal["left"] = "left"
    files: dict[str, str] = Field(default_factory=dict)
    """New ones that its reproduction needs."""
    changed: tuple[str, ...] = ()
    """Files of the repository that are not as they were."""


class EpisodeEnd(FrozenModel):
    """The last line of an episode that came to its end."""

    kind: Literal["end"] = "end"
    scouting: Scouting


Line = Annotated[EpisodeHeader | Exchange | ToolRecord | LeftFiles | EpisodeEnd, Field(discriminator="kind")]
_LINE: TypeAdapter[EpisodeHeader | Exchange | ToolRecord | LeftFiles | EpisodeEnd] = TypeAdapter(Line)


class TraceOver(Exception):
    """The trace holds nothing further. Control flow of a replay, not an error."""


class Trace(LineFile):
    """One that is being written."""

    def __init__(self, path: Path) -> None:
        self.secrets: tuple[str, ...] = ()
        """The endpoint's own, once it is known: cut out of all that comes in."""
        try:
            super().__init__(path)
        except OSError as error:
            raise ConfigError(
                f"the trace {path} cannot be written: {error.strerror}. Point XDG_DATA_HOME at a folder of yours."
            ) from None

    def write(self, line: EpisodeHeader | Exchange | ToolRecord | LeftFiles | EpisodeEnd) -> None:
        self.write_line(json.dumps(line.model_dump(mode="json"), ensure_ascii=False))

    def transport(self, base_url: str, key: str | None, way: httpx.AsyncBaseTransport) -> RecordingTransport:
        """The way to one endpoint, each exchange written down."""
        self.secrets = secrets_of(base_url, key)
        return RecordingTransport(self, way)

    def toolbox(
        self, inner: Toolbox, most_chars: int, told: Callable[[ToolUse], None] = lambda call: None
    ) -> RecordedTools:
        return RecordedTools(self, inner, most_chars, told)


class RecordingTransport(httpx.AsyncBaseTransport):
    """The way to an endpoint, each exchange written down."""

    def __init__(self, trace: Trace, way: httpx.AsyncBaseTransport) -> None:
        self._trace = trace
        self._way = httpx.AsyncClient(transport=way)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = (await request.aread()).decode("utf-8", "replace")
        secrets = self._trace.secrets
        started = time.monotonic()

        def write(response: httpx.Response | None, text: str = "", error: str = "") -> None:
            self._trace.write(
                Exchange(
                    method=request.method,
                    path=redact(request.url.path, secrets),
                    request=body,
                    status=None if response is None else response.status_code,
                    headers={} if response is None else _kept(response.headers, secrets),
                    response=text,
                    error=error,
                    seconds=round(time.monotonic() - started, 3),
                )
            )

        try:
            response = await self._way.send(request, stream=True)
            raw = bytearray()
            try:
                async for chunk in response.aiter_bytes():
                    raw += chunk
                    if len(raw) > MAX_ANSWER_BYTES:
                        break  # and the client refuses it
            finally:
                await response.aclose()
        except (httpx.HTTPError, asyncio.CancelledError) as error:
            write(None, error=type(error).__name__)
            raise
        text = clean_body(raw.decode("utf-8", "replace"), secrets)
        write(response, text)
        return _answer(response.status_code, _kept(response.headers, secrets), text, request)

    async def aclose(self) -> None:
        await self._way.aclose()


class RecordedTools:
    """A toolbox, each answer cleaned, clipped and written down."""

    def __init__(self, trace: Trace, inner: Toolbox, most_chars: int, told: Callable[[ToolUse], None]) -> None:
        self.tools = inner.tools
        self._trace = trace
        self._inner = inner
        self._most_chars = most_chars
        self._told = told

    async def use(self, call: ToolUse) -> str:
        self._told(call)
        started = time.monotonic()
        secrets = self._trace.secrets
        answer = _cleaned_ends(await self._inner.use(call), self._most_chars, secrets)
        seconds = round(time.monotonic() - started, 3)
        arguments = redact(_json(call), secrets)
        self._trace.write(ToolRecord(name=_plain(call.name), arguments=arguments, answer=answer, seconds=seconds))
        return answer


class Recorded:
    """A trace that was read, as the outside world of one more episode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = _read(path)
        if not lines or not isinstance(lines[0], EpisodeHeader):
            raise TaskError(f"{path} does not start as a trace of scrout does. Pass a {FILE_NAME}.")
        self.header = lines[0]
        self.left = next((line for line in lines if isinstance(line, LeftFiles)), None)
        self.end = next((line for line in lines if isinstance(line, EpisodeEnd)), None)
        self._events = [line for line in lines if isinstance(line, Exchange | ToolRecord)]
        self._next = 0

    @property
    def told(self) -> int:
        """How many exchanges and answers of tools were given back."""
        return self._next

    def take(self) -> Exchange | ToolRecord:
        if self._next >= len(self._events):
            raise TraceOver
        self._next += 1
        return self._events[self._next - 1]

    def differs(self, recorded: str, now: str) -> TaskError:
        """What to say where the event that was taken last is not the one that this episode comes to."""
        event = self._events[self._next - 1]
        alike = [other for other in self._events[: self._next] if other.kind == event.kind]
        pairs = enumerate(zip(recorded, now, strict=False))
        at = next((place for place, (one, other) in pairs if one != other), min(len(recorded), len(now)))
        return TaskError(
            f"{self.path}, line {self._next + 1}: {'request' if event.kind == 'http' else 'call'} {len(alike)} differs "
            f"from what this episode gives, at character {at}: {recorded[at : at + 40]!r} was recorded, now it is "
            f"{now[at : at + 40]!r}. The trace was changed, or this scrout ({__version__}) works otherwise than the "
            f"one that made it ({self.header.scrout})."
        )

    @property
    def is_over(self) -> bool:
        return self._next >= len(self._events)

    def require_over(self) -> None:
        """For an episode that has come to its end: a TaskError where the trace has more to tell."""
        if not self.is_over:
            raise TaskError(
                f"{self.path}, line {self._next + 2}: the episode is over after {self._next} requests and calls, and "
                f"{len(self._events)} were recorded. The trace was changed, or this scrout ({__version__}) works "
                f"otherwise than the one that made it ({self.header.scrout})."
            )


class ReplayedTransport(httpx.AsyncBaseTransport):
    """Answers each request from a trace."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = (await request.aread()).decode("utf-8", "replace")
        event = self._recorded.take()
        where = f"{request.method} {redact(request.url.path)}"
        if isinstance(event, ToolRecord):
            raise self._recorded.differs(f"the tool {event.name}", where)
        if f"{event.method} {redact(event.path)}" != where:
            raise self._recorded.differs(f"{event.method} {event.path}", where)
        if event.request != body:
            raise self._recorded.differs(event.request, body)
        if event.error == CUT_OFF:
            if self._recorded.is_over:
                raise TraceOver
            raise httpx.ReadTimeout("given up", request=request)
        if event.error:
            raise _request_error(event.error)("as recorded", request=request)
        return _answer(event.status or 0, event.headers, event.response, request)


class ReplayedTools:
    """Answers each call from a trace."""

    def __init__(self, recorded: Recorded) -> None:
        self.tools = recorded.header.offered()
        self._recorded = recorded

    async def use(self, call: ToolUse) -> str:
        event = self._recorded.take()
        if isinstance(event, Exchange):
            raise self._recorded.differs(f"{event.method} {event.path}", f"the tool {call.name}")
        if event.name != _plain(call.name):
            raise self._recorded.differs(event.name, _plain(call.name))
        # As it is first: what is a secret here may have been none there.
        if event.arguments not in (_json(call), redact(_json(call))):
            raise self._recorded.differs(event.arguments, _json(call))
        return event.answer


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """A text from outside as it may go on: Unicode, and without secrets."""
    return redact(_plain(text), secrets)


def _cleaned_ends(text: str, most_chars: int, secrets: Iterable[str] = ()) -> str:
    """The first and the last of a text, without secrets. What is cut anyway is not looked at, save close to the cut,
    where half a secret could be left; and all of it where others cut out would move such a half into sight."""
    end = most_chars // 2 + MAX_SECRET_CHARS
    if len(text) > 2 * end:
        head, tail = clean(text[:end], secrets), clean(text[-end:], secrets)
        if len(head) == len(tail) == end:
            return drop_middle(head + " " * (len(text) - 2 * end) + tail, most_chars)
    return drop_middle(clean(text, secrets), most_chars)


def clean_body(text: str, secrets: Iterable[str] = ()) -> str:
    """The same for the body of an HTTP answer; one that holds no secret stays byte for byte."""
    try:
        document = json.loads(text)
        plain, scrubbed = json.dumps(document), redact_json(text, secrets)
    except (ValueError, RecursionError):
        return redact(text, secrets)
    return text if plain == scrubbed else scrubbed


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _json(call: ToolUse) -> str:
    return json.dumps(dict(call.arguments), sort_keys=True)


def _kept(headers: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """The headers that matter. ASCII: the HTTP library takes no other text for one, even where it was sent one."""
    return {
        name: redact(headers[name], secrets)[:200].encode("ascii", "replace").decode()
        for name in _KEPT_HEADERS
        if name in headers
    }


def _answer(status: int, headers: Mapping[str, str], text: str, request: httpx.Request) -> httpx.Response:
    return httpx.Response(status, headers=_kept(headers), content=text.encode(), request=request)


def _request_error(name: str) -> type[httpx.RequestError]:
    kind = getattr(httpx, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, httpx.RequestError) else httpx.ReadError


def _read(path: Path) -> list[EpisodeHeader | Exchange | ToolRecord | LeftFiles | EpisodeEnd]:
    """Every whole line; the last one may have been cut off by a kill."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise TaskError(f"the trace {path}: {error.strerror}. Check the path.") from None
    if len(raw) > MAX_TRACE_BYTES:
        raise TaskError(f"the trace {path} has more than {MAX_TRACE_BYTES:,} bytes. Pass one that scrout wrote.")
    *whole, _ = raw.split(b"\n")
    lines = []
    for number, line in enumerate(whole, 1):
        try:
            lines.append(_LINE.validate_json(line))
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            raise TaskError(
                f"{path}, line {number}: {problem['msg']}. The trace was changed, or another scrout wrote it."
            ) from None
    return lines
