"""The ledger: runs, their steps and every receipt, append-only, in a SQLite file or a PostgreSQL database.

A step's result is stored under the digest of its inputs, so a rerun reuses the finished steps of an interrupted run.
Totals are derived from the stored steps, never stored separately. Many processes may use one ledger at the same time; a
run belongs to one of them at a time. The order of rows decides what came first, because clocks differ and can be set
back.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pydantic import BaseModel, ValidationError

from scrout.base import LedgerError
from scrout.ledger.database import RunLock, Transaction, Value, database
from scrout.ledger.receipts import digest_receipts, read_receipts
from scrout.money import Receipt, Usage, known_usd, total_usd
from scrout.observer import SILENT, RunObserver
from scrout.records import SCHEMA, Attempt, Check, Decision, GatedHandoff, Run, RunOutcome, Scouting
from scrout.redact import redact, redact_json
from scrout.task import Task

if TYPE_CHECKING:
    from scrout.observer import StepInput

MAX_MESSAGE = 4000
"""Maximum length of a failed step's message, in characters."""

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)
Kind = TypeVar("Kind", bound=BaseModel)
Result = Scouting | GatedHandoff | Decision | Attempt | Check
RESULTS: dict[str, type[Result]] = {kind.__name__: kind for kind in (Scouting, GatedHandoff, Decision, Attempt, Check)}
"""Types that a step may return. Stored JSON is never loaded as another type."""


RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
StepRow = tuple[int, str, str, str | None]
"""A step's row, digest of inputs, status and type of result."""
_BUCKETS = tuple(Usage.model_fields)
_OF_BATCH = "batch = ? AND batch <> ''"
"""As in the index on batches, which leaves other runs out."""


@dataclass(frozen=True)
class StepRecord:
    """One row of a run's history: a step started, returned a result, or failed."""

    id: int
    name: str
    input_digest: str
    status: Literal["started", "done", "failed"]
    at: datetime
    seconds: float | None
    result: Result | None
    """None unless done. Secrets are cut out."""
    error: str
    """Class and message of a failed step's error; otherwise empty."""
    receipts: tuple[Receipt, ...]
    """Receipts booked while it ran; on the row of its end, or of its start if no end was recorded."""
    receipts_digest: str
    """Of the result's receipts when it was stored; empty: its type has none."""


@dataclass(frozen=True)
class RunDetail:
    """A run as it was closed, and as derived from its steps and receipts."""

    stored: Run
    derived: Run
    steps: tuple[StepRecord, ...]
    receipts: int
    """Number of its receipts; its steps have all of them, unless the tables were changed."""


@dataclass(frozen=True)
class RunSummary:
    """A run in one line, for lists of many."""

    number: int
    """Rises in the order in which runs started."""
    id: str
    task_id: str
    repository: str
    text: str
    batch: str
    arm: str
    started: datetime
    finished: datetime | None
    """None: the run is not closed."""
    outcome: RunOutcome
    fixer: str
    """Of the last attempt, otherwise the chosen one; empty: neither is known before the run is closed."""
    cost_usd: Decimal | None
    """None: the price of a call is unknown, or the run is not closed."""
    routed: bool
    """Whether its fixer was chosen out of several; False: there was no choice, or it is unknown."""


@dataclass(frozen=True)
class RunProgress:
    """The state of an open run: in progress, or interrupted."""

    run_id: str
    step: str
    """The last known step; empty: none has started."""
    status: str
    """started, done or failed; empty: none has started."""
    at: datetime | None
    cost_usd: Decimal | None
    """So far; None: the price of a call is unknown."""


