"""Pictures of `replicate`: ways on the plane of cost and solves, thresholds, what the handoff changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scrout.intervals import Estimate
from scrout.lab.study.figures import INK, MARKERS, SHADES, SOFT
from scrout.lab.study.replicate.receipts import ROUTER
from scrout.lab.study.replicate.sweep import Threshold
from scrout.lab.study.replicate.tables import ArmRow, PairedEffect
from scrout.lab.study.report import Figure, interval, points
from scrout.route.stats import hull
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plane(found: Sequence[ArmRow]) -> Figure:
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


def thresholds(found: Sequence[Threshold]) -> Figure:
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


def forest(found: Mapping[str, Sequence[PairedEffect]]) -> Figure:
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
