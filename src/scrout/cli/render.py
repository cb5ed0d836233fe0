"""Renders runs and their parts on a terminal.

Text from repositories, issues and models is shown without control characters.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING

from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from scrout.handoff import FileRef
from scrout.records import Attempt, Candidate, Check, Decision, GatedHandoff, Run, Scouting, ScoutStop
from scrout.task import title_of
from scrout.text import duration, percent, usd
from scrout.text import inert as inert

if TYPE_CHECKING:
    from scrout.route.explain import Explanation

_GOOD, _BAD, _DIM = "green", "red", "dim"
CODE_FILES = 3
"""Number of files whose code a scouting shows on the terminal."""
MAX_COST_CHANGES, MAX_NEAR = 2, 3
"""Maximum items of an explanation on the terminal; its JSON has all."""
MIN_CODE_LINES, GOOD_CODE_LINES, MAX_CODE_LINES = 4, 10, 40
_BAR_CELLS = 8
MIN_CUT_COLUMN = 20
"""Minimum width of a text column."""
_SCOUT_STYLE: dict[ScoutStop, str] = {
    "finished": _GOOD,
    "forced": "yellow",
    "malformed": "yellow",
    "cap_usd": "yellow",
    "timeout": "yellow",
    "crashed": _BAD,
    "endpoint": _BAD,
}
_DIFF_STYLE = {"+": _GOOD, "-": _BAD, "@": "cyan"}

talk = Console(stderr=True, highlight=False, markup=False)
"""For messages, on standard error, so that standard output has only data."""


def say(words: str) -> None:
    """Write a sentence to standard error."""
    talk.print(inert(words), soft_wrap=True)


def print_json(document: BaseModel | Sequence[BaseModel]) -> None:
    """Write one JSON document to standard output, in ASCII, so that every text can be written."""
    if isinstance(document, BaseModel):
        plain: object = document.model_dump(mode="json")
    else:
        plain = [record.model_dump(mode="json") for record in document]
    print_text(json.dumps(plain, indent=2) + "\n")


def show(record: BaseModel | Sequence[BaseModel], view: RenderableType, *, as_json: bool) -> None:
    """Write a command's result to standard output: the record as JSON, or its view."""
    if as_json:
        print_json(record)
    else:
        print_view(view)


def table(*columns: str, right: Collection[str] = (), whole: Collection[str] = ()) -> Table:
    """A table whose columns fold if they are too wide; those in `right` contain numbers, and those in `whole` never
    break.
    """
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=name in whole)
    return made


def row(table: Table, *cells: str | Text, style: str = "") -> None:
    table.add_row(*(cell if isinstance(cell, Text) else Text(inert(cell)) for cell in cells), style=style or None)


def print_text(text: str) -> None:
    """Write UTF-8 text to standard output, whatever the locale; detects a closed pipe."""
    if sys.stdout:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.flush()


def print_view(view: RenderableType, pipe_width: int | None = None) -> None:
    """Write a view to standard output. `pipe_width`: its width in a pipe; None: the usual 80."""
    piped = not (sys.stdout and sys.stdout.isatty())
    console = Console(highlight=False, markup=False, width=pipe_width if piped else None)
    with console.capture() as captured:
        console.print(view, soft_wrap=isinstance(view, Text))
    print_text(captured.get())


