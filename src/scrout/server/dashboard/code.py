"""The code of the regions that a scout named, highlighted.

A page shows the regions and a few lines around them. Only those lines are coloured, from the start of their definition,
because colouring a whole file takes too long. If that start is actually text in a string, the colours are wrong, but
never the text.
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
"""How many lines to search upwards for a definition."""
USUAL = (
    *("py", "js", "ts", "go", "rs", "java", "c", "cpp", "rb", "php", "cs", "kt", "swift", "scala"),
    *("md", "toml", "yml"),
)
"""Suffixes of files that scouts are likely to name."""

_DEFINITION = re.compile(
    r"(?:@|async def|def|class|func|fn|pub|public|private|protected|static|function|impl|struct|enum|trait|type"
    r"|interface|const|let|var|export|import|from|package|module|namespace|template|#include)\b"
)


class Excerpt(FrozenModel):
    first: int
    """Number of the first line, from 1."""
    text: str


class HighlightedSource(FrozenModel):
    """The part of a file that is needed to show its regions."""

    lines: int
    parts: tuple[Excerpt, ...]


def cut(refs: Sequence[FileRef], whole: str) -> HighlightedSource:
    """The regions that a handoff names in one file with some context, each from the start of its definition."""
    lines = report.split_lines(whole)
    parts = []
    for first, last in (window for ref in refs for window in _windows(report.spans_of(ref), len(lines))):
        start = _start(lines, first)
        parts.append(Excerpt(first=start + 1, text="\n".join(lines[start:last])))
    return HighlightedSource(lines=len(lines), parts=tuple(parts))


def sections(refs: Sequence[FileRef], sources: Mapping[str, HighlightedSource], text: str) -> tuple[Html, ...]:
    """A legend, then one section per file. `text` is the issue's; its names are marked."""
    return _sections(tuple(refs), tuple(sources.items()), report.names_in(text))


def warm_up() -> None:
    """Load the slow part in advance: the languages' grammars."""
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
    """The lines to show, from 0, the last one excluded; adjacent ranges are joined."""
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
    """Where colouring starts: the definition around a line, or the line itself."""
    for at in range(first, max(-1, first - MAX_BACK_LINES), -1):
        if _DEFINITION.match(lines[at]):
            return at
    return 0 if first < MAX_BACK_LINES else first
