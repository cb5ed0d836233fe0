"""A base model as it is trained: loaded, given an adapter, and the failures of both in words."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from scrout.base import ConfigError, ScroutError, TaskError
from scrout.lab.train.tokenization import MAX_EXCERPT, needs_extra

Precision = Literal["bfloat16", "float32"]
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
FULL_DISK = ("No space left", "os error 28", "unexpected pos")
"""The last is what torch says to a file that stays shorter than what it wrote."""


def load_model(checkpoint: Path, precision: Precision, device: str = "", attention: str = "") -> Any:
    """The model of a folder, or of a GGUF file, whose weights become plain ones: those of its kind cannot be trained.

    `device` empty: a GPU where there is one. `attention` empty: the library's choice.
    """
    try:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise needs_extra(error) from None
    disable_progress_bar()
    # Weights in a form that runs no code, and none of the code that a checkpoint may bring along.
    where: dict[str, Any] = {"gguf_file": checkpoint.name} if checkpoint.is_file() else {"use_safetensors": True}
    where |= {"local_files_only": True, "trust_remote_code": False}
    how = {"attn_implementation": attention} if attention else {}
    folder = str(checkpoint.parent if checkpoint.is_file() else checkpoint)
    dtype = getattr(torch, precision)
    with library_errors(f"{checkpoint} cannot be loaded"):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **where, **how)
        if "gguf_file" in where:
            loaded, config = model, model.config
            del config.quantization_config
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, **how)
            model.load_state_dict(loaded.state_dict())
        model.name_or_path = str(checkpoint)  # which adapters remember
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def with_adapter(model: Any, rank: int, alpha: int, dropout: float, start: Path | None = None) -> Any:
    """The model with a new LoRA adapter on every linear projection but the output head, or with the one of `start`."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise needs_extra(error) from None
    if start is not None:
        return load_adapter(model, start, trainable=True)
    return get_peft_model(
        model,
        # The library's "all-linear" leaves the output head out.
        LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules="all-linear", task_type="CAUSAL_LM"),
    )


def load_adapter(model: Any, folder: Path, *, trainable: bool = False) -> Any:
    """The model with the adapter that a folder holds; one that was trained on a model of another shape is refused."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError as error:
        raise needs_extra(error) from None
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
    """A ConfigError where a folder does not hold LoRA weights in a form that runs no code."""
    try:
        config = json.loads((folder / "adapter_config.json").read_bytes())
    except (OSError, ValueError):
        raise ConfigError(f"{folder} has no adapter_config.json. Name a folder that `peft` saved.") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ConfigError(f"{folder} is no LoRA adapter. Others are not known here.")
    if not (folder / "adapter_model.safetensors").is_file():
        raise ConfigError(f"{folder} has no adapter_model.safetensors. Is it complete?")


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Failures of the libraries in our words: they promise no types for them."""
    try:
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
