"""The plot of cost against solve rate as SVG, shared by dashboard, batch report and calibration.

templates/plot.css colours it with the page's variables: light, dark or printed in gray.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

from scrout.html import Html, element, style_sheet
from scrout.intervals import Estimate
from scrout.text import percent, usd

WIDTH, HEIGHT = 640, 420
LEFT, RIGHT, TOP, BOTTOM = 54, 26, 30, 48
LETTER = 7.6
"""Approximate width of a letter in labels."""

Shape = Literal["circle", "square", "triangle"]
SHAPES: dict[str, Shape] = {"handoff": "square", "passthrough": "triangle"}
"""Shapes of a batch's arms, by the word before the slash; other marks are circles."""
Point = tuple[float, float]
"""Dollars per task and solve rate, or a position in the plot."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Mark:
    """One mark: a cost and a solve rate with their intervals."""

    name: str
    usd: Estimate
    rate: Estimate
    shape: Shape = "circle"
    routed: bool = False
    """True: draw an outline in another colour."""
    detail: str = ""
    """Tooltip."""

    @property
    def words(self) -> str:
        rate, low, high = (percent(value) for value in (self.rate.value, self.rate.low, self.rate.high))
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.name}: {rate} solved ({low} to {high}) at {usd(self.usd.value, 4)} per task{detail}"


def cost_plot(title: str, marks: Sequence[Mark], mix: Sequence[Point] = (), chord: Sequence[Point] = ()) -> Html:
    """Marks with names and intervals; a dashed line for random mixtures, a dotted line for a comparison."""
    frame = _Frame(
        ticks(0.0, max(0.01, *(mark.usd.high for mark in marks))),
        ticks(min(mark.rate.low for mark in marks), max(mark.rate.high for mark in marks)),
    )
    parts = [element("title", title), element("desc", "; ".join(mark.words for mark in marks)), *frame.axes()]
    if chord:
        parts.append(frame.line(chord, "chord"))
    if mix:
        mix = [*mix, (frame.x_ticks[-1], mix[-1][1])]
        parts.append(frame.line(mix, "mix"))
    for mark in marks:
        parts += [frame.line(ends, "span routed" if mark.routed else "span") for ends in _spans(mark)]
    parts += [*map(frame.shape, marks), *frame.names(marks, mix)]
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="plot cost", role="img")


def svg_file(
    title: str, key: str, marks: Sequence[Mark], mix: Sequence[Point] = (), chord: Sequence[Point] = ()
) -> str:
    """The plot as a file of its own, with a title and a legend."""
    head, size = 50, {"width": str(WIDTH), "height": str(HEIGHT)}
    words = [_text(14, 22, title, "name"), _text(14, 41, key, "tick")]
    inner = element("svg", cost_plot(title, marks, mix, chord), y=str(head), **size)
    ground = element("rect", width=str(WIDTH), height=str(HEIGHT + head), fill="#fff")
    parts = element("g", ground, *words, inner, class_="cost")
    shape = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT + head}"}
    return element("svg", element("style", style_sheet("plot.css")), parts, **shape) + "\n"


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose both values, about five steps apart."""
    span = max(high - low, 1e-6)
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class _Frame:
    """Maps dollars and rates to positions in the plot."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]

    def at(self, usd: float, rate: float) -> Point:
        across = (usd - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0])
        up = (rate - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Sequence[Point], kind: str) -> Html:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
        return element("polyline", points=places, class_=kind)

    def shape(self, mark: Mark) -> Html:
        x, y = self.at(mark.usd.value, mark.rate.value)
        kind, told = "mark routed" if mark.routed else "mark", element("title", mark.words)
        if mark.shape == "square":
            box = {"x": f"{x - 5.5:.1f}", "y": f"{y - 5.5:.1f}", "width": "11", "height": "11"}
            return element("rect", told, class_=kind, **box)
        if mark.shape == "triangle":
            return element("path", told, d=f"M{x:.1f} {y - 7:.1f} l6.5 12 h-13 z", class_=kind)
        return element("circle", told, cx=f"{x:.1f}", cy=f"{y:.1f}", r="6", class_=kind)

    def names(self, marks: Sequence[Mark], mix: Sequence[Point]) -> Iterator[Html]:
        """Place each name beside its mark, clear of other marks and names; a name without room is left out."""
        places = {mark.name: self.at(mark.usd.value, mark.rate.value) for mark in marks}
        taken = [_around(place) for place in places.values()]
        lines = [[_around(*(self.at(*end) for end in ends), by=1)] for mark in marks for ends in _spans(mark)]
        for (x0, y0), (x1, y1) in pairwise(self.at(*corner) for corner in mix):
            steps = ((x0 + n / 40 * (x1 - x0), y0 + n / 40 * (y1 - y0)) for n in range(41))
            lines.append([_around(step, by=4) for step in steps])
        for name in sorted(places, key={mark.name: not mark.routed for mark in marks}.__getitem__):
            x, y = place = places[name]
            width = len(name) * LETTER
            boxes = [
                (left, y + down - 11, left + width, y + down + 3)
                for down in (-9, 18, 4, -23, 32, -37, 46, -51, 60)
                for left in (x + 11, x - 11 - width, x - width / 2)
            ]
            free = [box for box in boxes if _inside(box) and not any(_meet(box, other) for other in taken)]
            if free:
                best = min(free, key=partial(_trouble, place=place, places=places.values(), lines=lines))
                taken.append(best)
                yield _text(best[0], best[3] - 3, name, "name")

    def axes(self) -> Iterator[Html]:
        (x0, y0), (x1, y1) = (self.x_ticks[0], self.y_ticks[0]), (self.x_ticks[-1], self.y_ticks[-1])
        for y in self.y_ticks[1:]:
            yield self.line([(x0, y), (x1, y)], "grid")
        yield self.line([(x0, y1), (x0, y0), (x1, y0)], "axis")
        digits = next((n for n in range(10) if all(math.isclose(round(x, n), x) for x in self.x_ticks)), 10)
        for x in self.x_ticks:
            across, down = self.at(x, y0)
            yield _text(across, down + 18, f"${x:,.{max(2, digits) if digits else 0}f}", "tick", "middle")
        for y in self.y_ticks:
            across, down = self.at(x0, y)
            yield _text(across - 7, down + 4, f"{100 * y:.10g}%", "tick", "end")
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "dollars per task", "tick", "middle")
        yield _text(2, 14, "solved", "tick")


def _spans(mark: Mark) -> list[tuple[Point, Point]]:
    """The ends of both intervals; empty for an interval that is a point."""
    usd, rate = mark.usd, mark.rate
    across = [((usd.low, rate.value), (usd.high, rate.value))] if usd.low < usd.high else []
    return [*across, ((usd.value, rate.low), (usd.value, rate.high))]


def _around(*points: Point, by: float = 8) -> Box:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs) - by, min(ys) - by, max(xs) + by, max(ys) + by


def _trouble(box: Box, place: Point, places: Collection[Point], lines: Sequence[Sequence[Box]]) -> float:
    """Penalty for a label's position: far from its mark, across a line, or nearer to another mark."""
    crossed = sum(any(_meet(box, part) for part in line) for line in lines)
    away = _gap(box, place)
    return away + 14 * crossed + 14 * any(_gap(box, other) < away for other in places)


def _gap(box: Box, point: Point) -> float:
    (left, top, right, bottom), (x, y) = box, point
    return math.hypot(max(left - x, x - right, 0), max(top - y, y - bottom, 0))


def _inside(box: Box) -> bool:
    return box[0] >= LEFT + 2 and box[2] <= WIDTH - 2 and box[1] >= 0 and box[3] <= HEIGHT - BOTTOM - 2


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> Html:
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", class_=kind, **{"text-anchor": anchor})
