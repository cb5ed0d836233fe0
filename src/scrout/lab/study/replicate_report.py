"""Tables, figures and findings of `replicate`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scrout.intervals import Estimate
from scrout.lab.study.figures import INK, MARKERS, SHADES, SOFT
from scrout.lab.study.replicate import (
    ROUTER,
    Beside,
    Fresh,
    PublishedCell,
    Receipts,
    Replication,
    Status,
)
from scrout.lab.study.replicate_records import RegatedRecord
from scrout.lab.study.replicate_tables import (
    ArmRow,
    Attempts,
    Claims,
    Located,
    Pair,
    PairedEffect,
    PaperTables,
    Probabilities,
    Threshold,
    by_name,
    way_name,
)
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, p_value, points, usd_interval
from scrout.lab.study.sources.paper import FIXERS
from scrout.lab.study.stats import ALPHA, Paired, holm
from scrout.route.stats import hull
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MARKS: dict[Status, str] = {"agrees": "✓", "differs": "✗", "contradicted": "≠", "not backed": "?"}
_ELSEWHERE = {
    "design_space": "no hidden states are here; `scrout study calibrate` measures the design space anew",
    "audit": "`scrout study audit` runs the families of routers anew",
    "verify_census": "the label run's claims are not released",
    "spend_usd": "invoices, not receipts",
    "bench_versus_fresh": "the public column is of tasks that are not all in the table",
    "caps": "not in the receipts",
}


def cells_overview(found: Sequence[PublishedCell]) -> ReportTable:
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


def contradicted_table(found: Sequence[PublishedCell]) -> ReportTable:
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


def router_table(found: Sequence[Beside]) -> ReportTable:
    """The router beside other ways."""
    return ReportTable(
        title="The router beside other ways",
        columns=("way", "solves", "router", "change", "gained", "lost", "p"),
        rows=[[one.way, *_paired_cells(one.paired)] for one in found],
        note="Paired by task; p by exact McNemar.",
    )


def sweep_table(found: Sequence[Threshold]) -> ReportTable:
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


def probabilities_table(found: Sequence[Probabilities]) -> ReportTable:
    """How far each head tells tasks apart."""
    return ReportTable(
        title="What the heads say of the cheapest fixer",
        columns=("head", "standard deviation", "lowest", "highest"),
        rows=[[one.head, f"{one.sd:.3f}", f"{one.lowest:.3f}", f"{one.highest:.3f}"] for one in found],
    )


def pairs_table(found: Sequence[Pair]) -> ReportTable:
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


def handoff_tables(found: PaperTables, receipts: Receipts | None) -> list[ReportTable]:
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


def fresh_table(found: Sequence[Fresh]) -> ReportTable:
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


def located_table(found: Sequence[Located]) -> ReportTable:
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


def claims_table(found: Sequence[Claims]) -> ReportTable:
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


def regated_table(found: Sequence[RegatedRecord]) -> ReportTable:
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


def attempts_table(found: Sequence[Attempts]) -> ReportTable:
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


def cell_tables(found: Sequence[PublishedCell]) -> list[ReportTable]:
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


def plane_figure(found: Sequence[ArmRow]) -> Figure:
    """Solve rate against cost, with what mixing fixers alone at random would give."""
    known = [way for way in found if way.usd_task]
    priced = ((way, usd(way.usd_task.value, 3)) for way in known if way.usd_task)
    told = "; ".join(f"{way.name}: {interval(way.rate)} at {cost}" for way, cost in priced)
    return Figure(
        "replicate-plane",
        "Solve rate against cost",
        lambda axes: _draw_plane(axes, known),
        f"{told}.",
        height=4.2,
    )


def _draw_plane(axes: Axes, found: Sequence[ArmRow]) -> None:
    alone = [(way.usd_task.value, 100 * way.rate.value) for way in found if way.usd_task and way.alone]
    if alone:
        corners = hull(np.array(alone))
        axes.plot(corners[:, 0], corners[:, 1], "--", color=SOFT, label="random mix of fixers alone", zorder=1)
    for number, way in enumerate(found):
        if way.usd_task:
            x, y = way.usd_task.value, 100 * way.rate.value
            axes.errorbar(
                x,
                y,
                xerr=_arms(way.usd_task),
                yerr=_arms(way.rate, 100),
                fmt=MARKERS[number % len(MARKERS)],
                color=SHADES[number % len(SHADES)],
                elinewidth=1,
                # The router may lie on top of another way.
                markerfacecolor="none" if way.name == ROUTER else None,
                markersize=11 if way.name == ROUTER else None,
                label=way.name,
            )
    axes.set_xlim(left=0)
    axes.set_xlabel("dollars a task")
    axes.set_ylabel("solved (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)


def _arms(found: Estimate, times: float = 1) -> list[list[float]]:
    """How far the interval reaches to both sides; where it is a point, rounding could make that less than nothing."""
    return [[times * max(0.0, found.value - found.low)], [times * max(0.0, found.high - found.value)]]


def thresholds_figure(found: Sequence[Threshold]) -> Figure:
    """What each threshold solves: between all unknown outcomes failing and all succeeding."""
    told = "; ".join(
        f"{row.theta:.2f}: {percent(row.least.value)} to {percent(row.most.value)}, {usd(row.usd_task.value, 3)} a task"
        for row in found
    )
    return Figure(
        "replicate-thresholds",
        "Solve rate against the threshold",
        lambda axes: _draw_thresholds(axes, found),
        f"{told}.",
        height=3.8,
    )


def _draw_thresholds(axes: Axes, found: Sequence[Threshold]) -> None:
    at = list(range(len(found)))
    axes.vlines(
        at,
        [100 * row.least.low for row in found],
        [100 * row.most.high for row in found],
        color=SOFT,
        linewidth=1,
        label="with the 95% interval of a sample",
    )
    axes.vlines(
        at,
        [100 * row.least.value for row in found],
        [100 * row.most.value for row in found],
        color=SHADES[1],
        linewidth=9,
        label="unknown outcomes all fail to all succeed",
    )
    tasks = [sum(row.split.values()) for row in found]
    axes.plot(
        at,
        [100 * row.solves / n for row, n in zip(found, tasks, strict=True)],
        MARKERS[0],
        color=INK,
        label="by the paper's rule",
    )
    costs = [f"{usd(row.usd_task.value, 3)}\n({usd(row.usd_task_priced, 3)})" for row in found]
    axes.set_xticks(at, [f"{row.theta:.2f}\n{cost}" for row, cost in zip(found, costs, strict=True)])
    axes.set_xlabel("threshold; dollars a task by the paper's rule (and with no attempt for free)")
    axes.set_ylabel("solved (%)")
    axes.legend(loc="lower left")


def forest_figure(found: Mapping[str, Sequence[PairedEffect]]) -> Figure:
    """What the handoff changes, with intervals."""
    lines = [(where, one) for where, effects in found.items() for one in effects]
    told = "; ".join(f"{one.fixer} on {where}: {points(one.paired.change)} points" for where, one in lines)
    return Figure(
        "replicate-handoff",
        "What the handoff changes",
        lambda axes: _draw_forest(axes, lines),
        f"{told}.",
        height=1.4 + 0.4 * len(lines),
    )


def _draw_forest(axes: Axes, lines: Sequence[tuple[str, PairedEffect]]) -> None:
    sets = list(dict.fromkeys(where for where, _ in lines))
    for row, (where, one) in enumerate(lines):
        change, number = one.paired.change, sets.index(where)
        axes.errorbar(
            100 * change.value,
            -row,
            xerr=_arms(change, 100),
            fmt=MARKERS[3] if one.fixer == "pooled" else MARKERS[number % len(MARKERS)],
            color=INK if one.fixer == "pooled" else SHADES[number % len(SHADES)],
            elinewidth=1.4,
            capsize=3,
        )
    axes.axvline(0, color=SOFT, linewidth=1)
    axes.set_yticks(
        [-row for row in range(len(lines))],
        [f"{one.fixer}\n{where} ({one.paired.tasks})" for where, one in lines],
        fontsize=8,
    )
    axes.set_ylim(-len(lines) + 0.4, 0.6)
    axes.set_xlabel("points of solve rate, with handoff less alone")


def report(result: Replication) -> StudyReport:
    """The tables for people."""
    found, receipts = result.tables, result.receipts
    parts: list[ReportTable | Figure] = []
    if result.cells:
        parts += [cells_overview(result.cells), contradicted_table(result.cells)]
    if found.ways:
        parts += [main_results(found.ways), plane_figure(found.ways)]
    if receipts:
        parts += [router_table(receipts.router), sweep_table(receipts.sweep), thresholds_figure(receipts.sweep)]
        parts.append(probabilities_table(receipts.probabilities))
    if found.pairs:
        parts.append(pairs_table(found.pairs))
    if effects := handoff_effects(found, receipts):
        parts += [*handoff_tables(found, receipts), forest_figure(effects)]
    if receipts and receipts.fresh:
        parts.append(fresh_table(receipts.fresh))
    if found.located:
        parts.append(located_table(found.located))
    if found.claims:
        parts.append(claims_table(found.claims))
    if result.regated:
        parts.append(regated_table(result.regated))
    if found.attempts:
        parts.append(attempts_table(found.attempts))
    parts += cell_tables(result.cells)
    return StudyReport(
        title="The paper's tables from its receipts" if receipts else f"The paper's tables of {found.benchmark}",
        findings=_findings(result),
        parts=parts,
        notes=_notes(result),
        failed=[_differs(cell) for cell in result.cells if cell.status == "differs"],
    )


def _differs(cell: PublishedCell) -> str:
    return f"{cell.table}, {cell.name}: ours {ours(cell)}, published {printed(cell)}"


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
    for where, effects in handoff_effects(found, receipts).items():
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
