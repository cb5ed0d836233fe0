"""Fault localization: ranks statements by the lines that ran when the reproduction failed and when tests passed.

Suspicion is a ranking, not a probability. The traces come from inside the sandbox and may be forged. That only costs
time, because a suspect is just a place to try edits.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.fix.repair.source import Statement, statements
from scrout.fix.repair.spectrum import Spectrum
from scrout.handoff import Handoff
from scrout.sandbox.replay import ExecutionTrace, Raised

MOST_SUSPECTS = 400
"""More than any search reaches; a limit for hostile and huge repositories."""

HANDOFF_FILE = 1.5
"""Factor for statements in a file that the scout named,"""
HANDOFF_REGION = 2.0
"""or on the exact lines."""
ESCAPED = 3.0
"""Bonus for the frame that raised an exception which left the repository's code. Callers get less with distance."""
BRANCH = 0.9
"""Weight of a condition relative to the statements of its branch."""
MODULE_LEVEL = 0.2
"""Constants are wrong less often than code, every import runs them, and trying one takes an import."""


@dataclass(frozen=True)
class Suspect:
    """A statement that may be wrong."""

    path: str
    statement: Statement
    score: float
    """1 is the most suspicious statement of the repository."""

    @property
    def first_line(self) -> int:
        return self.statement.first_line

    @property
    def last_line(self) -> int:
        return self.statement.last_line


def rank(
    sources: Mapping[str, str],
    failing: ExecutionTrace,
    passing: Spectrum,
    handoff: Handoff,
    own: Collection[str] = (),
) -> tuple[Suspect, ...]:
    """The statements that ran in the failing run, most suspicious first. `own` are the reproduction's own files."""
    frames = escaped(failing.raised, own)
    scored: list[tuple[float, str, Statement]] = []
    for path, source in sources.items():
        ran, passed = failing.lines.get(path, frozenset()), passing.get(path, {})
        for statement in statements(source):
            lines = range(statement.first_line, statement.last_line + 1)
            if ran.isdisjoint(lines):
                continue
            score = max(_ochiai(_times(passed, lines)), BRANCH * _branch(statement.node, lines, ran, passed))
            score *= _named(handoff, path, lines) * _raised(frames, path, lines, _guarded(statement.node))
            scored.append((score if statement.function else score * MODULE_LEVEL, path, statement))
    scored.sort(key=lambda one: (-one[0], one[1], one[2].first_line))
    most = scored[0][0] if scored else 1.0
    return tuple(Suspect(path, statement, score / most) for score, path, statement in scored[:MOST_SUSPECTS])


def _ochiai(times_passed: int) -> float:
    """Ochiai's coefficient with one failing run."""
    return 1 / math.sqrt(1 + times_passed)


def _times(passed: Mapping[int, int], lines: Iterable[int]) -> int:
    return max(passed.get(line, 0) for line in lines)


def _branch(node: ast.stmt, lines: range, ran: frozenset[int], passed: Mapping[int, int]) -> float:
    """A condition is as suspicious as the branch it took: counts the passing tests that took the same branch."""
    if not isinstance(node, ast.If | ast.While | ast.For):
        return 0.0
    inside = range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1)
    entered = _times(passed, inside)
    if not ran.isdisjoint(inside):
        return _ochiai(entered)
    return _ochiai(max(0, _times(passed, lines) - entered)) if passed else 0.0


def escaped(raised: Sequence[Raised], own: Collection[str]) -> tuple[Raised, ...]:
    """The frames of the last exception that left the repository's code, innermost first; () if there was none."""
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


def _guarded(node: ast.stmt) -> range:
    """The lines of a `raise` that the condition guards: if the raise is wrong, so is the condition."""
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
        return range(node.body[-1].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1)
    return range(0)


def _raised(frames: Sequence[Raised], path: str, lines: range, guarded: range) -> float:
    for depth, frame in enumerate(frames):
        if frame.path == path and (frame.line in lines or frame.line in guarded):
            return 1 + (ESCAPED - 1) / (1 + depth)
    return 1.0