class Ledger:
    """The ledger at a path or a postgresql:// address. It is opened when first needed."""

    def __init__(self, place: Path | str) -> None:
        self._database = database(place)

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
        """Start a run, or resume the latest interrupted one with the same task and settings that is not in progress."""
        stored_task = redact_json(_dump(task))
        same = (redact(task.id), stored_task, settings_digest, SCHEMA, redact(sandbox), redact(environment), batch, arm)
        for run_id in self._database.read(lambda db: _unclosed(db, same)) if resume else []:
            claim = self._claim_unclosed(run_id)
            if claim:
                return OpenRun(self, run_id, task, settings_digest, claim, resumed=True)
        while True:
            now = _now()
            run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
            # Another process with the same id at the same time fails here, so checking before the insert is enough.
            claim = self._claim(run_id)
            if claim.take():
                if self._begin(run_id, now, same):
                    return OpenRun(self, run_id, task, settings_digest, claim)
                claim.release()

    def runs(self, limit: int = 50, *, batch: str = "", arm: str = "", outcome: RunOutcome | None = None) -> list[Run]:
        """The latest runs first; an open one has the outcome `interrupted`."""
        closed = "id IN (SELECT run_id FROM close WHERE outcome = ?)"
        unclosed = " OR id IN (SELECT run_id FROM unclosed)" if outcome == "interrupted" else ""
        wanted = {_OF_BATCH: batch, "arm = ?": arm, f"({closed}{unclosed})": outcome}
        given = {what: value for what, value in wanted.items() if value}
        where = f" WHERE {' AND '.join(given)}" if given else ""

        def read(db: Transaction) -> list[Run]:
            rows = db.execute(f"SELECT id FROM run{where} ORDER BY rowid DESC LIMIT ?", (*given.values(), limit))
            return [_stored_run(db, run_id) for (run_id,) in rows]

        return self._database.read(read)

    def run_ids(self) -> list[str]:
        """Every run, oldest first."""
        return [run_id for (run_id,) in self._rows("SELECT id FROM run ORDER BY rowid")]

    def batches(self) -> list[str]:
        """Every batch that a run belongs to."""
        return sorted(batch for (batch,) in self._rows("SELECT DISTINCT batch FROM run WHERE batch <> ''"))

    def runs_of(self, batch: str) -> list[Run]:
        """The runs of a batch, oldest first, without the results of their steps."""
        return self._database.read(lambda db: _heads(db, f"{_OF_BATCH} ORDER BY run.rowid", batch))

    def spent_usd(self, batch: str) -> Decimal:
        """Payments of a batch so far, interrupted steps included. A call at an unknown price counts nothing."""
        paid_for = f"SELECT {self._database.sum_usd} FROM run JOIN receipt ON run_id = run.id WHERE {_OF_BATCH}"
        ((spent,),) = self._rows(paid_for, batch)
        return Decimal(spent or 0)

    def paid_usd(self, run_id: str) -> Decimal:
        """Payments of a run so far, interrupted steps included. A call at an unknown price counts nothing."""
        ((paid,),) = self._rows(f"SELECT {self._database.sum_usd} FROM receipt WHERE run_id = ?", run_id)
        return Decimal(paid or 0)

    @property
    def name(self) -> str:
        """The file, or the address without secrets."""
        return self._database.name

    def numbers(self, after: int = 0) -> list[tuple[int, str]]:
        """Number and id of each run that started after that number, in order."""
        rows = self._rows("SELECT rowid, id FROM run WHERE rowid > ? ORDER BY rowid", after)
        return [(number, run_id) for number, run_id in rows]

    def briefs(self, ids: Sequence[str]) -> list[RunSummary]:
        """These runs in one line each, in the order in which they started."""
        marks = ", ".join("?" for _ in ids)
        rows = self._rows(
            "SELECT run.rowid, id, task, batch, arm, started, outcome, finished, run FROM run"
            f" LEFT JOIN close ON run_id = id WHERE id IN ({marks}) ORDER BY run.rowid",
            *ids,
        )
        return [_brief(row) for row in rows]

    def in_progress(self) -> list[RunProgress]:
        """Every open run, and its state."""

        def read(db: Transaction) -> list[RunProgress]:
            # With subqueries, because a join may be planned from the side of a million steps.
            last = "SELECT (SELECT max(id) FROM step WHERE step.run_id = unclosed.run_id) FROM unclosed"
            steps: dict[str, tuple[str, str, datetime | None]] = {
                run_id: (name, status, datetime.fromisoformat(at))
                for run_id, name, status, at in db.execute(
                    f"SELECT run_id, name, status, at FROM step WHERE id IN ({last})"
                )
            }
            of_run = "FROM receipt WHERE receipt.run_id = unclosed.run_id"
            return [
                RunProgress(
                    run_id, *(steps.get(run_id) or ("", "", None)), cost_usd=None if unpriced else Decimal(paid or 0)
                )
                for run_id, paid, unpriced in db.execute(
                    f"SELECT run_id, (SELECT {self._database.sum_usd} {of_run}),"
                    f" (SELECT count(*) - count(cost_usd) {of_run}) FROM unclosed ORDER BY run_id"
                )
            ]

        return self._database.read(read)

    def run(self, id_or_prefix: str) -> Run:
        """One run, by its id or the start of it."""
        return self._database.read(lambda db: _stored_run(db, self._find(db, id_or_prefix)))

    def steps(self, id_or_prefix: str) -> tuple[StepRecord, ...]:
        """A run's complete history, interrupted and failed steps included."""
        return self._database.read(lambda db: _readable_steps(db, self._find(db, id_or_prefix)))

    def receipts(self, id_or_prefix: str) -> tuple[Receipt, ...]:
        """Every receipt of a run, interrupted steps included."""
        return tuple(receipt for step in self.steps(id_or_prefix) for receipt in step.receipts)

    def derive(self, id_or_prefix: str) -> Run:
        """The run derived from its steps and receipts, ignoring what was stored when it was closed."""
        return self.story(id_or_prefix).derived

    def story(self, id_or_prefix: str) -> RunDetail:
        """Everything about one run, in one consistent read."""

        def read(db: Transaction) -> RunDetail:
            run_id = self._find(db, id_or_prefix)
            steps = _readable_steps(db, run_id)
            with _readable(run_id):
                derived = assemble(_head(db, run_id), steps)
            ((receipts,),) = db.execute("SELECT count(*) FROM receipt WHERE run_id = ?", (run_id,))
            return RunDetail(_stored_run(db, run_id, derived), derived, steps, receipts)

        return self._database.read(read)

    def ended(self, run_id: str) -> datetime | None:
        """When a run was closed, or started if it is open; None: it is not in this ledger."""
        ended = "SELECT coalesce(finished, started) FROM run LEFT JOIN close ON run_id = id WHERE id = ?"
        rows = self._rows(ended, run_id)
        return datetime.fromisoformat(rows[0][0]) if rows else None

    @contextmanager
    def left_alone(self, run_id: str) -> Iterator[bool]:
        """True: the run is not in progress, and no process can continue it during the block."""
        claim = self._claim_unclosed(run_id)
        try:
            yield claim is not None or not self._is_unclosed(run_id)
        finally:
            if claim:
                claim.release()

    def recover(self, paid: Callable[[str], Iterable[Receipt]]) -> None:
        """Book the payments of steps whose process was killed before it could.

        `paid` returns them for a step's place.
        """
        for run_id in self._database.read(_cut_off):
            claim = self._claim_unclosed(run_id)
            if claim:  # otherwise, another process works on it and books its own
                self._recover(run_id, paid)
                claim.release()

    def close(self) -> None:
        """Close the ledger. Runs that are still open count as interrupted."""
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, run_id: str, now: datetime, same: tuple[Value, ...]) -> bool:
        """False: a run with that id exists."""

        def write(db: Transaction) -> bool:
            if db.execute("SELECT 1 FROM run WHERE id = ?", (run_id,)):
                return False
            db.execute(
                "INSERT INTO run"
                " (task_id, task, settings_digest, schema, sandbox, environment, batch, arm, id, started)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*same, run_id, now.isoformat()),
            )
            return True

        return self._database.write(write)

    def _claim(self, run_id: str) -> RunLock:
        """The lock is a file of that name, and attempts have folders of that name: another format could lead
        anywhere.
        """
        if not RUN_ID.fullmatch(run_id):
            raise LedgerError(
                f"{self.name} has a run {run_id[:100]!r}, which scrout did not start. Use another ledger."
            )
        return self._database.claim(run_id)

    def _claim_unclosed(self, run_id: str) -> RunLock | None:
        """None: another process works on it, or has closed it meanwhile."""
        claim = self._claim(run_id)
        if not claim.take():
            return None
        if self._is_unclosed(run_id):
            return claim
        claim.retire()
        return None

    def _is_unclosed(self, run_id: str) -> bool:
        return bool(self._rows("SELECT 1 FROM unclosed WHERE run_id = ?", run_id))

    def _rows(self, statement: str, *values: Value) -> list[tuple[Any, ...]]:
        return self._database.read(lambda db: db.execute(statement, values))

    def _recover(self, run_id: str, paid: Callable[[str], Iterable[Receipt]]) -> None:
        for step_id in self._database.read(lambda db: _unfinished(db, run_id)):
            receipts = tuple(paid(f"{run_id}/{step_id}"))

            def write(db: Transaction, step_id: int = step_id, receipts: Sequence[Receipt] = receipts) -> None:
                of_step = "SELECT call FROM receipt WHERE run_id = ? AND step_id = ?"
                known = {call for (call,) in db.execute(of_step, (run_id, step_id))}
                for receipt in receipts:
                    if receipt.call not in known:
                        _insert_receipt(db, run_id, step_id, 0, receipt, redact)

            if receipts:
                self._database.write(write)

    def _find(self, db: Transaction, prefix: str) -> str:
        if db.execute("SELECT 1 FROM run WHERE id = ?", (prefix,)):
            return prefix
        rows = db.execute(
            "SELECT id FROM run WHERE substr(id, 1, ?) = ? ORDER BY rowid DESC LIMIT 6", (len(prefix), prefix)
        )
        found: list[str] = [run_id for (run_id,) in rows]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(found[:5]) + (" and more" if len(found) > 5 else "")
            raise LedgerError(f"{prefix!r} matches several runs: {listed}. Give more of the id.")
        newest = ", ".join(run_id for (run_id,) in db.execute("SELECT id FROM run ORDER BY rowid DESC LIMIT 3"))
        hint = f"The newest are: {newest}." if newest else "It holds no run yet; `scrout fix` makes one."
        raise LedgerError(f"no run in {self._database.name} has an id that begins with {prefix!r}. {hint}")


