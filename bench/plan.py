"""Holds `scrout train sft --plan` against the runs that it is about, on what a CPU can run.

    python bench/plan.py --checkpoint DIR --corpus DIR --json bench/results/plan.json

Of the corpus, demonstrations of about the same length are packed, so that a few steps see blocks as long as a whole
run would. Each case is planned and then run for a few steps, each in a process of its own, and all of it in ROUNDS:
other programs take their share of this machine at one time more than at another, which no plan can know, so each plan
stands right before its run, and the median of the ratios counts. Memory is the process's peak; time is that from the
first finished step to the last. The published run is recomputed beside: with its shape and tokens, which share of an
H100 its hours are, and what the plan gives for it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from record import record

from scrout.config.settings import SearcherSettings
from scrout.lab.train.corpus.corpus import CORPUS
from scrout.lab.train.pack import Pack, pack
from scrout.lab.train.plan import GB, GPUS, PUBLISHED_USD_PER_HOUR, Work, by_arithmetic
from scrout.lab.train.sft import PAPER
from scrout.lab.train.tokenization import ChatTokenizer

STEPS = 5
ROUNDS = 3
SETTINGS = SearcherSettings(context_tokens=1536, max_tokens=512, margin_tokens=64)
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
"""Several wait for each other at every step, so that a busy neighbour of one of them slows all down."""
CASES = {
    "bfloat16, activations kept": ("-sprecision=bfloat16", "-sgradient_checkpointing=false"),
    "bfloat16, computed again": ("-sprecision=bfloat16", "-sgradient_checkpointing=true"),
    "float32, activations kept": ("-sprecision=float32", "-sgradient_checkpointing=false"),
}
SFT = [sys.executable, "-m", "scrout", "train", "sft"]


def alike(corpus: Path, checkpoint: Path, folder: Path) -> Path:
    """A pack of the demonstrations within 5% of the corpus's median length."""
    template = ChatTokenizer.load(checkpoint)
    lines = (corpus / CORPUS).read_bytes().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    sizes = np.array([template.count(row["messages"], row["tools"]) for row in rows])
    chosen = b"".join(lines[at] for at in np.flatnonzero(np.abs(sizes / np.median(sizes) - 1) < 0.05))
    few = folder / "corpus"
    few.mkdir()
    (few / CORPUS).write_bytes(chosen)
    (few / "card.json").write_text(json.dumps({"sha256": hashlib.sha256(chosen).hexdigest()}), encoding="utf-8")
    pack(few, folder / "pack", template, SETTINGS)
    return folder / "pack"


def case(checkpoint: Path, pack: Path, flags: tuple[str, ...]) -> dict[str, float]:
    command = [*SFT, str(checkpoint), str(pack), f"-ssteps={STEPS}", "-sgradient_accumulation=1", *flags]
    told = subprocess.run([*command, "--plan", "--json"], stdout=subprocess.PIPE, check=True, env=ONE_THREAD).stdout
    plan = json.loads(told)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        process = subprocess.Popen([*command, "--out", str(run), "--json"], stdout=subprocess.DEVNULL, env=ONE_THREAD)
        ends: list[float] = []
        while len(ends) < STEPS:
            time.sleep(0.05)
            losses = run / "losses.jsonl"
            done = losses.read_bytes().count(b"\n") if losses.exists() else 0
            ends += [time.perf_counter()] * (done - len(ends))
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
    step_s = (ends[-1] - ends[0]) / (STEPS - 1)
    planned_s, peak_gb = plan["hours"] * 3600 / STEPS, usage.ru_maxrss * 1024 / GB
    return {
        "planned_gb": plan["peak_gb"],
        "peak_gb": round(peak_gb, 3),
        "memory_ratio": round(plan["peak_gb"] / peak_gb, 3),
        "planned_step_s": round(planned_s, 2),
        "step_s": round(step_s, 2),
        "time_ratio": round(planned_s / step_s, 3),
    }


def published() -> dict[str, object]:
    """arXiv 2608.04804: Qwen2.5-Coder-7B, 12,723 blocks with 382.4 million tokens, 3,182 steps, 31.8 hours."""
    from transformers import Qwen2Config

    config = Qwen2Config(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        vocab_size=152064,
        tie_word_embeddings=False,
    )
    tokens, blocks, documents = 382_400_000, 12_723, 19_905
    lengths = np.full(blocks, tokens / blocks)
    lengths[0] = 32_768  # the longest block is full, and memory is that of the longest
    # Learned tokens are not published; 15% is what demonstrations here have.
    packed: Any = SimpleNamespace(
        lengths=lambda: lengths,
        documents=lambda: np.full(documents, tokens / documents),
        card=SimpleNamespace(loss_tokens=15, tokens=100),
    )
    packed = type("Packed", (SimpleNamespace,), {"__len__": lambda self: blocks})(**vars(packed))
    work = Work.of(config, packed, PAPER)
    flops = work.flops_per_token(checkpointing=True) * 2 * tokens
    memory, seconds, _ = by_arithmetic(config, work, PAPER, GPUS["h100"])
    return {
        "steps": work.steps,
        "parameters": work.parameters,
        "trained": work.trained,
        "operations": f"{flops:.3e}",
        "share_of_an_h100_at_31.8_hours": round(flops / (31.8 * 3600 * GPUS["h100"].flops), 3),
        "planned_gb": {part: round(gb, 1) for part, gb in memory.items()},
        "planned_peak_gb": round(sum(memory.values()), 1),
        "published_peak_gb": 24.2,
        "planned_hours_h100": round(seconds / 3600, 1),
        "planned_usd": round(PUBLISHED_USD_PER_HOUR * Decimal(seconds / 3600)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        packed = alike(given.corpus, given.checkpoint, Path(folder))
        for _ in range(ROUNDS):
            for name, flags in CASES.items():
                rounds[name].append(case(given.checkpoint, packed, flags))
                print(name, rounds[name][-1], file=sys.stderr)
        tokens = float(Pack(packed).lengths().mean())
    ratios = {
        name: {key: statistics.median(one[key] for one in told) for key in ("memory_ratio", "time_ratio")}
        for name, told in rounds.items()
    }
    found = {
        "steps": STEPS,
        "tokens_per_step": round(tokens, 1),
        "cases": ratios,
        "rounds": rounds,
        "published": published(),
    }
    record(found, given.json)


if __name__ == "__main__":
    main()
