"""Fault localization: which statements to suspect, from what ran when the reproduction failed and when tests passed.

Suspicion is a ranking, not a probability. What ran is reported from inside the sandbox and may be forged; that costs
time and no more, because a suspect is only a place to try edits at.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.fix.edits import Statement, statements
from scrout.handoff import Handoff
from scrout.sandbox.replay import Raised, Witness

MOST_SUSPECTS = 200
"""More than a search gets to; a bound for the hostile and the huge."""

HANDOFF_FILE = 1.5
"""How much more a statement is suspected when the scout named its file,"""
HANDOFF_REGION = 2.0
"""or the very lines."""
ESCAPED = 3.0
"""When an exception left the repository's code: the frame that raised it. Its callers get less, the farther away."""
MODULE_LEVEL = 0.5
"""Constants are wrong less often than code, and every import runs them."""


@dataclass(frozen=True)
class Suspect:
    """A statement that may be wrong."""

    path: str
    first_line: int
    last_line: int
    score: float
    """1 is the most suspected one of the repository."""


def rank(
    sources: Mapping[str, str],
    failing: Witness,
    passing: Sequence[Witness],
    handoff: Handoff,
    own: Collection[str] = (),
) -> tuple[Suspect, ...]:
    """The statements that ran in the failing run, most suspected first. `own` are the reproduction's own files."""
    frames = escaped(failing.raised, own)
    scored: list[tuple[float, str, Statement]] = []
    for path, source in sources.items():
        ran = failing.lines.get(path, frozenset())
        for statement in statements(source):
            lines = range(statement.first_line, statement.last_line + 1)
            if ran.isdisjoint(lines):
                continue
            times_passed = sum(not run.lines.get(path, frozenset()).isdisjoint(lines) for run in passing)
            # Ochiai's coefficient with one failing run.
            score = 1 / math.sqrt(1 + times_passed)
            score *= _named(handoff, path, lines) * _raised(frames, path, lines)
            scored.append((score if statement.function else score * MODULE_LEVEL, path, statement))
    scored.sort(key=lambda one: (-one[0], one[1], one[2].first_line))
    most = scored[0][0] if scored else 1.0
    return tuple(
        Suspect(path, statement.first_line, statement.last_line, score / most)
        for score, path, statement in scored[:MOST_SUSPECTS]
    )


def escaped(raised: Sequence[Raised], own: Collection[str]) -> tuple[Raised, ...]:
    """The frames that the last exception to leave the repository's code passed, innermost first; () if none did."""
    outside = [one for one in raised if one.path in own] if own else list(raised)
    if not outside:
        return ()
    last = outside[-1]
    return tuple(one for one in raised if (one.type, one.message) == (last.type, last.message) and one.path not in own)


def _named(handoff: Handoff, path: str, lines: range) -> float:
    for file in handoff.files:
        if str(PurePosixPath(file.path)) == path:
            here = any(first <= lines[-1] and lines[0] <= last for first, last in file.regions)
            return HANDOFF_REGION if here else HANDOFF_FILE
    return 1.0


def _raised(frames: Sequence[Raised], path: str, lines: range) -> float:
    for depth, frame in enumerate(frames):
        if frame.path == path and frame.line in lines:
            return 1 + (ESCAPED - 1) / (1 + depth)
    return 1.0
