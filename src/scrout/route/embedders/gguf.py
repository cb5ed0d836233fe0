"""Any embedding model in a GGUF file, on llama.cpp. The file contains its tokenizer and its pooling."""

from __future__ import annotations

import atexit
import secrets
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from scrout.base import RouteError
from scrout.config.folders import cache_folder
from scrout.config.settings import EmbedderSettings
from scrout.models import local_server
from scrout.models.local_server import ServedModel
from scrout.route import model_files
from scrout.route.embedder import Embedder, Vectors
from scrout.route.embedders.endpoint import EndpointEmbedder
from scrout.route.embedding_cache import CachedEmbedder
from scrout.sandbox.workspace import private_folder

CONTEXT_TOKENS = 4096
"""Longer texts are cut to fit."""


class GgufEmbedder:
    """The server starts at the first text and ends with this process."""

    def __init__(self, settings: EmbedderSettings) -> None:
        path = Path(settings.path).expanduser()
        if not settings.path or not path.is_file():
            raise RouteError(
                f'route.embedder.kind is "gguf", and its path {settings.path!r} is not a file. Set it to a model '
                f"file that ends in .gguf."
            )
        if lacking := model_files.missing(["xllamacpp"]):
            raise RouteError(
                f'route.embedder.kind is "gguf" and needs {lacking[0]}, not installed here. {local_server.INSTALL}'
            )
        self._model = ServedModel(
            path=str(path.resolve()),
            context_tokens=CONTEXT_TOKENS,
            embedding=True,
            pooling=settings.pooling,
            key=secrets.token_urlsafe(24),
        )

    @cached_property
    def name(self) -> str:
        pooling = f"-{self._model.pooling}" if self._model.pooling else ""
        return f"gguf-{model_files.digest([Path(self._model.path)])[:8]}{pooling}"

    @property
    def size(self) -> int:
        return self._endpoint.size

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._endpoint.embed(texts)

    @cached_property
    def _endpoint(self) -> EndpointEmbedder:
        server = local_server.start(self._model, private_folder(cache_folder() / "embedders") / "llama.log")
        atexit.register(local_server.stop, server.process)
        return EndpointEmbedder(
            server.base_url, Path(self._model.path).name, self._model.key, name=self.name, own_server=True
        )


def open_embedder(settings: EmbedderSettings) -> Embedder:
    return CachedEmbedder(GgufEmbedder(settings))


PART = open_embedder
