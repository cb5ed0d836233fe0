"""One attempt's access to its endpoint: a unix socket in place of it, where every call is counted and booked.

Generating requests are reserved, forwarded and settled; requests about models and tokens pass uncounted; all others are
refused, because a batch or a file could cost money that is not counted. A request with a key that may cost more than
tokens is refused too. The endpoint gets the checked content, serialized again, and never the agent's own bytes. The
meter may also lower an output limit, request the usage of a streamed chat completion, and tell an endpoint of the
responses API not to store answers. At a cap, a request is left unanswered and the account's owner gets the stop, so
that the agent never learns about a budget. A caller inside of scrout gets the stop as an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes

import httpx
from pydantic import JsonValue

from scrout.models.chat import MAX_EXCERPT, STOP_HEADER, secrets_of, shown
from scrout.models.proxy import http
from scrout.models.proxy.allowlist import forwarded, refusal
from scrout.models.proxy.apis import (
    APIS,
    CHAT,
    EMBEDDINGS,
    MESSAGES,
    RESPONSES,
    Api,
    Json,
    answers,
    canonical,
    error_body,
    is_cut,
    parse_request,
    pictures,
    tool_references,
    without_cache_control,
)
from scrout.models.proxy.call import ProxiedCall, Sent, unreachable
from scrout.models.proxy.caps import BUILT_IN_TOKENS, Account, CallCaps, CapReached, Prompt, Reservation
from scrout.models.proxy.conversation import unkept
from scrout.models.proxy.rewriting import added, structured
from scrout.models.proxy.stream_redactor import StreamRedactor
from scrout.models.proxy.upstream import ConnectFailed, StreamBroken, StreamingResponse, Upstream
from scrout.redact import MIN_LENGTH
from scrout.trajectory import (
    MAX_BYTES,
    BilledCall,
    ModelRequest,
    RefusedCall,
    ReservedCall,
    Trajectory,
    TrajectoryEnd,
    TrajectoryHeader,
)

MAX_QUERY = 2_000
MAX_BUFFERED = 256_000_000
"""Maximum bytes of one attempt's concurrent requests, which may wait for long: all attempts share the process's
memory.
"""
MAX_TALKS = 256
"""Maximum connections of one attempt: each takes a file descriptor of the shared process."""
MAX_TARGETS = 16
COUNT_TOKENS = ("POST", "messages/count_tokens")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\"';\s]*)", re.IGNORECASE)
_MODELS_QUERY = re.compile(r"((limit|after_id|before_id|client_version|beta)=[A-Za-z0-9._-]*(&|$))*")
_PASSED_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id"})
_MODEL_PATH = re.compile(r"models(/(?!\.+(/|$))[A-Za-z0-9._:@-]+)*")
"""All models or one; a path with `..` could reach other resources that the key opens."""
_UNLIKE = frozenset({"stream", "stream_options", "metadata", "client_metadata", "prompt_cache_key", "user"})
"""Keys that differ between requests and are not part of a prompt."""
_WORDS = ("system", "instructions")

Tell = Callable[[Json], None]


class ProxyEndpoint:
    """One attempt's socket."""

    def __init__(self, account: Account, path: Path, tell: Tell) -> None:
        self.account = account
        self.path = path
        self.meter = CallCaps(account)
        self.fault = ""
        """The last call's error; empty: none."""
        self.fault_status: int | None = None
        """The endpoint's status for it; None: there was no answer."""
        self.fault_own = False
        """Whether the meter refused it."""
        self.silent_s = 0.0
        """How long the endpoint had been silent to a call that was cut off."""
        self.stopped = ""
        self._tell = tell
        # A shorter one, such as `EMPTY` for a server without keys, is a word that answers may contain too.
        secrets = (*secrets_of(account.base_url, account.key), _basic(account.base_url))
        self.secrets = tuple(one for one in secrets if len(one) >= MIN_LENGTH)
        self._trajectory = Trajectory(Path(account.trajectory), self.secrets)
        self._numbers = itertools.count(1)
        # An embedder's account may only embed, and others may only generate.
        self._apis = {EMBEDDINGS.path: EMBEDDINGS} if account.component == "route" else APIS
        self._targets: dict[tuple[str, str], str] = {}
        self._last: tuple[list[JsonValue], Json] = ([], {})
        self.limit_key = ""
        """The endpoint's name for an output limit; empty: the API's."""
        self.buffered = 0
        """Bytes of requests that are being read or in progress."""
        self._settled = asyncio.Event()
        """Events that are set when the next call ends, one per waiter."""
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        terms = self.account
        _check(terms.base_url)
        self._trajectory.write(
            TrajectoryHeader(
                component=terms.component,
                fixer=terms.fixer,
                model=terms.model,
                endpoint=shown(terms.base_url),
                price=terms.price,
                cap_usd=terms.cap_usd,
                cap_calls=terms.cap_calls,
                rule=terms.rule,
            )
        )
        self._server = await asyncio.start_unix_server(self._connected, str(self.path))
        # Only the owner can access the folder; a sandbox that mounts the socket runs as another user.
        self.path.chmod(0o666)

    async def close(self) -> None:
        """Accept no more calls; those in progress are cut off and booked at their reservation."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        stop, _, detail = self.stopped.partition(":")
        with contextlib.suppress(OSError):
            self._trajectory.write(TrajectoryEnd(stop=stop, detail=detail))
        self._trajectory.close()
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.meter.remember()

    def summary(self) -> Json:
        """The final information for the account's owner."""
        return {
            "kind": "closed",
            "fault": self.fault,
            "status": self.fault_status,
            "own": self.fault_own,
            "silent_s": self.silent_s,
        }

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._talks) >= MAX_TALKS:
            writer.close()
            return
        talk = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, room = Upstream(self.account.base_url), SharedState(self)
        try:
            while not writer.is_closing():
                asked = await http.read(reader, writer, room.take)
                await self._answer(asked, upstream, reader, writer)
                room.give_back()
                await writer.drain()
                if asked.last:
                    break
        except http.BadRequest as error:
            writer.write(http.whole(error.status, b"{}"))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            room.give_back()
            writer.close()
            upstream.close()

    async def _answer(
        self, asked: http.HttpRequest, upstream: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path, _, query = asked.path.partition("?")
        if len(query) > MAX_QUERY:
            raise http.BadRequest(414)
        below = path.removeprefix("/v1").strip("/")
        api = self._apis.get(below) if asked.method == "POST" else None
        if api is not None:
            await self._generate(api, asked, query, upstream, reader, writer)
        elif (asked.method, below) == COUNT_TOKENS:
            await self._count_tokens(asked, query, upstream, writer)
        elif asked.method == "GET" and _MODEL_PATH.fullmatch(below) and _MODELS_QUERY.fullmatch(query):
            await self._question("GET", self._target(below, query), self._headers(asked, None), b"", upstream, writer)
        else:
            missing = error_body(CHAT, f"no such path: {asked.method} {path[:200]}", "not_found_error")
            answer = http.whole(404, json.dumps(missing).encode())
            writer.write(answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if asked.method == "HEAD" else answer)

    async def _count_tokens(
        self, asked: http.HttpRequest, query: str, upstream: Upstream, writer: asyncio.StreamWriter
    ) -> None:
        request = self._read(MESSAGES, asked, query, writer)
        if request is not None:
            target, headers = self._target(COUNT_TOKENS[1], query), self._headers(asked, MESSAGES)
            await self._question("POST", target, headers, canonical(request), upstream, writer)

    async def _question(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        upstream: Upstream,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Forward it without counting."""
        try:
            answer = await upstream.ask(method, target, headers, body)
            told = await answer.rest()
        except (ConnectFailed, StreamBroken) as error:
            writer.write(unreachable(CHAT, str(error)))
            return
        writer.write(http.whole(answer.status, self.keyless(told), self.passed(answer)))

    async def _generate(
        self,
        api: Api,
        asked: http.HttpRequest,
        query: str,
        upstream: Upstream,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        request = self._read(api, asked, query, writer)
        if request is None:
            return
        request = (unkept(request) if api is RESPONSES else request) | self.account.extra
        sent = Sent(canonical(request), request)
        target, headers = self._target(api.path, query), self._headers(asked, api)
        prompt = _prompt(api, sent)
        hold = await self._admit(prompt, api.limit(sent.request), answers(sent.request), reader)
        if hold is None:
            if self.stopped:
                self._refuse(writer)
            writer.close()
            return
        try:
            await ProxiedCall(self, api, next(self._numbers), hold, prompt, sent, writer).run(upstream, target, headers)
        finally:
            self._settled.set()
            self._settled = asyncio.Event()

    def _read(self, api: Api, asked: http.HttpRequest, query: str, writer: asyncio.StreamWriter) -> Json | None:
        """Read and check a request; None: it was refused, and the sender has the reason."""
        request = parse_request(asked.body)
        if not _is_plain(asked.headers):
            why, status = "the body must be JSON in UTF-8 without a content-encoding", 415
        elif request is None:
            why, status = "the body must be a JSON object in UTF-8 that has each key once", 400
        elif request.get("model") != self.account.model:
            why, status = f"model {str(request.get('model'))[:100]!r} not found", 404
        else:
            why, status = refusal(api, request, query), 400
        if not why:
            return request
        self.fault = f"the agent's request was not passed on to {self.account.model}: {why}"
        self.fault_status, self.fault_own = status, True
        kind = "not_found_error" if status == 404 else "invalid_request_error"
        writer.write(http.whole(status, json.dumps(error_body(api, why, kind)).encode()))
        return None

    async def _admit(
        self, prompt: Prompt, limit: int | None, count: int, reader: asyncio.StreamReader
    ) -> Reservation | None:
        """Wait until the call fits; if it never will, wait until the attempt is stopped from outside.

        None: it was refused, or its caller is gone.
        """
        while not self.stopped:
            try:
                hold = self.meter.admit(prompt, limit, count)
            except CapReached as full:
                self.stopped = f"{full.stop}:{full.detail}"
                self._tell({"kind": "stop", "stop": full.stop, "detail": full.detail})
                break
            if hold is not None:
                return hold
            await self._settled.wait()
            if reader.at_eof():
                return None
        if self.account.silent:
            await asyncio.Event().wait()
        return None

    def _refuse(self, writer: asyncio.StreamWriter) -> None:
        """Tell a caller inside of scrout why its call is refused."""
        stop, _, detail = self.stopped.partition(":")
        about = {STOP_HEADER: stop, "content-type": "text/plain; charset=utf-8"}
        writer.write(http.whole(402, detail.encode("utf-8", "replace"), about))

    def delta(self, api: Api, request: Json) -> ModelRequest:
        """The part of this request that the last one did not have."""
        if self._trajectory.size > MAX_BYTES:
            return ModelRequest(left_out=True)
        entries, rest = _turns(api, request), _rest(api, request)
        before, last_rest = self._last
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, entries, strict=False)))
        self._last = (entries, rest)
        return ModelRequest(same=same, new=tuple(entries[same:]), rest=None if rest == last_rest else rest)

    def prepare(self, call: int, asked: ModelRequest) -> None:
        self._trajectory.prepare(call, asked)

    def held(self, line: ReservedCall) -> None:
        try:
            self._trajectory.write(line)
        except OSError as error:
            self._broken(error)
            raise

    def ended(self, line: BilledCall | RefusedCall) -> None:
        try:
            self._trajectory.write(line)
        except OSError as error:
            self._broken(error)
        if isinstance(line, BilledCall):
            self._tell({"kind": "settled", "receipt": line.receipt.model_dump(mode="json")})

    def _broken(self, error: OSError) -> None:
        """Without a record, nothing may be paid."""
        what = f"the trajectory cannot be written ({error.strerror}). Is the disk full?"
        if not self.stopped:
            self.stopped = f"endpoint:{what}"
            self._tell({"kind": "stop", "stop": "endpoint", "detail": what})

    def give_up(self, fault: str) -> None:
        """Stop the attempt after a permanent refusal; some agents would retry it ten times."""
        if not self.stopped and not self.meter.budget.calls:
            self.stopped = f"endpoint:{fault}"
            self._tell({"kind": "stop", "stop": "endpoint", "detail": fault})

    def explain(self, what: str, next_step: str, answer: str = "") -> str:
        answer = self.keyless(answer.encode("utf-8", "replace")).decode("utf-8", "replace")[: 4 * MAX_EXCERPT]
        quote = " ".join("".join(c if c.isprintable() else " " for c in answer).split())
        where = f"{self.account.model} at {shown(self.account.base_url)}: {what}. {next_step}"
        return where + (f" It said: {quote[:MAX_EXCERPT]}" if quote else "")

    def keyless(self, body: bytes) -> bytes:
        keyless = StreamRedactor(self.secrets)
        return keyless.feed(body) + keyless.flush()

    def passed(self, response: StreamingResponse) -> dict[str, str]:
        """The headers of an answer that the agent may see."""
        return {
            name: self.keyless(value.encode("latin-1")).decode("latin-1")
            for name, value in response.headers.items()
            if name in _PASSED_HEADERS
        }

    def _target(self, below: str, query: str) -> str:
        """The path at the endpoint, with its query."""
        known = self._targets.get((below, query))
        if known is None:
            url = httpx.URL(self.account.base_url)
            merged = "&".join(part for part in (url.query.decode(), query) if part)
            url = url.copy_with(path=f"{url.path.rstrip('/')}/{below}", query=merged.encode() or None)
            known = url.raw_path.decode("ascii")
            # Cached: agents use the same few again and again, and building one takes a while.
            if len(self._targets) < MAX_TARGETS:
                self._targets[below, query] = known
        return known

    def _headers(self, asked: http.HttpRequest, api: Api | None) -> dict[str, str]:
        """The caller's allowed headers, with the endpoint's key."""
        headers = forwarded(asked.headers)
        headers["accept-encoding"] = "identity"
        if asked.method == "POST":
            headers["content-type"] = "application/json"
        if self.account.key:
            auth = self.account.auth or ("x-api-key" if api is MESSAGES else "bearer")
            key = self.account.key
            headers |= {"x-api-key": key} if auth == "x-api-key" else {"authorization": f"Bearer {key}"}
        elif basic := _basic(self.account.base_url):
            headers["authorization"] = f"Basic {basic}"
        return headers


class SharedState:
    """One connection's share of the memory for an attempt's requests."""

    def __init__(self, proxy_endpoint: ProxyEndpoint) -> None:
        self.proxy_endpoint = proxy_endpoint
        self.taken = 0

    def take(self, size: int) -> bool:
        fits = self.proxy_endpoint.buffered + size <= MAX_BUFFERED
        if fits:
            self.proxy_endpoint.buffered += size
            self.taken += size
        return fits

    def give_back(self) -> None:
        self.proxy_endpoint.buffered -= self.taken
        self.taken = 0


def _basic(base_url: str) -> str:
    """The user name and password in a URL, as a header value; empty: none."""
    try:
        return b64encode(unquote_to_bytes(httpx.URL(base_url).userinfo)).decode()
    except httpx.InvalidURL:
        return ""


def _check(base_url: str) -> None:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("base_url is no http(s) URL")


def _turns(api: Api, request: Json) -> list[JsonValue]:
    turns = request.get(api.turns)
    return turns if isinstance(turns, list) else []


def _rest(api: Api, request: Json) -> Json:
    """All but the conversation, which is a list; where it is none, all."""
    listed = isinstance(request.get(api.turns), list)
    return {key: value for key, value in request.items() if key != api.turns or not listed}


def _is_plain(headers: Mapping[str, str]) -> bool:
    """Whether a body is what its bytes say in UTF-8."""
    charsets = {name.lower() for name in _CHARSET.findall(headers.get("content-type", ""))}
    return charsets <= {"utf-8", "utf8"} and headers.get("content-encoding", "identity").lower() == "identity"


def _prompt(api: Api, sent: Sent) -> Prompt:
    request, turns, unlike = sent.request, _turns(api, sent.request), {*_UNLIKE, *_WORDS, *api.limits}
    words = [request[key] for key in _WORDS if key in request]
    tools = _tools(request)
    rest = {key: value for key, value in _rest(api, request).items() if key not in unlike}
    largest = max((len(json.dumps(tool)) for tool in tools), default=0) if b'"tool_reference"' in sent.body else 0
    beside = (value for key, value in rest.items() if key != "tools" and isinstance(value, dict | list))
    loaded = [largest * tool_references(turn) + sum(map(added, structured(turn))) for turn in turns]
    return Prompt(
        size=len(sent.body) + sum(map(added, (*tools, *beside))) + BUILT_IN_TOKENS * sum(map(_is_built_in, tools)),
        turns=[without_cache_control(turn) for turn in turns] if b'"cache_control"' in sent.body else turns,
        words=[part for told in words for part in (told if isinstance(told, list) else [told])],
        rest=rest,
        pictures=tuple(map(pictures, turns)),
        loaded=tuple(loaded),
        hour=b'"1h"' in sent.body,
        cut=is_cut(request),
    )


def _tools(request: Json) -> list[JsonValue]:
    tools = request.get("tools")
    return tools if isinstance(tools, list) else []


def _is_built_in(tool: JsonValue) -> bool:
    """Whether a model knows it by its name, so that the endpoint puts in what is to be said of it."""
    return isinstance(tool, dict) and tool.get("type", "custom") not in (
        "custom",
        "function",
        "namespace",
        "tool_search",
    )
