"""The turn loop: ask the model, run what it calls, show it the result, until it calls no more,
or a cap or the clock ends it.

The model is never told of a cap. Each call's worst case is held before it is sent. That worst case counts a token for
every three bytes of the request, which holds for prose and code; a prompt of denser tokens (long digit strings, on some
tokenizers) can cost more than was held, is booked at what it cost, and may pass the cap by that much, once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from scrout.agent.tools import BASH, Shell, observe
from scrout.errors import ModelError, SandboxError
from scrout.models.chat import Chat, Message, Refused, Reply
from scrout.money import Component, Price, Purse, PurseEmpty, Receipt, Usage
from scrout.records import Stop

BYTES_PER_TOKEN = 3
MIN_OUTPUT_TOKENS = 256
"""An answer cut shorter than this is money lost; below it the purse counts as empty."""
ENDPOINT_STATUSES = frozenset({401, 402, 403, 404, 408, 429})
"""Refusals that no conversation brings about: the key, the account's credit, the address, the load. Any other 4xx in
the midst of one is about what was sent, as when the history no longer fits the model."""


@dataclass(frozen=True)
class Terms:
    """What a conversation may use, and whose bill it is on."""

    price: Price
    max_tokens: int
    """Output limit of one call."""
    limit_s: float
    """For the whole conversation, commands included."""
    component: Component = "fix"
    fixer: str | None = None


@dataclass(frozen=True)
class Conversation:
    """How it ended, and all that was said and paid."""

    stop: Stop
    detail: str
    receipts: tuple[Receipt, ...]
    messages: tuple[Message, ...]


async def converse(
    chat: Chat,
    opening: Sequence[Message],
    shell: Shell,
    purse: Purse,
    terms: Terms,
    book: Callable[[Receipt], None] = lambda receipt: None,
) -> Conversation:
    """Talk until the model stops calling tools, the purse is empty, the time is up, or the endpoint fails.

    `book` is given each receipt as soon as its call has ended, also when that is by a cancellation of this one.
    """
    messages, receipts = list(opening), list[Receipt]()
    stop: Stop

    def keep(receipt: Receipt) -> None:
        receipts.append(receipt)
        book(receipt)

    try:
        async with asyncio.timeout(terms.limit_s) as clock:
            stop, detail = await _turns(chat, messages, shell, purse, terms, keep)
    except TimeoutError:
        if not clock.expired():
            raise
        stop, detail = "timeout", f"not done after {terms.limit_s:g} s"
    except PurseEmpty as empty:
        out_of_calls = purse.cap_calls is not None and purse.calls >= purse.cap_calls
        stop, detail = "cap_calls" if out_of_calls else "cap_usd", str(empty)
    except ModelError as error:
        status = error.status if isinstance(error, Refused) else None
        ours = status is not None and 400 <= status < 500 and status not in ENDPOINT_STATUSES
        under_way = len(messages) > len(opening)
        stop, detail = "crashed" if ours and under_way else "endpoint", str(error)
    except SandboxError as error:
        stop, detail = "crashed", str(error)
    return Conversation(stop, detail, tuple(receipts), tuple(messages))


async def _turns(
    chat: Chat,
    messages: list[Message],
    shell: Shell,
    purse: Purse,
    terms: Terms,
    book: Callable[[Receipt], None],
) -> tuple[Stop, str]:
    while True:
        reply = await _paid(chat, messages, purse, terms, book)
        messages.append(Message("assistant", reply.text, reply.calls))
        if not reply.calls:
            cut = reply.finish_reason == "length"
            return "finished", "the last reply was cut off at its limit" if cut else "the model called no further tool"
        for call in reply.calls:
            messages.append(Message("tool", await observe(call, shell), call_id=call.id))


async def _paid(
    chat: Chat, messages: Sequence[Message], purse: Purse, terms: Terms, book: Callable[[Receipt], None]
) -> Reply:
    """One reply: each try that may be billed is held before it is sent, and settled and booked however it ends."""
    size = len(chat.encode(messages, [BASH], terms.max_tokens))
    worst = _worst(-(-size // BYTES_PER_TOKEN), purse, terms)
    held = purse.reserve(terms.price.cost(worst))

    def settle(usage: Usage, *, estimated: bool) -> None:
        cost_usd = terms.price.cost(usage)
        purse.settle(held, cost_usd)
        book(
            Receipt(
                component=terms.component,
                fixer=terms.fixer,
                model=chat.model,
                usage=usage,
                cost_usd=cost_usd,
                estimated=estimated,
                at=datetime.now(UTC),
            )
        )

    def again() -> bool:
        try:
            purse.reserve(held)
        except PurseEmpty:  # what ends the conversation is the endpoint's failure, not the cap
            return False
        settle(worst, estimated=True)
        return True

    try:
        reply = await chat.complete(messages, [BASH], worst.output_tokens, again)
    except Refused:
        purse.settle(held, Decimal(0))
        raise
    except BaseException:  # a call that was cut off may have been billed
        settle(worst, estimated=True)
        raise
    settle(reply.usage or worst, estimated=reply.usage is None)
    return reply


def _worst(input_tokens: int, purse: Purse, terms: Terms) -> Usage:
    """The most the next call can use, with the output limit lowered as far as the purse makes it necessary."""

    def usage(output_tokens: int) -> Usage:
        fresh = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        cached = Usage(cache_read_tokens=input_tokens, output_tokens=output_tokens)
        return max(fresh, cached, key=terms.price.cost)

    if purse.left_usd is None:
        return usage(terms.max_tokens)
    sizes = range(min(MIN_OUTPUT_TOKENS, terms.max_tokens), terms.max_tokens + 1)
    fitting = bisect_right(sizes, purse.left_usd, key=lambda output_tokens: terms.price.cost(usage(output_tokens)))
    return usage(sizes[max(fitting - 1, 0)])
