"""The code of the regions that a scout named, highlighted. A page shows the regions and a few lines around them.

Only those lines are coloured, from the definition that they are in: to colour a file from its start takes as long as it
is. Where what looks like a definition is text within a string, colours are off; the text never is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from scrout.base import FrozenModel
from scrout.handoff import FileRef
from scrout.html import Html
from scrout.scout import report

MAX_SHOWN_LINES = 400
MAX_BACK_LINES = 120
"""How far up a definition is looked for."""
USUAL = (
    *("py", "js", "ts", "go", "rs", "java", "c", "cpp", "rb", "php", "cs", "kt", "swift", "scala"),
    *("md", "toml", "yml"),
)
"""Endings of files that scouts are likely to name."""

_DEFINITION = re.compile(
    r"(?:@|async def|def|class|func|fn|pub|public|private|protected|static|function|impl|struct|enum|trait|type"
    r"|interface|const|let|var|export|import|from|package|module|namespace|template|#include)\b"
)


class Excerpt(FrozenModel):
    first: int
    """The number of the first one, from 1."""
    text: str


class HighlightedSource(FrozenModel):
    """What is needed of a file to show its regions."""

    lines: int
    parts: tuple[Excerpt, ...]


def cut(refs: Sequence[FileRef], whole: str) -> HighlightedSource:
    """The regions that a handoff names in one file with some context, each from the definition that it is in."""
    lines = report.split_lines(whole)
    parts = []
    for first, last in (window for ref in refs for window in _windows(report.spans_of(ref), len(lines))):
        start = _start(lines, first)
        parts.append(Excerpt(first=start + 1, text="\n".join(lines[start:last])))
    return HighlightedSource(lines=len(lines), parts=tuple(parts))


def sections(refs: Sequence[FileRef], sources: Mapping[str, HighlightedSource], text: str) -> tuple[Html, ...]:
    """A legend, then one for each file. `text` is the issue's, whose names are marked."""
    return _sections(tuple(refs), tuple(sources.items()), report.names_in(text))


def warm_up() -> None:
    """What takes long the first time: to read how a language is written."""
    for ending in USUAL:
        report.coloured(f"first.{ending}", ["x = 1"], frozenset())


@lru_cache(maxsize=128)
def _sections(
    refs: tuple[FileRef, ...], given: tuple[tuple[str, HighlightedSource], ...], names: frozenset[str]
) -> tuple[Html, ...]:
    sources, room = dict(given), MAX_SHOWN_LINES
    made = [report.code_legend()]
    for rank, ref in enumerate(refs, 1):
        if ref.path not in sources:
            made.append(report.file_section(rank, ref, why=report.NO_SOURCE))
            continue
        source, spans = sources[ref.path], report.spans_of(ref)
        room -= sum(last - first for first, last in _windows(spans, source.lines))
        if room < 0:
            made.append(report.file_section(rank, ref, why=report.PAGE_FULL))
            continue
        lines, coloured = [""] * source.lines, [Html()] * source.lines
        for part in source.parts:
            shown = report.lines_of(part.text + "\n")
            place = slice(part.first - 1, part.first - 1 + len(shown))
            lines[place], coloured[place] = shown, report.coloured(ref.path, shown, names)
        made.append(report.file_section(rank, ref, report.code_table(rank, lines, coloured, spans, folds=False)))
    return tuple(made)


def _windows(spans: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The lines that are shown, from 0, the last one excluded; those that touch are one."""
    if not spans:
        return [(0, min(report.OPENING_LINES, count))]
    windows: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        begin, end = max(0, first - 1 - report.CONTEXT_LINES), min(count, last + report.CONTEXT_LINES)
        if windows and begin <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(end, windows[-1][1]))
        elif begin < end:
            windows.append((begin, end))
    return windows


def _start(lines: Sequence[str], first: int) -> int:
    """Where colouring begins: the definition that a line is in, or the line itself."""
    for at in range(first, max(-1, first - MAX_BACK_LINES), -1):
        if _DEFINITION.match(lines[at]):
            return at
    return 0 if first < MAX_BACK_LINES else first
