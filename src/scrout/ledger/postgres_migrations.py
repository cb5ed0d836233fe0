"""The ledger's tables in PostgreSQL, as numbered, forward-only migrations. Never edit a released one."""

from __future__ import annotations

from collections.abc import Callable

from scrout.base import LedgerError
from scrout.ledger.database import Transaction
from scrout.ledger.receipts import store_once

SCHEMA = "scrout"
"""Schema of the tables, separate from other programs' tables."""

FIRST_TABLES = (
    # rowid: the order in which runs started, which SQLite has built in.
    """
    CREATE TABLE run (
        rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
        id TEXT NOT NULL PRIMARY KEY,
        task_id TEXT NOT NULL,
        task TEXT NOT NULL,
        settings_digest TEXT NOT NULL,
        schema INTEGER NOT NULL,
        started TEXT NOT NULL,
        sandbox TEXT NOT NULL,
        environment TEXT NOT NULL,
        batch TEXT NOT NULL,
        arm TEXT NOT NULL
    )
    """,
    # Columns have the same meaning as in SQLite: see migrations.py.
    """
    CREATE TABLE step (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES run (id),
        name TEXT NOT NULL,
        input_digest TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('started', 'done', 'failed')),
        result TEXT,
        result_type TEXT,
        scrubbed INTEGER NOT NULL DEFAULT 0,
        at TEXT NOT NULL,
        seconds DOUBLE PRECISION,
        CHECK ((status = 'started') = (result IS NULL) AND (result IS NULL) = (result_type IS NULL))
    )
    """,
    """
    CREATE TABLE receipt (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES run (id),
        step_id BIGINT NOT NULL REFERENCES step (id),
        attempt INTEGER NOT NULL,
        component TEXT NOT NULL,
        fixer TEXT,
        model TEXT NOT NULL,
        input_tokens BIGINT NOT NULL,
        cache_read_tokens BIGINT NOT NULL,
        cache_write_tokens BIGINT NOT NULL,
        cache_write_1h_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        reasoning_tokens BIGINT NOT NULL,
        cost_usd TEXT,
        estimated INTEGER NOT NULL,
        at TEXT NOT NULL,
        call INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE close (
        run_id TEXT NOT NULL PRIMARY KEY REFERENCES run (id),
        outcome TEXT NOT NULL,
        finished TEXT NOT NULL,
        run TEXT NOT NULL
    )
    """,
    "CREATE TABLE unclosed (run_id TEXT NOT NULL PRIMARY KEY REFERENCES run (id))",
    "CREATE INDEX run_by_task ON run (task_id)",
    "CREATE INDEX run_by_batch ON run (batch) WHERE batch <> ''",
    "CREATE INDEX step_by_run ON step (run_id, input_digest)",
    "CREATE INDEX receipt_by_call ON receipt (run_id, step_id, call) INCLUDE (cost_usd)",
    "CREATE INDEX close_by_outcome ON close (outcome, run_id)",
    "CREATE UNIQUE INDEX receipt_once ON receipt (step_id, call) WHERE call > 0",
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'the ledger is append-only: %', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
    END $$
    """,
    *(
        f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} EXECUTE FUNCTION refuse()"
        for table in ("run", "step", "receipt", "close")
        for event in ("UPDATE", "DELETE", "TRUNCATE")
    ),
    # Many sessions add rows: with the lock, a run is closed before or after a row is added, never during it.
    f"""
    CREATE FUNCTION refuse_closed() RETURNS trigger LANGUAGE plpgsql SET search_path = {SCHEMA} AS $$ BEGIN
        PERFORM 1 FROM run WHERE id = NEW.run_id FOR KEY SHARE;
        IF EXISTS (SELECT 1 FROM close WHERE run_id = NEW.run_id) THEN
            RAISE EXCEPTION 'the run is closed' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER step_before_close BEFORE INSERT ON step FOR EACH ROW EXECUTE FUNCTION refuse_closed()",
    "CREATE TRIGGER receipt_before_close BEFORE INSERT ON receipt FOR EACH ROW EXECUTE FUNCTION refuse_closed()",
    f"""
    CREATE FUNCTION opens() RETURNS trigger LANGUAGE plpgsql SET search_path = {SCHEMA} AS $$ BEGIN
        INSERT INTO unclosed (run_id) VALUES (NEW.id);
        RETURN NULL;
    END $$
    """,
    f"""
    CREATE FUNCTION closes() RETURNS trigger LANGUAGE plpgsql SET search_path = {SCHEMA} AS $$ BEGIN
        PERFORM 1 FROM run WHERE id = NEW.run_id FOR UPDATE;
        DELETE FROM unclosed WHERE run_id = NEW.run_id;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER run_opens AFTER INSERT ON run FOR EACH ROW EXECUTE FUNCTION opens()",
    "CREATE TRIGGER run_closes BEFORE INSERT ON close FOR EACH ROW EXECUTE FUNCTION closes()",
)


def _receipts_stored_once(db: Transaction) -> None:
    store_once(db.execute)


Statement = str | Callable[[Transaction], None]

RECEIPTS_STORED_ONCE: tuple[Statement, ...] = (
    *(f"ALTER TABLE {table} DISABLE TRIGGER {table}_no_update" for table in ("step", "close")),
    _receipts_stored_once,
    *(f"ALTER TABLE {table} ENABLE TRIGGER {table}_no_update" for table in ("step", "close")),
)

MIGRATIONS: tuple[tuple[Statement, ...], ...] = (FIRST_TABLES, RECEIPTS_STORED_ONCE)


def version(db: Transaction, name: str) -> int | None:
    """The number of the last migration; None: there is no ledger here."""
    # Not to_regclass, which may show the state before another session's migration.
    tables = [table for (table,) in db.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}'")]
    if "version" in tables:
        ((number,),) = db.execute(f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.version")
        return int(number)
    if tables:
        raise LedgerError(
            f"the database {name} has a schema {SCHEMA} with tables of another program. Set ledger.url to a database "
            "of its own."
        )
    return None


def migrate(db: Transaction, name: str) -> None:
    """Migrate a database to this version's tables, in the current transaction."""
    # Two first users would conflict.
    db.execute(f"SELECT pg_advisory_xact_lock(hashtextextended('{SCHEMA}', 0))")
    found = version(db, name)
    if found is None:
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        db.execute(f"CREATE TABLE {SCHEMA}.version (number INTEGER NOT NULL PRIMARY KEY)")
    elif found > len(MIGRATIONS):
        raise LedgerError(
            f"the ledger {name} was written by a newer scrout (its tables are number {found}, this scrout knows up to "
            f"{len(MIGRATIONS)}). Upgrade scrout, or set ledger.url to another database."
        )
    db.execute(f"SET LOCAL search_path TO {SCHEMA}")
    for number, statements in enumerate(MIGRATIONS[found or 0 :], start=(found or 0) + 1):
        for statement in statements:
            if isinstance(statement, str):
                db.execute(statement)
            else:
                statement(db)
        db.execute(f"INSERT INTO {SCHEMA}.version (number) VALUES (?)", (number,))
