"""For tests of training: a tiny checkpoint with random weights and a tokenizer of its own, and small corpora."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeDemonstration = Callable[..., dict[str, Any]]
MakeCorpus = Callable[..., Path]
SmallDisk = Callable[[int, str], subprocess.CompletedProcess[str]]

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = (
    "def total(prices): return sum(prices)\n",
    "<function=bash>\n<parameter=command>grep -rn total .</parameter>\n</function>\n",
    "<files>\nshop/cart.py:1-20\n</files>\n<notes>\nThe change belongs into shop/cart.py.\n</notes>\nSTOP\n",
    "system user assistant tool The report is about this repository. Look around, then hand over what you found.\n",
)


def _checkpoint(folder: Path, *, width: int = 32, layers: int = 2, context: int = 4096, seed: int = 3) -> Path:
    """The folder, as transformers saves one. The same arguments give the same bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(TEXTS * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Several threads wait for each other in a busy loop, which takes far longer than so small a model's work."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


@pytest.fixture
def small_disk(tmp_path: Path) -> SmallDisk:
    """small_disk(kilobytes, script): run lines of a shell with a disk of that size at DISK, which is gone afterwards.

    `train` stands for `python -m scrout train`, and `room N` makes the disk that large.
    """
    disk = tmp_path / "disk"
    disk.mkdir()

    def run(kilobytes: int, script: str) -> subprocess.CompletedProcess[str]:
        lines = (
            f"mount -t tmpfs -o size={kilobytes}k none {disk} || exit 77",
            f'train() {{ {sys.executable} -m scrout train "$@"; }}',
            f"room() {{ mount -o remount,size=$1k {disk}; }}",
            script.replace("DISK", str(disk)),
        )
        alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", "\n".join(lines)]
        # One thread, as everywhere here: another number adds in another order.
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(alone, capture_output=True, text=True, check=False, env=environment)
        except FileNotFoundError:
            pytest.skip("no unshare here, with which a test has a disk of its own")
        if done.returncode == 77 or "unshare: " in done.stderr:
            pytest.skip(f"no disk of one's own here: {done.stderr.strip()}")
        return done

    return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint's folder, for reading only."""
    return _checkpoint(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def checkpoint() -> Callable[..., Path]:
    """checkpoint(folder, width=32, layers=2, context=4096, seed=3): others like it."""
    return _checkpoint


@pytest.fixture(scope="session")
def demonstration() -> MakeDemonstration:
    """demonstration(number, turns, chars=200): a row of a corpus, with answers of about so many characters."""
    return _demonstration


@pytest.fixture(scope="session")
def corpus() -> MakeCorpus:
    """corpus(folder, *rows): a corpus on disk."""
    return _corpus


def _demonstration(number: int, turns: int, chars: int = 200) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You search."},
        {"role": "user", "content": f"issue {number}"},
    ]
    for turn in range(turns):
        call = f"<function=bash>\n<parameter=command>ls {turn}</parameter>\n</function>"
        messages += [{"role": "assistant", "content": call}, {"role": "user", "content": f"{turn} " * (chars // 2)}]
    messages.append({"role": "assistant", "content": "<files>\nshop/cart.py\n</files>\nSTOP"})
    return {
        "id": str(number),
        "issue_id": f"me__shop-{number}",
        "repository": "me/shop",
        "names": [],
        "language": "Python",
        "layout": "test",
        "where": "here:1",
        "reproduced": False,
        "turns": turns + 1,
        "quality": [0.0],
        "files": ["shop/cart.py"],
        "messages": messages,
        "tools": [],
    }


def _corpus(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "corpus.jsonl").write_text(lines)
    (folder / "card.json").write_text(json.dumps({"sha256": hashlib.sha256(lines.encode()).hexdigest()}))
    return folder
