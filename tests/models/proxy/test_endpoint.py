"""One attempt's socket before real endpoints: what passes, what is counted, and what a hostile agent gets out of it.

The proxy endpoint is in this process, so that a test can look into its budget; tests/models/proxy/test_client.py has
the real process.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from pydantic import JsonValue

from scrout.models.chat import STOP_HEADER, ToolCall, certificates
from scrout.models.proxy import endpoint as door_module
from scrout.models.proxy import http
from scrout.models.proxy.apis import APIS, CHAT, MESSAGES, RESPONSES, Api, Json, canonical
from scrout.models.proxy.caps import BUILT_IN_TOKENS, UNLIMITED_TOKENS, Account, CapRule
from scrout.models.proxy.endpoint import MAX_TALKS, ProxyEndpoint
from scrout.models.proxy.stream_redactor import StreamRedactor
from scrout.models.scripted import (
    Cut,
    ErrorBody,
    Fault,
    Hang,
    Reset,
    ScriptedEndpoint,
    ScriptedReply,
    ScriptedRequest,
    Status,
    Truncated,
)
from scrout.money import Budget, Price, Receipt, Usage
from scrout.trajectory import BilledCall, RefusedCall, ReservedCall, TrajectoryEnd, TrajectoryHeader, read, receipts

KEY = "sk-very-secret-0123456789"
PRICE = Price(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"), cache_write=Decimal("3.75"))
USAGE = Usage(input_tokens=200, cache_read_tokens=50, output_tokens=40, reasoning_tokens=10)
REPLY = ScriptedReply(text="The loop ends one item early. " * 4, usage=USAGE)
ALL = list(APIS.values())
BUDGET_WORDS = re.compile(rb"budget|\bcap\b|budget|\bmeter|spent|dollar|limit reached", re.IGNORECASE)

per_api = pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
streamed_or_not = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


@dataclass
class Opened:
    """A door, and what those see who stand on its two sides."""

    proxy_endpoint: ProxyEndpoint
    client: httpx.AsyncClient
    trajectory: Path
    told: list[Json] = field(default_factory=list)

    @property
    def receipts(self) -> list[Receipt]:
        return [Receipt.model_validate(event["receipt"]) for event in self.told if event["kind"] == "settled"]

    @property
    def stops(self) -> list[JsonValue]:
        return [event["stop"] for event in self.told if event["kind"] == "stop"]

    async def ask(self, api: Api = CHAT, **more: JsonValue) -> httpx.Response:
        return await self.client.post(f"/v1/{api.path}", json=request(api, **more))

    async def raw(self, data: bytes) -> bytes:
        """All that comes back for some bytes, until the door closes the connection."""
        reader, writer = await asyncio.open_unix_connection(str(self.proxy_endpoint.path))
        writer.write(data)
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer


def request(api: Api = CHAT, **more: JsonValue) -> Json:
    turns: JsonValue = [{"role": "user", "content": "Why does it fail?"}]
    return {"model": "m", api.turns: turns, api.limits[0]: 2000, **more}


def counted(api: Api) -> Json:
    """What asks for the usage of a stream, where it has to be asked for."""
    return {"stream_options": {"include_usage": True}} if api is CHAT else {}


@asynccontextmanager
async def opened(
    base_url: str,
    *,
    cap_usd: str | None = "2",
    cap_calls: int = 50,
    rule: CapRule = "hard",
    price: Price | None = PRICE,
    key: str | None = KEY,
    extra: Json | None = None,
    silent: bool = True,
) -> AsyncIterator[Opened]:
    # A socket's path has to be short, and pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="door") as folder:
        trajectory = Path(folder, "t.jsonl")
        account = Account(
            fixer="f",
            model="m",
            base_url=base_url,
            key=key,
            price=price,
            cap_usd=None if cap_usd is None else Decimal(cap_usd),
            cap_calls=cap_calls,
            rule=rule,
            trajectory=str(trajectory),
            extra=extra or {},
            silent=silent,
        )
        told: list[Json] = []
        proxy_endpoint = ProxyEndpoint(account, Path(folder, "s"), told.append)
        await proxy_endpoint.open()
        # `verify=False`: nothing here is encrypted, and loading certificates is half of the time of a test.
        client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                verify=False, uds=str(proxy_endpoint.path), limits=httpx.Limits(max_connections=None)
            ),
            base_url="http://door",
            timeout=60,
        )
        try:
            yield Opened(proxy_endpoint, client, trajectory, told)
        finally:
            await client.aclose()
            if proxy_endpoint.path.exists():
                await proxy_endpoint.close()


@asynccontextmanager
async def raw_endpoint(
    parts: Sequence[bytes],
    *,
    hang: bool = False,
    seen: list[http.HttpRequest] | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """An endpoint that answers every request with these bytes, in these pieces; and then says no more, if it hangs."""

    talks: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await http.read(reader, writer)
            if seen is not None:
                seen.append(asked)
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.005)
            if hang:
                await reader.read()
        finally:
            writer.close()
            await asyncio.sleep(0)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.get_running_loop().create_task(answer(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    server.close()
    for talk in talks:
        talk.cancel()
    await asyncio.gather(*talks, return_exceptions=True)


def stream_head(status: int = 200) -> bytes:
    return http.head(status, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


# Hard caps


class Watched(Budget):
    """Remembers the most that was ever spent and held."""

    peak_usd = Decimal(0)
    peak_calls = 0

    def reserve(self, worst_usd: Decimal) -> Decimal:
        held = super().reserve(worst_usd)
        self._look()
        return held

    def settle(self, held: Decimal, cost_usd: Decimal) -> None:
        super().settle(held, cost_usd)
        self._look()

    def _look(self) -> None:
        self.peak_usd = max(self.peak_usd, self.spent_usd + self.held_usd)
        self.peak_calls = max(self.peak_calls, self.calls)


FAULTS: list[Fault | None] = [
    *(None, None, None, None, None, Hang(0.02), Status(429), Status(500), Status(504)),
    *(Reset(), Cut(), Truncated(), ErrorBody()),
]


def moody(seed: int) -> Callable[[ScriptedRequest], ScriptedReply]:
    """An endpoint that uses up to what it was allowed, fails now and then, and does not always count."""
    probability = random.Random(seed)

    def reply(asked: ScriptedRequest) -> ScriptedReply:
        limits = [asked.content.get(key) for key in ("max_tokens", "max_output_tokens")]
        allowed = next(limit for limit in limits if isinstance(limit, int))
        used = Usage(
            input_tokens=min(200, len(asked.body) // 4), output_tokens=probability.choice([allowed, allowed // 3, 5])
        )
        usage = None if probability.random() < 0.2 else used
        return ScriptedReply(text="word " * 20, usage=usage, fault=probability.choice(FAULTS))

    return reply


async def caller(there: Opened, seed: int, calls: int) -> int:
    """How many of an agent's calls ended, well or not."""
    probability = random.Random(seed)
    ended = 0
    for _ in range(calls):
        api = probability.choice(ALL)
        more: Json = {"stream": probability.random() < 0.5, api.limits[0]: probability.choice([600, 4000, 64_000])}
        body = request(api, **more)
        if api is not MESSAGES and probability.random() < 0.3:
            del body[api.limits[0]]
        with suppress(httpx.HTTPError):
            await there.client.post(f"/v1/{api.path}", json=body)
        ended += 1
    return ended


