"""Studies: what those that were made came to, and for each its command and whether the ledger has what it needs."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from datetime import datetime

from scrout.base import FrozenModel
from scrout.html import Html, element, escape
from scrout.lab.study import STUDIES as ABOUT
from scrout.lab.study.saved import SavedFigure, SavedStudy, all_saved
from scrout.server.dashboard import layout
from scrout.server.dashboard.batches import added
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext, number, words
from scrout.server.dashboard.run_index import RunGroup

STUDIES = ("audit", "calibrate", "frontier", "handoff", "localize", "spend")
"""Those of one's own runs; `replicate` is of the paper's."""
MIN_RUNS = 10


class Study(FrozenModel):
    """One study."""

    name: str
    about: str
    command: str
    ready: bool
    lacks: str
    """What the ledger has too little of; empty: nothing."""


class SavedStudyLine(FrozenModel):
    """A study that was made, in one line."""

    id: str
    study: str
    title: str
    source: str
    at: datetime
    finding: str
    """The first; empty: it found nothing that is a sentence."""


class StudiesView(FrozenModel):
    """What was asked of outcomes beyond these pages, and what can be."""

    made: tuple[SavedStudyLine, ...]
    """Newest first."""
    studies: tuple[Study, ...]


def look(page_context: PageContext, asked: Asked) -> StudiesView:
    groups = page_context.run_index.groups()
    return StudiesView(
        made=tuple(
            SavedStudyLine(
                id=one.id,
                study=one.study,
                title=one.title,
                source=one.source,
                at=one.at,
                finding=one.findings[0] if one.findings else "",
            )
            for one in all_saved()
        ),
        studies=tuple(_study(page_context, name, groups) for name in STUDIES),
    )


def look_at_one(page_context: PageContext, asked: Asked) -> SavedStudy:
    return _kept(asked)


def picture(asked: Asked) -> str:
    """One of a study's pictures, as SVG."""
    parts = [part for part in _kept(asked).parts if isinstance(part, SavedFigure)]
    wanted = number(asked, "number")
    if wanted is None or not 0 <= wanted < len(parts):
        raise NotThere(f"This study has {len(parts)} pictures.")
    return parts[wanted].svg


def show(view: StudiesView) -> Html:
    about = (
        "A study reads every run, which takes a while, so it is a command. What it found is then here, and with --html "
        "in a page that opens offline."
    )
    rows = [
        [
            element("a", one.title, href=layout.address("/study", id=one.id)),
            one.finding,
            one.source,
            layout.moment(one.at),
        ]
        for one in view.made
    ]
    made = (
        [layout.table(["Study", "First finding", "Of", "Made"], rows, caption="Studies that were made")] if rows else []
    )
    cards = []
    for one in view.studies:
        state = layout.badge("ready", "good") if one.ready else layout.badge("too few runs", "soft")
        lacks = [layout.soft(one.lacks)] if one.lacks else []
        cards.append(
            layout.section(
                one.name.capitalize(),
                layout.card(element("p", state, " ", one.about), *lacks, layout.block(one.command)),
            )
        )
    return layout.page(
        "Studies", element("h1", "Studies"), layout.soft(about), *made, *cards, here="/studies", twin="/studies.json"
    )


def show_one(view: SavedStudy) -> Html:
    about = f"Of {view.source}, made {view.at:%Y-%m-%d %H:%M} UTC."
    sections = [_lines("Findings", view.findings)] if view.findings else []
    if view.failed:
        sections.append(_lines("Cells that differ", view.failed))
    pictures = itertools.count()
    for part in view.parts:
        if isinstance(part, SavedFigure):
            source = layout.address("/study/picture.svg", id=view.id, number=str(next(pictures)))
            image = Html(f'<img class="plot" alt="{escape(part.told)}" src="{escape(source)}">')
            sections.append(layout.section(part.title, layout.card(image)))
        else:
            note = [layout.soft(part.note)] if part.note else []
            rows = [list(row) for row in part.rows]
            table = layout.table(part.columns, rows, caption=part.title, numbers=part.columns[1:], stacked=False)
            sections.append(layout.section(part.title, *note, table))
    if view.notes:
        sections.append(_lines("Notes", view.notes))
    again = layout.section("Again", layout.block(view.command))
    twin = layout.address("/study.json", id=view.id)
    return layout.page(
        view.title, element("h1", view.title), layout.soft(about), *sections, again, here="/studies", twin=twin
    )


def _lines(title: str, lines: Sequence[str]) -> Html:
    return layout.section(title, layout.card(element("ul", *(element("li", layout.inline(line)) for line in lines))))


def _kept(asked: Asked) -> SavedStudy:
    wanted = words(asked, "id")
    for one in all_saved():
        if one.id == wanted:
            return one
    raise NotThere("There is no such study, or it was made again since. See Studies for those there are.")


def _study(page_context: PageContext, name: str, groups: list[RunGroup]) -> Study:
    place = page_context.place if page_context.folder is None else shlex.quote(page_context.place)
    tasks = " --tasks TASKS" if name == "localize" else ""
    lacks = _lacks(name, groups)
    return Study(
        name=name,
        about=ABOUT[name],
        command=f"scrout study {name} --ledger {place}{tasks} --html {name}.html",
        ready=not lacks,
        lacks=lacks,
    )


def _lacks(name: str, groups: list[RunGroup]) -> str:
    done = added(group.totals for group in groups).done
    if done < MIN_RUNS:
        return f"{done} runs are done; {MIN_RUNS} are the least that says something."
    fixers = {group.fixer for group in groups if group.fixer}
    if name in ("audit", "calibrate", "frontier") and len(fixers) < 2:
        return "All runs are of one fixer, and this compares several."
    kinds = {group.arm.partition("/")[0] for group in groups}
    if name == "handoff" and not {"solo", "handoff"} <= kinds:
        return "It pairs runs with and without a handoff: run a batch with arms of both."
    return ""
