"""A study as one HTML page that opens offline: the tables, and the pictures within it."""

from __future__ import annotations

import base64

from scrout.html import render
from scrout.lab.study.figures import drawn
from scrout.lab.study.report import Figure, StudyReport


def page(report: StudyReport, source: str, command: str) -> str:
    """The page. `source` says what was studied, `command` how to make it again."""
    return render("study_report.html", report=report, title=report.title, source=source, command=command, drawn=_drawn)


def _drawn(figure: Figure) -> str:
    return base64.b64encode(drawn(figure, "svg")).decode()
