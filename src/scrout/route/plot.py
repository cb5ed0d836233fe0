"""A calibration as a picture: solve rate against dollars a task, in plain SVG, so that nothing need be installed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from scrout.route.calibrate import Calibration
from scrout.route.stats import Estimate, hull

WIDTH, HEIGHT = 720, 480
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 48, 56
LETTER = 6
"""About the width of a letter in names."""

Point = tuple[float, float]
"""Dollars a task, solve rate."""


@dataclass(frozen=True)
class Mark:
    """A way to spend, with its intervals."""

    usd: Estimate
    solve: Estimate
    colour: str = "#d62728"


def svg(calibration: Calibration) -> str:
    """Every fixer alone with its name, their hull, the line from cheapest to strongest, and ours with its intervals."""
    solo = {
        line.name.removeprefix("always "): (line.usd, line.solve)
        for line in calibration.baselines
        if line.kind not in ("mix", "oracle")
    }
    ours = {f"ours ({calibration.policy})": Mark(calibration.ours_usd, calibration.ours_solve)}
    title = f"{calibration.tasks} tasks, {calibration.repositories} repositories, {calibration.arm} arm"
    key = "blue: fixers alone and their hull; dashed: mixing cheapest and strongest; red: ours, 95% intervals"
    return picture(title, key, solo, ours)


def picture(title: str, key: str, solo: Mapping[str, Point], marks: Mapping[str, Mark]) -> str:
    """Fixers alone, their hull, the line from cheapest to strongest, and other ways to spend."""
    ends = [
        min(solo.values(), key=lambda one: (one[0], -one[1])),
        max(solo.values(), key=lambda one: (one[1], -one[0])),
    ]
    seen_usd = [usd for usd, _ in solo.values()] + [end for mark in marks.values() for end in _ends(mark.usd)]
    seen_solve = [solve for _, solve in solo.values()] + [end for mark in marks.values() for end in _ends(mark.solve)]
    frame = _Frame(ticks(0.0, max(seen_usd)), ticks(min(seen_solve), max(seen_solve)))
    parts = [
        *frame.axes(),
        frame.line(ends, "#999", "6 4"),
        frame.line([(float(x), float(y)) for x, y in hull(np.array(list(solo.values())))], "#1f77b4"),
    ]
    for mark in marks.values():
        (usd, solve), colour = (mark.usd, mark.solve), mark.colour
        parts.append(frame.line([(usd.low, solve.value), (usd.high, solve.value)], colour))
        parts.append(frame.line([(usd.value, solve.low), (usd.value, solve.high)], colour))
    parts += [frame.dot(point, "#1f77b4") for point in solo.values()]
    parts += [frame.dot((mark.usd.value, mark.solve.value), mark.colour) for mark in marks.values()]
    parts += frame.names({**{name: (mark.usd.value, mark.solve.value) for name, mark in marks.items()}, **solo})
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(LEFT, 20, title, 14),
            _text(LEFT, 38, key, 11),
            *parts,
            "</svg>\n",
        ]
    )


@dataclass(frozen=True)
class _Frame:
    """From dollars and rates to places in the picture."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]

    def at(self, point: Point) -> Point:
        across = (point[0] - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0])
        up = (point[1] - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Iterable[Point], colour: str, dashes: str = "") -> str:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.at, points))
        return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-dasharray="{dashes}"/>'

    def dot(self, point: Point, colour: str) -> str:
        x, y = self.at(point)
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'

    def names(self, points: Mapping[str, Point]) -> list[str]:
        """Each beside its dot, moved up or down where it would cover one that is written already."""
        parts: list[str] = []
        taken: list[tuple[float, float, float]] = []
        for name, point in points.items():
            x, y = self.at(point)
            width = len(name) * LETTER
            # One that would leave the picture on the right is written to the left of its dot.
            left = x - 7 - width if x + 7 + width > WIDTH else x + 7
            free = (
                y + shift
                for shift in (-6, 14, -18, 26, -30, 38, -42, 50)
                if not any(
                    abs(y + shift - other) < 12 and start < left + width and left < end for start, end, other in taken
                )
            )
            place = next(free, y - 6)
            taken.append((left, left + width, place))
            parts.append(_text(left, place, name, 11))
        return parts

    def axes(self) -> list[str]:
        x0, y0 = self.x_ticks[0], self.y_ticks[0]
        parts = [self.line([(x0, self.y_ticks[-1]), (x0, y0), (self.x_ticks[-1], y0)], "#333")]
        for x in self.x_ticks:
            place = self.at((x, y0))
            parts.append(_text(place[0], place[1] + 18, f"${x:.10g}", 11, "middle"))
        for y in self.y_ticks:
            place = self.at((x0, y))
            parts.append(_text(place[0] - 8, place[1] + 4, f"{100 * y:.10g}%", 11, "end"))
        parts.append(_text(WIDTH / 2, HEIGHT - 14, "dollars a task", 12, "middle"))
        return [*parts, _text(LEFT - 8, TOP - 10, "solved", 12, "end")]


def _text(x: float, y: float, words: str, size: int, anchor: str = "start") -> str:
    plain = "".join(letter for letter in words if letter.isprintable())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(plain)}</text>'


def _ends(interval: Estimate) -> list[float]:
    return [interval.low, interval.high]


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose both, about five steps apart."""
    span = max(high - low, 1e-6)
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]
