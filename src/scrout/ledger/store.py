"""The embedded ledger: runs, their steps and every receipt, in one append-only SQLite file.

A step's result is stored under the digest of its inputs, so a rerun takes over what an interrupted run had finished.
Totals are derived from the stored steps, never kept beside them. Several processes may use one file at the same time;
a run belongs to one of them at a time.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar, cast

from pydantic import BaseModel, ValidationError

from scrout.errors import LedgerError
from scrout.ledger.locks import Lock
from scrout.ledger.migrations import migrate
from scrout.ledger.scrub import scrub, scrub_json
from scrout.money import Receipt, Usage
from scrout.records import SCHEMA, Attempt, Check, Decision, GatedHandoff, Run, RunOutcome, Scouting
from scrout.task import Task

BUSY_TIMEOUT_S = 10
MAX_MESSAGE = 4000
"""Characters kept of a failed step's message."""

R = TypeVar("R", bound=BaseModel)
Kind = TypeVar("Kind", bound=BaseModel)
Result = Scouting | GatedHandoff | Decision | Attempt | Check
RESULTS: dict[str, type[Result]] = {kind.__name__: kind for kind in (Scouting, GatedHandoff, Decision, Attempt, Check)}
"""What a step may return. Nothing else is ever made from stored JSON."""

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


@dataclass(frozen=True)
class Step:
    """One row of a run's history: a step began, gave a result, or failed."""

    id: int
    name: str
    input_digest: str
    status: Literal["started", "done", "failed"]
    at: datetime
    seconds: float | None
    """None: it has only started."""
    result: Result | None
    """None unless done. Secrets are cut out of it."""
    error: str
    """What a failed step raised: class and message; else empty."""
    receipts: tuple[Receipt, ...]
    """What was booked while it ran; on the row of its end, or of its start where no end was recorded."""


