"""The filtered list of runs, and its totals."""

from __future__ import annotations

from scrout.base import FrozenModel
from scrout.html import render
from scrout.server.dashboard.page_context import OUTCOMES, Asked, PageContext, filter_of, number
from scrout.server.dashboard.run_index import Filter, RunLine, Totals

PAGE = 50


class RunsView(FrozenModel):
    filter: Filter
    totals: Totals
    runs: tuple[RunLine, ...]
    newer: int | None
    """Pass as `after` for later runs; None: there are none."""
    older: int | None
    """Pass as `before` for earlier runs; None: there are none."""
    fixers: tuple[str, ...]
    arms: tuple[str, ...]
    batches: tuple[str, ...]


def look(page_context: PageContext, asked: Asked) -> RunsView:
    which = filter_of(asked)
    before, after = number(asked, "before"), number(asked, "after")
    found = page_context.run_index.lines(which, PAGE + 1, before=before, after=after)
    more = len(found) > PAGE
    shown = (found[-PAGE:] if after is not None else found[:PAGE]) if more else found
    older = more if after is None else bool(shown)
    newer = more if after is not None else before is not None and bool(shown)
    return RunsView(
        filter=which,
        totals=page_context.run_index.totals(which),
        runs=tuple(shown),
        newer=shown[0].number if newer else None,
        older=shown[-1].number if older else None,
        fixers=tuple(page_context.run_index.choices("fixer")),
        arms=tuple(page_context.run_index.choices("arm")),
        batches=tuple(reversed(page_context.run_index.choices("batch"))),
    )


def show(view: RunsView) -> str:
    return render("dashboard/runs.html", view=view, asked=_asked(view.filter), outcomes=OUTCOMES)


def _asked(which: Filter) -> dict[str, str]:
    return {name: str(value) for name, value in which.model_dump().items() if value}
