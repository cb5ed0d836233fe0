"""The turn loop: how it ends, what it pays, and that no cap is passed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrout.agent.loop import MIN_OUTPUT_TOKENS, Conversation, Terms, converse
from scrout.errors import SandboxError
from scrout.models.chat import TRIES, Chat, Message, ToolCall
from scrout.models.scripted import ErrorBody, Hang, Reset, ScriptedEndpoint, ScriptedReply, Status, Truncated
from scrout.money import Price, Purse, Receipt, Usage
from scrout.records import Stop

KEY = "sk-very-secret-0123456789"
OPENING = (Message("system", "be brief"), Message("user", "fix it"))
PRICE = Price(input=Decimal(3), output=Decimal(15))
USAGE = Usage(input_tokens=1000, output_tokens=100)
COST = PRICE.cost(USAGE)


@dataclass(frozen=True)
class Completed:
    exit_code: int | None
    output: bytes


async def echo(command: str) -> Completed:
    return Completed(0, command.encode())


async def at_once(seconds: float) -> None:
    return None


def calls(*commands: str, usage: Usage | None = USAGE) -> ScriptedReply:
    tool_calls = tuple(
        ToolCall(f"c{number}", "bash", json.dumps({"command": command})) for number, command in enumerate(commands)
    )
    return ScriptedReply(calls=tool_calls, usage=usage)


DONE = ScriptedReply("done", usage=USAGE)


async def run(
    script: Sequence[ScriptedReply], purse: Purse, max_tokens: int = 1000, limit_s: float = 10
) -> tuple[Conversation, list[int], list[str]]:
    """The conversation, the output limit of each request, and the requests' bodies."""
    with ScriptedEndpoint(script) as endpoint:
        chat = Chat(endpoint.base_url, "toy", KEY, sleep=at_once)
        talk = await converse(chat, OPENING, echo, purse, Terms(PRICE, max_tokens, limit_s, "fix", "toy-fixer"))
    bodies = [request.body for request in endpoint.requests]
    assert KEY not in repr(talk) and KEY not in "".join(bodies)
    assert purse.held_usd == 0
    assert purse.spent_usd == sum((receipt.cost_usd or 0 for receipt in talk.receipts), Decimal(0))
    return talk, [json.loads(body)["max_tokens"] for body in bodies], bodies


