"""Solve rate against cost of the user's own runs: each fixer, random mixes of them, and the router.

A run counts as solved if its check passed or, in a graded batch, if its grade says so. Only finished runs count:
infrastructure failures and interrupted runs say nothing about a fixer. An unverified patch is not counted as solved but
might be, so an arm's interval extends to the rate with all of those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import ValidationError

from scrout.base import FrozenModel
from scrout.batch.folder import BatchFolder
from scrout.batch.outputs.results import ArmResult, Summary
from scrout.html import Html, render
from scrout.intervals import Estimate, wilson
from scrout.money import Usd
from scrout.plot import SHAPES, Mark, cost_plot
from scrout.route.stats import hull, hull_at
from scrout.server.dashboard.batches import added
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext, words
from scrout.server.dashboard.run_index import RunGroup
from scrout.text import percent, usd

ROUTED = "routed"
FEW = 10
"""With fewer runs, a rate says little."""

JudgedBy = Literal["check", "grade"]


class FrontierPoint(FrozenModel):
    """One arm's runs in the plot."""

    label: str
    """Such as solo/NAME, handoff/NAME or handoff/routed."""
    done: int
    solved: int
    unverified: int
    """Finished runs with an unverified patch."""
    rate: float
    low: float
    high: float
    """With `low`, the rate's 95% interval, including unverified patches."""
    usd: Usd
    """Mean cost of finished runs with a known cost."""
    routed: bool
    baseline: str
    """Such as `always the cheapest`; empty: none."""
    over_line: float | None
    """Rate minus that of the best random mix of fixers at the same cost; None: it is a fixer itself, or no mix is
    that cheap.
    """
    fixers: tuple[str, ...]


class FrontierView(FrozenModel):
    """The plot of cost and solve rate."""

    batch: str
    batches: tuple[str, ...]
    judged_by: JudgedBy
    points: tuple[FrontierPoint, ...]
    line: tuple[tuple[float, float], ...]
    """Corners of the best random mixes: dollars per run, and rate."""
    findings: tuple[str, ...]
    notes: tuple[str, ...]


def look(page_context: PageContext, asked: Asked) -> FrontierView:
    batch = words(asked, "batch")
    batches = tuple(reversed(page_context.run_index.choices("batch")))
    if batch and batch not in batches:
        raise NotThere(f"no run belongs to a batch {batch!r}. Choose one from the list of batches.")
    groups = page_context.run_index.groups(batch or None, done=True)
    summary = _summary(page_context, batch)
    judged_by: JudgedBy = "grade" if summary and all(arm.graded for arm in summary.arms if arm.done) else "check"
    notes = _notes(batch, groups, judged_by)
    bare = []
    for label, parts in sorted(_by_label(groups).items()):
        told = next((arm for arm in summary.arms if arm.arm == label), None) if summary else None
        point = _point(label, parts, told, judged_by)
        if point:
            bare.append(point)
        else:
            notes.append(f"{label} is left out: the cost of none of its runs is known.")
    alone = [point for point in bare if not point.routed]
    points = _placed(bare, alone)
    line = hull(np.array([[float(one.usd), one.rate] for one in alone])) if alone else np.zeros((0, 2))
    return FrontierView(
        batch=batch,
        batches=batches,
        judged_by=judged_by,
        points=tuple(points),
        line=tuple((float(usd), float(rate)) for usd, rate in line),
        findings=tuple(_findings(points)),
        notes=tuple(notes),
    )


def show(view: FrontierView) -> str:
    plot = _plot(view) if view.points else ""
    return render("dashboard/frontier.html", view=view, plot=plot, legend=_legend(view))


def _summary(page_context: PageContext, batch: str) -> Summary | None:
    """The batch's own summary from its end, if the ledger is in its folder and no run came later."""
    if page_context.folder is None or not batch:
        return None
    path = BatchFolder(page_context.folder).summary
    try:
        summary = Summary.model_validate_json(path.read_bytes())
        written = path.stat().st_mtime
    except (OSError, ValidationError):
        return None
    last = max((group.last.timestamp() for group in page_context.run_index.groups(batch)), default=math.inf)
    return summary if summary.batch.id == batch and written >= last else None


def _by_label(groups: Sequence[RunGroup]) -> dict[str, list[RunGroup]]:
    """A single run belongs to its fixer; if the fixer was chosen out of several, also to the routed runs."""
    found: dict[str, list[RunGroup]] = {}
    for group in groups:
        own = [f"handoff/{group.fixer}"] if group.fixer else []
        chosen = [f"handoff/{ROUTED}"] if group.fixer and group.routed else []
        for label in [group.arm] if group.arm else own + chosen:
            found.setdefault(label, []).append(group)
    return found


