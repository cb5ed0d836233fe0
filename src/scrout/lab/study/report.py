"""What a study shows: tables and figures in order. A terminal, a page and figure files show the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scrout.lab.study.handoff import Pooled
    from scrout.lab.study.stats import Paired

from scrout.intervals import Estimate
from scrout.records import Arm

Row = TypeVar("Row")
Columns = Mapping[str, Callable[[Row], str]]
"""How a table shows each column of a row."""


@dataclass(frozen=True)
class ReportTable:
    """A table. The first column names the row; the others are aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """What a reader must know to read it."""


@dataclass(frozen=True)
class Figure:
    """A figure. It is drawn only when it is shown."""

    name: str
    """The name of its files, without the ending."""
    title: str
    draw: Callable[[Axes], None]
    told: str
    """The same in words, for readers who cannot see it."""
    height: float = 3.6
    """In inches. The width is the same for all figures."""


@dataclass(frozen=True)
class StudyReport:
    """A study's result for people."""

    title: str
    findings: Sequence[str]
    """What the study found, one sentence each, negative results included."""
    parts: Sequence[ReportTable | Figure]
    notes: Sequence[str] = ()
    """Assumptions, and what is left out."""
    failed: Sequence[str] = field(default_factory=tuple)
    """Cells that should agree and do not. If there are any, the command exits with 1."""


def table(title: str, items: Iterable[Row], columns: Columns[Row], note: str = "") -> ReportTable:
    """A table with one row per item."""
    rows = [[cell(item) for cell in columns.values()] for item in items]
    return ReportTable(title, tuple(columns), rows, note)


def paired_columns(paired: Callable[[Row], Paired | Pooled], before: str, after: str) -> Columns[Row]:
    """What two ways solve of the same tasks."""
    return {
        before: lambda row: percent(paired(row).first),
        after: lambda row: percent(paired(row).second),
        "points [95%]": lambda row: points(paired(row).change),
        "gained": lambda row: f"{paired(row).gained}",
        "lost": lambda row: f"{paired(row).lost}",
        "p": lambda row: p_value(paired(row).p),
    }


def with_content(*parts: ReportTable | Figure | None) -> list[ReportTable | Figure]:
    """Without figures of nothing and tables without rows."""
    return [part for part in parts if isinstance(part, Figure) or (part is not None and part.rows)]


def points(change: Estimate | float | None) -> str:
    """+3.8 [-2.3, 9.8]: percentage points, with the interval where there is one."""
    if isinstance(change, Estimate):
        return f"{_signed(change.value)} [{_signed(change.low)}, {_signed(change.high)}]"
    return "-" if change is None or change != change else _signed(change)


def interval(found: Estimate | None, form: Callable[[float], str] = percent) -> str:
    """59.8% [53.8%, 65.4%]"""
    return "-" if found is None else f"{form(found.value)} [{form(found.low)}, {form(found.high)}]"


def usd_interval(found: Estimate | None, *, sign: bool = False) -> str:
    """$0.137 [$0.121, $0.152]"""
    return interval(found, partial(usd, digits=3, sign=sign))


def number(value: float | None, digits: int = 3) -> str:
    """0.941"""
    return "-" if value is None or value != value else f"{value:.{digits}f}"


def arm_words(arm: Arm) -> str:
    """What follows a fixer's name: solo, with handoff."""
    return "with handoff" if arm == "handoff" else arm


def count(value: int | None) -> str:
    return "-" if value is None else str(value)


def p_value(p: float | None) -> str:
    """.245, with no more digits than it is worth."""
    if p is None or p != p:
        return "-"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def _signed(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}"
