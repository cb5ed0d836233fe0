"""Writes scrout's comments in Markdown. Untrusted text is always code, so that it has no effect.

In code, neither GitHub nor GitLab interprets mentions, references, images or HTML, and a fence that is longer than any
inside cannot be closed from inside. For programs that read comments as plain text, no line starts with untrusted text,
and a zero-width character separates each @ from the name after it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrout.redact import redact
from scrout.text import clip, duration, usd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrout.integrations.admission import Admission
    from scrout.integrations.ci_environment import CiEnvironment
    from scrout.integrations.result import DecisionSummary, ReceiptSummary, WorkResult

MAX_COMMENT_CHARS = 60_000
"""GitHub accepts 65,536."""
MAX_CODE_CHARS = 300
_GAP = "\u200b"
_ACTS = re.compile(r"(?<=@)(?=\w)|(?<=[#!])(?=[0-9])")
"""The start of a mention or a reference."""
_HIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
_TICKS = re.compile("`+")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9 ._/:+=,()-]")


def plain(text: str, most: int, *, lines: bool = False) -> str:
    """Text without secrets and hidden characters, cut to a length; one line unless `lines`."""
    clean = _HIDDEN.sub("", redact(text.replace("\r\n", "\n").replace("\r", "\n")))
    if not lines:
        clean = " ".join(clean.split())
    return clip(clean, most)


def code(text: str, most: int = MAX_CODE_CHARS) -> str:
    """One line of untrusted text as code."""
    inside = _still(plain(text, most)).replace("|", "¦")
    if not inside:
        return "` `"
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(inside)), default=0))
    # Add a space on both sides if a backtick would touch the fence; it is not displayed.
    space = " " if inside.startswith("`") or inside.endswith("`") or inside != inside.strip() else ""
    return f"{ticks}{space}{inside}{space}{ticks}"


def name(text: str) -> str:
    """The name of a fixer or a model; unusual characters become question marks."""
    return code(_NOT_IN_NAME.sub("?", plain(text, MAX_CODE_CHARS)), 80)


def block(text: str, most: int = 6_000) -> str:
    """Several lines of untrusted text. Each has a bar in front, so that none starts with its own text."""
    inside = _still(plain(text, most, lines=True)).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(inside)), default=0))
    rows = "\n".join(f"| {line}".rstrip() for line in inside.split("\n"))
    return f"{fence}text\n{rows}\n{fence}"


def mark(key: str) -> str:
    """A hidden mark to recognize scrout's own comment."""
    return f"<!-- scrout {key} -->"


def refused(admission: Admission) -> str:
    """A comment for a refused request of a trusted person."""
    return _whole([f"scrout does not work on this: {admission.reason}"], admission.key)


def no_result(admission: Admission, reason: str, place: CiEnvironment) -> str:
    """A comment for work without a usable result."""
    told = [
        f"scrout was asked to {admission.verb} this, and there is nothing to show: {code(reason)}",
        f"The [run]({place.run_url}) has the log. {_booked(admission)}",
    ]
    return _whole(told, admission.key)


def comment(result: WorkResult, admission: Admission, place: CiEnvironment, published: Sequence[str] = ()) -> str:
    """The handoff, the decision and the attempt, if there is one. `published` are sentences by scrout."""
    parts = [_opening(result, admission), *published]
    if result.outcome == "failed":
        parts.append(f"It could not work: {code(result.error)}")
    parts += [*_story(result), _receipts(result), _closing(result, place)]
    return _whole(parts, admission.key)


def pull_title(admission: Admission) -> str:
    """Without text of the issue, because titles are shown and mailed without any code around them."""
    return f"scrout: patch for #{admission.issue}"


def pull_body(
    result: WorkResult, admission: Admission, place: CiEnvironment, files: Sequence[str], notes: Sequence[str]
) -> str:
    """Everything that a reviewer should know before reading the patch."""
    parts = [f"A patch for #{admission.issue}, made by a program. Read it as you would a stranger's."]
    if result.outcome == "unverified":
        parts.append(
            "**Unverified**: what could be run does not show that it is right. The check below says what is missing."
        )
    parts.append("Files: " + ", ".join(code(path) for path in files[:20]) + _more(len(files), 20))
    parts += [f"Note: {note}." for note in notes]
    parts += [_opening(result, admission), *_story(result), _receipts(result), _closing(result, place)]
    return _whole(parts, admission.key)


