"""The page of one run: issue, files, gate, decision, each attempt with its patch and check, and the costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from scrout.base import FrozenModel, LedgerError, ScroutError
from scrout.config.folders import cache_folder
from scrout.git import find_repository
from scrout.handoff import FileRef
from scrout.html import render
from scrout.ledger.store import StepRecord
from scrout.money import Component, Usage, Usd, total_usd
from scrout.records import Attempt, Run
from scrout.redact import MARK
from scrout.sandbox import workspace
from scrout.sandbox.workspace import Base
from scrout.scout import report
from scrout.server.dashboard import code, diff
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext
from scrout.server.dashboard.run_index import is_running
from scrout.server.dashboard.turns import trajectory
from scrout.task import Task, title_of

REFRESH_S = 10
CODE_FILES = 5
_RUN_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class BillLine(FrozenModel):
    component: Component
    fixer: str
    model: str
    calls: int
    usage: Usage
    cost_usd: Usd | None
    estimated: int
    """Calls without reported usage."""


class Moment(FrozenModel):
    step: int
    name: str
    status: str
    at: datetime
    seconds: float | None
    error: str
    calls: int
    cost_usd: Usd | None
    turns: bool
    """Whether its conversation is stored."""


class RunView(FrozenModel):
    run: Run
    bills: tuple[BillLine, ...]
    history: tuple[Moment, ...]
    talks: tuple[int | None, ...]
    """For each attempt, the step with a stored conversation; None: none is stored."""
    sources: dict[str, code.HighlightedSource]
    """Code of the first files that the scout names, at the base commit."""
    sources_note: str
    """Why there is none; empty: there is some, or no file was named."""
    going: bool
    """Whether it is in progress, as far as the ledger shows."""
    still: bool


def look(page_context: PageContext, asked: Asked) -> RunView:
    name = asked["run"]
    if not _RUN_ID.fullmatch(name):
        raise NotThere(f"{name[:80]!r} is not the id of a run. Choose one from the list of runs.")
    try:
        story = page_context.ledger.story(name)
    except LedgerError as error:
        raise NotThere(str(error)) from None
    run = story.stored
    sources, note = _sources(run.task, run.scouting.handoff.files[:CODE_FILES] if run.scouting else ())
    history = tuple(_moment(page_context, run.id, step) for step in story.steps)
    return RunView(
        run=run,
        bills=_bills(story.steps),
        history=history,
        talks=_talks(run, story.steps, {one.step for one in history if one.turns}),
        sources=sources,
        sources_note=note,
        going=run.finished is None and _is_going(run, story.steps),
        still=bool(asked.get("still")),
    )


def show(view: RunView) -> str:
    run = view.run
    found = run.scouting.handoff.files[:CODE_FILES] if run.scouting and not view.sources_note else ()
    return render(
        "dashboard/run.html",
        view=view,
        heading=title_of(run.task.text),
        issue=report.issue_section(run.task.text),
        code=code.sections(found, view.sources, run.task.text) if found else (),
        show_patch=diff.show,
        secret_mark=MARK,
        max_files=report.MAX_FILES,
        every_s=REFRESH_S,
    )


def _sources(task: Task, refs: Sequence[FileRef]) -> tuple[dict[str, code.HighlightedSource], str]:
    if not refs:
        return {}, ""
    found = _read(task.repo, task.base_commit, tuple(refs))
    if found is None:
        where = f"commit {task.base_commit[:10]} is no longer in {task.repo} or in scrout's cache"
        return {}, f"The code is not shown: {where}."
    return found, ""


@lru_cache(maxsize=256)
def _read(repo: Path, commit: str, refs: tuple[FileRef, ...]) -> dict[str, code.HighlightedSource] | None:
    """None: the commit is not on this machine. Cached, because a commit's content never changes."""
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        return None
    cached = cache_folder() / "bases" / workspace.base_key(repo, commit) / "tree"
    try:
        if (cached / ".git").is_dir():
            return _cut(Base(repo, commit, cached), refs)
        # Never git on the repository itself, whose configuration it would read.
        with find_repository(repo).borrowed() as git:
            return _cut(Base(repo, commit, git.path.parent), refs)
    except (ScroutError, OSError):
        return None


def _cut(base: Base, refs: Sequence[FileRef]) -> dict[str, code.HighlightedSource]:
    whole = report.read_sources(base, [ref.path for ref in refs])
    return {path: code.cut([ref for ref in refs if ref.path == path], text) for path, text in whole.items()}


def _bills(steps: Sequence[StepRecord]) -> tuple[BillLine, ...]:
    found: dict[tuple[Component, str, str], list[int]] = {}
    paid = [receipt for step in steps for receipt in step.receipts]
    for at, receipt in enumerate(paid):
        found.setdefault((receipt.component, receipt.fixer or "", receipt.model), []).append(at)
    return tuple(
        BillLine(
            component=component,
            fixer=fixer,
            model=model,
            calls=len(places),
            usage=Usage(**{name: sum(getattr(paid[at].usage, name) for at in places) for name in Usage.model_fields}),
            cost_usd=total_usd(paid[at].cost_usd for at in places),
            estimated=sum(paid[at].estimated for at in places),
        )
        for (component, fixer, model), places in found.items()
    )


def _moment(page_context: PageContext, run_id: str, step: StepRecord) -> Moment:
    return Moment(
        step=step.id,
        name=step.name,
        status=step.status,
        at=step.at,
        seconds=step.seconds,
        error=step.error,
        calls=len(step.receipts),
        cost_usd=total_usd(receipt.cost_usd for receipt in step.receipts),
        turns=step.status == "started" and trajectory(page_context, run_id, step.id) is not None,
    )


def _talks(run: Run, steps: Sequence[StepRecord], kept: set[int]) -> tuple[int | None, ...]:
    begun = {step.input_digest: step.id for step in steps if step.status == "started"}
    made = [(step.result, begun.get(step.input_digest)) for step in steps if isinstance(step.result, Attempt)]
    found = (next((step for result, step in reversed(made) if result == attempt), None) for attempt in run.attempts)
    return tuple(step if step in kept else None for step in found)


def _is_going(run: Run, steps: Sequence[StepRecord]) -> bool:
    last = steps[-1] if steps else None
    return is_running(last is not None and last.status == "started", last.at if last else run.started)
