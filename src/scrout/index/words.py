"""The words of a text: its identifiers and their parts, in lower case."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

MAX_WORDS = 5_000
"""Maximum number of distinct words per file: only word lists and tables have more."""

_IDENTIFIER = re.compile(r"[^\W\d]\w{1,79}")
# The same for plain text, which takes half the time.
_ASCII_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{1,79}")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+")


def count_words(text: str) -> dict[str, int]:
    """Lower-case identifiers and their parts, with counts."""
    pattern = _ASCII_IDENTIFIER if text.isascii() else _IDENTIFIER
    counts: dict[str, int] = {}
    for identifier, count in Counter(pattern.findall(text)).items():
        for word in split_identifier(identifier):
            counts[word] = counts.get(word, 0) + count
    return dict(Counter(counts).most_common(MAX_WORDS)) if len(counts) > MAX_WORDS else counts


@lru_cache(maxsize=200_000)
def split_identifier(identifier: str) -> tuple[str, ...]:
    """An identifier and its parts by case and underscore: `parseHTML_page` gives itself, parse, html and page."""
    parts = [part.lower() for part in _PART.findall(identifier) if len(part) > 1]
    whole = identifier.lower()
    return tuple(dict.fromkeys((whole, *parts)))
