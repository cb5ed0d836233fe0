"""Turns texts into vectors without a model: no download, no dependency, no understanding of meaning."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from scrout.config.settings import EmbedderSettings
from scrout.route.embedder import MAX_CHARS, Embedder, Vectors

NGRAM_CHARS = 4

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


class HashedEmbedder:
    """A simple embedder of lexical similarity: two texts are close if they share words, identifier parts or spelling.

    It does not understand meaning: "crash" and "segmentation fault" are unrelated. Word order is lost, common words
    count as much as rare ones, and many features share one of the 512 numbers. A text without a word gives zeros.
    """

    name = "hashed-512-1"
    size = 512

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self._embed(text)
        return rows

    def _embed(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        for feature, count in Counter(_features(text[:MAX_CHARS])).items():
            # Python's own hash differs between processes.
            digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
            sign = 1.0 if digest >> 63 else -1.0
            vector[digest % self.size] += sign * (1.0 + math.log(count))
        length = math.sqrt(math.fsum(value * value for value in vector))
        return [value / length for value in vector] if length else vector


def _features(text: str) -> Iterator[str]:
    """A part of an identifier is the same feature as the plain word, so that `parse_config` matches "parse"."""
    for word in _WORD.findall(text):
        lower = word.lower()
        yield f"word {lower}"
        parts = _PART.findall(word)
        if len(parts) > 1:
            for part in parts:
                yield f"word {part.lower()}"
        padded = f"<{lower}>"
        for start in range(len(padded) - NGRAM_CHARS + 1):
            yield f"gram {padded[start : start + NGRAM_CHARS]}"


def open_embedder(settings: EmbedderSettings) -> Embedder:
    """Needs no settings, and is faster than a cache."""
    return HashedEmbedder()


PART = open_embedder
