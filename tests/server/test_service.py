"""What a call leaves behind that came to nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from scrout.base import ModelError
from scrout.cli import render
from scrout.config.settings import ScoutSettings, SearcherSettings, Settings
from scrout.ledger.opening import open_ledger
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, Status
from scrout.money import Price, Receipt, Usage
from scrout.records import Attempt
from scrout.sandbox.tier import Tier
from scrout.server.mcp import resources
from scrout.server.service import Service
from scrout.task import Task

AT = datetime(2026, 11, 15, tzinfo=UTC)
ISSUE = "total() leaves out the first price"


@pytest.mark.parametrize("stage", ["scout", pytest.param("gate", marks=pytest.mark.slow)])
async def test_a_scouting_that_failed_is_not_gone_on_with(
    stage: str, make_repo: Callable[..., Path], tier: Tier
) -> None:
    """Its run is closed, so that the next call searches anew instead of hearing of the same failure."""
    with ScriptedEndpoint([ScriptedReply(fault=Status(401))] * 2) as endpoint:
        dead = SearcherSettings(model="m", base_url=endpoint.base_url, price=Price(input=0, output=0))
        await _fail_twice(stage, Settings(scout=ScoutSettings(searcher="model", model=dead)), make_repo)


async def _fail_twice(stage: str, settings: Settings, make_repo: Callable[..., Path]) -> None:
    service = Service(make_repo({"shop.py": "def total(prices):\n    return sum(prices[1:])\n"}), settings)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "scout": lambda: service.scout(ISSUE, "", dirty=False, say=lambda words: None),
        "gate": lambda: service.gate(ISSUE, "", "", dirty=False, say=lambda words: None),
    }
    for _ in range(2):
        with pytest.raises(ModelError, match="gave no handoff"):
            await calls[stage]()
    with open_ledger(settings) as book:
        assert [run.outcome for run in book.runs()] == ["infrastructure", "infrastructure"]


async def test_receipts_of_a_run_hold_what_an_interrupted_step_paid(tmp_path: Path) -> None:
    paid = [
        Receipt(component="fix", fixer="a", model="m", usage=Usage(), cost_usd=Decimal(cost), at=AT, call=call)
        for call, cost in ((1, "0.25"), (2, "0.50"))
    ]
    service, task = Service(tmp_path, Settings()), Task(id="t", text=ISSUE, repo=tmp_path, base_commit="c" * 40)

    async def cut_off(task: Task) -> Attempt:
        run.book(paid[0])
        raise KeyboardInterrupt

    async def finished(task: Task) -> Attempt:
        return Attempt(
            fixer="a", patch="", stop="finished", detail="", seconds=1, cost_usd=Decimal("0.50"), receipts=(paid[1],)
        )

    with open_ledger(service.settings) as book:
        run = book.open(task, "digest", sandbox="bubblewrap", environment="none")
        with pytest.raises(KeyboardInterrupt):
            await run.step("fix", cut_off, task)
        await run.step("fix", finished, task)
        closed = run.close()
    told = json.loads(resources.receipts(service, closed.id))
    assert [one["cost_usd"] for one in told["receipts"]] == [0.25, 0.5]
    assert told["cost_usd"] == 0.75 == float(closed.cost_usd or 0) and closed.lost_usd == Decimal("0.25")
    console = Console(width=100)
    with console.capture() as shown:
        console.print(render.story(closed))
    assert "interrupted or repeated" in shown.get() and "$0.25" in shown.get()