def print_patch(patch: str) -> None:
    """Write the patch to standard output: coloured on a terminal, byte for byte in a pipe."""
    if sys.stdout and sys.stdout.isatty():
        lines = (Text(f"{line}\n", _DIFF_STYLE.get(line[:1], "")) for line in inert(patch).splitlines())
        print_view(Text(end="").join(lines))
    else:
        print_text(patch)


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Show progress: one live line on a terminal, otherwise a plain line whenever the message changes."""
    if talk.is_terminal:
        with talk.status("") as status:
            yield lambda words: status.update(Text(inert(words)))
        return
    said = [""]

    def say(words: str) -> None:
        if words != said[0]:
            said[0] = words
            talk.print(f"... {inert(words)}", soft_wrap=True)

    yield say


def story(run: Run) -> RenderableType:
    """A whole run, stage by stage, without the patch itself."""
    parts: list[RenderableType] = [line("run", f"{run.id}  {run.task.repo} at {run.task.base_commit[:10]}")]
    parts.append(line("where", f"{run.sandbox} sandbox, {run.environment}"))
    if run.scouting:
        parts += [_title("Scout"), scouting(run.scouting)]
    if run.gated:
        parts += [_title("Gate"), gated(run.gated)]
    if run.decision:
        parts += [_title("Route"), decision(run.decision)]
    for number, attempt in enumerate(run.attempts):
        parts += [_title("Fix"), _attempt(attempt)]
        if number < len(run.checks):
            parts += [_title("Check"), _check(run.checks[number])]
    parts += [_title("Receipt"), _receipt(run)]
    return Group(*parts)


def scouting(found: Scouting) -> RenderableType:
    """Ranked files with regions, the reproduction, and reasons."""
    parts: list[RenderableType] = []
    if found.handoff.files:
        ranked = table("", "confidence", "where", "why", right=("",), whole=("confidence",))
        ranked.columns[2].ratio, ranked.columns[3].ratio = 2, 3
        for rank, ref in enumerate(found.handoff.files, 1):
            regions = ", ".join(f"{first}-{last}" for first, last in ref.regions)
            place = Text.assemble((inert(ref.path), "bold"), (f":{regions}" if regions else "", _DIM))
            row(ranked, str(rank), _confidence(ref), place, Text(inert(ref.why), style=_DIM))
        parts.append(ranked)
    reproduction = found.handoff.reproduction
    if reproduction and reproduction.command:
        parts.append(line("reproduction", f"{reproduction.command} ({', '.join(reproduction.files) or 'no files'})"))
    parts += [line("dead end", end) for end in found.handoff.dead_ends]
    if found.handoff.notes:
        parts.append(line("notes", found.handoff.notes))
    if found.searcher != "recon":
        parts.append(line(found.searcher, f"{found.stop}: {found.detail}".rstrip(": "), _SCOUT_STYLE[found.stop]))
    tokens = sum(sum(receipt.usage.model_dump().values()) for receipt in found.receipts)
    calls = f", {found.turns} turns, {tokens:,} tokens" if found.receipts or found.turns else ""
    parts.append(line("took", f"{duration(found.seconds)}{calls}, {usd(found.cost_usd)}"))
    if found.trace:
        parts.append(line("trace", found.trace))
    return Group(*parts)


def scouted(found: Scouting, sources: Mapping[str, str]) -> RenderableType:
    """The same with the code of the best region of the first files, as much as fits the screen."""
    overview = scouting(found)
    room = talk.height - len(talk.render_lines(overview, pad=False)) - 2  # and the prompt
    # One complete function is better than the first lines of three.
    refs = [ref for ref in found.handoff.files[:CODE_FILES] if ref.path in sources][: max(1, room // GOOD_CODE_LINES)]
    lines = max(MIN_CODE_LINES, room // max(1, len(refs)) - 1)
    return Group(overview, *(_excerpt(ref, sources[ref.path], lines) for ref in refs))


def _excerpt(ref: FileRef, source: str, lines: int) -> RenderableType:
    rows = source.replace("\r\n", "\n").split("\n")
    first, last = _best_region(ref, rows)
    last = min(last, first + min(lines, MAX_CODE_LINES) - 1)
    # Cut here and not by Syntax, which would colour the whole file for it.
    code = "\n".join(rows[first - 1 : last])
    lexer = Syntax.guess_lexer(ref.path)
    shown = Syntax(
        inert(code), lexer, theme="ansi_dark", line_numbers=True, start_line=first, background_color="default"
    )
    return Group(_title(f"{inert(ref.path)}:{first}-{last}"), shown)


def _best_region(ref: FileRef, rows: list[str]) -> tuple[int, int]:
    """The region that the reason mentions, by a line's number or a quoted name; otherwise the first."""
    numbers = [int(number) for number in re.findall(r"\bline ([0-9]{1,9})\b", ref.why)]
    names = [name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", ref.why)]
    by_line = (region for n in numbers for region in ref.regions if region[0] <= n <= region[1])
    # A definition is at the start of its region, except for decorators and a class line.
    by_name = (region for name in names for region in ref.regions if name in "\n".join(rows[region[0] - 1 :][:3]))
    return next(chain(by_line, by_name, ref.regions), (1, len(rows)))


def _confidence(ref: FileRef) -> Text:
    if ref.confidence is None:
        return Text("unknown", style=_DIM)
    full = round(_BAR_CELLS * min(max(ref.confidence, 0), 1))
    return Text.assemble(("━" * full, "cyan"), ("─" * (_BAR_CELLS - full), _DIM), f" {ref.confidence:.2f}")


def gated(result: GatedHandoff) -> RenderableType:
    """The verdict and its evidence."""
    if result.kept:
        what, style = "kept", _GOOD
    else:
        what, style = "stripped" if result.evidence.runs else "nothing to verify", "yellow"
    verdict = line("verdict", f"{result.verdict} ({what})", style)
    parts: list[RenderableType] = [verdict, line("reason", result.reason)]
    seen = result.evidence
    if seen.command and seen.runs:
        times = "once" if seen.runs == 1 else f"{seen.runs} times"
        parts.append(
            line("replayed", f"{times} in {duration(seen.seconds)}, exit code {seen.exit_code}: {seen.command}")
        )
        parts.append(_tail(seen.output_tail))
    return Group(*parts)


def decision(made: Decision) -> RenderableType:
    """Every candidate, the winner marked."""
    several = len(made.candidates) > 1
    # The winner's reason is the decision's, which follows.
    weighed = _candidates(made, "why not" if several else "", lambda one: "" if one.fixer == made.fixer else one.reason)
    parts: list[RenderableType] = [weighed, line("decision", f"{made.fixer}: {_unprefixed(made.reason, made.fixer)}")]
    if made.degraded:
        parts.append(line("degraded", "a feature space was missing; the probabilities rest on fewer signals", "yellow"))
    return Group(*parts)


def explanation(found: Explanation) -> RenderableType:
    """A decision, from the task's difficulty to possible changes."""
    made = found.decision
    weighed = _candidates(
        made, "probability known from", lambda one: one.evidence or f"no résumé yet: scrout fixers add {one.fixer}"
    )
    parts = [line("task", found.title), *_task(found), line("goal", found.goal), weighed]
    why = next(one.reason for one in made.candidates if one.fixer == made.fixer)
    parts.append(line("chosen", f"{made.fixer}: {_unprefixed(why, made.fixer)}", "bold"))
    # Only then do the intervals belong to this task's probabilities.
    doubt = _alike(made) if found.difficulty and not made.abstained else ""
    if doubt:
        parts.append(line("doubt", f"{doubt}: the difference in probability is within what the outcomes leave open"))
    parts += lines("not", [f"{one.fixer}: {one.reason}" for one in made.candidates if one.fixer != made.fixer])
    if found.otherwise:
        parts.append(line("otherwise", f"were it like a known task, {found.otherwise} would take it"))
    parts += lines("it would be", _turns(found))
    parts += _near(found)
    parts.append(line("rests on", ", ".join(map(_space, made.spaces)) or "base rates alone"))
    parts += lines("missing", found.missing, "yellow")
    return Group(*parts)


def _task(found: Explanation) -> list[RenderableType]:
    """The task's difficulty, and its causes."""
    judged = found.difficulty
    if judged is None:
        return []
    parts: list[RenderableType] = []
    if judged.easier_than is not None:
        easier = judged.easier_than >= 0.5
        share = judged.easier_than if easier else 1 - judged.easier_than
        part = "all" if share == 1 else percent(min(share, 0.99), 0)
        than = f"{'easier' if easier else 'harder'} than {part} of the {judged.known_tasks:,} known tasks"
        parts.append(line("looks", f"{than}; an attempt takes {judged.effort:.1f} times the effort of an average one"))
    words = [f"{'easier' if one.log_odds > 0 else 'harder'}: {one.words}" for one in judged.drivers]
    parts += lines("because", words or ["nothing about it is unusual"])
    if judged.far:
        parts.append(line("far", "it is unlike every known task, so no probability can be relied on", "yellow"))
    return parts


def _turns(found: Explanation) -> list[str]:
    """The nearest changes: of the goal in both directions, and of the two costs that need the smallest change."""
    from scrout.route.explain import change_words

    costs = [change for change in found.changes if change.of == "cost_usd"]
    shown = [change for change in found.changes if change.of != "cost_usd"] + costs[:MAX_COST_CHANGES]
    return [f"{change.to} {change_words(change)}" for change in shown]


def _alike(made: Decision) -> str:
    """The chosen fixer and those with a probability inside of its interval; empty: none."""
    chosen = next(one for one in made.candidates if one.fixer == made.fixer)
    low, high = chosen.p_low, chosen.p_high
    if low is None or high is None:
        return ""
    others = [one.fixer for one in made.candidates if one.p_solve is not None and low <= one.p_solve <= high]
    return f"{', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else ""


def _space(name: str) -> str:
    """A feature space in words, with its name."""
    kind = name.partition("/")[0].partition("-")[0]
    what = {
        "counts": "counts of the text",
        "text": "the text's vector",
        "hidden": "the searcher's hidden state",
        "recon": "what the scout measured",
    }.get(kind)
    return f"{what} ({name})" if what else name


def _near(found: Explanation) -> list[RenderableType]:
    if not found.nearest:
        return [line("near it", found.nearest_missing)]
    words = []
    for one in found.nearest[:MAX_NEAR]:
        ends = [f"solved by {', '.join(one.solved_by)}"] if one.solved_by else []
        ends += [f"not by {', '.join(one.failed_by)}"] if one.failed_by else []
        title = one.title or "a task without a title"
        words.append(f"{one.similarity:.2f} {title}: {'; '.join(ends) or 'no fixer of the pool tried it'}")
    return lines("near it", words)


def _candidates(made: Decision, last: str, words: Callable[[Candidate], str]) -> Table:
    """Probability and cost of each, and a named last column."""
    columns = ("", "fixer", "probability", "cost", *([last] if last else []))
    made_table = table(*columns, right=("probability", "cost"), whole=("probability", "cost"))
    if last:
        made_table.columns[-1].ratio = 1
    for one in made.candidates:
        probability = "unknown" if one.p_solve is None else f"{one.p_solve:.2f}"
        if one.p_low is not None and one.p_high is not None:
            probability += f" ({one.p_low:.2f}-{one.p_high:.2f})"
        cells = [one.fixer, probability, usd(one.expected_cost_usd), *([words(one)] if last else [])]
        chosen = one.fixer == made.fixer
        row(made_table, ">" if chosen else "", *cells, style="bold" if chosen else "")
    return made_table


def _unprefixed(reason: str, fixer: str) -> str:
    """A reason without the fixer's name, which is shown before it."""
    return reason.removeprefix(f"{fixer}: ")


@dataclass(frozen=True)
class FittedTable:
    """A table that fits its terminal: drops whole columns until it does, and only cuts the last one."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    dispensable: Sequence[str]
    """Columns that may be dropped, in this order."""
    right: Sequence[str] = ()
    """Columns of numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = {name: [inert(row[at]) for row in self.rows] for at, name in enumerate(self.columns)}
        widths = {name: max(map(cell_len, (name, *column))) for name, column in cells.items()}
        *shown, last = self.columns
        for name in self.dispensable:
            if options.max_width - self._taken(shown, widths) < min(widths[last], MIN_CUT_COLUMN):
                shown.remove(name)
        room = max(options.max_width - self._taken(shown, widths), 1)
        fitted = table(*shown, last, right=self.right, whole=(*shown, last))
        for at in range(len(self.rows)):
            text = Text(cells[last][at])
            text.truncate(room, overflow="ellipsis")
            row(fitted, *(cells[name][at] for name in shown), text)
        yield fitted

    @staticmethod
    def _taken(shown: Sequence[str], widths: Mapping[str, int]) -> int:
        """The width of all columns but the last, with separators and edges."""
        return sum(widths[name] + 3 for name in shown) + 2


def runs(past: Sequence[Run]) -> RenderableType:
    """One line per run, latest first."""
    rows = []
    for run in past:
        fixer = run.attempts[-1].fixer if run.attempts else ""
        title = title_of(run.task.text)
        rows.append((run.id, run.task.repo.name, run.outcome, fixer, usd(run.cost_usd), title))
    columns = ("run", "repository", "outcome", "fixer", "cost", "issue")
    return FittedTable(columns, rows, dispensable=("repository", "fixer"), right=("cost",))


def _attempt(attempt: Attempt) -> RenderableType:
    style = _GOOD if attempt.patch else "yellow"
    cost = f"{duration(attempt.seconds)}, {attempt.calls} model calls, {usd(attempt.cost_usd, unknown='unpriced')}"
    parts = [line(attempt.fixer, f"{attempt.stop}: {attempt.detail}", style), line("took", cost)]
    if attempt.handoff != "full":
        parts.append(line("handoff", attempt.handoff))
    estimated = sum(receipt.estimated for receipt in attempt.receipts)
    if estimated:
        parts.append(line("estimated", f"{estimated} calls, whose usage was not reported", "yellow"))
    if attempt.trace:
        parts.append(line("trajectory", attempt.trace))
    return Group(*parts)


def _check(check: Check) -> RenderableType:
    style = {"passed": _GOOD, "failed": _BAD}.get(check.outcome, "yellow")
    parts: list[RenderableType] = [line("outcome", f"{check.outcome}: {check.detail}", style)]
    parts += [line("agrees", words) for words in check.agreement]
    for label, sentences in (("doubt", check.doubts), ("missing", check.missing), ("flag", check.flags)):
        parts += [line(label, words, "yellow") for words in sentences]
    failed = [seen for seen in check.evidence if seen.exit_code != 0]
    if check.outcome == "failed" and failed:
        parts.append(_tail(failed[-1].output_tail))
    return Group(*parts)


def _receipt(run: Run) -> RenderableType:
    stages: list[tuple[str, float, int, Decimal | None]] = []
    if run.scouting:
        stages.append(("scout", run.scouting.seconds, len(run.scouting.receipts), run.scouting.cost_usd))
    if run.gated:
        stages.append(("gate", run.gated.evidence.seconds, 0, Decimal(0)))
    if run.decision and run.decision.cost_usd != 0:
        stages.append(("route", 0.0, 1, run.decision.cost_usd))
    for number, attempt in enumerate(run.attempts):
        stages.append((f"fix ({attempt.fixer})", attempt.seconds, attempt.calls, attempt.cost_usd))
        if number < len(run.checks):
            stages.append(("check", run.checks[number].seconds, 0, Decimal(0)))
    if run.lost_usd:
        stages.append(("interrupted or repeated", 0.0, 0, run.lost_usd))
    bill = table("stage", "seconds", "calls", "cost", right=("seconds", "calls", "cost"))
    for stage, seconds, calls, cost in stages:
        row(bill, stage, f"{seconds:.2f}", str(calls), usd(cost, unknown="unpriced"))
    bill.add_section()
    # The sum of the stages' seconds, because a resumed run took longer by the clock.
    seconds, calls = sum(stage[1] for stage in stages), sum(stage[2] for stage in stages)
    total = usd(run.cost_usd, unknown="unpriced")
    row(bill, f"total: {run.outcome}", f"{seconds:.2f}", str(calls), total, style="bold")
    return bill


def _title(name: str) -> RenderableType:
    return Rule(Text(name, style="bold"), align="left", style=_DIM, characters="─")


def line(label: str, words: str, style: str = "") -> RenderableType:
    """A label and its text."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=12, style=_DIM, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(inert(words), style=style))
    return grid


def lines(label: str, words: Sequence[str], style: str = "") -> list[RenderableType]:
    """A label, and each text on its own line."""
    return [line("" if at else label, one, style) for at, one in enumerate(words)]


def _tail(output: str, lines: int = 8) -> RenderableType:
    last = "\n".join(inert(output).rstrip().splitlines()[-lines:])
    return Padding(Text(last, style=_DIM), (0, 0, 0, 13))