class OpenRun:
    """A run in progress. It belongs to this process until it is closed, fails in a step, or its ledger is closed."""

    def __init__(
        self, ledger: Ledger, run_id: str, task: Task, settings_digest: str, claim: RunLock, *, resumed: bool = False
    ) -> None:
        self.id = run_id
        self.resumed = resumed
        """Whether it resumes an interrupted run."""
        self.watch: RunObserver = SILENT
        """Observes its steps."""
        self._ledger = ledger
        self._task = task
        self._settings_digest = settings_digest
        self._claim = claim
        # Names of fixers and models, which repeat often.
        self._redact = lru_cache(maxsize=16)(redact)
        # By row, as the functions returned them: with the secrets that the stored form must not have.
        self._made: dict[int, Result] = {}
        self._running: tuple[int, int] | None = None
        """The row of the current step's start, and its count among steps of that name."""
        self._receipts: list[Receipt] = []
        """All receipts of the current step."""
        self._stored: int | None = 0
        """How many of them are in the ledger; None: an attempt to store some had an unknown result."""

    async def step(self, name: str, function: Callable[..., Awaitable[R]], *args: StepInput) -> R:
        """The result of `function(*args)`: the stored one if this run has it already; otherwise, awaits and stores
        it.
        """
        digest = _digest(name, self._settings_digest, args)
        result = self._begin(name, digest)
        if result is not None:
            self.watch.reused(name)
            return cast(R, result)
        with self.watch.step(name, args, self.place, self._receipts) as watched:
            began = time.monotonic()
            try:
                result = _known(await function(*args))
                stored = _dump(result)
            except BaseException as error:
                # The ledger's own error must not hide the original one, above all not a cancellation.
                with suppress(LedgerError):
                    self._fail(name, digest, error, time.monotonic() - began)
                raise
            self._finish(name, digest, result, stored, time.monotonic() - began)
            watched.gave(result)
        return cast(R, result)

    def book(self, receipt: Receipt) -> None:
        """Store payments of the current step immediately, in case it is interrupted."""
        self._receipts.append(receipt)
        # The call was made, and a cancellation may be in progress: if storing fails now, it is retried at the end.
        with suppress(LedgerError):
            self._write(lambda db: None)

    @property
    def place(self) -> str:
        """A unique name of the current step among all steps of all runs."""
        assert self._running is not None
        return f"{self.id}/{self._running[0]}"

    def recover(self, paid: Callable[[str], Iterable[Receipt]]) -> None:
        """Book the payments of its steps whose process was killed before it could, like the ledger's `recover`."""
        self._ledger._recover(self.id, paid)

    def lost_usd(self, name: str) -> Decimal:
        """Payments for steps of this name that the run cannot use.

        They failed, were interrupted, or are repeated because a secret was cut out of their result.
        """

        def read(db: Transaction) -> list[StepRecord]:
            rows = db.execute("SELECT id FROM step WHERE run_id = ? AND scrubbed = 1", (self.id,))
            lost = {step_id for (step_id,) in rows} - self._made.keys()
            return [one for one in _steps(db, self.id) if one.name == name and (one.result is None or one.id in lost)]

        steps = self._ledger._database.read(read)
        return known_usd(receipt.cost_usd for step in steps for receipt in step.receipts)

    def close(self, outcome: RunOutcome | None = None) -> Run:
        """End the run permanently; without an `outcome`, its attempts and checks decide.

        No secret is cut out of the returned Run, because its patch is the submission.
        """

        def write(db: Transaction) -> tuple[Run, tuple[StepRecord, ...]]:
            self._hold()
            steps = _readable_steps(db, self.id)
            with _readable(self.id):
                stored = assemble(_head(db, self.id), steps)
            # A clock that was set back must not make a run end before it started.
            finished = max(_now(), stored.started)
            came_to = outcome or outcome_of(stored.attempts, stored.checks, again=bool(stored.batch))
            stored = stored.model_copy(update={"outcome": came_to, "finished": finished})
            # Its parts were redacted one by one; another pass could make it differ from them.
            db.execute(
                "INSERT INTO close (run_id, outcome, finished, run) VALUES (?, ?, ?, ?)",
                (self.id, came_to, finished.isoformat(), _dump(stored)),
            )
            return stored, steps

        stored, steps = self._ledger._database.write(write)
        self._claim.retire()
        whole = [replace(step, result=self._made.get(step.id, step.result)) for step in steps]
        run = assemble(stored.model_copy(update={"task": self._task}), whole)
        self.watch.closed(run)
        return run

    def _hold(self) -> None:
        if not self._claim.take():
            raise LedgerError(
                f"run {self.id} was interrupted here and is being continued by another process. Wait for it to finish."
            )

    def _begin(self, name: str, digest: str) -> Result | None:
        def write(db: Transaction) -> Result | tuple[int, int]:
            self._hold()
            done = db.execute(
                "SELECT id, result, result_type, scrubbed FROM step"
                " WHERE run_id = ? AND input_digest = ? AND status = 'done' ORDER BY id DESC LIMIT 1",
                (self.id, digest),
            )
            for step_id, result, result_type, scrubbed in done:
                if step_id in self._made:
                    return self._made[step_id]
                if not scrubbed:
                    with _readable(self.id):
                        booked = _booked(db, self.id, _history(db, self.id))
                        return _load_result(result_type, result, booked.get(step_id, ()))[0]
            started = self._insert(db, name, digest, "started")
            ((number,),) = db.execute(
                "SELECT count(*) FROM step WHERE run_id = ? AND name = ? AND status = 'started'", (self.id, name)
            )
            return started, number

        found = self._ledger._database.write(write)
        if not isinstance(found, tuple):
            return found
        self._running, self._receipts, self._stored = found, [], 0
        return None

    def _finish(self, name: str, digest: str, result: Result, stored: str, seconds: float) -> None:
        clean = redact_json(stored)
        scrubbed = clean != stored
        if isinstance(result, Attempt | Scouting):
            self._receipts += result.receipts[len(self._receipts) :]
            clean = f'{clean[:-1]}, "receipts": "{digest_receipts(result.receipts, self._redact)}"}}'

        def write(db: Transaction) -> int:
            return self._insert(
                db, name, digest, "done", clean, type(result).__name__, scrubbed=scrubbed, seconds=seconds
            )

        step_id = self._write(write)
        self._running = None
        self._made[step_id] = result

    def _fail(self, name: str, digest: str, error: BaseException, seconds: float) -> None:
        message = json.dumps(redact(str(error))[:MAX_MESSAGE])

        def write(db: Transaction) -> None:
            self._insert(db, name, digest, "failed", message, type(error).__name__, seconds=seconds)

        try:
            self._write(write)
        finally:
            self._running = None
            self._claim.release()

    def _write(self, work: Callable[[Transaction], T]) -> T:
        """Add rows, together with receipts that are not in the ledger yet."""
        if self._running is None:
            raise RuntimeError("a receipt was booked while no step was running")
        started, number = self._running
        stored, self._stored = self._stored, None

        def write(db: Transaction) -> T:
            done = work(db)
            known = stored
            if known is None:
                of_step = "SELECT count(*) FROM receipt WHERE run_id = ? AND step_id = ?"
                ((known,),) = db.execute(of_step, (self.id, started))
            for receipt in self._receipts[known:]:
                _insert_receipt(db, self.id, started, number, receipt, self._redact)
            return done

        done = self._ledger._database.write(write)
        self._stored = len(self._receipts)
        return done

    def _insert(
        self,
        db: Transaction,
        name: str,
        digest: str,
        status: Literal["started", "done", "failed"],
        result: str | None = None,
        result_type: str | None = None,
        *,
        scrubbed: bool = False,
        seconds: float | None = None,
    ) -> int:
        ((step_id,),) = db.execute(
            "INSERT INTO step (run_id, name, input_digest, status, result, result_type, scrubbed, at, seconds)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (self.id, name, digest, status, result, result_type, int(scrubbed), _now().isoformat(), seconds),
        )
        return cast(int, step_id)


