"""The tools of a model and the parsing of its calls: a shell, an editor, and Toolset, which combines toolboxes.

An invalid call is answered in words. Arguments are JSON values or, in dialects without types, strings; both are
accepted.
"""

from __future__ import annotations

import math
import re
from typing import Protocol

from pydantic import JsonValue

from scrout.agent.dialect import Toolbox, ToolUse
from scrout.agent.editor import CONTAINER_ROOTS, CannotEdit, Editor
from scrout.models.chat import Tool
from scrout.sandbox.task_sandbox import ShellSession, TaskSandbox
from scrout.sandbox.tier import Completed

OBSERVATION_CHARS = 8_000
"""Maximum length of a tool's result, unless a searcher's settings change it."""
COMMAND_S = 60.0
MAX_COMMAND_S = 120.0

_RANGE = re.compile(r"\s*+[\[(]?\s*+(\d{1,9})(?:\s*+[,:;]\s*+|\s++|-)(-?\d{1,9})\s*+[\])]?\s*+", re.A)


class BadCall(Exception):
    """A call that cannot be run; the message is for the model. Toolset answers with it."""


class Toolset:
    """Several toolboxes as one. Clips results, and answers invalid calls."""

    def __init__(self, *boxes: Toolbox, observation_chars: int = OBSERVATION_CHARS) -> None:
        self.tools = tuple(tool for box in boxes for tool in box.tools)
        self.observation_chars = observation_chars
        self._boxes = {tool.name: box for box in boxes for tool in box.tools}

    async def use(self, call: ToolUse) -> str:
        try:
            if call.name not in self._boxes:
                names = ", ".join(f"`{name}`" for name in self._boxes)
                raise BadCall(f"There is no tool called {call.name!r}; there is {names}.")
            result = await self._boxes[call.name].use(call)
        except BadCall as error:
            result = f"{error} Nothing was done."
        return drop_middle(result, self.observation_chars)


class Workbench(Toolset):
    """A shell and an editor on one workspace."""

    def __init__(
        self,
        session: ShellSession,
        *,
        command_s: float = COMMAND_S,
        max_command_s: float = MAX_COMMAND_S,
        observation_chars: int = OBSERVATION_CHARS,
    ) -> None:
        async def shell(command: str, timeout_s: float) -> Completed:
            return await session.shell(command, timeout_s=timeout_s)

        own = (Bash(shell, command_s, max_command_s), StrReplaceEditor(Editor(session)))
        super().__init__(*own, observation_chars=observation_chars)


def aliases(task_sandbox: TaskSandbox) -> tuple[str, ...]:
    """The paths where the shell also shows the repository, as the editor does. Existing paths are not covered."""
    if not task_sandbox.tier.mounts or task_sandbox.tier.brings_tools:
        return ()
    taken = (str(task_sandbox.base.repo), *(mount.target for mount in task_sandbox.environment.mounts))
    return tuple(root for root in CONTAINER_ROOTS if not any(f"{path}/".startswith(f"{root}/") for path in taken))


class Shell(Protocol):
    """Runs one command from the repository's root, in isolation. When cancelled, it ends all that it started."""

    async def __call__(self, command: str, timeout_s: float) -> Completed: ...


