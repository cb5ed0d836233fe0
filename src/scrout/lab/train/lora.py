"""A base model and its LoRA adapter: loaded, trained from, and exported as inference servers load them."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from scrout.base import ConfigError, FrozenModel, ScroutError, TaskError
from scrout.files import atomic_folder
from scrout.lab.train.tokenization import MAX_EXCERPT, ChatTokenizer, needs_extra, pretrained
from scrout.scout.hidden_state.checkpoint import digest

Precision = Literal["bfloat16", "float32"]
Form = Literal["merged", "adapter"]
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
FULL_DISK = ("No space left", "os error 28", "unexpected pos")
"""The last is what torch says to a file that stays shorter than what it wrote."""


def load_model(checkpoint: Path, precision: Precision, device: str = "", attention: str = "") -> Any:
    """The model of a folder, or of a GGUF file, whose weights become plain ones: those of its kind cannot be trained.

    `device` empty: a GPU where there is one. `attention` empty: the library's choice.
    """
    with needs_extra():
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils.logging import disable_progress_bar
    disable_progress_bar()
    where = pretrained(checkpoint)
    how = {"attn_implementation": attention} if attention else {}
    dtype = getattr(torch, precision)
    with library_errors(f"{checkpoint} cannot be loaded"):
        # Weights in a form that runs no code.
        form = {} if "gguf_file" in where else {"use_safetensors": True}
        model = AutoModelForCausalLM.from_pretrained(dtype=dtype, **where, **form, **how)
        if "gguf_file" in where:
            loaded, config = model, model.config
            del config.quantization_config
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, **how)
            model.load_state_dict(loaded.state_dict())
        model.name_or_path = str(checkpoint)  # which adapters remember
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def with_adapter(model: Any, rank: int, alpha: int, dropout: float, start: Path | None = None) -> Any:
    """The model with a new LoRA adapter on every linear projection but the output head, or with the one of `start`."""
    with needs_extra():
        from peft import LoraConfig, get_peft_model
    if start is not None:
        return load_adapter(model, start, trainable=True)
    return get_peft_model(
        model,
        # The library's "all-linear" leaves the output head out.
        LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules="all-linear", task_type="CAUSAL_LM"),
    )


def load_adapter(model: Any, folder: Path, *, trainable: bool = False) -> Any:
    """The model with the adapter that a folder holds; one that was trained on a model of another shape is refused."""
    with needs_extra():
        from peft import PeftConfig, PeftModel
    require_lora(folder)
    with library_errors(f"the adapter {folder} does not fit this model"):
        config = PeftConfig.from_pretrained(str(folder))
        config.inference_mode = not trainable
        adapted = PeftModel(model, config)
        taken = adapted.load_adapter(str(folder), adapter_name="default", is_trainable=trainable)
        if other := [*taken.missing_keys, *taken.unexpected_keys]:
            raise ValueError(f"its weights are of other layers: {other[:2]}")
        return adapted


def require_lora(folder: Path) -> None:
    """A ConfigError if a folder does not hold LoRA weights in a form that runs no code."""
    if _read_config(folder).get("peft_type") != "LORA":
        raise ConfigError(f"{folder} is no LoRA adapter. Others are not supported.")
    if not (folder / WEIGHTS).is_file():
        raise ConfigError(f"{folder} has no {WEIGHTS}. Is it complete?")


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
        card = json.loads((run / "run.json").read_bytes())
        return str(card.get("base_digest") or card.get("checkpoint") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def base_of(adapter: Path) -> Path:
    """The base model that an adapter was trained on."""
    named = _read_config(adapter).get("base_model_name_or_path")
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
        if form == "merged":
            _merge(base, adapter, part, precision)
        else:
            _copy(base, adapter, part)
        ChatTokenizer.load(base).tokenizer.save_pretrained(str(part))
    name = out.resolve().name
    serve = (
        f"vllm serve {out} --generation-config=vllm --dtype={precision}"
        if form == "merged"
        else f"vllm serve {base} --generation-config=vllm --dtype={precision} --enable-lora "
        f"--max-lora-rank={_served_rank(adapter)} --lora-modules {name}={out}"
    )
    return Exported(form=form, folder=str(out), digest=digest(out), serve=serve)


def _merge(base: Path, adapter: Path, out: Path, precision: Precision) -> None:
    import torch

    # In full precision: a sum of two bfloat16 matrices would round a small adapter away.
    merged = load_adapter(load_model(base, "float32", "cpu"), adapter).merge_and_unload()
    merged.to(dtype=getattr(torch, precision)).save_pretrained(str(out))


def _copy(base: Path, adapter: Path, out: Path) -> None:
    if base.is_file():
        raise TaskError(f"{base} is a GGUF file, which no server puts an adapter on. Export it merged: --form merged.")
    shutil.copyfile(adapter / WEIGHTS, out / WEIGHTS)
    config = _read_config(adapter) | {"base_model_name_or_path": str(base)}
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _served_rank(adapter: Path) -> int:
    """The smallest rank that vLLM has kernels for and that holds the adapter's."""
    rank = int(_read_config(adapter)["r"])
    return next((known for known in (8, 16, 32, 64, 128, 256, 320, 512) if known >= rank), rank)


def _read_config(adapter: Path) -> dict[str, Any]:
    """A ConfigError if the adapter's configuration cannot be read."""
    try:
        config = json.loads((adapter / CONFIG).read_bytes())
    except (OSError, ValueError):
        raise ConfigError(f"{adapter} has no {CONFIG} that can be read. Name a folder that `peft` saved.") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{adapter / CONFIG} is no JSON object. Name a folder that `peft` saved.")
    return config


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Errors of the libraries, which promise no types for them, as ours with the next step."""
    try:
        with needs_extra():
            yield
    except ScroutError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TaskError(f"{what}: the disk is full. Make room and run the same command again.") from None
        raise TaskError(f"{what}: {error.strerror or str(error)[:MAX_EXCERPT]}. Check the path.") from None
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:MAX_EXCERPT]
        if isinstance(error, MemoryError) or any(words in str(error).lower() for words in OUT_OF_MEMORY):
            raise ConfigError(
                f"{what}: out of memory ({said}). `--plan` says what is needed; shorter blocks (scrout train pack "
                "--context), checkpointing, bfloat16 and a smaller rank need less."
            ) from None
        if any(words in str(error) for words in FULL_DISK):
            raise TaskError(f"{what}: the disk is full. Make room and run the same command again.") from None
        raise ConfigError(f"{what} ({said}). Check that it is whole and of a kind that transformers knows.") from None
