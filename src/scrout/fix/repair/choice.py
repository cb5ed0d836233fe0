"""Which of the edits that pass was meant, and when that cannot be told.

A reproduction and tests leave room: edits pass them that only hide the failure, or that happen to suit it. An edit that
is wrong costs a user more than none, so what cannot be told from an accident is not taken.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scrout.fix.repair.place import Edit

DOUBT: dict[str, float] = {
    "negation": 0.35,
    "arithmetic": 0.6,
    "condition": 0.5,
    "returned": 0.4,
    "only if": 0.4,
    "instead of none": 0.5,
    "exit": 0.6,
    "guard": 0.6,
    "early exit": 0.5,
    "reused": 0.6,
    "known number": 0.6,
    "variable": 0.8,
    "attribute": 0.8,
}
"""Kinds that suit one failing run by accident more often than others do, and how much less they count."""
DOUBTFUL = 0.6
"""A kind that counts so much or less is taken only if this much speaks for it:"""
LEAST_IN_DOUBT = 0.12
TAKES_AWAY = 0.5
"""How much less an edit counts that leaves nothing in the place of something,"""
SPECIAL_CASE = 0.3
"""one that brings a string from the reproduction that the file does not know,"""
UNTESTED = 0.7
"""and one at a statement that no passing test ran."""
MOST_PLACES = 3
LEAST_SHARE = 0.36
"""Of what speaks for the three best places, what must speak for the one that is taken: three equal ones say nothing."""


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


def standing(one: Survivor, spoken: Collection[str]) -> float:
    """What speaks for it, on the scale of its score, given the reproduction's strings; 0: too little."""
    edit = one.edit
    doubt = DOUBT["negation"] if _inverts(edit) else DOUBT.get(edit.kind, 1.0)
    weight = one.score * doubt
    if not edit.after.strip() and edit.kind not in ("off by one", "unneeded call"):
        weight *= TAKES_AWAY
    if any(f"{quote}{text}{quote}" in edit.after and text not in one.source for text in spoken for quote in "'\""):
        weight *= SPECIAL_CASE
    weight *= 1.0 if one.tested else UNTESTED
    return weight if doubt > DOUBTFUL or weight >= LEAST_IN_DOUBT else 0.0


def _inverts(edit: Edit) -> bool:
    """Whether it turns a condition into its opposite: then what ran does not run, and any failure there is gone."""
    before, after = (" ".join(text.split()) for text in (edit.before, edit.after))
    return {before, after} in ({"is", "is not"}, {"in", "not in"}, {"==", "!="}, {"True", "False"})


def best(survivors: Sequence[Survivor], standings: Sequence[float]) -> int | None:
    """The index of the one to take; None: there is none, or they are at too many places to tell.

    Several at one statement agree about the place, and count together for it.
    """
    places: dict[tuple[str, int], float] = {}
    for one, weight in zip(survivors, standings, strict=True):
        places[one.path, one.statement] = places.get((one.path, one.statement), 0.0) + weight
    total = sum(sorted(places.values())[-MOST_PLACES:])
    if not total:
        return None
    index = max(range(len(survivors)), key=lambda at: (standings[at], -at))
    chosen = survivors[index]
    return index if places[chosen.path, chosen.statement] >= LEAST_SHARE * total else None
