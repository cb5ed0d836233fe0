"""The paper's embedder of issues: Qwen3-Embedding, frozen, the state of the last token, no instruction before the text.

The checkpoint's folder is always needed: its digest is the embedder's name, and its tokenizer cuts the text. Either
transformers runs the weights in this process, or a vLLM server does. The server gets the tokens made here, because
servers differ in which end of a long text they cut. Both agree except for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from scrout.base import RouteError
from scrout.config.settings import EmbedderSettings
from scrout.route import model_files
from scrout.route.embedder import Embedder, Vectors
from scrout.route.embedder_account import QWEN3
from scrout.route.embedders.endpoint import EndpointEmbedder
from scrout.route.embedding_cache import CachedEmbedder

REVISION = "97b0c614be4d77ee51c0cef4e5f07c00f9eb65b3"
"""The released router's revision; it gives 1,024 numbers."""
MAX_TOKENS = 4096
"""Of a text, including the closing token; the rest is not read."""
MAX_CHARS = 32 * MAX_TOKENS
"""No ordinary text of this length has fewer than MAX_TOKENS tokens; a log of megabytes is cut before it is
tokenized.
"""
MODEL_TYPE = "qwen3"
DOWNLOAD = (
    f"Get it with: hf download {QWEN3} --revision {REVISION} --local-dir qwen3-embedding, and set "
    "route.embedder.checkpoint to that folder."
)
INSTALL = (
    "Install it with: pip install 'scrout[states]' (for a machine without a GPU, torch's CPU build first). Or serve "
    f"the model: vllm serve qwen3-embedding --runner pooling --served-model-name {QWEN3}, and set "
    "route.embedder.base_url."
)
INSTALL_TOKENIZER = "Install it with: pip install 'scrout[tokenizer]'"


def open_embedder(settings: EmbedderSettings) -> Embedder:
    """With transformers, or with the server at base_url if there is one."""
    folder = Path(settings.checkpoint).expanduser()
    if not settings.checkpoint or not folder.is_dir():
        raise RouteError(
            f'route.embedder.kind is "qwen3", and its checkpoint {settings.checkpoint!r} is not a folder. {DOWNLOAD}'
        )
    needed = ("tokenizers",) if settings.base_url else ("torch", "transformers", "tokenizers")
    if lacking := model_files.missing(needed):
        install = INSTALL_TOKENIZER if settings.base_url else INSTALL
        raise RouteError(
            f'route.embedder.kind is "qwen3" and needs {", ".join(lacking)}, not installed here. {install}'
        )
    own = Qwen3Embedder(folder)
    if not settings.base_url:
        return CachedEmbedder(own)
    served = EndpointEmbedder(
        settings.base_url,
        settings.model or QWEN3,
        settings.key(),
        name=own.name,
        size=own.size,
        tokenize=own.tokens_of,
        price=settings.price,
    )
    return CachedEmbedder(served)


class Qwen3Embedder:
    """One checkpoint with transformers, on the GPU if there is one. Texts are processed one by one, without padding."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def name(self) -> str:
        """Includes the tokenizer: earlier revisions differ from the pinned one only in the closing token."""
        files = [self.folder / "config.json", self.folder / "tokenizer.json", *self.folder.glob("*.safetensors")]
        if len(files) < 3:
            raise RouteError(f"{self.folder} has no *.safetensors. {DOWNLOAD}")
        return f"qwen3-embedding-{MAX_TOKENS}-{model_files.digest(files)[:8]}"

    @cached_property
    def size(self) -> int:
        path = self.folder / "config.json"
        try:
            config = _Config.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise RouteError(f"{path} is not a model's configuration: {error}. {DOWNLOAD}") from None
        if config.model_type != MODEL_TYPE:
            raise RouteError(
                f"{path} is of a {config.model_type!r} model, not {MODEL_TYPE!r}: its pooling is unknown. {DOWNLOAD}"
            )
        return config.hidden_size

    def tokens_of(self, text: str) -> list[int]:
        """The tokens that the model reads: the text's first ones and the closing one. None for a text of spaces."""
        return model_files.tokens_of(self._tokenizer, text[:MAX_CHARS]) if text.strip() else []

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if ids := self.tokens_of(text):
                row[:] = self._last_state(ids)
        return rows

    def _last_state(self, ids: Sequence[int]) -> Vectors:
        """The normalized state of the last token, which has seen all others."""
        import torch

        with torch.inference_mode():
            tokens = torch.tensor([ids], device=self._model.device)
            state = self._model(input_ids=tokens, use_cache=False).last_hidden_state[0, -1]
        row: Vectors = state.float().cpu().numpy()
        length = float(np.linalg.norm(row))
        if not np.isfinite(length) or length == 0:
            raise RouteError(f"{self.folder} gives a vector without a length. {DOWNLOAD}")
        return row / np.float32(length)

    @cached_property
    def _tokenizer(self) -> Any:
        return model_files.open_tokenizer(self.folder / "tokenizer.json", MAX_TOKENS)

    @cached_property
    def _model(self) -> Any:
        import torch
        from transformers import AutoModel
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        try:
            model = AutoModel.from_pretrained(
                str(self.folder), local_files_only=True, trust_remote_code=False, dtype=torch.float32
            )
        except Exception as error:  # the library guarantees no types
            raise RouteError(f"transformers cannot load {self.folder}: {error!s:.300}. {DOWNLOAD}") from None
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


class _Config(BaseModel):
    model_type: str
    hidden_size: int


PART = open_embedder
