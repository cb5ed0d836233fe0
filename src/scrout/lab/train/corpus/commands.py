"""Calls of other agents' tools in the words of ours: a shell, and an editor."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from scrout.agent.dialect import ToolUse

_SHELLS = frozenset({"bash", "execute_bash", "run", "terminal", "execute"})
_EDITORS = frozenset({"str_replace_editor", "file_editor"})
_EDITOR_KEYS = ("command", "path", "file_text", "old_str", "new_str", "insert_line", "view_range")
_ENDS = frozenset({"finish", "submit", "exit_forfeit", "exit"})
_SUBMITS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
"""What mini-SWE-agent echoes when it is done."""
_WINDOW = 100
"""Lines that SWE-agent shows of an open file."""


class _Mark(Enum):
    END = "end"
    SILENT = "silent"


END = _Mark.END
"""The agent says that it is done."""
SILENT = _Mark.SILENT
"""Nothing that reaches the repository."""
Said = ToolUse | _Mark


def called(name: str, arguments: Mapping[str, Any]) -> Said:
    """A tool's call by name and arguments."""
    if name in _ENDS:
        return END
    if name in _SHELLS:
        return commanded(str(arguments.get("command") or ""))
    if name in _EDITORS:
        given = {key: arguments[key] for key in _EDITOR_KEYS if arguments.get(key) is not None}
        if given.get("command") in ("view", "create", "str_replace", "insert") and "path" in given:
            return ToolUse("str_replace_editor", given)
    if name in _OWN:
        words = [str(value) for value in arguments.values()]
        return _OWN[name](words, " ".join([name, *words]))
    if name == "read" and arguments.get("path"):
        first, last = arguments.get("start") or 0, arguments.get("end") or -1
        lines = {"view_range": [first, last]} if first > 0 and last > 0 else {}
        return ToolUse("str_replace_editor", {"command": "view", "path": str(arguments["path"]), **lines})
    return SILENT


def commanded(command: str) -> Said:
    """A line that an agent typed: a shell's, or one of SWE-agent's own commands."""
    command = command.strip()
    head = re.match(r"\S*", command)
    word = head[0] if head else ""
    if not command:
        return SILENT
    if word in _ENDS or any(mark in command for mark in _SUBMITS):
        return END
    if word in _OWN:
        try:
            words = shlex.split(command.splitlines()[0])
        except ValueError:
            words = command.splitlines()[0].split()
        return _OWN[word](words[1:], command)
    return ToolUse("bash", {"command": command})


def _open(words: list[str], command: str) -> Said:
    if not words:
        return SILENT
    view: dict[str, Any] = {"command": "view", "path": words[0]}
    if len(words) > 1 and words[1].isdecimal():
        middle = int(words[1])
        first = max(1, middle - _WINDOW // 2)
        view["view_range"] = [first, first + _WINDOW - 1]
    return ToolUse("str_replace_editor", view)


def _create(words: list[str], command: str) -> Said:
    return ToolUse("str_replace_editor", {"command": "create", "path": words[0], "file_text": ""}) if words else SILENT


def _shell(command: str) -> Callable[[list[str], str], Said]:
    """What a shell does in place of a command with something to look for, and perhaps where."""

    def found(words: list[str], typed: str) -> Said:
        what, where = (shlex.quote(word) for word in (*words, ".", ".")[:2])
        return ToolUse("bash", {"command": command.format(what=what, where=where)}) if words else SILENT

    return found


def _edit(words: list[str], command: str) -> Said:
    """Its form differs between versions; that something was edited is all that counts, and a search ends before."""
    return ToolUse("edit", {"command": command})


_OWN: dict[str, Callable[[list[str], str], Said]] = {
    "open": _open,
    "create": _create,
    "find_file": _shell("find {where} -name {what}"),
    "search_dir": _shell("grep -rn -- {what} {where}"),
    "search_file": _shell("grep -rn -- {what} {where}"),
    "edit": _edit,
    "insert": _edit,
    **dict.fromkeys(("goto", "scroll_down", "scroll_up"), lambda words, command: SILENT),
}
