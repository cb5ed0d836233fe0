"""The pool, and its résumés."""

from __future__ import annotations

from datetime import date

from scrout.base import FrozenModel, ScroutError
from scrout.config.settings import FixerKey, Settings
from scrout.fix.pool import completed
from scrout.html import render
from scrout.money import Usd
from scrout.route import resume as resumes
from scrout.route.feedback import own_folder
from scrout.route.resume import SHIPPED, Resume
from scrout.server.dashboard.page_context import Asked, PageContext


class ResumeLine(FrozenModel):
    key: str
    public: bool
    growing: bool
    n: int
    solved: int
    low: float
    high: float
    """With `low`, the share's 95% interval."""
    handoff_usd: Usd | None
    solo_usd: Usd | None
    """Mean cost of an attempt without a handoff; None: unknown."""
    source: str
    made: date


class PoolEntry(FrozenModel):
    name: str
    kind: str
    has_model: bool
    model: str
    effort: str
    key: str
    resume: str
    """The key of its résumé; empty: it has none."""
    input_usd: Usd | None
    output_usd: Usd | None
    price_date: str
    subscription: bool
    cap_usd: Usd
    cap_calls: int


class FixersView(FrozenModel):
    pool: tuple[PoolEntry, ...]
    resumes: tuple[ResumeLine, ...]
    notes: tuple[str, ...]


def look(page_context: PageContext, asked: Asked) -> FixersView:
    notes: list[str] = []
    settings = page_context.settings
    try:
        settings = completed(settings, notes.append)
    except ScroutError as error:
        notes.append(str(error))
    folder = own_folder(settings.route)
    try:
        own = resumes.load(folder)
    except ScroutError as error:
        own = {}
        notes.append(str(error))
    public = resumes.load(SHIPPED)
    every = [(one, False) for one in own.values()] + [(one, True) for one in public.values() if one.key not in own]
    counting = {**public, **own}
    return FixersView(
        pool=_pool(settings, counting),
        resumes=tuple(
            sorted((_known(one, is_public) for one, is_public in every), key=lambda one: (one.public, one.key))
        ),
        notes=tuple(notes),
    )


def show(view: FixersView) -> str:
    return render("dashboard/fixers.html", view=view)


def _pool(settings: Settings, counting: dict[FixerKey, Resume]) -> tuple[PoolEntry, ...]:
    entries = []
    for fixer in settings.fixers:
        named = next((one for key, one in counting.items() if str(key) == fixer.resume), None)
        found = named if fixer.resume else resumes.find(fixer.key, counting)
        price = fixer.price
        entries.append(
            PoolEntry(
                name=fixer.name,
                kind=fixer.kind,
                has_model=fixer.has_model,
                model=fixer.model,
                effort=fixer.effort,
                key=str(fixer.key),
                resume=str(found.key) if found and not found.growing else "",
                input_usd=price.input if price else None,
                output_usd=price.output if price else None,
                price_date=fixer.price_date,
                subscription=fixer.subscription,
                cap_usd=fixer.cap_usd,
                cap_calls=fixer.cap_calls,
            )
        )
    return tuple(entries)


def _known(resume: Resume, public: bool) -> ResumeLine:
    low, high = resume.interval
    return ResumeLine(
        key=str(resume.key),
        public=public,
        growing=resume.growing,
        n=resume.n,
        solved=resume.solved,
        low=low,
        high=high,
        handoff_usd=resume.cost_usd("handoff"),
        solo_usd=resume.cost_usd("solo"),
        source=resume.source,
        made=resume.made,
    )
