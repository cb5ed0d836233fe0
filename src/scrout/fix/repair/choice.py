"""Which of the edits that pass was meant, and when that cannot be told.

A reproduction and tests leave room: edits pass them that only hide the failure, or that happen to suit it. An edit that
is wrong costs a user more than none, so what cannot be told from an accident is not proposed.
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
"""Kinds that suit one failing run by accident more often than others do, and how much less they count."""
DOUBTFUL = 0.6
"""A kind that counts so much or less is proposed only if this much speaks for it:"""
LEAST_IN_DOUBT = 0.12
TAKES_AWAY = 0.5
"""How much less an edit counts that leaves nothing in the place of something."""


_STRING = re.compile(r"(?<=['\"])[^'\"\n]+(?=['\"])")


@dataclass(frozen=True)
class Survivor:
    """An edit after which the reproduction passes."""

    path: str
    statement: int
    """First line of the statement that it changes."""
    source: str
    """Of the file, unedited."""
    edit: Edit
    score: float
    """How likely it was before anything was run."""
    tested: bool
    """A passing test runs the statement."""


def can_stand(one: Survivor, spoken: Collection[str]) -> float:
    """What speaks for it, at most its score, given the reproduction's strings; 0: it is not proposed."""
    edit = one.edit
    # What no passing test runs may be anything. What brings the reproduction's own words is made for it alone.
    if not one.tested or _is_special_case(one, spoken):
        return 0.0
    doubt = DOUBT["negation"] if _inverts(edit) else DOUBT.get(edit.kind, 1.0)
    weight = one.score * doubt
    if not edit.after.strip() and edit.kind not in ("off by one", "unneeded call"):
        weight *= TAKES_AWAY
    return weight if doubt > DOUBTFUL or weight >= LEAST_IN_DOUBT else 0.0


def _is_special_case(one: Survivor, spoken: Collection[str]) -> bool:
    """Whether it brings a string that the file does not know and the reproduction has, alone or within another."""
    brought = (text for text in _STRING.findall(one.edit.after) if text not in one.source)
    return any(text.lower() in said.lower() for text in brought for said in spoken)


def _inverts(edit: Edit) -> bool:
    """Whether it turns a condition into its opposite: then what ran does not run, and any failure there is gone."""
    before, after = (" ".join(text.split()) for text in (edit.before, edit.after))
    return {before, after} in ({"is", "is not"}, {"in", "not in"}, {"==", "!="}, {"True", "False"})
