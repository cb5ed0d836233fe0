"""One attempt's way to its endpoint: a unix socket that stands for it, and where every call is counted and paid.

Requests that generate are held for, forwarded and settled; questions about models and tokens pass uncounted; all others
are refused, since a batch or a file could cost what nobody counts. Bodies pass as they came, but for an output limit
that the purse lowers, and for the usage that a streamed chat completion only reports when it is asked to. At a cap a
request is left without an answer and whoever opened the account is told, so that the agent learns of no budget.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
from pydantic import JsonValue

from scrout.models import http
from scrout.models.apis import APIS, CHAT, MESSAGES, Api, Json, Said, Stream, error_body, parse, read_whole
from scrout.models.chat import LOST_BEHIND_A_GATEWAY, MAX_EXCERPT, NEXT_STEPS, secrets_of, shown
from scrout.models.meter import MIN_OUTPUT_TOKENS, Account, Full, Hold, Meter
from scrout.models.trajectory import Answer, Call, End, Header, Held, Refusal, Request, Trajectory
from scrout.money import Receipt

MAX_ERROR_BYTES = 1_000_000
UNCOUNTED = frozenset({("GET", "models"), ("POST", "messages/count_tokens")})
_PASSED_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id"})
_DROPPED_HEADERS = frozenset(
    {
        *("authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"),
        *("host", "connection", "keep-alive", "transfer-encoding", "content-length", "expect", "te", "upgrade"),
        "accept-encoding",
    }
)
_LIMIT = re.compile(rb"max_(output_|completion_)?tokens")

Tell = Callable[[Json], None]


class Door:
    """One attempt's socket."""

    def __init__(self, account: Account, path: Path, client: httpx.AsyncClient, tell: Tell) -> None:
        self.account = account
        self.path = path
        self.meter = Meter(account)
        self.fault = ""
        """What went wrong with the last call; empty: nothing."""
        self.fault_status: int | None = None
        """The endpoint's answer to it; None: there was none."""
        self.stopped = ""
        self.client = client
        self._tell = tell
        self._secrets = secrets_of(account.base_url, account.key)
        self._trajectory = Trajectory(Path(account.trajectory), self._secrets)
        self._numbers = itertools.count(1)
        self._last: tuple[list[JsonValue], Json] = ([], {})
        self._settled = asyncio.Condition()
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        terms = self.account
        self._trajectory.write(
            Header(
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
        # The folder is its owner's alone; a sandbox that has the socket mounted runs as somebody else.
        self.path.chmod(0o666)

    async def close(self) -> None:
        """Take no more calls; those under way are cut off and booked at what was held for them."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        self._trajectory.write(End(stop=self.stopped.partition(":")[0], detail=self.stopped.partition(":")[2]))
        self._trajectory.close()
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.meter.remember()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                asked = await http.read(reader, writer)
                await self._answer(asked, writer)
                await writer.drain()
                if asked.headers.get("connection", "").lower() == "close":
                    break
        except http.Unreadable as error:
            writer.write(http.whole(error.status, b"{}"))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, asked: http.Asked, writer: asyncio.StreamWriter) -> None:
        path, _, query = asked.path.partition("?")
        below = path.removeprefix("/v1").strip("/")
        api = APIS.get(below) if asked.method == "POST" else None
        if api is not None:
            await self._generate(api, asked, query, writer)
        elif (asked.method, below) in UNCOUNTED or (asked.method == "GET" and below.startswith("models/")):
            await self._question(asked, below, query, writer)
        else:
            missing = json.dumps(error_body(CHAT, f"no such path: {asked.method} {path}", "not_found_error"))
            writer.write(http.whole(404, missing.encode()))

    async def _question(self, asked: http.Asked, below: str, query: str, writer: asyncio.StreamWriter) -> None:
        """Passed on, and not counted."""
        target, headers = self._target(below, query), self._headers(asked, MESSAGES if "messages" in below else None)
        try:
            answer = await self.client.request(asked.method, target, content=asked.body, headers=headers)
        except httpx.HTTPError as error:
            writer.write(_unreachable(CHAT, type(error).__name__))
            return
        writer.write(http.whole(answer.status_code, self.keyless(answer.content), _passed(answer)))

    async def _generate(self, api: Api, asked: http.Asked, query: str, writer: asyncio.StreamWriter) -> None:
        request = parse(asked.body)
        if request is None or request.get("model") != self.account.model:
            model = None if request is None else request.get("model")
            self.fault = f"the agent asked for the model {model!r}, and the fixer's is {self.account.model!r}"
            self.fault_status = 404
            status, said = (400, "no JSON object") if request is None else (404, f"model {model!r} not found")
            writer.write(http.whole(status, json.dumps(error_body(api, said, "not_found_error")).encode()))
            return
        hold = await self._admit(api, asked.body, request)
        call = Passage(self, api, next(self._numbers), hold, asked.body, request, writer)
        try:
            await call.run(self._target(api.path, query), self._headers(asked, api))
        finally:
            async with self._settled:
                self._settled.notify_all()

    async def _admit(self, api: Api, body: bytes, request: Json) -> Hold:
        """Wait until the call fits; where it never will, until the attempt is ended from outside."""
        async with self._settled:
            while not self.stopped:
                try:
                    hold = self.meter.admit(body, api.limit(request))
                except Full as full:
                    self.stopped = f"{full.stop}:{full.detail}"
                    self._tell({"kind": "stop", "stop": full.stop, "detail": full.detail})
                    break
                if hold is not None:
                    return hold
                await self._settled.wait()
        await asyncio.Event().wait()
        raise AssertionError

    def delta(self, api: Api, request: Json) -> Request:
        """What this request asks that the last one did not."""
        turns = request.get(api.turns)
        entries: list[JsonValue] = turns if isinstance(turns, list) else [turns]
        rest = {key: value for key, value in request.items() if key != api.turns}
        before, last_rest = self._last
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, entries, strict=False)))
        self._last = (entries, rest)
        return Request(same=same, new=tuple(entries[same:]), rest=None if rest == last_rest else rest)

    def held(self, line: Held) -> None:
        self._trajectory.write(line)

    def ended(self, line: Call | Refusal) -> None:
        self._trajectory.write(line)
        if isinstance(line, Call):
            self._tell({"kind": "settled", "receipt": line.receipt.model_dump(mode="json")})

    def explain(self, what: str, next_step: str, answer: str = "") -> str:
        answer = self.keyless(answer.encode("utf-8", "replace")).decode("utf-8", "replace")
        quote = " ".join("".join(c if c.isprintable() else " " for c in answer).split())
        where = f"{self.account.model} at {shown(self.account.base_url)}: {what}. {next_step}"
        return where + (f" It said: {quote[:MAX_EXCERPT]}" if quote else "")

    def keyless(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret.encode(), b"[key]")
        return body

    def _target(self, below: str, query: str) -> httpx.URL:
        url = httpx.URL(self.account.base_url)
        merged = "&".join(part for part in (url.query.decode(), query) if part)
        return url.copy_with(path=f"{url.path.rstrip('/')}/{below}", query=merged.encode() or None)

    def _headers(self, asked: http.Asked, api: Api | None) -> dict[str, str]:
        """The caller's, with the endpoint's key in place of whatever it sent."""
        headers = {name: value for name, value in asked.headers.items() if name not in _DROPPED_HEADERS}
        headers["accept-encoding"] = "identity"
        if self.account.key:
            auth = self.account.auth or ("x-api-key" if api is MESSAGES else "bearer")
            key = self.account.key
            headers |= {"x-api-key": key} if auth == "x-api-key" else {"authorization": f"Bearer {key}"}
        return headers


class Passage:
    """One call under way."""

    def __init__(
        self, door: Door, api: Api, number: int, hold: Hold, body: bytes, request: Json, writer: asyncio.StreamWriter
    ) -> None:
        self.door = door
        self.api = api
        self.number = number
        self.hold = hold
        self.body = body
        self.request = request
        self.asked = door.delta(api, request)
        self.writer = writer
        self.said = Said()
        self.status: int | None = None
        self.over = False
        self.started = time.monotonic()

    async def run(self, url: httpx.URL, headers: dict[str, str]) -> None:
        """Forward it, and pass on what comes back."""
        hold, limit = self.hold, self.hold.worst.output_tokens if self.hold.lowered else None
        self.door.held(
            Held(call=self.number, api=self.api.name, held_usd=hold.usd, worst=hold.worst, lowered=hold.lowered)
        )
        try:
            while await self._try(url, headers, limit):
                limit = self.door.meter.ceiling
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self._release(self.door.explain(f"the connection failed ({type(error).__name__})", "Is it running?"))
            self.writer.write(_unreachable(self.api, type(error).__name__, 503))
        except httpx.HTTPError as error:
            self._settle(self.door.explain(f"the connection was lost ({type(error).__name__})", "Is it running?"))
            if self.status is None:
                self.writer.write(_unreachable(self.api, type(error).__name__))
            else:
                self.writer.transport.abort()
        finally:
            if not self.over:  # cut off: what the endpoint generated may be billed
                self._settle("the call was cut off")

    async def _try(self, url: httpx.URL, headers: dict[str, str], limit: int | None) -> bool:
        """Whether to try again with a lower limit: this one was the meter's own, and more than the model can write."""
        asks_usage = self.api is CHAT and self.request.get("stream") is True and not _wants_usage(self.request)
        body = self._body(limit, asks_usage)
        async with self.door.client.stream("POST", url, content=body, headers=headers) as response:
            self.status = response.status_code
            if response.status_code != 200:
                return await self._refused(response, limit)
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                await self._streamed(response, drop_usage=asks_usage)
            else:
                await self._whole(response)
        return False

    def _body(self, limit: int | None, asks_usage: bool) -> bytes:
        """As it came, unless something has to be added."""
        sent = self.request | self.door.account.extra
        if limit is not None:
            sent = self.api.limited(sent, limit)
        if asks_usage:
            sent["stream_options"] = {**_object(sent.get("stream_options")), "include_usage": True}
        if sent == self.request:
            return self.body
        return json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")

    async def _refused(self, response: httpx.Response, limit: int | None) -> bool:
        answer = bytearray()
        async for part in response.aiter_bytes():
            answer += part
            if len(answer) > MAX_ERROR_BYTES:
                break
        status, meter = response.status_code, self.door.meter
        ours = limit if self.api.limit(self.request) is None else None
        if status == 400 and ours and ours > MIN_OUTPUT_TOKENS and _LIMIT.search(answer):
            meter.ceiling = min(meter.ceiling, max(MIN_OUTPUT_TOKENS, ours // 2))
            return True
        next_step = NEXT_STEPS.get(status, "Try later." if status >= 500 else "Check base_url.")
        fault = self.door.explain(f"status {status}", next_step, answer.decode("utf-8", "replace"))
        (self._settle if status in LOST_BEHIND_A_GATEWAY else self._release)(fault)
        self.writer.write(http.whole(status, self.door.keyless(bytes(answer)), _passed(response)))
        return False

    async def _whole(self, response: httpx.Response) -> None:
        answer = await response.aread()
        read_whole(self.api, answer, self.said)
        self._end()
        self.writer.write(http.whole(200, self.door.keyless(answer), _passed(response)))

    async def _streamed(self, response: httpx.Response, *, drop_usage: bool) -> None:
        stream = Stream(self.api, self.said, drop_usage=drop_usage)
        self.writer.write(http.head(200, {**_passed(response), "transfer-encoding": "chunked"}))
        async for part in response.aiter_bytes():
            passed = stream.feed(part)
            if self.said.ended:
                self._end()
            await self._pass(passed)
        passed = stream.flush()
        self._end()
        await self._pass(passed)
        self.writer.write(http.LAST_CHUNK)

    async def _pass(self, data: bytes) -> None:
        """An agent that is gone does not end the call: the usage comes last, and is worth waiting for."""
        if not self.writer.is_closing():
            self.writer.write(http.chunk(self.door.keyless(data)))
            with contextlib.suppress(ConnectionError):
                await self.writer.drain()

    def _end(self) -> None:
        """The answer is there, or as much of it as will come."""
        if self.over:
            return
        said = self.said
        if said.error and said.usage is None and not said.text and not said.calls:
            self._release(self.door.explain("status 200 with an error", "See the endpoint's message.", said.error))
        else:
            self._settle(self.door.explain("the answer broke off", "Try again.", said.error) if said.error else "")

    def _settle(self, fault: str) -> None:
        self.over = True
        meter, usage = self.door.meter, self.said.usage
        cost_usd = meter.settle(self.hold, usage, self.body)
        self.door.fault, self.door.fault_status = fault, self.status
        receipt = Receipt(
            component=self.door.account.component,
            fixer=self.door.account.fixer,
            model=self.door.account.model,
            usage=usage or self.hold.worst,
            cost_usd=cost_usd,
            estimated=usage is None,
            at=datetime.now(UTC),
            call=self.number,
        )
        self.door.ended(
            Call(
                call=self.number,
                api=self.api.name,
                status=self.status,
                asked=self.asked,
                said=_answer(self.said, fault),
                receipt=receipt,
                seconds=self._seconds(),
            )
        )

    def _release(self, fault: str) -> None:
        self.over = True
        self.door.meter.release(self.hold)
        self.door.fault, self.door.fault_status = fault, self.status
        self.door.ended(
            Refusal(
                call=self.number,
                api=self.api.name,
                status=self.status,
                asked=self.asked,
                error=fault,
                seconds=self._seconds(),
            )
        )

    def _seconds(self) -> float:
        return round(time.monotonic() - self.started, 3)


def _answer(said: Said, fault: str) -> Answer:
    return Answer(
        text=said.text, reasoning=said.reasoning, calls=tuple(said.calls), finish=said.finish, error=said.error or fault
    )


def _passed(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name in _PASSED_HEADERS}


def _unreachable(api: Api, what: str, status: int = 502) -> bytes:
    """502: the endpoint may have worked on it. 503: it was never asked."""
    return http.whole(status, json.dumps(error_body(api, f"the endpoint did not answer ({what})")).encode())


def _wants_usage(request: Json) -> bool:
    return _object(request.get("stream_options")).get("include_usage") is True


def _object(value: JsonValue) -> Json:
    return value if isinstance(value, dict) else {}
