"""One call in progress: forwarded, parsed as it streams, and settled before the last part of its answer is passed
on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import JsonValue

from scrout.models.chat import LOST_BEHIND_A_GATEWAY, NEXT_STEPS
from scrout.models.proxy import http
from scrout.models.proxy.apis import CHAT, AnswerReader, Api, Json, Stream, canonical, error_body, read_whole
from scrout.models.proxy.bounds import MAX_EVENT_BYTES, MAX_STREAM_BYTES
from scrout.models.proxy.caps import MIN_OUTPUT_TOKENS, Prompt, Reservation
from scrout.models.proxy.stream_redactor import StreamRedactor
from scrout.models.proxy.upstream import ConnectFailed, Oversized, StreamBroken, StreamingResponse, Upstream
from scrout.models.proxy.usage import believable
from scrout.money import Receipt
from scrout.trajectory import BilledCall, ModelResponse, RefusedCall, ReservedCall

if TYPE_CHECKING:
    from scrout.models.proxy.endpoint import ProxyEndpoint

MAX_ERROR_BYTES = 1_000_000
_LIMIT = re.compile(rb"max_(output_|completion_)?tokens")
_RENAMED = b"max_completion_tokens"
HOPELESS = frozenset({401, 402, 403, 404})
"""Refusals that a retry cannot change: the key, the account's credit, the model's name."""


@dataclass(frozen=True)
class Sent:
    """A request in progress."""

    body: bytes
    """The body to send, unless something has to be changed."""
    request: Json
    """The body's content: the agent's request with the account's additions."""


