"""Whole runs with a tiny checkpoint: real episodes in the real sandbox, real updates, kills, and going on."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from scrout.base import ConfigError, ModelError, TaskError
from scrout.batch.repositories import Repositories
from scrout.config.loading import load
from scrout.files import Lock
from scrout.lab.train.grpo.exchanges import read_exchanges, tokenize_exchanges
from scrout.lab.train.grpo.grpo import GrpoResult, train
from scrout.lab.train.grpo.learner import Learner
from scrout.lab.train.grpo.rollouts import Rollout
from scrout.lab.train.grpo.run_folder import GrpoSettings, GrpoStep
from scrout.lab.train.serving import CheckpointServer
from scrout.lab.train.tokenization import ChatTokenizer, Document
from scrout.scout.trace import Recorded
from scrout.task import Gold

OPTIONS = GrpoSettings(group_size=4, tasks_per_step=1, learning_rate=1e-2, rank=4, seed=1, chunk_tokens=64)


def run(
    shop: Any, tiny: Path, out: Path, *, steps: int = 1, options: GrpoSettings = OPTIONS, **more: Any
) -> GrpoResult:
    settings = more.pop("settings", shop.settings)
    rows = more.pop("rows", [shop.row()])
    more = {"server": "none", "device": "cpu", "parallel": 1, **more}
    return asyncio.run(train(tiny, rows, out, settings, Repositories(()), options, steps=steps, **more))


def weights(out: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(out / "adapters" / f"step-{step}" / "adapter_model.safetensors")


def logprob(learner: Learner, document: Document) -> float:
    """Mean over the tokens that the model wrote."""
    ids, wrote = torch.as_tensor(document.ids, dtype=torch.long), torch.as_tensor(document.loss_mask[1:])
    with torch.no_grad():
        logs = torch.log_softmax(learner.model(input_ids=ids[None]).logits[0, :-1], -1)
    return float(logs.gather(-1, ids[1:, None])[:, 0][wrote].mean())


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def episodes(out: Path) -> list[Rollout]:
    return [Rollout.model_validate_json(line) for line in (out / "episodes.jsonl").read_bytes().splitlines()]


def test_a_step_makes_what_was_better_likelier(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    outcome = run(shop_task, tiny, out)
    (step,) = outcome.steps
    assert (step.groups_used, step.groups_flat, step.episodes, step.documents) == (1, 0, 4, 4)
    assert step.tokens > 0 and step.norm > 0
    assert 0 < (step.reward or 0) < 1 and step.parts["verified"] == 0.5
    assert GrpoStep.model_validate_json((out / "steps.jsonl").read_bytes()) == step
    assert outcome.adapter == str(out / "adapters" / "step-1")
    assert not same(weights(out, 0), weights(out, 1))

    template = ChatTokenizer.load(tiny)
    gains: dict[bool, float] = {True: 0.0, False: 0.0}
    before, after = (Learner.load(tiny, out / "adapters" / name, OPTIONS, 1.0, "cpu") for name in ("step-0", "step-1"))
    for episode in episodes(out):
        assert episode.reward and episode.adapter == "step-0"
        for document in tokenize_exchanges(read_exchanges(Recorded(out / episode.trace)), template)[0]:
            gains[episode.reward.total > 0] += logprob(after, document) - logprob(before, document)
    assert gains[True] > gains[False]


def test_a_run_that_was_killed_ends_as_one_that_was_not(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    tasks = tmp_path / "tasks.jsonl"
    row = shop_task.row()
    gold = {"patch": "", "files": ["shop/cart.py"]}
    fields = {"id": row.id, "text": row.text, "repo": row.repo, "base_commit": "HEAD", "gold": gold}
    tasks.write_text(json.dumps(fields) + "\n")
    recipe = "group_size=4 tasks_per_step=1 learning_rate=0.01 rank=4 seed=1 chunk_tokens=64"
    command = [sys.executable, "-m", "scrout", "train", "grpo", str(tiny), str(tasks), "--out", str(killed)]
    command += ["--sync", "none", "--device", "cpu", "--steps", "2", "--parallel", "1", "--json"]
    command += [part for change in recipe.split() for part in ("-s", change)]
    command += [part for override in shop_task.overrides for part in ("-c", override)]

    shop_task.script.hang_at = 8 + 3  # in the second episode of the second step
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while shop_task.script.asked < 12 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        _, told = process.communicate()
    assert len(episodes(killed)) == 5, told.decode()
    first = (killed / "steps.jsonl").read_bytes()

    resumed = run(shop_task, tiny, killed, steps=2)
    assert shop_task.script.asked == 12 + 2 * 3, "only the episode in flight was drawn again"
    assert (killed / "steps.jsonl").read_bytes().startswith(first) and len(resumed.steps) == 2

    # Killed after the update, before the step counted.
    (killed / "steps.jsonl").write_bytes(first)
    run(shop_task, tiny, killed, steps=2)
    assert shop_task.script.asked == 12 + 2 * 3

    untouched = run(shop_task, tiny, whole, steps=2)
    for step in (0, 1, 2):
        assert same(weights(whole, step), weights(killed, step)), step
    assert not same(weights(whole, 1), weights(whole, 2))
    losses = [[(step.loss, step.norm, step.reward) for step in one.steps] for one in (untouched, resumed)]
    assert losses[0] == losses[1]


def test_a_run_goes_on_only_as_it_was_started(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(shop_task, tiny, out)
    asked = shop_task.script.asked
    with pytest.raises(TaskError, match=r"started with settings\.learning_rate 0\.01, and now it is 0\.1"):
        run(shop_task, tiny, out, steps=2, options=OPTIONS.model_copy(update={"learning_rate": 0.1}))
    with pytest.raises(TaskError, match="started with tasks "):
        run(shop_task, tiny, out, steps=2, rows=[shop_task.row("shop-2")])
    with pytest.raises(TaskError, match="holds other files"):
        run(shop_task, tiny, tiny)
    shutil.rmtree(out / "adapters" / "step-1")
    with pytest.raises(TaskError, match="step-1 is gone"):
        run(shop_task, tiny, out, steps=2)
    assert shop_task.script.asked == asked


def test_a_group_that_is_all_alike_is_counted_and_changes_nothing(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    options = OPTIONS.model_copy(update={"seed": 0})  # with which no episode of the first step finds anything
    (step,) = run(shop_task, tiny, tmp_path / "run", options=options).steps
    assert (step.groups_used, step.groups_flat, step.tokens, step.reward) == (0, 1, 0, 0)
    assert same(weights(tmp_path / "run", 0), weights(tmp_path / "run", 1))


def test_it_starts_from_an_adapter_of_ones_own(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    run(shop_task, tiny, tmp_path / "first")
    begun = tmp_path / "first" / "adapters" / "step-1"
    run(shop_task, tiny, tmp_path / "second", adapter=begun)
    assert same(weights(tmp_path / "first", 1), weights(tmp_path / "second", 0))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("temperature=0.0", "one episode many times"),
        ("top_p=0.8", "other probabilities"),
        ("top_k=20", "other probabilities"),
        ("repetition_penalty=1.1", "other probabilities"),
    ],
)
def test_drawing_otherwise_than_is_learned_is_refused(
    shop_task: Any, tiny: Path, tmp_path: Path, override: str, words: str
) -> None:
    settings = load(None, [*shop_task.overrides, f"scout.model.sampling.{override}"])
    with pytest.raises(ConfigError, match=words):
        run(shop_task, tiny, tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


def test_tasks_without_an_answer_or_of_a_benchmark_are_refused(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    row = shop_task.row()
    with pytest.raises(TaskError, match="none of the 1 tasks"):
        run(shop_task, tiny, tmp_path / "run", rows=[replace(row, gold=Gold(patch=""))])
    with pytest.raises(TaskError, match="django/django"):
        run(shop_task, tiny, tmp_path / "run", rows=[replace(row, id="django__django-1")])
    assert not (tmp_path / "run").exists()


def test_a_full_disk_is_named_and_leaves_nothing_half_written(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(shop_task, tiny, out)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    asked = shop_task.script.asked
    # The state of the optimizer is larger, all else is smaller: as if the disk were full by then.
    size = (out / "states" / "step-1").stat().st_size - 1
    assert all(path.stat().st_size < size for path in out.rglob("*") if path.parent.name != "states")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        with pytest.raises(ConfigError, match="Make room, and repeat the command"):
            run(shop_task, tiny, out, steps=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert shop_task.script.asked == asked + 8
    assert not list(out.rglob("*.part")) and not (out / "states" / "step-2").exists()
    assert len(run(shop_task, tiny, out, steps=2).steps) == 2
    assert shop_task.script.asked == asked + 8, "its episodes were kept"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux alone says there how much is in use")
def test_full_memory_is_named(tiny: Path) -> None:
    learner = Learner.load(tiny, None, OPTIONS, 1.0, "cpu")
    document = Document(np.ones(3_000_000, np.int32), np.ones(3_000_000, np.bool_))
    limit = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, limit[1]))
    try:
        with pytest.raises(ConfigError, match=r"memory is full while a conversation of 3,000,000 tokens.*chunk_tokens"):
            learner.update([(document, 1.0)])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


def test_a_task_whose_repository_is_gone_costs_its_group_alone(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    rows = [shop_task.row(), replace(shop_task.row("gone-1"), repo=str(tmp_path / "nowhere"))]
    options = OPTIONS.model_copy(update={"tasks_per_step": 2})
    (step,) = run(shop_task, tiny, tmp_path / "run", rows=rows, options=options).steps
    assert (step.groups_used, step.groups_flat, step.episodes, list(step.lost)) == (1, 0, 4, ["gone-1"])
    assert "nowhere" in step.lost["gone-1"]


def test_one_process_at_a_time(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    other = Lock(out / ".lock")
    assert other.take()
    with pytest.raises(TaskError, match="another process is using"):
        run(shop_task, tiny, out)
    other.release()


def test_a_server_that_loads_no_adapter_is_named(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"did not load step-0.*VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
        run(shop_task, tiny, tmp_path / "run", server="vllm")
    settings = load(None, [*shop_task.overrides, "scout.model.base_url=http://127.0.0.1:9/v1"])
    with pytest.raises(ModelError, match=r"ConnectError.*repeat the command"):
        run(shop_task, tiny, tmp_path / "run", server="vllm", settings=settings)


def test_with_a_server_of_the_checkpoint_itself(shop_task: Any, tiny: Path, tmp_path: Path) -> None:
    """It draws by the adapter of each step. Random weights find nothing, so that there is nothing to learn."""
    out = tmp_path / "run"
    with CheckpointServer(tiny, adapters=tmp_path, threads=1) as server:
        given = {"base_url": server.base_url, "max_tokens": 16, "turns": 1, "context_tokens": 4096}
        settings = load(None, [*shop_task.overrides, *(f"scout.model.{key}={value}" for key, value in given.items())])
        options = OPTIONS.model_copy(update={"group_size": 2})
        outcome = run(shop_task, tiny, out, server="vllm", settings=settings, options=options)
        drawn = episodes(out)
    assert [step.groups_flat for step in outcome.steps] == [1]
    assert [one.reward.total for one in drawn if one.reward] == [0, 0]
    replies = [read_exchanges(Recorded(out / one.trace)) for one in drawn]
    assert replies[0][0].prompt == replies[1][0].prompt and replies[0][0].reply != replies[1][0].reply

    # What the server says of its tokens is learned in place of the text, and is the same prompt.
    exact, template = replies[0], ChatTokenizer.load(tiny)
    without = [replace(one, prompt_ids=(), reply_ids=()) for one in exact]
    by_ids, (by_text,) = tokenize_exchanges(exact, template)[0], tokenize_exchanges(without, template)[0]
    assert len(exact) == 2, "the turn, and the demanded handoff"
    learned = [token for document in by_ids for token in document.ids[document.loss_mask].tolist()]
    assert learned == [token for one in exact for token in one.reply_ids] and len(learned) == 2 * 16
    first = len(exact[0].prompt_ids)
    assert by_ids[0].ids[:first].tolist() == by_text.ids[:first].tolist() == list(exact[0].prompt_ids)
