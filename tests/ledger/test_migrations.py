from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.base import LedgerError
from scrout.handoff import Handoff
from scrout.ledger.audit import audit
from scrout.ledger.migrations import MIGRATIONS
from scrout.ledger.store import Ledger
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Run, Scouting
from scrout.task import Task


def raw(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(statement).fetchall()
        db.commit()
    return rows


def test_the_number_of_the_last_migration_is_kept_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for _ in range(2):
        with Ledger(path) as ledger:
            assert ledger.runs() == []
    assert raw(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_a_ledger_of_a_newer_scrout_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger(path) as ledger:
        ledger.runs()
    raw(path, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with Ledger(path) as ledger, pytest.raises(LedgerError, match=r"newer scrout.*Upgrade scrout"):
        ledger.runs()
    assert raw(path, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]


@pytest.mark.parametrize("statement", ["CREATE TABLE wares (id)", "PRAGMA user_version = 1"])
def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "app.db"
    raw(path, statement)
    before = raw(path, "SELECT name FROM sqlite_master")
    with Ledger(path) as ledger, pytest.raises(LedgerError, match=r"app\.db is a database of another program"):
        ledger.runs()
    assert raw(path, "SELECT name FROM sqlite_master") == before


def test_a_ledger_of_an_older_scrout_is_brought_up_to_date_with_all_that_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)
    with closing(sqlite3.connect(path)) as db:
        for migration in MIGRATIONS[:3]:
            migration(db)
        for run_id in ("20260101-000000-aaaaaa", "20260101-000000-bbbbbb"):
            db.execute(
                "INSERT INTO run (id, task_id, task, settings_digest, schema, started, sandbox, environment)"
                " VALUES (?, 't', ?, 'digest', 1, '2026-01-01T00:00:00+00:00', 'bubblewrap', 'none')",
                (run_id, json.dumps(task.model_dump(mode="json"))),
            )
            db.execute(
                "INSERT INTO step (run_id, name, input_digest, status, at)"
                " VALUES (?, 'fix', 'd', 'started', '2026-01-01T00:00:00+00:00')",
                (run_id,),
            )
            for _ in range(2):  # the same call twice, which is refused from now on
                db.execute(
                    "INSERT INTO receipt (run_id, step_id, attempt, component, model, input_tokens, cache_read_tokens,"
                    " cache_write_tokens, output_tokens, cost_usd, estimated, at, call)"
                    " VALUES (?, 1, 1, 'fix', 'm', 1, 0, 0, 1, '0.5', 0, '2026-01-01T00:00:00+00:00', 1)",
                    (run_id,),
                )
        db.execute(
            "INSERT INTO close (run_id, outcome, finished, run)"
            " VALUES ('20260101-000000-aaaaaa', 'solved', '2026-01-01T00:00:00+00:00', '{}')"
        )
        db.execute("PRAGMA user_version = 3")
        db.commit()
    with Ledger(path) as ledger:
        assert ledger.run_ids() == ["20260101-000000-aaaaaa", "20260101-000000-bbbbbb"]
        asked: list[str] = []
        ledger.recover(lambda place: asked.append(place) or ())  # type: ignore[func-returns-value]
        assert asked == ["20260101-000000-bbbbbb/2"]
        resumed = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        assert (resumed.id, resumed.resumed) == ("20260101-000000-bbbbbb", True)
    assert raw(path, "SELECT count(*) FROM receipt") == [(4,)]
    assert raw(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


PAID = tuple(
    Receipt(
        component="fix",
        model="m",
        fixer="a",
        usage=Usage(input_tokens=number, output_tokens=7),
        cost_usd=Decimal("0.50"),
        at=datetime(2026, 1, 1, 0, 0, number, 5, tzinfo=UTC),
        call=number,
    )
    for number in (1, 2)
)


def with_copies(path: Path, change: dict[str, object] | None = None) -> tuple[str, Run]:
    """A closed run as version 4 stored it: result and run have copies of the receipts, which `change` makes differ."""

    async def scout(task: Task) -> Scouting:
        return Scouting(handoff=Handoff(), text="", seconds=1)

    async def fix(task: Task) -> Attempt:
        for paid in PAID:
            run.book(paid)
        return Attempt(fixer="a", patch="p", stop="finished", detail="", seconds=1, cost_usd=Decimal(1), receipts=PAID)

    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)
    with Ledger(path) as ledger:
        run = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        asyncio.run(run.step("scout", scout, task))
        asyncio.run(run.step("fix", fix, task))
        closed = run.close()
    copies = [receipt.model_dump(mode="json") | (change or {}) for receipt in PAID]
    with closing(sqlite3.connect(path)) as db:
        guards = db.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE '%_no_update'").fetchall()
        for name, _ in guards:
            db.execute(f"DROP TRIGGER {name}")
        kinds: list[tuple[str, list[object]]] = [("Scouting", []), ("Attempt", list(copies))]
        for kind, copy in kinds:
            ((text,),) = db.execute("SELECT result FROM step WHERE result_type = ?", (kind,)).fetchall()
            stored = json.dumps(json.loads(text) | {"receipts": copy})
            db.execute("UPDATE step SET result = ? WHERE result_type = ?", (stored, kind))
        ((text,),) = db.execute("SELECT run FROM close").fetchall()
        whole = json.loads(text)
        whole["scouting"]["receipts"], whole["attempts"][0]["receipts"] = [], copies
        db.execute("UPDATE close SET run = ?", (json.dumps(whole),))
        for _, guard in guards:
            db.execute(guard)
        db.execute("PRAGMA user_version = 4")
        db.commit()
    return run.id, closed


def test_receipts_of_an_older_ledger_are_stored_once_and_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    run_id, closed = with_copies(path)
    with Ledger(path) as ledger:
        assert ledger.run(run_id) == ledger.derive(run_id) == closed
        assert closed.attempts[0].receipts == PAID and audit(ledger).problems == ()
    stored = [
        str(text) for (text,) in raw(path, "SELECT result FROM step WHERE result <> '' UNION SELECT run FROM close")
    ]
    assert len(stored) == 3 and not any("input_tokens" in text for text in stored)
    with pytest.raises(sqlite3.IntegrityError, match="append-only: step"):
        raw(path, "UPDATE step SET name = 'x'")
    with pytest.raises(sqlite3.IntegrityError, match="append-only: close"):
        raw(path, "UPDATE close SET outcome = 'x'")


@pytest.mark.parametrize("change", [{"cost_usd": 0.25}, {"model": "n"}, {"at": "2026-01-01T00:00:03Z"}])
def test_what_differed_in_an_older_ledger_still_does(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "ledger.db"
    run_id, _ = with_copies(path, change)
    with Ledger(path) as ledger:
        (problem,) = audit(ledger).problems
    assert run_id in problem and "was stored with other receipts than the 2 that are booked" in problem


@pytest.mark.parametrize("text", ["{", "5", '{"receipts": [5]}'])
def test_a_record_of_an_older_ledger_that_cannot_be_read_is_left_to_the_audit(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.db"
    run_id, _ = with_copies(path)
    raw(path, "DROP TRIGGER step_no_update")
    raw(path, f"UPDATE step SET result = '{text}' WHERE result_type = 'Attempt'")
    with Ledger(path) as ledger:
        (problem,) = audit(ledger).problems
    assert run_id in problem and "cannot read" in problem


async def test_the_audit_names_a_call_that_is_booked_twice(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    task = Task(id="t", text="broken", repo=Path("/repo"), base_commit="c" * 40)
    paid = Receipt(
        component="fix", model="m", usage=Usage(), cost_usd=Decimal(1), at=datetime.now(UTC), call=7, fixer="a"
    )

    async def fix(task: Task) -> Attempt:
        run.book(paid)
        raise KeyboardInterrupt

    with Ledger(path) as ledger:
        run = ledger.open(task, "digest", sandbox="bubblewrap", environment="none")
        with pytest.raises(KeyboardInterrupt):
            await run.step("fix", fix, task)
        assert audit(ledger).problems == ()
    raw(path, "DROP TRIGGER receipt_once")
    columns = ", ".join(str(name) for _, name, *_ in raw(path, "PRAGMA table_info(receipt)") if name != "id")
    raw(path, f"INSERT INTO receipt ({columns}) SELECT {columns} FROM receipt")
    with Ledger(path) as ledger:
        (problem,) = audit(ledger).problems
        assert run.id in problem and "more than once: 7" in problem
