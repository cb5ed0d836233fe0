"""One run as a story: issue, where to look, gate, decision, each attempt with its patch and check, and the bill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from scrout.base import FrozenModel, LedgerError, ScroutError
from scrout.config.settings import cache_folder
from scrout.git import find_repository
from scrout.handoff import FileRef
from scrout.html import Html, element
from scrout.ledger.store import StepRecord
from scrout.money import Component, Usage, Usd, total_usd
from scrout.records import Attempt, Candidate, Check, Decision, Evidence, GatedHandoff, Run, Scouting
from scrout.redact import MARK
from scrout.sandbox import workspace
from scrout.sandbox.workspace import Base
from scrout.scout import report
from scrout.server.dashboard import code, diff, layout
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext
from scrout.server.dashboard.run_index import is_running, title_of
from scrout.server.dashboard.turns import trajectory
from scrout.task import Task
from scrout.text import duration, excerpt, percent, usd

REFRESH_S = 10
CODE_FILES = 5
"""Whose code is shown."""
_RUN_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class BillLine(FrozenModel):
    """What one model was paid in one part of the run."""

    component: Component
    fixer: str
    model: str
    calls: int
    usage: Usage
    cost_usd: Usd | None
    """None: some call had no known price."""
    estimated: int
    """Calls whose usage was not reported."""


class Moment(FrozenModel):
    """One row of the run's history."""

    step: int
    name: str
    status: str
    at: datetime
    seconds: float | None
    error: str
    calls: int
    cost_usd: Usd | None
    turns: bool
    """Whether its conversation is kept."""


class RunView(FrozenModel):
    """All that is known of a run."""

    run: Run
    bills: tuple[BillLine, ...]
    history: tuple[Moment, ...]
    talks: tuple[int | None, ...]
    """Of each attempt, the step whose conversation is kept; None: none is."""
    sources: dict[str, code.HighlightedSource]
    """Code of the first files that the scout names, at the base commit."""
    sources_note: str
    """Why there is none; empty: there is some, or nobody named a file."""
    going: bool
    """Whether somebody works on it, as far as the ledger shows."""
    still: bool
    """True: the page is not to be asked for again and again."""


def look(page_context: PageContext, asked: Asked) -> RunView:
    name = asked["run"]
    if not _RUN_ID.fullmatch(name):
        raise NotThere(f"{name[:80]!r} is no run's id. The list of runs links to each.")
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


def show(view: RunView) -> Html:
    run = view.run
    again = [layout.refreshing(REFRESH_S, view.still, f"/runs/{run.id}")] if view.going else []
    parts = [
        element("p", layout.link("Runs", "/runs"), " / ", run.id, class_="kicker"),
        element("h1", title_of(run.task.text) or run.task.id),
        _facts(run, going=view.going),
        *again,
        _contents(run),
        _issue(run.task.text),
    ]
    if run.scouting:
        parts += _scouting(run.scouting, view)
    if run.gated:
        parts.append(_gate(run.gated))
    if run.decision:
        parts.append(_decision(run.decision, [attempt.fixer for attempt in run.attempts]))
    for number, attempt in enumerate(run.attempts):
        check = run.checks[number] if number < len(run.checks) else None
        parts.append(_attempt(run, attempt, check, number, view.talks[number]))
    parts += [_bill(view.bills, run), _history(view.history, run.id)]
    twin = f"/runs/{run.id}.json"
    refresh_s = REFRESH_S if view.going and not view.still else 0
    return layout.page(title_of(run.task.text) or run.id, *parts, here="/runs", twin=twin, refresh_s=refresh_s)


# Reading


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
    """None: the commit is not on this machine. What a commit holds never changes, so it is read once."""
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


# Showing


def _facts(run: Run, *, going: bool) -> Html:
    took = (run.finished - run.started).total_seconds() if run.finished else None
    pairs = [
        ("repository", run.task.repo.name),
        ("commit", run.task.base_commit[:10] + (" with uncommitted work" if run.task.dirty else "")),
        ("cost", usd(run.cost_usd)),
        ("begun", f"{run.started:%Y-%m-%d %H:%M} UTC"),
        ("took", duration(took, unknown="")),
        ("sandbox", run.sandbox),
        ("environment", run.environment),
        ("arm", run.arm),
    ]
    batch = element("p", "batch ", layout.link(run.batch, "/batch", name=run.batch), class_="soft") if run.batch else ""
    badge = layout.outcome(run.outcome, going=going)
    return element("div", element("p", badge), layout.facts(pairs), batch)


