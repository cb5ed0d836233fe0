"""A BERT encoder's weights as one ONNX graph, built node by node: texts' token numbers in, rows of length one out.

Masked tokens neither are looked at nor count in the mean. Needs `onnx`; no torch, and nothing is traced.
"""

from __future__ import annotations

import importlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from scrout.base import RouteError

Weights = Mapping[str, npt.NDArray[np.float32]]

OPSET = 20
"""The first with Gelu as one operator."""
IR_VERSION = 9
"""As old as the opset: older runtimes refuse a newer one."""
MASKED = -1e9
"""Added to a masked token's score; its share is then exactly zero."""
MAX_HEADER_BYTES = 10_000_000

_AGAIN = "Install the package that it came with again."


class BertShape(BaseModel):
    """What the graph takes from a checkpoint's config.json."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float
    max_position_embeddings: int


def read_shape(path: Path) -> BertShape:
    """From config.json."""
    try:
        return BertShape.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RouteError(f"{path} is not a BERT's configuration: {error}. {_AGAIN}") from None


def read_weights(path: Path) -> Weights:
    """The single-precision arrays of a safetensors file: a length, a table in JSON, then the numbers."""
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


def _array(content: bytes, base: int, shape: Sequence[int], start: int, end: int) -> npt.NDArray[np.float32]:
    if not 0 <= start <= end or end - start != 4 * math.prod(shape):
        raise ValueError(f"bytes {start} to {end} for the shape {shape}")
    return np.frombuffer(content, dtype="<f4", count=math.prod(shape), offset=base + start).reshape(shape)


def build(shape: BertShape, weights: Weights) -> Any:
    """The encoder as an onnx.ModelProto: `ids` and `mask`, a row a text, give `vectors`."""
    graph = _Graph(weights, shape.layer_norm_eps)
    bias = graph.op("Cast", "mask", to=1)
    bias = graph.op("Mul", graph.op("Sub", graph.constant(1.0), bias), graph.constant(MASKED))
    bias = graph.op("Unsqueeze", bias, graph.constant([1, 2]))
    hidden = _embeddings(graph)
    for number in range(shape.num_hidden_layers):
        hidden = _layer(graph, f"encoder.layer.{number}", hidden, bias, shape)
    _pooled(graph, hidden)
    return graph.model(shape.hidden_size)


class _Graph:
    """Nodes and constants in the order of their making, which is an order that ONNX accepts."""

    def __init__(self, weights: Weights, epsilon: float) -> None:
        self.helper: Any = importlib.import_module("onnx.helper")
        self.numpy: Any = importlib.import_module("onnx.numpy_helper")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._weights = weights
        self._epsilon = epsilon

    def weight(self, name: str) -> npt.NDArray[np.float32]:
        if name not in self._weights:
            raise RouteError(f"the weights have no array {name}: they are not a BERT encoder's. {_AGAIN}")
        return self._weights[name]

    def constant(self, value: npt.ArrayLike) -> str:
        array = np.asarray(value)
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        name = f"c{len(self.constants)}"
        self.constants.append(self.numpy.from_array(np.ascontiguousarray(array, dtype=kind), name))
        return name

    def op(self, kind: str, *inputs: str, output: str = "", **attributes: object) -> str:
        """One node with one output, whose name it returns."""
        name = output or f"n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, hidden: str, *names: str, factors: Sequence[float] = (1.0,)) -> str:
        """Dense layers side by side: one product instead of several. A factor scales what its layer gives."""
        scaled = list(zip(names, factors, strict=True))
        matrix = np.concatenate([self.weight(f"{name}.weight").T * factor for name, factor in scaled], axis=1)
        offset = np.concatenate([self.weight(f"{name}.bias") * factor for name, factor in scaled])
        return self.op("Add", self.op("MatMul", hidden, self.constant(matrix)), self.constant(offset))

    def norm(self, hidden: str, name: str) -> str:
        scale, offset = (self.constant(self.weight(f"{name}.{part}")) for part in ("weight", "bias"))
        return self.op("LayerNormalization", hidden, scale, offset, axis=-1, epsilon=self._epsilon)

    def model(self, size: int) -> Any:
        tensor = self.helper.make_tensor_value_info
        inputs = [tensor(name, 7, ["texts", "tokens"]) for name in ("ids", "mask")]
        outputs = [tensor("vectors", 1, ["texts", size])]
        graph = self.helper.make_graph(self.nodes, "encoder", inputs, outputs, self.constants)
        opset = self.helper.make_opsetid("", OPSET)
        return self.helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def _embeddings(graph: _Graph) -> str:
    words = graph.op("Gather", graph.constant(graph.weight("embeddings.word_embeddings.weight")), "ids")
    # All tokens are of the first type, so its vector is part of every position's.
    types = graph.weight("embeddings.token_type_embeddings.weight")
    positions = graph.constant(graph.weight("embeddings.position_embeddings.weight") + types[0])
    tokens = graph.op("Shape", "ids", start=1, end=2)
    positions = graph.op("Slice", positions, graph.constant([0]), tokens, graph.constant([0]))
    return graph.norm(graph.op("Add", words, positions), "embeddings.LayerNorm")


def _layer(graph: _Graph, name: str, hidden: str, bias: str, shape: BertShape) -> str:
    own = f"{name}.attention.self"
    head = shape.hidden_size // shape.num_attention_heads
    joined = graph.linear(hidden, f"{own}.query", f"{own}.key", f"{own}.value", factors=(1 / math.sqrt(head), 1.0, 1.0))
    query, key, value = (
        _heads(graph, joined, part * shape.hidden_size, shape, order)
        for part, order in enumerate(((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
    )
    scores = graph.op("Add", graph.op("MatMul", query, key), bias)
    seen = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
    seen = graph.op("Transpose", seen, perm=[0, 2, 1, 3])
    seen = graph.op("Reshape", seen, graph.constant([0, 0, shape.hidden_size]))
    seen = graph.linear(seen, f"{name}.attention.output.dense")
    hidden = graph.norm(graph.op("Add", seen, hidden), f"{name}.attention.output.LayerNorm")
    wide = graph.op("Gelu", graph.linear(hidden, f"{name}.intermediate.dense"))
    return graph.norm(graph.op("Add", graph.linear(wide, f"{name}.output.dense"), hidden), f"{name}.output.LayerNorm")


def _heads(graph: _Graph, joined: str, start: int, shape: BertShape, order: Sequence[int]) -> str:
    """One of query, key and value, split by attention head."""
    end = start + shape.hidden_size
    part = graph.op("Slice", joined, graph.constant([start]), graph.constant([end]), graph.constant([2]))
    heads = shape.num_attention_heads
    part = graph.op("Reshape", part, graph.constant([0, 0, heads, shape.hidden_size // heads]))
    return graph.op("Transpose", part, perm=list(order))


def _pooled(graph: _Graph, hidden: str) -> None:
    """The mean over unmasked tokens, divided by its length."""
    weight = graph.op("Unsqueeze", graph.op("Cast", "mask", to=1), graph.constant([2]))
    total = graph.op("ReduceSum", graph.op("Mul", hidden, weight), graph.constant([1]), keepdims=0)
    # Dividing by the count first would change nothing: the length is divided away.
    graph.op("LpNormalization", total, output="vectors", axis=-1, p=2)
