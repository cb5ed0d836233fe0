"""Batches, and one of them while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from scrout.base import FrozenModel, TaskError
from scrout.batch.folder import Batch, BatchFolder
from scrout.html import Html, element
from scrout.money import known_usd
from scrout.server.dashboard import layout
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext, words
from scrout.server.dashboard.run_index import QUIET_S, Filter, RunGroup, RunLine, Totals
from scrout.server.dashboard.runs import lines, totals_facts
from scrout.text import percent, usd

REFRESH_S = 5
MAX_OPEN = 50


class BatchLine(FrozenModel):
    """One batch."""

    name: str
    totals: Totals
    open: int
    """Runs that nobody has closed."""
    expected: int | None
    """Runs that it is to have; None: its folder is not the ledger's."""
    started: datetime
    last: datetime
    """When something was last heard of it."""
    live: bool
    """Whether it still goes on, as far as the ledger shows."""


class ArmLine(FrozenModel):
    """One arm of a batch."""

    arm: str
    totals: Totals
    open: int
    expected: int | None
    """Runs that it is to have; None: the batch's folder is not the ledger's."""
    fixers: tuple[str, ...]


class BatchesView(FrozenModel):
    """Every batch, newest first."""

    batches: tuple[BatchLine, ...]
    still: bool
    """True: the page is not to be asked for again and again."""


class BatchView(FrozenModel):
    """One batch by its arms, and what is going on in it."""

    batch: BatchLine
    arms: tuple[ArmLine, ...]
    open: tuple[RunLine, ...]
    """The newest runs that nobody has closed."""
    report: str
    """The file that it wrote of itself; empty: there is none yet, or its folder is not the ledger's."""
    still: bool
    """True: the page is not to be asked for again and again."""


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
        raise NotThere(f"no run belongs to a batch {name!r}. The list of batches links to each.")
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
    """Totals of disjoint sets of runs as one."""
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


def show_all(view: BatchesView) -> Html:
    rows = []
    for one in view.batches:
        state = _state(one)
        name = layout.link(one.name, "/batch", name=one.name)
        rows.append([name, state, _progress(one), *_figures(one.totals), layout.moment(one.last)])
    columns = ["Batch", "State", "Closed", "Solved", "Unverified", "Paid", "Last heard of (UTC)"]
    table = layout.table(columns, rows, caption="Batches, newest first", numbers=columns[2:6])
    none = (
        "No batch is in this ledger. `scrout batch run TASKS --out DIR` keeps its own in DIR; serve that with "
        "`-c ledger.path=DIR/ledger.db`."
    )
    parts = [element("h1", "Batches")]
    live = any(one.live for one in view.batches)
    if live:
        parts.append(layout.refreshing(REFRESH_S, view.still, "/batches"))
    parts.append(table if rows else layout.card(layout.soft(none)))
    again = REFRESH_S if live and not view.still else 0
    return layout.page("Batches", *parts, here="/batches", twin="/batches.json", refresh_s=again)


def show(view: BatchView) -> Html:
    one = view.batch
    state = _state(one)
    crumbs = element("p", layout.link("Batches", "/batches"), " / ", one.name, class_="kicker")
    parts = [crumbs, element("h1", f"Batch {one.name}"), element("p", state), _bar(one)]
    facts = [("closed", _progress(one)), *totals_facts(one.totals), ("begun", f"{one.started:%Y-%m-%d %H:%M} UTC")]
    parts.append(layout.facts(facts))
    if one.live:
        parts.append(layout.refreshing(REFRESH_S, view.still, "/batch", name=one.name))
    rows = [
        [
            layout.link(arm.arm or "none", "/runs", batch=one.name, arm=arm.arm),
            _progress(arm),
            *_figures(arm.totals),
            usd(arm.totals.usd_a_run) if arm.totals.runs else "",
            ", ".join(arm.fixers),
        ]
        for arm in view.arms
    ]
    columns = ["Arm", "Closed", "Solved", "Unverified", "Paid", "A run", "Fixers"]
    parts.append(layout.section("Arms", layout.table(columns, rows, caption="Arms", numbers=columns[1:6])))
    if view.open:
        title = "Going on" if one.live else "Not finished"
        parts.append(
            layout.section(title, lines(view.open, f"Runs that are not closed, newest first, at most {MAX_OPEN}"))
        )
    more = [
        layout.link("All of its runs", "/runs", batch=one.name),
        layout.link("Its frontier", "/frontier", batch=one.name),
    ]
    parts.append(element("nav", *more, class_="pages", **{"aria-label": "More of this batch"}))
    if view.report:
        parts.append(layout.soft(f"What it saved, by grade where patches were graded, is in the file `{view.report}`."))
    again = REFRESH_S if one.live and not view.still else 0
    return layout.page(
        f"Batch {one.name}", *parts, here="/batches", twin=layout.address("/batch.json", name=one.name), refresh_s=again
    )


def _there(page_context: PageContext) -> Batch | None:
    """The batch whose output folder the ledger lies in; None: it lies elsewhere."""
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


def _state(one: BatchLine) -> Html:
    if one.live:
        return layout.badge("live", "good")
    done = not one.open and one.totals.runs >= (one.expected or 0)
    return layout.badge("done", "soft") if done else layout.badge("left unfinished", "warn")


def _progress(one: BatchLine | ArmLine) -> str:
    return f"{one.totals.runs - one.open:,} of {max(one.expected or 0, one.totals.runs):,}"


def _figures(totals: Totals) -> list[str]:
    share = percent(totals.solved / totals.done, 0) if totals.done else ""
    unverified = totals.outcomes.get("unverified", 0)
    return [
        f"{totals.solved:,} {f'({share})' if share else ''}".strip(),
        f"{unverified:,}" if unverified else "",
        usd(totals.cost_usd),
    ]


def _bar(one: BatchLine) -> Html:
    done, whole = one.totals.runs - one.open, max(one.expected or 0, one.totals.runs, 1)
    words_ = f"{done} of {whole} runs are closed"
    return element("progress", words_, value=str(done), max=str(whole), **{"aria-label": words_})
