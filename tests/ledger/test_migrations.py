from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.base import LedgerError
from scrout.ledger.audit import audit
from scrout.ledger.migrations import MIGRATIONS
from scrout.ledger.store import Ledger
from scrout.money import Receipt, Usage
from scrout.records import Attempt
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
