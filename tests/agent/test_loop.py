"""The turn loop: how it ends, what it pays through the meter, and that no cap is passed."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import get_args

import httpx
import pytest

from scrout.agent.context import Window
from scrout.agent.dialect import RequestTools, ToolUse, Turn
from scrout.agent.dialects import dialect
from scrout.agent.loop import Conversation, ConversationTerms, ask, converse
from scrout.agent.tools import Bash, Shell, Toolset
from scrout.base import SandboxError
from scrout.config.settings import DialectName
from scrout.models.chat import TRIES, CallRefused, Chat, Message, Overflow, Reply, ToolCall
from scrout.models.proxy.caps import MIN_OUTPUT_TOKENS, Account
from scrout.models.proxy.client import open_proxy_client
from scrout.models.scripted import ErrorBody, Hang, Reset, ScriptedEndpoint, ScriptedReply, Status, Truncated
from scrout.models.unix_socket import SocketTransport
from scrout.money import Price, Receipt, Usage, known_usd
from scrout.records import Stop
from scrout.sandbox.tier import Completed

KEY = "sk-very-secret-0123456789"
OPENING = (Message("system", "be brief"), Message("user", "fix it"))
PRICE = Price(input=Decimal(3), output=Decimal(15))
USAGE = Usage(input_tokens=1000, output_tokens=100)
COST = PRICE.cost(USAGE)


def box(shell: Shell) -> Toolset:
    return Toolset(Bash(shell))


async def echo(command: str, timeout_s: float) -> Completed:
    return Completed(0, command.encode(), 0.0)


async def at_once(seconds: float) -> None:
    return None


def calls(*commands: str, usage: Usage | None = USAGE) -> ScriptedReply:
    tool_calls = tuple(
        ToolCall(f"c{number}", "bash", json.dumps({"command": command})) for number, command in enumerate(commands)
    )
    return ScriptedReply(calls=tool_calls, usage=usage)


DONE = ScriptedReply("done", usage=USAGE)


@dataclass
class Metered:
    """A conversation that passed the meter."""

    talk: Conversation
    receipts: list[Receipt]
    bodies: list[str]
    """Of each request that reached the endpoint."""

    @property
    def limits(self) -> list[int]:
        """The output limit of each request."""
        return [json.loads(body)["max_tokens"] for body in self.bodies]

    @property
    def spent_usd(self) -> Decimal:
        return known_usd(receipt.cost_usd for receipt in self.receipts)


@asynccontextmanager
async def metered(
    base_url: str, cap_usd: str | None, cap_calls: int = 50, price: Price = PRICE
) -> AsyncIterator[tuple[Chat, list[Receipt]]]:
    """A chat that passes the meter, and its receipts, all of which are there at the end of the block."""
    booked: list[Receipt] = []
    with tempfile.TemporaryDirectory() as folder:
        account = Account(
            fixer="toy-fixer",
            model="toy",
            base_url=base_url,
            key=KEY,
            price=price,
            cap_usd=None if cap_usd is None else Decimal(cap_usd),
            cap_calls=cap_calls,
            trajectory=str(Path(folder, "trajectory.jsonl")),
            silent=False,
        )
        async with open_proxy_client(account, booked.append) as client:
            way = SocketTransport(client.socket, base_url)
            async with Chat(base_url, "toy", None, sleep=at_once, transport=way) as chat:
                yield chat, booked


async def run(
    script: Sequence[ScriptedReply],
    cap_usd: str | None = "1",
    cap_calls: int = 50,
    max_tokens: int = 1000,
    limit_s: float = 10,
    *,
    shell: Shell = echo,
    price: Price = PRICE,
) -> Metered:
    terms = ConversationTerms(max_tokens, limit_s)
    with ScriptedEndpoint(script) as endpoint:
        async with metered(endpoint.base_url, cap_usd, cap_calls, price) as (chat, booked):
            talk = await converse(chat, OPENING, box(shell), terms)
    bodies = [request.body for request in endpoint.requests]
    assert KEY not in repr(talk) and KEY not in "".join(bodies)
    return Metered(talk, booked, bodies)


async def test_a_conversation_from_start_to_end() -> None:
    done = await run([calls("one", "two"), calls("three"), DONE])
    talk = done.talk
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
    histories = [json.loads(body)["messages"] for body in done.bodies]
    assert [len(history) for history in histories] == [2, 5, 7]
    assert histories[2][:5] == histories[1] and histories[1][:2] == histories[0]
    assert [entry.get("tool_call_id") for entry in histories[1][3:]] == ["c0", "c1"]
    assert len(done.receipts) == 3 and done.spent_usd == 3 * COST
    receipt = done.receipts[0]
    assert (receipt.component, receipt.fixer, receipt.model, receipt.usage) == ("fix", "toy-fixer", "toy", USAGE)
    assert not receipt.estimated


async def test_a_malformed_call_gets_an_observation_and_the_talk_goes_on() -> None:
    bad = ScriptedReply(calls=(ToolCall("x", "bash", '{"command'),), usage=USAGE)
    talk = (await run([bad, DONE])).talk
    assert talk.stop == "finished"
    assert "JSON" in talk.messages[3].content and talk.messages[3].call_id == "x"
    assert (talk.turns, talk.malformed) == (2, 1)


async def test_the_call_cap_is_silent() -> None:
    done = await run([calls("a")] * 9, "100", 3)
    assert (done.talk.stop, len(done.bodies)) == ("cap_calls", 3)
    assert done.talk.messages[-1].role == "tool"
    for word in ("budget", "cap", "remaining", "$"):
        assert word not in "".join(done.bodies)


async def test_the_dollar_cap_lowers_the_output_limit_first() -> None:
    done = await run([calls("a")] * 9, "0.025")
    assert done.talk.stop == "cap_usd" and "left" in done.talk.detail
    assert done.limits[0] == 1000 and MIN_OUTPUT_TOKENS <= done.limits[-1] < 1000
    assert done.limits == sorted(done.limits, reverse=True)
    assert done.spent_usd <= Decimal("0.025") and len(done.receipts) == len(done.limits)


async def test_a_budget_too_small_for_one_call_sends_nothing() -> None:
    done = await run([DONE], "0.0001")
    assert (done.talk.stop, done.bodies, done.receipts) == ("cap_usd", [], [])


async def test_missing_usage_books_the_reserve() -> None:
    done = await run([ScriptedReply("done")])
    assert done.talk.stop == "finished"
    (receipt,) = done.receipts
    assert receipt.estimated and receipt.usage.output_tokens == 1000
    assert receipt.usage.input_tokens >= len(done.bodies[0].encode())


async def test_more_usage_than_was_held_is_booked_in_full_and_ends_it() -> None:
    greedy = Usage(input_tokens=50_000, output_tokens=100)
    done = await run([calls("a", usage=greedy), DONE], "0.05")
    assert (done.talk.stop, len(done.bodies)) == ("cap_usd", 1)
    assert done.spent_usd == PRICE.cost(greedy)


async def test_a_cache_dearer_than_fresh_input_is_held_in_full() -> None:
    price = Price(input=Decimal(1), output=Decimal(1), cache_read=Decimal(100))
    usage = Usage(cache_read_tokens=200, output_tokens=1)
    done = await run([ScriptedReply("done", usage=usage)], "0.01", price=price)
    assert (done.talk.stop, done.bodies) == ("cap_usd", [])


async def test_a_count_no_call_can_have_is_booked_at_the_reserve() -> None:
    done = await run([ScriptedReply("done", usage=Usage(input_tokens=10**30))])
    assert done.talk.stop == "finished" and done.receipts[0].estimated


@pytest.mark.parametrize("fault", [Status(401), Status(429), Status(500), Status(503), ErrorBody()])
async def test_a_refused_call_costs_nothing(fault: Status | ErrorBody) -> None:
    done = await run([calls("a"), *[ScriptedReply(fault=fault)] * 9])
    assert done.talk.stop == "endpoint" and "http://127.0.0.1" in done.talk.detail
    assert len(done.receipts) == 1 and done.spent_usd == COST


async def test_a_lost_reply_is_booked_at_the_reserve() -> None:
    done = await run([ScriptedReply("x" * 99, usage=USAGE, fault=Truncated())])
    assert done.talk.stop == "endpoint"
    assert [receipt.estimated for receipt in done.receipts] == [True]


LOST = [Reset(), Status(502), Status(504)]


@pytest.mark.parametrize("fault", LOST)
async def test_each_try_that_may_have_been_billed_is_booked_at_the_reserve(fault: Status | Reset) -> None:
    done = await run([*[ScriptedReply(fault=fault)] * 2, DONE])
    lost, again, last = done.receipts
    assert done.talk.stop == "finished"
    assert (lost.usage, lost.estimated, again.estimated) == (again.usage, True, True)
    assert lost.cost_usd == PRICE.cost(lost.usage) and lost.usage.output_tokens == 1000
    assert (last.cost_usd, last.estimated) == (COST, False)


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize(("cap_calls", "tries"), [(10, TRIES), (2, 2), (1, 1)])
async def test_an_endpoint_that_loses_every_try_is_to_blame_and_no_cap_is_passed(
    fault: Status | Reset, cap_calls: int, tries: int
) -> None:
    done = await run([ScriptedReply(fault=fault)] * 9, "1", cap_calls)
    assert done.talk.stop == "endpoint"
    assert len(done.receipts) == len(done.limits) == tries
    assert all(receipt.estimated for receipt in done.receipts)


async def test_a_refusal_after_a_lost_try_leaves_only_the_lost_one_booked() -> None:
    done = await run([ScriptedReply(fault=Reset()), ScriptedReply(fault=Status(401))])
    assert (done.talk.stop, [receipt.estimated for receipt in done.receipts]) == ("endpoint", [True])


@pytest.mark.parametrize(
    ("code", "stop"),
    [
        (400, "crashed"),
        (422, "crashed"),
        *((code, "endpoint") for code in (302, 401, 402, 403, 404, 408, 429, 500, 502)),
    ],
)
async def test_a_history_that_the_endpoint_does_not_take_is_the_fixers_failure(code: int, stop: Stop) -> None:
    refusals = [ScriptedReply(fault=Status(code, message="odd roles"))] * 9
    talk = (await run([calls("a"), *refusals], None)).talk
    assert (talk.stop, f"status {code}" in talk.detail) == (stop, True)
    assert (await run(refusals, None)).talk.stop == "endpoint"


async def test_receipts_are_booked_as_calls_end_and_a_cancelled_call_too() -> None:
    seen: list[int] = []

    async def counting(command: str, timeout_s: float) -> Completed:
        async with asyncio.timeout(20):
            while len(booked) < len(seen) + 1:  # noqa: ASYNC110 (the meter tells of it on another connection)
                await asyncio.sleep(0.01)
        seen.append(len(booked))
        return Completed(0, b"", 0.0)

    with ScriptedEndpoint([calls("a"), calls("b"), ScriptedReply("late", fault=Hang(60))]) as endpoint:
        async with metered(endpoint.base_url, "1") as (chat, booked):
            talk = asyncio.create_task(converse(chat, OPENING, box(counting), ConversationTerms(1000, 60)))
            while len(endpoint.requests) < 3:  # noqa: ASYNC110 (counted by another thread)
                await asyncio.sleep(0.01)
            talk.cancel()
            with pytest.raises(asyncio.CancelledError):
                await talk
    assert seen == [1, 2]
    assert [receipt.estimated for receipt in booked] == [False, False, True]


async def test_the_clock_ends_a_hanging_call_and_books_it() -> None:
    done = await run([calls("a"), ScriptedReply("late", fault=Hang(60))], limit_s=0.5)
    assert done.talk.stop == "timeout"
    assert [receipt.estimated for receipt in done.receipts] == [False, True]


async def test_the_clock_ends_a_command() -> None:
    cancelled = asyncio.Event()

    async def slow(command: str, timeout_s: float) -> Completed:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    done = await run([calls("a")], None, limit_s=0.5, shell=slow)
    assert done.talk.stop == "timeout" and cancelled.is_set() and len(done.receipts) == 1


async def test_a_broken_sandbox_keeps_the_receipts() -> None:
    async def broken(command: str, timeout_s: float) -> Completed:
        raise SandboxError("no room")

    done = await run([calls("a")], None, shell=broken)
    assert (done.talk.stop, done.talk.detail, len(done.receipts)) == ("crashed", "no room", 1)


async def test_a_bug_in_the_shell_raises() -> None:
    async def buggy(command: str, timeout_s: float) -> Completed:
        raise TimeoutError("a bug, not our clock")

    with pytest.raises(TimeoutError, match="a bug"):
        await run([calls("a")], None, shell=buggy)


async def test_a_reply_cut_off_says_so() -> None:
    talk = (await run([ScriptedReply("half a sen", usage=USAGE, finish_reason="length")])).talk
    assert talk.stop == "finished" and "cut off" in talk.detail


# Turns, thoughts, malformed calls, repeats

TERMS = ConversationTerms(1000, 10)


async def talk_in(
    name: DialectName,
    script: Sequence[ScriptedReply],
    terms: ConversationTerms = TERMS,
    silence: Callable[[Turn], str | None] = lambda turn: None,
    shell: Shell = echo,
) -> tuple[Conversation, list[list[dict[str, str]]]]:
    """The conversation, and the messages of each request."""
    with ScriptedEndpoint(script) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            talk = await converse(chat, OPENING, box(shell), terms, dialect=dialect(name), silence=silence)
    return talk, [json.loads(request.body)["messages"] for request in endpoint.requests]


def said(name: DialectName, command: str) -> ScriptedReply:
    """The call of a command as a model writes it in a dialect."""
    call = ToolUse("bash", {"command": command}, "c1" if name == "native" else "")
    message = dialect(name).render(Turn("Let me look.", (call,)))
    return ScriptedReply(message.content, message.calls, USAGE)


@pytest.mark.parametrize("name", get_args(DialectName))
async def test_one_loop_for_every_dialect_and_history_is_what_was_said(name: DialectName) -> None:
    reply = said(name, "echo one")
    talk, histories = await talk_in(name, [reply, reply], replace(TERMS, turns=2))
    assert (talk.stop, talk.detail, talk.turns) == ("cap_calls", "all 2 turns used", 2)
    assert talk.messages[2] == Message("assistant", reply.text, reply.calls)
    assert histories[1][2].get("content") == reply.text
    assert "[exit code 0]\necho one" in talk.messages[3].content == histories[1][3]["content"]


async def test_the_turns_are_a_silent_cap() -> None:
    _, histories = await talk_in("xml", [said("xml", str(number)) for number in range(5)], replace(TERMS, turns=3))
    assert len(histories) == 3
    assert not any(word in json.dumps(histories) for word in ("turns", "left", "limit"))


async def test_a_turn_without_a_call_is_answered_until_there_is_nothing_to_say() -> None:
    script = [ScriptedReply("Hm."), said("xml", "ls"), ScriptedReply("Hm, hm."), ScriptedReply("Done.")]
    heard: list[str] = []

    def silence(turn: Turn) -> str | None:
        heard.append(turn.text)
        return None if turn.text == "Done." else "Go on."

    talk, histories = await talk_in("xml", script, silence=silence)
    assert (talk.stop, talk.turns, talk.thoughts, talk.malformed) == ("finished", 4, 2, 0)
    assert heard == ["Hm.", "Hm, hm.", "Done."]
    assert histories[1][2:] == [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Go on."}]


async def test_a_malformed_turn_is_told_in_the_words_that_were_asked_for() -> None:
    script = [ScriptedReply("<function=bash>\n<parameter=command>ls"), ScriptedReply("Done.")]
    talk, histories = await talk_in("xml", script, replace(TERMS, complain=lambda problem: f"No call: {problem}"))
    assert (talk.stop, talk.turns, talk.malformed, talk.thoughts) == ("finished", 2, 1, 0)
    answer = histories[1][-1]
    assert answer["role"] == "user" and answer["content"].startswith("No call: ") and len(answer["content"]) > 20


async def test_calls_that_were_not_offered_are_not_in_the_history() -> None:
    native = calls("ls").calls
    talk, histories = await talk_in("fenced", [ScriptedReply("x", native), ScriptedReply("Done.")], silence=str_once())
    assert talk.messages[2] == Message("assistant", "x")
    assert "tool_calls" not in json.dumps(histories)


def str_once() -> Callable[[Turn], str | None]:
    words = iter(["Go on."])
    return lambda turn: next(words, None)


RUNNING = "turns running"


async def test_the_third_time_the_model_is_told_that_it_repeats_itself() -> None:
    talk, _ = await talk_in("native", [*[calls("a")] * 4, calls("b"), calls("a"), DONE])
    told = [RUNNING in message.content for message in talk.messages if message.role == "tool"]
    assert (told, talk.repeats) == ([False, False, True, True, False, False], 2)


async def test_another_result_is_no_repeat() -> None:
    results = iter(range(9))

    async def counting(command: str, timeout_s: float) -> Completed:
        return Completed(0, str(next(results)).encode(), 0.0)

    talk, _ = await talk_in("native", [*[calls("a")] * 4, DONE], shell=counting)
    assert talk.repeats == 0 and RUNNING not in repr(talk.messages)


@pytest.mark.parametrize("text", ["<function=bash>", "Hm."])
async def test_a_turn_without_a_call_may_be_a_repeat_too(text: str) -> None:
    script = [*[ScriptedReply(text)] * 4, ScriptedReply(f"{text} No."), ScriptedReply(text)]
    talk, _ = await talk_in("xml", script, replace(TERMS, turns=6), silence=lambda turn: "Go on.")
    told = [RUNNING in message.content for message in talk.messages[2:] if message.role == "user"]
    assert (told, talk.repeats) == ([False, False, True, True, False, False], 2)


async def test_repeats_may_be_counted_in_silence() -> None:
    talk, _ = await talk_in("native", [*[calls("a")] * 4, DONE], replace(TERMS, tell_repeats=False))
    assert talk.repeats == 2 and RUNNING not in repr(talk.messages)


# A context that is too small

TOO_LONG = ScriptedReply(fault=Status(400, message="This model's maximum context length is 8192 tokens."))
HISTORY = (
    *OPENING,
    *(
        message
        for number in range(6)
        for message in (Message("assistant", f"call {number}"), Message("user", "word " * 200))
    ),
)


async def asked(script: Sequence[ScriptedReply], room_tokens: int = 9000) -> tuple[Reply, list[list[object]]]:
    with ScriptedEndpoint(script) as endpoint:
        try:
            async with Chat(endpoint.base_url, "toy", None) as chat:
                window = Window(chat, room_tokens, 0.8)
                reply = await ask(chat, HISTORY, RequestTools(), 1000, window)
        finally:
            prompts = [json.loads(request.body) for request in endpoint.requests if "chat" in request.path]
    return reply, [prompt["messages"] for prompt in prompts]


async def test_too_long_a_request_is_fitted_harder_once() -> None:
    reply, sent = await asked([TOO_LONG, DONE])
    assert reply.text == "done"
    assert len(sent) == 2 and len(sent[0]) == len(HISTORY) > len(sent[1])
    assert sent[1][0] == sent[0][0] and sent[1][-2:] == sent[0][-2:]


async def test_and_no_more_than_once() -> None:
    with pytest.raises(Overflow):
        await asked([TOO_LONG, TOO_LONG, DONE])


async def test_one_that_fits_is_sent_whole() -> None:
    _, sent = await asked([DONE])
    assert [len(messages) for messages in sent] == [len(HISTORY)]


async def test_a_call_that_the_meter_refuses_is_raised() -> None:
    with ScriptedEndpoint([DONE]) as endpoint:
        async with metered(endpoint.base_url, "0.0001") as (chat, _):
            with pytest.raises(CallRefused) as refused:
                await ask(chat, OPENING, RequestTools(), 1000)
    assert refused.value.stop == "cap_usd" and not endpoint.requests


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_conversation_that_does_not_fit_is_not_the_endpoints_failure(turns: int) -> None:
    done = await run([*[calls("a")] * turns, TOO_LONG])
    assert (done.talk.stop, done.spent_usd) == ("crashed", turns * COST)


@pytest.mark.parametrize("told", [True, False])
async def test_the_endpoints_usage_lets_more_of_the_history_stay(told: bool) -> None:
    prompts: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if "tokenize" in request.url.path or "template" in request.url.path:
            return httpx.Response(404, json={})
        prompts.append(len(json.loads(request.content)["messages"]))
        body: dict[str, object] = {"choices": [{"message": {"content": said("xml", "x" * 600).text}}]}
        if told:
            body["usage"] = {"prompt_tokens": len(request.content) // 6, "completion_tokens": 9}
        return httpx.Response(200, json=body)

    async with Chat("http://toy.invalid/v1", "toy", None, transport=httpx.MockTransport(answer)) as chat:
        await converse(
            chat,
            OPENING,
            box(echo),
            replace(TERMS, turns=30),
            dialect=dialect("xml"),
            window=Window(chat, 4_000, 0.8),
        )
    assert len(prompts) == 30 and (max(prompts) > 24) is told
