"""A study as one HTML page that opens offline: the tables, and the pictures within it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib.resources import files as package_files

from scrout.html import Html, document, element, escape
from scrout.lab.study.figures import drawn
from scrout.lab.study.report import Figure, ReportTable, StudyReport


def page(report: StudyReport, source: str, command: str) -> str:
    """The page. `source` says what was studied, `command` how to make it again."""
    facts = element("ul", element("li", source), element("li", element("code", command)), class_="facts")
    head = element("header", element("p", "Study", class_="kicker"), element("h1", report.title), facts)
    sections = [head, *_lines("Findings", report.findings)]
    if report.failed:
        sections += _lines("Cells that differ", report.failed)
    sections += [_sheet(part) if isinstance(part, ReportTable) else _picture(part) for part in report.parts]
    sections += _lines("Notes", report.notes)
    style = package_files("scrout.batch.outputs").joinpath("report.css").read_text(encoding="utf-8")
    body = element("body", element("main", *sections))
    return f"<!doctype html>\n{document(report.title, style, body, images=True)}\n"


def _lines(title: str, lines: Sequence[str]) -> list[Html]:
    rows = [element("li", line) for line in lines]
    return [element("section", element("h2", title), element("ul", *rows, class_="list"))] if rows else []


def _sheet(sheet: ReportTable) -> Html:
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in sheet.columns)))
    rows = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:]))
        for row in sheet.rows
    ]
    table = element("div", element("table", head, element("tbody", *rows)), class_="card")
    about = [element("p", sheet.note, class_="about")] if sheet.note else []
    return element("section", element("h2", sheet.title), *about, table)


def _picture(picture: Figure) -> Html:
    data = base64.b64encode(drawn(picture, "svg")).decode()
    image = Html(f'<img class="plot" alt="{escape(picture.told)}" src="data:image/svg+xml;base64,{data}">')
    return element("section", element("h2", picture.title), element("div", image, class_="card pad"))
