"""Tables of `replicate`, for people. Nothing is computed here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from scrout.lab.study.replicate.cells import PublishedCell, Status
from scrout.lab.study.replicate.receipts import Beside, Fresh, Receipts
from scrout.lab.study.replicate.regated import RegatedRecord
from scrout.lab.study.replicate.scouted import Claims, Located
from scrout.lab.study.replicate.sweep import Probabilities, Threshold
from scrout.lab.study.replicate.tables import ArmRow, Attempts, Pair, PairedEffect, PaperTables, way_name
from scrout.lab.study.report import ReportTable, interval, p_value, points, usd_interval
from scrout.lab.study.stats import Paired
from scrout.text import percent, usd

_MARKS: dict[Status, str] = {"agrees": "✓", "differs": "✗", "contradicted": "≠", "not backed": "?"}
_ELSEWHERE = {
    "design_space": "no hidden states are here; `scrout study calibrate` measures the design space anew",
    "audit": "`scrout study audit` runs the families of routers anew",
    "verify_census": "the label run's claims are not released",
    "spend_usd": "invoices, not receipts",
    "bench_versus_fresh": "the public column is of tasks that are not all in the table",
    "caps": "not in the receipts",
}


def overview(found: Sequence[PublishedCell]) -> ReportTable:
    """How many cells of each table agree."""
    statuses: tuple[Status, ...] = ("agrees", "differs", "contradicted", "not backed")
    counts = {cell.table: Counter(one.status for one in found if one.table == cell.table) for cell in found}
    reasons = [
        f"{_spoken(table)}: {_ELSEWHERE.get(table, 'no data of it is here')}"
        for table, of in counts.items()
        if of["not backed"]
    ]
    return ReportTable(
        title="Published cells",
        columns=("table", "agree", "differ", "contradicted", "not backed"),
        rows=[[_spoken(table), *(f"{of[status] or '-'}" for status in statuses)] for table, of in counts.items()],
        note=f"Why some are not backed: {'; '.join(reasons)}.",
    )


def contradicted(found: Sequence[PublishedCell]) -> ReportTable:
    """Cells that are not backed to the letter, and what the receipts do say."""
    return ReportTable(
        title="Where the receipts say something else",
        columns=("cell", "they say", "published", "of"),
        rows=[
            [f"{_spoken(cell.table)}: {cell.name}", ours(cell), printed(cell), cell.note]
            for cell in found
            if cell.ours is not None and cell.status in ("contradicted", "not backed")
        ],
        note="None of these counts as a failure: the receipts do not promise them.",
    )


def main_results(found: Sequence[ArmRow]) -> ReportTable:
    """Every way, with intervals."""
    return ReportTable(
        title="Main results",
        columns=("way", "solves", "solved", "a task", "a solve", "over the mix"),
        rows=[
            [
                way.name,
                f"{way.solves} of {way.tasks}",
                interval(way.rate),
                usd_interval(way.usd_task) if way.usd_task else "-",
                usd_interval(way.usd_solve) if way.usd_solve else "-",
                points(way.over_mix) if way.over_mix else "-",
            ]
            for way in found
        ],
        note="Over the mix: points of solve rate more than the best random mix of fixers alone at the same cost.",
    )


def beside(found: Sequence[Beside]) -> ReportTable:
    """The router beside other ways."""
    return ReportTable(
        title="The router beside other ways",
        columns=("way", "solves", "router", "change", "gained", "lost", "p"),
        rows=[[one.way, *_paired_cells(one.paired)] for one in found],
        note="Paired by task; p by exact McNemar.",
    )


def sweep_rows(found: Sequence[Threshold]) -> ReportTable:
    """The router at each threshold."""
    return ReportTable(
        title="Thresholds",
        columns=("theta", "split", "unknown", "solved", "a task", "none free"),
        rows=[
            [
                f"{row.theta:.2f}",
                " / ".join(f"{tasks}" for tasks in row.split.values()),
                f"{row.unmeasured}",
                f"{percent(row.least.value)} to {percent(row.most.value)}" if row.unmeasured else interval(row.least),
                usd_interval(row.usd_task),
                usd(row.usd_task_priced, 3),
            ]
            for row in found
        ],
        note=f"Split: tasks that go to {', '.join(found[0].split)}. Unknown: tasks whose fixer was never run with the "
        "handoff; if all of them fail, or all are solved, the router solves the two shares that are given. None free: "
        "dollars a task where what the paper counts as free costs as much as that fixer's measured attempts.",
    )


def probabilities(found: Sequence[Probabilities]) -> ReportTable:
    """How far each head tells tasks apart."""
    return ReportTable(
        title="What the heads say of the cheapest fixer",
        columns=("head", "standard deviation", "lowest", "highest"),
        rows=[[one.head, f"{one.sd:.3f}", f"{one.lowest:.3f}", f"{one.highest:.3f}"] for one in found],
    )


def pairs(found: Sequence[Pair]) -> ReportTable:
    """Fixers alone, two and two."""
    return ReportTable(
        title="Fixers alone, two and two",
        columns=("pair", "first", "second", "change", "gained", "lost", "p"),
        rows=[[f"{one.first}, then {one.second}", *_paired_cells(one.paired)] for one in found],
    )


def handoff_effects(found: PaperTables, receipts: Receipts | None) -> dict[str, Sequence[PairedEffect]]:
    """Effects of the handoff, by the tasks that they are of."""
    if receipts is None:
        return {found.benchmark: found.effects} if found.effects else {}
    routed = (receipts.on_routed,) if receipts.on_routed else ()
    every: dict[str, Sequence[PairedEffect]] = {"the label run": receipts.label_run, "tasks routed to it": routed}
    return {where: effects for where, effects in every.items() if effects}


def handoff(found: PaperTables, receipts: Receipts | None) -> list[ReportTable]:
    """What the handoff changes, a table for each set of tasks."""
    together = "Spontaneous and forced handoffs together."
    pooled = f"{together} Pooled: a task's pairs are drawn together; its p takes them for independent."
    return [
        ReportTable(
            title=f"Alone, then with the handoff, on {where}",
            columns=("fixer", "alone", "handoff", "change", "gained", "lost", "p"),
            rows=[[one.fixer, *_paired_cells(one.paired)] for one in effects],
            note=pooled if any(one.fixer == "pooled" for one in effects) else together,
        )
        for where, effects in handoff_effects(found, receipts).items()
    ]


def fresh(found: Sequence[Fresh]) -> ReportTable:
    """Fresh tasks beside public ones."""
    return ReportTable(
        title="Fresh tasks beside public ones",
        columns=("fixer", "fresh", "public", "gap"),
        rows=[
            [
                one.fixer,
                interval(one.fresh),
                percent(one.public, unknown="-"),
                points(one.fresh.value - one.public) if one.public is not None else "-",
            ]
            for one in found
        ],
        note="Public: SWE-bench Multilingual, as far as the tasks are in the public table.",
    )


def located(found: Sequence[Located]) -> ReportTable:
    """How well the named files fit."""
    return ReportTable(
        title="Localization",
        columns=("group", "tasks", "recall", "precision", "all named", "true files"),
        rows=[
            [
                one.group,
                f"{one.n}",
                interval(one.recall),
                interval(one.precision),
                interval(one.all_gold),
                f"{one.gold_files:.2f}",
            ]
            for one in found
        ],
    )


def claims(found: Sequence[Claims]) -> ReportTable:
    """What became of the claims."""
    verdicts = list(dict.fromkeys(verdict for one in found for verdict in one.verdicts))
    shares = {
        "claiming": [f"{one.claiming}" for one in found],
        "kept by the gate": [f"{one.kept}" for one in found],
        "genuine, of those claiming": [interval(one.genuine) if one.genuine else "-" for one in found],
        "passes unpatched, of those claiming": [interval(one.passes) if one.passes else "-" for one in found],
    }
    rows = [[_spoken(verdict), *(f"{one.verdicts.get(verdict, 0)}" for one in found)] for verdict in verdicts]
    return ReportTable(
        title="What became of the claims",
        columns=("", *(f"{one.group} ({one.n})" for one in found)),
        rows=[*rows, *([name, *row] for name, row in shares.items())],
    )


def regated(found: Sequence[RegatedRecord]) -> ReportTable:
    """Whole records, as the release and as we judge them."""
    decided = {True: "kept", False: "stripped", None: "open"}
    return ReportTable(
        title="The gate re-classified by our stricter rules",
        columns=("record", "the release", "ours", "why"),
        rows=[
            [
                one.task,
                f"{_spoken(one.release_class)}, {'kept' if one.release_kept else 'stripped'}",
                f"{_spoken(one.verdict) if one.verdict else 'undecided'}, {decided[one.kept]}",
                one.reason,
            ]
            for one in found
        ],
        note="Judged on what the records hold: no repository, no issue, no witness. Open: only a replay would tell.",
    )


def attempts(found: Sequence[Attempts]) -> ReportTable:
    """What attempts took."""
    return ReportTable(
        title="Attempts",
        columns=("way", "attempts", "all of them", "most expensive", "mean steps", "at the cap", "of these solved"),
        rows=[
            [
                way_name(one.fixer, one.arm),
                f"{one.n}",
                usd(one.usd, unknown="-"),
                usd(one.most_expensive_usd, unknown="-"),
                f"{one.mean_steps:.1f}" if one.mean_steps is not None else "-",
                f"{one.at_cap}" if one.at_cap is not None else "-",
                f"{one.solved_at_cap}" if one.solved_at_cap is not None else "-",
            ]
            for one in found
        ],
    )


def cell_sheets(found: Sequence[PublishedCell]) -> list[ReportTable]:
    """Ours beside what is published, a table each; cells of which the receipts say nothing are only counted."""
    told = [cell for cell in found if cell.ours is not None]
    sheets: list[ReportTable] = []
    for table in dict.fromkeys(cell.table for cell in told):
        rows = [[cell.name, ours(cell), printed(cell), _verdict(cell)] for cell in told if cell.table == table]
        sheets.append(ReportTable(title=f"Cells: {_spoken(table)}", columns=("", "ours", "published", ""), rows=rows))
    return sheets


def _verdict(cell: PublishedCell) -> str:
    """A tick, or the difference."""
    told = cell.ours is not None and math.isfinite(cell.ours) and cell.status != "agrees"
    off = f"{(cell.ours or 0.0) - cell.published:+.{cell.digits}f}" if told else ""
    return f"{_MARKS[cell.status]} {off}".strip()


def ours(cell: PublishedCell) -> str:
    """With one decimal more than is published, unless it is a count; a sum of costs that are not all known is none."""
    if cell.ours is None or not math.isfinite(cell.ours):
        return "-"
    return f"{cell.ours:.0f}" if cell.ours == int(cell.ours) and not cell.digits else f"{cell.ours:.{cell.digits + 1}f}"


def printed(cell: PublishedCell) -> str:
    """As it is published."""
    return f"{cell.published:.{cell.digits}f}"


def _paired_cells(both: Paired) -> list[str]:
    return [
        percent(both.first),
        percent(both.second),
        points(both.change),
        f"{both.gained}",
        f"{both.lost}",
        p_value(both.p),
    ]


def _spoken(name: str) -> str:
    return name.replace("_", " ")
