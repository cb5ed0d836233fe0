"""A batch's summary as one HTML page: tables and pictures, without network or script.

Labels, names, messages and the command are untrusted: the template escapes them, and the page's policy also forbids
scripts and remote loads. A style sheet colours the bars: light, dark, or printed in gray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar, get_args

import numpy as np

from scrout.batch.folder import BatchFolder
from scrout.batch.jobs import ROUTED
from scrout.batch.outputs.predictions import disk_explained
from scrout.batch.outputs.results import ArmResult, Census, Comparison, Localization, Share, Summary
from scrout.files import write_atomic
from scrout.html import Html, element, render
from scrout.intervals import Estimate
from scrout.money import Component
from scrout.plot import SHAPES, Mark, cost_plot
from scrout.records import NothingVerdict
from scrout.route.stats import hull
from scrout.text import clip, duration, percent, plural, usd

Item = TypeVar("Item")

MAX_ROWS = 200
"""Maximum rows of a table; summary.json has all."""
MAX_CHARS = 300
NOTHING = frozenset(get_args(NothingVerdict))
COMPONENT_FILLS: dict[Component, Fill] = {
    "scout": "pale",
    "gate": "url(#dots)",
    "route": "url(#bars)",
    "fix": "solid",
    "check": "empty",
}
SHARED: Fill = "url(#hatch)"
CENSUS: tuple[tuple[str, Fill], ...] = (
    ("kept", "solid"),
    ("stripped", "url(#hatch)"),
    ("nothing to replay", "empty"),
    ("passed through unseen", "url(#dots)"),
)
KINDS = {"spontaneous": "handed over by itself", "forced": "forced at the end of its turns", "none": "no handoff"}


@dataclass(frozen=True)
class ReportRows:
    """A table whose first column names its rows; columns in `words` contain text, others figures."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = ()


@dataclass(frozen=True)
class ReportSection:
    """A part of the page, if there is something to show."""

    title: str
    about: str = ""
    tables: Sequence[ReportRows] = ()
    key: Sequence[tuple[str, Fill]] = ()
    """The meaning of the plot's fills."""
    picture: Html | None = None


def _table(items: Iterable[Item], cells: Mapping[str, Callable[[Item], str]], words: Sequence[int] = ()) -> ReportRows:
    """A row for each item, from one function per column."""
    return ReportRows(list(cells), [[cell(item) for cell in cells.values()] for item in items], words)


def write_report(folder: BatchFolder, summary: Summary) -> None:
    with disk_explained(folder):
        write_atomic(folder.report, page(summary))


def page(summary: Summary) -> str:
    sections = (
        _arms(summary),
        _frontier(summary),
        _savings(summary),
        _components(summary),
        _census(summary),
        _localization(summary),
        _caps(summary),
        _fixers(summary),
        _repositories(summary),
        _problems(summary),
    )
    return render(
        "batch_report.html",
        title=f"Batch {summary.batch.id}",
        summary=summary,
        facts=_facts(summary),
        doubts=list(_doubts(summary)),
        sections=[section for section in sections if section],
        origin=_origin(summary),
        patterns=patterns(),
        swatch=swatch,
        max_rows=MAX_ROWS,
        max_chars=MAX_CHARS,
    )


def _facts(summary: Summary) -> list[tuple[str, str]]:
    batch, costs = summary.batch, summary.costs
    done = sum(arm.done for arm in summary.arms)
    return [
        ("done", f"{done:,} of {sum(arm.tasks for arm in summary.arms):,} runs"),
        ("spent", usd(costs.usd) if costs.usd is not None else f"{usd(costs.known_usd)} and more"),
        ("calls", f"{costs.calls:,}"),
        ("begun", f"{batch.started:%Y-%m-%d %H:%M} UTC"),
        ("scrout", clip(batch.scrout, MAX_CHARS)),
    ]


