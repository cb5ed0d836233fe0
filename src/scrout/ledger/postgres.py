"""A ledger in a PostgreSQL database, for many machines.

A lost connection is opened again, for a limited time. If it was lost during a commit, the server tells whether the
transaction was committed, so nothing is written twice or left out. Advisory locks mark the runs in progress; the server
drops them with the connection of their holder. A pooler in between must keep a session together (PgBouncer: pool_mode =
session).
"""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from scrout.base import LedgerError
from scrout.ledger.database import Transaction, Value
from scrout.ledger.postgres_migrations import MIGRATIONS, SCHEMA, migrate, version

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

INSTALL = "pip install 'scrout[postgres]'"
CONNECT_TIMEOUT_S = 10
WAITS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4)
"""Wait before each retry to reach a server that has answered before."""
GONE_TRIES = 100
"""How often, every twentieth of a second, to ask the server whether it has ended a lost connection."""

# A machine that lost power must not keep its runs; settings of a session affect no other session.
_SESSION = (
    f"SET search_path TO {SCHEMA}",
    "SET tcp_keepalives_idle = 60",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 6",
)
_PASSING = ("40001", "40P01", "53300", "57P03")
"""Codes of temporary errors: conflicts of transactions, a server that is full or starting."""

T = TypeVar("T")


