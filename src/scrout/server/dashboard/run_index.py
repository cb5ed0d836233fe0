"""The dashboard's search index: one row per run, with the words of its issue, in a separate file.

A ledger stores whole runs and derives totals from every receipt, which is too slow for each click. The index is derived
from the ledger and can be made again, so it is in the cache folder. A closed run never changes, so only runs that
started or closed since are read again.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import Field

from scrout.base import FrozenModel, LedgerError
from scrout.ledger.sqlite import connect, transaction
from scrout.ledger.store import Ledger, RunProgress, RunSummary
from scrout.money import CENT_FRACTION, Usd, known_usd
from scrout.records import RunOutcome
from scrout.task import title_of

FORM = 4
"""Version of the tables; other versions are made again."""
REFRESH_S = 1.0
"""Maximum age of an answer."""
WINDOW = 200
"""Number of the latest runs to check again: with PostgreSQL, a run may appear after another that started later."""
CHUNK = 200
QUIET_S = 3600
"""Without news for this long, an open run or batch counts as abandoned."""
BETWEEN_STEPS_S = 120
MAX_INDEXED_CHARS = 20_000
MAX_WORDS = 12
CACHE_KB = 64_000
"""Memory for the cache, so that the index of some hundred thousand runs is not read again for each query."""
MAX_ANSWERS = 500
"""Valid until something changes."""

DONE: tuple[RunOutcome, ...] = ("solved", "unverified", "not_solved")
"""Outcomes that say something about a fixer."""

_TABLES = """
CREATE TABLE run (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT NOT NULL, repository TEXT NOT NULL,
    title TEXT NOT NULL, batch TEXT NOT NULL, arm TEXT NOT NULL, started TEXT NOT NULL, finished TEXT,
    outcome TEXT NOT NULL, fixer TEXT NOT NULL, cost INTEGER, step TEXT NOT NULL DEFAULT '', at TEXT,
    routed INTEGER NOT NULL
);
CREATE INDEX run_open ON run (number) WHERE finished IS NULL;
CREATE INDEX run_in_order_of_outcome ON run (outcome);
CREATE INDEX run_in_order_of_fixer ON run (fixer);
CREATE INDEX run_in_order_of_arm ON run (arm);
CREATE INDEX run_in_order_of_batch ON run (batch);
CREATE INDEX run_sums_by_outcome ON run (outcome, cost);
CREATE INDEX run_sums_by_fixer ON run (fixer, outcome, cost);
CREATE INDEX run_sums_by_arm ON run (arm, outcome, cost);
CREATE INDEX run_sums_by_day ON run (started, outcome, cost);
CREATE INDEX run_sums_by_batch ON run (batch, arm, fixer, routed, outcome, cost, finished, at, started);
CREATE VIRTUAL TABLE word USING fts5 (text, content = '', detail = none);
"""
_LINE = "id, number, task, repository, title, batch, arm, started, finished, outcome, fixer, cost, step, at"
_WORD = re.compile(r"[^\W_]+")


class Filter(FrozenModel):
    """A filter of runs; empty fields match everything."""

    outcome: RunOutcome | None = None
    fixer: str = ""
    arm: str = ""
    batch: str = ""
    words: str = ""
    """Each is the start of a word of the issue, its task's name or its repository's."""
    since: date | None = None
    until: date | None = None
    """The last day that counts, in UTC."""


class RunLine(FrozenModel):
    id: str
    number: int
    task: str
    repository: str
    title: str
    batch: str
    arm: str
    started: datetime
    finished: datetime | None
    outcome: RunOutcome
    fixer: str
    cost_usd: Usd | None
    step: str = ""
    """For an open run, its last known step."""
    at: datetime | None = None

    @property
    def going(self) -> bool:
        """Whether it is in progress, as far as the ledger shows."""
        return self.finished is None and is_running(self.step.endswith(" started"), self.at or self.started)


class Totals(FrozenModel):
    runs: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict)
    cost_usd: Usd = Decimal(0)
    unpriced: int = 0
    """Runs with unknown cost; the sum does not include them."""
    unjudged_usd: Usd = Decimal(0)
    """The part of the sum for runs without a problem to solve, such as conversations."""

    @property
    def done(self) -> int:
        return sum(self.outcomes.get(outcome, 0) for outcome in DONE)

    @property
    def solved(self) -> int:
        return self.outcomes.get("solved", 0)

    @property
    def usd_a_run(self) -> Decimal | None:
        """Mean of the known costs; None: there are none."""
        priced = self.runs - self.unpriced
        return self.cost_usd / priced if priced else None

    @property
    def usd_a_solve(self) -> Decimal | None:
        """None: nothing is solved, or the cost of a run is unknown."""
        return (self.cost_usd - self.unjudged_usd) / self.solved if self.solved and not self.unpriced else None


class RunGroup(FrozenModel):
    batch: str
    arm: str
    fixer: str
    routed: bool
    """Whether it had alternatives."""
    totals: Totals
    open: int
    started: datetime
    last: datetime


class RunIndex:
    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self._ledger = ledger
        self._path = folder / f"{hashlib.sha256(ledger.name.encode()).hexdigest()[:16]}.db"
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._fresh_until = 0.0
        self._seen: tuple[int, list[RunProgress]] | None = None
        """State of the index and of open runs in the ledger at the last check."""
        self._answers: dict[tuple[str, tuple[str | int, ...]], list[tuple[Any, ...]]] = {}
        """Answers since the last change."""

    def refresh(self) -> None:
        """Read the ledger's changes, unless that was done a moment ago."""
        with self._lock:
            if time.monotonic() < self._fresh_until:
                return
            with self._explained():
                db = self._connect()
                with transaction(db):
                    self._take_in(db)
            self._fresh_until = time.monotonic() + REFRESH_S

    def warm_up(self) -> None:
        """Read the index once, so that the first request need not wait for the disk."""
        self._rows("SELECT sum(length(at)) FROM run", [])

    def lines(self, which: Filter, limit: int, *, before: int | None = None, after: int | None = None) -> list[RunLine]:
        """The latest first: those below a number, or the nearest above one."""
        tests, values = _tests(which)
        order = "DESC"
        if after is not None:
            tests, values, order = [*tests, "number > ?"], [*values, after], "ASC"
        elif before is not None:
            tests, values = [*tests, "number < ?"], [*values, before]
        # The word index returns its rows in either order, and stops at the limit.
        by = "word.rowid" if which.words else "number"
        rows = self._rows(
            f"SELECT {_LINE} FROM {_from(which)}{_where(tests)} ORDER BY {by} {order} LIMIT ?", [*values, limit]
        )
        return sorted((_line(row) for row in rows), key=lambda line: -line.number)

    def totals(self, which: Filter) -> Totals:
        tests, values = _tests(which)
        return _totals(
            self._rows(
                f"SELECT outcome, count(*), sum(cost), count(cost) FROM {_from(which)}{_where(tests)} GROUP BY outcome",
                values,
            )
        )

    def groups(self, batch: str | None = None, *, done: bool = False) -> list[RunGroup]:
        """Runs by batch, arm and fixer, the latest batch first; those without a batch have ''.

        `done`: only runs that say something about their fixer.
        """
        rows = self._rows(
            "SELECT batch, arm, fixer, routed, outcome, count(*), sum(cost), count(cost), sum(finished IS NULL),"
            " min(started), max(coalesce(finished, at, started))"
            f" FROM run{'' if batch is None else ' WHERE batch = ?'} GROUP BY batch, arm, fixer, routed, outcome",
            [] if batch is None else [batch],
        )
        found: dict[tuple[str, str, str, int], list[tuple[Any, ...]]] = {}
        for row in rows:
            if not done or row[4] in DONE:
                found.setdefault(row[:4], []).append(row[4:])
        groups = [
            RunGroup(
                batch=batch,
                arm=arm,
                fixer=fixer,
                routed=bool(routed),
                totals=_totals([part[:4] for part in parts]),
                open=sum(part[4] for part in parts),
                started=datetime.fromisoformat(min(part[5] for part in parts)),
                last=datetime.fromisoformat(max(part[6] for part in parts)),
            )
            for (batch, arm, fixer, routed), parts in found.items()
        ]
        return sorted(groups, key=lambda group: group.started, reverse=True)

    def choices(self, column: str, most: int = 200) -> list[str]:
        """Possible values of a filter on `fixer`, `arm` or `batch`."""
        assert column in ("fixer", "arm", "batch")
        # One seek in the index per value, because DISTINCT would read every row.
        found: list[str] = []
        while len(found) < most:
            rows = self._rows(f"SELECT min({column}) FROM run WHERE {column} > ?", [found[-1] if found else ""])
            if not rows or rows[0][0] is None:
                break
            found.append(rows[0][0])
        return found

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _rows(self, statement: str, values: Sequence[str | int]) -> list[tuple[Any, ...]]:
        with self._lock:
            self.refresh()
            asked = (statement, tuple(values))
            if asked not in self._answers:
                if len(self._answers) >= MAX_ANSWERS:
                    self._answers.clear()
                with self._explained():
                    self._answers[asked] = self._connect().execute(statement, values).fetchall()
            return self._answers[asked]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise LedgerError(
                f"the dashboard's index {self._path}: {error}. Remove that file; scrout builds it again from the "
                f"ledger."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        if self._db is None:
            # Data lost in a power failure can be made again.
            self._db = connect(self._path, 30, {"synchronous": "OFF", "cache_size": -CACHE_KB})
        return self._db

    def _take_in(self, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA user_version").fetchone()[0] != FORM:
            _make_anew(db)
        (newest,) = db.execute("SELECT coalesce(max(number), 0) FROM run").fetchone()
        there = self._ledger.numbers(newest - WINDOW)
        if newest and (newest, *db.execute("SELECT id FROM run WHERE number = ?", (newest,)).fetchone()) not in there:
            _make_anew(db)  # another ledger is at the same path
            there = self._ledger.numbers()
        known = {number for (number,) in db.execute("SELECT number FROM run WHERE number > ?", (newest - WINDOW,))}
        fresh = [run_id for number, run_id in there if number not in known]
        progress = self._ledger.in_progress()
        going = {one.run_id for one in progress}
        known_open = [run_id for (run_id,) in db.execute("SELECT id FROM run WHERE finished IS NULL")]
        closed = [run_id for run_id in known_open if run_id not in going]
        seen = (db.execute("PRAGMA data_version").fetchone()[0], progress)
        if not fresh and not closed and seen == self._seen:
            return
        self._answers.clear()
        self._seen = seen
        for at in range(0, len(fresh), CHUNK):
            for brief in self._ledger.briefs(fresh[at : at + CHUNK]):
                text = f"{brief.text[:MAX_INDEXED_CHARS]}\n{brief.task_id}\n{brief.repository}"
                db.execute(
                    "INSERT INTO word (rowid, text) VALUES (?, ?)",
                    (brief.number, text.encode(errors="replace").decode()),
                )
                db.execute(
                    f"INSERT INTO run ({_LINE}, routed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', NULL, ?)",
                    (*_row(brief), brief.routed),
                )
        for at in range(0, len(closed), CHUNK):
            for brief in self._ledger.briefs(closed[at : at + CHUNK]):
                db.execute(
                    "UPDATE run SET finished = ?, outcome = ?, fixer = ?, cost = ?, routed = ?, step = '', at = NULL"
                    " WHERE number = ?",
                    (*_row(brief)[8:], brief.routed, brief.number),
                )
        db.executemany(
            "UPDATE run SET cost = ?, step = ?, at = ? WHERE id = ? AND finished IS NULL", map(_where_it_is, progress)
        )


def is_running(within_step: bool, last: datetime) -> bool:
    """Whether a run with news at that time is in progress: a step may take long, and the next one follows at once."""
    quiet_s = QUIET_S if within_step else BETWEEN_STEPS_S
    return (datetime.now(UTC) - last).total_seconds() < quiet_s


def words_of(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)][:MAX_WORDS]


def _make_anew(db: sqlite3.Connection) -> None:
    for (name,) in db.execute(
        "SELECT name FROM sqlite_master WHERE name IN ('word', 'run') AND type = 'table'"
    ).fetchall():
        db.execute(f"DROP TABLE {name}")
    for statement in _TABLES.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {FORM}")


def _tests(which: Filter) -> tuple[list[str], list[str | int]]:
    tests: list[str] = []
    values: list[str | int] = []
    for test, value in (
        ("outcome = ?", which.outcome),
        ("fixer = ?", which.fixer),
        ("arm = ?", which.arm),
        ("batch = ?", which.batch),
        ("started >= ?", which.since.isoformat() if which.since else ""),
        # A time of a day sorts after the day itself, and before the day with a letter appended.
        ("started < ?", f"{which.until.isoformat()}U" if which.until else ""),
    ):
        if value:
            tests.append(test)
            values.append(value)
    if which.words:
        tests.append("word MATCH ?")
        values.append(" ".join(f'"{word}"*' for word in words_of(which.words)) or '"-"')
    return tests, values


def _from(which: Filter) -> str:
    return "word CROSS JOIN run ON number = word.rowid" if which.words else "run"


def _where(tests: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _row(brief: RunSummary) -> tuple[str | int | None, ...]:
    words = (brief.task_id, brief.repository, title_of(brief.text), brief.batch, brief.arm)
    return (
        *(brief.id, brief.number),
        *(word.encode(errors="replace").decode() for word in words),
        brief.started.isoformat(),
        None if brief.finished is None else brief.finished.isoformat(),
        *(brief.outcome, brief.fixer, _whole(brief.cost_usd)),
    )


def _where_it_is(one: RunProgress) -> tuple[str | int | None, ...]:
    step = f"{one.step} {one.status}".strip()
    return _whole(one.cost_usd), step, one.at.isoformat() if one.at else None, one.run_id


def _whole(cost_usd: Decimal | None) -> int | None:
    return None if cost_usd is None else int(cost_usd.quantize(CENT_FRACTION) / CENT_FRACTION)


def _usd(cost: int | None) -> Decimal | None:
    return None if cost is None else cost * CENT_FRACTION


def _line(row: tuple[Any, ...]) -> RunLine:
    named = dict(zip(_LINE.split(", "), row, strict=True))
    cost_usd = _usd(named.pop("cost"))
    return RunLine.model_validate(named | {"cost_usd": cost_usd})


def _totals(rows: Sequence[tuple[Any, ...]]) -> Totals:
    return Totals(
        runs=sum(row[1] for row in rows),
        outcomes={row[0]: row[1] for row in rows},
        cost_usd=known_usd(_usd(row[2]) for row in rows),
        unpriced=sum(row[1] - row[3] for row in rows),
        unjudged_usd=known_usd(_usd(row[2]) for row in rows if row[0] == "unjudged"),
    )
