"""A checkpoint on disk: which weights they are, how deep and wide, and what its layers are called elsewhere.

Layers have three numberings, and an off-by-one gives a vector of the right size from the wrong place. Ours is the
depth: how many decoder layers have run, 0 for the embeddings. A negative number counts back from the end, as in
transformers: of 28 layers, -4 is depth 25.

| | the output of decoder layer `i`, counted from 0 | after the last layer |
| --- | --- | --- |
| depth | i + 1 | refused |
| transformers, `hidden_states[...]` | i + 1 | normed |
| vLLM, `eagle_aux_hidden_state_layer_ids` | i + 1 | not normed |
| SGLang, `--return-aux-hidden-state-layer-ids` | i | not offered |
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from scrout.base import ConfigError
from scrout.config.folders import cache_folder

WEIGHTS = ("*.safetensors", "*.gguf", "*.bin")
"""As loaders choose: the first kind that a folder has, and no other."""
SMALL_BYTES = 1_000_000
"""Below it reading the file again is quicker than looking its digest up."""


@dataclass(frozen=True)
class Shape:
    """What the layer's number and the vector's size are held against."""

    layers: int
    width: int

    def depth(self, layer: int) -> int:
        """The depth of a layer that has the same meaning everywhere, or a ConfigError."""
        depth = layer if layer >= 0 else self.layers + 1 + layer
        if not 1 <= depth < self.layers:
            raise ConfigError(
                f"scout.model.state_layer is {layer}, and the checkpoint has {self.layers} layers. Use -2 to "
                f"-{self.layers}: beyond the last layer servers disagree whether the final norm is applied."
            )
        return depth

    def space(self, digest: str, layer: int) -> str:
        """Where a state lies: vectors of two spaces say nothing about each other. Those of `hidden/` have length 1."""
        return f"hidden/{digest}/layer{self.depth(layer) - self.layers - 1}/last/{self.width}"


def vllm_id(depth: int) -> int:
    """vLLM numbers what comes out, the embeddings being 0."""
    return depth


def sglang_id(depth: int) -> int:
    """SGLang numbers the layers, from 0."""
    return depth - 1


def find(setting: str) -> Path:
    """The folder or GGUF file of `scout.model.checkpoint`."""
    path = Path(setting).expanduser()
    if not setting or not (path.is_dir() or path.is_file()):
        raise ConfigError(
            f"scout.model.checkpoint is {setting!r}, which is no folder and no file. A hidden state carries the digest "
            "of its weights: name the folder that the server was started with, or a GGUF file."
        )
    return path


def shape(path: Path) -> Shape:
    """From the folder's config.json, without loading anything."""
    try:
        config = _Config.model_validate_json((path / "config.json").read_bytes())
    except (OSError, ValidationError):
        raise ConfigError(
            f"{path} has no config.json with num_hidden_layers and hidden_size. Name a folder as transformers saves it."
        ) from None
    inner = config.text_config or config
    if inner.num_hidden_layers is None or inner.hidden_size is None:
        raise ConfigError(f"{path}/config.json lacks num_hidden_layers or hidden_size. Is it a language model?")
    return Shape(inner.num_hidden_layers, inner.hidden_size)


def digest(path: Path) -> str:
    """Sixteen hex digits of the configuration's and the weights' whole content. Names and tokenizer do not count.

    Reading 15 GB takes a minute or so; what was read is remembered by the file's path, size and time of change.
    """
    files = [path] if path.is_file() else _files(path)
    together = hashlib.sha256("".join(sorted(_content_digest(file) for file in files)).encode())
    return together.hexdigest()[:16]


def _files(folder: Path) -> list[Path]:
    for pattern in WEIGHTS:
        if weights := list(folder.glob(pattern)):
            return [*folder.glob("config.json"), *weights]
    raise ConfigError(f"{folder} has no weights ({', '.join(WEIGHTS)}). Is the download complete?")


def _content_digest(file: Path) -> str:
    stat = file.stat()
    key = f"{file.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode(errors="surrogateescape")
    kept = cache_folder() / "checkpoints" / hashlib.sha256(key).hexdigest()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if re.fullmatch(r"[0-9a-f]{64}", known := kept.read_text()):
            return known
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if stat.st_size > SMALL_BYTES:
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(found)
    return found


class _Config(BaseModel):
    num_hidden_layers: int | None = Field(None, gt=0)
    hidden_size: int | None = Field(None, gt=0)
    text_config: _Config | None = None
    """Of models that also see or hear."""