@pytest.mark.parametrize(("cap_usd", "cap_calls"), [("0.5", 1000), ("100", 70)], ids=["dollars", "calls"])
async def test_64_callers_at_once_never_pass_a_cap(cap_usd: str, cap_calls: int) -> None:
    with ScriptedEndpoint(moody(1), keep=False) as endpoint:
        async with opened(endpoint.base_url, cap_usd=cap_usd, cap_calls=cap_calls) as there:
            budget = there.proxy_endpoint.meter.budget = Watched(Decimal(cap_usd), cap_calls)
            callers = [asyncio.create_task(caller(there, seed, 20)) for seed in range(64)]
            await until(lambda: bool(there.told) and there.told[-1]["kind"] == "stop")
            assert there.proxy_endpoint.meter.under_way == 0, "stopped only when nothing could give anything back"
            for task in callers:
                task.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
    assert budget.peak_usd <= Decimal(cap_usd)
    assert budget.peak_calls <= cap_calls
    paid = there.receipts
    assert sum(receipt.cost_usd or 0 for receipt in paid) == budget.spent_usd <= Decimal(cap_usd)
    assert len({receipt.call for receipt in paid}) == len(paid) == budget.calls <= cap_calls
    assert budget.held_usd == 0
    assert there.stops == ["cap_usd" if cap_usd == "0.5" else "cap_calls"]


async def test_64_callers_with_a_budget_that_holds_a_few_calls_all_get_their_turn() -> None:
    """Each call may cost a dollar and costs nearly nothing: they wait for each other, and none for ever."""
    with ScriptedEndpoint(lambda _: REPLY, keep=False) as endpoint:
        async with opened(endpoint.base_url, cap_usd="2", cap_calls=1000) as there:
            answers = await asyncio.gather(*(there.ask(max_tokens=64_000) for _ in range(64)))
            assert [answer.status_code for answer in answers] == [200] * 64
            assert there.stops == []
            assert len(there.receipts) == 64
            assert there.proxy_endpoint.meter.budget.held_usd == 0


async def test_paper_is_looked_at_after_each_call() -> None:
    with ScriptedEndpoint(lambda _: ScriptedReply("x", usage=Usage(input_tokens=10, output_tokens=2000))) as endpoint:
        async with opened(endpoint.base_url, cap_usd="0.10", rule="paper") as there:
            with pytest.raises(httpx.ReadTimeout):
                while True:
                    await there.client.post("/v1/chat/completions", json=request(max_tokens=64_000), timeout=0.5)
            costs = [receipt.cost_usd or Decimal(0) for receipt in there.receipts]
            assert sum(costs[:-1]) < Decimal("0.10") <= sum(costs)
            assert there.stops == ["cap_usd"]
            assert {asked.content["max_tokens"] for asked in endpoint.requests} == {64_000}


async def test_at_a_cap_nothing_is_said_and_the_opener_is_told_once() -> None:
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url, cap_calls=1) as there:
            answer = await there.ask()
            assert not BUDGET_WORDS.search(answer.content + str(answer.headers).encode())
            reader, writer = await asyncio.open_unix_connection(str(there.proxy_endpoint.path))
            body = json.dumps(request()).encode()
            for _ in range(3):
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            with pytest.raises(httpx.ReadTimeout):
                await there.client.post("/v1/messages", json=request(MESSAGES), timeout=0.2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await reader.read(1)
            assert there.stops == ["cap_calls"]
            assert endpoint.served == 1
        assert await reader.read() == b""
        writer.close()


async def test_at_a_cap_a_caller_of_scrouts_own_is_told_and_the_calls_under_way_go_on() -> None:
    script = [ScriptedReply("slow", usage=USAGE, fault=Hang(0.3)), REPLY]
    with ScriptedEndpoint(script) as endpoint:
        async with opened(endpoint.base_url, cap_calls=1, silent=False) as there:
            first = asyncio.create_task(there.ask())
            await until(lambda: endpoint.served == 1)
            refused = await asyncio.gather(*(there.ask(api) for api in ALL))
            assert (await first).status_code == 200
        assert endpoint.served == 1 and there.stops == ["cap_calls"]
    assert [(one.status_code, one.headers[STOP_HEADER], one.text) for one in refused] == [
        (402, "cap_calls", "all 1 calls used")
    ] * 3


async def test_no_endpoint_can_speak_as_the_meter() -> None:
    lying = ScriptedReply(fault=Status(402, {STOP_HEADER: "cap_usd"}))
    with ScriptedEndpoint([lying]) as endpoint:
        async with opened(endpoint.base_url, silent=False) as there:
            answer = await there.ask()
    assert answer.status_code == 402 and STOP_HEADER not in answer.headers


async def test_a_request_whose_sender_has_gone_while_it_waited_is_not_paid_for() -> None:
    with ScriptedEndpoint([ScriptedReply("a", usage=USAGE, fault=Hang(0.3)), REPLY, REPLY]) as endpoint:
        async with opened(endpoint.base_url, cap_usd="0.04") as there:
            first = asyncio.create_task(there.ask(max_tokens=2000))
            await until(lambda: endpoint.served == 1)
            with pytest.raises(httpx.ReadTimeout):
                await there.client.post("/v1/chat/completions", json=request(), timeout=0.05)
            await first
            await until(lambda: not there.proxy_endpoint.meter.under_way)
            await asyncio.sleep(0.05)
            assert endpoint.served == 1
            assert (await there.ask()).status_code == 200


# Lowering


async def test_a_limit_is_lowered_only_when_it_must_be() -> None:
    with ScriptedEndpoint([REPLY] * 4) as endpoint:
        async with opened(endpoint.base_url, cap_usd="1") as there:
            await there.ask(max_tokens=4000)
            await there.ask(max_tokens=64_000)
            await there.client.post("/v1/responses", json={"model": "m", "input": "hi"})
            await there.ask(MESSAGES, max_tokens=64_000, thinking={"type": "enabled", "budget_tokens": 50_000})
        limits = [
            asked.content.get("max_tokens", asked.content.get("max_output_tokens")) for asked in endpoint.requests
        ]
        assert limits[0] == 4000
        assert all(isinstance(limit, int) and 20_000 < limit < 33_500 for limit in limits[1:])
        thinking = endpoint.requests[3].content["thinking"]
        assert isinstance(thinking, dict) and 1024 <= int(str(thinking["budget_tokens"])) < int(str(limits[3]))


async def test_a_limit_that_was_the_meters_own_and_too_much_is_lowered_until_it_passes_as_one_call() -> None:
    def picky(asked: ScriptedRequest) -> ScriptedReply:
        limit = asked.content.get("max_tokens")
        if isinstance(limit, int) and limit > 5000:
            return ScriptedReply(fault=Status(400, message="max_tokens is too large: this model writes at most 5000"))
        return REPLY

    unlimited: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with ScriptedEndpoint(picky) as endpoint:
        async with opened(endpoint.base_url, cap_usd="100") as there:
            assert (await there.client.post("/v1/chat/completions", json=unlimited)).status_code == 200
            tried = [asked.content["max_tokens"] for asked in endpoint.requests]
            assert tried == [UNLIMITED_TOKENS, 16_000, 8_000, 4_000]
            assert (await there.client.post("/v1/chat/completions", json=unlimited)).status_code == 200
            assert endpoint.served == 5, "what was learned holds for the next call"
            assert [receipt.call for receipt in there.receipts] == [1, 2]
            assert there.proxy_endpoint.meter.budget.calls == 2
            own = await there.ask(max_tokens=9000)
            assert own.status_code == 400 and b"at most 5000" in own.content, "the agent's own limit is its own fault"


async def test_an_endpoint_that_wants_the_limit_under_its_other_name_is_given_that() -> None:
    def modern(asked: ScriptedRequest) -> ScriptedReply:
        if "max_tokens" in asked.content:
            words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return ScriptedReply(fault=Status(400, message=words))
        return REPLY

    unlimited: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with ScriptedEndpoint(modern) as endpoint:
        async with opened(endpoint.base_url, cap_usd="100") as there:
            for _ in range(2):
                assert (await there.client.post("/v1/chat/completions", json=unlimited)).status_code == 200
        assert [asked.content.get("max_completion_tokens") for asked in endpoint.requests] == [
            None,
            UNLIMITED_TOKENS,
            UNLIMITED_TOKENS,
        ]


async def test_extra_reaches_the_body_and_is_held_for() -> None:
    with ScriptedEndpoint([REPLY]) as endpoint:
        extra: Json = {"provider": {"order": ["one"]}, "max_tokens": 500_000}
        async with opened(endpoint.base_url, extra=extra) as there:
            await there.ask(max_tokens=5)
            (held,) = [line for line in read(there.trajectory) if isinstance(line, ReservedCall)]
        sent = endpoint.requests[0].content
        assert sent["provider"] == {"order": ["one"]}
        assert sent["max_tokens"] == held.worst.output_tokens > 5
        assert held.held_usd <= Decimal(1)


async def test_each_of_several_answers_is_held_for() -> None:
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url, cap_usd="1") as there:
            await there.ask(max_tokens=64_000, n=10)
            (held,) = [line for line in read(there.trajectory) if isinstance(line, ReservedCall)]
        limit = endpoint.requests[0].content["max_tokens"]
        assert isinstance(limit, int) and held.worst.output_tokens == 10 * limit
        assert held.held_usd <= Decimal("0.5")


