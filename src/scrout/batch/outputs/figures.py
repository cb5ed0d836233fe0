"""The bars of a batch's page, as SVG that a style sheet colours: light, dark, or printed in gray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scrout.html import Html, element
from scrout.text import clip

WIDTH = 480
LETTER = 7.4
"""About the width of a letter in names."""
ROW, BAR, LABEL = 44, 16, 16
"""Heights of a row of bars, of its bar, and of the line above it."""

# Lightness and pattern tell parts apart where colour cannot.
Fill = Literal["solid", "pale", "empty", "url(#hatch)", "url(#dots)", "url(#bars)"]


@dataclass(frozen=True)
class Bar:
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


def _picture(title: str, height: float, parts: Sequence[Html]) -> Html:
    told = {"role": "img", "aria-label": title}
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {height:.0f}", class_="bars", **told)


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
    return clip(label, room)