class PostgresDatabase:
    """The database at an address. Its tables are created or migrated when first needed."""

    sum_usd = "sum(cost_usd::numeric)"

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: Connection | None = None
        self._last: tuple[int, str] | None = None
        """The server's process for the last connection, and its start time; None: there was none."""
        self._one_at_a_time = threading.RLock()
        self._held: weakref.WeakValueDictionary[str, _Lock] = weakref.WeakValueDictionary()
        self._dropped: list[str] = []
        """Names of locks whose holder was garbage-collected, to be released."""

    @property
    def name(self) -> str:
        """The address without user, password and options."""
        with suppress(ValueError):
            parts = urlsplit(self._url)
            return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return "postgresql://..."

    def read(self, work: Callable[[Transaction], T]) -> T:
        def reading(db: Connection) -> T:
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", prepare=False)
            done = work(_Session(db))
            db.execute("COMMIT", prepare=False)
            return done

        return self._resilient(reading)

    def write(self, work: Callable[[Transaction], T]) -> T:
        began: list[str] = []
        done: list[T] = []

        def writing(db: Connection) -> T:
            # The answer to a commit was lost: find out whether it was committed.
            if done and began and _was_committed(db, began[-1]):
                return done[-1]
            done.clear()
            cursor = db.execute("BEGIN; SELECT pg_current_xact_id()::text")
            cursor.nextset()
            began.append(cursor.fetchall()[0][0])
            made = work(_Session(db))
            done.append(made)
            db.execute("COMMIT", prepare=False)
            return made

        return self._resilient(writing)

    def claim(self, name: str) -> _Lock:
        return _Lock(self, name)

    def close(self) -> None:
        with self._one_at_a_time:
            for lock in list(self._held.values()):
                lock.forget()
            self._held.clear()
            if self._db is not None:
                self._db.close()
                self._db = self._last = None

    def take(self, lock: _Lock) -> bool:
        with self._one_at_a_time:
            holder = self._held.get(lock.name)
            if holder is not None:
                return holder is lock
            got = self._alone(lambda db: _try(db, lock.name))
            if got:
                self._held[lock.name] = lock
            return got

    def release(self, lock: _Lock) -> None:
        with self._one_at_a_time:
            if self._held.get(lock.name) is lock:
                del self._held[lock.name]
                self._alone(lambda db: _unlock(db, lock.name))

    def drop(self, name: str) -> None:
        """Release it at the next opportunity. Called by the garbage collector, so from any place."""
        self._dropped.append(name)

    def _alone(self, ask: Callable[[Connection], T]) -> T:
        """Run within the current transaction, whose loss this code cannot repair, or alone."""
        if self._db is not None and _in_transaction(self._db):
            return ask(self._db)
        return self._resilient(ask)

    def _resilient(self, work: Callable[[Connection], T]) -> T:
        """Run `work` with a connection; if the connection is lost, run it again with another."""
        driver = _driver()
        with self._one_at_a_time:
            for wait_s in (*WAITS_S, None):
                try:
                    db = self._connected()
                    return work(db)
                except driver.OperationalError as error:
                    self._roll_back()
                    lost = self._db is None and self._last is not None
                    if wait_s is None or not (lost or error.sqlstate in _PASSING):
                        raise self._explain(error) from None
                    time.sleep(wait_s)
                except BaseException as error:
                    self._roll_back()
                    if isinstance(error, driver.DataError):
                        raise self._explain(error) from None
                    raise
        raise AssertionError("the last try returns or raises")

    def _roll_back(self) -> None:
        """Return the connection to its state between transactions, or drop it."""
        db, driver = self._db, _driver()
        if db is None:
            return
        try:
            if not db.closed and _in_transaction(db):
                db.execute("ROLLBACK")
        except driver.Error:
            db.close()
        if db.closed:
            self._db = None

    def _connected(self) -> Connection:
        if self._db is not None and self._db.closed:
            self._db = None
        if self._db is None:
            self._db = self._connect()
        while self._dropped:
            _unlock(self._db, self._dropped[-1])
            self._dropped.pop()
        return self._db

    def _connect(self) -> Connection:
        driver = _driver()
        try:
            db: Connection = driver.connect(
                self._url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, application_name="scrout"
            )
        except driver.ProgrammingError as error:  # not a valid address
            raise self._explain(error) from None
        try:
            session = _Session(db)
            if version(session, self.name) != len(MIGRATIONS):
                with db.transaction():
                    migrate(session, self.name)
            for statement in _SESSION:
                session.execute(statement)
            self._outlive_the_last(session)
            ((pid, began),) = session.execute(
                "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            )
        except BaseException as error:
            db.close()
            if isinstance(error, driver.errors.InsufficientPrivilege):
                raise self._explain(error) from None
            raise
        self._last = (pid, began)
        return db

    def _outlive_the_last(self, session: Transaction) -> None:
        """End the lost connection, because the server may not have noticed, and take its locks again.

        Locks that another process has taken meanwhile stay with that process.
        """
        self._dropped.clear()  # they ended with it
        if self._last is None:
            return
        last = "FROM pg_stat_activity WHERE pid = ? AND backend_start::text = ?"
        session.execute(f"SELECT pg_terminate_backend(pid) {last}", self._last)
        for _ in range(GONE_TRIES):
            if not session.execute(f"SELECT 1 {last}", self._last):
                break
            time.sleep(0.05)
        for name, lock in list(self._held.items()):
            if session.execute("SELECT pg_try_advisory_lock(?)", (_key(name),)) != [(True,)]:
                lock.forget()
                del self._held[name]

    def _explain(self, error: psycopg.Error) -> LedgerError:
        words = " ".join(str(error).split()).rstrip(".")
        for secret in sorted(_secrets(self._url), key=len, reverse=True):
            words = words.replace(secret, "[secret]")
        return LedgerError(
            f"the ledger {self.name}: {words}. Check that the server runs and lets you in, and run the same command "
            "again; finished steps are kept."
        )


class _Lock:
    """An advisory lock of the session; two of one name exclude each other, in one process too."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self.name = name
        self._database = database
        self._drop: weakref.finalize[[str], _Lock] | None = None

    def take(self) -> bool:
        ours = self._database.take(self)
        if ours and self._drop is None:
            self._drop = weakref.finalize(self, self._database.drop, self.name)
            self._drop.atexit = False
        return ours

    def release(self) -> None:
        self.forget()
        self._database.release(self)

    def retire(self) -> None:
        self.release()

    def forget(self) -> None:
        """Mark it as no longer held by this process."""
        if self._drop is not None:
            self._drop.detach()
            self._drop = None


class _Session:
    def __init__(self, db: Connection) -> None:
        self._db = db

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        # PostgreSQL's text has no NUL.
        clean = [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]
        cursor = self._db.execute(_with_marks(statement), clean or None)
        return cursor.fetchall() if cursor.description else []


@lru_cache(maxsize=200)
def _with_marks(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(f"a ledger in PostgreSQL needs psycopg, which is not installed: {INSTALL}") from None
    return psycopg


def _in_transaction(db: Connection) -> bool:
    import psycopg

    return db.info.transaction_status in (psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR)


def _was_committed(db: Connection, number: str) -> bool:
    # The transaction's connection is gone, so the transaction is not in progress.
    ((status,),) = db.execute("SELECT pg_xact_status(%s::xid8)", (number,)).fetchall()
    return bool(status == "committed")


def _secrets(url: str) -> set[str]:
    """The secret parts of an address."""
    found = {url}
    with suppress(ValueError):
        parts = urlsplit(url)
        found |= {parts.password or "", unquote(parts.password or ""), parts.query}
        found |= {value for key, value in parse_qsl(parts.query) if key == "password"}
    return found - {""}


def _key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"scrout/{name}".encode()).digest()[:8], signed=True)


def _try(db: Connection, name: str) -> bool:
    ((got,),) = db.execute("SELECT pg_try_advisory_lock(%s)", (_key(name),)).fetchall()
    return bool(got)


def _unlock(db: Connection, name: str) -> None:
    db.execute("SELECT pg_advisory_unlock(%s)", (_key(name),))