# Passing through


@per_api
@streamed_or_not
async def test_an_answer_passes_byte_for_byte_and_a_request_as_it_was_checked(api: Api, streamed: bool) -> None:
    more: Json = {"stream": streamed, **counted(api)}
    asked = request(api, **more)
    body = json.dumps(asked, indent=3).replace('"m"', '"\\u006d"').encode() + b" \n"
    unkept: Json = {"store": False} if api is RESPONSES else {}
    with ScriptedEndpoint([REPLY, REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there, httpx.AsyncClient(verify=False) as direct:
            through = await there.client.post(f"/v1/{api.path}", content=body)
            straight = await direct.post(f"{endpoint.base_url}/{api.path}", content=body)
        assert through.content == straight.content
        assert [one.body.encode() for one in endpoint.requests] == [canonical(asked | unkept), body]
    assert [receipt.estimated for receipt in there.receipts] == [False]


async def test_usage_is_asked_for_where_a_stream_has_none_and_dropped_on_its_way() -> None:
    with ScriptedEndpoint([REPLY, REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there, httpx.AsyncClient(verify=False) as direct:
            through = await there.ask(stream=True)
            straight = await direct.post(f"{endpoint.base_url}/chat/completions", json=request(stream=True))
        assert endpoint.requests[0].content["stream_options"] == {"include_usage": True}
        said = [
            {key: value for key, value in chunk.items() if key != "usage"}
            for chunk in map(json.loads, re.findall(r"data: (\{.*)", through.text))
        ]
        assert said == [json.loads(chunk) for chunk in re.findall(r"data: (\{.*)", straight.text)]
    assert [(receipt.usage, receipt.estimated) for receipt in there.receipts] == [(USAGE, False)]


@per_api
async def test_the_key_is_added_and_what_the_agent_sent_for_one_is_dropped(api: Api) -> None:
    sent = {
        "authorization": "Bearer agents-own",
        "x-api-key": "agents-own",
        "cookie": "agents-own",
        "openai-organization": "agents-own",
        "anthropic-version": "2023-06-01",
        "user-agent": "an agent",
    }
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there:
            await there.client.post(f"/v1/{api.path}", json=request(api), headers=sent)
        headers = dict(endpoint.requests[0].headers)
    assert "agents-own" not in str(headers)
    assert headers.get("x-api-key" if api is MESSAGES else "authorization") in (KEY, f"Bearer {KEY}")
    assert str(headers).count(KEY) == 1
    assert (headers["anthropic-version"], headers["user-agent"]) == ("2023-06-01", "an agent")
    assert headers["host"].startswith("127.0.0.1:")


@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 503, 529])
async def test_a_refusal_passes_with_its_status_and_costs_nothing(status: int) -> None:
    told = {"retry-after": "7", "request-id": "r1", "set-cookie": "a=b", "x-ratelimit-remaining": "0"}
    with ScriptedEndpoint([ScriptedReply(fault=Status(status, told, f"no, {KEY}!"))]) as endpoint:
        async with opened(endpoint.base_url, cap_calls=1) as there:
            answer = await there.ask()
            (line,) = [line for line in read(there.trajectory) if isinstance(line, RefusedCall)]
            assert (line.status, receipts(there.trajectory)) == (status, ())
    assert answer.status_code == status
    assert "no, [key]!" in answer.text
    assert answer.headers["retry-after"] == "7" and answer.headers["request-id"] == "r1"
    assert "set-cookie" not in answer.headers and "x-ratelimit-remaining" not in answer.headers
    assert there.receipts == [] and there.proxy_endpoint.meter.budget.calls == 0
    assert KEY not in there.proxy_endpoint.fault and str(status) in there.proxy_endpoint.fault


async def test_a_name_and_a_password_in_the_address() -> None:
    with ScriptedEndpoint([ScriptedReply("x", usage=USAGE)]) as endpoint:
        address = endpoint.base_url.replace("//", "//ann:s%40fe-word@")
        async with opened(address, key=None) as there:
            assert (await there.ask()).status_code == 200
    assert endpoint.requests[0].headers["authorization"] == "Basic YW5uOnNAZmUtd29yZA=="


async def test_they_do_not_come_back_as_a_header_has_them() -> None:
    told = http.whole(400, b'{"error": "no Basic YW5uOnNAZmUtd29yZA=="}')
    async with raw_endpoint([told]) as url, opened(url.replace("//", "//ann:s%40fe-word@"), key=None) as there:
        assert "no Basic [key]" in (await there.ask()).text
        assert "YW5u" not in there.proxy_endpoint.fault


async def test_what_is_refused_for_good_before_any_call_ends_the_attempt() -> None:
    """Some agents would try a wrong key ten times, for three minutes."""
    with ScriptedEndpoint([ScriptedReply(fault=Status(401))]) as endpoint:
        async with opened(endpoint.base_url) as there:
            await there.ask()
            assert there.stops == ["endpoint"]
    with ScriptedEndpoint([ScriptedReply("x", usage=USAGE), ScriptedReply(fault=Status(401))]) as endpoint:
        async with opened(endpoint.base_url) as there:
            await there.ask()
            await there.ask()
            assert there.stops == [], "a key that has worked may work again"


async def test_what_is_kept_for_an_hour_is_held_and_booked_at_its_own_price() -> None:
    price = Price(input=Decimal(4), output=Decimal(20), cache_write=Decimal(5), cache_write_1h=Decimal(8))
    usage = Usage(input_tokens=10, cache_write_tokens=100, cache_write_1h_tokens=1000, output_tokens=5)
    with ScriptedEndpoint([ScriptedReply("x", usage=usage)] * 2) as endpoint:
        async with opened(endpoint.base_url, price=price) as there:
            await there.ask(MESSAGES, stream=True)
            await there.ask(MESSAGES, cache_control={"type": "ephemeral", "ttl": "1h"})
            five, hour = (line for line in read(there.trajectory) if isinstance(line, ReservedCall))
    assert [receipt.usage for receipt in there.receipts] == [usage, usage]
    assert there.receipts[0].cost_usd == price.cost(usage)
    assert (five.worst.cache_write_1h_tokens, hour.worst.cache_write_tokens) == (0, 0)
    assert five.worst.cache_write_tokens and hour.worst.cache_write_1h_tokens


@pytest.mark.parametrize("status", [502, 504, 520, 524])
async def test_what_a_gateway_lost_is_booked_at_the_hold(status: int) -> None:
    with ScriptedEndpoint([ScriptedReply(fault=Status(status))]) as endpoint:
        async with opened(endpoint.base_url) as there:
            assert (await there.ask()).status_code == status
            (held,) = [line for line in read(there.trajectory) if isinstance(line, ReservedCall)]
    assert [(one.estimated, one.cost_usd) for one in there.receipts] == [(True, held.held_usd)]


async def test_the_key_never_comes_back_wherever_the_endpoint_says_it() -> None:
    event = f'data: {{"choices": [{{"delta": {{"content": "it is {KEY}"}}, "finish_reason": "stop"}}]}}\n\n'.encode()
    middle = event.index(KEY.encode()) + 9
    parts = [
        http.head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", "request-id": KEY}),
        http.chunk(event[:middle]),
        http.chunk(event[middle:]),
        http.chunk(f"data: {KEY[:12]}".encode()),
        http.LAST_CHUNK,
    ]
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        reader, writer = await asyncio.open_unix_connection(str(there.proxy_endpoint.path))
        body = json.dumps(request(stream=True, stream_options={"include_usage": True})).encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = await reader.readuntil(http.LAST_CHUNK)
        writer.close()
        # Without the chunks' sizes, which may stand in the middle of it.
        said = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", answer)
        assert KEY.encode() not in said
        assert b"request-id: [key]" in said and b"it is [key]" in said and KEY[:12].encode() in said
        assert KEY not in there.trajectory.read_text()


def test_bytes_without_the_key_pass_as_they_are_in_whatever_pieces() -> None:
    probability = random.Random(3)
    for _ in range(200):
        pieces = ["".join(probability.choices(["s", "k", "-", "ab", "ba", "b"], k=3)) for _ in range(8)]
        keyless = StreamRedactor(["sk-abab"])
        passed = b"".join(keyless.feed(piece.encode()) for piece in pieces) + keyless.flush()
        assert passed.decode() == "".join(pieces).replace("sk-abab", "[key]")


async def test_a_key_that_is_a_common_word_changes_no_answer() -> None:
    with ScriptedEndpoint([ScriptedReply("EMPTY is what it was", usage=USAGE)]) as endpoint:
        async with opened(endpoint.base_url, key="EMPTY") as there:
            assert "EMPTY is what it was" in (await there.ask()).text


# What endpoints speak

ANSWER = b'{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": %s}' % (
    b'{"prompt_tokens": 5, "completion_tokens": 2}'
)
SIZED = http.whole(200, ANSWER)
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FORMS = {
    "a length": [SIZED],
    "chunks": [IN_CHUNKS, b"9;note=1\r\n", ANSWER[:9], b"\r\n", http.chunk(ANSWER[9:]), b"0\r\nserver: x\r\n\r\n"],
    "to the end of the connection": [b"HTTP/1.1 200 OK\r\n\r\n", ANSWER[:9], ANSWER[9:]],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n\r\n", ANSWER],
    "a word before it": [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", SIZED],
    "byte by byte": [bytes([byte]) for byte in SIZED],
    "another behind it": [SIZED + http.whole(200, b'{"choices": []}')],
}


@pytest.mark.parametrize("parts", FORMS.values(), ids=FORMS.keys())
async def test_an_answer_is_read_in_whatever_form_it_comes(parts: list[bytes]) -> None:
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        for _ in range(2):
            answer = await there.ask()
            assert (answer.status_code, answer.content) == (200, ANSWER)
            await asyncio.sleep(0.02)  # until the endpoint has closed its side
    assert [(one.usage, one.estimated) for one in there.receipts] == [
        (Usage(input_tokens=5, output_tokens=2), False)
    ] * 2


BROKEN = {
    "noise": [b"SSH-2.0-OpenSSH_9.2\r\n"],
    "nothing": [b""],
    "too short": [SIZED[:-1]],
    "a head without an end": [b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000],
    "two lengths": [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} "],
    "no chunk": [IN_CHUNKS, b"zz\r\n{}\r\n"],
    "chunks without an end": [IN_CHUNKS, http.chunk(ANSWER)],
    "another protocol": [b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nx"],
}


@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_whole_answer_is_lost_and_booked_at_the_hold(parts: list[bytes]) -> None:
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        with suppress(httpx.HTTPError):
            assert (await there.ask()).status_code == 502
        await until(lambda: bool(there.receipts))
        assert there.proxy_endpoint.meter.under_way == 0
    assert [one.estimated for one in there.receipts] == [True]
    assert "the connection was lost" in there.proxy_endpoint.fault


async def test_one_connection_serves_all_calls_of_a_caller() -> None:
    with ScriptedEndpoint([REPLY] * 6) as endpoint:
        async with opened(endpoint.base_url) as there:
            for number in range(6):
                assert (await there.ask(ALL[number % 3], stream=number % 2 == 0)).status_code == 200
            assert endpoint.connections == 1


@pytest.mark.parametrize("key", ["sk-0123456789\n", "sk-0123456789\r\nx-more: 1", "sk-0123456789\u2014"], ids=ascii)
async def test_a_key_that_no_header_can_hold_is_not_sent(key: str) -> None:
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url, key=key) as there:
            answer = await there.ask()
        assert endpoint.connections == 0
    assert answer.status_code == 503 and there.receipts == []
    assert "key" in there.proxy_endpoint.fault and "0123456789" not in there.proxy_endpoint.fault


async def test_an_endpoint_waits_for_an_agent_that_does_not_read() -> None:
    """Its answer is kept nowhere in between, however long it is."""
    sent, parts, event = 0, 60, b": " + b"x" * 1_000_000 + b"\n\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await http.read(reader, writer)
        writer.write(stream_head())
        while sent < parts:
            writer.write(http.chunk(event))
            await writer.drain()
            sent += 1
        writer.write(http.chunk(ENDS[CHAT.path]) + http.LAST_CHUNK)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, opened(base_url) as there:
        more: Json = {"stream": True, "stream_options": {"include_usage": True}}
        async with there.client.stream("POST", f"/v1/{CHAT.path}", json=request(**more)) as got:
            before = -1
            while sent > before:
                before = sent
                await asyncio.sleep(0.2)
            assert sent < parts // 2
            size = sum([len(some) async for some in got.aiter_bytes()])
        assert size == parts * len(event) + len(ENDS[CHAT.path])
    assert [one.estimated for one in there.receipts] == [False]


async def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[http.HttpRequest] = []
    async with raw_endpoint([SIZED], seen=seen) as base_url:
        address = base_url.removeprefix("http://").removesuffix("/v1")
        monkeypatch.setenv("http_proxy", f"http://ann:s%40fe@{address}")
        monkeypatch.setenv("no_proxy", "")
        async with opened("http://models.example:8000/v1") as there:
            assert (await there.ask()).content == ANSWER
    assert seen[0].path == "http://models.example:8000/v1/chat/completions"
    assert (seen[0].headers["host"], seen[0].headers["authorization"]) == ("models.example:8000", f"Bearer {KEY}")
    assert seen[0].headers["proxy-authorization"] == "Basic YW5uOnNAZmU="


async def test_a_proxy_that_speaks_no_http_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    async with opened("http://models.example/v1") as there:
        assert (await there.ask()).status_code == 503
    assert there.receipts == [] and "socks5" in there.proxy_endpoint.fault


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """Of 127.0.0.1, signed by itself and trusted here."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl, which makes the certificate")
    made = [str(tmp_path / "key"), "-out", str(tmp_path / "cert"), "-days", "2", "-subj", "/CN=127.0.0.1"]
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*argv, "-keyout", *made], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    certificates.cache_clear()
    yield context
    certificates.cache_clear()


async def test_an_encrypted_endpoint(certificate: ssl.SSLContext) -> None:
    async with raw_endpoint([SIZED], tls=certificate) as base_url, opened(base_url) as there:
        assert base_url.startswith("https://")
        assert (await there.ask()).content == ANSWER
        certificates.cache_clear()
        os.environ.pop("SSL_CERT_FILE")
        await there.client.aclose()
        async with opened(base_url) as strict:
            assert (await strict.ask()).status_code == 503
    assert strict.receipts == [] and "SSLCertVerificationError" in strict.proxy_endpoint.fault


@pytest.mark.parametrize("status", [200, 407])
async def test_an_encrypted_endpoint_through_a_tunnel(
    certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    asked: list[str] = []
    ended: list[None] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(http.head(status, {"via": "x"}))
        if status == 200:
            host, _, port = asked[0].split()[1].partition(":")
            inner, outer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(pipe(reader, outer), pipe(inner, writer))
        writer.close()
        ended.append(None)

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                sink.write(data)
        sink.close()

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    monkeypatch.setenv("https_proxy", f"http://ann:safe@127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
    monkeypatch.setenv("no_proxy", "")
    async with proxy, raw_endpoint([SIZED], tls=certificate) as base_url, opened(base_url) as there:
        answer = await there.ask()
        assert answer.status_code == (200 if status == 200 else 503)
        assert asked[0].startswith(f"CONNECT {base_url.removeprefix('https://').removesuffix('/v1')} HTTP/1.1")
        assert "proxy-authorization: Basic YW5uOnNhZmU=" in asked[0] and KEY not in asked[0]
        await there.client.aclose()
        await until(lambda: bool(ended))
    assert len(there.receipts) == (status == 200)


# What a call costs


@per_api
@streamed_or_not
async def test_equal_traffic_has_equal_receipts(api: Api, streamed: bool) -> None:
    reply = ScriptedReply(
        text="x",
        usage=Usage(input_tokens=90, cache_read_tokens=10, output_tokens=30),
        calls=(ToolCall("1", "a", "{}"),),
    )
    with ScriptedEndpoint([reply]) as endpoint:
        async with opened(endpoint.base_url) as there:
            await there.ask(api, stream=streamed)
    (receipt,) = there.receipts
    assert (receipt.usage, receipt.estimated, receipt.fixer, receipt.call) == (reply.usage, False, "f", 1)
    assert receipt.cost_usd == PRICE.cost(receipt.usage) == there.proxy_endpoint.meter.budget.spent_usd


async def test_the_hold_is_written_before_the_endpoint_sees_the_request() -> None:
    seen: list[list[str]] = []

    def look(asked: ScriptedRequest) -> ScriptedReply:
        seen.append([line.kind for line in read(trajectory)])
        return REPLY

    with ScriptedEndpoint(look) as endpoint:
        async with opened(endpoint.base_url) as there:
            trajectory = there.trajectory
            await there.ask()
            await there.ask(stream=True)
    assert seen == [["header", "held"], ["header", "held", "call", "held"]]


ENDS = {
    "chat/completions": b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": '
    b'{"prompt_tokens": 5, "completion_tokens": 2}}\n\ndata: [DONE]\n\n',
    "responses": b'data: {"type": "response.completed", "response": {"status": "completed", "usage": '
    b'{"input_tokens": 5, "output_tokens": 2}}}\n\n',
    "messages": b'data: {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}\n\n'
    b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}\n\n'
    b'data: {"type": "message_stop"}\n\n',
}


@per_api
async def test_a_call_is_settled_before_the_last_of_its_answer_leaves(api: Api) -> None:
    """The endpoint has said all and does not close: whoever has read the end finds the receipt written."""
    parts = [stream_head(), http.chunk(ENDS[api.path])]
    async with raw_endpoint(parts, hang=True) as base_url, opened(base_url) as there:
        wants = request(api, stream=True, **counted(api))
        async with there.client.stream("POST", f"/v1/{api.path}", json=wants) as answer:
            async for _ in answer.aiter_bytes():
                (receipt,) = receipts(there.trajectory)
                assert (receipt.usage, receipt.estimated) == (Usage(input_tokens=5, output_tokens=2), False)
                break
        assert [one.usage for one in there.receipts] == [Usage(input_tokens=5, output_tokens=2)]


@per_api
@streamed_or_not
@pytest.mark.parametrize("fault", [None, Reset(), Cut(), Truncated()], ids=lambda fault: type(fault).__name__)
async def test_an_answer_without_usage_is_booked_at_the_hold(api: Api, streamed: bool, fault: Fault | None) -> None:
    usage = None if fault is None else USAGE
    with ScriptedEndpoint([ScriptedReply("word " * 100, usage=usage, fault=fault)]) as endpoint:
        async with opened(endpoint.base_url) as there:
            try:
                await there.ask(api, stream=streamed)
            except httpx.HTTPError:
                assert fault is not None
            await until(lambda: bool(there.receipts))
            (held,) = [line for line in read(there.trajectory) if isinstance(line, ReservedCall)]
            assert there.proxy_endpoint.meter.under_way == 0
    (receipt,) = there.receipts
    assert receipt.estimated
    assert (receipt.cost_usd, receipt.usage) == (held.held_usd, held.worst)


async def test_counts_that_came_before_an_answer_broke_off_are_not_what_it_cost() -> None:
    """The messages API begins with the prompt's count and one token of output."""
    begun = b'data: {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}\n\n'
    async with raw_endpoint([stream_head(), http.chunk(begun)]) as base_url, opened(base_url) as there:
        with pytest.raises(httpx.HTTPError):
            await there.ask(MESSAGES, stream=True)
        await until(lambda: bool(there.receipts))
        assert there.receipts[0].estimated


@per_api
@streamed_or_not
async def test_an_error_in_place_of_an_answer_costs_nothing(api: Api, streamed: bool) -> None:
    with ScriptedEndpoint([ScriptedReply(fault=ErrorBody("overloaded"))]) as endpoint:
        async with opened(endpoint.base_url) as there:
            answer = await there.ask(api, stream=streamed)
            assert answer.status_code == 200 and "overloaded" in answer.text
    assert there.receipts == [] and there.proxy_endpoint.meter.budget.calls == 0
    assert "overloaded" in there.proxy_endpoint.fault


async def test_an_endpoint_that_cannot_be_reached_costs_nothing() -> None:
    async with opened("http://127.0.0.1:9/v1") as there:
        assert (await there.ask()).status_code == 503
    assert there.receipts == [] and "Is it running?" in there.proxy_endpoint.fault


@per_api
async def test_an_agent_that_leaves_in_the_middle_is_booked_at_what_it_used(api: Api) -> None:
    half = ENDS[api.path].index(b"\n\n") // 2
    parts = [
        stream_head(),
        http.chunk(ENDS[api.path][:half]),
        b"",
        b"",
        http.chunk(ENDS[api.path][half:]),
        http.LAST_CHUNK,
    ]
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        wants = request(api, stream=True, **counted(api))
        async with there.client.stream("POST", f"/v1/{api.path}", json=wants) as answer:
            assert answer.status_code == 200
        await until(lambda: bool(there.receipts))
    assert [(one.usage, one.estimated) for one in there.receipts] == [(Usage(input_tokens=5, output_tokens=2), False)]


@streamed_or_not
async def test_a_call_that_is_cut_off_by_the_end_of_the_account_is_booked_at_the_hold(streamed: bool) -> None:
    with ScriptedEndpoint([ScriptedReply("x", usage=USAGE, fault=Hang(5))]) as endpoint:
        async with opened(endpoint.base_url) as there:
            asking = asyncio.create_task(there.ask(stream=streamed))
            await until(lambda: endpoint.served == 1)
            await there.proxy_endpoint.close()
            lines = list(read(there.trajectory))
            with pytest.raises(httpx.HTTPError):
                await asking
    assert [line.kind for line in lines] == ["header", "held", "call", "end"]
    assert [one.estimated for one in there.receipts] == [True]


async def test_without_room_for_a_record_nothing_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    real, full = os.write, []

    def write(file: int, data: bytes) -> int:
        if full and b'"kind"' in data:
            raise OSError(28, "No space left on device")
        return real(file, data)

    with ScriptedEndpoint([REPLY] * 2) as endpoint:
        async with opened(endpoint.base_url) as there:
            await there.ask()
            monkeypatch.setattr(os, "write", write)
            full.append(True)
            with pytest.raises(httpx.HTTPError):
                await there.ask()
            full.clear()
        assert endpoint.served == 1
    assert there.stops == ["endpoint"]
    assert there.proxy_endpoint.meter.under_way == 0 and len(there.receipts) == 1


# What counts


async def test_questions_pass_uncounted() -> None:
    seen: list[http.HttpRequest] = []
    count = http.whole(200, b'{"input_tokens": 3}', {"connection": "close"})
    async with raw_endpoint([count], seen=seen) as base_url, opened(base_url, cap_calls=0) as there:
        counted = await there.client.post("/v1/messages/count_tokens?beta=true", json=request(MESSAGES))
        assert (counted.status_code, counted.content) == (200, b'{"input_tokens": 3}')
        assert (await there.client.get("/v1/models")).status_code == 200
        assert (await there.client.get("/models/meta-llama/Llama-3.1:free")).status_code == 200
        assert there.told == []
    assert [asked.path for asked in seen] == [
        "/v1/messages/count_tokens?beta=true",
        "/v1/models",
        "/v1/models/meta-llama/Llama-3.1:free",
    ]
    assert seen[0].headers["x-api-key"] == KEY and seen[1].headers["authorization"] == f"Bearer {KEY}"


PATHS = [
    "POST /v1/batches",
    "POST /v1/files",
    "GET /v1/files",
    "POST /v1/embeddings",
    "POST /v1/completions",
    "POST /v1/responses/compact",
    "GET /v1/responses/resp_1",
    "POST /v1/messages/batches",
    "GET /v1/chat/completions",
    "GET /v1/models/../files",
    "GET /v1/models/..",
    "GET /v1/models/./../files/f/content",
    "GET /v1/models/%2e%2e/files",
    "GET /v1/models/m?/../files/../../organization".replace("?", "%3f"),
    "DELETE /v1/models/m",
    "PUT /v1/chat/completions",
    "GET http://elsewhere/v1/models",
    "GET /",
]


@pytest.mark.parametrize("what", PATHS)
async def test_other_paths_are_refused_and_reach_no_endpoint(what: str) -> None:
    seen: list[http.HttpRequest] = []
    body = json.dumps(request()).encode()
    async with raw_endpoint([http.whole(200, b"{}")], seen=seen) as base_url, opened(base_url) as there:
        answer = await there.raw(
            f"{what} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        assert answer.startswith(b"HTTP/1.1 404 ") and not BUDGET_WORDS.search(answer)
    assert seen == []


async def test_an_answer_to_head_has_no_body() -> None:
    async with opened("http://127.0.0.1:9/v1") as there:
        both = b"HEAD / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n"
        answer = await there.raw(both)
    assert answer.count(b"HTTP/1.1 404") == 2 and answer.endswith(b"\r\n\r\n") and b"{" not in answer


BAD_BODIES = {
    "no JSON": b"model=m",
    "no object": b"[]",
    "another model": b'{"model": "dearer", "messages": []}',
    "no model": b'{"messages": []}',
    "a model twice": b'{"model": "dearer", "messages": [], "model": "m"}',
    "a search": b'{"model": "m", "messages": [], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}',
    "a document": b'{"model": "m", "messages": [{"content": [{"type": "document", "source": {"url": "https://a/b"}}]}]}',
    "a long name": b'{"model": "' + b"x" * 5_000_000 + b'", "messages": []}',
}


@per_api
@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_request_that_cannot_be_counted_is_refused_and_reaches_no_endpoint(api: Api, body: bytes) -> None:
    with ScriptedEndpoint([]) as endpoint:
        async with opened(endpoint.base_url) as there:
            answer = await there.client.post(f"/v1/{api.path}", content=body.replace(b"messages", api.turns.encode()))
        assert answer.status_code in (400, 404)
        assert endpoint.served == 0 and endpoint.connections == 0
    error = answer.json()["error"]
    assert len(error["message"]) < 300 and not BUDGET_WORDS.search(answer.content)
    assert there.receipts == [] and 0 < len(there.proxy_endpoint.fault) < 400


@pytest.mark.parametrize(("rule", "price"), [("paper", PRICE), ("hard", None)], ids=["paper", "subscription"])
async def test_what_an_endpoint_would_load_is_refused_where_nothing_is_held_too(
    rule: CapRule, price: Price | None
) -> None:
    async with opened("http://127.0.0.1:9/v1", rule=rule, price=price) as there:
        answer = await there.client.post("/v1/messages", content=BAD_BODIES["a document"])
    assert answer.status_code == 400 and "Send its text." in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json; charset=utf-7"},
        {"content-type": "application/json;Charset = 'UTF-16'"},
        {"content-type": "application/json; charset=utf-8; charset=utf-7"},
        {"content-encoding": "gzip"},
        {"content-encoding": "identity, gzip"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages", "messages/count_tokens"])
async def test_a_body_in_another_encoding_is_refused(path: str, headers: dict[str, str]) -> None:
    with ScriptedEndpoint([]) as endpoint:
        async with opened(endpoint.base_url) as there:
            answer = await there.client.post(f"/v1/{path}", json=request(), headers=headers)
        assert (answer.status_code, endpoint.connections) == (415, 0)
    assert "UTF-8" in answer.json()["error"]["message"] and there.proxy_endpoint.fault_own


@per_api
@pytest.mark.parametrize("kind", ["application/json; charset=UTF-8", "text/plain", 'a/b; charset="utf-8"'])
async def test_the_endpoint_is_told_of_plain_json_and_gets_that(api: Api, kind: str) -> None:
    body = json.dumps(request(api)).replace("Why", "+ACI-\\u201c").encode()
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there:
            sent = await there.client.post(f"/v1/{api.path}", content=body, headers={"content-type": kind})
        assert sent.status_code == 200
        (asked,) = endpoint.requests
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert headers["content-type"] == "application/json" and "content-encoding" not in headers
    assert "\u201c" in asked.body and asked.content == json.loads(body) | ({"store": False} if api is RESPONSES else {})


async def test_an_endpoint_is_told_to_keep_no_answer() -> None:
    with ScriptedEndpoint([REPLY] * 3) as endpoint:
        async with opened(endpoint.base_url) as there:
            for store in (True, None, False):
                await there.ask(RESPONSES, store=store)
        assert [asked.content["store"] for asked in endpoint.requests] == [False] * 3


HOUR = Price(input=Decimal(5), output=Decimal(25), cache_write=Decimal("6.25"), cache_write_1h=Decimal(10))


async def test_prompts_that_are_kept_for_an_hour_pass_no_cap_with_many_calls_at_once() -> None:
    """Each changes a word at its beginning, so that all of it is written once more."""

    def reply(asked: ScriptedRequest) -> ScriptedReply:
        usage = Usage(input_tokens=3, cache_write_1h_tokens=len(asked.body) // 4, output_tokens=1)
        return ScriptedReply("x", usage=usage, fault=Hang(0.1))

    part: Json = {"type": "text", "text": "word " * 8000, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    bodies = [
        request(MESSAGES, system=f"call {number}", max_tokens=1, messages=[{"role": "user", "content": [part]}])
        for number in range(30)
    ]
    with ScriptedEndpoint(reply) as endpoint:
        async with opened(endpoint.base_url, price=HOUR) as there:
            await there.client.post("/v1/messages", json=bodies[0])
            await asyncio.gather(
                *(there.client.post("/v1/messages", json=body, timeout=3) for body in bodies[1:]),
                return_exceptions=True,
            )
            spent = there.proxy_endpoint.meter.budget.spent_usd
    assert Decimal(1) < spent <= Decimal(2)


async def test_a_tool_that_is_loaded_by_its_name_is_held_for() -> None:
    tools: JsonValue = [{"name": "a", "description": "long " * 4000, "input_schema": {}, "defer_loading": True}]
    ask: Json = {"role": "user", "content": "a"}
    named: JsonValue = [{"type": "tool_reference", "tool_name": "a"}] * 3
    load: Json = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": named}]}
    with ScriptedEndpoint([ScriptedReply("x", usage=Usage(input_tokens=20, output_tokens=1))] * 2) as endpoint:
        async with opened(endpoint.base_url) as there:
            for turns in ([ask], [ask, load]):
                assert (await there.ask(MESSAGES, tools=tools, messages=turns)).status_code == 200
            _, held = (line for line in read(there.trajectory) if isinstance(line, ReservedCall))
    assert held.worst.prompt_tokens >= 3 * 20_000


@pytest.mark.parametrize("part", ["tools", "turns"])
async def test_what_an_endpoint_writes_anew_is_held_for(part: str) -> None:
    """With a digit, a comma and a blank for each number; also where a conversation goes on that was counted."""
    numbers: JsonValue = {"enum": [1] * 10_000}
    ask: Json = {"role": "user", "content": "a"}
    call: Json = {"type": "tool_use", "id": "t", "name": "a", "input": numbers}
    turns: JsonValue = [ask, {"role": "assistant", "content": [call]}] if part == "turns" else [ask]
    tools: Json = {"tools": [{"name": "a", "input_schema": numbers}]} if part == "tools" else {}
    with ScriptedEndpoint([ScriptedReply("x", usage=Usage(input_tokens=20, output_tokens=1))] * 2) as endpoint:
        async with opened(endpoint.base_url) as there:
            assert (await there.ask(MESSAGES, messages=[ask])).status_code == 200
            assert (await there.ask(MESSAGES, messages=turns, **tools)).status_code == 200
            _, held = (line for line in read(there.trajectory) if isinstance(line, ReservedCall))
    assert held.worst.prompt_tokens >= 30_000


async def test_tools_that_a_model_knows_are_held_for_beyond_their_names() -> None:
    tools: JsonValue = [{"type": "bash_20250124", "name": "bash"}, {"type": "memory_20250818", "name": "memory"}]
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there:
            await there.ask(MESSAGES, tools=tools)
            (held,) = (line for line in read(there.trajectory) if isinstance(line, ReservedCall))
    assert held.worst.prompt_tokens >= 2 * BUILT_IN_TOKENS


@pytest.mark.parametrize(
    "more",
    [{"model": "dearer"}, {"mcp_servers": [1]}, {"messages": [{"role": "user", "content": [{"type": "document"}]}]}],
    ids=str,
)
async def test_a_question_about_tokens_is_checked_like_a_request(more: Json) -> None:
    with ScriptedEndpoint([]) as endpoint:
        async with opened(endpoint.base_url) as there:
            asked = request(MESSAGES) | more
            assert (await there.client.post("/v1/messages/count_tokens", json=asked)).status_code in (400, 404)
            assert (await there.client.get("/v1/models?api_base=http://a")).status_code == 404
        assert endpoint.connections == 0


async def test_a_question_about_models_has_no_body() -> None:
    seen: list[http.HttpRequest] = []
    async with raw_endpoint([http.whole(200, b"{}")], seen=seen) as base_url, opened(base_url) as there:
        asked = await there.client.request("GET", "/v1/models?client_version=0.98.0", content=b'{"a": 1}')
        assert asked.status_code == 200
    assert [(one.path, one.body) for one in seen] == [("/v1/models?client_version=0.98.0", b"")]


# Hostile agents


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"\r\n\r\n", b"HTTP/1.1 400"),
        (b"POST /v1/messages HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 411"),
        (b"POST /v1/messages HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"HTTP/1.1 413"),
        (b"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", b"HTTP/1.1 501"),
        (b"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 400"),
        (b"POST /v1/messages HTTP/1.1\r\n" + b"a: b\r\n" * 50_000 + b"\r\n", b""),
        (b"GET /v1/models?" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", b"HTTP/1.1 414"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"HTTP/1.1 400"),
    ],
    ids=lambda value: repr(value[:30]),
)
async def test_noise_is_refused_and_the_next_caller_served(data: bytes, answer: bytes) -> None:
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there:
            try:
                assert (await there.raw(data)).startswith(answer)
            except ConnectionResetError:
                assert answer == b""
            assert (await there.ask()).status_code == 200


def _nested(depth: int) -> JsonValue:
    value: JsonValue = "x"
    for _ in range(depth):
        value = [value]
    return value


ODD: dict[str, Json] = {
    "half a character": {"messages": [{"role": "user", "content": "\ud800"}]},
    "a key of half a character": {"messages": [{"role": "user", "content": "a"}], "\udfff": 1},
    "deep": {"messages": [_nested(400)]},
    "deep beside": {"messages": [1], "metadata": _nested(400)},
    "a large number": {"messages": [10**4000]},
    "a number beyond numbers": {"messages": [json.loads("1e999")]},
    "no list": {"messages": {"role": "user"}},
    "a large limit": {"messages": [1], "max_tokens": 10**40},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("rule", ["hard", "paper"])
async def test_an_odd_request_is_counted_like_any_other(odd: Json, rule: CapRule) -> None:
    body = json.dumps({"model": "m", "max_tokens": 900, **odd}).replace("Infinity", "1e999").encode()
    with ScriptedEndpoint([ScriptedReply("a", usage=None)] * 2) as endpoint:
        async with opened(endpoint.base_url, rule=rule) as there:
            await there.client.post("/v1/chat/completions", content=body)
            await there.ask()
            assert there.proxy_endpoint.meter.under_way == 0
            assert len(there.receipts) == endpoint.served
            assert tuple(there.receipts) == receipts(there.trajectory)


async def test_halves_of_a_character_in_two_chunks_are_read_as_one() -> None:
    events = b"".join(
        b'data: {"choices": [{"delta": {"content": "%s"}, "finish_reason": "stop"}]}\n\n' % half
        for half in (b"\\ud83d", b"\\ude00")
    )
    parts = [stream_head(), http.chunk(events), http.chunk(ENDS["chat/completions"]), http.LAST_CHUNK]
    async with raw_endpoint(parts) as base_url, opened(base_url) as there:
        await there.ask(stream=True)
        (call,) = [line for line in read(there.trajectory) if isinstance(line, BilledCall)]
    assert call.said.text == "😀" and not call.receipt.estimated


async def test_requests_that_come_at_once_are_answered_in_turn() -> None:
    with ScriptedEndpoint([ScriptedReply(text, usage=USAGE) for text in ("first", "second")]) as endpoint:
        async with opened(endpoint.base_url) as there:
            body = json.dumps(request()).encode()
            chunked = b"".join(http.chunk(bytes([byte])) for byte in body) + http.LAST_CHUNK
            first = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked
            second = b"POST /chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            answer = await there.raw(first + second)
        assert answer.index(b"first") < answer.index(b"second")
        assert [asked.content for asked in endpoint.requests] == [request(), request()]


async def test_one_attempt_takes_no_more_connections_than_its_share() -> None:
    async with opened("http://127.0.0.1:9/v1") as there:
        writers = [(await asyncio.open_unix_connection(str(there.proxy_endpoint.path)))[1] for _ in range(MAX_TALKS)]
        await until(lambda: len(there.proxy_endpoint._talks) == MAX_TALKS)
        reader, writer = await asyncio.open_unix_connection(str(there.proxy_endpoint.path))
        assert await reader.read() == b""
        for each in (*writers, writer):
            each.close()


async def test_one_attempt_takes_no_more_memory_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "MAX_BUFFERED", 10_000)
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with opened(endpoint.base_url) as there:
            _reader, writer = await asyncio.open_unix_connection(str(there.proxy_endpoint.path))
            writer.write(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 9990\r\n\r\nthe rest never comes")
            await until(lambda: there.proxy_endpoint.buffered > 0)
            for rest in (b"Content-Length: 11\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n6\r\n"):
                answer = await there.raw(b"POST /v1/messages HTTP/1.1\r\n" + rest)
                assert answer.startswith(b"HTTP/1.1 503")
            writer.close()
            await until(lambda: there.proxy_endpoint.buffered == 0)
            assert (await there.ask()).status_code == 200
            assert there.proxy_endpoint.buffered == 0


# The record


async def test_a_record_that_has_grown_too_long_still_tells_what_was_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "MAX_BYTES", 3_000)
    with ScriptedEndpoint([REPLY] * 3) as endpoint:
        async with opened(endpoint.base_url) as there:
            for text in ("first " * 500, "second " * 500, "third " * 500):
                await there.ask(messages=[{"role": "user", "content": text}])
            content = there.trajectory.read_text()
            asked = [line.asked for line in read(there.trajectory) if isinstance(line, BilledCall)]
            assert len(receipts(there.trajectory)) == 3
    assert "first " in content and "second " not in content and "third " not in content
    assert [line.left_out for line in asked] == [False, True, True]


def rebuilt(trajectory: Path) -> Iterator[Json]:
    """Every request, put together again from what each line adds to the one before it."""
    turns: list[JsonValue] = []
    rest: Json = {}
    ended = [line for line in read(trajectory) if isinstance(line, BilledCall | RefusedCall)]
    for line in sorted(ended, key=lambda line: line.call):
        rest = rest if line.asked.rest is None else line.asked.rest
        turns = [*turns[: line.asked.same], *line.asked.new]
        key = next(api.turns for api in ALL if api.name == line.api)
        yield rest if key in rest else {**rest, key: turns}


async def test_requests_can_be_put_together_again() -> None:
    main: list[JsonValue] = [{"role": "user", "content": f"turn {number}"} for number in range(5)]
    asked: list[tuple[Api, Json]] = [
        (CHAT, request(messages=main[:1])),
        (CHAT, request(messages=main[:3])),
        (CHAT, request(messages=main[:3], tools=[{"type": "function", "function": {"name": "a"}}])),
        (CHAT, request(messages=[{"role": "user", "content": "a side task"}])),
        (CHAT, request(messages=main)),
        (MESSAGES, request(MESSAGES, messages=main[:4])),
        (RESPONSES, {"model": "m", "input": "as text", "max_output_tokens": 900, "store": False}),
        (RESPONSES, request(RESPONSES, store=False)),
    ]
    replies = [ScriptedReply("a", usage=USAGE, fault=Status(429) if number == 3 else None) for number in range(8)]
    with ScriptedEndpoint(replies) as endpoint:
        async with opened(endpoint.base_url) as there:
            for api, body in asked:
                await there.client.post(f"/v1/{api.path}", json=body)
            assert list(rebuilt(there.trajectory)) == [body for _, body in asked]
            assert there.trajectory.read_text().count("turn 0") < 5, "what was said before is not said again"


async def test_requests_at_once_can_be_put_together_too() -> None:
    with ScriptedEndpoint(lambda _: ScriptedReply("a", usage=USAGE, fault=Hang(random.uniform(0, 0.05)))) as endpoint:
        async with opened(endpoint.base_url, cap_usd="50") as there:
            bodies = [request(messages=[{"role": "user", "content": f"{number}" * 9}]) for number in range(20)]
            await asyncio.gather(*(there.client.post("/v1/chat/completions", json=body) for body in bodies))
            found = list(rebuilt(there.trajectory))
    assert all(body in found for body in bodies) and len(found) == len(bodies)


async def test_the_record_holds_the_terms_the_answer_and_the_end() -> None:
    reply = ScriptedReply("text", (ToolCall("c", "bash", '{"a": 1}'),), USAGE, reasoning="thought")
    with ScriptedEndpoint([reply]) as endpoint:
        async with opened(endpoint.base_url.replace("http://", "http://user:hidden-pass@"), cap_calls=1) as there:
            await there.ask(messages=[{"role": "user", "content": f"my key is {KEY}"}])
            with pytest.raises(httpx.ReadTimeout):
                await there.client.post("/v1/chat/completions", json=request(), timeout=0.1)
            await there.proxy_endpoint.close()
            content, lines = there.trajectory.read_text(), list(read(there.trajectory))
    header, _, call, end = lines
    assert isinstance(header, TrajectoryHeader) and (header.fixer, header.rule, header.cap_calls) == ("f", "hard", 1)
    assert isinstance(call, BilledCall) and (call.said.text, call.said.reasoning) == ("text", "thought")
    assert call.said.calls == ({"id": "c", "name": "bash", "arguments": '{"a": 1}'},)
    assert isinstance(end, TrajectoryEnd) and end.stop == "cap_calls"
    assert KEY not in content and "hidden-pass" not in content
