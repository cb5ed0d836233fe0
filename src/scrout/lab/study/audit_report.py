"""Tables, figures and findings of `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scrout.lab.study.audit import (
    POOL,
    Audit,
    Claimed,
    Family,
    Overlap,
    PoolsOfFour,
    Routed,
)
from scrout.lab.study.figures import INK, MARKERS, SHADES
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, p_value, points
from scrout.route.calibrate import CONSTANT
from scrout.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LEVEL = 0.05


def report(result: Audit) -> StudyReport:
    """The audit for people."""
    parts: list[ReportTable | Figure] = [_overlaps(result)] if result.published else []
    if result.others:
        parts.append(_further(result.others))
    if result.pools:
        parts += [_spread_sheet(result.pools), _picture(result)]
    parts += [_routers(one, result.claimed) for one in result.routers]
    return StudyReport(
        title="Audit: what a pool leaves to a router",
        findings=_findings(result),
        parts=parts,
        notes=(
            *result.notes,
            "Routers see a task's text through the hashed embedder, learn from the other repositories alone and take "
            "the fixer with the highest probability. The best fixer is the best in hindsight, on the very tasks it is "
            "measured on. Other seeds and settings move a family by a point or two: which one leads says little.",
        ),
    )


def _findings(result: Audit) -> list[str]:
    lines = [
        f"{one.benchmark} ({one.n} tasks): best {_short(one.best)}, containment {_short(one.containment)}, "
        f"unique-solver shell {percent(one.shell, unknown='-')}; a router that never errs would "
        f"solve {_short(one.any)}."
        for one in result.published
    ]
    for found in result.routers:
        leader = found.leader.beside_best
        wins = [family.name for family in found.families if family.p_holm is not None and _wins(family)]
        told = f"{', '.join(wins)} beats it" if wins else "no family beats it"
        lines.append(
            f"{found.benchmark}: the best router ({_named(found.leader)}) against {found.best_fixer}: "
            f"{points(leader.change)} points, p {p_value(leader.p)}; {told} after Holm's correction over "
            f"{sum(family.p_holm is not None for family in found.families)} families."
        )
    for pool in result.pools:
        beside = pool.below_published
        lines.append(
            f"{pool.benchmark}: over {pool.pools} pools of {POOL} containment runs from "
            f"{_short(pool.containment.lowest)} to {_short(pool.containment.highest)} "
            f"(median {_short(pool.containment.median)}), the shell from "
            f"{percent(pool.shell.lowest)} to {percent(pool.shell.highest)} (median {percent(pool.shell.median)})"
            + (f"; {percent(beside, 0)} of them overlap less than the published one." if beside is not None else ".")
        )
    return lines


def _named(family: Family) -> str:
    fixer, share = max(family.shares.items(), key=lambda item: item[1])
    return f"{family.name}, which takes {fixer} for {percent(share, 0)}" if share >= CONSTANT else family.name


def _wins(family: Family) -> bool:
    return family.p_holm is not None and family.p_holm < LEVEL and family.beside_best.change.value > 0


def _overlaps(result: Audit) -> ReportTable:
    rows = []
    for one, sampled in zip(result.published, result.intervals, strict=True):
        containment, shell = sampled.containment, sampled.shell
        rows.append(
            [
                one.benchmark,
                f"{one.n}",
                interval(sampled.best, _short),
                interval(containment, _short) if containment else "-",
                interval(shell) if shell else "-",
                _short(one.any),
            ]
        )
    pools = "; ".join(f"{one.benchmark}: {', '.join(one.fixers)}" for one in result.published)
    return ReportTable(
        title="How far a pool's fixers solve the same tasks",
        columns=("benchmark", "tasks", "best", "containment", "unique-solver shell", "any"),
        rows=rows,
        note="With 95% intervals over resampled tasks. Containment: of what the weaker of two solves, the share that "
        "the other solves too, mean over the pairs. Shell: of the tasks that some but not all solve, those that "
        f"exactly one does. Pools: {pools}.",
    )


def _further(others: Sequence[Overlap]) -> ReportTable:
    return ReportTable(
        title="Pools that the paper does not print",
        columns=("benchmark", "fixers", "tasks", "best", "containment", "unique-solver shell", "any"),
        rows=[
            [
                one.benchmark,
                f"{len(one.fixers)}",
                f"{one.n}",
                _short(one.best),
                _short(one.containment),
                percent(one.shell, unknown="-"),
                _short(one.any),
            ]
            for one in others
        ],
    )


def _spread_sheet(found: Sequence[PoolsOfFour]) -> ReportTable:
    rows = []
    for one in found:
        figures = {"containment": one.containment, "shell": one.shell, "left by the best fixer": one.headroom}
        for name, spread_ in figures.items():
            ends = (spread_.lowest, spread_.quarter, spread_.median, spread_.three_quarters, spread_.highest)
            rows.append([f"{one.benchmark}, {name}", f"{one.pools}", *(_short(end) for end in ends)])
    return ReportTable(
        title=f"Every pool of {POOL}",
        columns=("", "pools", "lowest", "25%", "median", "75%", "highest"),
        rows=rows,
        note="Pools share fixers and tasks, so they are no sample: this is the range of what one could have reported. "
        "The last row is what a router that never errs would add to the best fixer.",
    )


def _routers(found: Routed, claimed: Sequence[Claimed]) -> ReportTable:
    beside = next((one for one in claimed if one.benchmark == found.benchmark), None)
    told = (
        f" The paper prints {points(beside.change)} points for its best router, p {p_value(beside.p)}; its seeds and "
        "settings are not known, so that is no cell to be reproduced."
        if beside
        else ""
    )
    return ReportTable(
        title=f"Routers on {found.benchmark}, held out by repository",
        columns=("way", "solved", "less the best fixer", "gained", "lost", "p", "p, Holm"),
        rows=[
            [
                family.name,
                percent(family.rate),
                points(family.beside_best.change),
                f"{family.beside_best.gained}",
                f"{family.beside_best.lost}",
                p_value(family.beside_best.p),
                p_value(family.p_holm) if family.p_holm is not None else "-",
            ]
            for family in found.families
        ],
        note=f"{found.tasks} tasks of {found.repositories} repositories; the best fixer in hindsight is "
        f"{found.best_fixer}. Points with 95% intervals, p by exact McNemar.{told}",
    )


def _picture(result: Audit) -> Figure:
    told = "; ".join(
        f"{one.benchmark}: {one.pools} pools, containment {_short(one.containment.lowest)} to "
        f"{_short(one.containment.highest)}, shell {percent(one.shell.lowest)} to {percent(one.shell.highest)}"
        for one in result.pools
    )
    return Figure("audit-pools", f"Every pool of {POOL}", lambda axes: _draw(axes, result), f"{told}.", height=4.2)


def _draw(axes: Axes, result: Audit) -> None:
    whole = {one.benchmark: _point(one) for one in result.published}
    for number, found in enumerate(result.pools):
        shade, marker = SHADES[number % len(SHADES)], MARKERS[number % len(MARKERS)]
        cloud = np.array([_point(one) for one in found.each])
        axes.scatter(cloud[:, 0], cloud[:, 1], s=9, color=shade, marker=marker, alpha=0.35, linewidths=0)
        x, y = whole.get(found.benchmark, (np.nan, np.nan))
        axes.scatter(x, y, s=80, color=shade, marker=marker, edgecolors=INK, label=f"{found.benchmark}", zorder=3)
    axes.set_xlabel("containment: how much of the weaker one's solves the other has, too")
    axes.set_ylabel("unique-solver shell (%)")
    large = "large: the published pool" if result.claimed else None
    axes.legend(loc="upper right", title=large, title_fontsize=8.5)


def _point(one: Overlap) -> tuple[float, float]:
    """Where a pool stands; nan: nowhere."""
    return (
        np.nan if one.containment is None else one.containment,
        np.nan if one.shell is None else 100 * one.shell,
    )


def _short(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