def _contents(run: Run) -> Html:
    there = [
        ("issue", "Issue", "\n" in run.task.text.strip()),
        ("files", "Where to look", run.scouting is not None),
        ("gate", "Gate", run.gated is not None),
        ("decision", "Decision", run.decision is not None),
        ("attempt-1", "Patch and check", bool(run.attempts)),
        ("bill", "Bill", True),
        ("history", "Conversations", True),
    ]
    links = [element("a", words, href=f"#{place}") for place, words, is_there in there if is_there]
    return element("nav", *links, class_="pages", **{"aria-label": "On this page"})


def _issue(text: str) -> Html:
    return element("div", report.issue_section(text), id="issue")


def _scouting(scouting: Scouting, view: RunView) -> list[Html]:
    handoff = scouting.handoff
    told = [f"{scouting.searcher}, {duration(scouting.seconds)}, {usd(scouting.cost_usd)}"]
    told += [f"{scouting.turns} turns"] if scouting.turns else []
    told += [f"stopped: {scouting.stop}"] if scouting.stop != "finished" else []
    told += [f"paid by run {scouting.paid_by}"] if scouting.paid_by else []
    told += [scouting.detail] if scouting.detail else []
    shown = handoff.files[: report.MAX_FILES]
    parts = [report.ranking_table(shown, len(handoff.files) - len(shown)), layout.soft("Scouted by " + "; ".join(told))]
    if view.sources_note:
        parts.append(layout.card(layout.soft(view.sources_note)))
    elif handoff.files:
        parts += code.sections(handoff.files[:CODE_FILES], view.sources, view.run.task.text)
    if handoff.reproduction:
        parts.append(report.reproduction_section(handoff.reproduction))
    if handoff.dead_ends:
        ends = (element("li", excerpt(end, 1000)) for end in handoff.dead_ends[:50])
        parts.append(layout.section("Dead ends", layout.card(element("ul", *ends))))
    if handoff.notes:
        notes = element("div", layout.inline(excerpt(handoff.notes)), class_="prose")
        parts.append(layout.section("Notes", layout.card(notes)))
    return parts


def _gate(gated: GatedHandoff) -> Html:
    verdict = layout.badge(gated.verdict.replace("_", " "), "good" if gated.kept else "warn")
    kept = "The claim was kept." if gated.kept else "Nothing of a claim was kept."
    parts = [
        element("p", verdict, " ", kept),
        element("p", layout.inline(gated.reason), class_="prose"),
        *_evidence(gated.evidence),
    ]
    if gated.flags:
        parts.append(element("ul", *(element("li", flag) for flag in gated.flags), class_="warn"))
    if gated.text:
        parts.append(_folded("The handoff as the fixer got it", layout.block(excerpt(gated.text))))
    return layout.section("Gate: the claim, replayed", layout.card(*parts), id="gate")


def _evidence(seen: Evidence) -> list[Html]:
    if seen.command is None:
        return []
    times = f"{seen.runs} times" if seen.runs != 1 else "once"
    ended = "no exit code" if seen.exit_code is None else f"exit code {seen.exit_code}"
    parts = [layout.block(f"$ {seen.command}"), layout.soft(f"Run {times}, {duration(seen.seconds)}, {ended}.")]
    if seen.output_tail.strip():
        parts.append(_folded("The end of its output", layout.block(excerpt(seen.output_tail))))
    return parts


def _decision(decision: Decision, tried: Sequence[str]) -> Html:
    notes = [f"policy {decision.policy}"]
    notes += [f"theta {decision.theta:g}"] if decision.policy == "paper" else []
    notes += ["degraded: a feature space was missing"] if decision.degraded else []
    notes += ["fallback: nobody did what the policy asks for"] if decision.fallback else []
    notes += ["abstained: the task is unlike everything known"] if decision.abstained else []
    notes += [f"spaces: {', '.join(decision.spaces)}"] if decision.spaces else []
    rows = [_candidate(one, one.fixer == decision.fixer) for one in decision.candidates]
    columns = ["Fixer", "Chance", "95%", "Expected cost", "Why"]
    table = layout.table(
        columns, rows, caption="Candidates, with probability and price", numbers=("Chance", "95%", "Expected cost")
    )
    reason = decision.reason.removeprefix(f"{decision.fixer}: ")
    parts = [element("p", element("b", decision.fixer), f": {reason}", class_="prose")]
    if tried and list(tried) != [decision.fixer]:
        parts.append(element("p", f"Who tried, in this order: {', '.join(tried)}.", class_="prose"))
    return layout.section("Decision", *parts, layout.soft("; ".join(notes)), table, id="decision")


def _candidate(one: Candidate, chosen: bool) -> list[str]:
    name = element("span", one.fixer, " ", layout.badge("chosen", "good")) if chosen else one.fixer
    between = f"{percent(one.p_low, 0)} to {percent(one.p_high, 0)}" if one.p_low is not None else ""
    reason = one.reason.removeprefix(f"{one.fixer}: ")
    why = element("span", reason, element("span", one.evidence, class_="under")) if one.evidence else reason
    return [name, percent(one.p_solve, 0), between, usd(one.expected_cost_usd), why]


