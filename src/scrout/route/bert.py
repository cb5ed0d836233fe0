"""A BERT encoder in numpy: turns a text's token numbers into a normalized vector. No torch, no graph, no runtime."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError

from scrout.base import RouteError
from scrout.route.embedder import Vectors

Weights = Mapping[str, Vectors]

MAX_HEADER_BYTES = 10_000_000

_AGAIN = "Install the package that it came with again."


class BertShape(BaseModel):
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float
    max_position_embeddings: int


def read_shape(path: Path) -> BertShape:
    try:
        return BertShape.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RouteError(f"{path} is not a BERT's configuration: {error}. {_AGAIN}") from None


def read_weights(path: Path) -> Weights:
    """Read the single-precision arrays of a safetensors file: a length, a table in JSON, then the numbers."""
    try:
        content = path.read_bytes()
        (size,) = struct.unpack_from("<Q", content)
        if size > MAX_HEADER_BYTES:
            raise ValueError(f"a table of {size:,} bytes")
        table = json.loads(content[8 : 8 + size])
        return {
            name: _array(content, 8 + size, entry["shape"], *entry["data_offsets"])
            for name, entry in table.items()
            if name != "__metadata__" and entry["dtype"] == "F32"
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        raise RouteError(f"{path} is not a readable safetensors file: {error}. {_AGAIN}") from None


def _array(content: bytes, base: int, shape: Sequence[int], start: int, end: int) -> Vectors:
    if not 0 <= start <= end or end - start != 4 * math.prod(shape):
        raise ValueError(f"bytes {start} to {end} for the shape {shape}")
    return np.frombuffer(content, dtype="<f4", count=math.prod(shape), offset=base + start).reshape(shape)


class Encoder:
    """The normalized mean of the last layer's tokens."""

    def __init__(self, shape: BertShape, weights: Weights) -> None:
        self._shape = shape
        self._weights = weights

    def encode(self, ids: Sequence[int]) -> Vectors:
        hidden = self._array("embeddings.word_embeddings.weight")[list(ids)]
        hidden = hidden + self._array("embeddings.position_embeddings.weight")[: len(ids)]
        # All tokens are of the first type.
        hidden = self._norm(hidden + self._array("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        for number in range(self._shape.num_hidden_layers):
            layer = f"encoder.layer.{number}"
            seen = self._dense(self._attention(hidden, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
            hidden = self._norm(seen + hidden, f"{layer}.attention.output.LayerNorm")
            wide = _gelu(self._dense(hidden, f"{layer}.intermediate.dense"))
            hidden = self._norm(self._dense(wide, f"{layer}.output.dense") + hidden, f"{layer}.output.LayerNorm")
        mean: Vectors = hidden.mean(axis=0)
        return mean / np.float32(np.linalg.norm(mean))

    def _attention(self, hidden: Vectors, name: str) -> Vectors:
        tokens, size = hidden.shape
        heads = self._shape.num_attention_heads
        query, key, value = (
            self._dense(hidden, f"{name}.{part}").reshape(tokens, heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(size // heads))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        seen: Vectors = scores / scores.sum(axis=-1, keepdims=True) @ value
        return seen.transpose(1, 0, 2).reshape(tokens, size)

    def _dense(self, hidden: Vectors, name: str) -> Vectors:
        return hidden @ self._array(f"{name}.weight").T + self._array(f"{name}.bias")

    def _norm(self, hidden: Vectors, name: str) -> Vectors:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(self._shape.layer_norm_eps))
        normed: Vectors = centred / spread * self._array(f"{name}.weight") + self._array(f"{name}.bias")
        return normed

    def _array(self, name: str) -> Vectors:
        if name not in self._weights:
            raise RouteError(f"the weights have no array {name}: they are not a BERT encoder's. {_AGAIN}")
        return self._weights[name]


def _gelu(x: Vectors) -> Vectors:
    """x times the normal distribution function of x.

    numpy has no error function; this approximation is off by at most 1.5e-7 (Abramowitz and Stegun, 7.1.26).
    """
    z = np.abs(x) / np.float32(math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * z)
    terms = np.polyval(np.array([1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0], x.dtype), t)
    above = terms * np.exp(-z * z) / 2
    result: Vectors = x * np.where(x < 0, above, 1 - above)
    return result
