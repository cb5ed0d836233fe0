"""A ledger in one SQLite file, for any number of processes on one machine.

Every commit is in the file when it returns, and survives the death of any process; a power failure may lose the last
ones. Locked files in a folder beside it mark the runs in progress.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal, TypeVar

from scrout.base import LedgerError
from scrout.files import Lock
from scrout.ledger.database import RunLock, Transaction, Value
from scrout.ledger.migrations import migrate

BUSY_TIMEOUT_S = 10
WAL_PAGES = 4000
"""Pages of 4 KB in the WAL before a checkpoint, which waits for the disk."""

T = TypeVar("T")

_NEXT_STEP = {
    sqlite3.SQLITE_NOTADB: "It is not a ledger, or it is damaged. Move it away, or set ledger.path to another file.",
    sqlite3.SQLITE_CORRUPT: "It is damaged. Move it away and restore a copy; scrout starts a new one where none is.",
    sqlite3.SQLITE_FULL: "Free some disk space and run the same command again; finished steps are kept.",
    sqlite3.SQLITE_IOERR: "Check the disk and its free space, and run the same command again; finished steps are kept.",
    sqlite3.SQLITE_BUSY: f"Another process has kept it locked for {BUSY_TIMEOUT_S} s. Stop that one, or try again.",
    sqlite3.SQLITE_CANTOPEN: "Make the file and its folder writable, or set ledger.path to another file.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable, or set ledger.path to another file.",
    sqlite3.SQLITE_PERM: "Make the file and its folder writable, or set ledger.path to another file.",
}


class SqliteDatabase:
    """The file. It is created or migrated when first needed."""

    sum_usd = "sum_usd(cost_usd)"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_folder = path.with_name(f"{path.name}-locks")
        self._db: sqlite3.Connection | None = None
        self._one_at_a_time = threading.RLock()
        self._claims: weakref.WeakSet[_Claim] = weakref.WeakSet()

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._transaction("DEFERRED", work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._transaction("IMMEDIATE", work)

    def claim(self, name: str) -> RunLock:
        with self._one_at_a_time, self._explained():
            self._connect()  # creates the folder
        claim = _Claim(self._lock_folder / name, self._explained)
        self._claims.add(claim)
        return claim

    def close(self) -> None:
        with self._one_at_a_time, self._explained():
            for claim in self._claims:
                claim.release()
            if self._db is not None:
                self._db.close()
                self._db = None

    def _transaction(self, mode: Literal["DEFERRED", "IMMEDIATE"], work: Callable[[Transaction], T]) -> T:
        with self._one_at_a_time, self._explained():
            db = self._connect()
            until = time.monotonic() + BUSY_TIMEOUT_S
            while True:
                try:
                    with transaction(db, mode):
                        return work(_Session(db))
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                        raise
                # Short waits: SQLite's own grow to a tenth of a second, and a transaction takes a thousandth.
                time.sleep(random.uniform(0.0002, 0.001))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """External failures as LedgerErrors; a violated constraint is a bug and stays unchanged."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            next_step = _NEXT_STEP.get(getattr(error, "sqlite_errorcode", -1) & 0xFF)
            if next_step is None:
                raise
            raise LedgerError(f"the ledger {self.path}: {error}. {next_step}") from error
        except OSError as error:
            raise LedgerError(
                f"the ledger {self.path}: {error.strerror or error}. Make its folder writable, or set ledger.path to "
                "another file."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        if self._db is not None:
            return self._db
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_folder.mkdir(mode=0o700, exist_ok=True)
        # SQLite's busy timeout does not cover the switch to WAL, so two first users would conflict.
        with Lock(self._lock_folder / "setup"):
            pragmas: dict[str, str | int] = {
                "synchronous": "NORMAL",
                "foreign_keys": "ON",
                "wal_autocheckpoint": WAL_PAGES,
            }
            db = connect(self.path, BUSY_TIMEOUT_S, pragmas)
            try:
                migrate(db, self.path)
                db.create_aggregate("sum_usd", 1, _Sum)
                db.execute("PRAGMA busy_timeout = 0")  # from now on, _transaction waits
            except BaseException:
                db.close()
                raise
        self._db = db
        return db


class _Claim(Lock):
    def __init__(self, path: Path, explained: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(path)
        self._explained = explained

    def take(self, *, wait: bool = False) -> bool:
        with self._explained():
            return super().take(wait=wait)


class _Session:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        return self._db.execute(statement, values).fetchall()


class _Sum:
    """Sums decimals in text, because SQLite's own numbers are not exact. An invalid number makes the sum NULL."""

    def __init__(self) -> None:
        self.total = Decimal(0)

    def step(self, amount: Any, /) -> None:
        try:
            self.total += Decimal(amount or 0)
        except InvalidOperation:
            self.total = Decimal("NaN")

    def finalize(self) -> Any:
        return str(self.total)


def connect(path: Path, busy_s: float, pragmas: Mapping[str, str | int]) -> sqlite3.Connection:
    """Open a file that only this user can read, for any thread, with explicit transactions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its side files the mode of the database.
    path.touch(mode=0o600)
    db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        for name, value in {"journal_mode": "WAL", **pragmas}.items():
            db.execute(f"PRAGMA {name} = {value}")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(db: sqlite3.Connection, mode: Literal["DEFERRED", "IMMEDIATE"] = "IMMEDIATE") -> Iterator[None]:
    """Commit all of the block's changes, or none. For a connection without transactions of its own."""
    db.execute(f"BEGIN {mode}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
