"""The loss of GRPO and its exact gradient, for conversations whose logits would never fit into memory at once.

An episode is the sum of its documents, a document the sum of its learned tokens, and all of a batch are divided by one
number, the learned tokens of the batch: however the work is split, the sum is the same. Within a document the body of
the model runs once. Head and log-softmax then go over the hidden states of the learned tokens, a chunk at a time, each
with its backward pass to those states; the gradient that has come together there goes through the body in one pass. So
of logits there is never more than a chunk, and nothing is left out or approximated.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from scrout.base import ConfigError, FrozenModel

if TYPE_CHECKING:
    from scrout.lab.train.tokenization import Document

PROBE_TOKENS = 8


class LossSettings(FrozenModel):
    """What the loss is made of."""

    clip: float = 0.2
    """How far the ratio of new to old probability may move a token's gain, up or down."""
    kl: float = 0.0
    """Weight of the distance to the model without its adapter."""
    temperature: float = 1.0
    """That the episodes were drawn with: the probabilities are those of the tokens as they were drawn."""
    chunk: int = 1024
    """Tokens whose logits exist at once."""


@dataclass(frozen=True)
class PolicyExample:
    """One document of an episode, with what is known before the first update."""

    document: Document
    advantage: float
    old: torch.Tensor
    """Log-probability of each learned token under the model that the step started with."""
    reference: torch.Tensor | None = None
    """The same without the adapter; None: no distance is asked for."""


@dataclass(frozen=True)
class LossSums:
    """Over learned tokens; what is added up of parts is the sum of the whole."""

    loss: float = 0.0
    """Already divided by the batch's tokens."""
    kl: float = 0.0
    clipped: int = 0
    tokens: int = 0

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(
            self.loss + other.loss, self.kl + other.kl, self.clipped + other.clipped, self.tokens + other.tokens
        )


def loss_tokens(document: Document) -> int:
    """Tokens that the model wrote and that something stands before."""
    return int(document.loss_mask[1:].sum())


def log_probabilities(model: Any, document: Document, settings: LossSettings, *, adapter: bool = True) -> torch.Tensor:
    """Of each learned token, without a gradient. `adapter`: False leaves it out."""
    body, head = body_and_head(model)
    with torch.no_grad(), nullcontext() if adapter else model.disable_adapter():
        states, targets = _states(body, document)
        parts = [_chosen(head, states[at], targets[at], settings) for at in _chunks(len(targets), settings.chunk)]
    return torch.cat(parts) if parts else torch.zeros(0)


def backward(model: Any, example: PolicyExample, settings: LossSettings, batch_tokens: int) -> LossSums:
    """Add a example's gradient to the model's parameters, and say what its part of the loss is."""
    body, head = body_and_head(model)
    states, targets = _states(body, example.document)
    if not len(targets):
        return LossSums()
    # The graph ends here and goes on below: each chunk's own is gone before the next one is made.
    here = states.detach().requires_grad_()
    sums = LossSums()
    for at in _chunks(len(targets), settings.chunk):
        chosen = _chosen(head, here[at], targets[at], settings)
        reference = None if example.reference is None else example.reference[at]
        loss, kl, clipped = _loss(chosen, example.old[at], reference, example.advantage, settings)
        loss = loss / batch_tokens
        loss.backward()
        sums += LossSums(float(loss.detach()), float(kl), clipped, len(chosen))
    states.backward(here.grad)
    return sums


def _loss(
    chosen: torch.Tensor, old: torch.Tensor, reference: torch.Tensor | None, advantage: float, settings: LossSettings
) -> tuple[torch.Tensor, float, int]:
    """The loss of some tokens as a sum, their distance to the reference, and how many were held by the clip."""
    ratio = torch.exp(chosen - old.to(chosen))
    free, held = ratio * advantage, ratio.clamp(1 - settings.clip, 1 + settings.clip) * advantage
    loss = -torch.minimum(free, held).sum()
    clipped = int((held < free).sum())
    if reference is None:
        return loss, 0.0, clipped
    apart = reference.to(chosen) - chosen
    # An estimate that is never negative, and right on average.
    kl = (torch.exp(apart) - apart - 1).sum()
    return loss + settings.kl * kl, float(kl.detach()), clipped


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


def _states(body: Any, document: Document) -> tuple[torch.Tensor, torch.Tensor]:
    """The hidden states that learned tokens are predicted from, and those tokens."""
    device = next(body.parameters()).device
    ids = torch.as_tensor(document.ids, dtype=torch.long, device=device)
    at = torch.as_tensor(document.loss_mask[1:], device=device).nonzero().squeeze(-1)
    hidden = body(input_ids=ids[None], use_cache=False).last_hidden_state[0]
    return hidden.index_select(0, at), ids[1:].index_select(0, at)


def _chosen(head: Any, states: torch.Tensor, targets: torch.Tensor, settings: LossSettings) -> torch.Tensor:
    """The log-probability of each target."""
    logits = head(states)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    logs = torch.log_softmax(logits / settings.temperature, dim=-1)
    return logs.gather(-1, targets[:, None]).squeeze(-1)


def _chunks(length: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, length, size)]
