"""Results of finished studies, and for each its command and whether the ledger has enough data."""

from __future__ import annotations

import shlex
from datetime import datetime

from scrout.base import FrozenModel
from scrout.html import render
from scrout.lab.study import STUDIES as ABOUT
from scrout.lab.study.saved import SavedFigure, SavedStudy, all_saved
from scrout.server.dashboard.batches import added
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext, number, words
from scrout.server.dashboard.run_index import RunGroup

STUDIES = ("audit", "calibrate", "frontier", "handoff", "localize", "spend")
"""Studies of the user's own runs; `replicate` is of the paper's."""
MIN_RUNS = 10


class Study(FrozenModel):
    name: str
    about: str
    command: str
    ready: bool
    lacks: str


class SavedStudyLine(FrozenModel):
    id: str
    study: str
    title: str
    source: str
    at: datetime
    finding: str
    """The first finding; empty: it has none in words."""


class StudiesView(FrozenModel):
    """Finished and possible studies."""

    made: tuple[SavedStudyLine, ...]
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
    parts = [part for part in _kept(asked).parts if isinstance(part, SavedFigure)]
    wanted = number(asked, "number")
    if wanted is None or not 0 <= wanted < len(parts):
        raise NotThere(f"This study has {len(parts)} pictures.")
    return parts[wanted].svg


def show(view: StudiesView) -> str:
    return render("dashboard/studies.html", view=view)


def show_one(view: SavedStudy) -> str:
    return render("dashboard/study.html", view=view)


def _kept(asked: Asked) -> SavedStudy:
    wanted = words(asked, "id")
    for one in all_saved():
        if one.id == wanted:
            return one
    raise NotThere("This study does not exist, or it was made again since. Choose one from Studies.")


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
