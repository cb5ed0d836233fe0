"""The API's stored state: jobs with their results, choices of conversations, and each caller's spending.

It is one SQLite file, used by one server at a time. Money is reserved before a payment and settled after it, each in
one transaction, so budgets hold even if the process is killed. The ledger has the payments; this file has their
callers.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from scrout.base import ConfigError, LedgerError
from scrout.files import Lock
from scrout.ledger.sqlite import connect, transaction
from scrout.records import Decision
from scrout.server.api.schemas import Job

TABLES = """
CREATE TABLE IF NOT EXISTS job (
    id TEXT NOT NULL PRIMARY KEY,
    caller TEXT NOT NULL,
    stage TEXT NOT NULL,
    key TEXT NOT NULL,
    asked TEXT NOT NULL,
    created TEXT NOT NULL,
    ended TEXT,
    job TEXT NOT NULL,
    result TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS job_by_key ON job (caller, stage, key) WHERE key <> '';
CREATE INDEX IF NOT EXISTS job_by_caller ON job (caller, created);
CREATE INDEX IF NOT EXISTS job_by_end ON job (ended);
CREATE INDEX IF NOT EXISTS job_by_stage ON job (stage, created);
CREATE TABLE IF NOT EXISTS spending (
    id INTEGER PRIMARY KEY,
    caller TEXT NOT NULL,
    day TEXT NOT NULL,
    job TEXT NOT NULL,
    conversation TEXT NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    before_usd TEXT NOT NULL DEFAULT '0',
    held_usd TEXT NOT NULL,
    cost_usd TEXT,
    calls INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS spending_by_day ON spending (caller, day, held_usd, cost_usd);
CREATE INDEX IF NOT EXISTS spending_open ON spending (id) WHERE cost_usd IS NULL;
CREATE INDEX IF NOT EXISTS spending_by_job ON spending (job) WHERE job <> '';
CREATE INDEX IF NOT EXISTS spending_by_conversation ON spending (caller, conversation) WHERE conversation <> '';
CREATE TABLE IF NOT EXISTS conversation (
    caller TEXT NOT NULL,
    name TEXT NOT NULL,
    decision TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (caller, name)
) WITHOUT ROWID;
"""
VERSION = 1
BUSY_S = 10.0
MAX_ROUTES = 10_000
"""Maximum number of jobs that only chose a fixer: they are free and quick, and there may be many.

The oldest are removed.
"""


class BudgetTooSmall(Exception):
    """The rest of the budget does not cover the maximum cost. Its amount is the rest."""

    def __init__(self, remaining_usd: Decimal) -> None:
        super().__init__(str(remaining_usd))
        self.remaining_usd = remaining_usd


@dataclass(frozen=True)
class Spend:
    cost_usd: Decimal
    calls: int = 0


@dataclass(frozen=True)
class ConversationState:
    """The fixer of a `scrout/auto` conversation, and its use so far."""

    decision: Decision
    used: Spend


class ApiStore:
    """The file. Its methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._one_at_a_time = threading.RLock()
        with self._explained():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = Lock(path.with_name(f"{path.name}-lock"))
            if not self._lock.take():
                raise ConfigError(f"another `scrout api` is using {path}. Stop it, or send requests to it.")
            self._db = connect(path, BUSY_S, {"synchronous": "NORMAL"})
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise LedgerError(
                    f"{path} was written by another version of scrout. Upgrade scrout, or move the file away."
                )
            self._db.executescript(TABLES)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        with self._one_at_a_time:
            self._db.close()
            self._lock.release()

    def add(self, job: Job, caller: str, key: str, asked: str) -> None:
        """`asked` is the digest of its request."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO job (id, caller, stage, key, asked, created, ended, job, result)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (job.id, caller, job.stage, key, asked, job.created.isoformat(), *_columns(job)),
            )

    def owns(self, caller: str, run: str) -> bool:
        """Whether a stored job of the caller made this run."""
        return bool(self._rows("SELECT 1 FROM job WHERE caller = ? AND json_extract(job, '$.run') = ?", caller, run))

    def change(self, job: Job) -> None:
        with self._writing() as db:
            db.execute("UPDATE job SET ended = ?, job = ?, result = ? WHERE id = ?", (*_columns(job), job.id))

    def job(self, caller: str, job_id: str) -> Job | None:
        """None: this caller has no job with that id."""
        found = self._rows("SELECT job, result FROM job WHERE id = ? AND caller = ?", job_id, caller)
        return _job(*found[0]) if found else None

    def by_key(self, caller: str, stage: str, key: str) -> tuple[Job, str] | None:
        """The job of a key, and the digest of its request."""
        found = self._rows(
            "SELECT job, result, asked FROM job WHERE caller = ? AND stage = ? AND key = ? AND key <> ''",
            *(caller, stage, key),
        )
        return (_job(*found[0][:2]), found[0][2]) if found else None

    def jobs(self, caller: str, limit: int) -> list[Job]:
        """The latest first, without results."""
        rows = self._rows("SELECT job FROM job WHERE caller = ? ORDER BY created DESC, id LIMIT ?", caller, limit)
        return [_job(job, None) for (job,) in rows]

    def unfinished(self) -> list[Job]:
        return [_job(job, None) for (job,) in self._rows("SELECT job FROM job WHERE ended IS NULL")]

    def prune(self, days: float) -> None:
        """Remove jobs that ended, and conversations that were last used, more than this many days ago."""
        before = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        with self._writing() as db:
            db.execute("DELETE FROM job WHERE ended < ?", (before,))
            db.execute(
                "DELETE FROM job WHERE stage = 'route' AND ended IS NOT NULL AND created <="
                " (SELECT created FROM job WHERE stage = 'route' ORDER BY created DESC LIMIT 1 OFFSET ?)",
                (MAX_ROUTES,),
            )
            old = "SELECT 1 FROM conversation AS old WHERE old.caller = spending.caller AND name = conversation"
            db.execute(
                "UPDATE spending SET conversation = '' WHERE conversation <> '' AND cost_usd IS NOT NULL"
                f" AND EXISTS ({old} AND at < ?)",
                (before,),
            )
            db.execute("DELETE FROM conversation WHERE at < ?", (before,))

    def hold(
        self,
        caller: str,
        budget_usd: Decimal,
        max_cost_usd: Decimal,
        *,
        least_usd: Decimal | None = None,
        job: str = "",
        conversation: str = "",
    ) -> int:
        """Reserve an amount of today's budget; returns the reservation's number.

        `least_usd`: a smaller amount, down to this, is also accepted. Raises BudgetTooSmall if there is not enough.
        """
        day = _day()
        with self._writing() as db:
            spent, held = self._of(caller, day)
            left = max(budget_usd - spent - held, Decimal(0))
            amount = max_cost_usd if least_usd is None else min(max_cost_usd, left)
            if amount > left or amount < (least_usd or 0):
                raise BudgetTooSmall(left)
            done = db.execute(
                "INSERT INTO spending (caller, day, job, conversation, held_usd) VALUES (?, ?, ?, ?, ?)",
                (caller, day, job, conversation, str(amount)),
            )
            assert done.lastrowid is not None
            return done.lastrowid

    def held_usd(self, number: int) -> Decimal:
        ((held,),) = self._rows("SELECT held_usd FROM spending WHERE id = ?", number)
        return Decimal(held)

    def belongs(self, number: int, run_id: str, before_usd: Decimal) -> None:
        """Record the run of a reservation, and the run's cost before. After a kill, the ledger has the rest."""
        with self._writing() as db:
            db.execute("UPDATE spending SET run_id = ?, before_usd = ? WHERE id = ?", (run_id, str(before_usd), number))

    def settle(self, number: int, bill: Spend) -> None:
        with self._writing() as db:
            db.execute(
                "UPDATE spending SET cost_usd = ?, calls = ? WHERE id = ? AND cost_usd IS NULL",
                (str(bill.cost_usd), bill.calls, number),
            )

    def recover(self, billed: Callable[[str], Spend | None]) -> None:
        """Settle the reservations of a killed server.

        `billed` returns a run's cost so far; None: unknown, so the whole reservation counts.
        """
        for number, run_id, before, held in self._rows(
            "SELECT id, run_id, before_usd, held_usd FROM spending WHERE cost_usd IS NULL"
        ):
            # A run is recorded before its first payment.
            bill = billed(run_id) if run_id else Spend(Decimal(before))
            cost = Decimal(held) if bill is None else max(bill.cost_usd - Decimal(before), Decimal(0))
            self.settle(number, Spend(cost, bill.calls if bill else 0))

    def today(self, caller: str) -> tuple[Decimal, Decimal]:
        """A caller's spending today, and its reservations."""
        return self._of(caller, _day())

    def cost_usd(self, job_id: str) -> Decimal:
        """A job's cost, over all its continuations."""
        rows = self._rows("SELECT cost_usd FROM spending WHERE job = ? AND job <> '' AND cost_usd IS NOT NULL", job_id)
        return sum((Decimal(cost) for (cost,) in rows), Decimal(0))

    def _of(self, caller: str, day: str) -> tuple[Decimal, Decimal]:
        # Yesterday's reservations that are still in progress may be spent today.
        rows = self._rows(
            "SELECT held_usd, cost_usd FROM spending WHERE caller = ? AND day = ?"
            " UNION ALL SELECT held_usd, cost_usd FROM spending WHERE cost_usd IS NULL AND caller = ? AND day <> ?",
            *(caller, day, caller, day),
        )
        spent = sum((Decimal(cost) for _, cost in rows if cost is not None), Decimal(0))
        held = sum((Decimal(amount) for amount, cost in rows if cost is None), Decimal(0))
        return spent, held

    def choice(self, caller: str, name: str) -> ConversationState | None:
        found = self._rows("SELECT decision FROM conversation WHERE caller = ? AND name = ?", caller, name)
        if not found:
            return None
        rows = self._rows(
            "SELECT cost_usd, calls FROM spending WHERE caller = ? AND conversation = ? AND conversation <> ''"
            " AND cost_usd IS NOT NULL",
            *(caller, name),
        )
        used = Spend(sum((Decimal(cost) for cost, _ in rows), Decimal(0)), sum(calls for _, calls in rows))
        return ConversationState(Decision.model_validate_json(found[0][0]), used)

    def choose(self, caller: str, name: str, decision: Decision) -> None:
        """Called for every request: using a conversation keeps it alive, and the use of an earlier choice still
        counts.
        """
        with self._writing() as db:
            db.execute(
                "INSERT INTO conversation (caller, name, decision, at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET decision = excluded.decision, at = excluded.at",
                (caller, name, decision.model_dump_json(), _now()),
            )

    def _rows(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        with self._one_at_a_time, self._explained():
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._one_at_a_time, self._explained(), transaction(self._db):
            yield self._db

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise LedgerError(f"{self.path}: {error}. Check its folder, permissions and free space.") from error
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # bugs of scrout
            raise
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{self.path}: {error}. It is damaged or not a file of scrout; move it away.") from error


def _columns(job: Job) -> tuple[str | None, str, str | None]:
    """When it ended, the job without its result, and the result, which lists leave out."""
    ended = job.ended.isoformat() if job.ended else None
    result = None if job.result is None else json.dumps(job.result, ensure_ascii=False)
    return ended, job.model_dump_json(exclude={"result"}), result


def _job(job: str, result: str | None) -> Job:
    read = Job.model_validate_json(job)
    return read if result is None else read.model_copy(update={"result": json.loads(result)})


def _day() -> str:
    return datetime.now(UTC).date().isoformat()


def _now() -> str:
    return datetime.now(UTC).isoformat()
