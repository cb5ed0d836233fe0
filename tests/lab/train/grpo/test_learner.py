"""The loss in parts against the whole of it: the same number and the same gradient of every parameter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from scrout.base import ConfigError
from scrout.lab.train.grpo.learner import backward, loss_tokens, require_plain_head
from scrout.lab.train.tokenization import Document

LENGTHS = (2, 17, 64, 33)
ADVANTAGES = (-1.5, 0.5, 1.0, -0.25)


def load(tiny: Path) -> Any:
    model = AutoModelForCausalLM.from_pretrained(str(tiny), dtype=torch.float64)
    model.train()
    return model


def with_adapter(model: Any) -> Any:
    """One that changes something, as after some steps."""
    torch.manual_seed(5)
    model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter.data, std=0.1)
    return model.double()


def documents(lengths: Sequence[int] = LENGTHS) -> list[Document]:
    random = np.random.default_rng(7)
    found = []
    for length in lengths:
        learned = random.random(length) < 0.6
        learned[-1] = True
        found.append(Document(random.integers(0, 300, length).astype(np.int32), learned))
    return found


def naive(model: Any, temperature: float) -> torch.Tensor:
    """The definition, with all logits of all documents at once."""
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for document, advantage in zip(documents(), ADVANTAGES, strict=True):
        ids = torch.as_tensor(document.ids, dtype=torch.long)[None]
        logs = torch.log_softmax(model(input_ids=ids).logits[0, :-1] / temperature, -1)
        chosen = logs.gather(-1, ids[0, 1:, None])[:, 0][torch.as_tensor(document.loss_mask[1:])]
        total = total - advantage * chosen.sum()
        tokens += len(chosen)
    return total / tokens


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
@pytest.mark.parametrize("adapter", [False, True])
def test_parts_have_the_loss_and_every_gradient_of_the_whole(tiny: Path, chunk: int, adapter: bool) -> None:
    model = load(tiny)
    if adapter:
        model = with_adapter(model)
    whole = naive(model, 0.9)
    whole.backward()
    expected = gradients(model)
    model.zero_grad()

    base = model.get_base_model() if adapter else model
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    tokens = sum(map(loss_tokens, documents()))
    # In another order: what is split, and how, makes no difference.
    pairs = reversed(list(zip(documents(), ADVANTAGES, strict=True)))
    loss = sum(backward(model, document, advantage / tokens, 0.9, chunk) for document, advantage in pairs)

    assert loss == pytest.approx(whole.item(), rel=1e-12)
    found = gradients(model)
    assert found.keys() == expected.keys() and (adapter or len(found) == len(list(model.parameters())))
    for name, gradient in expected.items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-13, msg=name)


def test_no_more_logits_exist_than_a_chunk_has(tiny: Path) -> None:
    model = load(tiny)
    seen: list[int] = []
    model.get_output_embeddings().register_forward_hook(lambda module, given, logits: seen.append(logits.shape[-2]))
    document = documents([64])[0]
    backward(model, document, 1.0, 1.0, 5)
    assert max(seen) == 5 and sum(seen) == loss_tokens(document)


def test_a_document_without_a_learned_token_teaches_nothing(tiny: Path) -> None:
    model = load(tiny)
    document = Document(np.array([1, 2, 3], np.int32), np.array([True, False, False]))
    assert backward(model, document, 1.0, 1.0, 1024) == 0
    assert not gradients(model)


def test_a_model_that_changes_its_logits_is_refused(tiny: Path) -> None:
    model = load(tiny)
    require_plain_head(model)
    forward = model.forward

    def capped(*given: Any, **more: Any) -> Any:
        said = forward(*given, **more)
        said.logits = 0.05 * torch.tanh(said.logits / 0.05)
        return said

    model.forward = capped
    with pytest.raises(ConfigError, match="does more to its logits"):
        require_plain_head(model)
