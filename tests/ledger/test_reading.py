"""Runs in one line each, for lists of many."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.handoff import Handoff
from scrout.ledger.store import Ledger, OpenRun
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Decision, Scouting
from scrout.task import Task

TASK = Task(id="larder-1", text="The larder is empty.", repo=Path("/home/me/larder"), base_commit="c" * 40)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


def begin(ledger: Ledger, batch: str = "") -> OpenRun:
    return ledger.open(TASK, "s", sandbox="none", environment="none", batch=batch, arm="solo/a", resume=False)


def receipt(cost: str | None, call: int = 1) -> Receipt:
    cost_usd = None if cost is None else Decimal(cost)
    return Receipt(
        component="fix", fixer="a", model="m", usage=Usage(), cost_usd=cost_usd, at=datetime.now(UTC), call=call
    )


async def fix(run: OpenRun, *costs: str | None) -> None:
    paid = tuple(receipt(cost, call) for call, cost in enumerate(costs, 1))

    async def stage(task: Task) -> Attempt:
        return Attempt(fixer="a", patch="", stop="finished", detail="", seconds=1, receipts=paid)

    await run.step("fix", stage, TASK)


async def test_a_brief_says_what_a_run_came_to(ledger: Ledger) -> None:
    run = begin(ledger, "b-1")
    await fix(run, "0.1234567891", "1")
    closed = run.close()
    (brief,) = ledger.briefs([run.id])
    assert (brief.id, brief.task_id, brief.repository, brief.text) == (run.id, "larder-1", "larder", TASK.text)
    assert (brief.batch, brief.arm, brief.fixer, brief.outcome) == ("b-1", "solo/a", "a", "not_solved")
    assert brief.cost_usd == closed.cost_usd == Decimal("1.1234567891")
    assert (brief.started, brief.finished) == (closed.started, closed.finished)
    assert ledger.numbers() == [(brief.number, run.id)]


async def test_what_is_unknown_stays_unknown(ledger: Ledger) -> None:
    unpriced = begin(ledger)
    await fix(unpriced, "1", None)
    unpriced.close()
    chosen = begin(ledger)

    async def route(task: Task) -> Decision:
        return Decision(fixer="b", theta=0, degraded=False, fallback=False, reason="", candidates=())

    await chosen.step("route", route, TASK)
    chosen.close()
    still = begin(ledger)
    first, second, third = ledger.briefs([still.id, chosen.id, unpriced.id])
    assert (first.id, first.cost_usd) == (unpriced.id, None)
    assert (second.fixer, second.cost_usd) == ("b", Decimal(0))
    assert (third.outcome, third.finished, third.fixer, third.cost_usd) == ("interrupted", None, "", None)


async def test_numbers_follow_the_order_of_beginning(ledger: Ledger) -> None:
    runs = [begin(ledger) for _ in range(3)]
    numbers = ledger.numbers()
    assert [run_id for _, run_id in numbers] == [run.id for run in runs]
    assert ledger.numbers(numbers[1][0]) == numbers[2:]
    assert ledger.briefs([]) == []


async def test_progress_tells_the_step_and_what_was_spent(ledger: Ledger) -> None:
    closed, fresh, going = begin(ledger), begin(ledger), begin(ledger)
    closed.close()

    async def scout(task: Task) -> Scouting:
        return Scouting(handoff=Handoff(), text="", seconds=0)

    await going.step("scout", scout, TASK)

    async def stage(task: Task) -> Attempt:
        going.book(receipt("0.5", 1))
        going.book(receipt("0.25", 2))
        found = {one.run_id: one for one in ledger.in_progress()}
        assert set(found) == {fresh.id, going.id}
        assert (found[fresh.id].step, found[fresh.id].status, found[fresh.id].at) == ("", "", None)
        assert (found[going.id].step, found[going.id].status) == ("fix", "started")
        assert found[going.id].cost_usd == Decimal("0.75")
        going.book(receipt(None, 3))
        (now,) = (one.cost_usd for one in ledger.in_progress() if one.run_id == going.id)
        assert now is ledger.run(going.id).cost_usd is None, "as the run itself says"
        assert ledger.paid_usd(going.id) == Decimal("0.75")
        return Attempt(fixer="a", patch="", stop="finished", detail="", seconds=1)

    await going.step("fix", stage, TASK)
    going.close()
    assert [one.run_id for one in ledger.in_progress()] == [fresh.id]
