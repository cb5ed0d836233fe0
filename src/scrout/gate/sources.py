"""The claim's own Python, wherever it stands: its files, `python -c`, here-documents, scripts it wrote."""

from __future__ import annotations

import ast
import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import PurePosixPath

from scrout.handoff import Reproduction
from scrout.syntax import parse_python

_HEREDOC = re.compile(r"<<-?[ \t]*+(['\"]?)(\w++)\1")
_WRITTEN_TO = re.compile(r">[ \t]*([^\s;&|<>]+)")
_PYTHON = re.compile(r"(?:^|/)python[0-9.]*$")
_OPERATORS = "();<>|&\n"
# They make an exit code without running the repository; `|| exit 1` only passes one on.
_DECIDING = frozenset(
    ["exit", "return", "false", "test", "[", "[[", "!", "grep", "egrep", "fgrep", "diff", "cmp", "kill"]
)
_CODE = r"\$(?:\?|\{PIPESTATUS\[[0-9]\]\}|(?P<plain>\w+)|\{(?P<braced>\w+)\})"
_GIVES = re.compile(rf"exit {_CODE}")
_ZERO = re.compile(rf"(?:test|\[\[?) {_CODE} (?:-eq|==?) 0(?: \]\]?)?")
_NOT_ZERO = re.compile(rf"(?:test|\[\[?) {_CODE} (?:-ne|-gt|!=) 0(?: \]\]?)?")
_FED = {
    "<string>": r"-c[ \t]+\"\$\((?:cat[ \t]+|<[ \t]*)FILE\)\"",
    "<stdin>": r"\bcat[ \t]+FILE[ \t]*\||<[ \t]*FILE(?:\s|$)",
}
"""How a command gives a file to Python so that a traceback does not name it."""
_COMMENT = re.compile(r"^[ \t]*#.*$", re.M)
_SCRIPT = re.compile(r"(?<![^\s;&|<>()'\"])[^\s;&|<>()'\"]+\.(?:ba)?sh\b")
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
    for path, content in claim.files.items():
        for name, shape in _FED.items():
            if re.search(shape.replace("FILE", rf"[\"']?(?:\./)?{re.escape(path)}[\"']?"), command):
                texts.setdefault(name, []).append(content)
    scripts = (claim.files.get(str(PurePosixPath(name))) for name in dict.fromkeys(_SCRIPT.findall(command)))
    for shell in (command, *filter(None, scripts)):
        for found in heredocs(shell):
            target = _WRITTEN_TO.search(f"{found.before} {found.after}")
            texts.setdefault(target[1] if target else "<stdin>", []).append(found.body)
        for code in _inline(shell if shell is command else _COMMENT.sub("", shell)):
            texts.setdefault("<string>", []).append(code)
    for code in [code for found in texts.values() for text in found for code in _started(text)]:
        texts.setdefault("<string>", []).append(code)
    return Sources({name: tuple(found) for name, found in texts.items()})


def deciding_word(command: str) -> str | None:
    """A shell command whose own exit code may be the one that was seen; None: there is none."""
    commands = list(simple_commands(command))
    if not commands:
        return "quoting that cannot be read"
    after_failure = ""  # what ends a block that runs only if a command failed
    plain_if = False
    for position, (operator, words) in enumerate(commands):
        if words[0] in (after_failure, "else", "elif") or (after_failure == ")" and ")" in operator):
            after_failure = ""
        if words[0] == "else" and plain_if:
            after_failure, plain_if = "fi", False
        if after_failure or operator.startswith("||"):
            opened = "}" if words[0] == "{" else ")" if "(" in operator else ""
            after_failure = after_failure or opened
            continue
        ahead = commands[position + 1 : position + 2]
        if words[0] == "if" and ahead and ahead[0][0].strip() in ("", ";") and ahead[0][1][0] == "then":
            if words[1:2] == ["!"]:
                after_failure, words = "fi", words[2:]
            elif _passes_on(words[1:], _NOT_ZERO, command):
                after_failure = "fi"
                continue
            plain_if = not after_failure
        elif not {"if", "elif", "fi"}.isdisjoint(words):
            plain_if = False
        # Keywords, assignments and redirections stand in front of the name.
        head = next((word for word in words if "=" not in word and word not in _KEYWORDS), "")
        name = PurePosixPath(head).name
        if name in _DECIDING and not any(_passes_on(words, shape, command) for shape in (_GIVES, _ZERO)):
            return name
    return None


def _passes_on(words: Sequence[str], shape: re.Pattern[str], command: str) -> bool:
    """Whether a command gives the exit code of an earlier one, or asks for it, and nothing that was made of it."""
    match = shape.fullmatch(" ".join(words))
    if match is None:
        return False
    name = match["plain"] or match["braced"]
    if name is None:
        return True
    kept = re.findall(rf"(?<![\w$])(?<!\$\{{){name}\b(=\$(?:\?|\{{PIPESTATUS\[[0-9]\]\}}))?", command)
    return len(kept) == 1 and bool(kept[0])


@dataclass(frozen=True)
class Heredoc:
    """A here-document."""

    before: str
    """The line that begins it, up to its mark."""
    after: str
    """The rest of that line."""
    body: str
    start: int
    end: int
    """Where its mark begins, and where the line that ends it does end."""


def heredocs(command: str) -> Iterator[Heredoc]:
    """The here-documents of a command that are ended. Takes linear time, whatever is begun and never ended."""
    starts: dict[str, list[int]] = {}
    lines = command.split("\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    for line, end in zip(lines, ends, strict=True):
        starts.setdefault(line.strip(" \t"), []).append(end - len(line) - 1)
    position = 0
    while mark := _HEREDOC.search(command, position):
        position = mark.end()
        known = starts.get(mark[2], [])
        if not known or known[-1] <= position:
            continue
        line_end = command.index("\n", position)
        last = known[bisect_right(known, line_end)]
        line_start = command.rfind("\n", 0, mark.start()) + 1
        position = ends[bisect_right(ends, last)] - 1
        before, after = command[line_start : mark.start()], command[mark.end() : line_end]
        yield Heredoc(before, after, command[line_end + 1 : last], mark.start(), position)


def _without_heredocs(command: str) -> str:
    kept, position = [], 0
    for found in heredocs(command):
        kept += [command[position : found.start], found.after]
        position = found.end
    return "".join((*kept, command[position:]))


def simple_commands(command: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the operator before it; nothing where the quoting cannot be read."""
    lexer = shlex.shlex(_without_heredocs(command), posix=True, punctuation_chars=_OPERATORS)
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
            # `|| (` is two operators.
            operator, words = (operator + token if not words and token == "(" else token), []
        else:
            words.append(token)
    if words:
        yield operator, words


def _started(source: str) -> Iterator[str]:
    """Code that a script gives to another Python after `-c`, as it stands or by a name."""
    try:
        nodes = list(ast.walk(parse_python(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    named = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        words = node.elts if isinstance(node, ast.List | ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        for option, code in pairwise(words):
            code = named.get(code.id, code) if isinstance(code, ast.Name) else code
            if isinstance(option, ast.Constant) and option.value == "-c" and isinstance(code, ast.Constant):
                yield str(code.value)


def _inline(command: str) -> Iterator[str]:
    for _, words in simple_commands(command):
        names = [PurePosixPath(word).name for word in words]
        for position, word in enumerate(words):
            if word == "-c" and any(_PYTHON.search(name) for name in names[:position]) and position + 1 < len(words):
                yield words[position + 1]
