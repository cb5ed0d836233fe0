"""What an attempt and its endpoint said to each other, one JSON document a line, in one form for every agent and API.

A line is written before what it tells of goes on: a hold before its call is forwarded, the end of a call before the
last of its answer leaves. So a file that breaks off still says all that was, or may have been, paid. Each request
repeats the conversation before it; a line holds what is new in it and how much of the last request's stays.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, TypeAdapter, ValidationError

from scrout import __version__
from scrout.base import FrozenModel
from scrout.files import LineFile
from scrout.money import Component, Price, Receipt, Usage, Usd
from scrout.redact import redact_dumped

ApiName = Literal["chat", "responses", "messages", "embeddings"]

FILE_NAME = "trajectory.jsonl"
MAX_DEPTH = 60
MAX_BYTES = 500_000_000
"""Past this a line tells what was paid, and no longer what was said: refused requests are free, and may be many."""


def _now() -> datetime:
    return datetime.now(UTC)


def _text(value: object) -> object:
    """Halves of a character that came in two parts are put together; one that is alone has no bytes in UTF-8."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _json(value: JsonValue, depth: int = MAX_DEPTH) -> JsonValue:
    """What came from outside, as far as it can be written and read again."""
    if isinstance(value, dict | list) and not depth:
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {str(_text(key)): _json(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item, depth - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(_text(value)) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text)]
Foreign = Annotated[JsonValue, BeforeValidator(_json)]


class TrajectoryHeader(FrozenModel):
    """Whose attempt it is, and on what terms."""

    kind: Literal["header"] = "header"
    format: Literal[1] = 1
    scrout: str = __version__
    component: Component
    fixer: str
    model: str
    endpoint: str
    price: Price | None
    cap_usd: Usd | None
    cap_calls: int
    rule: str
    at: datetime = Field(default_factory=_now)


class ReservedCall(FrozenModel):
    """A call is about to be forwarded."""

    kind: Literal["held"] = "held"
    call: int
    api: ApiName
    held_usd: Usd
    worst: Usage
    lowered: bool = False
    """True: it gets less output than it asked for."""
    at: datetime = Field(default_factory=_now)


class ModelRequest(FrozenModel):
    """What was asked, as far as the last request did not ask it already."""

    same: int = 0
    """How many entries of the last request's conversation this one begins with."""
    new: tuple[Foreign, ...] = ()
    """The entries that follow them."""
    rest: Annotated[dict[str, JsonValue], BeforeValidator(_json)] | None = None
    """Tools, limits and the like; None: as in the last request."""
    left_out: bool = False
    """True: the trajectory is too long for what this and any later request asked."""


class ModelResponse(FrozenModel):
    """What was said, whatever the API and whether or not in a stream."""

    text: Text = ""
    reasoning: Text = ""
    calls: tuple[Annotated[dict[str, JsonValue], BeforeValidator(_json)], ...] = ()
    """Tools that are called, each with id, name and arguments."""
    finish: Text = ""
    """Why it ended, in the API's word."""
    error: Text = ""
    """Of an answer that was refused or broke off; empty: nothing went wrong."""


class BilledCall(FrozenModel):
    """A call that was answered, or broke off and may have been billed."""

    kind: Literal["call"] = "call"
    call: int
    api: ApiName
    status: int | None
    """None: there was no answer."""
    asked: ModelRequest
    said: ModelResponse
    receipt: Receipt
    over_usd: Usd | None = None
    """What it cost beyond what was held for it: the endpoint used more tokens than it was asked for. None: nothing."""
    seconds: float
    at: datetime = Field(default_factory=_now)


class RefusedCall(FrozenModel):
    """A call that the endpoint refused: nothing was generated, nothing was billed."""

    kind: Literal["refused"] = "refused"
    call: int
    api: ApiName
    status: int | None
    asked: ModelRequest
    error: Text
    seconds: float
    at: datetime = Field(default_factory=_now)


class TrajectoryEnd(FrozenModel):
    """The meter was told to stop counting, or has stopped the attempt."""

    kind: Literal["end"] = "end"
    stop: str
    """cap_calls or cap_usd; empty: the attempt ended by itself or was ended by others."""
    detail: str = ""
    at: datetime = Field(default_factory=_now)


Line = TrajectoryHeader | ReservedCall | BilledCall | RefusedCall | TrajectoryEnd
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


class Trajectory(LineFile):
    """One that is being written."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        super().__init__(path)
        self.secrets = tuple(secrets)
        self._asked: dict[int, str] = {}
        """What calls under way asked, as their lines will say it."""

    def prepare(self, call: int, asked: ModelRequest) -> None:
        """Have ready what a call's line will say was asked: it is long, and until the answer comes nobody waits."""
        self._asked[call] = self._redacted(asked.model_dump(mode="json"))

    def write(self, line: Line) -> None:
        if isinstance(line, BilledCall | RefusedCall):
            if line.call not in self._asked:
                self.prepare(line.call, line.asked)
            rest = self._redacted(line.model_dump(mode="json", exclude={"asked"}))
            text = f'{rest[:-1]}, "asked": {self._asked.pop(line.call)}}}'
        else:  # nothing in it came from outside
            text = json.dumps(line.model_dump(mode="json"))
        self.write_line(text)

    def _redacted(self, dumped: dict[str, JsonValue]) -> str:
        return redact_dumped(json.dumps(dumped), self.secrets)


def read(path: Path) -> Iterator[Line]:
    """The lines of a trajectory, without those that broke off."""
    with path.open("rb") as file:
        for raw in file:
            with contextlib.suppress(ValidationError):
                yield _LINE.validate_json(raw)


def receipts(path: Path) -> tuple[Receipt, ...]:
    """All that was paid, in order. A call whose end is not told may have been billed: it is booked at what was held."""
    header: TrajectoryHeader | None = None
    held: dict[int, ReservedCall] = {}
    paid: dict[int, Receipt] = {}
    for line in read(path):
        match line:
            case TrajectoryHeader():
                header = line
            case ReservedCall():
                held[line.call] = line
            case BilledCall():
                held.pop(line.call, None)
                paid[line.call] = line.receipt
            case RefusedCall():
                held.pop(line.call, None)
    for call in held.values() if header else ():
        assert header is not None
        paid[call.call] = Receipt(
            component=header.component,
            fixer=header.fixer or None,
            model=header.model,
            usage=call.worst,
            cost_usd=header.price.cost(call.worst) if header.price else None,
            estimated=True,
            at=call.at,
            call=call.call,
        )
    return tuple(paid[number] for number in sorted(paid))