def _doubts(summary: Summary) -> Iterator[str]:
    """Warnings that a reader of the figures must see."""
    costs = summary.costs
    if left := sum(arm.not_run for arm in summary.arms):
        yield f"{plural(left, 'run')} not finished: the same command goes on with the batch."
    if failed := sum(arm.infrastructure for arm in summary.arms):
        yield f"{plural(failed, 'run')} ended because an endpoint failed. They count in no rate."
    if costs.unpriced_calls:
        yield f"{plural(costs.unpriced_calls, 'call')} without a known price: costs that they are in are unknown."
    if costs.estimated_calls:
        yield (
            f"{plural(costs.estimated_calls, 'call')} without reported usage, "
            f"booked at the reserve: {usd(costs.estimated_usd)}."
        )
    if costs.lost_usd:
        yield f"{usd(costs.lost_usd)} went to steps that were cut off or failed, or to runs that were made again."
    for arm in summary.arms:
        if arm.constant:
            yield f"{clip(arm.arm, MAX_CHARS)}: the router chose {clip(arm.fixers[0].fixer, MAX_CHARS)} every time."
    if summary.problems:
        yield f"{plural(len(summary.problems), 'row')} of the task file could not be used; they are listed below."
    if summary.unreadable_grades:
        yield f"{plural(summary.unreadable_grades, 'line')} of grades.jsonl could not be read."
    if not any(arm.graded for arm in summary.arms):
        yield "Nothing was graded: “solved” is what the check of each patch says, which is no proof."


def _arms(summary: Summary) -> ReportSection | None:
    results: dict[str, Callable[[ArmResult], str]] = {
        "arm": lambda arm: arm.arm,
        "done": lambda arm: f"{arm.done:,}",
        "solved by the check": lambda arm: _share(arm.solved),
        "$ a task": lambda arm: _each(arm.usd_a_task, arm.done),
        "$ a solve": lambda arm: _each(arm.usd_a_solve, arm.solved.count),
    }
    if any(arm.graded for arm in summary.arms):
        results["graded as resolved"] = lambda arm: _share(arm.graded.resolved) if arm.graded else "–"
        results["$ a resolve"] = lambda arm: _each(arm.usd_a_resolve, arm.graded.resolved.count if arm.graded else 0)
    totals: dict[str, Callable[[ArmResult], str]] = {
        "arm": lambda arm: arm.arm,
        "$ alone": lambda arm: usd(arm.alone_usd),
        "$ paid": lambda arm: usd(arm.paid.usd),
        "calls": lambda arm: f"{arm.paid.calls:,}",
        "time a task": lambda arm: duration(arm.seconds_a_task, unknown="–"),
        "infrastructure": lambda arm: f"{arm.infrastructure:,}",
        "not run": lambda arm: f"{arm.not_run:,}",
    }
    about = (
        "Rates are of the tasks done, with 95% intervals. Dollars a task and a solve are what they would have been "
        "with this arm alone, and so is “$ alone”. Scouting that arms share was paid once: “$ paid” is what an arm's "
        f"own runs paid, and all of them together {usd(summary.costs.usd)}."
    )
    return ReportSection("Arms", about, [_table(summary.arms, results), _table(summary.arms, totals)])


def _frontier(summary: Summary) -> ReportSection | None:
    shown = [arm for arm in summary.arms if arm.done and arm.usd_a_task_interval]
    by_grade = bool(shown) and all(arm.graded and arm.graded.resolved.of for arm in shown)
    marks: list[Mark] = []
    alone: list[tuple[float, float]] = []
    for arm in shown:
        rate = arm.graded.resolved if by_grade and arm.graded else arm.solved
        kind, _, fixer = arm.arm.partition("/")
        assert rate.rate is not None and arm.usd_a_task_interval is not None
        whole = Estimate(value=rate.rate, low=rate.low, high=rate.high)
        shape = SHAPES.get(kind, "circle")
        marks.append(Mark(clip(arm.arm, 40), arm.usd_a_task_interval, whole, shape, routed=fixer == ROUTED))
        if kind == "solo" and fixer != ROUTED:
            alone.append((arm.usd_a_task_interval.value, rate.rate))
    if not marks:
        return None
    about = (
        f"Solved: {'graded as resolved' if by_grade else 'by the check, not graded'}. Lines are 95% intervals. Circles "
        "work from the issue alone, squares with what survived the gate, triangles with all that the scout claimed; "
        "outlines are routed."
    )
    mix = [(float(usd), float(rate)) for usd, rate in hull(np.array(alone))] if len(alone) > 1 else []
    if mix:
        about += " Dashed: what drawing among the solo arms at random would reach."
    picture = cost_plot("Solve rate against dollars per task, by arm", marks, mix)
    return ReportSection("Solve rate against cost", about, picture=picture)


