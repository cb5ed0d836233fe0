"""The ledger's tables in SQLite, as numbered, forward-only migrations. Never edit a released one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from scrout.base import LedgerError
from scrout.ledger.receipts import store_once

APPLICATION_ID = 0x7363726F
"""`scro`, in the file's header: marks a SQLite file as a ledger."""


def first_tables(db: sqlite3.Connection) -> None:
    """Runs, their steps, their receipts and their ends; rows can be added, never changed or removed."""
    db.execute(
        """
        CREATE TABLE run (
            id TEXT NOT NULL PRIMARY KEY,
            task_id TEXT NOT NULL,
            task TEXT NOT NULL,
            settings_digest TEXT NOT NULL,
            schema INTEGER NOT NULL,
            started TEXT NOT NULL,
            sandbox TEXT NOT NULL,
            environment TEXT NOT NULL
        )
        """
    )
    # result: the record as JSON when done, the message as a JSON string when failed; result_type: the class of either.
    # scrubbed: 1 when a secret was cut out of the result, which then is a record and nothing to go on from.
    db.execute(
        """
        CREATE TABLE step (
            id INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL REFERENCES run (id),
            name TEXT NOT NULL,
            input_digest TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('started', 'done', 'failed')),
            result TEXT,
            result_type TEXT,
            scrubbed INTEGER NOT NULL DEFAULT 0,
            at TEXT NOT NULL,
            seconds REAL,
            CHECK ((status = 'started') = (result IS NULL) AND (result IS NULL) = (result_type IS NULL))
        )
        """
    )
    # cost_usd: a decimal in text, since SQLite has no exact number with a fraction; NULL: no known price.
    db.execute(
        """
        CREATE TABLE receipt (
            id INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL REFERENCES run (id),
            step_id INTEGER NOT NULL REFERENCES step (id),
            attempt INTEGER NOT NULL,
            component TEXT NOT NULL,
            fixer TEXT,
            model TEXT NOT NULL,
            input_tokens INTEGER NOT NULL,
            cache_read_tokens INTEGER NOT NULL,
            cache_write_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            cost_usd TEXT,
            estimated INTEGER NOT NULL,
            at TEXT NOT NULL
        )
        """
    )
    db.execute(
        """
        CREATE TABLE close (
            run_id TEXT NOT NULL PRIMARY KEY REFERENCES run (id),
            outcome TEXT NOT NULL,
            finished TEXT NOT NULL,
            run TEXT NOT NULL
        )
        """
    )
    db.execute("CREATE INDEX run_by_task ON run (task_id)")
    db.execute("CREATE INDEX step_by_run ON step (run_id, input_digest)")
    db.execute("CREATE INDEX receipt_by_run ON receipt (run_id)")
    for table, key in (("run", "id"), ("step", "id"), ("receipt", "id"), ("close", "run_id")):
        refuse = f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: {table}'); END"
        db.execute(f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} {refuse}")
        db.execute(f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} {refuse}")
        # INSERT OR REPLACE removes the old row without firing the trigger for DELETE.
        exists = f"EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key})"
        db.execute(f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN {exists} {refuse}")
    for table in ("step", "receipt"):
        db.execute(
            f"""
            CREATE TRIGGER {table}_before_close BEFORE INSERT ON {table}
            WHEN EXISTS (SELECT 1 FROM close WHERE run_id = NEW.run_id)
            BEGIN SELECT RAISE(ABORT, 'the run is closed'); END
            """
        )
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def receipts_of_the_meter(db: sqlite3.Connection) -> None:
    """More buckets of usage, and a call's number in its attempt's trajectory."""
    for column in ("cache_write_1h_tokens", "reasoning_tokens", "call"):
        db.execute(f"ALTER TABLE receipt ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")


def runs_of_batches(db: sqlite3.Connection) -> None:
    """A run's batch, and its arm in it."""
    for column in ("batch", "arm"):
        db.execute(f"ALTER TABLE run ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE INDEX run_by_batch ON run (batch) WHERE batch <> ''")


def runs_in_progress(db: sqlite3.Connection) -> None:
    """An index of open runs, so that no query scans all of them; and a call of a step cannot be booked twice."""
    # Derived from the other tables, so its rows may be removed.
    db.execute("CREATE TABLE unclosed (run_id TEXT NOT NULL PRIMARY KEY REFERENCES run (id)) WITHOUT ROWID")
    db.execute("INSERT INTO unclosed SELECT id FROM run WHERE id NOT IN (SELECT run_id FROM close)")
    db.execute("CREATE TRIGGER run_opens AFTER INSERT ON run BEGIN INSERT INTO unclosed (run_id) VALUES (NEW.id); END")
    db.execute(
        "CREATE TRIGGER run_closes AFTER INSERT ON close BEGIN DELETE FROM unclosed WHERE run_id = NEW.run_id; END"
    )
    db.execute("DROP INDEX receipt_by_run")
    # Includes the amount, so that sums read nothing else.
    db.execute("CREATE INDEX receipt_by_call ON receipt (run_id, step_id, call, cost_usd)")
    db.execute("CREATE INDEX close_by_outcome ON close (outcome, run_id)")
    # Not a unique index, because older versions' rows stay as they are.
    db.execute(
        """
        CREATE TRIGGER receipt_once BEFORE INSERT ON receipt
        WHEN NEW.call > 0 AND EXISTS (
            SELECT 1 FROM receipt WHERE run_id = NEW.run_id AND step_id = NEW.step_id AND call = NEW.call
        )
        BEGIN SELECT RAISE(IGNORE); END
        """
    )


def receipts_stored_once(db: sqlite3.Connection) -> None:
    """Store receipts in their rows only."""
    guards = "SELECT name, sql FROM sqlite_master WHERE name IN ('step_no_update', 'close_no_update')"
    guarded = db.execute(guards).fetchall()
    for name, _ in guarded:
        db.execute(f"DROP TRIGGER {name}")
    store_once(db.execute)
    for _, trigger in guarded:
        db.execute(trigger)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    first_tables,
    receipts_of_the_meter,
    runs_of_batches,
    runs_in_progress,
    receipts_stored_once,
)


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Migrate an open database to this version's tables, completely or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION_ID and (application or version or objects):
            raise LedgerError(f"{path} is a database of another program. Set ledger.path to a file of its own.")
        if version > len(MIGRATIONS):
            raise LedgerError(
                f"{path} was written by a newer scrout (its tables are number {version}, this scrout knows up to "
                f"{len(MIGRATIONS)}). Upgrade scrout, or set ledger.path to another file."
            )
        for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
            migration(db)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
