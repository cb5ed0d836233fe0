"""The claim's own Python, wherever it stands: its files, `python -c`, here-documents, scripts it wrote."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.handoff import Reproduction

_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)^[ \t]*\2[ \t]*$", re.M | re.S)
_WRITTEN_TO = re.compile(r">[ \t]*([^\s;&|<>]+)")
_PYTHON = re.compile(r"(?:^|/)python[0-9.]*$")
_OPERATORS = "();<>|&\n"
# They make an exit code without running the repository; `|| exit 1` only passes one on.
_DECIDING = frozenset(
    ["exit", "return", "false", "test", "[", "[[", "!", "grep", "egrep", "fgrep", "diff", "cmp", "kill"]
)
_KEYWORDS = frozenset(["if", "then", "else", "elif", "do", "while", "until", "{", "time", "command", "exec", "env"])


@dataclass(frozen=True)
class Sources:
    """Python source by the name that a traceback gives it."""

    texts: Mapping[str, tuple[str, ...]]
    """Several where one name stands for more than one text, as `<string>` does."""

    def of(self, path: str) -> tuple[str, ...]:
        """What a traceback's path names; a runner may have cut off the folders in front of it."""
        found = self.texts.get(path, ())
        return found or tuple(text for name, texts in self.texts.items() if name.endswith(f"/{path}") for text in texts)

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(text for texts in self.texts.values() for text in texts)


def own_sources(claim: Reproduction, written: Mapping[str, str]) -> Sources:
    """Everything Python that the claim brought along; `written` is what its command left in the workspace."""
    texts: dict[str, list[str]] = {}
    for path, content in {**written, **claim.files}.items():
        if path.endswith(".py"):
            texts.setdefault(path, []).append(content)
    command = claim.command or ""
    for before, after, body in _heredocs(command):
        target = _WRITTEN_TO.search(f"{before} {after}")
        texts.setdefault(target[1] if target else "<stdin>", []).append(body)
    for code in _inline(command):
        texts.setdefault("<string>", []).append(code)
    return Sources({name: tuple(found) for name, found in texts.items()})


def deciding_word(command: str) -> str | None:
    """A shell command whose own exit code may be the one that was seen; None: there is none."""
    commands = list(simple_commands(command))
    if not commands:
        return "quoting that cannot be read"
    for operator, words in commands:
        # Keywords, assignments and redirections stand in front of the name.
        head = next((word for word in words if "=" not in word and word not in _KEYWORDS), "")
        name = PurePosixPath(head).name
        if name in _DECIDING and operator != "||":
            return name
    return None


def _heredocs(command: str) -> Iterator[tuple[str, str, str]]:
    for match in _HEREDOC.finditer(command):
        line_start = command.rfind("\n", 0, match.start()) + 1
        yield command[line_start : match.start()], match[3], match[4]


def simple_commands(command: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the operator before it; nothing where the quoting cannot be read."""
    lexer = shlex.shlex(_HEREDOC.sub(r"\3", command), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    operator, words = "", list[str]()
    try:
        tokens = list(lexer)
    except ValueError:
        return
    for token in tokens:
        if token and all(character in _OPERATORS for character in token) and not set(token) & {"<", ">"}:
            if words:
                yield operator, words
            operator, words = token, []
        else:
            words.append(token)
    if words:
        yield operator, words


def _inline(command: str) -> Iterator[str]:
    for _, words in simple_commands(command):
        names = [PurePosixPath(word).name for word in words]
        for position, word in enumerate(words):
            if word == "-c" and any(_PYTHON.search(name) for name in names[:position]) and position + 1 < len(words):
                yield words[position + 1]
