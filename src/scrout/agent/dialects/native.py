"""Native tool calls of the chat protocol. The endpoint describes the tools to the model and parses its calls."""

from __future__ import annotations

from collections.abc import Sequence

from scrout.agent.dialect import RequestTools, ToolUse, Turn
from scrout.agent.dialects.objects import whole_object, write
from scrout.models.chat import Message, Reply, Tool, ToolCall

MALFORMED = "malformed"
"""The key for the model's text if it is not a JSON object; the chat client uses the same one."""


class Native:
    name = "native"

    def explain(self, tools: Sequence[Tool]) -> str:
        return ""

    def offer(self, tools: Sequence[Tool]) -> RequestTools:
        return RequestTools(tools=tuple(tools))

    def parse(self, reply: Reply) -> Turn:
        return Turn(reply.text, tuple(_read(call) for call in reply.calls))

    def render(self, turn: Turn) -> Message:
        return Message("assistant", turn.text, tuple(_written(call) for call in turn.calls))

    def answer(self, call: ToolUse | None, text: str) -> Message:
        return Message("user", text) if call is None else Message("tool", text, call_id=call.id)


def _read(call: ToolCall) -> ToolUse:
    try:
        # Some endpoints send nothing for a call without arguments.
        return ToolUse(call.name, whole_object(call.arguments or "{}"), call.id)
    except ValueError as error:
        problem = (
            f"the arguments are not one JSON object ({error}). Send an object that holds them by name. "
            "If it was cut off, write less at once."
        )
        return ToolUse(call.name, {MALFORMED: call.arguments}, call.id, problem)


def _written(call: ToolUse) -> ToolCall:
    return ToolCall(call.id, call.name, str(call.arguments[MALFORMED]) if call.problem else write(dict(call.arguments)))
