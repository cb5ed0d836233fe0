"""One style for every figure, readable in grayscale. A figure has the same bytes each time it is drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scrout.intervals import Estimate
from scrout.lab.study.report import Figure
from scrout.route.stats import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 6.4
INK, SOFT, GRID = "#1d2129", "#5c6470", "#e1e3e6"
SHADES = ("#1c4e80", "#7fb0d8", "#b5651d", "#6b6b6b", "#1a7f4b", "#a9a9a9", "#111111")
"""They differ in lightness, so that they differ in print."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
    "svg.fonttype": "path",
    # Ids of an SVG's parts are random without it.
    "svg.hashsalt": "scrout",
    "figure.constrained_layout.use": True,
    # Fixers and repositories name themselves: what stands between two dollar signs need not be a formula.
    "text.parse_math": False,
}

Form = Literal["svg", "png"]


def drawn(shown: Figure, form: Form) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, shown.height))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(shown.title)
        shown.draw(axes)
        file = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(file, format=form, dpi=160, metadata=metadata)
    return file.getvalue()


def save(shown: Figure, folder: Path) -> list[Path]:
    """Write the figure as SVG and PNG into a folder, which is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    forms: tuple[Form, ...] = ("svg", "png")
    paths = []
    for form in forms:
        path = folder / f"{shown.name}.{form}"
        path.write_bytes(drawn(shown, form))
        paths.append(path)
    return paths


def error_bars(found: Sequence[Estimate], scale: float = 1.0) -> Floats:
    """How far each interval reaches below and above its estimate, as matplotlib takes it."""
    values = np.array([(one.value - one.low, one.high - one.value) for one in found], dtype=np.float64)
    # Where an interval is a single point, rounding could make the distance negative.
    return scale * np.maximum(0.0, values.reshape(-1, 2).T)


def forest(
    axes: Axes,
    labels: Sequence[str],
    series: Mapping[str, Sequence[Estimate | None]],
    xlabel: str,
    *,
    scale: float = 100.0,
    gap: float = 0.0,
) -> None:
    """One line per label, from the top down, with the estimates of each series; `gap` sets series apart on a line."""
    for number, (name, estimates) in enumerate(series.items()):
        there = [(row, one) for row, one in enumerate(estimates) if one is not None]
        found = [one for _, one in there]
        axes.errorbar(
            [scale * one.value for one in found],
            [gap * (len(series) - 1 - 2 * number) / 2 - row for row, _ in there],
            xerr=error_bars(found, scale),
            color=SHADES[2 * number % len(SHADES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            linestyle="none",
            elinewidth=1.3,
            label=name,
        )
    axes.set_yticks([-row for row in range(len(labels))], labels, fontsize=7.5)
    axes.set_ylim(0.4 - len(labels), 0.6)
    axes.set_xlabel(xlabel)
    if any(estimates and min(one.low for one in estimates if one is not None) < 0 for estimates in series.values()):
        axes.axvline(0, color=SOFT, linewidth=1)
    if len(series) > 1:
        axes.figure.legend(loc="outside lower center", ncols=len(series))
