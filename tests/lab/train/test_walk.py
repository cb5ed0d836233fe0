"""docs/research/training.md by its own commands: a tiny model with random weights, from trajectories to GRPO."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from click.testing import CliRunner

from scrout.batch.task_formats import TaskRow
from scrout.cli.train import command
from scrout.lab.train.corpus.trajectory import DistilledEpisode, FixAnswer, ToolStep
from scrout.lab.train.lora import load_model
from scrout.lab.train.sft import WHOLE, read_losses
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Usage
from scrout.sandbox.tier import Tier

FILES = {"shop/__init__.py": "", "shop/cart.py": "def total(prices):\n    return sum(prices[1:])\n"}
ISSUE = "total() leaves out the first price"
LOOK = "<function=bash>\n<parameter=command>cat shop/cart.py</parameter>\n</function>"
HANDOFFS = ("<files>\nshop/cart.py\n</files>\n<notes>\nThere.\n</notes>\nSTOP", "<files>\nshop/no.py\n</files>\nSTOP")
PROMPTS = {
    "system": "Search. $tools",
    "issue": "$issue",
    "forced": "Hand over now.",
    "malformed": "What? $problem",
    "thought": "Go on.",
}
SIZES = tuple(f"-cscout.model.{size}" for size in ("context_tokens=2048", "max_tokens=256", "margin_tokens=16"))
SMALL = (
    *("-ssteps=2", "-sgradient_accumulation=1", "-ssave_steps=1", "-sprecision=float32"),
    *("--device", "cpu"),
)


def scrout(*words: str | Path) -> Any:
    """What a command of `scrout train` prints as JSON."""
    done = CliRunner().invoke(command, [*map(str, words), "--json"], catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0, done.output
    return json.loads(done.stdout)


def taught(number: int) -> str:
    steps = (
        ToolStep(thought="I look.", tool="bash", arguments={"command": f"ls {number}"}, observation="shop"),
        ToolStep(thought="", tool="bash", arguments={"command": "cat shop/cart.py"}, observation=FILES["shop/cart.py"]),
    )
    gold = FixAnswer(files=("shop/cart.py",), patch="")
    name = f"me__shop-{number}"
    told = DistilledEpisode(issue_id=name, repository="me/shop", base_commit="", issue=ISSUE, steps=steps, gold=gold)
    return told.model_dump_json() + "\n"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Short ones: a tiny model's tokens are hardly more than bytes."""
    folder = tmp_path / "prompts"
    folder.mkdir()
    for name, text in PROMPTS.items():
        (folder / f"{name}.md").write_text(text)
    return folder


@pytest.fixture
def server() -> Iterator[ScriptedEndpoint]:
    """It looks, and hands over the right file at every second time."""
    ends: list[str] = []

    def reply(request: ScriptedRequest) -> ScriptedReply:
        messages = request.content["messages"]
        assert isinstance(messages, Sequence)
        if len(messages) == 2:
            return ScriptedReply(LOOK, usage=Usage(input_tokens=50, output_tokens=9))
        ends.append(HANDOFFS[len(ends) % 2])
        return ScriptedReply(ends[-1], usage=Usage(input_tokens=70, output_tokens=9))

    with ScriptedEndpoint(reply, models=("policy",)) as endpoint:
        yield endpoint


def test_a_tiny_model_goes_all_the_way(
    tiny: Path,
    tmp_path: Path,
    prompts: Path,
    server: ScriptedEndpoint,
    make_repo: Callable[..., Path],
    tier: Tier,
) -> None:
    (tmp_path / "distilled.jsonl").write_text("".join(map(taught, range(6))))
    corpus, blocks, run = tmp_path / "corpus", tmp_path / "pack", tmp_path / "run"
    card = scrout(
        "corpus",
        tmp_path / "distilled.jsonl",
        "--out",
        corpus,
        f"-cscout.model.prompts={prompts}",
        "-cscout.model.dialect=xml",
    )
    assert (card["demonstrations"], card["blocked_hits"]) == (6, 0)
    packed = scrout("pack", corpus, "--checkpoint", tiny, "--out", blocks, *SIZES)
    assert packed["demonstrations"] == 6 and packed["corpus_sha256"] == card["sha256"]

    plan = scrout("sft", tiny, blocks, "--recipe", "paper", "--plan", "--gpu", "h100")
    assert plan["device"] == "h100" and plan["peak_gb"] > 0
    tuned = scrout("sft", tiny, blocks, "--out", run, "--held-out", blocks, *SMALL)
    assert tuned["run"]["steps"] == 2 and tuned["held_out_after"] < tuned["held_out_before"]
    # As a kill in the midst of the last checkpoint leaves it.
    losses, weights = read_losses(run), (run / "adapter" / "adapter_model.safetensors").read_bytes()
    shutil.rmtree(run / "adapter")
    (run / "checkpoints" / "checkpoint-2" / WHOLE).unlink()
    scrout("sft", tiny, blocks, "--out", run, "--held-out", blocks, *SMALL)
    assert read_losses(run) == losses and (run / "adapter" / "adapter_model.safetensors").read_bytes() == weights

    searcher = Path(scrout("export", run, "--out", tmp_path / "searcher", "--precision", "float32")["folder"])
    alone = Path(scrout("export", run, "--out", tmp_path / "searcher-lora", "--form", "adapter")["folder"])
    assert (alone / "adapter_config.json").is_file()
    before, after = (load_model(path, "float32", "cpu").state_dict() for path in (tiny, searcher))
    assert before.keys() == after.keys() and any(not torch.equal(before[name], after[name]) for name in before)

    row = TaskRow("shop-1", ISSUE, str(make_repo(FILES)), "HEAD", None)
    gold = {"patch": "", "files": ["shop/cart.py"]}
    fields = {"id": row.id, "text": row.text, "repo": row.repo, "base_commit": row.base_commit, "gold": gold}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(fields) + "\n")
    settings = {
        "model": "policy",
        "base_url": server.base_url,
        "price.input": 0,
        "price.output": 0,
        "dialect": "xml",
        "prompts": prompts,
        "shortlist": "false",
        "tools": '["bash"]',
        "sampling.temperature": 1.0,
    }
    given = [part for key, value in settings.items() for part in ("-c", f"scout.model.{key}={value}")]
    small = ("--steps", "1", "-sgroup_size=2", "-stasks_per_step=1", "--parallel", "1", "--sync", "none")
    places = (searcher, tmp_path / "tasks.jsonl", "--out", tmp_path / "grpo")
    learned = scrout("grpo", *places, *small, "--device", "cpu", *given)
    (step,) = learned["steps"]
    assert (step["groups_used"], step["episodes"]) == (1, 2) and step["norm"] > 0
    told = scrout("reward", tmp_path / "grpo", "--tasks", tmp_path / "tasks.jsonl")
    assert told["episodes"] == 2 and told["flat"] == 0
    merged = scrout("export", tmp_path / "grpo", "--base", searcher, "--out", tmp_path / "better")
    assert Path(merged["folder"]).is_dir()
