"""What a study shows: tables and pictures in order, as a terminal, a page and picture files show them alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from scrout.intervals import Estimate


@dataclass(frozen=True)
class ReportTable:
    """A table. The first column names the row, the others stand to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """What a reader must know to read it; empty: nothing."""


@dataclass(frozen=True)
class Figure:
    """A figure, drawn only when someone looks."""

    name: str
    """Of its files, without ending."""
    title: str
    draw: Callable[[Axes], None]
    told: str
    """The same in words, for those who cannot see it."""
    height: float = 3.6
    """Inches; the width is the same for all."""


@dataclass(frozen=True)
class StudyReport:
    """A study's result for people."""

    title: str
    findings: Sequence[str]
    """What came out, a sentence each, negative ones included."""
    parts: Sequence[ReportTable | Figure]
    notes: Sequence[str] = ()
    """Assumptions, and what was left out."""
    failed: Sequence[str] = field(default_factory=tuple)
    """Cells that ought to agree and do not: with any, the command's exit code is 1."""


def points(change: Estimate | float) -> str:
    """+3.8 [-2.3, 9.8]: percentage points, with the interval where there is one."""
    if isinstance(change, Estimate):
        return f"{_signed(change.value)} [{_signed(change.low)}, {_signed(change.high)}]"
    return "-" if change != change else _signed(change)


def interval(found: Estimate, form: Callable[[float], str] = percent) -> str:
    """59.8% [53.8%, 65.4%]"""
    return f"{form(found.value)} [{form(found.low)}, {form(found.high)}]"


def usd_interval(found: Estimate, *, sign: bool = False) -> str:
    """$0.137 [$0.121, $0.152]"""
    return interval(found, partial(usd, digits=3, sign=sign))


def p_value(p: float) -> str:
    """p, with no more digits than anyone believes."""
    if p != p:
        return "-"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def _signed(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}"
