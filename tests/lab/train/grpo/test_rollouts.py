"""Episodes to learn from: drawn in the real sandbox, kept one by one, and turned into tokens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrout.base import ModelError
from scrout.batch.repositories import Repositories
from scrout.lab.train.grpo.exchanges import ChatExchange, read_exchanges, tokenize_exchanges
from scrout.lab.train.grpo.rollouts import Rollout, Rollouts
from scrout.lab.train.grpo.run_folder import GrpoSettings
from scrout.lab.train.tokenization import ChatTokenizer
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, Status
from scrout.sandbox.tier import Tier
from scrout.scout.trace import Recorded

ALONE = """
import asyncio, json, sys
from pathlib import Path
from scrout.batch.task_formats import TaskRow
from scrout.batch.repositories import Repositories
from scrout.config.loading import load
from scrout.sandbox.probe import require_tier
from scrout.task import Gold
from scrout.lab.train.grpo.rollouts import Rollouts
from scrout.lab.train.grpo.run_folder import GrpoSettings

given = json.loads(sys.argv[1])
settings = load(None, given["overrides"])
row = TaskRow(*given["row"], Gold(patch="", files=("shop/cart.py",)))
run = GrpoSettings(group_size=4, seed=1)
rollouts = Rollouts(Path(given["out"]), settings, require_tier(settings.sandbox), Repositories(()), run, 1)
asyncio.run(rollouts.collect(0, [row], "step-0"))
"""


def rollouts(shop: Any, out: Path, tier: Tier, parallel: int = 2) -> Rollouts:
    out.mkdir(exist_ok=True)
    return Rollouts(out, shop.settings, tier, Repositories(()), GrpoSettings(group_size=4, seed=1), parallel)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


async def test_a_group_is_drawn_rewarded_and_kept(shop_task: Any, tmp_path: Path, tier: Tier) -> None:
    drawn = await rollouts(shop_task, tmp_path / "run", tier).collect(0, [shop_task.row()], "step-0")
    group = drawn["shop-1"]
    assert [one.number for one in group] == [0, 1, 2, 3]
    good = [one for one in group if one.reward and one.reward.total]
    assert good and len(good) < 4, "the seeds of this place give both"
    for one in good:
        assert one.reward and one.reward.found == one.reward.verified == one.reward.committed == 1
        assert (one.verdict, one.stop, one.turns, one.adapter) == ("real_failure", "finished", 2, "step-0")
    kept = [Rollout.model_validate_json(line) for line in lines(tmp_path / "run" / "episodes.jsonl")]
    assert sorted(kept, key=lambda one: one.number) == group
    # Where the trace was written it may be cleared away; the run's own stays.
    assert all((tmp_path / "run" / one.trace).is_file() for one in group)


def test_a_kill_loses_the_episode_in_flight_alone(shop_task: Any, tmp_path: Path, tier: Tier) -> None:
    out = tmp_path / "run"
    out.mkdir()
    row = shop_task.row()
    given = {"out": str(out), "overrides": shop_task.overrides, "row": [row.id, row.text, row.repo, row.base_commit]}
    shop_task.script.hang_at = 5  # the last request of the third episode
    process = subprocess.Popen([sys.executable, "-c", ALONE, json.dumps(given)], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while shop_task.script.asked < 6 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = lines(out / "episodes.jsonl")
    assert len(before) == 2 and shop_task.script.asked == 6
    with (out / "episodes.jsonl").open("ab") as file:
        file.write(b'{"step": 0, "task"')  # as a kill in the midst of a line leaves it

    group = asyncio.run(rollouts(shop_task, out, tier, parallel=1).collect(0, [row], "step-0"))["shop-1"]
    after = lines(out / "episodes.jsonl")
    assert after[:2] == before and len(after) == len(group) == 4
    assert shop_task.script.asked == 6 + 4, "two episodes of two requests each"
    assert {Rollout.model_validate_json(line).number for line in after} == {0, 1, 2, 3}


async def test_a_dead_server_is_named_and_what_is_finished_stays(shop_task: Any, tmp_path: Path, tier: Tier) -> None:
    done = await rollouts(shop_task, tmp_path / "run", tier).collect(0, [shop_task.row()], "step-0")
    with ScriptedEndpoint(lambda request: ScriptedReply("", fault=Status(404))) as dead:
        shop_task.server = dead
        drawing = rollouts(shop_task, tmp_path / "run", tier)
        # All of the first step is there already, and nobody is asked.
        assert await drawing.collect(0, [shop_task.row()], "step-0") == done and not dead.served
        with pytest.raises(ModelError, match=r"shop-1: .* repeat the command"):
            await drawing.collect(1, [shop_task.row()], "step-1")
    assert len(lines(tmp_path / "run" / "episodes.jsonl")) == 4


async def test_an_episode_is_learned_as_it_was_said(shop_task: Any, tmp_path: Path, tier: Tier, tiny: Path) -> None:
    out = tmp_path / "run"
    drawn = await rollouts(shop_task, out, tier).collect(0, [shop_task.row()], "step-0")
    template = ChatTokenizer.load(tiny)
    for one in drawn["shop-1"]:
        replies = read_exchanges(Recorded(out / one.trace))
        found, problems = tokenize_exchanges(replies, template)
        assert len(found) == 1 and not problems, "each prompt goes on where the one before it ended"
        learned = template.tokenizer.decode(found[0].ids[found[0].loss_mask])
        assert learned == "".join(f"{reply.reply['content']}<|im_end|>" for reply in replies)
        assert len(replies) == 2 and "leaves out the first price" in template.tokenizer.decode(found[0].ids)


def spoken(prompt: list[tuple[str, str]], reply: str, **more: Any) -> ChatExchange:
    messages = tuple({"role": role, "content": content} for role, content in prompt)
    return ChatExchange(messages, {"role": "assistant", "content": reply}, (), more.pop("cut_off", False), **more)


def test_what_is_forced_or_follows_a_shortened_prompt_is_a_document_of_its_own(tiny: Path) -> None:
    opening = [("system", "s"), ("user", "u")]
    replies = [
        spoken(opening, "one"),
        spoken([*opening, ("assistant", "one"), ("user", "seen")], "two"),
        spoken([*opening, ("assistant", "two"), ("user", "seen, hand over now")], "three"),
    ]
    template = ChatTokenizer.load(tiny)
    found, _ = tokenize_exchanges(replies, template)
    texts = [template.tokenizer.decode(document.ids[document.loss_mask]) for document in found]
    assert texts == ["one<|im_end|>two<|im_end|>", "three<|im_end|>"]


def test_an_end_that_the_model_did_not_write_is_not_learned(tiny: Path) -> None:
    opening = [("system", "s"), ("user", "u")]
    replies = [
        spoken(opening, "one", cut_off=True),
        spoken([*opening, ("assistant", "one"), ("user", "seen")], "two"),
    ]
    template = ChatTokenizer.load(tiny)
    (document,), _ = tokenize_exchanges(replies, template)
    assert template.tokenizer.decode(document.ids[document.loss_mask]) == "onetwo<|im_end|>"


def test_the_servers_own_ids_are_taken_as_they_are(tiny: Path) -> None:
    replies = [
        spoken([("user", "u")], "a", prompt_ids=(1, 2), reply_ids=(3, 4)),
        spoken([("user", "u")], "b", prompt_ids=(1, 2, 3, 4, 5), reply_ids=(6,)),
        spoken([("user", "u")], "c", prompt_ids=(1, 9), reply_ids=(7, 8)),
    ]
    found, _ = tokenize_exchanges(replies, ChatTokenizer.load(tiny))
    assert [document.ids.tolist() for document in found] == [[1, 2, 3, 4, 5, 6], [1, 9, 7, 8]]
    assert [np.flatnonzero(document.loss_mask).tolist() for document in found] == [[2, 3, 5], [2, 3]]


def test_text_with_a_token_of_the_template_is_left_out_and_named(tiny: Path) -> None:
    found, problems = tokenize_exchanges([spoken([("user", "<|im_start|>")], "a")], ChatTokenizer.load(tiny))
    assert not found and "token of the chat template" in problems[0]
