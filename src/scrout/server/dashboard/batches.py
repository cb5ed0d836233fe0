"""The batches page, and the page of one batch while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from scrout.base import FrozenModel, TaskError
from scrout.batch.folder import Batch, BatchFolder
from scrout.html import render
from scrout.money import known_usd
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext, words
from scrout.server.dashboard.run_index import QUIET_S, Filter, RunGroup, RunLine, Totals

REFRESH_S = 5
MAX_OPEN = 50


class BatchLine(FrozenModel):
    name: str
    totals: Totals
    open: int
    expected: int | None
    """Planned number of runs; None: its folder is not the ledger's."""
    started: datetime
    last: datetime
    live: bool


class ArmLine(FrozenModel):
    arm: str
    totals: Totals
    open: int
    expected: int | None
    """Planned number of runs; None: the batch's folder is not the ledger's."""
    fixers: tuple[str, ...]


class BatchesView(FrozenModel):
    """Every batch, latest first."""

    batches: tuple[BatchLine, ...]
    still: bool
    """True: the page need not be reloaded."""


class BatchView(FrozenModel):
    """One batch by its arms, and its runs in progress."""

    batch: BatchLine
    arms: tuple[ArmLine, ...]
    open: tuple[RunLine, ...]
    """The latest open runs."""
    report: str
    """The batch's own report; empty: there is none yet, or its folder is not the ledger's."""
    still: bool


def look_at_all(page_context: PageContext, asked: Asked) -> BatchesView:
    by_name: dict[str, list[RunGroup]] = {}
    for group in page_context.run_index.groups():
        if group.batch:
            by_name.setdefault(group.batch, []).append(group)
    there = _there(page_context)
    lines_ = tuple(_line(name, groups, there) for name, groups in by_name.items())
    return BatchesView(batches=lines_, still=bool(asked.get("still")))


def look(page_context: PageContext, asked: Asked) -> BatchView:
    name = words(asked, "name")
    groups = page_context.run_index.groups(name) if name else []
    if not groups:
        raise NotThere(f"no run belongs to a batch {name!r}. Choose one from the list of batches.")
    arms: dict[str, list[RunGroup]] = {}
    for group in groups:
        arms.setdefault(group.arm, []).append(group)
    which = Filter(batch=name, outcome="interrupted")
    there = _there(page_context)
    mine = there if there and there.id == name else None
    if mine:
        arms |= {arm: [] for arm in mine.arms if arm not in arms}
    return BatchView(
        batch=_line(name, groups, there),
        arms=tuple(
            ArmLine(
                arm=arm,
                totals=added(group.totals for group in parts),
                open=sum(group.open for group in parts),
                expected=mine.tasks if mine else None,
                fixers=tuple(sorted({group.fixer for group in parts if group.fixer})),
            )
            for arm, parts in sorted(arms.items())
        ),
        open=tuple(line for line in page_context.run_index.lines(which, MAX_OPEN) if line.finished is None),
        report=_report(page_context) if mine else "",
        still=bool(asked.get("still")),
    )


def added(parts: Iterable[Totals]) -> Totals:
    """Join the totals of disjoint sets of runs."""
    every = list(parts)
    outcomes: dict[str, int] = {}
    for one in every:
        for outcome, count in one.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    return Totals(
        runs=sum(one.runs for one in every),
        outcomes=outcomes,
        cost_usd=known_usd(one.cost_usd for one in every),
        unpriced=sum(one.unpriced for one in every),
        unjudged_usd=known_usd(one.unjudged_usd for one in every),
    )


def show_all(view: BatchesView) -> str:
    return render("dashboard/batches.html", view=view, every_s=REFRESH_S)


def show(view: BatchView) -> str:
    return render("dashboard/batch.html", view=view, every_s=REFRESH_S, max_open=MAX_OPEN)


def _there(page_context: PageContext) -> Batch | None:
    """The batch whose output folder contains the ledger; None: the ledger is elsewhere."""
    try:
        return BatchFolder(page_context.folder).read() if page_context.folder else None
    except TaskError:
        return None


def _report(page_context: PageContext) -> str:
    path = BatchFolder(page_context.folder).report if page_context.folder else None
    return str(path) if path and path.is_file() else ""


def _line(name: str, groups: Sequence[RunGroup], there: Batch | None) -> BatchLine:
    totals = added(group.totals for group in groups)
    still_open = sum(group.open for group in groups)
    expected = there.tasks * len(there.arms) if there and there.id == name else None
    last = max(group.last for group in groups)
    undone = still_open > 0 or (expected is not None and totals.runs < expected)
    return BatchLine(
        name=name,
        totals=totals,
        open=still_open,
        expected=expected,
        started=min(group.started for group in groups),
        last=last,
        live=undone and (datetime.now(UTC) - last).total_seconds() < QUIET_S,
    )
