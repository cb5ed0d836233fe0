"""Chooses between edits that pass, and decides when no choice is justified.

A reproduction and tests leave room: some edits only hide the failure, or fit it by accident. A wrong edit costs a user
more than none, so an edit that could be an accident is not proposed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from scrout.fix.repair.edit_site import Edit

DOUBT: dict[str, float] = {
    "negation": 0.35,
    "arithmetic": 0.6,
    "default": 0.5,
    "reused": 0.6,
    "known number": 0.6,
    "variable": 0.8,
    "attribute": 0.8,
}
"""Factors for kinds that often fit one failing run by accident."""
DOUBTFUL = 0.6
"""Kinds with a factor this low are proposed only with at least this score:"""
LEAST_IN_DOUBT = 0.12
TAKES_AWAY = 0.5
"""Factor for an edit that removes something without a replacement."""


_STRING = re.compile(r"(?<=['\"])[^'\"\n]+(?=['\"])")


@dataclass(frozen=True)
class Survivor:
    """An edit after which the reproduction passes."""

    path: str
    statement: int
    """First line of the statement that it changes."""
    source: str
    """Source of the file, unedited."""
    edit: Edit
    score: float
    """Its probability before any run."""
    tested: bool
    """A passing test executes the statement."""


def can_stand(one: Survivor, spoken: Collection[str]) -> float:
    """Its score, given the reproduction's strings; 0: do not propose it."""
    edit = one.edit
    # A statement that no passing test executes could be anything. An edit with the reproduction's own strings only fits
    # that one case.
    if not one.tested or _is_special_case(one, spoken):
        return 0.0
    doubt = DOUBT["negation"] if _inverts(edit) else DOUBT.get(edit.kind, 1.0)
    weight = one.score * doubt
    if not edit.after.strip() and edit.kind not in ("off by one", "unneeded call"):
        weight *= TAKES_AWAY
    return weight if doubt > DOUBTFUL or weight >= LEAST_IN_DOUBT else 0.0


def _is_special_case(one: Survivor, spoken: Collection[str]) -> bool:
    """Whether it adds a string that the reproduction has and the file does not, alone or within another."""
    brought = (text for text in _STRING.findall(one.edit.after) if text not in one.source)
    return any(text.lower() in said.lower() for text in brought for said in spoken)


def _inverts(edit: Edit) -> bool:
    """Whether it inverts a condition: then the code of that branch no longer runs, and any failure there disappears."""
    before, after = (" ".join(text.split()) for text in (edit.before, edit.after))
    return {before, after} in ({"is", "is not"}, {"in", "not in"}, {"==", "!="}, {"True", "False"})
