"""The turn loop: ask the model, do what it calls, tell it what came of that, until it is done, or a cap or the clock
ends it. Searcher and fixer share it; what a turn without a call means is for them to say.

The model is never told of a cap. Each call's worst case is held before it is sent. That worst case counts a token for
every three bytes of the request, which holds for prose and code; a prompt of denser tokens (long digit strings, on some
tokenizers) can cost more than was held, is booked at what it cost, and may pass the cap by that much, once.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal

from scrout.agent import dialects
from scrout.agent.context import Window
from scrout.agent.dialect import Dialect, RequestTools, Toolbox, ToolUse, Turn
from scrout.base import ModelError, SandboxError
from scrout.models.chat import Chat, Message, Overflow, Reply, RequestRejected
from scrout.money import Budget, BudgetExceeded, Component, Price, Receipt, Usage
from scrout.observer import note_call, noted
from scrout.records import Stop

BYTES_PER_TOKEN = 3
MIN_OUTPUT_TOKENS = 256
"""An answer cut shorter than this is money lost; below it the budget counts as empty."""
ENDPOINT_STATUSES = frozenset({401, 402, 403, 404, 408, 429})
"""Refusals that no conversation brings about: the key, the account's credit, the address, the load. Any other 4xx in
the midst of one is about what was sent."""
UNCOUNTED = Price(input=Decimal(0), output=Decimal(0))
"""What the loop holds and books at where its calls pass the meter, which counts them."""
RUT = 3
"""How many turns running that are the same, and are answered the same, are a repeat."""


@dataclass(frozen=True)
class ConversationTerms:
    """What a conversation may use, whose bill it is on, and what the model is told."""

    price: Price
    max_tokens: int
    """Output limit of one call."""
    limit_s: float
    """For the whole conversation, commands included."""
    component: Component = "fix"
    fixer: str | None = None
    turns: int | None = None
    """Replies that are asked for; None: no limit but the budget's."""
    complain: Callable[[str], str] = str
    """What is said to a call that cannot be read, given why it cannot."""
    tell_repeats: bool = True
    """False: repeats are counted, and the model is not told, as in the paper's protocol."""


@dataclass(frozen=True)
class Conversation:
    """How it ended, and all that was said and paid."""

    stop: Stop
    detail: str
    receipts: tuple[Receipt, ...]
    messages: tuple[Message, ...]
    """All of them, also those that no longer fitted into the context."""
    turns: int
    """Replies that came."""
    malformed: int
    """Turns with a call that could not be read."""
    thoughts: int
    """Turns without a call that were answered."""
    repeats: int
    """Turns that are, with their answers, as the two before them."""


@dataclass
class _Tally:
    turns: int = 0
    malformed: int = 0
    thoughts: int = 0
    repeats: int = 0


async def converse(
    chat: Chat,
    opening: Sequence[Message],
    toolbox: Toolbox,
    budget: Budget,
    terms: ConversationTerms,
    *,
    dialect: Dialect | None = None,
    silence: Callable[[Turn], str | None] = lambda turn: None,
    window: Window | None = None,
    book: Callable[[Receipt], None] = lambda receipt: None,
) -> Conversation:
    """Talk until the model is done, turns or budget are used up, the time is over, or the endpoint fails.

    Without a `dialect`, calls are native. `silence` says what to answer to a turn without a call; None ends the
    conversation. Without a `window`, the whole history is sent. `book` is given each receipt as soon as its call has
    ended, also when that is by a cancellation of this one.
    """
    messages, receipts, tally = list(opening), list[Receipt](), _Tally()
    stop: Stop

    def keep(receipt: Receipt) -> None:
        receipts.append(receipt)
        book(receipt)

    def speak(offer: RequestTools) -> Awaitable[Reply]:
        return ask(chat, messages, offer, budget, terms, keep, window)

    try:
        async with asyncio.timeout(terms.limit_s) as clock:
            dialect = dialect or dialects.dialect("native")
            stop, detail = await _turns(speak, messages, toolbox, terms, dialect, silence, tally)
    except TimeoutError:
        if not clock.expired():
            raise
        stop, detail = "timeout", f"not done after {terms.limit_s:g} s"
    except BudgetExceeded as empty:
        out_of_calls = budget.cap_calls is not None and budget.calls >= budget.cap_calls
        stop, detail = "cap_calls" if out_of_calls else "cap_usd", str(empty)
    except ModelError as error:
        stop, detail = "crashed" if about_what_was_sent(error, tally.turns) else "endpoint", str(error)
    except SandboxError as error:
        stop, detail = "crashed", str(error)
    return Conversation(stop, detail, tuple(receipts), tuple(messages), **asdict(tally))


