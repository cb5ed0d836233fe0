"""What a model's turn says, whatever form it is written in. A dialect is one file in `dialects/`: it reads turns out of
replies, and writes them as the model would.

A dialect knows the form alone. Whether a tool exists, and whether its arguments make sense, is for the toolbox to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from scrout.models.chat import Message, Reply, Tool


@dataclass(frozen=True)
class ToolUse:
    """What the model wants done."""

    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    id: str = ""
    """Native calls only: what the answer refers to."""
    problem: str = ""
    """Why the arguments cannot be read, in words for the model; empty: they were."""


@dataclass(frozen=True)
class Turn:
    """One reply, read."""

    text: str = ""
    """What was said besides the calls: reasoning, or the whole reply where there is no call."""
    calls: tuple[ToolUse, ...] = ()
    """In the order of the reply. Only native tool calls may come several at a time: each of them wants its answer."""
    problem: str = ""
    """Why what looks like a call is none, in words for the model; empty: the form is right."""


class Dialect(Protocol):
    """One form. `parse(render(turn))` is the turn again, for every turn that the form can carry."""

    name: str

    def explain(self, tools: Sequence[Tool]) -> str:
        """How to call these tools, for the system prompt; empty where the endpoint tells the model itself."""
        ...

    def offer(self, tools: Sequence[Tool]) -> RequestTools:
        """What a request carries besides its messages."""
        ...

    def parse(self, reply: Reply) -> Turn: ...

    def render(self, turn: Turn) -> Message:
        """The assistant's message that says this turn."""
        ...

    def answer(self, call: ToolUse | None, text: str) -> Message:
        """What came of a call, or what is said to a turn without one, as the model will read it."""
        ...


@dataclass(frozen=True)
class RequestTools:
    """What a request carries besides its messages."""

    tools: tuple[Tool, ...] = ()
    """For endpoints that know tool calls."""
    schema: Mapping[str, JsonValue] | None = None
    """JSON Schema that the reply is held to; None: none."""


class Toolbox(Protocol):
    """The tools of one conversation. A call that makes no sense is answered, not raised."""

    tools: tuple[Tool, ...]

    async def use(self, call: ToolUse) -> str:
        """Do it, and say what came of it. When cancelled, what was started ends."""
        ...