def _point(label: str, parts: Sequence[RunGroup], told: ArmResult | None, judged_by: JudgedBy) -> FrontierPoint | None:
    """None: its cost is unknown. `told` is the batch's own summary of the arm, with costs shared with others."""
    totals = added(group.totals for group in parts)
    usd = told.usd_a_task if told else totals.usd_a_run
    if usd is None:
        return None
    done, solved, unverified = totals.done, totals.solved, totals.outcomes.get("unverified", 0)
    if told and told.graded and judged_by == "grade":
        done, solved, unverified = told.graded.resolved.of, told.graded.resolved.count, 0
    return FrontierPoint(
        label=label,
        done=done,
        solved=solved,
        unverified=unverified,
        rate=solved / done if done else 0.0,
        low=wilson(solved, done)[0],
        high=wilson(solved + unverified, done)[1],
        usd=usd,
        routed=label.endswith(f"/{ROUTED}"),
        baseline="",
        over_line=None,
        fixers=tuple(sorted({group.fixer for group in parts if group.fixer})),
    )


def _placed(points: Sequence[FrontierPoint], alone: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points with their meaning, compared with single fixers."""
    if not alone:
        return list(points)
    costs, rates = np.array([float(one.usd) for one in alone]), np.array([one.rate for one in alone])
    solo = [one for one in alone if one.label.startswith("solo/")] or list(alone)
    handed = [one for one in alone if one.label.startswith("handoff/")]
    named: dict[str, list[str]] = {}
    named.setdefault(min(solo, key=lambda one: one.usd).label, []).append("always the cheapest")
    # Unverified patches make it impossible to tell which fixer is the strongest.
    if known := [one for one in solo if one.unverified < one.done]:
        named.setdefault(max(known, key=lambda one: (one.rate, -one.usd)).label, []).append("always the strongest")
    if handed:
        named.setdefault(min(handed, key=lambda one: one.usd).label, []).append("the cheapest with handoff")
    placed = []
    for one in points:
        mixed = float(hull_at(costs, rates, float(one.usd))) if one.routed else float("nan")
        over = None if mixed != mixed else one.rate - mixed
        placed.append(one.model_copy(update={"baseline": ", ".join(named.get(one.label, [])), "over_line": over}))
    return placed


def _findings(points: Sequence[FrontierPoint]) -> list[str]:
    told = []
    for one in points:
        if not one.routed:
            continue
        if one.over_line is not None:
            over = round(100 * one.over_line, 1)
            place = f"{abs(over)} points {'above' if over > 0 else 'below'}" if over else "as good as"
            told.append(
                f"{one.label} solved {percent(one.rate, 0)} of {one.done:,} at {usd(one.usd, 3)} a run, "
                f"{place} the best random mix of fixers at that cost."
            )
        else:
            told.append(f"{one.label} costs less than any fixer alone, so no mix of them compares with it.")
        if len(one.fixers) == 1:
            told.append(f"{one.label} always took {one.fixers[0]}: on these runs the router was a constant.")
    if open_ones := [f"{one.unverified:,} of {one.done:,} of {one.label}" for one in points if one.unverified]:
        told.append(
            f"Nothing could judge some patches ({', '.join(open_ones[:8])}). They do not count as solved, so a rate "
            "may be too low, and so may the mixing line: grade the batch before you compare."
        )
    few = [one.label for one in points if one.done < FEW]
    if few:
        told.append(f"Fewer than {FEW} runs are done of {', '.join(few[:8])}: these rates say little.")
    return told


def _notes(batch: str, groups: Sequence[RunGroup], judged_by: JudgedBy) -> list[str]:
    by_check = "Solved means that the check passed. `scrout batch grade` judges a batch's patches by hidden tests."
    notes = [
        by_check if judged_by == "check" else "Solved means that the hidden tests passed, by `scrout batch grade`."
    ]
    if not batch and len({group.batch for group in groups}) > 1:
        notes.append("All runs together: arms may have had different tasks. One batch alone compares like with like.")
    if any(not group.arm for group in groups):
        notes.append(
            "Outside of batches the router chose who got which task, so fixers' rates there are not of equal tasks."
        )
    return notes


def _legend(view: FrontierView) -> list[tuple[str, str]]:
    keys = [
        ("solo", "from the issue alone", any(one.label.startswith("solo/") for one in view.points)),
        ("handoff", "with a handoff", any(one.label.startswith("handoff/") for one in view.points)),
        ("passthrough", "with all that the scout claimed", any(one.label.startswith("pass") for one in view.points)),
        ("routed", "routed", any(one.routed for one in view.points)),
        ("mix", "mixing fixers at random", bool(view.line)),
    ]
    return [(kind, meaning) for kind, meaning, is_there in keys if is_there]


def _plot(view: FrontierView) -> Html:
    title = f"Solve rate against cost of {len(view.points)} arms; the table below has the figures"
    marks = [
        Mark(
            f"{number} {one.label}",
            Estimate(value=float(one.usd), low=float(one.usd), high=float(one.usd)),
            Estimate(value=one.rate, low=one.low, high=one.high),
            SHAPES.get(one.label.partition("/")[0], "circle"),
            routed=one.routed,
            detail=one.baseline,
        )
        for number, one in enumerate(view.points, 1)
    ]
    return cost_plot(title, marks, view.line)