def assemble(head: Run, steps: Sequence[StepRecord]) -> Run:
    """The run with its steps' results and all receipts."""
    current = _current((step.input_digest, step) for step in steps if step.result is not None)
    return head.model_copy(
        update={
            "scouting": _last(current, Scouting),
            "gated": _last(current, GatedHandoff),
            "decision": _last(current, Decision),
            "attempts": _all(current, Attempt),
            "checks": _all(current, Check),
            "cost_usd": total_usd(receipt.cost_usd for step in steps for receipt in step.receipts),
        }
    )


def _current(done: Iterable[tuple[str, T]]) -> list[T]:
    """The finished steps that count, of all with the digests of their inputs.

    A repeated step (its first result had a secret) invalidates later ones, because they used its first result.
    """
    current: dict[str, T] = {}
    for digest, step in done:
        if digest in current:
            while current.popitem()[0] != digest:
                pass
        current[digest] = step
    return list(current.values())


def outcome_of(attempts: Sequence[Attempt], checks: Sequence[Check], *, again: bool = False) -> RunOutcome:
    """A run's outcome, from its last attempt and its check.

    `again`: a task that infrastructure failed will be retried, so half a patch counts as nothing; otherwise, it is the
    final result.
    """
    if not attempts:
        return "not_solved"
    if attempts[-1].stop == "endpoint" and (again or not attempts[-1].patch):
        return "infrastructure"
    outcome = checks[-1].outcome if len(checks) == len(attempts) else None
    if outcome == "passed":
        return "solved"
    if outcome in ("unverified", "doubtful") and attempts[-1].patch:
        return "unverified"
    return "not_solved"


