"""Solve rate against cost of one's own runs: each fixer, the line of mixing them at random, and what routing did.

A run counts as solved where its check passed. Outcomes of other kinds than solved, unverified and not solved say
nothing of a fixer and are left out of its rate; what they cost is in its cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrout.html import Html, element, escape
from scrout.money import Record, Usd
from scrout.route.resume import wilson
from scrout.route.stats import hull, hull_at
from scrout.web import frame
from scrout.web.batches import added
from scrout.web.desk import Asked, Desk, NotThere, words
from scrout.web.shelf import Group

ROUTED = "routed"
FEW = 10
"""Below so many runs a rate says little."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 360, 64, 52, 16, 40


class Point(Record):
    """One arm's runs in the plane."""

    label: str
    """Such as solo/NAME, handoff/NAME or handoff/routed."""
    judged: int
    solved: int
    rate: float
    low: float
    high: float
    """With `low` where the rate lies with 95%."""
    usd: Usd
    """Mean of a run whose cost is known."""
    routed: bool
    baseline: str
    """Such as `always the cheapest`; empty: it is none."""
    over_line: float | None
    """Rate less that of the best random mix of fixers at the same cost; None: a fixer itself, or no mix costs as
    little."""
    fixers: tuple[str, ...]
    """Who worked in it."""


class FrontierView(Record):
    """The plane of cost and solve rate."""

    batch: str
    batches: tuple[str, ...]
    points: tuple[Point, ...]
    line: tuple[tuple[float, float], ...]
    """Corners of what mixing fixers at random can reach: dollars a run, and rate."""
    findings: tuple[str, ...]
    notes: tuple[str, ...]


def look(desk: Desk, asked: Asked) -> FrontierView:
    batch = words(asked, "batch")
    batches = tuple(reversed(desk.shelf.choices("batch")))
    if batch and batch not in batches:
        raise NotThere(f"no run belongs to a batch {batch!r}. The list of batches links to each.")
    groups = desk.shelf.groups(batch or None)
    by_label: dict[str, list[Group]] = {}
    for group in groups:
        for label in _labels(group):
            by_label.setdefault(label, []).append(group)
    notes = _notes(batch, groups)
    bare = []
    for label, parts in sorted(by_label.items()):
        point = _point(label, parts)
        if point:
            bare.append(point)
        else:
            notes.append(f"{label} is left out: none of its runs was judged and has a known cost.")
    alone = [point for point in bare if not point.routed]
    points = _placed(bare, alone)
    line = hull(np.array([[float(one.usd), one.rate] for one in alone])) if alone else np.zeros((0, 2))
    return FrontierView(
        batch=batch,
        batches=batches,
        points=tuple(points),
        line=tuple((float(usd), float(rate)) for usd, rate in line),
        findings=tuple(_findings(points)),
        notes=tuple(notes),
    )


def show(view: FrontierView) -> Html:
    parts = [element("h1", "Frontier"), frame.soft("Solve rate against cost: up and to the left is better.")]
    if view.batches:
        options = [element("option", "all runs", value="")]
        for name in view.batches:
            options.append(element("option", name, value=name, **({"selected": ""} if name == view.batch else {})))
        select = element("select", *options, id="batch", name_="batch")
        field = element("div", element("label", "Runs of batch", for_="batch"), select)
        buttons = element("div", element("button", "Show", type="submit"), class_="buttons")
        parts.append(element("form", field, buttons, method="get", action="/frontier", class_="filter"))
    if view.points:
        parts.append(element("div", _plot(view), class_="card pad"))
        parts.append(_legend())
        parts += [element("ul", *(element("li", words_) for words_ in view.findings))] if view.findings else []
        parts.append(_table(view.points))
    else:
        parts.append(frame.card(frame.soft("No run was judged yet. Runs show up here once their patch was checked.")))
    parts += [frame.soft(note) for note in view.notes]
    twin = frame.address("/frontier.json", batch=view.batch)
    return frame.page("Frontier", *parts, here="/frontier", twin=twin)


def _labels(group: Group) -> list[str]:
    """A run of its own was routed, and is one of its fixer's as well."""
    if group.arm:
        return [group.arm]
    return [f"handoff/{ROUTED}", f"handoff/{group.fixer}"] if group.fixer else []


def _point(label: str, parts: Sequence[Group]) -> Point | None:
    """None: nothing can be said."""
    totals = added(group.totals for group in parts)
    priced = totals.runs - totals.unpriced
    if not totals.judged or not priced:
        return None
    low, high = wilson(totals.solved, totals.judged)
    return Point(
        label=label,
        judged=totals.judged,
        solved=totals.solved,
        rate=totals.solved / totals.judged,
        low=low,
        high=high,
        usd=totals.cost_usd / priced,
        routed=label.endswith(f"/{ROUTED}"),
        baseline="",
        over_line=None,
        fixers=tuple(sorted({group.fixer for group in parts if group.fixer})),
    )


