"""Replies that are one JSON object, for small models whose endpoint holds them to a schema:

    {"thought": "...", "tool": "bash", "arguments": {"command": "ls"}}

The tool `handoff` ends the search; its arguments become the turn's text, in the wire form of scrout.handoff, as in all
dialects. An object with only a thought is a turn without a call. Endpoints without schema support do not enforce this:
text around the object is dropped, and a reply without an object is a thought.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from scrout import handoff
from scrout.agent.dialect import RequestTools, ToolUse, Turn
from scrout.agent.dialects.in_text import BLANK, TextDialect, describe
from scrout.agent.dialects.objects import leading_object, write
from scrout.models.chat import Tool

HANDOFF = Tool(
    "handoff",
    "End the search and hand over what you found.",
    {
        "type": "object",
        "properties": {
            "files": {
                "type": "array",
                "items": {"type": "string"},
                "description": "files that have to change, best first, with lines where known: src/a.py:12-40",
            },
            "command": {"type": "string", "description": "shell command that shows the problem; empty: none"},
            "reproduced": {"type": "boolean", "description": "true only if you saw the command fail"},
            "observed": {"type": "string", "description": "what the command printed; empty: nothing was run"},
            "notes": {"type": "string", "description": "what goes wrong, where, and what is not the cause"},
        },
        "required": ["files", "command", "reproduced", "observed", "notes"],
    },
)

_START = re.compile(r'\{\s*"(?:thought|tool|arguments)"\s*:')
_OTHER_OBJECT = re.compile(r"\s*(?:```\w*\s*)?\{")
_FORM = 'Reply with one object: {"thought": "...", "tool": "NAME", "arguments": {...}}'
_KEPT = frozenset({"type", "enum", "const", "required"})


class JsonSchema(TextDialect):
    name = "json"

    def explain(self, tools: Sequence[Tool]) -> str:
        return (
            'Every reply is one JSON object and nothing else: "thought" says briefly what you want to find out, "tool" '
            'names one of these tools, and "arguments" is an object with its arguments.\n\n'
            f"{describe((*tools, HANDOFF))}"
        )

    def offer(self, tools: Sequence[Tool]) -> RequestTools:
        return RequestTools(schema={"anyOf": [_reply_with(tool) for tool in (*tools, HANDOFF)]})

    def read(self, text: str) -> Turn:
        start = _START.search(text)
        if start is None:
            return Turn(text, problem=f'the object has no "tool". {_FORM}.' if _OTHER_OBJECT.match(text) else "")
        try:
            said, _ = leading_object(text, start.start())
        except ValueError as error:
            return Turn(text, problem=f"the JSON cannot be read ({error}). If it was cut off, write less. {_FORM}.")
        thought, tool, arguments = (said.get(key) for key in ("thought", "tool", "arguments"))
        thought = thought.rstrip(BLANK) if isinstance(thought, str) else ""
        if tool is None and arguments is None:
            return Turn(thought)
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            return Turn(text, problem=f'"tool" must be a name and "arguments" an object. {_FORM}.')
        if tool == HANDOFF.name:
            return Turn(_wire(arguments))
        return Turn(thought, (ToolUse(tool, arguments),))

    def write(self, turn: Turn) -> str:
        said: dict[str, JsonValue] = {"thought": turn.text}
        for call in turn.calls:
            said |= {"tool": call.name, "arguments": dict(call.arguments)}
        return write(said)


def _wire(parts: Mapping[str, JsonValue]) -> str:
    """The handoff of these parts; malformed parts are left out."""
    files, reproduced = parts.get("files"), parts.get("reproduced")
    lines = [line for line in files if isinstance(line, str)] if isinstance(files, list) else []
    texts = (parts.get(key) for key in ("command", "observed", "notes"))
    command, observed, notes = (text if isinstance(text, str) else "" for text in texts)
    claim = reproduced is True or str(reproduced).lower() == "true"
    reproduction = handoff.Reproduction(command=command, claim=claim, observed=observed)
    page = handoff.Handoff(
        files=handoff.parse("\n".join(["<files>", *lines, "</files>"])).files,
        reproduction=reproduction if command.strip() or observed.strip() else None,
        notes=notes,
    )
    return handoff.render(page)


def _reply_with(tool: Tool) -> JsonValue:
    return {
        "type": "object",
        # The order matters: endpoints generate the keys in it, and reasoning must come before the choice.
        "properties": {
            "thought": {"type": "string"},
            "tool": {"const": tool.name},
            "arguments": _plain(dict(tool.parameters)),
        },
        "required": ["thought", "tool", "arguments"],
        "additionalProperties": False,
    }


def _plain(schema: JsonValue) -> JsonValue:
    """The schema with only those keywords that every endpoint's grammar supports."""
    if not isinstance(schema, dict):
        return {}
    plain: dict[str, JsonValue] = {key: value for key, value in schema.items() if key in _KEPT}
    properties, items, options = (schema.get(key) for key in ("properties", "items", "anyOf"))
    if isinstance(items, dict):
        plain["items"] = _plain(items)
    if isinstance(options, list):
        plain["anyOf"] = [_plain(option) for option in options]
    if isinstance(properties, dict):
        plain["properties"] = {key: _plain(value) for key, value in properties.items()}
    if plain.get("type") == "object":
        plain["additionalProperties"] = False
    return plain
