from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scrout.errors import LedgerError
from scrout.ledger.migrations import MIGRATIONS
from scrout.ledger.store import Ledger


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
