"""The code that an issue shows: Markdown, reStructuredText, Trac and forum blocks, sessions, and paragraphs of Python.

Only found here, in one pass over the lines; what a block means and whether it may be run is for scripts.py to say.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from scrout.syntax import parse_python

MAX_TEXT_CHARS = 100_000
"""What follows in a longer text is logs."""
MAX_BLOCKS = 100
MAX_PARAGRAPH = 60
"""Lines of code that no mark sets apart from the text."""

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*\{?\.?([\w+#.-]*)")
_TRAC = re.compile(r"^[ \t]*\{\{\{[ \t]*+(?:#!([\w-]++)[ \t]*+)?$")
_FORUM = re.compile(r"^[ \t]*\[code(?:[ =:](?:lang=|language=)?[\"']?([\w+-]*)[\"']?)?\][ \t]*$", re.I)
_DIRECTIVE = re.compile(r"^[ \t]*\.\. (?:code|code-block|sourcecode)::[ \t]*+([\w+-]*+)[ \t]*+$")
_INDENTED = re.compile(r"^(?: {4}|\t)")
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]")
_CALL = re.compile(r"\s*[A-Za-z_]\w*(?:\.\w+)+\(.+\)\s*$")
_DRAWN = re.compile(r"\s*[+|<{\[]")
_MARKED = re.compile(r"\s*[-*+>|]")
_PROMPT = re.compile(r"^[ \t]*(?:>>>|In \[\d{1,5}\]:)(?: (.*)|[ \t]*)$")
_MORE = re.compile(r"^[ \t]*\.\.\.:?(?: (.*)|)$")
_OUT = re.compile(r"^[ \t]*Out\[\d{1,5}\]:[ \t]?")


@dataclass(frozen=True)
class Block:
    """A piece of code, or of output, as it stands in the text."""

    code: str
    """Without common indentation; ends with a newline."""
    tag: str = ""
    """The language that the text gives, in lower case; empty: none."""
    above: str = ""
    """The last line that says something between it and the block before; empty: there is none."""
    below: str = ""
    """The first line after it that says something."""


def find_blocks(text: str) -> tuple[Block, ...]:
    """All blocks in the order of the text."""
    return tuple(islice((part for part in segments(text) if isinstance(part, Block)), MAX_BLOCKS))


def segments(text: str) -> Iterator[Block | str]:
    """The text in its order: blocks, and the lines between them."""
    lines = text[:MAX_TEXT_CHARS].splitlines()
    position, above = 0, ""
    while position < len(lines):
        found = (
            _closed(lines, position)
            or _indented(lines, position)
            or _session(lines, position)
            or _paragraph(lines, position)
        )
        if found is None:
            above = lines[position].strip() or above
            yield lines[position]
            position += 1
            continue
        tag, first, last, position = found
        code = textwrap.dedent("\n".join(lines[first:last]).strip("\n")) + "\n"
        if code.strip():
            below = next((said for at in range(position, len(lines)) if (said := lines[at].strip())), "")
            yield Block(code, tag.lower(), above, below)
            above = ""  # a heading is that of one block


_Found = tuple[str, int, int, int]
"""Its tag, its first line, the line after its last, and the line to go on with."""


def _closed(lines: Sequence[str], start: int) -> _Found | None:
    """Blocks with a mark at both ends; one that is never closed ends with the text."""
    line = lines[start]
    if opening := _FENCE.match(line):
        if "`" in line[opening.end() :]:
            return None  # code within a line
        tag, mark = opening[2], opening[1]
    elif opening := _TRAC.match(line):
        tag, mark = opening[1] or "", "}}}"
    elif opening := _FORUM.match(line):
        tag, mark = opening[1] or "", "[/code]"
    else:
        return None
    last = next((at for at in range(start + 1, len(lines)) if _closes(lines[at], mark)), len(lines))
    first = start + 1
    if not tag and first < last and lines[first].strip().startswith("#!") and "/" not in lines[first]:
        tag, first = lines[first].strip()[2:], first + 1  # Trac names the language on a line of its own
    return tag, first, last, last + 1


def _closes(line: str, mark: str) -> bool:
    bare = line.strip(" \t")
    if mark[0] in "`~":
        return bare.startswith(mark) and not bare.strip("`~")
    return bare.lower().startswith(mark)


def _indented(lines: Sequence[str], start: int) -> _Found | None:
    """A paragraph that is indented after an empty line, or what follows a reStructuredText directive."""
    directive = _DIRECTIVE.match(lines[start])
    first = start + 1 if directive else start
    while directive and first < len(lines) and (not lines[first].strip() or lines[first].lstrip().startswith(":")):
        first += 1
    begins = directive or start == 0 or not lines[start - 1].strip()
    if not begins or first >= len(lines) or not re.match(r"[ \t]", lines[first]):
        return None
    announced = directive or (start > 1 and lines[start - 2].rstrip().endswith("::"))
    if not lines[first].strip() or not (announced or (_INDENTED.match(lines[first]) and not _ITEM.match(lines[first]))):
        return None
    last = first
    for at in range(first, len(lines)):
        if lines[at].strip():
            if not re.match(r"[ \t]", lines[at]) or _FENCE.match(lines[at]):
                break
            last = at + 1
    return directive[1] if directive else "", first, last, last


def _session(lines: Sequence[str], start: int) -> _Found | None:
    """An interpreter session outside of any block: up to an empty line that no prompt follows."""
    if not _PROMPT.match(lines[start]):
        return None
    at = start
    while at < len(lines):
        if not lines[at].strip():
            following = at + 1
            if following >= len(lines) or not (_PROMPT.match(lines[following]) or _OUT.match(lines[following])):
                break
        elif _FENCE.match(lines[at]):
            break
        at += 1
    return "", start, at, at


def _paragraph(lines: Sequence[str], start: int) -> _Found | None:
    """A paragraph that no mark sets apart: Python of several lines, or what a table or markup draws below a label."""
    above = next((line.strip() for line in reversed(lines[max(0, start - 3) : start]) if line.strip()), "")
    if start and lines[start - 1].strip() and not above.endswith(":"):
        return None
    end = next((at for at in range(start, min(len(lines), start + MAX_PARAGRAPH)) if not lines[at].strip()), len(lines))
    if end - start == 1 and _is_call(lines[start]):
        return "", start, end, end
    if not 2 <= end - start < MAX_PARAGRAPH or any(_FENCE.match(line) for line in lines[start:end]):
        return None
    labelled = above.rstrip("*_ ").endswith(":") and all(_DRAWN.match(line) for line in lines[start:end])
    if labelled and not re.fullmatch(r"[\s|:-]+", lines[start + 1]):
        return "", start, end, end
    marked = lines[start].startswith("#") or any(_MARKED.match(line) for line in lines[start:end])
    return ("", start, end, end) if not marked and _is_code("\n".join(lines[start:end])) else None


def _is_call(line: str) -> bool:
    """Whether a line is a call of something in a module or an object, and nothing else."""
    if not _CALL.match(line):
        return False
    try:
        body = parse_python(line.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Call)


def _is_code(text: str) -> bool:
    """Whether a text is Python that binds a name, or imports one, and then uses it."""
    if "=" not in text and "import" not in text:
        return False
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    binds = any(isinstance(node, ast.Assign | ast.Import | ast.ImportFrom) for node in tree.body)
    return binds and len(tree.body) > 1 and any(isinstance(node, ast.Call) for node in ast.walk(tree))


def is_session(code: str) -> bool:
    return any(_PROMPT.match(line) for line in code.splitlines())


def read_session(code: str) -> list[tuple[str, str]]:
    """What was typed, each with what the interpreter answered."""
    entries: list[tuple[list[str], list[str]]] = []
    for line in code.splitlines():
        typed, more = _PROMPT.match(line), _MORE.match(line)
        if typed:
            entries.append(([typed[1] or ""], []))
        elif more and entries and not any(entries[-1][1]):
            entries[-1][0].append(more[1] or "")
        elif entries:
            entries[-1][1].append(_OUT.sub("", line))
    return [("\n".join(source).rstrip(), "\n".join(answer).strip()) for source, answer in entries]