def _digest(name: str, settings_digest: str, args: Sequence[StepInput]) -> str:
    inputs = [
        arg.model_dump(mode="json") if isinstance(arg, BaseModel) else str(arg) if isinstance(arg, Decimal) else arg
        for arg in args
    ]
    return hashlib.sha256(json.dumps([SCHEMA, name, settings_digest, inputs]).encode()).hexdigest()


def _known(result: BaseModel) -> Result:
    if RESULTS.get(type(result).__name__) is not type(result):
        raise TypeError(f"a step returned {type(result).__name__}; the ledger stores {', '.join(RESULTS)}")
    return result


# Receipts are stored once, in their own rows.
_IN_ROWS: dict[type[BaseModel], Any] = {
    Scouting: {"receipts"},
    Attempt: {"receipts"},
    Run: {"scouting": {"receipts"}, "attempts": {"__all__": {"receipts"}}},
}


# Not pydantic's own JSON, because it refuses text that is not Unicode, such as the patch of a Latin-1 file.
def _dump(record: BaseModel) -> str:
    return json.dumps(record.model_dump(mode="json", exclude=_IN_ROWS.get(type(record))))


def _load(kind: type[Kind], text: str) -> Kind:
    return kind.model_validate(json.loads(text))


def _load_result(result_type: str, text: str, receipts: Sequence[Receipt]) -> tuple[Result, str]:
    """A step's result with its receipts, and the digest of those that it was stored with."""
    kind, said = RESULTS[result_type], dict(json.loads(text))
    digest = ""
    if kind in (Attempt, Scouting):
        digest, said["receipts"] = str(said.get("receipts", "")), receipts
    return kind.model_validate(said), digest


