"""What every embedder is. It lies below them, so that `scrout.route.embed` can name them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""One row a text."""

MAX_CHARS = 16_384
"""About the 4,096 tokens that a neural embedder of issues reads; what follows in a longer text is mostly logs."""


class Embedder(Protocol):
    """Turns texts into rows of length one, or of zeros where a text holds nothing to embed."""

    @property
    def name(self) -> str:
        """Equal names promise equal vectors for equal texts: résumés and heads are tied to it."""
        ...

    @property
    def size(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...
