"""The whole job as a library: one plain call, and the same from a program that has an event loop already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

import scrout
from scrout.base import TaskError
from scrout.config.settings import Settings
from scrout.ledger.store import OpenRun
from scrout.pipeline import Stages, open_kit, open_task, solve
from scrout.records import Attempt
from scrout.sandbox.tier import Tier

FILES = {
    "cart.py": "def total(prices):\n    return sum(prices[1:])\n",
    "test_cart.py": (
        "import unittest\n\nfrom cart import total\n\n\nclass CartTest(unittest.TestCase):\n"
        "    def test_empty(self):\n        self.assertEqual(total([]), 0)\n"
    ),
}
ISSUE = (
    "total leaves out the first price\n\n```python\nfrom cart import total\n\n"
    "assert total([1, 2]) == 3, total([1, 2])\n```\n\nAssertionError: 2\n"
)


def test_the_plain_call(make_repo: Callable[..., Path], tier: Tier) -> None:
    run = scrout.solve_issue(make_repo(FILES), ISSUE)
    assert run.outcome == "solved" and run.cost_usd == 0
    assert run.sandbox == tier.name and run.decision and run.decision.fixer == "repair"
    assert [check.outcome for check in run.checks] == ["passed"]
    assert "cart.py" in run.patch


async def test_inside_an_event_loop(make_repo: Callable[..., Path], tier: Tier) -> None:
    task = open_task(make_repo(FILES), "nothing here can be reproduced")
    said: list[str] = []
    with open_kit(task, Settings(), said.append) as kit:
        run = await solve(task, kit)
    assert run.outcome == "not_solved"
    assert said[0] == "scouting the repository"


def test_finished_steps_are_not_repeated(make_repo: Callable[..., Path], tier: Tier) -> None:
    task = open_task(make_repo(FILES), "nothing here can be reproduced")

    def interrupt(words: str) -> None:
        if words == "choosing a fixer":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_kit(task, Settings(), interrupt) as kit:
        asyncio.run(solve(task, kit))
    said: list[str] = []
    with open_kit(task, Settings(), said.append) as kit:
        run = asyncio.run(solve(task, kit))
        assert [past.id for past in kit.ledger.runs(10)] == [run.id]
    assert said[0] == "choosing a fixer" and run.outcome == "not_solved"


async def test_what_an_interrupted_attempt_paid_does_not_repeat_a_finished_one(
    make_repo: Callable[..., Path], tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next fixer was cut off in the midst of its attempt, and the run goes on."""
    task, tried = open_task(make_repo(FILES), "nothing here can be reproduced"), []

    async def attempt(stages: Stages, *given: object) -> Attempt:
        tried.append(stages.run.lost_usd("fix"))
        return Attempt(fixer="repair", patch="", stop="nothing_found", detail="", seconds=0)

    monkeypatch.setattr(Stages, "_fix", attempt)
    with open_kit(task, Settings()) as kit:
        stages = kit.open(task)
        scouting = await stages.scout()
        gated, decision = await stages.gate(scouting), await stages.route(scouting)
        for lost in ("0", "0.30"):
            monkeypatch.setattr(OpenRun, "lost_usd", lambda run, name, lost=lost: Decimal(lost))
            await stages.fix(gated, decision, "repair", stages.left_usd(stages.order(gated, decision), []))
    assert tried == [Decimal(0)]


def test_starting_over_leaves_the_interrupted_run_as_it_is(make_repo: Callable[..., Path], tier: Tier) -> None:
    task = open_task(make_repo(FILES), "nothing here can be reproduced")
    told: list[bool] = []
    with open_kit(task, Settings()) as kit:
        first = kit.open_run(task)
    with open_kit(task, Settings()) as kit:
        context = replace(kit.context, opened=lambda run: told.append(run.resumed))
        fresh = replace(kit, context=replace(context, fresh=True)).open_run(task)
        assert fresh.id != first.id
        fresh.close()
        assert replace(kit, context=context).open_run(task).id == first.id
    assert told == [False, True]


def test_a_task_names_its_commit(make_repo: Callable[..., Path]) -> None:
    repo = make_repo(FILES)
    clean = open_task(repo, "text")
    (repo / "cart.py").write_text("changed\n")
    assert open_task(repo, "text") == clean
    dirty = open_task(repo, "text", dirty=True)
    assert dirty.dirty and dirty.base_commit != clean.base_commit
    assert open_task(repo, "text", dirty=True) == dirty
    with pytest.raises(TaskError, match="not a folder"):
        open_task(repo / "missing", "text")
