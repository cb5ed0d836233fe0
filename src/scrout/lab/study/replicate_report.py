"""Tables, figures and findings of `replicate`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from scrout.intervals import Estimate
from scrout.lab.study.figures import INK, MARKERS, SHADES, SOFT, error_bars, forest
from scrout.lab.study.replicate import ROUTER, Fresh, PublishedCell, Receipts, Replication, RouterComparison, Status
from scrout.lab.study.replicate_records import RegatedRecord
from scrout.lab.study.replicate_tables import (
    Attempts,
    Claims,
    Located,
    Pair,
    PairedEffect,
    PaperTables,
    PolicyRow,
    Threshold,
    by_name,
    way_name,
)
from scrout.lab.study.report import (
    Figure,
    ReportTable,
    StudyReport,
    count,
    interval,
    number,
    p_value,
    paired_columns,
    points,
    table,
    usd_interval,
    with_content,
)
from scrout.lab.study.sources.paper import FIXERS
from scrout.lab.study.stats import ALPHA, Paired, holm
from scrout.route.stats import hull
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS: Mapping[Status, str] = {"agrees": "✓", "differs": "✗", "contradicted": "≠", "not backed": "?"}
WHY_NOT_BACKED = {
    "design_space": "no hidden states are here; `scrout study calibrate` measures the design space anew",
    "audit": "`scrout study audit` runs the families of routers anew",
    "verify_census": "the label run's claims are not released",
    "spend_usd": "invoices, not receipts",
    "bench_versus_fresh": "the public column is of tasks that are not all in the table",
    "caps": "not in the receipts",
}


def report(result: Replication) -> StudyReport:
    found, receipts = result.tables, result.receipts
    effects = _effects(found, receipts)
    recomputed = [cell for cell in result.cells if cell.ours is not None]
    parts = with_content(
        *((_overview_table(result.cells), _contradicted_table(result.cells)) if result.cells else ()),
        _main_table(found.ways),
        _plane_figure(found.ways) if found.ways else None,
        *(_router_parts(receipts) if receipts else ()),
        _pair_table(found),
        *(_effect_table(where, some) for where, some in effects.items()),
        _effect_figure(effects) if effects else None,
        _fresh_table(receipts.fresh if receipts else ()),
        _localization_table(found.located),
        _claims_table(found.claims) if found.claims else None,
        _regated_table(result.regated),
        _attempts_table(found.attempts),
        *(
            _cell_table(name, [cell for cell in recomputed if cell.table == name])
            for name in dict.fromkeys(cell.table for cell in recomputed)
        ),
    )
    return StudyReport(
        title="The paper's tables from its receipts" if receipts else f"The paper's tables of {found.benchmark}",
        findings=list(_findings(result)),
        parts=parts,
        notes=_notes(result),
        failed=[
            f"{cell.table}, {cell.name}: ours {_ours(cell)}, published {_printed(cell)}"
            for cell in result.cells
            if cell.status == "differs"
        ],
    )


def _effects(found: PaperTables, receipts: Receipts | None) -> dict[str, Sequence[PairedEffect]]:
    """Effects of the handoff, by the tasks that they were measured on."""
    if receipts is None:
        return {found.benchmark: found.effects} if found.effects else {}
    routed = (receipts.on_routed,) if receipts.on_routed else ()
    every: dict[str, Sequence[PairedEffect]] = {"the label run": receipts.label_run, "tasks routed to it": routed}
    return {where: effects for where, effects in every.items() if effects}


def _findings(result: Replication) -> Iterator[str]:
    if result.cells:
        counts = Counter(cell.status for cell in result.cells)
        yield (
            f"{counts['agrees']} of {counts['agrees'] + counts['differs']} cells that the receipts back agree with "
            f"what is published, {counts['differs']} differ. {counts['contradicted']} more are contradicted, and of "
            f"{counts['not backed']} the receipts say nothing, or nothing that is quite the same."
        )
    for way in result.tables.ways:
        if way.usd_task and way.over_mix:
            yield (
                f"{way.name} solves {interval(way.rate)} at {usd(way.usd_task.value, 3)} per task, "
                f"{points(way.over_mix)} points over the best random mix of fixers alone at that cost: "
                f"{'clear' if way.over_mix.clear else 'not clear'} of it."
            )
    if result.receipts:
        yield from _router_findings(result.receipts)
        yield from _sweep_findings(result.receipts.sweep)
    for where, effects in _effects(result.tables, result.receipts).items():
        yield _effect_finding(where, effects)
    if result.regated:
        fates = Counter(one.fate for one in result.regated)
        kept = [one for one in result.regated if one.release_kept]
        yield (
            f"By our gate's rules {fates['same class']} of {len(result.regated)} whole records keep their class, "
            f"{fates['another class']} change it and {fates['open']} are not decided by the record. Of {len(kept)} "
            f"claims that the release kept, {sum(one.kept is False for one in kept)} are stripped here; of the others, "
            f"{sum(one.kept is True for one in result.regated if not one.release_kept)} are kept."
        )


def _router_findings(found: Receipts) -> Iterator[str]:
    ways = by_name(found.evaluation.ways)
    router = ways.get(ROUTER)
    for one, adjusted in zip(found.router, holm([one.paired.p for one in found.router]), strict=True):
        other = ways.get(one.way)
        if router and router.usd_task and other and other.usd_task:
            better = "it solves more" if one.paired.change.value > 0 else "it solves less"
            yield (
                f"The router beside {one.way}: {points(one.paired.change)} points, p {p_value(one.paired.p)}, adjusted "
                f"{p_value(adjusted)}, at {percent(router.usd_task.value / other.usd_task.value, 0)} of its cost: "
                f"{better if adjusted < ALPHA else 'the two cannot be told apart'}."
            )


def _sweep_findings(sweep: Sequence[Threshold]) -> Iterator[str]:
    free = [row for row in sweep if row.usd_task_priced > row.usd_task.value + 0.0005]
    if free:
        costs = ", ".join(
            f"{usd(one.usd_task_priced, 3)} instead of {usd(one.usd_task.value, 3)} at {one.theta:.2f}" for one in free
        )
        yield (
            "The published sweep counts attempts that were never made as free. At the mean of those that were made, a "
            f"task costs {costs}; and of up to {max(row.unmeasured for row in free)} tasks the outcome is not known."
        )


def _effect_finding(where: str, effects: Sequence[PairedEffect]) -> str:
    fixers = [one for one in effects if one.fixer != "pooled"]
    adjusted = holm([one.paired.p for one in fixers])
    clear = [one.fixer for one, p in zip(fixers, adjusted, strict=True) if p < ALPHA]
    pooled = [f"; pooled {points(one.paired.change)} points" for one in effects if one.fixer == "pooled"]
    changes = ", ".join(f"{one.fixer} {points(one.paired.change)}" for one in fixers)
    return (
        f"The handoff on {where}: {changes} points{''.join(pooled)}. After Holm's correction it is clear for "
        f"{', '.join(clear) or 'none'}."
    )


def _notes(result: Replication) -> list[str]:
    notes = list(result.tables.notes)
    if result.receipts:
        return [
            *notes,
            *(f"Not in the folder: {part}. Of its cells nothing is said." for part in result.receipts.absent),
            "Prices: GPT-5.2 and Opus alone at list prices, all else at the providers' pinned ones, as in the paper. "
            "What searcher and sandbox cost is added once to fixers with handoff.",
            f"What reaches no threshold goes to {FIXERS[-1]} in the paper's sweep, while the released router's anchor "
            f"is {result.receipts.anchor}.",
            "A figure agrees if ours rounds to it; an end of a bootstrap may be off by one task more.",
        ]
    found = result.tables
    lacking = {
        "outcomes in every arm": found.ways,
        "two fixers alone": found.pairs,
        "a fixer both alone and with handoff": found.effects,
        "handoffs of tasks with known answers (--tasks FILE)": found.located,
        "replayed claims": found.claims,
    }
    notes += [f"No {what}, so no table of it." for what, rows in lacking.items() if not rows]
    return [*notes, "A ledger has no probabilities of the paper's router, so there is no sweep of thresholds."]


def _overview_table(found: Sequence[PublishedCell]) -> ReportTable:
    statuses: tuple[Status, ...] = get_args(Status)
    counts = {cell.table: Counter(one.status for one in found if one.table == cell.table) for cell in found}
    reasons = [
        f"{_spoken(name)}: {WHY_NOT_BACKED.get(name, 'no data of it is here')}"
        for name, of in counts.items()
        if of["not backed"]
    ]
    return ReportTable(
        "Published cells",
        ("table", "agree", "differ", "contradicted", "not backed"),
        [[_spoken(name), *(f"{of[status] or '-'}" for status in statuses)] for name, of in counts.items()],
        f"Why some are not backed: {'; '.join(reasons)}.",
    )


def _contradicted_table(found: Sequence[PublishedCell]) -> ReportTable:
    """Cells that are not backed to the letter, and what the receipts say instead."""
    return table(
        "Where the receipts say something else",
        [cell for cell in found if cell.ours is not None and cell.status in ("contradicted", "not backed")],
        {
            "cell": lambda cell: f"{_spoken(cell.table)}: {cell.name}",
            "they say": _ours,
            "published": _printed,
            "of": lambda cell: cell.note,
        },
        "None of these counts as a failure: the receipts do not promise them.",
    )


def _cell_table(name: str, found: Sequence[PublishedCell]) -> ReportTable:
    rows = [[cell.name, _ours(cell), _printed(cell), _status(cell)] for cell in found]
    return ReportTable(f"Cells: {_spoken(name)}", ("", "ours", "published", ""), rows)


def _status(cell: PublishedCell) -> str:
    """A tick, or a mark with the difference."""
    if cell.status == "agrees" or cell.ours is None or not math.isfinite(cell.ours):
        return MARKS[cell.status]
    return f"{MARKS[cell.status]} {cell.ours - cell.published:+.{cell.digits}f}"


def _ours(cell: PublishedCell) -> str:
    """With one decimal more than is published, unless it is a count."""
    if cell.ours is None or not math.isfinite(cell.ours):
        return "-"
    return f"{cell.ours:.0f}" if cell.ours == int(cell.ours) and not cell.digits else f"{cell.ours:.{cell.digits + 1}f}"


def _printed(cell: PublishedCell) -> str:
    return f"{cell.published:.{cell.digits}f}"


def _main_table(found: Sequence[PolicyRow]) -> ReportTable:
    return table(
        "Main results",
        found,
        {
            "policy": lambda way: way.name,
            "solves": lambda way: f"{way.solves} of {way.tasks}",
            "solved": lambda way: interval(way.rate),
            "per task": lambda way: usd_interval(way.usd_task),
            "per solve": lambda way: usd_interval(way.usd_solve),
            "over the mix": lambda way: points(way.over_mix),
        },
        "Over the mix: points of solve rate more than the best random mix of fixers alone at the same cost.",
    )


def _router_parts(found: Receipts) -> list[ReportTable | Figure]:
    beside = table(
        "The router beside other policies",
        found.router,
        {"policy": lambda one: one.way, **paired_columns(_paired, "solves", "router")},
        "Paired by task; p by exact McNemar.",
    )
    return [beside, _threshold_table(found.sweep), _threshold_figure(found.sweep), _head_table(found)]


def _paired(row: RouterComparison | Pair | PairedEffect) -> Paired:
    return row.paired


def _pair_table(found: PaperTables) -> ReportTable:
    return table(
        "Fixers alone, two and two",
        found.pairs,
        {"pair": lambda one: f"{one.first}, then {one.second}", **paired_columns(_paired, "first", "second")},
    )


def _effect_table(where: str, effects: Sequence[PairedEffect]) -> ReportTable:
    note = "Spontaneous and forced handoffs together."
    if any(one.fixer == "pooled" for one in effects):
        note += " Pooled: a task's pairs are drawn together; its p takes them for independent."
    return table(
        f"Alone, then with the handoff, on {where}",
        effects,
        {"fixer": lambda one: one.fixer, **paired_columns(_paired, "alone", "handoff")},
        note,
    )


def _threshold_table(found: Sequence[Threshold]) -> ReportTable:
    return table(
        "Thresholds",
        found,
        {
            "theta": lambda row: f"{row.theta:.2f}",
            "split": lambda row: " / ".join(f"{tasks}" for tasks in row.split.values()),
            "unknown": lambda row: f"{row.unmeasured}",
            "solved": lambda row: _least_to_most(row) if row.unmeasured else interval(row.least),
            "per task": lambda row: usd_interval(row.usd_task),
            "none free": lambda row: usd(row.usd_task_priced, 3),
        },
        f"Split: tasks that go to {', '.join(found[0].split)}. Unknown: tasks whose fixer was never run with the "
        "handoff; if all of them fail, or all are solved, the router solves the two shares that are given. None free: "
        "dollars per task where what the paper counts as free costs as much as that fixer's measured attempts.",
    )


def _least_to_most(row: Threshold) -> str:
    return f"{percent(row.least.value)} to {percent(row.most.value)}"


def _head_table(found: Receipts) -> ReportTable:
    return table(
        "What the heads say of the cheapest fixer",
        found.probabilities,
        {
            "head": lambda one: one.head,
            "standard deviation": lambda one: number(one.sd),
            "lowest": lambda one: number(one.lowest),
            "highest": lambda one: number(one.highest),
        },
    )


def _fresh_table(found: Sequence[Fresh]) -> ReportTable:
    return table(
        "Fresh tasks beside public ones",
        found,
        {
            "fixer": lambda one: one.fixer,
            "fresh": lambda one: interval(one.fresh),
            "public": lambda one: percent(one.public, unknown="-"),
            "gap": lambda one: points(None if one.public is None else one.fresh.value - one.public),
        },
        "Public: SWE-bench Multilingual, as far as the tasks are in the public table.",
    )


def _localization_table(found: Sequence[Located]) -> ReportTable:
    return table(
        "Localization",
        found,
        {
            "group": lambda one: one.group,
            "tasks": lambda one: f"{one.n}",
            "recall": lambda one: interval(one.recall),
            "precision": lambda one: interval(one.precision),
            "all named": lambda one: interval(one.all_gold),
            "true files": lambda one: f"{one.gold_files:.2f}",
        },
    )


def _claims_table(found: Sequence[Claims]) -> ReportTable:
    rows: dict[str, Callable[[Claims], str]] = {
        **{
            _spoken(verdict): partial(_with_verdict, verdict=verdict)
            for verdict in dict.fromkeys(verdict for one in found for verdict in one.verdicts)
        },
        "claiming": lambda one: f"{one.claiming}",
        "kept by the gate": lambda one: f"{one.kept}",
        "genuine, of those claiming": lambda one: interval(one.genuine),
        "passes unpatched, of those claiming": lambda one: interval(one.passes),
    }
    return ReportTable(
        "What became of the claims",
        ("", *(f"{one.group} ({one.n})" for one in found)),
        [[name, *(cell(one) for one in found)] for name, cell in rows.items()],
    )


def _with_verdict(one: Claims, verdict: str) -> str:
    return f"{one.verdicts.get(verdict, 0)}"


def _regated_table(found: Sequence[RegatedRecord]) -> ReportTable:
    kept = {True: "kept", False: "stripped", None: "open"}
    return table(
        "The gate re-classified by our stricter rules",
        found,
        {
            "record": lambda one: one.task,
            "the release": lambda one: f"{_spoken(one.release_class)}, {kept[one.release_kept]}",
            "ours": lambda one: f"{_spoken(one.verdict) if one.verdict else 'undecided'}, {kept[one.kept]}",
            "why": lambda one: one.reason,
        },
        "Judged on what the records hold: no repository, no issue, no trace. Open: only a replay would tell.",
    )


def _attempts_table(found: Sequence[Attempts]) -> ReportTable:
    return table(
        "Attempts",
        found,
        {
            "fixer": lambda one: way_name(one.fixer, one.arm),
            "attempts": lambda one: f"{one.n}",
            "all of them": lambda one: usd(one.usd, unknown="-"),
            "most expensive": lambda one: usd(one.most_expensive_usd, unknown="-"),
            "mean steps": lambda one: number(one.mean_steps, 1),
            "at the cap": lambda one: count(one.at_cap),
            "of these solved": lambda one: count(one.solved_at_cap),
        },
    )


def _plane_figure(found: Sequence[PolicyRow]) -> Figure:
    known = [(way, way.usd_task) for way in found if way.usd_task]
    words = "; ".join(f"{way.name}: {interval(way.rate)} at {usd(cost.value, 3)}" for way, cost in known)
    draw = partial(_draw_plane, known=known)
    return Figure("replicate-plane", "Solve rate against cost", draw, f"{words}.", height=4.2)


def _draw_plane(axes: Axes, known: Sequence[tuple[PolicyRow, Estimate]]) -> None:
    alone = [(cost.value, 100 * way.rate.value) for way, cost in known if way.alone]
    if alone:
        corners = hull(np.array(alone))
        axes.plot(corners[:, 0], corners[:, 1], "--", color=SOFT, label="random mix of fixers alone", zorder=1)
    for at, (way, cost) in enumerate(known):
        axes.errorbar(
            cost.value,
            100 * way.rate.value,
            xerr=error_bars([cost]),
            yerr=error_bars([way.rate], 100),
            fmt=MARKERS[at % len(MARKERS)],
            color=SHADES[at % len(SHADES)],
            elinewidth=1,
            # The router may lie on top of another policy.
            markerfacecolor="none" if way.name == ROUTER else None,
            markersize=11 if way.name == ROUTER else None,
            label=way.name,
        )
    axes.set(xlim=(0, None), xlabel="dollars per task", ylabel="solved (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)


def _threshold_figure(found: Sequence[Threshold]) -> Figure:
    """What each threshold solves: between all unknown outcomes failing and all succeeding."""
    words = "; ".join(f"{row.theta:.2f}: {_least_to_most(row)}, {usd(row.usd_task.value, 3)} per task" for row in found)
    draw = partial(_draw_thresholds, found=found)
    return Figure("replicate-thresholds", "Solve rate against the threshold", draw, f"{words}.", height=3.8)


def _draw_thresholds(axes: Axes, found: Sequence[Threshold]) -> None:
    at = list(range(len(found)))
    sample = [(100 * row.least.low, 100 * row.most.high) for row in found]
    unknown = [(100 * row.least.value, 100 * row.most.value) for row in found]
    axes.vlines(at, *zip(*sample, strict=True), color=SOFT, linewidth=1, label="with the 95% interval of a sample")
    axes.vlines(
        at, *zip(*unknown, strict=True), color=SHADES[1], linewidth=9, label="unknown outcomes all fail to all succeed"
    )
    solved = [100 * row.solves / sum(row.split.values()) for row in found]
    axes.plot(at, solved, MARKERS[0], color=INK, label="by the paper's rule")
    labels = [f"{row.theta:.2f}\n{usd(row.usd_task.value, 3)}\n({usd(row.usd_task_priced, 3)})" for row in found]
    axes.set_xticks(at, labels)
    axes.set_xlabel("threshold; dollars per task by the paper's rule (and with no attempt for free)")
    axes.set_ylabel("solved (%)")
    axes.legend(loc="lower left")


def _effect_figure(found: Mapping[str, Sequence[PairedEffect]]) -> Figure:
    rows = [(where, one) for where, effects in found.items() for one in effects]
    labels = [f"{one.fixer}\n{where} ({one.paired.tasks})" for where, one in rows]
    kinds = {"one fixer": False, "pooled": True}
    series = {
        name: [one.paired.change if (one.fixer == "pooled") == pooled else None for _, one in rows]
        for name, pooled in kinds.items()
        if any((one.fixer == "pooled") == pooled for _, one in rows)
    }
    words = "; ".join(f"{one.fixer} on {where}: {points(one.paired.change)} points" for where, one in rows)
    return Figure(
        "replicate-handoff",
        "What the handoff changes",
        lambda axes: forest(axes, labels, series, "points of solve rate, with handoff less alone"),
        f"{words}.",
        height=1.6 + 0.4 * len(rows),
    )


def _spoken(name: str) -> str:
    return name.replace("_", " ")
