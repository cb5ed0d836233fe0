"""`replicate`: the paper's tables from its receipts, cell by cell; or the same tables about one's own runs."""

from __future__ import annotations

from collections import Counter

from scrout.base import FrozenModel
from scrout.lab.study.replicate import report_tables as sheets
from scrout.lab.study.replicate.cells import PublishedCell, cells
from scrout.lab.study.replicate.figures import forest, plane, thresholds
from scrout.lab.study.replicate.receipts import ROUTER, Receipts, recompute, said
from scrout.lab.study.replicate.regated import RegatedRecord, judge_all
from scrout.lab.study.replicate.tables import PaperTables, by_name, tables
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, p_value, points
from scrout.lab.study.sources.paper import FIXERS, Paper
from scrout.lab.study.sources.source import Source
from scrout.lab.study.stats import ALPHA, holm
from scrout.text import percent, usd


class Replication(FrozenModel):
    """Tables recomputed, and what was published beside them."""

    tables: PaperTables
    """Of the paper's evaluation, or of one's own runs."""
    receipts: Receipts | None
    """None: one's own runs."""
    regated: tuple[RegatedRecord, ...]
    """The paper's whole verification records, judged by our gate."""
    cells: tuple[PublishedCell, ...]
    """Every figure that is published. Empty: one's own runs."""


def study(source: Source) -> Replication:
    """The tables of a source."""
    if not isinstance(source, Paper):
        return Replication(tables=tables(source.alike(source.benchmark)), receipts=None, regated=(), cells=())
    found = recompute(source)
    return Replication(
        tables=found.evaluation,
        receipts=found,
        regated=judge_all(source.verify_records) if source.has("records") else (),
        cells=cells(source.published, said(found)) if source.has("published") else (),
    )


def report(result: Replication) -> StudyReport:
    """The tables for people."""
    found, receipts = result.tables, result.receipts
    parts: list[ReportTable | Figure] = []
    if result.cells:
        parts += [sheets.overview(result.cells), sheets.contradicted(result.cells)]
    if found.ways:
        parts += [sheets.main_results(found.ways), plane(found.ways)]
    if receipts:
        parts += [sheets.beside(receipts.router), sheets.sweep_rows(receipts.sweep), thresholds(receipts.sweep)]
        parts.append(sheets.probabilities(receipts.probabilities))
    if found.pairs:
        parts.append(sheets.pairs(found.pairs))
    if effects := sheets.handoff_effects(found, receipts):
        parts += [*sheets.handoff(found, receipts), forest(effects)]
    if receipts and receipts.fresh:
        parts.append(sheets.fresh(receipts.fresh))
    if found.located:
        parts.append(sheets.located(found.located))
    if found.claims:
        parts.append(sheets.claims(found.claims))
    if result.regated:
        parts.append(sheets.regated(result.regated))
    if found.attempts:
        parts.append(sheets.attempts(found.attempts))
    parts += sheets.cell_sheets(result.cells)
    return StudyReport(
        title="The paper's tables from its receipts" if receipts else f"The paper's tables of {found.benchmark}",
        findings=_findings(result),
        parts=parts,
        notes=_notes(result),
        failed=[_differs(cell) for cell in result.cells if cell.status == "differs"],
    )


def _differs(cell: PublishedCell) -> str:
    return f"{cell.table}, {cell.name}: ours {sheets.ours(cell)}, published {sheets.printed(cell)}"


