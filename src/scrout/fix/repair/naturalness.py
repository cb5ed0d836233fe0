"""How usual a piece of code is in its project: an edit that repeats the project's habits is likelier to be right.

Counts words by the two words before them. It knows no types and resolves no names: a ranking, not a proof.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from keyword import iskeyword

from scrout.fix.repair.edit_site import Edit

_WORD = re.compile(
    r"[A-Za-z_]\w*|\d[\w.]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|\*\*=?|//=?|<<=?|>>=?|[=!<>+\-*/%&|^@:]=|->|\n[ \t]*|[^\s\w]"
)
_OWN = re.compile(r"[A-Za-z_\"']")
_COMMENT = re.compile(r"#[^\n]*")
WEIGHTS = (0.55, 0.3, 0.14)
"""Weights of the trigram, the bigram and the single word."""
NEVER = 1e-3
"""Minimum probability of a name or a string,"""
ANYWHERE = 0.05
"""and of a sign, a keyword or a number, which all projects share."""
AROUND = 60
"""Context of an edit in characters: enough for two words."""
USUALLY = 0.3
"""Value for code that is as usual as any."""


class Naturalness:
    """Word counts of the given sources."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.ones: Counter[str] = Counter()
        self.twos: Counter[tuple[str, str]] = Counter()
        self.threes: Counter[tuple[str, str, str]] = Counter()
        for source in sources:
            said = words(source)
            self.ones.update(said)
            self.twos.update(pairwise(said))
            self.threes.update(zip(said, said[1:], said[2:], strict=False))
        self.total = max(1, self.ones.total())

    def probability(self, first: str, second: str, word: str) -> float:
        """Probability of a word after two others."""
        three = self.threes[first, second, word] / max(1, self.twos[first, second])
        two = self.twos[second, word] / max(1, self.ones[second])
        by_three, by_two, by_one = WEIGHTS
        floor = NEVER if _OWN.match(word) and not iskeyword(word) else ANYWHERE
        return by_three * three + by_two * two + by_one * self.ones[word] / self.total + floor

    def usual(self, source: str, edit: Edit) -> float:
        """From 0 to 1: the geometric mean of the probabilities of the edit's words, and of the two after them."""
        before = _said(source[max(0, edit.start - AROUND) : edit.start])[-2:]
        after = _said(source[edit.end : edit.end + AROUND])[:2]
        old, new = _said(edit.before), _said(edit.after)
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        tail = 0
        while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        said = (*before, *new, *after)
        last = min(len(said), len(before) + len(new) - tail + 2)
        probabilities = [
            self.probability(said[at - 2], said[at - 1], said[at]) for at in range(max(2, len(before) + same), last)
        ]
        return min(1.0, _mean(probabilities) / USUALLY) if probabilities else NEVER


def _mean(probabilities: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, probabilities)) / len(probabilities))


def words(source: str) -> list[str]:
    """Names, numbers, strings, signs and line starts; no comments."""
    return ["\n" if word[0] == "\n" else word for word in _WORD.findall(_COMMENT.sub("", source))]


@lru_cache(maxsize=16384)
def _said(source: str) -> tuple[str, ...]:
    return tuple(words(source))
