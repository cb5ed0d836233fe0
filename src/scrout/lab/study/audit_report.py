"""Tables, figures and findings of `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scrout.lab.study.audit import POOL, Audit, Claimed, Family, Overlap, PoolsOfFour, Routed
from scrout.lab.study.figures import INK, MARKERS, SHADES
from scrout.lab.study.report import (
    Figure,
    ReportTable,
    StudyReport,
    interval,
    number,
    p_value,
    paired_columns,
    points,
    table,
    with_content,
)
from scrout.lab.study.stats import ALPHA
from scrout.route.calibrate import CONSTANT
from scrout.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def report(result: Audit) -> StudyReport:
    parts = with_content(
        _overlap_table(result),
        _other_pools_table(result.others),
        _pools_table(result.pools),
        _pools_figure(result) if result.pools else None,
        *(_router_table(one, result.claimed) for one in result.routers),
    )
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
        f"{one.benchmark} ({one.n} tasks): best {number(one.best)}, containment {number(one.containment)}, "
        f"unique-solver shell {percent(one.shell, unknown='-')}; a router that never errs would "
        f"solve {number(one.any)}."
        for one in result.published
    ]
    for found in result.routers:
        leader = found.leader.beside_best
        families = [family for family in found.families if family.p_holm is not None]
        better = ", ".join(family.name for family in families if _beats_best(family))
        lines.append(
            f"{found.benchmark}: the best router ({_with_share(found.leader)}) against {found.best_fixer}: "
            f"{points(leader.change)} points, p {p_value(leader.p)}; {better or 'no family'} beats it after Holm's "
            f"correction over {len(families)} families."
        )
    for pool in result.pools:
        lower = pool.below_published
        lines.append(
            f"{pool.benchmark}: over {pool.pools} pools of {POOL} containment runs from "
            f"{number(pool.containment.lowest)} to {number(pool.containment.highest)} "
            f"(median {number(pool.containment.median)}), the shell from "
            f"{percent(pool.shell.lowest)} to {percent(pool.shell.highest)} (median {percent(pool.shell.median)})"
            + (f"; {percent(lower, 0)} of them overlap less than the published one." if lower is not None else ".")
        )
    return lines


def _with_share(family: Family) -> str:
    fixer, share = max(family.shares.items(), key=lambda item: item[1])
    return f"{family.name}, which takes {fixer} for {percent(share, 0)}" if share >= CONSTANT else family.name


def _beats_best(family: Family) -> bool:
    return family.p_holm is not None and family.p_holm < ALPHA and family.beside_best.change.value > 0


def _overlap_table(result: Audit) -> ReportTable:
    pools = "; ".join(f"{one.benchmark}: {', '.join(one.fixers)}" for one in result.published)
    return table(
        "How far a pool's fixers solve the same tasks",
        zip(result.published, result.intervals, strict=True),
        {
            "benchmark": lambda row: row[0].benchmark,
            "tasks": lambda row: f"{row[0].n}",
            "best": lambda row: interval(row[1].best, number),
            "containment": lambda row: interval(row[1].containment, number),
            "unique-solver shell": lambda row: interval(row[1].shell),
            "any": lambda row: number(row[0].any),
        },
        "With 95% intervals over resampled tasks. Containment: of what the weaker of two solves, the share that "
        "the other solves too, mean over the pairs. Shell: of the tasks that some but not all solve, those that "
        f"exactly one does. Pools: {pools}.",
    )


def _other_pools_table(others: Sequence[Overlap]) -> ReportTable:
    return table(
        "Pools that the paper does not print",
        others,
        {
            "benchmark": lambda one: one.benchmark,
            "fixers": lambda one: f"{len(one.fixers)}",
            "tasks": lambda one: f"{one.n}",
            "best": lambda one: number(one.best),
            "containment": lambda one: number(one.containment),
            "unique-solver shell": lambda one: percent(one.shell, unknown="-"),
            "any": lambda one: number(one.any),
        },
    )


def _pools_table(found: Sequence[PoolsOfFour]) -> ReportTable:
    rows = [
        (f"{one.benchmark}, {name}", one.pools, quantiles)
        for one in found
        for name, quantiles in (
            ("containment", one.containment),
            ("shell", one.shell),
            ("left by the best fixer", one.headroom),
        )
    ]
    return table(
        f"Every pool of {POOL}",
        rows,
        {
            "": lambda row: row[0],
            "pools": lambda row: f"{row[1]}",
            "lowest": lambda row: number(row[2].lowest),
            "25%": lambda row: number(row[2].quarter),
            "median": lambda row: number(row[2].median),
            "75%": lambda row: number(row[2].three_quarters),
            "highest": lambda row: number(row[2].highest),
        },
        "Pools share fixers and tasks, so they are no sample: this is the range of what one could have reported. "
        "The last row is what a router that never errs would add to the best fixer.",
    )


def _router_table(found: Routed, claimed: Sequence[Claimed]) -> ReportTable:
    published = next((one for one in claimed if one.benchmark == found.benchmark), None)
    printed = (
        f" The paper prints {points(published.change)} points for its best router, p {p_value(published.p)}; its seeds "
        "and settings are not known, so no cell is checked against it."
        if published
        else ""
    )
    return table(
        f"Routers on {found.benchmark}, held out by repository",
        found.families,
        {
            "policy": lambda family: family.name,
            **paired_columns(lambda family: family.beside_best, "best fixer", "solved"),
            "p, Holm": lambda family: p_value(family.p_holm),
        },
        f"{found.tasks} tasks of {found.repositories} repositories; the best fixer in hindsight is "
        f"{found.best_fixer}. Points with 95% intervals, p by exact McNemar.{printed}",
    )


def _pools_figure(result: Audit) -> Figure:
    words = "; ".join(
        f"{one.benchmark}: {one.pools} pools, containment {number(one.containment.lowest)} to "
        f"{number(one.containment.highest)}, shell {percent(one.shell.lowest)} to {percent(one.shell.highest)}"
        for one in result.pools
    )
    return Figure("audit-pools", f"Every pool of {POOL}", lambda axes: _draw_pools(axes, result), f"{words}.", 4.2)


def _draw_pools(axes: Axes, result: Audit) -> None:
    published = {one.benchmark: _point(one) for one in result.published}
    for at, found in enumerate(result.pools):
        shade, marker = SHADES[at % len(SHADES)], MARKERS[at % len(MARKERS)]
        cloud = np.array([_point(one) for one in found.each])
        axes.scatter(cloud[:, 0], cloud[:, 1], s=9, color=shade, marker=marker, alpha=0.35, linewidths=0)
        x, y = published.get(found.benchmark, (np.nan, np.nan))
        axes.scatter(x, y, s=80, color=shade, marker=marker, edgecolors=INK, label=found.benchmark, zorder=3)
    axes.set_xlabel("containment: share of the weaker fixer's solves that the other solves too")
    axes.set_ylabel("unique-solver shell (%)")
    large = "large: the published pool" if result.claimed else None
    axes.legend(loc="upper right", title=large, title_fontsize=8.5)


def _point(one: Overlap) -> tuple[float, float]:
    return (
        np.nan if one.containment is None else one.containment,
        np.nan if one.shell is None else 100 * one.shell,
    )
