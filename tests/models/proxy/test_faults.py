"""The table of faults: what befalls a request, and how the client ends."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from scrout.base import ModelError
from scrout.models.chat import GARBLED_TRIES, TRIES, Chat, Message, Overflow, Reply, RequestRejected
from scrout.models.scripted import (
    Cut,
    Drip,
    ErrorBody,
    Fault,
    Hang,
    Reset,
    Restart,
    ScriptedEndpoint,
    ScriptedReply,
    Stall,
    Status,
    Truncated,
)
from scrout.money import Usage

KEY = "sk-very-secret-0123456789"
ECHO = f"no good, {KEY}, no good"
LONG = f"This model's maximum context length is 8 tokens ({KEY})"
ALWAYS = 20
SPEED = 0.02
"""Waits are this much shorter here."""


@dataclass
class Naps:
    """A sleep that hurries and remembers."""

    seconds: list[float]

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(seconds * SPEED)


def faults(fault: Fault, times: int = 1) -> list[ScriptedReply]:
    return [ScriptedReply("x" * 400, fault=fault)] * times


OK = ScriptedReply("ok", usage=Usage(input_tokens=3, output_tokens=1))
WORDY = ScriptedReply("word " * 500, usage=Usage(input_tokens=3, output_tokens=900), finish_reason="length")
EMPTY = ScriptedReply("")

ANSWERED = [
    # what befalls the request, requests in all
    pytest.param(faults(Status(429, {"Retry-After": "3"}, ECHO)), 2, id="429 with Retry-After"),
    pytest.param(faults(Status(408)), 2, id="408"),
    pytest.param(faults(Status(500), 3), 4, id="500 three times"),
    pytest.param(faults(Status(503)), 2, id="503"),
    pytest.param(faults(Status(529)), 2, id="529"),
    pytest.param(faults(Status(502), 2), 3, id="502 twice"),
    pytest.param(faults(Reset()), 2, id="connection reset"),
    pytest.param(faults(Cut()), 2, id="cut off in the middle"),
    pytest.param(faults(Truncated()), 2, id="truncated JSON"),
    pytest.param([EMPTY], 2, id="empty reply"),
    pytest.param(faults(ErrorBody(ECHO)), 2, id="200 with an error"),
    pytest.param([*faults(Reset()), *faults(Status(500)), *faults(Cut())], 4, id="one after the other"),
    pytest.param(faults(Stall(0.05)), 1, id="a short stall"),
]
ENDED = [
    # what befalls it for ever, tries, type of the error, words
    pytest.param(faults(Status(400, message=ECHO), ALWAYS), 1, RequestRejected, "status 400", id="400"),
    pytest.param(faults(Status(401, message=ECHO), ALWAYS), 1, RequestRejected, "key_env", id="401"),
    pytest.param(faults(Status(404, message=ECHO), ALWAYS), 1, RequestRejected, "base_url", id="404"),
    pytest.param(faults(Status(429, message=ECHO), ALWAYS), TRIES, RequestRejected, "status 429", id="429"),
    pytest.param(faults(Status(500, message=ECHO), ALWAYS), TRIES, RequestRejected, "status 500", id="500"),
    pytest.param(
        faults(ErrorBody(ECHO), ALWAYS), GARBLED_TRIES, RequestRejected, "200 with an error", id="200 with an error"
    ),
    pytest.param(faults(Status(502, message=ECHO), ALWAYS), TRIES, ModelError, "status 502", id="502"),
    pytest.param(faults(Reset(), ALWAYS), TRIES, ModelError, "was lost", id="connection reset"),
    pytest.param(faults(Cut(), ALWAYS), TRIES, ModelError, "was lost", id="cut off in the middle"),
    pytest.param(faults(Truncated(), ALWAYS), GARBLED_TRIES, ModelError, "no chat completion", id="truncated JSON"),
    pytest.param([EMPTY] * ALWAYS, GARBLED_TRIES, ModelError, "empty reply", id="empty reply"),
    pytest.param(faults(Hang(60), ALWAYS), 1, ModelError, "within 0.4 s", id="no answer"),
    pytest.param(faults(Stall(60), ALWAYS), 1, ModelError, "within 0.4 s", id="hangs in the middle"),
    pytest.param(faults(Drip(0.01), ALWAYS), 1, ModelError, "within 0.4 s", id="drips"),
    pytest.param(faults(Status(400, message=LONG), ALWAYS), 1, Overflow, "too long", id="too long, 400"),
    pytest.param(faults(Status(413, message=ECHO), ALWAYS), 1, Overflow, "too long", id="too long, 413"),
    pytest.param(faults(Status(500, message=LONG), ALWAYS), 1, Overflow, "too long", id="too long, 500"),
    pytest.param(faults(ErrorBody(LONG), ALWAYS), 1, Overflow, "too long", id="too long, 200"),
]


@dataclass
class Ending:
    reply: Reply | None
    error: ModelError | None
    requests: int
    naps: list[float]


async def run(script: Sequence[ScriptedReply], timeout_s: float) -> Ending:
    naps = Naps([])
    ending = Ending(None, None, 0, naps.seconds)
    with ScriptedEndpoint(script) as endpoint:
        async with Chat(endpoint.base_url, "toy", KEY, timeout_s, sleep=naps) as chat:
            try:
                ending.reply = await chat.complete((Message("user", "hello"),), [], 100)
            except ModelError as error:
                ending.error = error
    ending.requests = len(endpoint.requests)
    return ending


@pytest.mark.parametrize(("befalls", "requests"), ANSWERED)
async def test_retried_and_answered(befalls: list[ScriptedReply], requests: int) -> None:
    ending = await run([*befalls, OK], timeout_s=5)
    assert ending.reply is not None
    assert ending.requests == requests and len(ending.naps) == requests - 1
    for number, nap in enumerate(ending.naps):
        assert 0.5 * 2**number <= nap <= 2**number or nap == 3


@pytest.mark.parametrize(("befalls", "tries", "kind", "words"), ENDED)
async def test_ended_by_name(befalls: list[ScriptedReply], tries: int, kind: type[ModelError], words: str) -> None:
    ending = await run(befalls, timeout_s=0.4 if "within" in words else 5)
    assert type(ending.error) is kind and words in str(ending.error)
    assert ending.requests == tries and len(ending.naps) == tries - 1
    told = "".join(traceback.format_exception(ending.error)) + repr(ending.error)
    assert KEY not in told and "http://127.0.0.1" in told


async def test_more_text_than_was_asked_for_is_taken_and_booked_as_reported() -> None:
    ending = await run([WORDY], timeout_s=5)
    assert ending.reply is not None and ending.reply.text == WORDY.text
    assert (ending.reply.usage, ending.reply.finish_reason) == (WORDY.usage, "length")


async def test_a_restart_in_the_midst_is_survived() -> None:
    naps = Naps([])
    with ScriptedEndpoint([OK, ScriptedReply(fault=Restart(0.3)), OK, OK]) as endpoint:
        async with Chat(endpoint.base_url, "toy", KEY, sleep=naps) as chat:
            for _ in range(3):
                assert (await chat.complete((Message("user", "hello"),), [], 100)).text == "ok"
    assert len(endpoint.requests) == 4
    assert len(naps.seconds) >= TRIES