@contextmanager
def _readable(run_id: str) -> Iterator[None]:
    """A LedgerError for records of a newer version or another program that cannot be read."""
    try:
        yield
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        what = f"{error.title}: {error.error_count()} errors" if isinstance(error, ValidationError) else repr(error)
        raise LedgerError(
            f"run {run_id} holds a record that this scrout cannot read ({what}). Upgrade scrout, or start over "
            "with `scrout fix --fresh`."
        ) from error


def _unclosed(db: Transaction, same: tuple[Value, ...]) -> list[str]:
    rows = db.execute(
        "SELECT id FROM run JOIN unclosed ON run_id = id WHERE task_id = ? AND task = ? AND settings_digest = ?"
        " AND schema = ? AND sandbox = ? AND environment = ? AND batch = ? AND arm = ? ORDER BY run.rowid DESC",
        same,
    )
    return [run_id for (run_id,) in rows]


def _cut_off(db: Transaction) -> list[str]:
    """Open runs with a step without a recorded end."""
    rows = db.execute(
        "SELECT unclosed.run_id FROM unclosed JOIN step ON step.run_id = unclosed.run_id"
        " GROUP BY unclosed.run_id HAVING 2 * sum(CASE WHEN status = 'started' THEN 1 ELSE 0 END) > count(*)"
    )
    return [run_id for (run_id,) in rows]


