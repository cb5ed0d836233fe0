"""The dialects of tool calls: parses and writes a model's turns.

A dialect is one file in `dialects/`. It reads turns from replies, and writes them as the model would. It knows the
format alone; the toolbox checks whether a tool exists and whether its arguments are valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from scrout.models.chat import Message, Reply, Tool


@dataclass(frozen=True)
class ToolUse:
    """A tool call by the model."""

    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    id: str = ""
    """Native calls only: the id that the answer refers to."""
    problem: str = ""
    """Why the arguments cannot be parsed, in words for the model; empty: they can."""


@dataclass(frozen=True)
class Turn:
    """One parsed reply."""

    text: str = ""
    """The text besides the calls: reasoning, or the whole reply if there is no call."""
    calls: tuple[ToolUse, ...] = ()
    """In the order of the reply. Only native replies may have several; each call needs an answer."""
    problem: str = ""
    """Why a malformed call cannot be parsed, in words for the model; empty: no problem."""


class Dialect(Protocol):
    """One format. `parse(render(turn))` equals the turn, for every turn that the format can express."""

    name: str

    def explain(self, tools: Sequence[Tool]) -> str:
        """How to call these tools, for the system prompt; empty if the endpoint explains it to the model."""
        ...

    def offer(self, tools: Sequence[Tool]) -> RequestTools:
        """The part of a request besides its messages."""
        ...

    def parse(self, reply: Reply) -> Turn: ...

    def render(self, turn: Turn) -> Message:
        """The assistant's message for this turn."""
        ...

    def answer(self, call: ToolUse | None, text: str) -> Message:
        """The message with a call's result, or the reply to a turn without a call, as the model will read it."""
        ...


@dataclass(frozen=True)
class RequestTools:
    """The part of a request besides its messages."""

    tools: tuple[Tool, ...] = ()
    """For endpoints with native tool calls."""
    schema: Mapping[str, JsonValue] | None = None
    """JSON Schema that the reply must follow; None: none."""


class Toolbox(Protocol):
    """The tools of one conversation. An invalid call gets an answer; it does not raise."""

    tools: tuple[Tool, ...]

    async def use(self, call: ToolUse) -> str:
        """Run a call, and return its result. When cancelled, it ends all that it started."""
        ...
