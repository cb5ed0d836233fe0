"""`admit`: whether a label counts, and the dollars that its run may cost, held before anything is spent."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from scrout.base import FrozenModel
from scrout.integrations.budget import AlreadyWorked, DailyBudget, Day, Key, Spent
from scrout.integrations.event import Event
from scrout.integrations.forge import Forge, ForgeError
from scrout.integrations.label_rules import LabelRules, RefusedLabel, Verb, judge
from scrout.money import Usd
from scrout.text import usd

Go = Literal["work", "say", "nothing"]
"""`say`: there is only a reason to tell on the issue. `nothing`: not even that."""


class Admission(FrozenModel):
    """What `admit` decided. It goes from job to job past `work`, which therefore cannot change it."""

    version: Literal[1] = 1
    go: Go
    reason: Annotated[str, StringConstraints(max_length=1000)] = ""
    """Why not, as Markdown of ours; empty where there is work."""
    verb: Verb | None = None
    issue: int = Field(gt=0)
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """Of the issue's text as it was when the label came."""
    label: Annotated[str, StringConstraints(max_length=255)] = ""
    by: Annotated[str, StringConstraints(max_length=300)] = ""
    key: Key
    held_usd: Usd = Field(default=Decimal(0), ge=0)
    day: Day | None = None
    """The day that it counts for; None: nothing is held."""

    def encode(self) -> str:
        """One word of letters and digits, for an output or a variable."""
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
    """Judge the label and hold what its run may cost."""
    known = Admission(go="nothing", issue=event.number, digest=event.digest, key=key)
    found = judge(event, forge, rules)
    if isinstance(found, RefusedLabel):
        return known.model_copy(update={"go": "say" if found.aloud else "nothing", "reason": found.reason})
    asked = known.model_copy(update={"verb": found.verb, "label": found.label, "by": found.by.login})
    held: dict[str, object] = {"go": "work", "held_usd": run_usd}
    if run_usd > 0:  # what costs nothing needs no budget, and no right to write one
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