def _unfinished(db: Transaction, run_id: str) -> list[int]:
    """Steps that started and have no recorded end."""
    begun: dict[str, list[int]] = {}
    for step_id, digest, status in db.execute(
        "SELECT id, input_digest, status FROM step WHERE run_id = ? ORDER BY id", (run_id,)
    ):
        if status == "started":
            begun.setdefault(digest, []).append(step_id)
        elif begun.get(digest):
            begun[digest].pop()
    return [step_id for steps in begun.values() for step_id in steps]


def _stored_run(db: Transaction, run_id: str, derived: Run | None = None) -> Run:
    """The closed run; if it is open, the run from its steps, or `derived` if given."""
    with _readable(run_id):
        rows = db.execute("SELECT run FROM close WHERE run_id = ?", (run_id,))
        if not rows:
            return derived or assemble(_head(db, run_id), _steps(db, run_id))
        return Run.model_validate(_with_receipts(db, run_id, dict(json.loads(rows[0][0]))))


def _head(db: Transaction, run_id: str) -> Run:
    """The run without its steps' results."""
    (head,) = _heads(db, "id = ?", run_id)
    return head


def _heads(db: Transaction, which: str, value: Value) -> list[Run]:
    rows = db.execute(
        "SELECT id, task, settings_digest, batch, arm, started, sandbox, environment, outcome, finished"
        f" FROM run LEFT JOIN close ON run_id = id WHERE {which}",
        (value,),
    )
    heads = []
    for run_id, task, settings_digest, batch, arm, started, sandbox, environment, outcome, finished in rows:
        with _readable(run_id):
            head = Run(
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
        heads.append(head)
    return heads


def _brief(row: tuple[Any, ...]) -> RunSummary:
    """From the stored JSON itself, because making records of a hundred thousand runs takes minutes."""
    number, run_id, task, batch, arm, started, outcome, finished, closed = row
    with _readable(run_id):
        told, run = json.loads(task), json.loads(closed or "{}")
        decision, cost_usd = run.get("decision") or {}, run.get("cost_usd")
        return RunSummary(
            number=number,
            id=run_id,
            task_id=told["id"],
            repository=Path(told["repo"]).name,
            text=told["text"],
            batch=batch,
            arm=arm,
            started=datetime.fromisoformat(started),
            finished=None if finished is None else datetime.fromisoformat(finished),
            outcome=outcome or "interrupted",
            fixer=run["attempts"][-1]["fixer"] if run.get("attempts") else decision.get("fixer", ""),
            cost_usd=None if cost_usd is None else Decimal(str(cost_usd)),
            routed=len(decision.get("candidates") or ()) > 1,
        )


def _readable_steps(db: Transaction, run_id: str) -> tuple[StepRecord, ...]:
    with _readable(run_id):
        return _steps(db, run_id)


def _steps(db: Transaction, run_id: str) -> tuple[StepRecord, ...]:
    rows = db.execute(
        "SELECT id, name, input_digest, status, result, result_type, at, seconds FROM step"
        " WHERE run_id = ? ORDER BY id",
        (run_id,),
    )
    booked = _booked(db, run_id, [(step_id, digest, status, "") for step_id, _, digest, status, *_ in rows])
    steps = []
    for step_id, name, digest, status, result, result_type, at, seconds in rows:
        receipts = booked.get(step_id, ())
        given, receipts_digest = _load_result(result_type, result, receipts) if status == "done" else (None, "")
        steps.append(
            StepRecord(
                id=step_id,
                name=name,
                input_digest=digest,
                status=status,
                at=datetime.fromisoformat(at),
                seconds=seconds,
                result=given,
                error=f"{result_type}: {json.loads(result)}" if status == "failed" else "",
                receipts=receipts,
                receipts_digest=receipts_digest,
            )
        )
    return tuple(steps)


def _history(db: Transaction, run_id: str) -> list[StepRow]:
    """A run's steps without their results."""
    of_run = "SELECT id, input_digest, status, result_type FROM step WHERE run_id = ? ORDER BY id"
    return cast(list[StepRow], db.execute(of_run, (run_id,)))


def _with_receipts(db: Transaction, run_id: str, run: dict[str, Any]) -> dict[str, Any]:
    """A closed run, as JSON, with the receipts of its parts."""
    history = _history(db, run_id)
    booked = _booked(db, run_id, history)
    done = _current((digest, (step_id, kind)) for step_id, digest, status, kind in history if status == "done")
    for kind, parts in ((Scouting, [run.get("scouting")]), (Attempt, run.get("attempts") or [])):
        ids = [step_id for step_id, name in done if name == kind.__name__]
        for part, step_id in zip(parts, ids[-len(parts) :], strict=False):
            if isinstance(part, dict):
                # Copies of earlier versions that differ from the rows stay, for the audit to find.
                part.setdefault("receipts", booked.get(step_id, ()))
    return run


def _booked(db: Transaction, run_id: str, steps: Iterable[StepRow]) -> dict[int, tuple[Receipt, ...]]:
    """Receipts by the row of their step's end, or of its start if no end was recorded."""
    by_step: dict[int, list[dict[str, Any]]] = {}
    rows = db.execute(
        f"SELECT step_id, component, fixer, model, cost_usd, estimated, at, call, {', '.join(_BUCKETS)}"
        " FROM receipt WHERE run_id = ? ORDER BY id",
        (run_id,),
    )
    for step_id, component, fixer, model, cost_usd, estimated, at, call, *tokens in rows:
        receipt = {
            "component": component,
            "fixer": fixer,
            "model": model,
            "usage": dict(zip(_BUCKETS, tokens, strict=True)),
            "cost_usd": cost_usd,
            "estimated": estimated,
            "at": at,
            "call": call,
        }
        by_step.setdefault(step_id, []).append(receipt)
    running: dict[str, int] = {}
    for step_id, digest, status, _ in steps:
        if status == "started":
            running[digest] = step_id
        else:
            paid = by_step.pop(running.pop(digest, step_id), [])
            by_step[step_id] = paid + by_step.get(step_id, [])
    return {step_id: read_receipts(paid) for step_id, paid in by_step.items() if paid}


_RECEIPT = (
    *("run_id", "step_id", "attempt", "component", "fixer", "model", "cost_usd", "estimated", "at", "call"),
    *_BUCKETS,
)
# The same call of the same step is the same receipt, no matter which process books it first.
_INSERT_RECEIPT = (
    f"INSERT INTO receipt ({', '.join(_RECEIPT)}) VALUES ({', '.join('?' for _ in _RECEIPT)}) ON CONFLICT DO NOTHING"
)


def _insert_receipt(
    db: Transaction, run_id: str, step_id: int, attempt: int, receipt: Receipt, redact: Callable[[str], str]
) -> None:
    fixer, cost_usd, usage = receipt.fixer, receipt.cost_usd, receipt.usage
    paid: tuple[Value, ...] = (
        *(run_id, step_id, attempt, receipt.component),
        *(None if fixer is None else redact(fixer), redact(receipt.model)),
        *(None if cost_usd is None else str(cost_usd), int(receipt.estimated), receipt.at.isoformat(), receipt.call),
        *(getattr(usage, bucket) for bucket in _BUCKETS),
    )
    db.execute(_INSERT_RECEIPT, paid)


def _all(steps: Sequence[StepRecord], kind: type[Kind]) -> tuple[Kind, ...]:
    return tuple(step.result for step in steps if isinstance(step.result, kind))


def _last(steps: Sequence[StepRecord], kind: type[Kind]) -> Kind | None:
    found = _all(steps, kind)
    return found[-1] if found else None


def _now() -> datetime:
    return datetime.now(UTC)
