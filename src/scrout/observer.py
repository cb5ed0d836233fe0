"""How a run is observed: the ledger reports its steps, the turn loop its tools.

An observer neither raises nor waits: a run goes on as if there were none.
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
    """What a step is given: a record, dollars, or words."""


class WatchedStep(Protocol):
    """A step in progress."""

    def gave(self, result: BaseModel) -> None:
        """It is done and stored."""
        ...


class RunObserver(Protocol):
    """Is told what one run does."""

    def step(
        self, name: str, inputs: Sequence[StepInput], place: str, receipts: Sequence[Receipt]
    ) -> AbstractContextManager[WatchedStep]:
        """A step, for as long as it takes. `receipts` grows by what it pays."""
        ...

    def reused(self, name: str) -> None:
        """A step was finished before, and its result is taken over."""
        ...

    def closed(self, run: Run) -> None:
        """The run has come to its end."""
        ...


class SilentObserver:
    """Nobody watches."""

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
    """Is told what happens within the step that is in progress. Times are nanoseconds since 1970."""

    def used(
        self, tool: str, arguments: Mapping[str, JsonValue], answer: str | None, began_ns: int, error: str
    ) -> None:
        """A tool was used. `answer` is None where it gave none, and `error` then the class of what it raised."""
        ...


LISTENER: ContextVar[Listener | None] = ContextVar("scrout.telemetry", default=None)
"""Of the step that this task works on: tasks that it starts inherit it, others never see it."""


async def noted(tool: str, arguments: Mapping[str, JsonValue], using: Awaitable[str]) -> str:
    """What the tool answers, and who listens is told."""
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