def _placed(points: Sequence[Point], alone: Sequence[Point]) -> list[Point]:
    """With what they stand for, beside the fixers alone."""
    if not alone:
        return list(points)
    costs, rates = np.array([float(one.usd) for one in alone]), np.array([one.rate for one in alone])
    solo = [one for one in alone if one.label.startswith("solo/")] or list(alone)
    handed = [one for one in alone if one.label.startswith("handoff/")]
    named: dict[str, list[str]] = {}
    named.setdefault(min(solo, key=lambda one: one.usd).label, []).append("always the cheapest")
    named.setdefault(max(solo, key=lambda one: (one.rate, -one.usd)).label, []).append("always the strongest")
    if handed:
        named.setdefault(min(handed, key=lambda one: one.usd).label, []).append("the cheapest with handoff")
    placed = []
    for one in points:
        mixed = float(hull_at(costs, rates, float(one.usd))) if one.routed else float("nan")
        over = None if mixed != mixed else one.rate - mixed
        placed.append(one.model_copy(update={"baseline": ", ".join(named.get(one.label, [])), "over_line": over}))
    return placed


def _findings(points: Sequence[Point]) -> list[str]:
    told = []
    for one in points:
        if not one.routed:
            continue
        if one.over_line is not None:
            over = round(100 * one.over_line, 1)
            place = f"{abs(over)} points {'above' if over > 0 else 'below'}" if over else "as good as"
            told.append(
                f"{one.label} solved {frame.percent(one.rate)} of {one.judged:,} at {frame.usd(one.usd)} a run, "
                f"{place} the best random mix of fixers at that cost."
            )
        else:
            told.append(f"{one.label} costs less than any fixer alone, so no mix of them compares with it.")
        if len(one.fixers) == 1:
            told.append(f"{one.label} always took {one.fixers[0]}: on these runs the router was a constant.")
    few = [one.label for one in points if one.judged < FEW]
    if few:
        told.append(f"Fewer than {FEW} runs were judged of {', '.join(few[:8])}: these rates say little.")
    return told


def _notes(batch: str, groups: Sequence[Group]) -> list[str]:
    notes = [
        "Solved means that the check passed. Grades by hidden tests are in a batch's report and in `scrout study`."
    ]
    if not batch and len({group.batch for group in groups}) > 1:
        notes.append("All runs together: arms may have had different tasks. One batch alone compares like with like.")
    if any(not group.arm for group in groups):
        notes.append(
            "Outside of batches the router chose who got which task, so fixers' rates there are not of equal tasks."
        )
    return notes


def _table(points: Sequence[Point]) -> Html:
    rows = []
    for number, one in enumerate(points, 1):
        name = element("span", f"{number}  {one.label}", element("span", one.baseline, class_="under"))
        over = "" if one.over_line is None else f"{round(100 * one.over_line, 1) + 0.0:+.1f} points"
        between = f"{frame.percent(one.low)} to {frame.percent(one.high)}"
        rows.append(
            [name, f"{one.solved:,} of {one.judged:,}", frame.percent(one.rate), between, frame.usd(one.usd), over]
        )
    columns = ["Arm", "Solved", "Rate", "95%", "A run", "Over the mixing line"]
    return frame.table(columns, rows, caption="The same in figures", numbers=columns[1:])


def _legend() -> Html:
    keys = [("alone", "a fixer"), ("routed", "routed"), ("mix", "mixing fixers at random")]
    items = [element("li", element("span", "", class_=f"key {kind}"), f" {words_}") for kind, words_ in keys]
    return element("ul", *items, class_="facts legend")


def _plot(view: FrontierView) -> Html:
    """Drawn by hand: no script, no picture from elsewhere. Numbers name the rows of the table."""
    most = max([float(one.usd) for one in view.points] + [1e-6]) * 1.08
    top = min(1.0, max(0.1, max(one.high for one in view.points) * 1.05))

    def x(usd: float) -> float:
        return round(LEFT + usd / most * (WIDTH - LEFT - RIGHT), 1)

    def y(rate: float) -> float:
        return round(TOP + (1 - rate / top) * (HEIGHT - TOP - BOTTOM), 1)

    parts = []
    for step in range(6):
        rate, usd = top * step / 5, most * step / 5
        dollars = f"${usd:.2f}" if most >= 0.5 else f"${usd:.3f}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(rate)}" y2="{y(rate)}"></line>')
        parts.append(f'<text class="tick end" x="{LEFT - 8}" y="{y(rate) + 4}">{100 * rate:.0f}%</text>')
        parts.append(f'<text class="tick middle" x="{x(usd)}" y="{HEIGHT - BOTTOM + 24}">{dollars}</text>')
    parts.append(f'<text class="tick middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">dollars a run</text>')
    if view.line:
        corners = [*view.line, (most, view.line[-1][1])]
        path = " ".join(f"{x(usd)},{y(rate)}" for usd, rate in corners)
        parts.append(f'<polyline class="mix" points="{path}"></polyline>')
    for number, one in enumerate(view.points, 1):
        at, kind = x(float(one.usd)), "routed" if one.routed else "alone"
        told = f"{one.label}: {frame.percent(one.rate)} at {frame.usd(one.usd)}"
        parts.append(
            f'<line class="whisker {kind}" x1="{at}" x2="{at}" y1="{y(min(one.high, top))}" y2="{y(one.low)}"></line>'
        )
        parts.append(
            f'<circle class="{kind}" cx="{at}" cy="{y(one.rate)}" r="9"><title>{escape(told)}</title></circle>'
        )
        parts.append(f'<text class="name middle" x="{at}" y="{y(one.rate) + 4}">{number}</text>')
    label = f"Solve rate against cost of {len(view.points)} arms; the table below has the figures."
    shape = f'class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}"'
    return Html(f"<svg {shape}>{''.join(parts)}</svg>")
