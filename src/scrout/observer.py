"""Observes a run: the ledger reports its steps, the turn loop its tools.

An observer must not raise or wait. It cannot change a run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from decimal import Decimal

    from pydantic import BaseModel, JsonValue

    from scrout.money import Receipt
    from scrout.records import Run

    StepInput = BaseModel | Decimal | str | None
    """A step's input: a record, dollars or words."""


class WatchedStep(Protocol):
    """A step in progress."""

    def gave(self, result: BaseModel) -> None:
        """The step is finished, and its result is stored."""
        ...


class RunObserver(Protocol):
    """Receives the events of one run."""

    def step(
        self, name: str, inputs: Sequence[StepInput], place: str, receipts: Sequence[Receipt]
    ) -> AbstractContextManager[WatchedStep]:
        """A step starts; the block lasts as long as it does. `receipts` grows as it pays."""
        ...

    def reused(self, name: str) -> None:
        """The result of an earlier step is reused."""
        ...

    def closed(self, run: Run) -> None:
        """The run has ended."""
        ...


class SilentObserver:
    """Ignores everything."""

    def step(
        self, name: str, inputs: Sequence[StepInput], place: str, receipts: Sequence[Receipt]
    ) -> AbstractContextManager[WatchedStep]:
        return nullcontext(self)

    def reused(self, name: str) -> None:
        pass

    def closed(self, run: Run) -> None:
        pass

    def gave(self, result: BaseModel) -> None:
        pass


SILENT = SilentObserver()


class Listener(Protocol):
    """Receives events within the current step. Times are nanoseconds since 1970."""

    def used(
        self, tool: str, arguments: Mapping[str, JsonValue], answer: str | None, began_ns: int, error: str
    ) -> None:
        """A tool was used. If it failed, `answer` is None and `error` is the exception's class name."""
        ...


LISTENER: ContextVar[Listener | None] = ContextVar("scrout.telemetry", default=None)
"""The listener of this task's step: a task that it starts inherits it, other tasks do not."""


async def noted(tool: str, arguments: Mapping[str, JsonValue], using: Awaitable[str]) -> str:
    """Await a tool's answer, and report it to the listener."""
    listener = LISTENER.get()
    if listener is None:
        return await using
    began_ns = time.time_ns()
    try:
        answer = await using
    except BaseException as error:
        listener.used(tool, arguments, None, began_ns, type(error).__name__)
        raise
    listener.used(tool, arguments, answer, began_ns, "")
    return answer