def _savings(summary: Summary) -> ReportSection | None:
    if not summary.comparisons:
        words = (
            "No arm has a fixer work alone on the same tasks, so there is nothing to compare costs with. "
            "Run the tasks with --arms handoff,solo --fixers as well."
        )
        return ReportSection("Savings, beside their baselines", words if summary.arms else "")
    cells: dict[str, Callable[[Comparison], str]] = {
        "arm": lambda one: one.arm,
        "beside": lambda one: f"{one.baseline}: {clip(one.baseline_arm, MAX_CHARS)}",
        "tasks": lambda one: f"{one.tasks:,} ({one.judged_by})",
        "$ a task": lambda one: f"{usd(one.usd_a_task, 4)} / {usd(one.baseline_usd_a_task, 4)}",
        "saved": lambda one: percent(one.saved, unknown="–"),
        "solved": lambda one: f"{one.solved:,} / {one.baseline_solved:,}",
        "only by one": lambda one: f"{one.only_arm:,} / {one.only_baseline:,}",
        "mixing reaches": _mixed,
    }
    about = (
        "Each arm on the tasks that it and all arms with one fixer have done, by the grade where all are graded, else "
        "by the check. Before the stroke the arm, behind it the baseline. Tasks that only one of them solved say how "
        "firm a difference is. Mixing: drawing among the solo arms at random, for the arm's cost."
    )
    return ReportSection("Savings, beside their baselines", about, [_table(summary.comparisons, cells, words=(1,))])


def _mixed(one: Comparison) -> str:
    return "–" if one.mix is None else f"{percent(one.mix)}, here {percent(one.solved / one.tasks)}"


def _components(summary: Summary) -> ReportSection | None:
    used = [name for name in COMPONENT_FILLS if summary.costs.by_component[name]]
    if not used:
        return ReportSection("Cost by component", "No call with a known price was paid for.")
    rows: list[Bar] = []
    for arm in summary.arms:
        parts: list[tuple[Fill, float]] = [(SHARED, float(arm.shared_usd))] if arm.shared_usd else []
        parts += [(COMPONENT_FILLS[name], float(arm.paid.by_component[name])) for name in used]
        rows.append(Bar(clip(arm.arm, MAX_CHARS), usd(arm.paid.known_usd + arm.shared_usd), parts))
    most = max(sum(amount for _, amount in row.parts) for row in rows)
    key = [(str(name), COMPONENT_FILLS[name]) for name in used]
    if any(arm.shared_usd for arm in summary.arms):
        key.insert(0, ("scout, paid by another arm", SHARED))
    table = ReportRows(
        ["paid", *used, "sum"],
        [
            *(
                [arm.arm, *(usd(arm.paid.by_component[name]) for name in used), usd(arm.paid.known_usd)]
                for arm in summary.arms
            ),
            ["all arms", *(usd(summary.costs.by_component[name]) for name in used), usd(summary.costs.known_usd)],
        ],
    )
    about = "Of calls with a known price. Interrupted and repeated steps are in it."
    picture = bars("Dollars by component, a bar for each arm", rows, most)
    return ReportSection("Cost by component", about, [table], key, picture)


def _census(summary: Summary) -> ReportSection | None:
    """The gate's verdicts by kind of handoff; arms that share a scouting share a bar."""
    groups = _grouped((arm.arm, arm.census) for arm in summary.arms if any(map(_replayed, arm.census)))
    if not groups:
        return None
    rows: list[Bar] = []
    columns: list[tuple[str, Census]] = []
    for name, censuses in groups:
        for census in censuses:
            parts = _claims(census)
            who = f", {name}" if len(groups) > 1 else ""
            counted: list[tuple[Fill, float]] = [(fill, parts[what]) for what, fill in CENSUS]
            rows.append(Bar(f"{KINDS[census.kind]}{who}", f"{census.kept:,} kept of {census.handoffs:,}", counted))
            columns.append((f"{KINDS[census.kind]}{who}", census))
    key = [(what, fill) for what, fill in CENSUS if any(_claims(census)[what] for _, census in columns)]
    most = max(census.handoffs for _, census in columns)
    verdicts = sorted(
        {verdict for _, census in columns for verdict in census.verdicts},
        key=lambda verdict: (-sum(census.verdicts.get(verdict, 0) for _, census in columns), verdict),
    )
    table = ReportRows(
        ["verdict", *(name for name, _ in columns)],
        [[verdict, *(f"{census.verdicts.get(verdict, 0):,}" for _, census in columns)] for verdict in verdicts],
    )
    about = (
        "What became of the searcher's claims to have reproduced the bug, in arms that replay them. Handoffs that a "
        "searcher gave by itself and those it was made to give are never pooled."
    )
    return ReportSection("Gate", about, [table], key, bars("Claims by what became of them", rows, most))


