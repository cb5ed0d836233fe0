"""The code of one request: the likeliest functions of a handoff, with the context that a reader needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from scrout.handoff import FileRef
from scrout.index.definition import Definition
from scrout.index.symbols import language_of, parse_python, read_symbols

MOST_LINES = 160
"""Maximum length of one excerpt; a longer function is shown around its region."""
MOST_IMPORTS = 20
MOST_SIGNATURES = 12
Read = Callable[[str], bytes | None]
"""Reads a file of the repository; None if it cannot be read."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of one file, whole functions if possible."""

    path: str
    name: str
    """The function's name, qualified within its file; empty: the lines are in no function."""
    first: int
    last: int
    """First and last line, from 1."""
    text: str

    @property
    def title(self) -> str:
        return f"{self.path}, lines {self.first} to {self.last}" + (f" ({self.name})" if self.name else "")


def find_excerpts(files: Iterable[FileRef], read: Read) -> list[Excerpt]:
    """The functions around a handoff's regions, likeliest first; of a file without regions, its beginning."""
    found: dict[tuple[str, int], Excerpt] = {}
    depth = 0
    files = [file for file in files if language_of(file.path, "source")]
    # The first region of each file, then the second: the cause is rarely the third function of the first file.
    while any(depth < max(len(file.regions), 1) for file in files):
        for file in files:
            region = file.regions[depth] if depth < len(file.regions) else None
            if depth and region is None:
                continue
            excerpt = excerpt_around(file.path, region, read)
            if excerpt:
                found.setdefault((excerpt.path, excerpt.first), excerpt)
        depth += 1
    return list(found.values())


def surroundings(excerpt: Excerpt, read: Read) -> str:
    """The imports, the class header, and the signatures of called functions in the same file."""
    lines = _lines(excerpt.path, read)
    definitions = _definitions(excerpt.path, "\n".join(lines))
    imports = [line for line in lines[: excerpt.first - 1] if re.match(r"(?:from|import|use|#include|require)\b", line)]
    owner = excerpt.name.rpartition(".")[0]
    heads = [one for one in definitions if one.name == owner and one.kind == "class"]
    called = set(re.findall(r"\w+", excerpt.text))
    others = [
        one
        for one in definitions
        if one.kind == "function"
        and one.name.rpartition(".")[2] in called
        and not excerpt.first <= one.first <= excerpt.last
    ]
    shown = imports[:MOST_IMPORTS]
    shown += [lines[one.first - 1] for one in heads]
    shown += [_signature(lines, one) for one in others[:MOST_SIGNATURES]]
    return "\n".join(shown)


def pack(excerpts: Sequence[Excerpt], read: Read, characters: int) -> tuple[list[Excerpt], str]:
    """As many excerpts as fit, and the text that shows them.

    The first one is always included, shortened if necessary.
    """
    shown: list[Excerpt] = []
    parts: list[str] = []
    for excerpt in excerpts:
        beside = surroundings(excerpt, read)
        context = f"Beside it in this file:\n{beside}\n" if beside else ""
        part = f"--- {excerpt.title}\n{context}Its code:\n```\n{excerpt.text}\n```"
        if len(part) > characters and context:
            part = f"--- {excerpt.title}\n```\n{excerpt.text}\n```"
        if len(part) > characters and shown:
            break
        characters -= len(part)
        shown.append(excerpt)
        parts.append(part)
    return shown, "\n\n".join(parts)


def excerpt_around(path: str, region: tuple[int, int] | None, read: Read) -> Excerpt | None:
    """The function around a region, or the region itself; without one, the beginning of the file."""
    lines = _lines(path, read)
    if not lines:
        return None
    if region is None:
        return Excerpt(path, "", 1, min(len(lines), MOST_LINES), "\n".join(lines[:MOST_LINES]))
    start, end = min(region[0], len(lines)), min(region[1], len(lines))
    around = [
        one for one in _definitions(path, "\n".join(lines)) if one.kind == "function" and one.first <= start <= one.last
    ]
    name = ""
    if around:
        innermost = max(around, key=lambda one: one.first)
        name = innermost.name
        if innermost.last - innermost.first < MOST_LINES:
            start, end = innermost.first, max(innermost.last, min(end, innermost.first + MOST_LINES - 1))
    end = min(end, start + MOST_LINES - 1)
    return Excerpt(path, name, start, end, "\n".join(lines[start - 1 : end]))


def _lines(path: str, read: Read) -> list[str]:
    data = read(path)
    return [] if data is None or b"\0" in data else data.decode("utf-8", "replace").split("\n")


@lru_cache(maxsize=64)
def _definitions(path: str, text: str) -> tuple[Definition, ...]:
    return read_symbols(text.encode("utf-8", "replace"), language_of(path, "source")).definitions


def _signature(lines: Sequence[str], one: Definition) -> str:
    """From its first line to the line before its body, without decorators."""
    head = [line for line in lines[one.first - 1 : max(one.body - 1, one.first)] if not line.lstrip().startswith("@")]
    return "\n".join(head[:4]) + " ..."


def is_python(path: str) -> bool:
    return PurePosixPath(path).suffix in (".py", ".pyi")


def parses(path: str, text: str) -> bool:
    """Whether a file still has valid syntax; True for languages that are not checked."""
    return not is_python(path) or parse_python(text) is not None
