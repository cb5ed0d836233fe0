"""What was trained, as servers take it: merged into the base model's weights, or the adapter alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

from scrout.base import FrozenModel, TaskError
from scrout.files import atomic_folder
from scrout.lab.train.lora import Precision, library_errors, load_adapter, load_model, require_lora
from scrout.lab.train.tokenization import ChatTokenizer
from scrout.scout.hidden_state.checkpoint import digest

CONFIG = "adapter_config.json"
Form = Literal["merged", "adapter"]


class Exported(FrozenModel):
    """What was written, and how it is served."""

    form: Form
    folder: str
    digest: str
    """Of its weights."""
    serve: str
    """A command of vLLM's."""


def adapter_of(run: Path) -> Path:
    """The newest adapter of a run, or the folder itself where it is one."""
    steps = sorted(run.glob("adapters/step-*"), key=lambda path: path.stat().st_mtime)
    found = next((path for path in (run, run / "adapter", *reversed(steps)) if (path / CONFIG).is_file()), None)
    if found is None:
        raise TaskError(f"{run} holds no adapter. Name the folder of a finished run, or of an adapter.")
    return found


def trained_on(run: Path) -> str:
    """Digest of a run's base model; empty: the folder does not say."""
    try:
        told_ = json.loads((run / "run.json").read_text(encoding="utf-8"))
        return str(told_.get("base_digest") or told_.get("checkpoint") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def base_of(adapter: Path) -> Path:
    """The base model that an adapter was trained on."""
    try:
        named = json.loads((adapter / CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise TaskError(f"{adapter / CONFIG} cannot be read ({error}). Name a whole adapter.") from None
    if not named or not Path(named).exists():
        raise TaskError(f"the adapter's base model {named!r} is not here. Say where it is: --base.")
    return Path(named)


def export(
    base: Path, adapter: Path, out: Path, form: Form, precision: Precision = "bfloat16", trained_on: str = ""
) -> Exported:
    """Write a folder that vLLM, SGLang and transformers load. It is there as a whole, or not at all.

    `trained_on`: digest of the base model that the adapter belongs to; empty: unknown.
    """
    if out.exists():
        raise TaskError(f"{out} is there already. Name another folder.")
    require_lora(adapter)
    if trained_on and digest(base) != trained_on:
        raise TaskError(f"{base} is another model ({digest(base)}) than the run began with ({trained_on}). Name that.")
    with library_errors(f"{out} cannot be written"), atomic_folder(out) as part:
        rank = _merge(base, adapter, part, precision) if form == "merged" else _copy(base, adapter, part)
    name = out.resolve().name
    serve = (
        f"vllm serve {out} --generation-config=vllm --dtype={precision}"
        if form == "merged"
        else f"vllm serve {base} --generation-config=vllm --dtype={precision} --enable-lora "
        f"--max-lora-rank={_served_rank(rank)} --lora-modules {name}={out}"
    )
    return Exported(form=form, folder=str(out), digest=digest(out), serve=serve)


def _merge(base: Path, adapter: Path, out: Path, precision: Precision) -> int:
    # In full precision: a sum of two bfloat16 matrices would round the adapter away where it is small.
    model: Any = load_model(base, "float32", "cpu")
    merged = load_adapter(model, adapter).merge_and_unload()
    merged.to(dtype=_dtype(precision)).save_pretrained(str(out))
    ChatTokenizer.load(base).tokenizer.save_pretrained(str(out))
    return 0


def _copy(base: Path, adapter: Path, out: Path) -> int:
    if base.is_file():
        raise TaskError(f"{base} is a GGUF file, which no server puts an adapter on. Export it merged: --form merged.")
    for name in (CONFIG, "adapter_model.safetensors"):
        shutil.copyfile(adapter / name, out / name)
    path = out / CONFIG
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"base_model_name_or_path": str(base)}, indent=2) + "\n", encoding="utf-8")
    ChatTokenizer.load(base).tokenizer.save_pretrained(str(out))
    return int(config["r"])


def _served_rank(rank: int) -> int:
    """The least of those that vLLM has kernels for."""
    return next((known for known in (8, 16, 32, 64, 128, 256, 320, 512) if known >= rank), rank)


def _dtype(precision: Precision) -> Any:
    import torch

    return getattr(torch, precision)
