from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.handoff import Handoff
from scrout.ledger.audit import AuditReport, audit
from scrout.ledger.store import Ledger
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Scouting
from scrout.task import Task


def receipt(cost: str) -> Receipt:
    return Receipt(component="fix", fixer="a", model="m", usage=Usage(), cost_usd=Decimal(cost), at=datetime.now(UTC))


def record_run(path: Path, attempt: Attempt) -> str:
    async def scout(task: Task) -> Scouting:
        paid = (receipt("0.05"),)
        return Scouting(handoff=Handoff(), text="", seconds=0.1, cost_usd=Decimal("0.05"), receipts=paid)

    async def fix(task: Task) -> Attempt:
        return attempt

    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)
    with Ledger(path) as ledger:
        run = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        asyncio.run(run.step("scout", scout, task))
        asyncio.run(run.step("fix", fix, task))
        run.close()
    return run.id


def attempt(cost: str, *receipts: Receipt) -> Attempt:
    return Attempt(
        fixer="a", patch="p", stop="finished", detail="", seconds=1, cost_usd=Decimal(cost), receipts=receipts
    )


def tamper(path: Path, statement: str) -> None:
    """As somebody with an editor for SQLite files would: past the triggers."""
    with closing(sqlite3.connect(path)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        assert db.execute(statement).rowcount > 0
        db.commit()


def report(path: Path) -> AuditReport:
    with Ledger(path) as ledger:
        return audit(ledger)


def test_a_ledger_that_adds_up_has_no_problems(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    record_run(path, attempt("0.30", receipt("0.10"), receipt("0.20")))
    record_run(path, attempt("0"))
    assert report(path) == AuditReport(runs=2, receipts=4, problems=())


@pytest.mark.parametrize(("cost", "problems"), [("0.30", 0), ("0.25", 1)])
def test_a_scoutings_receipts_count_once_and_must_be_its_cost(tmp_path: Path, cost: str, problems: int) -> None:
    path = tmp_path / "ledger.db"
    paid = (receipt("0.10"), receipt("0.20"))

    async def scout(task: Task) -> Scouting:
        run.book(paid[0])
        return Scouting(handoff=Handoff(), text="", seconds=1, cost_usd=Decimal(cost), searcher="toy", receipts=paid)

    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)
    with Ledger(path) as ledger:
        run = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        asyncio.run(run.step("scout", scout, task))
        assert run.close().cost_usd == Decimal("0.30")
    found = report(path)
    assert found.receipts == 2 and len(found.problems) == problems
    assert all("the scouting of toy" in problem and "$0.25" in problem for problem in found.problems)


def test_a_scouting_of_unknown_cost_adds_up(tmp_path: Path) -> None:
    path, unpriced = tmp_path / "ledger.db", receipt("1").model_copy(update={"cost_usd": None})

    async def scout(task: Task) -> Scouting:
        return Scouting(handoff=Handoff(), text="", seconds=1, cost_usd=None, receipts=(unpriced,))

    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)
    with Ledger(path) as ledger:
        run = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        asyncio.run(run.step("scout", scout, task))
        closed = run.close()
    assert closed.cost_usd is closed.lost_usd is None and report(path).problems == ()


def test_an_attempt_that_differs_from_its_receipts_is_named_with_both_figures(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    run_id = record_run(path, attempt("0.25", receipt("0.10"), receipt("0.20")))
    (problem,) = report(path).problems
    assert run_id in problem
    assert "$0.25" in problem
    assert "$0.30" in problem


@pytest.mark.parametrize(("name", "problems"), [("fix", 0), ("scout", 0), ("gate", 1)])
def test_only_steps_that_pay_and_were_cut_off_may_have_receipts_and_no_result(
    tmp_path: Path, name: str, problems: int
) -> None:
    path = tmp_path / "ledger.db"
    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)

    async def cut_off(task: Task) -> Attempt:
        run.book(receipt("0.10"))
        raise KeyboardInterrupt

    with Ledger(path) as ledger:
        run = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(run.step(name, cut_off, task))
        assert run.close().cost_usd == Decimal("0.10")
    assert len(report(path).problems) == problems
    tamper(path, "UPDATE receipt SET cost_usd = '0.01'")
    assert any("$0.01" in problem for problem in report(path).problems)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE receipt SET cost_usd = '9.99' WHERE id = 2", "$10.24"),
        ("UPDATE receipt SET cost_usd = NULL WHERE id = 2", "an unknown cost"),
        (
            "UPDATE receipt SET input_tokens = 5 WHERE id = 2",
            "the attempt of a (step 4) was stored with other receipts",
        ),
        (
            "UPDATE receipt SET model = 'n' WHERE id = 1",
            "the scouting of recon (step 2) was stored with other receipts",
        ),
        ('UPDATE step SET result = replace(result, \'"receipts": "\', \'"receipts": "0\')', "with other receipts"),
        ("DELETE FROM receipt WHERE id = 2", "$0.25"),
        ("UPDATE close SET run = replace(run, '\"cost_usd\": 0.35', '\"cost_usd\": 0.01')", "closed at $0.01"),
        ('UPDATE close SET run = replace(run, \'"patch": "p"\', \'"patch": "q"\')', "`attempts` differs"),
        ("UPDATE close SET outcome = 'solved'", "`outcome` differs"),
        ("UPDATE run SET sandbox = 'unsafe'", "`sandbox` differs"),
        ("UPDATE step SET result = '{' WHERE status = 'done'", "cannot read"),
        ("UPDATE step SET result_type = 'Path' WHERE status = 'done'", "cannot read"),
        ("UPDATE receipt SET cost_usd = 'much'", "cannot read"),
    ],
)
def test_what_was_tampered_with_is_found(tmp_path: Path, statement: str, expected: str) -> None:
    path = tmp_path / "ledger.db"
    run_id = record_run(path, attempt("0.30", receipt("0.10"), receipt("0.20")))
    tamper(path, statement)
    problems = report(path).problems
    assert all(run_id in problem for problem in problems)
    assert any(expected in problem for problem in problems), problems
