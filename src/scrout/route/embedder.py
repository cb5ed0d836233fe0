"""The interface of embedders. A separate module, so that `scrout.route.embed` can import all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""One row per text."""

MAX_CHARS = 16_384
"""About the 4,096 tokens that a neural embedder of issues reads; later parts of longer texts are mostly logs."""


class Embedder(Protocol):
    """Turns texts into normalized rows, or zeros for a text without content."""

    @property
    def name(self) -> str:
        """Equal names guarantee equal vectors for equal texts, because résumés and heads depend on the embedder."""
        ...

    @property
    def size(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...
