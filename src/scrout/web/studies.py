"""Studies of one's own runs: what each asks, its command, and whether the ledger has what it needs."""

from __future__ import annotations

import shlex
from importlib import import_module

from scrout.html import Html, element
from scrout.money import Record
from scrout.web import frame
from scrout.web.batches import added
from scrout.web.desk import Asked, Desk
from scrout.web.shelf import Group

STUDIES = ("audit", "calibrate", "frontier", "handoff", "localize", "spend")
"""Those of one's own runs; `replicate` is of the paper's."""
MIN_RUNS = 10


class Study(Record):
    """One study."""

    name: str
    about: str
    command: str
    ready: bool
    lacks: str
    """What the ledger has too little of; empty: nothing."""


class StudiesView(Record):
    """What can be asked of the ledger beyond these pages."""

    studies: tuple[Study, ...]


def look(desk: Desk, asked: Asked) -> StudiesView:
    groups = desk.shelf.groups()
    return StudiesView(studies=tuple(_study(desk, name, groups) for name in STUDIES))


def show(view: StudiesView) -> Html:
    about = "A study reads every run, which takes a while, so it is a command. It writes a page that opens offline."
    cards = []
    for one in view.studies:
        state = frame.badge("ready", "good") if one.ready else frame.badge("too few runs", "soft")
        lacks = [frame.soft(one.lacks)] if one.lacks else []
        cards.append(
            frame.section(
                one.name.capitalize(), frame.card(element("p", state, " ", one.about), *lacks, frame.block(one.command))
            )
        )
    return frame.page(
        "Studies", element("h1", "Studies"), frame.soft(about), *cards, here="/studies", twin="/studies.json"
    )


def _study(desk: Desk, name: str, groups: list[Group]) -> Study:
    place = desk.place if desk.folder is None else shlex.quote(desk.place)
    tasks = " --tasks TASKS" if name == "localize" else ""
    lacks = _lacks(name, groups)
    doc = import_module(f"scrout.study.{name}").__doc__ or ""
    return Study(
        name=name,
        about=doc.strip().partition("\n")[0],
        command=f"scrout study {name} --ledger {place}{tasks} --html {name}.html",
        ready=not lacks,
        lacks=lacks,
    )


def _lacks(name: str, groups: list[Group]) -> str:
    judged = added(group.totals for group in groups).judged
    if judged < MIN_RUNS:
        return f"{judged} runs were judged; {MIN_RUNS} are the least that says something."
    fixers = {group.fixer for group in groups if group.fixer}
    if name in ("audit", "calibrate", "frontier") and len(fixers) < 2:
        return "All runs are of one fixer, and this compares several."
    kinds = {group.arm.partition("/")[0] for group in groups}
    if name == "handoff" and not {"solo", "handoff"} <= kinds:
        return "It pairs runs with and without a handoff: run a batch with arms of both."
    return ""