def _attempt(run: Run, attempt: Attempt, check: Check | None, number: int, talk: int | None) -> Html:
    of = len(run.attempts)
    title = f"Attempt {number + 1} of {of}: {attempt.fixer}" if of > 1 else f"Attempt: {attempt.fixer}"
    facts = [
        ("stopped", attempt.stop.replace("_", " ")),
        ("took", duration(attempt.seconds)),
        ("model calls", f"{attempt.calls:,}"),
        ("cost", usd(attempt.cost_usd)),
        ("handoff", attempt.handoff),
    ]
    parts = [layout.facts(facts)]
    if attempt.detail:
        parts.append(element("p", layout.inline(excerpt(attempt.detail, 4000)), class_="prose"))
    if talk is not None:
        parts.append(element("p", layout.link("Its conversation, turn by turn", f"/runs/{run.id}/steps/{talk}")))
    if MARK in attempt.patch:
        parts.append(layout.soft(f"Secrets were cut from the stored patch; {MARK} stands in their place."))
    parts += [element("h3", "Patch"), diff.show(attempt.patch)]
    if check:
        parts += [element("h3", "Check"), _check(check)]
    return layout.section(title, *parts, id=f"attempt-{number + 1}")


def _check(check: Check) -> Html:
    tone = {"passed": "good", "failed": "bad"}.get(check.outcome, "warn")
    facts = [
        ("patch", "applies" if check.applies else "does not apply"),
        ("reproduction", check.reproduction),
        ("tests", f"{check.tests.replace('_', ' ')} ({check.tests_run} run)"),
        ("took", duration(check.seconds)),
    ]
    parts = [element("p", layout.badge(check.outcome.replace("_", " "), tone), " ", check.detail), layout.facts(facts)]
    for title, sentences, tone in (
        ("What agrees", check.agreement, ""),
        ("Doubts", check.doubts, "warn"),
        ("Missing", check.missing, "warn"),
        ("Flags", check.flags, "warn"),
    ):
        if sentences:
            parts += [element("h4", title), element("ul", *(element("li", one) for one in sentences), class_=tone)]
    for seen in check.evidence[:10]:
        parts += _evidence(seen)
    return layout.card(*parts)


def _bill(bills: Sequence[BillLine], run: Run) -> Html:
    rows = []
    for one in bills:
        used = one.usage
        written = used.cache_write_tokens + used.cache_write_1h_tokens
        buckets = (used.input_tokens, used.cache_read_tokens, written, used.output_tokens + used.reasoning_tokens)
        name = f"{one.component} ({one.fixer})" if one.fixer else one.component
        estimated = f" ({one.estimated} estimated)" if one.estimated else ""
        tokens = [f"{count:,}" for count in buckets]
        rows.append([name, one.model, f"{one.calls:,}{estimated}", *tokens, usd(one.cost_usd)])
    columns = ["Component", "Model", "Calls", "Input", "Cache read", "Cache write", "Output", "Cost"]
    total = element("p", "Total ", element("b", usd(run.cost_usd)))
    if not rows:
        return layout.section("Bill", layout.card(total, layout.soft("No call was billed.")), id="bill")
    table = layout.table(
        columns, rows, caption="Receipts by component; tokens in disjoint buckets", numbers=columns[2:]
    )
    return layout.section("Bill", table, total, id="bill")


def _history(history: Sequence[Moment], run_id: str) -> Html:
    rows = []
    for one in history:
        turns = layout.link("turn by turn", f"/runs/{run_id}/steps/{one.step}") if one.turns else ""
        took = duration(one.seconds, unknown="")
        cost = usd(one.cost_usd) if one.calls else ""
        rows.append([one.name, one.status, layout.moment(one.at), took, cost, turns, excerpt(one.error, 500)])
    columns = ["Step", "Status", "At (UTC)", "Took", "Cost", "Conversation", "Error"]
    table = layout.table(columns, rows, caption="Every step, failed and interrupted ones too", numbers=("Took", "Cost"))
    talks = [
        element("li", layout.link(f"{one.name}, turn by turn", f"/runs/{run_id}/steps/{one.step}"))
        for one in history
        if one.turns
    ]
    told = (
        element("ul", *talks)
        if talks
        else layout.soft("No conversation is kept of this run: no model was asked, or it was pruned.")
    )
    return layout.section(
        "Conversations and history", told, _folded(f"{len(rows)} rows of history", table), id="history"
    )


def _folded(words: str, inner: Html) -> Html:
    return element("details", element("summary", words), inner)
