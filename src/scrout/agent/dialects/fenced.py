"""Calls as fenced blocks: reasoning, then one block that is a command of the shell, or a tool's name and its arguments.

    ```bash                     ```search
    ls src                      {"query": "where dates are parsed"}
    ```                         ```

A fence is a line of three or more backticks, indented by three spaces at most; its block ends at a bare one that is no
shorter, so a longer fence lets a command hold shorter ones. Further arguments of the shell stand behind its word, as in
```bash {"timeout": 90}. Blocks of other languages are text, and so is what is in them. A reply that ends with a
handoff's STOP has no call: its blocks quote commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from scrout.agent.dialect import ToolUse, Turn
from scrout.agent.dialects.in_text import BLANK, TextDialect, describe, example
from scrout.agent.dialects.objects import whole_object, write
from scrout.models.chat import Tool

SHELLS = frozenset({"bash", "sh", "shell", "mswea_bash_command"})
DATA = frozenset({"json", "jsonc", "json5", "jsonl", "javascript", "js", "python", "py"})
"""Languages in which text that looks like arguments is data."""

_FENCE = re.compile(r"^ {0,3}(`{3,})([^`\n]*)$", re.M)
_WORD = re.compile(r"[^\s{]+")
_OBJECT = re.compile(r"\{\s*[\"}]")


class Fenced(TextDialect):
    name = "fenced"

    def explain(self, tools: Sequence[Tool]) -> str:
        if not tools:
            return ""
        return (
            f"You can use these tools:\n\n{describe(tools)}\n\n"
            "Say briefly what you want to find out, then end your reply with exactly one fenced block:\n\n"
            f"{self.write(Turn(calls=(example(tools),)))}\n\n"
            "The word behind the fence is the tool's name. A block of bash is the command as it stands, and what else "
            "bash takes goes behind the word as a JSON object; for any other tool the block is a JSON object with all "
            "its arguments. Use a longer fence where the content has a line of backticks."
        )

    def read(self, text: str) -> Turn:
        meant = [block for block in _blocks(text) if block.is_call()]
        if not meant or text.endswith(("\nSTOP", ">STOP", "> STOP")):
            return Turn(text)
        if len(meant) > 1:
            return Turn(text, problem=f"there are {len(meant)} blocks that could be run. Send exactly one at a time.")
        if not meant[0].closed:
            return Turn(text, problem="the block has no closing fence. If the reply was cut off, write less at once.")
        try:
            call = meant[0].call()
        except ValueError as error:
            return Turn(text, problem=f"the block's arguments are not one JSON object ({error}). Write them by name.")
        return Turn(text[: meant[0].start].rstrip(BLANK), (call,))

    def write(self, turn: Turn) -> str:
        parts = [turn.text] if turn.text else []
        for call in turn.calls:
            arguments = dict(call.arguments)
            info, body = call.name, write(arguments)
            if call.name == "bash":
                body = str(arguments.pop("command", ""))
                # A fence's own line must not contain a backtick.
                info += " " + write(arguments).replace("`", "\\u0060") if arguments else ""
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", body))])
            parts.append(f"{fence}{info}\n{body}\n{fence}")
        return "\n\n".join(parts)


class _Block(NamedTuple):
    start: int
    word: str
    rest: str
    """The text after the language, in the same line."""
    body: str
    closed: bool

    def is_call(self) -> bool:
        if self.word.lower() in SHELLS:
            return True
        data = not self.word or self.word.lower() in DATA
        return not data and _OBJECT.match((self.rest or self.body).lstrip()) is not None

    def call(self) -> ToolUse:
        if self.word.lower() not in SHELLS:
            return ToolUse(self.word, whole_object(f"{self.rest}\n{self.body}"))
        further: dict[str, JsonValue] = whole_object(self.rest) if _OBJECT.match(self.rest) else {}
        return ToolUse("bash", further | {"command": self.body})


def _blocks(text: str) -> Iterator[_Block]:
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif len(fence[1]) >= len(opening[1]) and not fence[2].strip(BLANK):
            yield _block(opening, text[opening.end() + 1 : fence.start() - 1], closed=True)
            opening = None
    if opening is not None:
        yield _block(opening, text[opening.end() + 1 :], closed=False)


def _block(opening: re.Match[str], body: str, *, closed: bool) -> _Block:
    info = opening[2].strip(BLANK)
    word = _WORD.match(info)
    end = word.end() if word else 0
    return _Block(opening.start(), info[:end], info[end:].lstrip(), body, closed)
