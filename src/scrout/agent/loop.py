"""The turn loop: ask the model, run its calls, send it the results, until it is done, or a cap or the time limit ends
it.

Searcher and fixer share the loop, and decide what a turn without a call means. The meter between the chat and the
endpoint counts, enforces the caps, and refuses calls that do not fit. The model never learns about a cap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

from scrout.agent import dialects
from scrout.agent.context import Window
from scrout.agent.dialect import Dialect, RequestTools, Toolbox, ToolUse, Turn
from scrout.base import ModelError, SandboxError
from scrout.models.chat import CallRefused, Chat, Message, Overflow, Reply, RequestRejected
from scrout.observer import noted
from scrout.records import Stop

ENDPOINT_STATUSES = frozenset({401, 402, 403, 404, 408, 429})
"""Rejections that no conversation causes: the key, the account's credit, the address, the load.

Any other 4xx in the middle of a conversation is about the content.
"""
RUT = 3
"""Number of consecutive turns with the same calls and answers that count as a repeat."""


@dataclass(frozen=True)
class ConversationTerms:
    """Limits of a conversation, and the loop's standard messages."""

    max_tokens: int
    """Output limit of one call."""
    limit_s: float
    """Time limit of the whole conversation, commands included."""
    turns: int | None = None
    """Maximum number of replies; None: only the meter's limit."""
    complain: Callable[[str], str] = str
    """The reply to a call that cannot be parsed, given the reason."""
    tell_repeats: bool = True
    """False: repeats are counted, but the model is not told, as in the paper's protocol."""


@dataclass(frozen=True)
class Conversation:
    """The end of a conversation, and its messages."""

    stop: Stop
    detail: str
    messages: tuple[Message, ...]
    """All messages, also those that no longer fitted into the context."""
    turns: int
    """Number of replies."""
    malformed: int
    """Turns with a call that could not be parsed."""
    thoughts: int
    """Turns without a call that were answered."""
    repeats: int
    """Turns that equal, with their answers, the two before them."""


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
    terms: ConversationTerms,
    *,
    dialect: Dialect | None = None,
    silence: Callable[[Turn], str | None] = lambda turn: None,
    window: Window | None = None,
) -> Conversation:
    """Talk until the model is done, the turns are used up, the meter refuses a call, the time is over, or the endpoint
    fails.

    Without a `dialect`, calls are native. `silence` returns the reply to a turn without a call; None ends the
    conversation. Without a `window`, the whole history is sent.
    """
    messages, tally = list(opening), _Tally()
    stop: Stop

    def speak(offer: RequestTools) -> Awaitable[Reply]:
        return ask(chat, messages, offer, terms.max_tokens, window)

    try:
        async with asyncio.timeout(terms.limit_s) as clock:
            dialect = dialect or dialects.dialect("native")
            stop, detail = await _turns(speak, messages, toolbox, terms, dialect, silence, tally)
    except TimeoutError:
        if not clock.expired():
            raise
        stop, detail = "timeout", f"not done after {terms.limit_s:g} s"
    except CallRefused as refused:
        stop, detail = refused.stop, str(refused)
    except ModelError as error:
        stop, detail = "crashed" if about_what_was_sent(error, tally.turns) else "endpoint", str(error)
    except SandboxError as error:
        stop, detail = "crashed", str(error)
    return Conversation(stop, detail, tuple(messages), **asdict(tally))


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
        # The dialect cannot answer calls to tools that were not offered.
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
        # If a turn has calls, ignore its words: a model that repeats itself may still vary them.
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
    # A model may call a tool that does not exist, and such a name is its own text.
    known = any(tool.name == call.name for tool in toolbox.tools)
    return await noted(call.name if known else "unknown", call.arguments, toolbox.use(call))


def about_what_was_sent(error: ModelError, turns: int) -> bool:
    """Whether the endpoint rejects the conversation's content, for example because it is too long."""
    if isinstance(error, Overflow):
        return True
    status = error.status if isinstance(error, RequestRejected) else None
    return turns > 0 and status is not None and 400 <= status < 500 and status not in ENDPOINT_STATUSES


async def ask(
    chat: Chat, messages: Sequence[Message], offer: RequestTools, max_tokens: int, window: Window | None = None
) -> Reply:
    """Request one reply. If the endpoint says that the conversation is too long, shorten it and retry once."""

    def send(said: Sequence[Message]) -> Awaitable[Reply]:
        return chat.complete(said, offer.tools, max_tokens, schema=offer.schema)

    if window is None:
        return await send(messages)
    try:
        reply = await send(await window.fit(messages, offer))
    except Overflow:
        reply = await send(await window.fit(messages, offer, harder=True))
    if reply.usage is not None:
        window.learn(reply.usage)
    return reply
