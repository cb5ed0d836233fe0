"""Shared code of the dialects that write a call into the reply's text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from scrout.agent.dialect import RequestTools, ToolUse, Turn
from scrout.models.chat import Message, Reply, Tool

BLANK = " \t\r\n"
"""Characters stripped from the end of a turn's text: they carry nothing, and dialects put their own between text
and call.
"""


class TextDialect(ABC):
    """A dialect in text. At most one call per turn; text after it was written without its result, and is dropped."""

    name: str

    @abstractmethod
    def explain(self, tools: Sequence[Tool]) -> str: ...

    @abstractmethod
    def read(self, text: str) -> Turn:
        """The turn in a reply's text. Takes linear time for any text."""

    @abstractmethod
    def write(self, turn: Turn) -> str:
        """The text of this turn, if the dialect can express it."""

    def offer(self, tools: Sequence[Tool]) -> RequestTools:
        return RequestTools()

    def parse(self, reply: Reply) -> Turn:
        return self.read(reply.text.rstrip(BLANK))

    def render(self, turn: Turn) -> Message:
        """The assistant's message; raises a ValueError if it would be parsed as a different turn."""
        turn = replace(turn, text=turn.text.rstrip(BLANK))
        text = turn.text if turn.problem else self.write(turn)
        if self.read(text.rstrip(BLANK)) != turn:
            raise ValueError(f"the {self.name} form cannot carry {str(turn)[:300]}")
        return Message("assistant", text)

    def answer(self, call: ToolUse | None, text: str) -> Message:
        return Message("user", text)


def describe(tools: Sequence[Tool]) -> str:
    """The tools and their arguments, in lines for a model."""
    return "\n".join(line for tool in tools for line in (f"{tool.name}: {tool.description}", *_arguments(tool)))


def example(tools: Sequence[Tool]) -> ToolUse:
    """A call that shows the format."""
    if any(tool.name == "bash" for tool in tools):
        return ToolUse("bash", {"command": "git log --oneline -5"})
    return ToolUse(tools[0].name, {key: f"the {key}" for key in _required(tools[0])})


def _arguments(tool: Tool) -> list[str]:
    properties, required = tool.parameters.get("properties"), _required(tool)
    if not isinstance(properties, dict):
        return []
    lines = []
    for key, schema in properties.items():
        schema = schema if isinstance(schema, dict) else {}
        optional = "" if key in required else ", optional"
        about = schema.get("description")
        lines.append(f"  {key} ({_kind(schema)}{optional})" + (f": {about}" if about else ""))
    return lines


def _required(tool: Tool) -> list[str]:
    required = tool.parameters.get("required")
    return [str(key) for key in required] if isinstance(required, list) else []


def _kind(schema: Mapping[str, JsonValue]) -> str:
    options, kind = schema.get("enum"), schema.get("type")
    if isinstance(options, list):
        return "one of " + ", ".join(str(option) for option in options)
    return kind if isinstance(kind, str) else "any"