def commit_message(admission: Admission, run: str) -> str:
    """Without untrusted text, because programs search commit messages for commands."""
    return f"scrout: patch for #{admission.issue}\n\nMade by scrout, run {run}. Review before merging.\n"


def _whole(parts: Iterable[str], key: str) -> str:
    text = "\n\n".join(part for part in parts if part)
    # Parts and their number are limited, so this only catches a bug.
    if len(text) > MAX_COMMENT_CHARS:
        text = "scrout has more to say than a comment holds. The run's artifact has all of it."
    return f"{text}\n\n{mark(key)}\n"


def _opening(result: WorkResult, admission: Admission) -> str:
    where = f", in the {name(result.sandbox)} sandbox" if result.sandbox else ""
    return (
        f"scrout was asked to {result.verb} this by {code(admission.by)} (label {code(admission.label)}), at commit "
        f"`{result.commit[:10]}`{where}."
    )


def _story(result: WorkResult) -> list[str]:
    parts = []
    if result.scouted:
        seen = result.scouted
        searcher = f"Scouted by {name(seen.searcher)}" + ("" if seen.stop == "finished" else f" ({seen.stop})")
        parts.append(f"**Handoff.** {searcher}. Gate: `{seen.verdict}`, {code(seen.reason)}")
        parts.append(_folded("The handoff: files, and what fails", block(seen.text)) if seen.text.strip() else "")
    if result.chosen:
        parts.append(f"**Decision.** {name(result.chosen.fixer)}: {code(result.chosen.reason)}")
        parts.append(_offers(result.chosen))
    if result.tried:
        tried = result.tried
        calls = f"{tried.calls} model calls, {duration(tried.seconds)}"
        parts.append(f"**Attempt.** {name(tried.fixer)}: `{tried.stop}`, {calls}. {code(tried.detail)}")
    if result.checked:
        check = result.checked
        tests = f"tests `{check.tests}` ({check.tests_run} run)"
        parts.append(
            f"**Check.** `{check.outcome}`: reproduction `{check.reproduction}`, {tests}. {code(check.detail)}"
        )
        parts += [_listed("Agrees", check.agreement), _listed("Doubt", check.doubts)]
        parts += [_listed("Missing", check.missing), _listed("Flag", check.flags)]
    if result.withheld:
        parts.append(f"The patch is not shown: {code(result.withheld)}")
    return parts


def _listed(label: str, sentences: Sequence[str]) -> str:
    return "\n".join(f"- {label}: {code(one)}" for one in sentences)


def _offers(chosen: DecisionSummary) -> str:
    rows = ["| Fixer | Chance | Cost | Why |", "| --- | --- | --- | --- |"]
    for one in chosen.offers:
        probability = "unknown" if one.p_solve is None else f"{one.p_solve:.2f}"
        rows.append(f"| {name(one.fixer)} | {probability} | {usd(one.cost_usd)} | {code(one.reason, 200)} |")
    return "\n".join(rows)


def _receipts(result: WorkResult) -> str:
    rows = [f"**Receipt.** {usd(result.cost_usd)} in all."]
    if result.rows:
        rows += [
            "",
            "| Stage | Model | Calls | Tokens in | Tokens out | Cost |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        rows += [_receipt(row) for row in result.rows]
    return "\n".join(rows)


def _receipt(row: ReceiptSummary) -> str:
    stage = f"{row.component} {name(row.fixer)}" if row.fixer else row.component
    counts = f"{row.calls} | {row.prompt_tokens} | {row.output_tokens}"
    return f"| {stage} | {name(row.model)} | {counts} | {usd(row.cost_usd)} |"


def _closing(result: WorkResult, place: CiEnvironment) -> str:
    run = f", run `{result.run}`" if result.run else ""
    return f"<sub>scrout {name(result.scrout)}{run}, [log]({place.run_url})</sub>"


def _booked(admission: Admission) -> str:
    if not admission.held_usd:
        return "It cost nothing."
    return f"What it cost is unknown, so {usd(admission.held_usd)} count for the day's budget."


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _more(count: int, shown: int) -> str:
    return f" and {count - shown} more" if count > shown else ""


def _still(text: str) -> str:
    return _ACTS.sub(_GAP, text)
