"""The one tool an agent has: a shell. Where commands run, and what they may do there, is up to the injected Shell."""

from __future__ import annotations

import json
from typing import Protocol

from scrout.models.chat import Tool, ToolCall
from scrout.sandbox.tier import Completed

MAX_OBSERVATION = 8_000
"""Characters of a command's output that the model sees."""

BASH = Tool(
    name="bash",
    description=(
        "Run a command with bash, starting at the repository's root. Returns its exit code, then what it wrote to "
        "stdout and stderr. Changes to files last; variables and the working directory do not."
    ),
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The command, which may span lines."}},
        "required": ["command"],
        "additionalProperties": False,
    },
)


class Shell(Protocol):
    """Runs one command from the repository's root, in isolation. When cancelled it ends what it started."""

    async def __call__(self, command: str) -> Completed: ...


async def observe(call: ToolCall, shell: Shell) -> str:
    """Run one call and tell the model what came of it; a call that makes no sense is answered, not raised."""
    if call.name != BASH.name:
        return clip(f"There is no tool called {call.name!r}. The only tool is `bash`.")
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        return f'The arguments are not valid JSON ({error}). Nothing was run. Send {{"command": "..."}}.'
    command = arguments.get("command") if isinstance(arguments, dict) else None
    if not isinstance(command, str) or not command.strip():
        return 'The arguments hold no command. Nothing was run. Send {"command": "..."}.'
    if "\0" in command or any("\ud800" <= character <= "\udfff" for character in command):
        return "The command holds a character that no shell can take (NUL or half a surrogate pair). Nothing was run."
    done = await shell(command)
    status = "stopped before it could exit" if done.exit_code is None else f"exit code {done.exit_code}"
    return clip(f"[{status}]\n{done.output.decode('utf-8', 'replace')}")


def clip(text: str, limit: int = MAX_OBSERVATION) -> str:
    """The first and the last of a text, with a line between them that says how much went."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"
