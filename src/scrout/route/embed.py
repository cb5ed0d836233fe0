"""Text as a vector. An Embedder is the seam; HashedEmbedder is the one that needs no download."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""One row a text."""

MAX_CHARS = 16_384
"""About the 4,096 tokens that a neural embedder of issues reads; what follows in a longer text is mostly logs."""

NGRAM_CHARS = 4

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


class Embedder(Protocol):
    """Turns texts into rows of length one, or of zeros where a text holds nothing to embed."""

    name: str
    """Equal names promise equal vectors for equal texts: résumés and heads are tied to it."""
    size: int

    def embed(self, texts: Sequence[str]) -> Vectors: ...


class HashedEmbedder:
    """A first embedder, of lexical similarity: two texts are close when they share words, identifier parts or spelling.

    It knows no meaning: "crash" and "segmentation fault" are unrelated to it, word order is lost, common words count as
    much as rare ones, and of 512 numbers many features share one. A text without a word gives zeros.
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
            # Python's own hash differs from process to process.
            digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
            sign = 1.0 if digest >> 63 else -1.0
            vector[digest % self.size] += sign * (1.0 + math.log(count))
        length = math.sqrt(math.fsum(value * value for value in vector))
        return [value / length for value in vector] if length else vector


def _features(text: str) -> Iterator[str]:
    """A part of an identifier is the same feature as the plain word, so that `parse_config` meets "parse"."""
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