class ProxiedCall:
    """One call in progress."""

    def __init__(
        self,
        proxy_endpoint: ProxyEndpoint,
        api: Api,
        number: int,
        hold: Reservation,
        prompt: Prompt,
        sent: Sent,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.proxy_endpoint = proxy_endpoint
        self.api = api
        self.number = number
        self.hold = hold
        self.prompt = prompt
        self.sent = sent
        self.request = sent.request
        self.asked = proxy_endpoint.delta(api, sent.request)
        self.writer = writer
        self.said = AnswerReader()
        self.status: int | None = None
        self.over = False
        self.started = time.monotonic()
        self.heard = self.started
        """When the endpoint last sent something."""
        self._unsent = b""
        """Of the encoded answer."""

    async def run(self, upstream: Upstream, path: str, headers: dict[str, str]) -> None:
        """Forward the call, and pass on its answer."""
        hold, limit = self.hold, self.hold.limit
        try:
            self.proxy_endpoint.held(
                ReservedCall(
                    call=self.number, api=self.api.name, held_usd=hold.usd, worst=hold.worst, lowered=hold.lowered
                )
            )
        except OSError:
            self.over = True
            self.proxy_endpoint.meter.release(hold)
            raise
        # After the request was sent.
        asyncio.get_running_loop().call_soon(self.proxy_endpoint.prepare, self.number, self.asked)
        try:
            while await self._try(upstream, path, headers, limit):
                limit = min(limit or self.proxy_endpoint.meter.ceiling, self.proxy_endpoint.meter.ceiling)
        except ConnectFailed as error:
            self._release(self.proxy_endpoint.explain(f"the connection failed ({error})", "Is it running?"))
            self.writer.write(unreachable(self.api, str(error), 503))
        except StreamBroken as error:
            if not self.over:
                self._settle(self._explain_loss(error))
            if self.status is None:
                self.writer.write(unreachable(self.api, str(error)))
            else:
                self._send()
                self.writer.transport.abort()
        finally:
            if not self.over:  # cut off: the output so far may be billed, and the endpoint has not failed
                self.proxy_endpoint.silent_s = max(self.proxy_endpoint.silent_s, time.monotonic() - self.heard)
                self.said.error = self.said.error or "the call was cut off"
                self._settle(None)

    def _explain_loss(self, error: StreamBroken) -> str:
        if isinstance(error, Oversized):
            return self.proxy_endpoint.explain(f"the answer was cut off ({error})", "Does it keep to max_tokens?")
        return self.proxy_endpoint.explain(f"the connection was lost ({error})", "Is it running?")

    async def _try(self, upstream: Upstream, path: str, headers: dict[str, str], limit: int | None) -> bool:
        """Whether to retry with a lower limit: this one was set by the meter, and is more than the model can write."""
        asks_usage = self.api is CHAT and self.request.get("stream") is True and not _wants_usage(self.request)
        body = self._body(limit, asks_usage)
        answer = await upstream.ask("POST", path, headers, body)
        self.status = answer.status
        if not 200 <= answer.status < 300:
            return await self._refused(answer, limit)
        if answer.headers.get("content-type", "").lower().startswith("text/event-stream"):
            await self._streamed(answer, drop_usage=asks_usage)
        else:
            await self._whole(answer)
        return False

    def _body(self, limit: int | None, asks_usage: bool) -> bytes:
        """The checked body, with a lower output limit or with a request for usage if needed."""
        sent = self.request
        if limit is not None:
            sent = self.api.limited(sent, limit, self.proxy_endpoint.limit_key)
        if asks_usage:
            sent = {**sent, "stream_options": {**_object(sent.get("stream_options")), "include_usage": True}}
        return self.sent.body if sent is self.sent.request else canonical(sent)

    async def _refused(self, response: StreamingResponse, limit: int | None) -> bool:
        answer = bytearray()
        while (part := await response.more()) and len(answer) <= MAX_ERROR_BYTES:
            answer += part
        status, meter = response.status, self.proxy_endpoint.meter
        ours = limit if self.api.limit(self.request) is None else None
        if status == 400 and ours and self._renamed(answer):
            return True
        if status == 400 and ours and ours > MIN_OUTPUT_TOKENS and _LIMIT.search(answer):
            meter.ceiling = min(meter.ceiling, max(MIN_OUTPUT_TOKENS, ours // 2))
            return True
        next_step = NEXT_STEPS.get(status, "Try later." if status >= 500 else "Check base_url.")
        fault = self.proxy_endpoint.explain(f"status {status}", next_step, answer.decode("utf-8", "replace"))
        (self._settle if status in LOST_BEHIND_A_GATEWAY else self._release)(fault)
        self.writer.write(
            http.whole(status, self.proxy_endpoint.keyless(bytes(answer)), self.proxy_endpoint.passed(response))
        )
        return False

    def _renamed(self, answer: bytearray) -> bool:
        """Whether the endpoint has just said that its limit has the other name."""
        if self.api is not CHAT or self.proxy_endpoint.limit_key or _RENAMED not in answer:
            return False
        self.proxy_endpoint.limit_key = _RENAMED.decode()
        return True

    async def _whole(self, response: StreamingResponse) -> None:
        answer = await response.rest()
        read_whole(self.api, answer, self.said)
        self._end()
        self.writer.write(
            http.whole(response.status, self.proxy_endpoint.keyless(answer), self.proxy_endpoint.passed(response))
        )

    async def _streamed(self, response: StreamingResponse, *, drop_usage: bool) -> None:
        stream = Stream(self.api, self.said, drop_usage=drop_usage)
        keyless = StreamRedactor(self.proxy_endpoint.secrets)
        about = {**self.proxy_endpoint.passed(response), "transfer-encoding": "chunked"}
        self._queue(http.head(response.status, about))
        size = 0
        while part := await response.more():
            self.heard = time.monotonic()
            passed = stream.feed(part)
            size += len(part)
            if size > MAX_STREAM_BYTES or stream.begun_bytes > MAX_EVENT_BYTES:
                self.said = AnswerReader()  # no usage in it is credible, and the agent will not read it
                raise Oversized(f"{size:,} bytes of events")
            if self.said.ended:
                self._end()
            self._queue(http.chunk(keyless.feed(passed)))
            # If the agent disconnects, the call continues: the usage comes last, and is worth waiting for.
            with contextlib.suppress(ConnectionError):
                await self.writer.drain()
        passed = stream.flush()
        self._end()
        self._queue(http.chunk(keyless.feed(passed) + keyless.flush()) + http.LAST_CHUNK)
        self._send()

    def _queue(self, data: bytes) -> None:
        """Send parts together that came together: sending costs more than all other work on a part."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent += data

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        if unsent and not self.writer.is_closing():
            self.writer.write(unsent)

    def _end(self) -> None:
        """The answer is complete, or as complete as it will be."""
        if self.over:
            return
        said = self.said
        if said.error and said.usage is None and not said.wrote:
            self._release(
                self.proxy_endpoint.explain("status 200 with an error", "See the endpoint's message.", said.error)
            )
        else:
            self._settle(
                self.proxy_endpoint.explain("the answer broke off", "Try again.", said.error) if said.error else ""
            )

    def _settle(self, fault: str | None) -> None:
        """`fault` is what went wrong; None: nothing that is the endpoint's fault."""
        self.over = True
        # Counts before the end only cover the output so far.
        meter, usage = self.proxy_endpoint.meter, self.said.usage if self.said.finish or self.said.ended else None
        usage = believable(usage, wrote=self.said.wrote)
        cost_usd = meter.settle(self.hold, usage, self.prompt)
        if fault is not None:
            self.proxy_endpoint.fault, self.proxy_endpoint.fault_status, self.proxy_endpoint.fault_own = (
                fault,
                self.status,
                False,
            )
        receipt = Receipt(
            component=self.proxy_endpoint.account.component,
            fixer=self.proxy_endpoint.account.fixer or None,
            model=self.proxy_endpoint.account.model,
            usage=usage or self.hold.worst,
            cost_usd=cost_usd,
            estimated=usage is None,
            at=datetime.now(UTC),
            call=self.number,
        )
        self.proxy_endpoint.ended(
            BilledCall(
                call=self.number,
                api=self.api.name,
                status=self.status,
                asked=self.asked,
                said=_answer(self.said, fault or ""),
                receipt=receipt,
                over_usd=cost_usd - self.hold.usd if meter.holds and cost_usd and cost_usd > self.hold.usd else None,
                seconds=self._seconds(),
            )
        )

    def _release(self, fault: str) -> None:
        self.over = True
        self.proxy_endpoint.meter.release(self.hold)
        self.proxy_endpoint.fault, self.proxy_endpoint.fault_status, self.proxy_endpoint.fault_own = (
            fault,
            self.status,
            False,
        )
        if self.status in HOPELESS:
            self.proxy_endpoint.give_up(fault)
        self.proxy_endpoint.ended(
            RefusedCall(
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


def _answer(said: AnswerReader, fault: str) -> ModelResponse:
    return ModelResponse(
        text=said.text, reasoning=said.reasoning, calls=tuple(said.calls), finish=said.finish, error=said.error or fault
    )


def unreachable(api: Api, what: str, status: int = 502) -> bytes:
    """502: the endpoint may have worked on it. 503: it never got the request."""
    return http.whole(status, json.dumps(error_body(api, f"the endpoint did not answer ({what})")).encode())


def _wants_usage(request: Json) -> bool:
    return _object(request.get("stream_options")).get("include_usage") is True


def _object(value: JsonValue) -> Json:
    return value if isinstance(value, dict) else {}