class Bash:
    """One command at a time, each in a new shell."""

    def __init__(self, shell: Shell, command_s: float = COMMAND_S, max_command_s: float = MAX_COMMAND_S) -> None:
        self.shell = shell
        self.command_s = min(command_s, max_command_s)
        self.max_command_s = max_command_s
        self.tools: tuple[Tool, ...] = (
            Tool(
                name="bash",
                description=(
                    "Run a command with bash, starting at the repository's root. Returns its exit code, then what it "
                    "wrote to stdout and stderr. Changes to files last; variables and the working directory do not."
                ),
                parameters={
                    "type": "object",
                    "properties": {
                        "command": {"type": "string", "description": "The command, which may span lines."},
                        "timeout": {
                            "type": "number",
                            "description": (
                                f"Seconds after which it is stopped: {self.command_s:g} if left out, at most "
                                f"{max_command_s:g}."
                            ),
                        },
                    },
                    "required": ["command"],
                    "additionalProperties": False,
                },
            ),
        )

    async def use(self, call: ToolUse) -> str:
        command = text_argument(call, "command")
        if not command.strip():
            raise BadCall("`command` is empty.")
        timeout_s = min(_seconds(call.arguments.get("timeout"), self.command_s), self.max_command_s)
        done = await self.shell(command, timeout_s)
        status = f"stopped after {timeout_s:g} s" if done.exit_code is None else f"exit code {done.exit_code}"
        return f"[{status}]\n{done.output.decode('utf-8', 'replace')}"


class StrReplaceEditor:
    """The editor with the name and arguments that models were trained on."""

    tools: tuple[Tool, ...] = (
        Tool(
            name="str_replace_editor",
            description=(
                "Look at files and change them. `view` shows a file with line numbers, or what a folder holds, two "
                "levels deep. `create` writes `file_text` to a file, also over one that exists. `str_replace` puts "
                "`new_str` in the place of `old_str`, which must occur exactly once in the file."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": ["view", "create", "str_replace"]},
                    "path": {"type": "string", "description": "A file or folder of the repository."},
                    "file_text": {"type": "string", "description": "For create: the whole content."},
                    "view_range": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "description": "For view: the first and the last line, -1 for the file's end.",
                    },
                    "old_str": {"type": "string", "description": "For str_replace: the exact text to replace."},
                    "new_str": {"type": "string", "description": "For str_replace: empty if left out."},
                },
                "required": ["command", "path"],
                "additionalProperties": False,
            },
        ),
    )

    def __init__(self, editor: Editor) -> None:
        self.editor = editor

    async def use(self, call: ToolUse) -> str:
        command, path = text_argument(call, "command").strip(), text_argument(call, "path").strip()
        try:
            match command:
                case "view":
                    return await self.editor.view(path, _lines(call.arguments.get("view_range")))
                case "create":
                    return self.editor.create(path, text_argument(call, "file_text"))
                case "str_replace":
                    old, new = text_argument(call, "old_str"), text_argument(call, "new_str", "")
                    return self.editor.str_replace(path, old, new)
        except CannotEdit as error:
            raise BadCall(str(error)) from None
        raise BadCall(f"`command` is {command!r}; it may be view, create or str_replace.")


def text_argument(call: ToolUse, name: str, default: str | None = None) -> str:
    """A text argument of a call. With None as default, it is required."""
    value = call.arguments.get(name, default)
    if value is None:
        value = default
    if not isinstance(value, str):
        problem = "is missing" if value is None else "must be text"
        raise BadCall(f"`{name}` of `{call.name}` {problem}.")
    if "\0" in value or value != value.encode("utf-8", "replace").decode():
        raise BadCall(f"`{name}` holds a character that no command or file can take (NUL, half a surrogate pair).")
    return value


def _seconds(value: JsonValue, default_s: float) -> float:
    if value is None or value == "":
        return default_s
    try:
        seconds = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not seconds > 0:
        raise BadCall(f"`timeout` is {value!r}; it must be a number of seconds.")
    return seconds


def _lines(value: JsonValue) -> tuple[int, int] | None:
    if value is None or value == "" or value == []:
        return None
    words = ",".join(map(str, value)) if isinstance(value, list) and len(value) == 2 else value
    found = _RANGE.fullmatch(words) if isinstance(words, str) else None
    if found is None:
        raise BadCall(f"`view_range` is {value!r}; write the first and the last line, as in [1, 40].")
    return int(found[1]), int(found[2])


def drop_middle(text: str, limit: int = OBSERVATION_CHARS) -> str:
    """The start and end of a text, with a line between them that says how much was cut."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"