async def test_a_conversation_from_start_to_end() -> None:
    purse = Purse(Decimal(1), 10)
    talk, _, bodies = await run([calls("one", "two"), calls("three"), DONE], purse)
    assert talk.stop == "finished"
    assert [message.role for message in talk.messages[2:]] == [
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [message.content for message in talk.messages if message.role == "tool"] == [
        "[exit code 0]\none",
        "[exit code 0]\ntwo",
        "[exit code 0]\nthree",
    ]
    # Each request holds the one before it, so that providers can cache the shared part.
    histories = [json.loads(body)["messages"] for body in bodies]
    assert [len(history) for history in histories] == [2, 5, 7]
    assert histories[2][:5] == histories[1] and histories[1][:2] == histories[0]
    assert [entry.get("tool_call_id") for entry in histories[1][3:]] == ["c0", "c1"]
    assert purse.calls == 3 and purse.spent_usd == 3 * COST
    receipt = talk.receipts[0]
    assert (receipt.component, receipt.fixer, receipt.model, receipt.usage) == ("fix", "toy-fixer", "toy", USAGE)
    assert not receipt.estimated


async def test_a_malformed_call_gets_an_observation_and_the_talk_goes_on() -> None:
    bad = ScriptedReply(calls=(ToolCall("x", "bash", '{"command'),), usage=USAGE)
    talk, _, _ = await run([bad, DONE], Purse(Decimal(1), 10))
    assert talk.stop == "finished"
    assert "not valid JSON" in talk.messages[3].content and talk.messages[3].call_id == "x"


async def test_the_call_cap_is_silent() -> None:
    talk, limits, bodies = await run([calls("a")] * 9, Purse(Decimal(100), 3))
    assert (talk.stop, len(limits)) == ("cap_calls", 3)
    assert talk.messages[-1].role == "tool"
    for word in ("budget", "cap", "remaining", "$"):
        assert word not in "".join(bodies)


async def test_the_dollar_cap_lowers_the_output_limit_first() -> None:
    cap = Decimal("0.02")
    purse = Purse(cap, 100)
    talk, limits, _ = await run([calls("a")] * 9, purse)
    assert talk.stop == "cap_usd"
    assert limits[0] == 1000 and MIN_OUTPUT_TOKENS <= limits[-1] < 1000
    assert limits == sorted(limits, reverse=True)
    assert purse.spent_usd <= cap
    assert purse.calls == len(limits)


async def test_a_purse_too_small_for_one_call_sends_nothing() -> None:
    talk, limits, _ = await run([DONE], Purse(Decimal("0.0001"), 10))
    assert (talk.stop, limits, talk.receipts) == ("cap_usd", [], ())


async def test_missing_usage_books_the_reserve() -> None:
    purse = Purse(Decimal(1), 10)
    talk, _, bodies = await run([ScriptedReply("done")], purse)
    worst = Usage(input_tokens=-(-len(bodies[0].encode()) // 3), output_tokens=1000)
    assert talk.stop == "finished"
    assert (talk.receipts[0].usage, talk.receipts[0].estimated) == (worst, True)
    assert purse.spent_usd == PRICE.cost(worst)


async def test_more_usage_than_was_held_is_booked_in_full_and_ends_it() -> None:
    purse = Purse(Decimal("0.05"), 10)
    greedy = Usage(input_tokens=50_000, output_tokens=100)
    talk, limits, _ = await run([calls("a", usage=greedy), DONE], purse)
    assert (talk.stop, len(limits)) == ("cap_usd", 1)
    assert purse.spent_usd == PRICE.cost(greedy)


async def test_a_cache_dearer_than_fresh_input_is_held_in_full() -> None:
    price = Price(input=Decimal(1), output=Decimal(1), cache_read=Decimal(100))
    purse = Purse(Decimal("0.01"), 10)
    with ScriptedEndpoint([ScriptedReply("done", usage=Usage(cache_read_tokens=200, output_tokens=1))]) as endpoint:
        talk = await converse(Chat(endpoint.base_url, "toy", None), OPENING, echo, purse, Terms(price, 1000, 5))
    assert (talk.stop, endpoint.requests) == ("cap_usd", [])


async def test_a_count_no_call_can_have_is_booked_at_the_reserve() -> None:
    talk, _, _ = await run([ScriptedReply("done", usage=Usage(input_tokens=10**30))], Purse(Decimal(1), 10))
    assert talk.stop == "finished" and talk.receipts[0].estimated


@pytest.mark.parametrize("fault", [Status(401), Status(429), Status(500), Status(503), ErrorBody()])
async def test_a_refused_call_costs_nothing(fault: Status | ErrorBody) -> None:
    script = [calls("a"), *[ScriptedReply(fault=fault)] * 9]
    purse = Purse(Decimal(1), 10)
    talk, _, _ = await run(script, purse)
    assert talk.stop == "endpoint" and "http://127.0.0.1" in talk.detail
    assert len(talk.receipts) == 1 and purse.calls == 2 and purse.spent_usd == COST


async def test_a_lost_reply_is_booked_at_the_reserve() -> None:
    talk, _, _ = await run([ScriptedReply("x" * 99, usage=USAGE, fault=Truncated())], Purse(Decimal(1), 10))
    assert talk.stop == "endpoint"
    assert [receipt.estimated for receipt in talk.receipts] == [True]


LOST = [Reset(), Status(502), Status(504)]


@pytest.mark.parametrize("fault", LOST)
async def test_each_try_that_may_have_been_billed_is_booked_at_the_reserve(fault: Status | Reset) -> None:
    purse = Purse(Decimal(1), 10)
    talk, _, bodies = await run([*[ScriptedReply(fault=fault)] * 2, DONE], purse)
    worst = PRICE.cost(Usage(input_tokens=-(-len(bodies[0].encode()) // 3), output_tokens=1000))
    assert (talk.stop, purse.calls) == ("finished", 3)
    assert [(paid.cost_usd, paid.estimated) for paid in talk.receipts] == [(worst, True), (worst, True), (COST, False)]


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize(("cap_calls", "tries"), [(10, TRIES), (2, 2), (1, 1)])
async def test_an_endpoint_that_loses_every_try_is_to_blame_and_no_cap_is_passed(
    fault: Status | Reset, cap_calls: int, tries: int
) -> None:
    purse = Purse(Decimal(1), cap_calls)
    talk, limits, _ = await run([ScriptedReply(fault=fault)] * 9, purse)
    assert talk.stop == "endpoint"
    assert purse.calls == len(talk.receipts) == len(limits) == tries
    assert all(receipt.estimated for receipt in talk.receipts)


async def test_a_refusal_after_a_lost_try_leaves_only_the_lost_one_booked() -> None:
    script = [ScriptedReply(fault=Reset()), ScriptedReply(fault=Status(401))]
    talk, _, _ = await run(script, Purse(Decimal(1), 10))
    assert (talk.stop, [receipt.estimated for receipt in talk.receipts]) == ("endpoint", [True])


@pytest.mark.parametrize(
    ("code", "stop"),
    [
        (400, "crashed"),
        (413, "crashed"),
        (422, "crashed"),
        *((code, "endpoint") for code in (302, 401, 402, 403, 404, 408, 429, 500, 502)),
    ],
)
async def test_a_history_that_the_endpoint_does_not_take_is_the_fixers_failure(code: int, stop: Stop) -> None:
    refusals = [ScriptedReply(fault=Status(code, message="too long"))] * 9
    talk, _, _ = await run([calls("a"), *refusals], Purse(None, None))
    assert (talk.stop, f"status {code}" in talk.detail) == (stop, True)
    talk, _, _ = await run(refusals, Purse(None, None))
    assert talk.stop == "endpoint"


async def test_receipts_are_booked_as_calls_end_and_a_cancelled_call_too() -> None:
    booked: list[Receipt] = []
    seen: list[int] = []

    async def counting(command: str) -> Completed:
        seen.append(len(booked))
        return Completed(0, b"")

    purse = Purse(Decimal(1), 10)
    with ScriptedEndpoint([calls("a"), calls("b"), ScriptedReply("late", fault=Hang(60))]) as endpoint:
        chat = Chat(endpoint.base_url, "toy", None)
        talk = asyncio.create_task(converse(chat, OPENING, counting, purse, Terms(PRICE, 1000, 60), booked.append))
        while len(endpoint.requests) < 3:  # noqa: ASYNC110 (counted by another thread)
            await asyncio.sleep(0.01)
        talk.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talk
    assert seen == [1, 2]
    assert [receipt.estimated for receipt in booked] == [False, False, True]
    assert purse.spent_usd == sum((receipt.cost_usd or 0 for receipt in booked), Decimal(0))


async def test_the_clock_ends_a_hanging_call_and_books_it() -> None:
    talk, _, _ = await run([calls("a"), ScriptedReply("late", fault=Hang(60))], Purse(Decimal(1), 10), limit_s=0.5)
    assert talk.stop == "timeout"
    assert [receipt.estimated for receipt in talk.receipts] == [False, True]


async def test_the_clock_ends_a_command() -> None:
    cancelled = asyncio.Event()

    async def slow(command: str) -> Completed:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    with ScriptedEndpoint([calls("a")]) as endpoint:
        talk = await converse(
            Chat(endpoint.base_url, "toy", None), OPENING, slow, Purse(None, None), Terms(PRICE, 1000, 0.5)
        )
    assert talk.stop == "timeout" and cancelled.is_set() and len(talk.receipts) == 1


async def test_a_broken_sandbox_keeps_the_receipts() -> None:
    async def broken(command: str) -> Completed:
        raise SandboxError("no room")

    with ScriptedEndpoint([calls("a")]) as endpoint:
        talk = await converse(
            Chat(endpoint.base_url, "toy", None), OPENING, broken, Purse(None, None), Terms(PRICE, 1000, 5)
        )
    assert (talk.stop, talk.detail, len(talk.receipts)) == ("crashed", "no room", 1)


async def test_a_bug_in_the_shell_raises() -> None:
    async def buggy(command: str) -> Completed:
        raise TimeoutError("a bug, not our clock")

    with ScriptedEndpoint([calls("a")]) as endpoint, pytest.raises(TimeoutError, match="a bug"):
        await converse(Chat(endpoint.base_url, "toy", None), OPENING, buggy, Purse(None, None), Terms(PRICE, 1000, 5))


async def test_a_reply_cut_off_says_so() -> None:
    talk, _, _ = await run([ScriptedReply("half a sen", usage=USAGE, finish_reason="length")], Purse(None, None))
    assert talk.stop == "finished" and "cut off" in talk.detail


dollars = st.decimals(0, 100, places=4)


@settings(max_examples=60, deadline=None)
@given(
    price=st.builds(Price, input=dollars, output=dollars, cache_read=st.none() | dollars),
    cap_usd=st.none() | st.decimals("0.0000000001", "0.5", places=10),
    cap_calls=st.integers(1, 6),
    max_tokens=st.integers(1, 3000),
    data=st.data(),
)
def test_no_cap_is_ever_passed(
    price: Price, cap_usd: Decimal | None, cap_calls: int, max_tokens: int, data: st.DataObject
) -> None:
    limits: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        limits.append(json.loads(request.content)["max_tokens"])
        prompt = data.draw(st.integers(1, -(-len(request.content) // 3)))
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": data.draw(st.integers(0, limits[-1])),
            "prompt_tokens_details": {"cached_tokens": data.draw(st.integers(0, prompt))},
        }
        call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
        message: dict[str, object] = {"content": "x"}
        if data.draw(st.booleans()) or len(limits) < 3:
            message["tool_calls"] = [call]
        body: dict[str, object] = {"choices": [{"message": message}]}
        if data.draw(st.booleans()):
            body["usage"] = usage
        return httpx.Response(data.draw(st.sampled_from([200, 200, 200, 200, 401, 502])), json=body)

    purse = Purse(cap_usd, cap_calls)
    chat = Chat("http://toy.invalid/v1", "toy", KEY, transport=httpx.MockTransport(answer), sleep=at_once)
    talk = asyncio.run(converse(chat, OPENING, echo, purse, Terms(price, max_tokens, 60)))
    assert cap_usd is None or purse.spent_usd <= cap_usd
    assert purse.calls == len(limits) <= cap_calls
    assert purse.held_usd == 0
    assert purse.spent_usd == sum((receipt.cost_usd or 0 for receipt in talk.receipts), Decimal(0))
    assert all(receipt.cost_usd == price.cost(receipt.usage) for receipt in talk.receipts)
    assert all(min(MIN_OUTPUT_TOKENS, max_tokens) <= limit <= max_tokens for limit in limits)
    if cap_usd is None:
        assert talk.stop in ("finished", "cap_calls", "endpoint")
