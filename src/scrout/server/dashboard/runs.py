"""The list of runs, by what is asked for, and what those come to."""

from __future__ import annotations

from scrout.base import FrozenModel
from scrout.html import Html, element, escape
from scrout.server.dashboard import layout
from scrout.server.dashboard.page_context import OUTCOMES, Asked, PageContext, filter_of, number
from scrout.server.dashboard.run_index import Filter, RunLine, Totals
from scrout.text import percent, usd

PAGE = 50


class RunsView(FrozenModel):
    """One page of runs, newest first."""

    filter: Filter
    totals: Totals
    """Of all that the filter lets through."""
    runs: tuple[RunLine, ...]
    newer: int | None
    """Ask with `after` for what was begun after this; None: there is nothing."""
    older: int | None
    """Ask with `before` for what was begun before this; None: there is nothing."""
    fixers: tuple[str, ...]
    arms: tuple[str, ...]
    batches: tuple[str, ...]
    """What the filter may ask for."""


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


def show(view: RunsView) -> Html:
    asked = _asked(view.filter)
    parts = [element("h1", "Runs"), _form(view), _totals(view.totals)]
    if view.runs:
        parts.append(lines(view.runs, "Runs, newest first"))
    elif asked:
        clear = layout.link("Show all runs", "/runs")
        parts.append(layout.card(layout.soft("No run is like that."), element("p", clear)))
    else:
        start = "No runs yet. `scrout demo` makes one without a model; `scrout fix --issue FILE` works on your issue."
        parts.append(layout.card(layout.soft(start)))
    pages = []
    if view.newer is not None:
        pages.append(element("a", "Newer", href=layout.address("/runs", **asked, after=str(view.newer)), rel="prev"))
    if view.older is not None:
        pages.append(element("a", "Older", href=layout.address("/runs", **asked, before=str(view.older)), rel="next"))
    if pages:
        parts.append(element("nav", *pages, class_="pages", **{"aria-label": "Pages"}))
    return layout.page("Runs", *parts, here="/runs", twin=layout.address("/runs.json", **asked))


def lines(runs: tuple[RunLine, ...], caption: str) -> Html:
    """Runs as a table; each row's first cell leads to its story."""
    rows = []
    for run in runs:
        story = element("a", run.title or run.task or run.id, href=f"/runs/{run.id}")
        whose = f"{run.repository} · {run.id}" if run.repository else run.id  # a conversation has none
        name = element("span", story, element("span", whose, class_="under"))
        came_to = [layout.outcome(run.outcome, going=run.going)]
        if run.finished is None and run.step:
            came_to.append(element("span", run.step, class_="under"))
        where = element("span", run.arm, class_="quiet") if run.arm else ""
        cost = usd(run.cost_usd)
        rows.append([name, Html("".join(came_to)), run.fixer, where, cost, layout.moment(run.started)])
    columns = ["Issue", "Outcome", "Fixer", "Arm", "Cost", "Begun (UTC)"]
    return layout.table(columns, rows, caption=caption, numbers=("Cost",))


def totals_facts(totals: Totals) -> list[tuple[str, str]]:
    solved = f"{totals.solved:,} of {totals.done:,} done"
    share = f" ({percent(totals.solved / totals.done, 0)})" if totals.done else ""
    return [
        ("runs", f"{totals.runs:,}"),
        ("solved", solved + share),
        ("unverified", f"{totals.outcomes.get('unverified', 0):,}"),
        ("paid", usd(totals.cost_usd)),
        ("a run", usd(totals.usd_a_run) if totals.runs else ""),
        ("a solve", usd(totals.usd_a_solve) if totals.solved else ""),
        ("without a known price", f"{totals.unpriced:,}" if totals.unpriced else ""),
    ]


def _totals(totals: Totals) -> Html:
    return element("div", layout.facts(totals_facts(totals)), class_="totals")


def _form(view: RunsView) -> Html:
    which = view.filter
    fields = [
        _field(
            "words",
            "Words of the issue",
            f'<input id="words" name="words" type="search" value="{escape(which.words)}">',
        ),
        _select("outcome", "Outcome", tuple(OUTCOMES), which.outcome or ""),
        _select("fixer", "Fixer", view.fixers, which.fixer),
        _select("arm", "Arm", view.arms, which.arm),
        _select("batch", "Batch", view.batches, which.batch),
        _field("since", "From", f'<input id="since" name="since" type="date" value="{which.since or ""}">'),
        _field("until", "To", f'<input id="until" name="until" type="date" value="{which.until or ""}">'),
    ]
    buttons = [element("button", "Filter", type="submit")]
    if _asked(which):
        buttons.append(layout.link("Clear", "/runs"))
    last = element("div", *buttons, class_="buttons")
    return element("form", *fields, last, method="get", action="/runs", class_="filter", role="search")


def _field(name: str, label: str, control: str) -> Html:
    return element("div", element("label", label, for_=name), Html(control))


def _select(name: str, label: str, choices: tuple[str, ...], chosen: str) -> Html:
    if not choices and not chosen:
        return Html()
    every = [*choices, *([chosen] if chosen and chosen not in choices else [])]
    options = [element("option", "any", value="")]
    for choice in every:
        word = layout.OUTCOME_WORDS.get(choice, choice) if name == "outcome" else choice
        options.append(element("option", word, value=choice, **({"selected": ""} if choice == chosen else {})))
    return _field(name, label, element("select", *options, id=name, name_=name))


def _asked(which: Filter) -> dict[str, str]:
    """The filter as an address has it."""
    return {name: str(value) for name, value in which.model_dump().items() if value}
