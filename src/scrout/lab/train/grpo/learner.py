"""The model that learns: a frozen checkpoint, a LoRA adapter on it, and the optimizer that moves the adapter."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from scrout.base import ConfigError
from scrout.lab.train.grpo.loss import (
    LossSettings,
    LossSums,
    PolicyExample,
    backward,
    log_probabilities,
    loss_tokens,
    require_plain_head,
)
from scrout.lab.train.lora import OUT_OF_MEMORY, load_model, with_adapter
from scrout.lab.train.tokenization import Document

MAX_EXCERPT = 300
MAX_NORM = 1.0
"""Of all gradients together; a longer one is shortened to it."""
ALPHA = 2
"""How many times the rank LoRA's scale is."""


class Learner:
    """Weights, and how they move."""

    def __init__(self, model: Any, learning_rate: float, loss: LossSettings) -> None:
        self.model = model
        self.loss = loss
        self.optimizer = torch.optim.AdamW(self._trained(), lr=learning_rate, weight_decay=0.0)

    @classmethod
    def load(
        cls,
        checkpoint: Path,
        adapter: Path | None,
        *,
        rank: int,
        seed: int,
        learning_rate: float,
        loss: LossSettings,
        device: str,
    ) -> Learner:
        """A checkpoint with an adapter of its own; None: a new one, which changes nothing yet."""
        where = _device(device)
        model = load_model(checkpoint, "float32" if where == "cpu" else "bfloat16", where)
        torch.manual_seed(seed)
        model = with_adapter(model, rank, ALPHA * rank, 0.0, adapter)
        _without_dropout(model)
        require_plain_head(model)
        model.get_base_model().gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        # Gradients are checkpointed in training mode alone.
        model.train()
        return cls(model, learning_rate, loss)

    def logprobs(self, document: Document) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The log-probabilities that updates are measured against: of the model now, and without the adapter."""
        with self._memory_errors(document):
            old = log_probabilities(self.model, document, self.loss).float().cpu()
            if not self.loss.kl:
                return old, None
            return old, log_probabilities(self.model, document, self.loss, adapter=False).float().cpu()

    def update(self, examples: Sequence[PolicyExample]) -> tuple[LossSums, float]:
        """One step of the optimizer, what it was taken for, and the length of the gradient."""
        tokens = sum(loss_tokens(example.document) for example in examples)
        self.optimizer.zero_grad(set_to_none=True)
        sums = LossSums()
        for example in examples:
            with self._memory_errors(example.document):
                sums += backward(self.model, example, self.loss, tokens)
        norm = float(torch.nn.utils.clip_grad_norm_(self._trained(), MAX_NORM))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return sums, norm

    def save_adapter(self, folder: Path) -> None:
        """As peft does, for servers and for going on."""
        self.model.save_pretrained(str(folder))

    def state(self) -> bytes:
        """All that the next step depends on besides the adapter."""
        buffer = io.BytesIO()
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        torch.save({"optimizer": self.optimizer.state_dict(), "random": torch.get_rng_state(), "cuda": cuda}, buffer)
        return buffer.getvalue()

    def restore(self, state: bytes) -> None:
        """Go on from a state that was kept."""
        kept = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
        self.optimizer.load_state_dict(kept["optimizer"])
        torch.set_rng_state(kept["random"])
        if kept["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(kept["cuda"])

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @contextmanager
    def _memory_errors(self, document: Document) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not isinstance(error, MemoryError) and not any(word in str(error).lower() for word in OUT_OF_MEMORY):
                raise
            raise ConfigError(
                f"the memory is full while a conversation of {len(document):,} tokens is learned. Lower "
                "chunk_tokens, take a device with more memory, or begin a new run with fewer "
                "scout.model.context_tokens. The episodes and "
                "all finished steps are kept."
            ) from None


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        said = str(error).splitlines()[0][:MAX_EXCERPT]
        raise ConfigError(f"--device {name}: {said}. Name one that torch has here, such as cpu or cuda:0.") from None
    return name


def _without_dropout(model: Any) -> None:
    """Old and new probabilities of a token can be compared only where nothing is left to chance."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
