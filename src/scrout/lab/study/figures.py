"""One quiet style for every picture: readable in grayscale, the same bytes each time it is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

from scrout.lab.study.report import Figure

WIDTH = 6.4
INK, SOFT, GRID = "#1d2129", "#5c6470", "#e1e3e6"
SHADES = ("#1c4e80", "#7fb0d8", "#b5651d", "#6b6b6b", "#1a7f4b", "#a9a9a9", "#111111")
"""Of different lightness, so that they differ in print."""
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
    # Names of fixers and repositories are others', and a formula between dollars that is none ends in an error.
    "text.parse_math": False,
}

Form = Literal["svg", "png"]


def drawn(picture: Figure, form: Form) -> bytes:
    """The picture as a file."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, picture.height))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(picture.title)
        picture.draw(axes)
        file = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(file, format=form, dpi=160, metadata=metadata)
    return file.getvalue()


def save(picture: Figure, folder: Path) -> list[Path]:
    """Both files of a picture, in a folder that is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    forms: tuple[Form, ...] = ("svg", "png")
    paths = []
    for form in forms:
        path = folder / f"{picture.name}.{form}"
        path.write_bytes(drawn(picture, form))
        paths.append(path)
    return paths