class Ledger:
    """The file. It is made, or brought up to date, when it is first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_folder = path.with_name(f"{path.name}-locks")
        self._db: sqlite3.Connection | None = None
        self._one_at_a_time = threading.RLock()
        self._locks: weakref.WeakSet[Lock] = weakref.WeakSet()

    def open(
        self,
        task: Task,
        settings_digest: str,
        *,
        sandbox: str,
        environment: str,
        batch: str = "",
        arm: str = "",
        resume: bool = True,
    ) -> OpenRun:
        """Begin a run, or go on with the newest one of the same making that was interrupted and nobody works on."""
        stored_task = scrub_json(_dump(task))
        same = (scrub(task.id), stored_task, settings_digest, SCHEMA, scrub(sandbox), scrub(environment), batch, arm)
        with self._transaction("IMMEDIATE") as db:
            for (run_id,) in _unclosed(db, same) if resume else []:
                lock = self._lock(run_id)
                if lock.take():
                    return OpenRun(self, run_id, task, settings_digest, lock, resumed=True)
            now = _now()
            run_id = _new_id(db, now)
            db.execute(
                "INSERT INTO run"
                " (task_id, task, settings_digest, schema, sandbox, environment, batch, arm, id, started)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*same, run_id, now.isoformat()),
            )
            lock = self._lock(run_id)
            lock.take()
        return OpenRun(self, run_id, task, settings_digest, lock)

    def runs(self, limit: int = 50) -> list[Run]:
        """The newest runs first; one that is not closed has the outcome `interrupted`."""
        with self._transaction("DEFERRED") as db:
            ids = [run_id for (run_id,) in db.execute("SELECT id FROM run ORDER BY rowid DESC LIMIT ?", (limit,))]
            return [_stored_run(db, run_id) for run_id in ids]

    def run_ids(self) -> list[str]:
        """Every run, oldest first."""
        with self._transaction("DEFERRED") as db:
            return [run_id for (run_id,) in db.execute("SELECT id FROM run ORDER BY rowid")]

    def runs_of(self, batch: str) -> list[Run]:
        """The runs of a batch, oldest first, without what their steps gave."""
        with self._transaction("DEFERRED") as db:
            ids = [run_id for (run_id,) in db.execute("SELECT id FROM run WHERE batch = ? ORDER BY rowid", (batch,))]
            return [_head(db, run_id) for run_id in ids]

    def spent_usd(self, batch: str) -> Decimal:
        """What a batch has paid so far, interrupted steps and all. A call without a known price counts nothing."""
        with self._transaction("DEFERRED") as db:
            rows = db.execute(
                "SELECT cost_usd FROM receipt JOIN run ON run.id = run_id WHERE batch = ? AND cost_usd IS NOT NULL",
                (batch,),
            )
            return sum((Decimal(cost_usd) for (cost_usd,) in rows), Decimal(0))

    def run(self, id_or_prefix: str) -> Run:
        """One run, by its id or the beginning of it."""
        with self._transaction("DEFERRED") as db:
            return _stored_run(db, self._find(db, id_or_prefix))

    def steps(self, id_or_prefix: str) -> tuple[Step, ...]:
        """A run's whole history, interrupted and failed steps included."""
        with self._transaction("DEFERRED") as db:
            run_id = self._find(db, id_or_prefix)
            with _readable(run_id):
                return _steps(db, run_id)

    def derive(self, id_or_prefix: str) -> Run:
        """The run as its steps and receipts give it, whatever was stored when it was closed."""
        with self._transaction("DEFERRED") as db:
            run_id = self._find(db, id_or_prefix)
            with _readable(run_id):
                return assemble(_head(db, run_id), _steps(db, run_id))

    def recover(self, paid: Callable[[str], Iterable[Receipt]]) -> None:
        """Book what steps had paid for whose process was killed before it could. `paid` tells it by a step's place."""
        with self._transaction("DEFERRED") as db:
            rows = db.execute(
                "SELECT id FROM run WHERE id NOT IN (SELECT run_id FROM close) AND id IN (SELECT run_id FROM step)"
            ).fetchall()
        for (run_id,) in rows:
            lock = self._lock(run_id)
            if lock.take():  # else somebody works on it, and books for himself
                with self._transaction("IMMEDIATE") as db:
                    for step_id in _unfinished(db, run_id):
                        known = {
                            call for (call,) in db.execute("SELECT call FROM receipt WHERE step_id = ?", (step_id,))
                        }
                        for receipt in paid(f"{run_id}/{step_id}"):
                            if receipt.call not in known:
                                _insert_receipt(db, run_id, step_id, 0, receipt)
                lock.release()

    def close(self) -> None:
        """Close the file. Runs that are still open count as interrupted."""
        with self._one_at_a_time, self._explained():
            for lock in self._locks:
                lock.release()
            if self._db is not None:
                self._db.close()
                self._db = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, db: sqlite3.Connection, prefix: str) -> str:
        rows = db.execute(
            "SELECT id FROM run WHERE substr(id, 1, ?) = ? ORDER BY rowid DESC LIMIT 6", (len(prefix), prefix)
        )
        found: list[str] = [run_id for (run_id,) in rows]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(found[:5]) + (" and more" if len(found) > 5 else "")
            raise LedgerError(f"{prefix!r} fits several runs: {listed}. Give more of the id.")
        newest = ", ".join(run_id for (run_id,) in db.execute("SELECT id FROM run ORDER BY rowid DESC LIMIT 3"))
        hint = f"The newest are: {newest}." if newest else "It holds no run yet; `scrout fix` makes one."
        raise LedgerError(f"no run in {self.path} has an id that begins with {prefix!r}. {hint}")

    def _lock(self, run_id: str) -> Lock:
        lock = Lock(self._lock_folder / run_id)
        self._locks.add(lock)
        return lock

    @contextmanager
    def _transaction(self, mode: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
        with self._one_at_a_time, self._explained():
            db = self._connect()
            db.execute(f"BEGIN {mode}")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The world's failures as LedgerErrors; a broken constraint is a bug of ours and stays what it is."""
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
        # SQLite's busy timeout does not cover the change to WAL, so two first users would trip over each other.
        setup = Lock(self._lock_folder / "setup")
        setup.take(wait=True)
        # SQLite gives its side files the mode of the database.
        self.path.touch(mode=0o600)
        db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA foreign_keys = ON")
            migrate(db, self.path)
        except BaseException:
            db.close()
            raise
        finally:
            setup.release()
        self._db = db
        return db


class OpenRun:
    """A run in progress. It is this process's own until it is closed, fails in a step, or its ledger is closed."""

    def __init__(
        self, ledger: Ledger, run_id: str, task: Task, settings_digest: str, lock: Lock, *, resumed: bool = False
    ) -> None:
        self.id = run_id
        self.resumed = resumed
        """Whether it goes on with a run that was interrupted."""
        self._ledger = ledger
        self._task = task
        self._settings_digest = settings_digest
        self._lock = lock
        # By row, as the functions returned them: with the secrets that the stored form had to lose.
        self._made: dict[int, Result] = {}
        self._running: tuple[str, int] | None = None
        """The name of the step in progress, and the row of its start."""
        self._receipts: list[Receipt] = []
        """All that the step in progress has paid for."""
        self._stored = 0
        """How many of them are in the file."""

    async def step(self, name: str, function: Callable[..., Awaitable[R]], *args: BaseModel | str | None) -> R:
        """What `function(*args)` gives: stored if this run has finished that already, else awaited and stored."""
        digest = _digest(name, self._settings_digest, args)
        result = self._begin(name, digest)
        if result is None:
            began = time.monotonic()
            try:
                result = _known(await function(*args))
                stored = _dump(result)
            except BaseException as error:
                # The ledger's own trouble must not hide what happened, a cancellation least of all.
                with suppress(LedgerError):
                    self._fail(name, digest, error, time.monotonic() - began)
                raise
            self._finish(name, digest, result, stored, time.monotonic() - began)
        return cast(R, result)

    def book(self, receipt: Receipt) -> None:
        """Store what the step in progress has just paid for, however it may end."""
        self._receipts.append(receipt)
        # The call was made, and a cancellation may be under way: what cannot be stored now is tried again at the end.
        with suppress(LedgerError):
            with self._ledger._transaction("IMMEDIATE") as db:
                self._insert_receipts(db)
            self._stored = len(self._receipts)

    @property
    def place(self) -> str:
        """Names the step in progress among all steps of all runs."""
        assert self._running is not None
        return f"{self.id}/{self._running[1]}"

    def lost_usd(self, name: str) -> Decimal:
        """What steps of this name paid for and came to nothing: they failed, or were interrupted."""
        with self._ledger._transaction("DEFERRED") as db:
            steps = [step for step in _steps(db, self.id) if step.name == name and step.result is None]
        return sum((one.cost_usd or Decimal(0) for step in steps for one in step.receipts), Decimal(0))

    def close(self, outcome: RunOutcome | None = None) -> Run:
        """End the run for good; without an outcome given, its attempts and checks decide. No secret is cut out of the
        Run returned: its patch is the submission."""
        with self._ledger._transaction("IMMEDIATE") as db:
            self._hold()
            with _readable(self.id):
                steps = _steps(db, self.id)
                stored = assemble(_head(db, self.id), steps)
            outcome = outcome or outcome_of(stored.attempts, stored.checks)
            finished = _now()
            stored = stored.model_copy(update={"outcome": outcome, "finished": finished})
            # Its parts were scrubbed one by one; another pass could make it differ from them.
            db.execute(
                "INSERT INTO close (run_id, outcome, finished, run) VALUES (?, ?, ?, ?)",
                (self.id, outcome, finished.isoformat(), _dump(stored)),
            )
        # Nobody locks a closed run again, so here the file can go; one that stays does no harm.
        with suppress(OSError):
            self._lock.path.unlink()
        self._lock.release()
        whole = [replace(step, result=self._made.get(step.id, step.result)) for step in steps]
        return assemble(stored.model_copy(update={"task": self._task}), whole)

    def _hold(self) -> None:
        if not self._lock.take():
            raise LedgerError(f"run {self.id} was interrupted here and went on elsewhere. Wait for it to finish.")

    def _begin(self, name: str, digest: str) -> Result | None:
        with self._ledger._transaction("IMMEDIATE") as db:
            self._hold()
            row = db.execute(
                "SELECT id, result, result_type, scrubbed FROM step"
                " WHERE run_id = ? AND input_digest = ? AND status = 'done' ORDER BY id DESC LIMIT 1",
                (self.id, digest),
            ).fetchone()
            if row is not None:
                step_id, result, result_type, scrubbed = row
                if step_id in self._made:
                    return self._made[step_id]
                if not scrubbed:
                    with _readable(self.id):
                        return _load(RESULTS[result_type], result)
            started = self._insert(db, name, digest, "started")
        self._running, self._receipts, self._stored = (name, started), [], 0
        return None

    def _finish(self, name: str, digest: str, result: Result, stored: str, seconds: float) -> None:
        clean = scrub_json(stored)
        with self._ledger._transaction("IMMEDIATE") as db:
            step_id = self._insert(
                db, name, digest, "done", clean, type(result).__name__, scrubbed=clean != stored, seconds=seconds
            )
            if isinstance(result, Attempt | Scouting):
                self._receipts += result.receipts[len(self._receipts) :]
            self._insert_receipts(db)
        self._running = None
        self._made[step_id] = result

    def _fail(self, name: str, digest: str, error: BaseException, seconds: float) -> None:
        message = json.dumps(scrub(str(error))[:MAX_MESSAGE])
        try:
            with self._ledger._transaction("IMMEDIATE") as db:
                self._insert(db, name, digest, "failed", message, type(error).__name__, seconds=seconds)
                self._insert_receipts(db)
        finally:
            self._running = None
            self._lock.release()

    def _insert_receipts(self, db: sqlite3.Connection) -> None:
        if self._running is None:
            raise RuntimeError("a receipt was booked while no step was running")
        name, started = self._running
        (number,) = db.execute(
            "SELECT count(*) FROM step WHERE run_id = ? AND name = ? AND status = 'started'", (self.id, name)
        ).fetchone()
        for receipt in self._receipts[self._stored :]:
            _insert_receipt(db, self.id, started, number, receipt)

    def _insert(
        self,
        db: sqlite3.Connection,
        name: str,
        digest: str,
        status: Literal["started", "done", "failed"],
        result: str | None = None,
        result_type: str | None = None,
        *,
        scrubbed: bool = False,
        seconds: float | None = None,
    ) -> int:
        cursor = db.execute(
            "INSERT INTO step (run_id, name, input_digest, status, result, result_type, scrubbed, at, seconds)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.id, name, digest, status, result, result_type, scrubbed, _now().isoformat(), seconds),
        )
        return cast(int, cursor.lastrowid)


def assemble(head: Run, steps: Sequence[Step]) -> Run:
    """The run with what its steps gave, and all that was paid."""
    current: list[Step] = []
    for step in steps:
        if step.result is not None:
            # A step done twice (its first result had a secret in it) starts over: what followed had the first to go on.
            digests = [earlier.input_digest for earlier in current]
            if step.input_digest in digests:
                del current[digests.index(step.input_digest) :]
            current.append(step)
    # A scouting may cost without a call, such as a machine's time; where it has receipts, these are its cost.
    paid = [step.result.cost_usd for step in steps if isinstance(step.result, Scouting) and not step.receipts]
    return head.model_copy(
        update={
            "scouting": _last(current, Scouting),
            "gated": _last(current, GatedHandoff),
            "decision": _last(current, Decision),
            "attempts": _all(current, Attempt),
            "checks": _all(current, Check),
            "cost_usd": total_usd([*paid, *(receipt.cost_usd for step in steps for receipt in step.receipts)]),
        }
    )


def outcome_of(attempts: Sequence[Attempt], checks: Sequence[Check]) -> RunOutcome:
    """What a run came to, by its last attempt and the check of it."""
    if not attempts:
        return "not_solved"
    if attempts[-1].stop == "endpoint" and not attempts[-1].patch:
        return "infrastructure"
    outcome = checks[-1].outcome if len(checks) == len(attempts) else None
    if outcome == "passed":
        return "solved"
    if outcome == "unverified" and attempts[-1].patch:
        return "unverified"
    return "not_solved"


def total_usd(costs: Iterable[Decimal | None]) -> Decimal | None:
    """The sum; None if any part is unknown."""
    total = Decimal(0)
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def _digest(name: str, settings_digest: str, args: Sequence[BaseModel | str | None]) -> str:
    inputs = [arg.model_dump(mode="json") if isinstance(arg, BaseModel) else arg for arg in args]
    return hashlib.sha256(json.dumps([SCHEMA, name, settings_digest, inputs]).encode()).hexdigest()


def _known(result: BaseModel) -> Result:
    if RESULTS.get(type(result).__name__) is not type(result):
        raise TypeError(f"a step returned {type(result).__name__}; the ledger stores {', '.join(RESULTS)}")
    return result


# Not pydantic's own JSON: it refuses text that is not Unicode, which a patch of a Latin-1 file is.
def _dump(record: BaseModel) -> str:
    return json.dumps(record.model_dump(mode="json"))


def _load(kind: type[Kind], text: str) -> Kind:
    return kind.model_validate(json.loads(text))


@contextmanager
def _readable(run_id: str) -> Iterator[None]:
    """What another scrout, or another program, wrote into a run may be beyond this one."""
    try:
        yield
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        what = f"{error.title}: {error.error_count()} errors" if isinstance(error, ValidationError) else repr(error)
        raise LedgerError(
            f"run {run_id} holds a record that this scrout cannot read ({what}). Upgrade scrout, or start over "
            "with `scrout fix --fresh`."
        ) from error


def _unclosed(db: sqlite3.Connection, same: tuple[str | int, ...]) -> list[tuple[str]]:
    return db.execute(
        "SELECT id FROM run WHERE task_id = ? AND task = ? AND settings_digest = ? AND schema = ? AND sandbox = ?"
        " AND environment = ? AND batch = ? AND arm = ? AND id NOT IN (SELECT run_id FROM close) ORDER BY rowid DESC",
        same,
    ).fetchall()


def _new_id(db: sqlite3.Connection, now: datetime) -> str:
    while True:
        run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        if db.execute("SELECT 1 FROM run WHERE id = ?", (run_id,)).fetchone() is None:
            return run_id


def _unfinished(db: sqlite3.Connection, run_id: str) -> list[int]:
    """Steps that began and whose end nobody recorded."""
    begun: dict[str, list[int]] = {}
    for step_id, digest, status in db.execute(
        "SELECT id, input_digest, status FROM step WHERE run_id = ? ORDER BY id", (run_id,)
    ):
        if status == "started":
            begun.setdefault(digest, []).append(step_id)
        elif begun.get(digest):
            begun[digest].pop()
    return [step_id for steps in begun.values() for step_id in steps]


def _stored_run(db: sqlite3.Connection, run_id: str) -> Run:
    with _readable(run_id):
        row = db.execute("SELECT run FROM close WHERE run_id = ?", (run_id,)).fetchone()
        return assemble(_head(db, run_id), _steps(db, run_id)) if row is None else _load(Run, row[0])


def _head(db: sqlite3.Connection, run_id: str) -> Run:
    """The run without what its steps gave."""
    task, settings_digest, batch, arm, started, sandbox, environment, outcome, finished = db.execute(
        "SELECT task, settings_digest, batch, arm, started, sandbox, environment, outcome, finished"
        " FROM run LEFT JOIN close ON run_id = id WHERE id = ?",
        (run_id,),
    ).fetchone()
    return Run(
        id=run_id,
        task=_load(Task, task),
        settings_digest=settings_digest,
        batch=batch,
        arm=arm,
        started=datetime.fromisoformat(started),
        finished=None if finished is None else datetime.fromisoformat(finished),
        sandbox=sandbox,
        environment=environment,
        outcome=outcome or "interrupted",
    )


def _steps(db: sqlite3.Connection, run_id: str) -> tuple[Step, ...]:
    receipts = _receipts(db, run_id)
    rows = db.execute(
        "SELECT id, name, input_digest, status, result, result_type, at, seconds FROM step"
        " WHERE run_id = ? ORDER BY id",
        (run_id,),
    ).fetchall()
    running: dict[str, int] = {}
    for step_id, _, digest, status, *_ in rows:
        if status == "started":
            running[digest] = step_id
        else:
            booked = receipts.pop(running.pop(digest, step_id), [])
            receipts[step_id] = booked + receipts.get(step_id, [])
    return tuple(
        Step(
            id=step_id,
            name=name,
            input_digest=digest,
            status=status,
            at=datetime.fromisoformat(at),
            seconds=seconds,
            result=_load(RESULTS[result_type], result) if status == "done" else None,
            error=f"{result_type}: {json.loads(result)}" if status == "failed" else "",
            receipts=tuple(receipts.get(step_id, ())),
        )
        for step_id, name, digest, status, result, result_type, at, seconds in rows
    )


def _receipts(db: sqlite3.Connection, run_id: str) -> dict[int, list[Receipt]]:
    by_step: dict[int, list[Receipt]] = {}
    rows = db.execute(
        f"SELECT step_id, component, fixer, model, cost_usd, estimated, at, call, {', '.join(Usage.model_fields)}"
        " FROM receipt WHERE run_id = ? ORDER BY id",
        (run_id,),
    )
    for step_id, component, fixer, model, cost_usd, estimated, at, call, *tokens in rows:
        receipt = Receipt(
            component=component,
            fixer=fixer,
            model=model,
            usage=Usage(**dict(zip(Usage.model_fields, tokens, strict=True))),
            cost_usd=None if cost_usd is None else Decimal(cost_usd),
            estimated=bool(estimated),
            at=datetime.fromisoformat(at),
            call=call,
        )
        by_step.setdefault(step_id, []).append(receipt)
    return by_step


def _insert_receipt(db: sqlite3.Connection, run_id: str, step_id: int, attempt: int, receipt: Receipt) -> None:
    row: dict[str, str | int | None] = {
        "run_id": run_id,
        "step_id": step_id,
        "attempt": attempt,
        "component": receipt.component,
        "fixer": None if receipt.fixer is None else scrub(receipt.fixer),
        "model": scrub(receipt.model),
        **receipt.usage.model_dump(),
        "cost_usd": None if receipt.cost_usd is None else str(receipt.cost_usd),
        "estimated": receipt.estimated,
        "at": receipt.at.isoformat(),
        "call": receipt.call,
    }
    marks = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT INTO receipt ({', '.join(row)}) VALUES ({marks})", row)


def _all(steps: Sequence[Step], kind: type[Kind]) -> tuple[Kind, ...]:
    return tuple(step.result for step in steps if isinstance(step.result, kind))


def _last(steps: Sequence[Step], kind: type[Kind]) -> Kind | None:
    found = _all(steps, kind)
    return found[-1] if found else None


def _now() -> datetime:
    return datetime.now(UTC)
