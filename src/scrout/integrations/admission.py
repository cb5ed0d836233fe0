"""`admit`: decides whether a label counts, and reserves its run's budget before anything is spent.

A label is an order to spend money on a stranger's text. Only people who may push can give it; they could also do so by
other means. The issue's author needs no rights, and gets none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from scrout.base import FrozenModel, TaskError
from scrout.integrations.budget import AlreadyWorked, DailyBudget, Day, Key, Spent
from scrout.integrations.event import Event, Person, digest
from scrout.integrations.forge import Forge, ForgeError
from scrout.integrations.markdown import code
from scrout.money import Usd
from scrout.task import issue_text
from scrout.text import usd

Verb = Literal["scout", "fix"]


@dataclass(frozen=True)
class LabelRules:
    """The workflow's rules for labels and people."""

    labels: Mapping[str, Verb] = field(default_factory=lambda: {"scrout": "scout", "scrout-fix": "fix"})
    people: frozenset[str] = frozenset()
    """Of those who may push, only these, in lower case; empty: all of them."""
    quiet_s: float = 60
    """If another person edited the issue within this time before the label, the person who added it may not have
    seen the edit.
    """


@dataclass(frozen=True)
class AcceptedLabel:
    """A label that counts."""

    verb: Verb
    label: str
    by: Person


@dataclass(frozen=True)
class RefusedLabel:
    """A label that does not count."""

    reason: str
    aloud: bool = False
    """True: comment on the issue, because a trusted person asked.

    Otherwise, anyone could make scrout write comments.
    """


def judge(event: Event, forge: Forge, rules: LabelRules) -> AcceptedLabel | RefusedLabel:
    """Judge a label by the forge's current state."""
    ours = [label for label in event.added if label in rules.labels]
    if not ours:
        return RefusedLabel(f"no label of ours was added; ours are {', '.join(map(code, rules.labels))}")
    # Both labels at once are an order to fix, which also scouts.
    label = max(ours, key=lambda one: rules.labels[one] == "fix")
    if event.is_pull:
        return RefusedLabel("the label is on a pull request, not on an issue")
    by = forge.labeller(event, label)
    if by is None:
        return RefusedLabel(
            f"the label {code(label)} is not on the issue any more, or the forge does not say who added it"
        )
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
        # The clock has seconds: an event in the same second may have come later.
        if edit.at >= event.at.replace(microsecond=0):
            return "the issue was edited after the label was added. Read it, take the label off and add it again."
        if event.at - edit.at < timedelta(seconds=rules.quiet_s):
            return (
                f"another person edited the issue less than {rules.quiet_s:g} seconds before the label was added, so "
                "it may not be what you read. Read it, take the label off and add it again."
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


Go = Literal["work", "say", "nothing"]
"""`say`: only comment with the reason. `nothing`: not even that."""


class Admission(FrozenModel):
    """The decision of `admit`. It is passed from job to job around `work`, so that `work` cannot change it."""

    version: Literal[1] = 1
    go: Go
    reason: Annotated[str, StringConstraints(max_length=1000)] = ""
    """The reason for a refusal, as Markdown by scrout; empty if there is work."""
    verb: Verb | None = None
    issue: int = Field(gt=0)
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the issue's text when the label was added."""
    label: Annotated[str, StringConstraints(max_length=255)] = ""
    by: Annotated[str, StringConstraints(max_length=300)] = ""
    key: Key
    held_usd: Usd = Field(default=Decimal(0), ge=0)
    day: Day | None = None
    """The day whose budget it uses; None: nothing is reserved."""

    def encode(self) -> str:
        """As one word of letters and digits, for an output or a variable."""
        return base64.urlsafe_b64encode(self.model_dump_json().encode()).decode().rstrip("=")


def decode(word: str) -> Admission:
    try:
        raw = base64.urlsafe_b64decode(word.strip() + "=" * (-len(word.strip()) % 4))
        return Admission.model_validate_json(raw)
    except (binascii.Error, ValueError, ValidationError):
        raise ForgeError("the admission cannot be read. Pass the output `admission` of the step `admit`.") from None


OpenBudget = Callable[[], AbstractContextManager[DailyBudget]]


def admit(
    event: Event, forge: Forge, rules: LabelRules, budget: OpenBudget, *, key: str, run_usd: Decimal, day_usd: Decimal
) -> Admission:
    """Judge the label and reserve its run's budget."""
    known = Admission(go="nothing", issue=event.number, digest=event.digest, key=key)
    found = judge(event, forge, rules)
    if isinstance(found, RefusedLabel):
        return known.model_copy(update={"go": "say" if found.aloud else "nothing", "reason": found.reason})
    asked = known.model_copy(update={"verb": found.verb, "label": found.label, "by": found.by.login})
    held: dict[str, object] = {"go": "work", "held_usd": run_usd}
    if run_usd > 0:  # a free run needs no budget, and no write access to one
        try:
            with budget() as book:
                held["day"] = book.hold(key, run_usd, day_usd, event.number)
        except Spent as error:
            reason = (
                f"{usd(error.remaining_usd)} of {usd(day_usd)} are left of today's budget, and a run may cost "
                f"{usd(run_usd)}. Add the label again after midnight UTC, or raise the budget in the workflow."
            )
            return asked.model_copy(update={"go": "say", "reason": reason})
        except AlreadyWorked:
            reason = "this run was worked on in an earlier attempt. Take the label off and add it again."
            return asked.model_copy(update={"go": "nothing", "reason": reason})
    return asked.model_copy(update=held)