async def _turns(
    speak: Callable[[RequestTools], Awaitable[Reply]],
    messages: list[Message],
    toolbox: Toolbox,
    terms: ConversationTerms,
    dialect: Dialect,
    silence: Callable[[Turn], str | None],
    tally: _Tally,
) -> tuple[Stop, str]:
    offer = dialect.offer(toolbox.tools)
    rut, last = 0, list[object]()
    while terms.turns is None or tally.turns < terms.turns:
        reply = await speak(offer)
        tally.turns += 1
        # Calls that were not offered would want answers that this dialect has no form for.
        messages.append(Message("assistant", reply.text, reply.calls if offer.tools else ()))
        turn = await asyncio.to_thread(dialect.parse, reply)
        tally.malformed += bool(turn.problem or any(call.problem for call in turn.calls))
        calls: Sequence[ToolUse | None] = (None,)
        if turn.problem:
            answers = [terms.complain(turn.problem)]
        elif turn.calls:
            calls, answers = turn.calls, [await _do(call, toolbox, terms) for call in turn.calls]
        else:
            said = silence(turn)
            if said is None:
                cut_off = reply.finish_reason == "length"
                return "finished", f"the last reply {'was cut off at its limit' if cut_off else 'called no tool'}"
            tally.thoughts += 1
            answers = [said]
        # Of a turn with calls its words do not count: a model in a rut may still vary them.
        deeds: list[object] = [*((c.name, c.arguments) if c else reply.text for c in calls), *answers]
        rut, last = rut + 1 if deeds == last else 1, deeds
        if rut >= RUT:
            tally.repeats += 1
            if terms.tell_repeats:
                what = "call and the same result" if turn.calls else "words"
                answers[-1] += f"\n[{rut} turns running with the same {what}: try something else]"
        messages += (dialect.answer(c, answer) for c, answer in zip(calls, answers, strict=True))
    return "cap_calls", f"all {terms.turns} turns used"


async def _do(call: ToolUse, toolbox: Toolbox, terms: ConversationTerms) -> str:
    if call.problem:
        return terms.complain(call.problem)
    # A model may call what there is none of, and such a name is its own words.
    known = any(tool.name == call.name for tool in toolbox.tools)
    return await noted(call.name if known else "unknown", call.arguments, toolbox.use(call))


def about_what_was_sent(error: ModelError, turns: int) -> bool:
    """Whether it is the conversation that the endpoint does not take, as when it has become too long."""
    if isinstance(error, Overflow):
        return True
    status = error.status if isinstance(error, RequestRejected) else None
    return turns > 0 and status is not None and 400 <= status < 500 and status not in ENDPOINT_STATUSES


async def ask(
    chat: Chat,
    messages: Sequence[Message],
    offer: RequestTools,
    budget: Budget,
    terms: ConversationTerms,
    book: Callable[[Receipt], None] = lambda receipt: None,
    window: Window | None = None,
) -> Reply:
    """One paid reply. What the endpoint says is too long is fitted into less room and sent once more."""
    if window is None:
        return await _paid(chat, messages, offer, budget, terms, book)
    try:
        reply = await _paid(chat, await window.fit(messages, offer), offer, budget, terms, book)
    except Overflow:
        reply = await _paid(chat, await window.fit(messages, offer, harder=True), offer, budget, terms, book)
    if reply.usage is not None:
        window.learn(reply.usage)
    return reply


async def _paid(
    chat: Chat,
    messages: Sequence[Message],
    offer: RequestTools,
    budget: Budget,
    terms: ConversationTerms,
    book: Callable[[Receipt], None],
) -> Reply:
    """One reply: each try that may be billed is held before it is sent, and settled and booked however it ends."""
    size = len(chat.encode(messages, offer.tools, terms.max_tokens, offer.schema))
    worst = _worst(-(-size // BYTES_PER_TOKEN), budget, terms)
    held = budget.reserve(terms.price.cost(worst))
    began_ns = time.time_ns()

    def settle(usage: Usage, *, estimated: bool) -> None:
        nonlocal began_ns
        cost_usd = terms.price.cost(usage)
        budget.settle(held, cost_usd)
        receipt = Receipt(
            component=terms.component,
            fixer=terms.fixer,
            model=chat.model,
            usage=usage,
            cost_usd=cost_usd,
            estimated=estimated,
            at=datetime.now(UTC),
        )
        note_call(receipt, began_ns)
        began_ns = time.time_ns()
        book(receipt)

    def again() -> bool:
        try:
            budget.reserve(held)
        except BudgetExceeded:  # what ends the conversation is the endpoint's failure, not the cap
            return False
        settle(worst, estimated=True)
        return True

    try:
        reply = await chat.complete(messages, offer.tools, worst.output_tokens, again, schema=offer.schema)
    except RequestRejected:
        budget.settle(held, Decimal(0))
        raise
    except BaseException:  # a call that was cut off may have been billed
        settle(worst, estimated=True)
        raise
    settle(reply.usage or worst, estimated=reply.usage is None)
    return reply


def _worst(input_tokens: int, budget: Budget, terms: ConversationTerms) -> Usage:
    """The most the next call can use, with the output limit lowered as far as the budget makes it necessary."""

    def usage(output_tokens: int) -> Usage:
        fresh = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        cached = Usage(cache_read_tokens=input_tokens, output_tokens=output_tokens)
        return max(fresh, cached, key=terms.price.cost)

    if budget.remaining_usd is None:
        return usage(terms.max_tokens)
    sizes = range(min(MIN_OUTPUT_TOKENS, terms.max_tokens), terms.max_tokens + 1)
    fitting = bisect_right(
        sizes, budget.remaining_usd, key=lambda output_tokens: terms.price.cost(usage(output_tokens))
    )
    return usage(sizes[max(fitting - 1, 0)])