def _replayed(census: Census) -> bool:
    return set(census.verdicts) != {"not_replayed"}


def _claims(census: Census) -> dict[str, int]:
    """Counts of verdicts on claims."""
    nothing = sum(count for verdict, count in census.verdicts.items() if verdict in NOTHING)
    unseen = census.verdicts.get("not_replayed", 0)
    return {
        "kept": census.kept,
        "nothing to replay": nothing,
        "passed through unseen": unseen,
        "stripped": census.handoffs - nothing - unseen - census.kept,
    }


def _localization(summary: Summary) -> ReportSection | None:
    groups = _grouped((arm.arm, arm.localization) for arm in summary.arms if arm.localization)
    if not groups:
        return None
    cells: dict[str, Callable[[tuple[str, Localization]], str]] = {
        "handoff": lambda one: KINDS[one[1].kind],
        "arms": lambda one: one[0],
        "tasks": lambda one: f"{one[1].tasks:,}",
        "recall": lambda one: f"{one[1].recall:.3f}",
        "precision": lambda one: f"{one[1].precision:.3f}",
        "every gold file named": lambda one: _share(one[1].all_gold),
        "files a task": lambda one: f"{one[1].files:.2f}",
    }
    found = [(name, one) for name, localizations in groups for one in localizations]
    about = "The files that the searcher named against those that the known answer changes, where it is known."
    return ReportSection("Localization", about, [_table(found, cells, words=(1,))])


def _caps(summary: Summary) -> ReportSection | None:
    graded = any(cap.rescued_by_grade is not None for arm in summary.arms for cap in arm.caps)
    header = ["arm", "limit", "attempts that hit it", "rescued, by the check"]
    header += ["rescued, by the grade"] if graded else []
    rows = [
        [
            arm.arm,
            cap.stop,
            f"{cap.hit:,}",
            f"{cap.rescued:,}",
            *([_number(cap.rescued_by_grade)] if graded else []),
        ]
        for arm in summary.arms
        for cap in arm.caps
        if cap.hit
    ]
    about = (
        "An attempt at a limit is stopped, and the diff that exists is its submission. "
        "Rescued: that diff solved the task."
    )
    if not rows:
        return ReportSection("Caps", f"{about} No attempt hit one.")
    return ReportSection("Caps hit, and rescued", about, [ReportRows(header, rows)])


def _fixers(summary: Summary) -> ReportSection | None:
    rows = [
        [arm.arm, use.fixer, f"{use.chosen:,}", f"{use.attempts:,}", f"{use.solved:,}"]
        for arm in summary.arms
        for use in arm.fixers
    ]
    if not rows:
        return None
    escalated = sum(arm.escalated for arm in summary.arms)
    about = f"Who was chosen, who tried, and whose attempt the check passed. {plural(escalated, 'run')} escalated."
    return ReportSection("Fixers", about, [ReportRows(["arm", "fixer", "chosen", "attempts", "solved"], rows)])


def _repositories(summary: Summary) -> ReportSection | None:
    by_name: dict[str, dict[str, str]] = {}
    for arm in summary.arms:
        for place in arm.repositories:
            solved, of = (place.solved, place.done) if place.resolved is None else (place.resolved, place.graded)
            words = f"{solved:,} of {of:,}, {usd(place.cost_usd)}"
            by_name.setdefault(place.repository, {})[arm.arm] = words
    if not by_name:
        return None
    arms = [arm.arm for arm in summary.arms if arm.repositories]
    rows = [[name, *(cells.get(arm, "–") for arm in arms)] for name, cells in sorted(by_name.items())]
    about = "Resolved by the grade where there is one, else solved by the check; and dollars, as if the arm were alone."
    return ReportSection("Repositories", about, [ReportRows(["repository", *arms], rows)])


def _problems(summary: Summary) -> ReportSection | None:
    if not summary.problems:
        return None
    rows = [[problem.source, problem.id or "–", problem.words] for problem in summary.problems]
    return ReportSection("Rows that could not be used", tables=[ReportRows(["place", "id", "why"], rows, words=(1, 2))])