def _findings(result: Replication) -> list[str]:
    lines = []
    if result.cells:
        counts = Counter(cell.status for cell in result.cells)
        backed = counts["agrees"] + counts["differs"]
        lines.append(
            f"{counts['agrees']} of {backed} cells that the receipts back agree with what is published, "
            f"{counts['differs']} differ. {counts['contradicted']} more are contradicted, and of "
            f"{counts['not backed']} the receipts say nothing, or nothing that is quite the same."
        )
    lines += [
        f"{way.name} solves {interval(way.rate)} at {usd(way.usd_task.value, 3)} a task, {points(way.over_mix)} points "
        "over the best random mix of fixers alone at that cost"
        + (": clear of it." if way.over_mix.clear else ": not clear of it.")
        for way in result.tables.ways
        if way.usd_task and way.over_mix
    ]
    if result.receipts:
        lines += _of_receipts(result.receipts)
    lines += _of_handoff(result.tables, result.receipts)
    if result.regated:
        fates = Counter(one.fate for one in result.regated)
        kept = [one for one in result.regated if one.release_kept]
        lines.append(
            f"By our gate's rules {fates['same class']} of {len(result.regated)} whole records keep their class, "
            f"{fates['another class']} change it and {fates['open']} are not decided by the record. Of {len(kept)} "
            f"claims that the release kept, {sum(one.kept is False for one in kept)} are stripped here; of the others, "
            f"{sum(one.kept is True for one in result.regated if not one.release_kept)} are kept."
        )
    return lines


def _of_receipts(found: Receipts) -> list[str]:
    beside = {one.way: one.paired for one in found.router}
    ways = by_name(found.evaluation.ways)
    router = ways.get(ROUTER)
    lines = []
    for (name, one), adjusted in zip(beside.items(), holm([one.p for one in beside.values()]), strict=True):
        other = ways.get(name)
        if router and router.usd_task and other and other.usd_task:
            better = "it solves more" if one.change.value > 0 else "it solves less"
            lines.append(
                f"The router beside {name}: {points(one.change)} points, p {p_value(one.p)}, adjusted "
                f"{p_value(adjusted)}, at {percent(router.usd_task.value / other.usd_task.value, 0)} of its cost: "
                + (f"{better}." if adjusted < ALPHA else "the two cannot be told apart.")
            )
    hidden = [row for row in found.sweep if row.usd_task_priced > row.usd_task.value + 0.0005]
    if hidden:
        told = ", ".join(
            f"{usd(one.usd_task_priced, 3)} instead of {usd(one.usd_task.value, 3)} at {one.theta:.2f}"
            for one in hidden
        )
        lines.append(
            "The published sweep counts attempts that were never made as free. At the mean of those that were made, a "
            f"task costs {told}; and of up to {max(row.unmeasured for row in hidden)} tasks the outcome is not known."
        )
    return lines


def _of_handoff(found: PaperTables, receipts: Receipts | None) -> list[str]:
    lines = []
    for where, effects in sheets.handoff_effects(found, receipts).items():
        alone = [one for one in effects if one.fixer != "pooled"]
        corrected = holm([one.paired.p for one in alone])
        clear = [one.fixer for one, p in zip(alone, corrected, strict=True) if p < 0.05]
        pooled = next((one.paired for one in effects if one.fixer == "pooled"), None)
        told = f"; pooled {points(pooled.change)} points" if pooled else ""
        lines.append(
            f"The handoff on {where}: "
            + ", ".join(f"{one.fixer} {points(one.paired.change)}" for one in alone)
            + f" points{told}. After Holm's correction "
            + (f"it is clear for {', '.join(clear)}." if clear else "it is clear for none.")
        )
    return lines


def _notes(result: Replication) -> list[str]:
    notes = list(result.tables.notes)
    if result.receipts:
        return [
            *notes,
            *(f"Not in the folder: {part}. Of its cells nothing is said." for part in result.receipts.absent),
            "Prices: GPT-5.2 and Opus alone at list prices, all else at the providers' pinned ones, as in the paper. "
            "What searcher and sandbox cost is added once to ways with handoff.",
            f"What reaches no threshold goes to {FIXERS[-1]} in the paper's sweep, while the released router's anchor "
            f"is {result.receipts.anchor}.",
            "A figure agrees if ours rounds to it; an end of a bootstrap may be off by one task more.",
        ]
    found = result.tables
    lacking = {
        "outcomes in every way": found.ways,
        "two fixers alone": found.pairs,
        "a fixer both alone and with handoff": found.effects,
        "handoffs of tasks with known answers (--tasks FILE)": found.located,
        "replayed claims": found.claims,
    }
    notes += [f"No {what}, so no table of it." for what, table in lacking.items() if not table]
    return [*notes, "A ledger has no probabilities of the paper's router, so there is no sweep of thresholds."]
