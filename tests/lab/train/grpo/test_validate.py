"""The reward over saved episodes: what it says of them, and what gaming it would bring on the same tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scrout.base import ConfigError, TaskError
from scrout.batch.repositories import Repositories
from scrout.cli.train.reward import command
from scrout.config.settings import SearcherSettings
from scrout.handoff import FileRef, Handoff
from scrout.lab.train.grpo.reward import Weights
from scrout.lab.train.grpo.reward_report import SavedEpisode, read_saved, report
from scrout.lab.train.grpo.rollouts import Rollouts
from scrout.lab.train.grpo.run_folder import PRESETS, GrpoSettings
from scrout.lab.train.recipe import read_recipe
from scrout.records import Scouting, ScoutStop
from scrout.sandbox.tier import Tier

ALLOWED = SearcherSettings(turns=10)
GOLD = {"one": ("a.py",), "two": ("b.py", "c.py")}


def saved(
    task: str, files: Sequence[str], stop: ScoutStop = "finished", *, verified: bool | None = None
) -> SavedEpisode:
    handoff = Handoff(files=tuple(FileRef(path=path) for path in files))
    scouting = Scouting(handoff=handoff, text="", seconds=1, stop=stop, turns=8)
    return SavedEpisode(Path("t"), task, scouting, ALLOWED, "a.py:1-3  named in it\nz.py", verified)


def test_groups_parts_and_what_has_no_reward() -> None:
    episodes = [
        saved("one", ["a.py"]),
        saved("one", ["x.py"]),
        saved("two", ["b.py"]),
        saved("two", ["b.py"]),
        saved("one", [], "endpoint"),
        saved("three", ["a.py"]),
    ]
    told = report(episodes, GOLD, left_out={"cut off": 2})
    assert (told.episodes, told.tasks, told.groups, told.flat) == (4, 2, 2, 1)
    assert told.unscored == {"cut off": 2, "infrastructure: endpoint": 1, "files of the fix unknown": 1}
    assert told.parts["recall"].model_dump() == pytest.approx(
        {
            "mean": 0.5,
            "deviation": 0.125**0.5,
            "low": 0,
            "quarter": 0.375,
            "median": 0.5,
            "three_quarters": 0.625,
            "high": 1,
        }
    )
    assert "verified" not in told.parts, "the gate was not asked"
    assert told.with_recall is not None and told.with_recall > 0.95


def test_policies_that_do_not_search_earn_less() -> None:
    told = report([saved("one", ["a.py"], verified=True), saved("two", ["b.py", "x.py"], verified=False)], GOLD)
    assert {game.policy for game in told.degenerate} == {
        "name every file",
        "never hand over",
        "hand over nothing",
        "hand over the shortlist at once",
    }
    assert not any(game.pays for game in told.degenerate)
    assert all(game.reward < game.honest for game in told.degenerate)


def test_a_shortlist_that_is_as_good_as_the_search_is_told() -> None:
    """Then it is not the reward that is wrong: the tasks are, or the search."""
    told = report([saved("one", ["a.py", "q.py", "r.py", "s.py"])], GOLD)
    assert [game.policy for game in told.degenerate if game.pays] == ["hand over the shortlist at once"]


def test_nothing_to_reward_is_an_error_with_the_reasons() -> None:
    with pytest.raises(TaskError, match="1 files of the fix unknown"):
        report([saved("three", ["a.py"])], GOLD)


def read_weights(*changes: str) -> Weights:
    return read_recipe("", [f"weights.{change}" for change in changes], PRESETS).weights


def test_weights_are_read_by_name() -> None:
    assert read_weights("files=0.4", "forced=0") == Weights(files=0.4, forced=0)
    with pytest.raises(ConfigError, match=r"recipe's weights\.speed: .*not permitted"):
        read_weights("speed=1")
    with pytest.raises(ConfigError, match="handing over at once would be worth more"):
        read_weights("length=0.9")


@pytest.fixture
def run(shop_task: Any, tmp_path: Path, tier: Tier) -> Path:
    """Four saved episodes of one task."""
    out = tmp_path / "run"
    out.mkdir()
    drawing = Rollouts(out, shop_task.settings, tier, Repositories(()), GrpoSettings(group_size=4, seed=1), 2)
    asyncio.run(drawing.collect(0, [shop_task.row()], "step-0"))
    return out


def test_the_command_replays_traces_and_lists_with_the_gate(run: Path, shop_task: Any, tmp_path: Path) -> None:
    row = shop_task.row()
    tasks = tmp_path / "tasks.json"
    gold = {"patch": "", "files": ["shop/cart.py"]}
    fields = {"id": row.id, "text": row.text, "repo": row.repo, "base_commit": "HEAD", "gold": gold}
    tasks.write_text(json.dumps([fields]))
    traces = sorted((run / "traces").iterdir())
    told = []
    for sources, more in ((traces, ()), ([run], ()), ([run / "episodes.jsonl"], ("--gate",))):
        words = [*map(str, sources), "--tasks", str(tasks), "--json", *more]
        done = CliRunner().invoke(command, words, catch_exceptions=False, standalone_mode=False)
        assert done.return_value == 0
        told.append(json.loads(done.stdout))
    assert told[0] == told[1]
    assert (told[0]["episodes"], told[0]["groups"], told[0]["flat"]) == (4, 1, 0)
    assert "verified" not in told[0]["parts"] and told[2]["parts"]["verified"]["mean"] == 0.5
    # What the gate says now is what it said then.
    kept = [json.loads(line)["reward"]["total"] for line in (run / "episodes.jsonl").read_text().splitlines()]
    assert told[2]["parts"]["total"]["mean"] == pytest.approx(sum(kept) / 4)

    shown = CliRunner().invoke(command, [str(run), "--tasks", str(tasks)], catch_exceptions=False)
    assert "groups without a signal" in shown.stdout and "0 of 1" in shown.stdout


def test_lists_and_traces_that_cannot_be_read_are_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match=r"holds no trace\.jsonl"):
        read_saved([tmp_path / "empty"])
    bad = tmp_path / "bad" / "episodes.jsonl"
    bad.parent.mkdir()
    bad.write_text('{"trace": 3}\n')
    with pytest.raises(TaskError, match="line 1 names no trace"):
        read_saved([bad])
    trace = next((run / "traces").iterdir())
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(trace.read_bytes().splitlines(keepends=True)[:-1]))
    found, left_out = read_saved([cut, trace])
    assert len(found) == 1 and left_out == {"cut off": 1}
