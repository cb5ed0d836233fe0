"""A base model as it is trained: loaded, given an adapter, and the failures of both in words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from scrout.errors import ConfigError, ScroutError, TaskError
from scrout.train.tokens import MAX_EXCERPT, needs_extra

Precision = Literal["bfloat16", "float32"]
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


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
    where: dict[str, Any] = {"gguf_file": checkpoint.name} if checkpoint.is_file() else {}
    how = {"attn_implementation": attention} if attention else {}
    folder = str(checkpoint.parent if checkpoint.is_file() else checkpoint)
    dtype = getattr(torch, precision)
    with told(f"{checkpoint} cannot be loaded"):
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=dtype, **where, **how)
        if where:
            loaded, config = model, model.config
            del config.quantization_config
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, **how)
            model.load_state_dict(loaded.state_dict())
        model.name_or_path = str(checkpoint)  # which adapters remember
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def with_adapter(model: Any, rank: int, alpha: int, dropout: float, start: Path | None = None) -> Any:
    """The model with a new LoRA adapter on every linear projection but the output head, or with the one of `start`."""
    try:
        from peft import LoraConfig, PeftModel, get_peft_model
    except ImportError as error:
        raise needs_extra(error) from None
    if start is not None:
        with told(f"{start} holds no adapter for this model"):
            return PeftModel.from_pretrained(model, str(start), is_trainable=True)
    return get_peft_model(
        model,
        # The library's "all-linear" leaves the output head out.
        LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules="all-linear", task_type="CAUSAL_LM"),
    )


@contextmanager
def told(what: str) -> Iterator[None]:
    """Failures of the libraries in our words: they promise no types for them."""
    try:
        yield
    except ScroutError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TaskError(f"{what}: the disk is full. Make room and run the same command again.") from None
        raise TaskError(f"{what}: {error.strerror or str(error)[:MAX_EXCERPT]}. Check the path.") from None
    except (MemoryError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        said = f"{type(error).__name__}: {error}"[:MAX_EXCERPT]
        if isinstance(error, MemoryError) or any(words in str(error).lower() for words in OUT_OF_MEMORY):
            raise ConfigError(
                f"{what}: out of memory ({said}). `--plan` says what is needed; shorter blocks (scrout train pack "
                "--context), checkpointing, bfloat16 and a smaller rank need less."
            ) from None
        if "No space left" in str(error):
            raise TaskError(f"{what}: the disk is full. Make room and run the same command again.") from None
        raise ConfigError(f"{what} ({said}). Check that it is whole and of a kind that transformers knows.") from None
