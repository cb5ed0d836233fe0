"""Whether a label counts: who added it, to what, and whether the text is still the one that they saw.

A label is an order to spend money on a stranger's words. Whoever may push could give it by other means too; nobody else
can give it here. The issue's author needs no right at all, and gets none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from scrout.base import TaskError
from scrout.integrations.event import Event, Person, digest
from scrout.integrations.forge import Forge
from scrout.integrations.markdown import code
from scrout.task import issue_text

Verb = Literal["scout", "fix"]


@dataclass(frozen=True)
class LabelRules:
    """What the workflow says of labels and people."""

    labels: Mapping[str, Verb] = field(default_factory=lambda: {"scrout": "scout", "scrout-fix": "fix"})
    people: frozenset[str] = frozenset()
    """Of those who may push, only these, in lower case; empty: all of them."""
    quiet_s: float = 60
    """An edit by somebody else so shortly before the label may not have been seen by whoever added it."""


@dataclass(frozen=True)
class AcceptedLabel:
    """A label that counts."""

    verb: Verb
    label: str
    by: Person


@dataclass(frozen=True)
class RefusedLabel:
    """One that does not."""

    reason: str
    aloud: bool = False
    """True: said on the issue, since somebody trusted has asked. Others could make us write by asking."""


def judge(event: Event, forge: Forge, rules: LabelRules) -> AcceptedLabel | RefusedLabel:
    """Whether to work, by the forge's word of now."""
    ours = [label for label in event.added if label in rules.labels]
    if not ours:
        return RefusedLabel(f"no label of ours was added; ours are {', '.join(map(code, rules.labels))}")
    # Both at once is an order to fix, which scouts as well.
    label = max(ours, key=lambda one: rules.labels[one] == "fix")
    if event.is_pull:
        return RefusedLabel("the label is on a pull request, not on an issue")
    by = forge.labeller(event, label)
    if by is None:
        return RefusedLabel(f"the label {code(label)} is not on the issue any more, or nobody knows who added it")
    if by.is_bot:
        return RefusedLabel(f"{code(by.login)} is no person: a label of a program does not count")
    if rules.people and by.login.lower() not in rules.people:
        return RefusedLabel(f"{code(by.login)} is not among the people that the workflow names")
    if not forge.may_write(by):
        return RefusedLabel(f"{code(by.login)} may not push to the repository, so their label does not count")
    problem = _stale(event, forge, rules, by) or _unusable(event)
    return RefusedLabel(problem, aloud=True) if problem else AcceptedLabel(rules.labels[label], label, by)


def _stale(event: Event, forge: Forge, rules: LabelRules, by: Person) -> str:
    now = forge.issue(event.number)
    if not (event.is_open and now.is_open):
        return "the issue is closed. Open it and add the label again."
    if digest(now.title, now.body) != event.digest:
        return "the issue was edited after the label was added. Read it, take the label off and add it again."
    for edit in forge.edits(event):
        if edit.by.lower() == by.login.lower():
            continue
        # A clock of seconds: what came in the same one may have come after it.
        if edit.at >= event.at.replace(microsecond=0):
            return "the issue was edited after the label was added. Read it, take the label off and add it again."
        if event.at - edit.at < timedelta(seconds=rules.quiet_s):
            return (
                f"somebody else edited the issue less than {rules.quiet_s:g} seconds before the label was added, so it "
                "may not be what you read. Read it, take the label off and add it again."
            )
    return ""


def _unusable(event: Event) -> str:
    if event.is_confidential:
        return "the issue is confidential, and a comment or a branch could tell more people of it than it does."
    try:
        issue_text(event.text.encode(errors="surrogatepass"), "this event")
    except TaskError as error:
        return str(error)
    return ""