def _origin(summary: Summary) -> list[tuple[str, str]]:
    batch = summary.batch
    facts = {
        "batch": batch.id,
        "command": summary.command,
        "settings": batch.settings_digest,
        "tasks": batch.tasks_digest,
        "arms": ", ".join(batch.arms),
        "scrout": batch.scrout,
        "begun": batch.started.isoformat(),
        "exact figures": "summary.json, beside this page; every call is in the ledger",
    }
    return [(name, clip(value, 2000)) for name, value in facts.items()]


def _grouped(named: Iterable[tuple[str, tuple[Item, ...]]]) -> list[tuple[str, tuple[Item, ...]]]:
    """Group equal items, each with all its names."""
    groups: list[tuple[list[str], tuple[Item, ...]]] = []
    for name, content in named:
        same = next((names for names, other in groups if other == content), None)
        if same is None:
            groups.append(([name], content))
        else:
            same.append(name)
    return [(", ".join(names), content) for names, content in groups]


def _share(share: Share) -> str:
    if share.rate is None:
        return "–"
    return f"{share.count:,} of {share.of:,}: {percent(share.rate)} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def _each(amount: Decimal | None, of: int) -> str:
    return usd(amount, 4) if of else "–"


def _number(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


WIDTH = 480
LETTER = 7.4
"""Approximate width of a letter in labels."""
ROW, BAR, LABEL = 44, 16, 16
"""Heights of a row of bars, of its bar, and of the line above it."""

# Lightness and pattern distinguish parts without colour.
Fill = Literal["solid", "pale", "empty", "url(#hatch)", "url(#dots)", "url(#bars)"]


@dataclass(frozen=True)
class Bar:
    label: str
    value: str
    """Text at the end of its label."""
    parts: Sequence[tuple[Fill, float]]


def patterns() -> Html:
    """SVG patterns that fills refer to; once per page."""
    hatch = element("path", d="M-1 1 l2 -2 M0 6 l6 -6 M5 7 l2 -2", class_="stroke")
    dots = element("circle", cx="2.5", cy="2.5", r="1.2", class_="solid")
    bars = element("path", d="M2 0 v6", class_="stroke")
    made = [
        element("pattern", content, id=name, width=size, height=size, patternUnits="userSpaceOnUse")
        for name, content, size in (("hatch", hatch, "6"), ("dots", dots, "5"), ("bars", bars, "5"))
    ]
    return element("svg", element("defs", *made), width="0", height="0", **{"aria-hidden": "true"})


def swatch(fill: Fill) -> Html:
    return element("svg", _rect(1, 1, 26, 14, fill), viewBox="0 0 28 16", **{"aria-hidden": "true"})


def bars(title: str, rows: Sequence[Bar], most: float) -> Html:
    """Horizontal bars on one scale that ends at `most`."""
    inner = WIDTH - 4
    parts: list[Html] = []
    for number, bar in enumerate(rows):
        y = number * ROW
        parts.append(_text(2, y + LABEL - 3, _short(bar.label, bar.value), "name"))
        parts.append(_text(WIDTH - 2, y + LABEL - 3, bar.value, "", "end"))
        parts.append(element("rect", class_="track", **_box(2, y + LABEL + 3, inner, BAR)))
        x = 2.0
        for fill, amount in bar.parts:
            width = inner * amount / most if most else 0.0
            if width > 0:
                # Without a background, a pattern would let the track shine through.
                parts += [_rect(x, y + LABEL + 3, width, BAR, "empty"), _rect(x, y + LABEL + 3, width, BAR, fill)]
                x += width
    return _picture(title, len(rows) * ROW, parts)


def _picture(title: str, height: float, parts: Sequence[Html]) -> Html:
    told = {"role": "img", "aria-label": title}
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {height:.0f}", class_="bars", **told)


def _rect(x: float, y: float, width: float, height: float, fill: Fill) -> Html:
    if fill.startswith("url("):
        return element("rect", fill=fill, class_="part", **_box(x, y, width, height))
    return element("rect", class_=f"part {fill}", **_box(x, y, width, height))


def _box(x: float, y: float, width: float, height: float) -> dict[str, str]:
    return {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> Html:
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", class_=kind, **{"text-anchor": anchor})


def _short(label: str, value: str) -> str:
    """As much of a label as fits before the value."""
    room = int((WIDTH - len(value) * LETTER) / LETTER) - 2
    return clip(label, room)
