"""The model that learns: a frozen checkpoint, a LoRA adapter on it, and the optimizer that moves the adapter.

Each episode is drawn by the very weights that learn from it and is used once, so the loss is that of the plain policy:
minus the advantage times the log-probability of each learned token, over the learned tokens of the whole batch.

The logits of a conversation would never fit into memory at once. The body of the model runs once over a document. Head
and softmax then go over the hidden states of the learned tokens, a chunk at a time, each with its backward pass to
those states; the gradient that has come together there goes through the body in one pass. So of logits there is never
more than a chunk, and nothing is left out or approximated.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from scrout.base import ConfigError
from scrout.lab.train.grpo.run_folder import GrpoSettings
from scrout.lab.train.lora import OUT_OF_MEMORY, load_model, with_adapter
from scrout.lab.train.tokenization import Document

MAX_EXCERPT = 300
MAX_NORM = 1.0
"""Of all gradients together; a longer one is shortened to it."""
ALPHA = 2
"""How many times the rank LoRA's scale is."""
PROBE_TOKENS = 8


class Learner:
    def __init__(self, model: Any, run: GrpoSettings, temperature: float) -> None:
        self.model = model
        self.temperature = temperature
        """That the episodes were drawn with: the probabilities are those of the tokens as they were drawn."""
        self.chunk_tokens = run.chunk_tokens
        self.optimizer = torch.optim.AdamW(self._trained(), lr=run.learning_rate, weight_decay=0.0)

    @classmethod
    def load(
        cls, checkpoint: Path, adapter: Path | None, run: GrpoSettings, temperature: float, device: str
    ) -> Learner:
        """A checkpoint with an adapter of its own; None: a new one, which changes nothing yet."""
        where = _device(device)
        model = load_model(checkpoint, "float32" if where == "cpu" else "bfloat16", where)
        torch.manual_seed(run.seed)
        model = with_adapter(model, run.rank, ALPHA * run.rank, 0.0, adapter)
        _without_dropout(model)
        require_plain_head(model)
        model.get_base_model().gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        # Gradients are checkpointed in training mode alone.
        model.train()
        return cls(model, run, temperature)

    def update(self, documents: Sequence[tuple[Document, float]]) -> tuple[float, float]:
        """One step of the optimizer on documents with their advantages: the loss, and the length of the gradient."""
        tokens = sum(loss_tokens(document) for document, _ in documents)
        self.optimizer.zero_grad(set_to_none=True)
        loss = 0.0
        for document, advantage in documents:
            with _memory_errors(document):
                weight = advantage / tokens
                loss += backward(self.model, document, weight, self.temperature, self.chunk_tokens)
        norm = float(torch.nn.utils.clip_grad_norm_(self._trained(), MAX_NORM))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, norm

    def save_adapter(self, folder: Path) -> None:
        """As peft does, for servers and for going on."""
        self.model.save_pretrained(str(folder))

    def state(self) -> bytes:
        """All that the next step depends on besides the adapter."""
        buffer = io.BytesIO()
        torch.save(self.optimizer.state_dict(), buffer)
        return buffer.getvalue()

    def restore(self, state: bytes) -> None:
        """Go on from a state that was kept."""
        self.optimizer.load_state_dict(torch.load(io.BytesIO(state), map_location="cpu", weights_only=True))

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]


def loss_tokens(document: Document) -> int:
    """Tokens that the model wrote and that something stands before."""
    return int(document.loss_mask[1:].sum())


def backward(model: Any, document: Document, weight: float, temperature: float, chunk_tokens: int) -> float:
    """Add a document's gradient to the model's parameters, and say what its part of the loss is."""
    body, head = body_and_head(model)
    device = next(body.parameters()).device
    ids = torch.as_tensor(document.ids, dtype=torch.long, device=device)
    learned = torch.as_tensor(document.loss_mask[1:], device=device).nonzero().squeeze(-1)
    if not len(learned):
        return 0.0
    states = body(input_ids=ids[None], use_cache=False).last_hidden_state[0].index_select(0, learned)
    targets = ids[1:].index_select(0, learned)
    # The graph ends here and goes on below: each chunk's own is gone before the next one is made.
    here = states.detach().requires_grad_()
    total = 0.0
    for start in range(0, len(targets), chunk_tokens):
        logits = head(here[start : start + chunk_tokens])
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        wanted = targets[start : start + chunk_tokens]
        loss = weight * cross_entropy(logits / temperature, wanted, reduction="sum")
        loss.backward()
        total += float(loss.detach())
    states.backward(here.grad)
    return total


def body_and_head(model: Any) -> tuple[Any, Any]:
    """What makes hidden states, and what makes logits of them."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base.get_decoder(), base.get_output_embeddings()


def require_plain_head(model: Any) -> None:
    """A ConfigError where logits are more than what the head makes of hidden states, as for a model that caps them."""
    body, head = body_and_head(model)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    ids = torch.arange(PROBE_TOKENS, device=head.weight.device)[None]
    with torch.no_grad():
        ours = head(body(input_ids=ids, use_cache=False).last_hidden_state)
        theirs = base(input_ids=ids, use_cache=False).logits
    if not torch.allclose(ours.float(), theirs.float(), rtol=1e-3, atol=1e-3):
        raise ConfigError(
            f"{type(base).__name__} does more to its logits than its head, so its loss cannot be taken in chunks. "
            "Train a model of another family, such as Qwen2 or Llama."
        )


@contextmanager
def _memory_errors(document: Document) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not any(word in str(error).lower() for word in OUT_OF_MEMORY):
            raise
        raise ConfigError(
            f"the memory is full while a conversation of {len(document):,} tokens is learned. Lower chunk_tokens, take "
            "a device with more memory, or begin a new run with fewer scout.model.context_tokens. The episodes and all "
            "finished steps are kept."
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
    """Else a step that is done again would come to other weights, and tokens had other probabilities when drawn."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
