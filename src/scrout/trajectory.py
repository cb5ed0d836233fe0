"""The conversation between an attempt and its endpoint, one JSON document per line, in one format for every agent and
API.

A line is written before the event takes effect: a reservation before its call is forwarded, the end of a call before
the last of its answer is passed on. So a file that was cut off still shows everything that was, or may have been, paid.

Each request repeats the conversation before it; a line holds only the new part, and how much of the last request stays.
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
"""Beyond this size, lines record only payments: refused requests are free, and there may be many."""


def _now() -> datetime:
    return datetime.now(UTC)


def _text(value: object) -> object:
    """Join halves of a surrogate pair that came in two parts; a lone half has no UTF-8 bytes and is replaced."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _json(value: JsonValue, depth: int = MAX_DEPTH) -> JsonValue:
    """External data, limited to JSON that can be written and read back."""
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
    """The attempt, and its price and caps."""

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
    """A call is about to be forwarded, and its worst case is reserved."""

    kind: Literal["held"] = "held"
    call: int
    api: ApiName
    held_usd: Usd
    worst: Usage
    lowered: bool = False
    """True: its output limit was lowered to fit."""
    at: datetime = Field(default_factory=_now)


class ModelRequest(FrozenModel):
    """The part of a request that the last request did not have."""

    same: int = 0
    """How many entries of the last request's conversation this one starts with."""
    new: tuple[Foreign, ...] = ()
    """The entries after those."""
    rest: Annotated[dict[str, JsonValue], BeforeValidator(_json)] | None = None
    """Tools, limits and the like; None: as in the last request."""
    left_out: bool = False
    """True: the trajectory is too long to record this and later requests."""


class ModelResponse(FrozenModel):
    """A model's response, streamed or not, in one format for all APIs."""

    text: Text = ""
    reasoning: Text = ""
    calls: tuple[Annotated[dict[str, JsonValue], BeforeValidator(_json)], ...] = ()
    """Tool calls, each with id, name and arguments."""
    finish: Text = ""
    """Why it ended, in the API's own word."""
    error: Text = ""
    """The error of an answer that was refused or cut off; empty: none."""


class BilledCall(FrozenModel):
    """A call that was answered, or was cut off and may have been billed."""

    kind: Literal["call"] = "call"
    call: int
    api: ApiName
    status: int | None
    """None: no answer."""
    asked: ModelRequest
    said: ModelResponse
    receipt: Receipt
    over_usd: Usd | None = None
    """Cost beyond the reservation, because the endpoint used more tokens than requested. None: none."""
    seconds: float
    at: datetime = Field(default_factory=_now)


class RefusedCall(FrozenModel):
    """A call that the endpoint refused; nothing was generated or billed."""

    kind: Literal["refused"] = "refused"
    call: int
    api: ApiName
    status: int | None
    asked: ModelRequest
    error: Text
    seconds: float
    at: datetime = Field(default_factory=_now)


class TrajectoryEnd(FrozenModel):
    """The meter was told to stop, or it stopped the attempt."""

    kind: Literal["end"] = "end"
    stop: str
    """cap_calls or cap_usd; empty: no cap ended the attempt."""
    detail: str = ""
    at: datetime = Field(default_factory=_now)


Line = TrajectoryHeader | ReservedCall | BilledCall | RefusedCall | TrajectoryEnd
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


class Trajectory(LineFile):
    """A trajectory that is being written."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        super().__init__(path)
        self.secrets = tuple(secrets)
        self._asked: dict[int, str] = {}
        """Requests in progress, serialized for their lines."""

    def prepare(self, call: int, asked: ModelRequest) -> None:
        """Serialize a call's request ahead of time, while the answer is pending and no one waits."""
        self._asked[call] = self._redacted(asked.model_dump(mode="json"))

    def write(self, line: Line) -> None:
        if isinstance(line, BilledCall | RefusedCall):
            if line.call not in self._asked:
                self.prepare(line.call, line.asked)
            rest = self._redacted(line.model_dump(mode="json", exclude={"asked"}))
            text = f'{rest[:-1]}, "asked": {self._asked.pop(line.call)}}}'
        else:  # nothing in it is external data
            text = json.dumps(line.model_dump(mode="json"))
        self.write_line(text)

    def _redacted(self, dumped: dict[str, JsonValue]) -> str:
        return redact_dumped(json.dumps(dumped), self.secrets)


def read(path: Path) -> Iterator[Line]:
    """The lines of a trajectory, without those that were cut off."""
    with path.open("rb") as file:
        for raw in file:
            with contextlib.suppress(ValidationError):
                yield _LINE.validate_json(raw)


def receipts(path: Path) -> tuple[Receipt, ...]:
    """All payments, in order. A call without a recorded end may have been billed, so its reservation is booked."""
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
