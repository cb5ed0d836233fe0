"""From clues to a ranking: a weighted sum, a confidence, a cut, and the regions that the clues point at.

The confidence is a fixed logistic curve over the sum. It orders files and is not calibrated: 0.8 is not a promise that
four of five such files are changed by the fix.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scrout.index.files import Role
from scrout.index.repository import Repository
from scrout.scout.recon.evidence import WEIGHTS, Clue, ClueKind

DAMPING: dict[Role, float] = {
    "source": 1.0,
    "config": 0.6,  # named outright it still leads; words alone are chance
    "data": 0.4,
    "test": 0.3,  # a test shares every word with the bug, and the fix is elsewhere
    "example": 0.3,
    "docs": 0.25,
    "changelog": 0.1,  # talks about everything
}
"""What a clue counts in a file of each role."""

SATURATION = 1.5
"""Many clues of one kind count at most as this many full ones: ten names of one file are not ten reasons."""

MIDPOINT, SLOPE = 4.0, 0.8
"""Half confidence at the weight of one outright naming; each further unit counts by the slope."""

STEEPEST_DROP = 0.5
"""The list ends before a file with less than this share of the confidence before it..."""
LOWEST_SHARE = 0.25
"""...or less than this share of the first one's."""

MAX_REGIONS = 3


@dataclass(frozen=True)
class Ranked:
    """A file with what speaks for it, strongest clue first."""

    path: str
    score: float
    confidence: float
    clues: tuple[Clue, ...]


def rank(clues: Iterable[Clue], repository: Repository) -> tuple[Ranked, ...]:
    """Every file that a clue points at, best first. Without any clue, every file at the lowest confidence."""
    by_path: dict[str, list[Clue]] = defaultdict(list)
    for clue in clues:
        by_path[clue.path].append(clue)
    ranked = []
    for path in by_path or repository.files:
        own = tuple(sorted(by_path.get(path, ()), key=lambda clue: (-clue.weight, clue.kind, clue.words)))
        score = DAMPING[repository.files[path].role] * _sum(own)
        ranked.append(Ranked(path, score, 1 / (1 + math.exp(-SLOPE * (score - MIDPOINT))), own))
    return tuple(sorted(ranked, key=lambda file: (-file.score, file.path)))


def _sum(clues: Iterable[Clue]) -> float:
    by_kind: dict[ClueKind, float] = defaultdict(float)
    for clue in clues:
        by_kind[clue.kind] += clue.weight
    return math.fsum(min(total, SATURATION * WEIGHTS[kind]) for kind, total in by_kind.items())


def cut(ranked: tuple[Ranked, ...], max_files: int) -> tuple[Ranked, ...]:
    """The files to hand on: at least one where there is one, at most `max_files`, none after a sharp drop."""
    kept = ranked[:1]
    for file in ranked[1:max_files]:
        if file.confidence < max(STEEPEST_DROP * kept[-1].confidence, LOWEST_SHARE * kept[0].confidence):
            break
        kept = (*kept, file)
    return kept


def regions(file: Ranked) -> tuple[tuple[int, int], ...]:
    """The lines that clues point at, at most three spans, in the order of the file; empty: the whole file."""
    weights: dict[tuple[int, int], float] = defaultdict(float)
    for clue in file.clues:
        if clue.lines is not None:
            weights[clue.lines] += clue.weight
    chosen: list[tuple[int, int]] = []
    for first, last in sorted(weights, key=lambda span: (-weights[span], span)):
        # A class around a method that a clue points at would only widen the view.
        if len(chosen) < MAX_REGIONS and not any(
            (a, b) != (first, last) and first <= a and b <= last for a, b in weights
        ):
            chosen.append((first, last))
    return tuple(sorted(chosen))


def entropy(ranked: tuple[Ranked, ...]) -> float:
    """How spread the confidence is: 0 for one file, 1 for all alike."""
    total = math.fsum(file.confidence for file in ranked)
    if len(ranked) < 2:
        return 0.0
    shares = [file.confidence / total for file in ranked]
    return -math.fsum(share * math.log(share) for share in shares if share) / math.log(len(ranked))
