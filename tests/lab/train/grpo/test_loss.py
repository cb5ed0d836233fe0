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
from scrout.lab.train.grpo.loss import (
    LossSettings,
    LossSums,
    PolicyExample,
    backward,
    log_probabilities,
    loss_tokens,
    require_plain_head,
)
from scrout.lab.train.tokenization import Document

LENGTHS = (2, 17, 64, 33)


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


def examples(model: Any, terms: LossSettings, *, reference: bool) -> list[PolicyExample]:
    """Old probabilities are off from today's, so that some tokens are clipped and some are not."""
    random = torch.Generator().manual_seed(11)
    made = []
    for number, document in enumerate(documents()):
        now = log_probabilities(model, document, terms)
        old = now + torch.randn(now.shape, generator=random, dtype=now.dtype) * 0.3
        base = log_probabilities(model, document, terms, adapter=False) if reference else None
        made.append(PolicyExample(document, (-1.5, 0.5, 1.0, -0.25)[number], old, base))
    return made


def naive(model: Any, made: Sequence[PolicyExample], terms: LossSettings) -> torch.Tensor:
    """The definition, with all logits of all documents at once."""
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for example in made:
        ids = torch.as_tensor(example.document.ids, dtype=torch.long)[None]
        logs = torch.log_softmax(model(input_ids=ids).logits[0, :-1] / terms.temperature, -1)
        chosen = logs.gather(-1, ids[0, 1:, None])[:, 0][torch.as_tensor(example.document.loss_mask[1:])]
        ratio = torch.exp(chosen - example.old)
        gain = torch.minimum(
            ratio * example.advantage, torch.clamp(ratio, 1 - terms.clip, 1 + terms.clip) * example.advantage
        )
        total = total - gain.sum()
        if example.reference is not None:
            apart = example.reference - chosen
            total = total + terms.kl * (torch.exp(apart) - apart - 1).sum()
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
    terms = LossSettings(clip=0.2, kl=0.3 if adapter else 0.0, temperature=0.9, chunk=chunk)
    made = examples(model, terms, reference=adapter)
    whole = naive(model, made, terms)
    whole.backward()
    expected = gradients(model)
    model.zero_grad()

    base = model.get_base_model() if adapter else model
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    tokens = sum(loss_tokens(example.document) for example in made)
    # In another order: what is split, and how, makes no difference.
    sums = LossSums()
    for example in reversed(made):
        sums += backward(model, example, terms, tokens)

    assert sums.loss == pytest.approx(whole.item(), rel=1e-12)
    assert sums.tokens == tokens and 0 < sums.clipped < tokens
    found = gradients(model)
    assert found.keys() == expected.keys() and (adapter or len(found) == len(list(model.parameters())))
    for name, gradient in expected.items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-13, msg=name)


def test_no_more_logits_exist_than_a_chunk_has(tiny: Path) -> None:
    model, terms = load(tiny), LossSettings(chunk=5)
    seen: list[int] = []
    model.get_output_embeddings().register_forward_hook(lambda module, given, logits: seen.append(logits.shape[-2]))
    document = documents([64])[0]
    old = log_probabilities(model, document, terms)
    backward(model, PolicyExample(document, 1.0, old), terms, len(old))
    assert max(seen) == 5 and sum(seen) == 2 * loss_tokens(document)


def test_at_the_start_the_gradient_is_that_of_the_plain_policy(tiny: Path) -> None:
    """Nothing is clipped, and the loss is minus the mean advantage."""
    model, terms = load(tiny), LossSettings()
    made = [PolicyExample(d, 0.5, log_probabilities(model, d, terms)) for d in documents()]
    tokens = sum(loss_tokens(example.document) for example in made)
    sums = LossSums()
    for example in made:
        sums += backward(model, example, terms, tokens)
    assert sums.loss == pytest.approx(-0.5) and sums.clipped == 0


def test_a_document_without_a_learned_token_teaches_nothing(tiny: Path) -> None:
    model, terms = load(tiny), LossSettings()
    document = Document(np.array([1, 2, 3], np.int32), np.array([True, False, False]))
    old = log_probabilities(model, document, terms)
    assert len(old) == 0
    assert backward(model, PolicyExample(document, 1.0, old), terms, 1) == LossSums()
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
