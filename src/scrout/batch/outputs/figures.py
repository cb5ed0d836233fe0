"""The pictures of a batch's page, as SVG that a style sheet colours: light, dark, or printed in gray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scrout.html import Html, element
from scrout.route.plot import ticks
from scrout.route.stats import Estimate, hull

WIDTH, HEIGHT = 480, 340
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 26, 44
LETTER = 7.4
"""About the width of a letter in names."""
ROW, BAR, LABEL = 44, 16, 16
"""Heights of a row of bars, of its bar, and of the line above it."""

# Lightness and pattern tell parts apart where colour cannot.
Fill = Literal["solid", "pale", "empty", "url(#hatch)", "url(#dots)", "url(#bars)"]
Shape = Literal["circle", "square", "triangle"]


Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Mark:
    """An arm among the others."""

    name: str
    usd: Estimate
    rate: Estimate
    shape: Shape
    open: bool = False
    """True: drawn as an outline."""


@dataclass(frozen=True)
class Bar:
    """A row of parts."""

    label: str
    value: str
    """What is written at the end of its label."""
    parts: Sequence[tuple[Fill, float]]


def patterns() -> Html:
    """What fills refer to; once a page."""
    hatch = element("path", d="M-1 1 l2 -2 M0 6 l6 -6 M5 7 l2 -2", class_="stroke")
    dots = element("circle", cx="2.5", cy="2.5", r="1.2", class_="solid")
    bars = element("path", d="M2 0 v6", class_="stroke")
    made = [
        element("pattern", content, id=name, width=size, height=size, patternUnits="userSpaceOnUse")
        for name, content, size in (("hatch", hatch, "6"), ("dots", dots, "5"), ("bars", bars, "5"))
    ]
    return element("svg", element("defs", *made), width="0", height="0", **{"aria-hidden": "true"})


def swatch(fill: Fill) -> Html:
    """A small sample of a fill, for a key."""
    return element("svg", _rect(1, 1, 26, 14, fill), viewBox="0 0 28 16", **{"aria-hidden": "true"})


def bars(title: str, rows: Sequence[Bar], most: float) -> Html:
    """Bars below each other, all on one scale that ends at `most`."""
    inner = WIDTH - 4
    parts: list[Html] = []
    for number, bar in enumerate(rows):
        y = number * ROW
        parts.append(_text(2, y + LABEL - 3, _short(bar.label, bar.value), "name"))
        parts.append(_text(WIDTH - 2, y + LABEL - 3, bar.value, "", "end"))
        parts.append(element("rect", class_="track", **_box(2, y + LABEL + 3, inner, BAR)))
        x = 2.0
        for fill, amount in bar.parts:
            width = inner * amount / most if most else 0.0
            if width > 0:
                # Without a ground, a pattern would let the track shine through.
                parts += [_rect(x, y + LABEL + 3, width, BAR, "empty"), _rect(x, y + LABEL + 3, width, BAR, fill)]
                x += width
    return _picture(title, len(rows) * ROW, parts)


def scatter(title: str, marks: Sequence[Mark], alone: Sequence[tuple[float, float]]) -> Html:
    """Rates against dollars a task, with intervals, and what drawing among those in `alone` at random would reach."""
    frame = _Frame(
        ticks(0.0, max(0.01, *(mark.usd.high for mark in marks))),
        ticks(min(mark.rate.low for mark in marks), max(mark.rate.high for mark in marks)),
    )
    parts = [*frame.axes()]
    if len(alone) > 1:
        corners = [(float(x), float(y)) for x, y in hull(np.array(alone))]
        parts.append(frame.line(corners, "mix"))
    for mark in marks:
        parts.append(frame.line([(mark.usd.low, mark.rate.value), (mark.usd.high, mark.rate.value)], "span"))
        parts.append(frame.line([(mark.usd.value, mark.rate.low), (mark.usd.value, mark.rate.high)], "span"))
    parts += [frame.shape(mark) for mark in marks]
    parts += frame.names({mark.name: (mark.usd.value, mark.rate.value) for mark in marks})
    return _picture(title, HEIGHT, parts)


@dataclass(frozen=True)
class _Frame:
    """From dollars and rates to places in the picture."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]

    def at(self, usd: float, rate: float) -> tuple[float, float]:
        across = (usd - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0])
        up = (rate - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> Html:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
        return element("polyline", points=places, class_=kind)

    def shape(self, mark: Mark) -> Html:
        x, y = self.at(mark.usd.value, mark.rate.value)
        kind = "open" if mark.open else "mark"
        if mark.shape == "square":
            return element("rect", class_=kind, **_box(x - 5.5, y - 5.5, 11, 11))
        if mark.shape == "triangle":
            return element("path", d=f"M{x:.1f} {y - 7:.1f} l6.5 12 h-13 z", class_=kind)
        return element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="6", class_=kind)

    def names(self, points: Mapping[str, tuple[float, float]]) -> Iterator[Html]:
        """Each beside its mark, where it covers no other mark and no name that is written already."""
        taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in (self.at(*point) for point in points.values())]
        for name, point in points.items():
            x, y = self.at(*point)
            places = [
                (left, y + down - 11, left + len(name) * LETTER, y + down + 3)
                for down in (-8, 17, -22, 31, -36, 45, -50, 59)
                for left in (x + 11, x - 11 - len(name) * LETTER)
            ]
            inside = [place for place in places if self._holds(place)] or [(2.0, y - 11, 2 + len(name) * LETTER, y + 3)]
            place = next((place for place in inside if not any(_meet(place, other) for other in taken)), inside[0])
            taken.append(place)
            yield _text(place[0], place[3] - 3, name, "name")

    def _holds(self, box: Box) -> bool:
        return box[0] >= 2 and box[2] <= WIDTH - 2 and box[1] >= TOP - 12 and box[3] <= HEIGHT - BOTTOM

    def axes(self) -> Iterator[Html]:
        x0, y0 = self.x_ticks[0], self.y_ticks[0]
        for y in self.y_ticks[1:]:
            yield self.line([(x0, y), (self.x_ticks[-1], y)], "grid")
        yield self.line([(x0, self.y_ticks[-1]), (x0, y0), (self.x_ticks[-1], y0)], "axis")
        for x in self.x_ticks:
            across, down = self.at(x, y0)
            yield _text(across, down + 17, f"${x:.10g}", "tick", "middle")
        for y in self.y_ticks:
            across, down = self.at(x0, y)
            yield _text(across - 6, down + 4, f"{100 * y:.10g}%", "tick", "end")
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "dollars a task", "tick", "middle")
        yield _text(2, 14, "solved", "tick")


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _picture(title: str, height: float, parts: Sequence[Html]) -> Html:
    told = {"role": "img", "aria-label": title}
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {height:.0f}", class_="plot", **told)


def _rect(x: float, y: float, width: float, height: float, fill: Fill) -> Html:
    if fill.startswith("url("):
        return element("rect", fill=fill, class_="part", **_box(x, y, width, height))
    return element("rect", class_=f"part {fill}", **_box(x, y, width, height))


def _box(x: float, y: float, width: float, height: float) -> dict[str, str]:
    return {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> Html:
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", class_=kind, **{"text-anchor": anchor})


def _short(label: str, value: str) -> str:
    """As much of a label as fits before the value."""
    room = int((WIDTH - len(value) * LETTER) / LETTER) - 2
    return label if len(label) <= room else f"{label[: room - 1]}…"
