"""What every ledger keeps to, whichever database it is in: one suite over SQLite and a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import json
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pytest

from scrout.base import LedgerError
from scrout.config.loading import load
from scrout.handoff import Handoff
from scrout.ledger.audit import audit
from scrout.ledger.store import Ledger, OpenRun, Result
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Check, Scouting
from scrout.task import Task

psycopg: Any
try:
    import psycopg
except ImportError:
    psycopg = None

TASK = Task(id="larder-1", text="The larder is empty.", repo=Path("/home/me/larder"), base_commit="c" * 40)
SCOUTING = Scouting(handoff=Handoff(), text="# Handoff", seconds=0.25)
CHECK = Check(outcome="passed", applies=True, reproduction="passes", tests="pass")
AT = datetime(2026, 11, 15, 14, 22, 33, 123456, tzinfo=UTC)
BENCH = Path(__file__).parents[2] / "bench"
BROKEN: tuple[type[Exception], ...] = (sqlite3.IntegrityError,) + ((psycopg.IntegrityError,) if psycopg else ())
R = TypeVar("R", bound=Result)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server of our own."""
    if psycopg is None:
        pytest.skip("psycopg is not installed: run scripts/add-postgres .venv")
    sys.path.insert(0, str(BENCH))
    try:
        from postgres import NoPostgres, postgres
    finally:
        sys.path.remove(str(BENCH))
    # Not below pytest's own folder, which nobody else may enter; and a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="scrout-pg-") as name, ExitStack() as stack:
        try:
            address = stack.enter_context(postgres(Path(name, "server"), "fsync=off"))
        except NoPostgres as error:
            pytest.skip(str(error))
        yield address


@pytest.fixture
def address(server: str) -> str:
    """Of a database without a ledger."""
    with psycopg.connect(server, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'scrout'")
        db.execute("DROP SCHEMA IF EXISTS scrout CASCADE")
    return server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "sqlite":
        return tmp_path / "ledger.db"
    address: str = request.getfixturevalue("address")
    return address


@pytest.fixture
def ledger(place: Path | str) -> Iterator[Ledger]:
    with Ledger(place) as ledger:
        yield ledger


def raw(place: Path | str, statement: str) -> list[tuple[Any, ...]]:
    """Past the ledger, as any program might."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as db:
            rows = db.execute(statement).fetchall()
            db.commit()
            return rows
    with psycopg.connect(place, options="-csearch_path=scrout") as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def begin(ledger: Ledger, task: Task = TASK, *, batch: str = "", arm: str = "", resume: bool = True) -> OpenRun:
    return ledger.open(task, "settings", sandbox="bubblewrap", environment="none", batch=batch, arm=arm, resume=resume)


def receipt(cost: str | None = "0.10", *, call: int = 0, estimated: bool = False) -> Receipt:
    return Receipt(
        component="fix",
        fixer="a",
        model="m",
        usage=Usage(input_tokens=1, cache_read_tokens=2, output_tokens=4),
        cost_usd=None if cost is None else Decimal(cost),
        estimated=estimated,
        at=AT,
        call=call,
    )


def attempt(*receipts: Receipt, patch: str = "p") -> Attempt:
    total = sum((one.cost_usd or Decimal(0) for one in receipts), Decimal(0))
    return Attempt(fixer="a", patch=patch, stop="finished", detail="", seconds=1, cost_usd=total, receipts=receipts)


def gives(result: R, calls: list[str] | None = None) -> Callable[..., Awaitable[R]]:
    async def stage(*args: object) -> R:
        if calls is not None:
            calls.append(type(result).__name__)
        return result

    return stage


KILLED = """
import asyncio, json, os, sys
from pathlib import Path
from scrout.handoff import Handoff
from scrout.ledger.store import Ledger
from scrout.money import Receipt
from scrout.records import Scouting
from scrout.task import Task

place, batch, task, receipts = sys.argv[1], sys.argv[2], Task.model_validate_json(sys.argv[3]), json.loads(sys.argv[4])
ledger = Ledger(place if "://" in place else Path(place))
run = ledger.open(task, "settings", sandbox="bubblewrap", environment="none", batch=batch)

async def scout(task):
    return Scouting(handoff=Handoff(), text="# Handoff", seconds=0.25)

async def fix(task):
    for receipt in receipts:
        run.book(Receipt.model_validate(receipt))
    print(run.place, flush=True)
    os.kill(os.getpid(), 9)

async def main():
    await run.step("scout", scout, task)
    await run.step("fix", fix, task)

asyncio.run(main())
"""


def killed(place: Path | str, *receipts: Receipt, batch: str = "") -> str:
    """A process that scouts, pays for these calls of a fix and is killed. Gives the place of the fix: run and step."""
    paid = json.dumps([one.model_dump(mode="json") for one in receipts])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(place), batch, TASK.model_dump_json(), paid], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    return done.stdout.strip()


async def whole_run(ledger: Ledger, *receipts: Receipt, batch: str = "", arm: str = "", task: Task = TASK) -> str:
    run = begin(ledger, task, batch=batch, arm=arm, resume=False)
    await run.step("scout", gives(SCOUTING), task)
    await run.step("fix", gives(attempt(*receipts)), task)
    await run.step("check", gives(CHECK), task)
    return run.close().id


async def test_a_run_is_read_as_it_was_closed(ledger: Ledger) -> None:
    run = begin(ledger, batch="b", arm="solo/a")
    await run.step("scout", gives(SCOUTING), TASK)
    await run.step("fix", gives(attempt(receipt("0.1000000001"), receipt("0.20"), patch="-caf\udce9\n+\0é")), TASK)
    await run.step("check", gives(CHECK), TASK)
    closed = run.close()
    assert (closed.outcome, closed.cost_usd) == ("solved", Decimal("0.3000000001"))
    assert ledger.run(closed.id[:15]) == ledger.derive(closed.id) == closed
    assert ledger.runs() == [closed]
    assert audit(ledger).problems == ()


async def test_what_was_finished_is_taken_over_and_the_step_in_flight_begins_again(place: Path | str) -> None:
    calls: list[str] = []
    first, _, _ = killed(place, receipt(call=1)).partition("/")
    with Ledger(place) as ledger:
        again = begin(ledger)
        assert (again.id, again.resumed) == (first, True)
        await again.step("scout", gives(SCOUTING, calls), TASK)
        await again.step("fix", gives(attempt(receipt("1", call=1)), calls), TASK)
        assert calls == ["Attempt"]
        assert again.close().cost_usd == Decimal("1.10")
        assert audit(ledger).problems == ()


async def test_a_run_belongs_to_one_worker_at_a_time(place: Path | str) -> None:
    with Ledger(place) as mine, Ledger(place) as yours:
        run, other, third = begin(mine), begin(yours), begin(mine)
        assert len({run.id, other.id, third.id}) == 3

        async def fail(task: Task) -> Attempt:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await run.step("fix", fail, TASK)
        taken = begin(yours)
        assert taken.id == run.id
        with pytest.raises(LedgerError, match="is being continued by another process"):
            await run.step("fix", gives(attempt()), TASK)
        with pytest.raises(LedgerError, match="is being continued by another process"):
            run.close()
        taken.close()
        assert begin(mine).id not in {run.id, other.id, third.id}


async def test_a_run_that_nobody_holds_any_more_can_be_taken_up(ledger: Ledger) -> None:
    run = begin(ledger)
    known = run.id
    del run
    assert begin(ledger).id == known


async def test_runs_are_listed_newest_first_and_by_what_they_are(ledger: Ledger) -> None:
    plain = await whole_run(ledger)
    solo = await whole_run(ledger, batch="b", arm="solo/a")
    handoff = await whole_run(ledger, batch="b", arm="handoff/a")
    unfinished = begin(ledger, batch="c", arm="solo/a")
    assert [run.id for run in ledger.runs()] == [unfinished.id, handoff, solo, plain]
    assert [run.id for run in ledger.runs(2)] == [unfinished.id, handoff]
    assert [run.id for run in ledger.runs(batch="b")] == [handoff, solo]
    assert [run.id for run in ledger.runs(arm="solo/a")] == [unfinished.id, solo]
    assert [run.id for run in ledger.runs(outcome="interrupted")] == [unfinished.id]
    assert [run.id for run in ledger.runs(outcome="solved", batch="b", limit=1)] == [handoff]
    assert [(run.id, run.arm, run.outcome) for run in ledger.runs_of("b")] == [
        (solo, "solo/a", "solved"),
        (handoff, "handoff/a", "solved"),
    ]
    assert ledger.batches() == ["b", "c"]


async def test_a_batch_has_spent_what_all_of_its_receipts_say(ledger: Ledger, place: Path | str) -> None:
    assert ledger.spent_usd("b") == 0
    await whole_run(ledger, receipt("0.1000000001"), receipt(None), batch="b")
    await whole_run(ledger, receipt("5"), batch="c")
    await whole_run(ledger, receipt("7"))
    killed(place, receipt("0.0000000002"), batch="b")
    spent = ledger.spent_usd("b")
    assert isinstance(spent, Decimal)
    assert spent == Decimal("0.1000000003")


async def test_what_a_killed_process_had_paid_is_booked_once(place: Path | str) -> None:
    with Ledger(place) as ledger:
        closed = await whole_run(ledger, receipt("3", call=1))
    mine = killed(place, receipt("1", call=1), batch="b")
    paid = {mine: [receipt("1", call=1), receipt("2", call=2, estimated=True)]}
    for _ in range(2):
        with Ledger(place) as ledger:
            asked: list[str] = []

            def told(where: str, asked: list[str] = asked) -> list[Receipt]:
                asked.append(where)
                return paid[where]

            ledger.recover(told)
            assert asked == [mine]
            assert ledger.spent_usd("b") == Decimal(3)
            report = audit(ledger)
            assert (report.problems, report.receipts) == ((), 3)
    with Ledger(place) as other, Ledger(place) as ledger:
        taken = begin(other, batch="b")
        assert f"{taken.id}/" in mine and taken.id != closed
        ledger.recover(lambda where: pytest.fail("somebody works on it"))


async def test_the_same_call_of_a_step_is_booked_once_whoever_books_it(ledger: Ledger, place: Path | str) -> None:
    run = begin(ledger)

    async def fix(task: Task) -> Attempt:
        run.book(receipt("1", call=1))
        with Ledger(place) as other:
            other._recover(run.id, lambda where: [receipt("1", call=1), receipt("2", call=2)])
        run.book(receipt("2", call=2))
        return attempt(receipt("1", call=1), receipt("2", call=2))

    await run.step("fix", fix, TASK)
    assert run.close().cost_usd == Decimal(3)
    assert raw(place, "SELECT call FROM receipt ORDER BY call") == [(1,), (2,)]


@pytest.mark.parametrize("table", ["run", "step", "receipt", "close"])
async def test_rows_cannot_be_changed_or_removed(ledger: Ledger, place: Path | str, table: str) -> None:
    await whole_run(ledger, receipt())
    before = raw(place, f"SELECT * FROM {table}")
    assert before
    key = "task" if table == "run" else "run_id"
    for statement in (f"UPDATE {table} SET {key} = {key}", f"DELETE FROM {table}"):
        with pytest.raises(BROKEN, match="append-only"):
            raw(place, statement)
    assert raw(place, f"SELECT * FROM {table}") == before


async def test_nothing_enters_a_closed_run(ledger: Ledger) -> None:
    run = begin(ledger)
    run.close()
    with pytest.raises(BROKEN, match="closed"):
        await run.step("fix", gives(attempt()), TASK)
    with pytest.raises(BROKEN):
        run.close()


async def test_a_failed_write_leaves_nothing_and_the_ledger_goes_on(ledger: Ledger) -> None:
    run = begin(ledger)
    run.close()
    for _ in range(3):
        with pytest.raises(BROKEN, match="closed"):
            await run.step("fix", gives(attempt(receipt())), TASK)
    assert await whole_run(ledger, receipt("1"))
    assert audit(ledger).receipts == 1


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    def work(number: int) -> str:
        return asyncio.run(whole_run(ledger, receipt(str(number))))

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(work, range(40)))
    assert [ledger.run(run_id).cost_usd for run_id in ids] == [Decimal(number) for number in range(40)]
    assert audit(ledger).problems == ()


def test_many_open_the_same_new_ledger_at_once(place: Path | str) -> None:
    together = threading.Barrier(6)

    def work(number: int) -> str:
        with Ledger(place) as ledger:
            together.wait()
            return asyncio.run(whole_run(ledger, receipt(str(number))))

    with ThreadPoolExecutor(6) as pool:
        ids = set(pool.map(work, range(6)))
    with Ledger(place) as ledger:
        assert {run.id for run in ledger.runs()} == ids
        assert len(ids) == 6


def test_one_interrupted_run_goes_to_one_of_many(place: Path | str) -> None:
    with Ledger(place) as ledger:
        known = begin(ledger).id
    together = threading.Barrier(6)
    ledgers = [Ledger(place) for _ in range(6)]

    def work(ledger: Ledger) -> OpenRun:
        together.wait()
        return begin(ledger)

    with ThreadPoolExecutor(6) as pool:
        runs = list(pool.map(work, ledgers))
    assert [run.id for run in runs].count(known) == 1
    assert len({run.id for run in runs}) == 6
    for ledger in ledgers:
        ledger.close()


# Clocks


class Clock(datetime):
    """One that is set back by a day each time that it is asked."""

    asked = 0

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        cls.asked += 1
        return datetime.now(tz) - timedelta(days=cls.asked)


async def test_a_clock_that_goes_back_changes_no_order(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrout.ledger.store.datetime", Clock)
    Clock.asked = 0
    with Ledger(place) as ledger:
        ids = [await whole_run(ledger, receipt(str(number))) for number in range(3)]
        older, newer = begin(ledger, resume=False).id, begin(ledger, resume=False).id
        assert older > newer  # by their dates
    with Ledger(place) as ledger:
        assert [run.id for run in ledger.runs()] == [newer, older, *ids[::-1]]
        assert begin(ledger).id == newer
        assert [step.name for step in ledger.steps(ids[0])] == ["scout", "scout", "fix", "fix", "check", "check"]
        for run in ledger.runs():
            assert run.finished is None or run.finished >= run.started
        took = [step.seconds for step in ledger.steps(ids[0]) if step.seconds is not None]
        assert len(took) == 3 and all(0 <= seconds < 60 for seconds in took)
        assert audit(ledger).problems == ()


async def test_ids_of_the_same_second_differ(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return AT

    monkeypatch.setattr("scrout.ledger.store.datetime", Stopped)
    drawn = iter(["aaaaaa", "aaaaaa", "aaaaaa", "bbbbbb", "aaaaaa", "cccccc"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(drawn))
    first = begin(ledger, resume=False)
    closed = begin(ledger, resume=False)
    closed.close()
    ids = [first.id, closed.id, begin(ledger, resume=False).id]
    assert ids == [f"20261115-142233-{letter * 6}" for letter in "abc"]


# A server that goes away


def plant_copies(place: Path | str, paid: Sequence[Receipt]) -> None:
    """Make it a ledger of the version before receipts were stored once: its records have copies of them."""
    copies = [receipt.model_dump(mode="json") for receipt in paid]
    ((result,),) = raw(place, "SELECT result FROM step WHERE result_type = 'Attempt'")
    ((run,),) = raw(place, "SELECT run FROM close")
    whole = json.loads(run)
    whole["attempts"][0]["receipts"] = copies
    texts = {"step": json.dumps(json.loads(result) | {"receipts": copies}), "close": json.dumps(whole)}
    updates = {
        "step": f"UPDATE step SET result = '{texts['step']}' WHERE result_type = 'Attempt'",
        "close": f"UPDATE close SET run = '{texts['close']}'",
    }
    for table, update in updates.items():
        name = f"{table}_no_update"
        if isinstance(place, Path):
            ((guard,),) = raw(place, f"SELECT sql FROM sqlite_master WHERE name = '{name}'")
            around = (f"DROP TRIGGER {name}", guard)
        else:
            around = (f"ALTER TABLE {table} DISABLE TRIGGER {name}", f"ALTER TABLE {table} ENABLE TRIGGER {name}")
        for statement in (around[0], update, around[1]):
            raw(place, statement)
    raw(place, "PRAGMA user_version = 4" if isinstance(place, Path) else "DELETE FROM version WHERE number = 2")


async def test_receipts_are_stored_once_also_those_of_an_earlier_version(place: Path | str) -> None:
    paid = [receipt("0.50", call=1), receipt(None, call=2), receipt("0.25", call=3, estimated=True)]
    copies = "SELECT count(*) FROM step, close WHERE result LIKE '%cache_read%' OR run LIKE '%cache_read%'"
    with Ledger(place) as ledger:
        run = begin(ledger)
        await run.step("scout", gives(SCOUTING), TASK)
        unpriced = attempt(*paid).model_copy(update={"cost_usd": None})
        await run.step("fix", gives(unpriced), TASK)
        closed = run.close()
        assert closed.attempts[0].receipts == tuple(paid)
    assert raw(place, copies) == [(0,)]
    plant_copies(place, paid)
    assert raw(place, copies) != [(0,)]
    with Ledger(place) as ledger:
        assert ledger.run(run.id) == ledger.derive(run.id) == closed
        assert audit(ledger).problems == ()
    assert raw(place, copies) == [(0,)]
    for table, column in (("step", "name"), ("close", "outcome")):
        with pytest.raises(BROKEN, match="append-only"):
            raw(place, f"UPDATE {table} SET {column} = 'x'")


def terminate(address: str) -> int:
    """End every connection that a ledger has to the database."""
    with psycopg.connect(address) as db:
        return len(
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'scrout'"
            ).fetchall()
        )


@pytest.mark.postgres
async def test_a_connection_that_is_lost_between_steps_is_made_again_and_the_run_stays_ours(address: str) -> None:
    with Ledger(address) as ledger, Ledger(address) as other:
        run = begin(ledger)
        await run.step("scout", gives(SCOUTING), TASK)
        assert terminate(address) >= 1

        async def fix(task: Task) -> Attempt:
            run.book(receipt("1"))
            terminate(address)
            run.book(receipt("2"))
            terminate(address)
            return attempt(receipt("1"), receipt("2"), receipt("4"))

        await run.step("fix", fix, TASK)
        assert begin(other).id != run.id
        terminate(address)
        assert run.close().cost_usd == Decimal(7)
        assert [(step.name, step.status) for step in ledger.steps(run.id)] == [
            ("scout", "started"),
            ("scout", "done"),
            ("fix", "started"),
            ("fix", "done"),
        ]
        assert audit(ledger).problems == ()


@pytest.mark.postgres
async def test_a_run_that_somebody_else_took_up_while_the_connection_was_lost_is_his(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(address) as ledger, Ledger(address) as other:
        run = begin(ledger)
        terminate(address)
        assert begin(other).id == run.id
        with pytest.raises(LedgerError, match="is being continued by another process"):
            await run.step("fix", gives(attempt()), TASK)


@pytest.mark.parametrize("after", ["BEGIN", "INSERT INTO receipt", "COMMIT"])
@pytest.mark.postgres
async def test_a_transaction_that_is_cut_off_anywhere_is_in_the_ledger_once(address: str, after: str) -> None:
    """The connection goes through a wire that breaks just behind one statement: it reaches the server, its answer
    does not come back."""
    with Wire(address) as wire, Ledger(wire.address) as ledger:
        run = begin(ledger)

        async def fix(task: Task) -> Attempt:
            for number in range(6):
                if number % 2:
                    wire.cut_behind(after)
                run.book(receipt("1"))
            return attempt(*[receipt("1")] * 6)

        await run.step("fix", fix, TASK)
        assert wire.cuts == 3
        wire.cut_behind(after)
        assert await whole_run(ledger, receipt("10"))
        wire.cut_behind("COMMIT")
        assert run.close().cost_usd == Decimal(6)
        assert wire.cuts == 5
    with Ledger(address) as ledger:
        assert [len(ledger.steps(run_id)) for run_id in ledger.run_ids()] == [2, 6]
        report = audit(ledger)
        assert (report.receipts, report.problems) == (7, ())


class Wire:
    """A socket in front of the server's, which can be told to break."""

    def __init__(self, address: str) -> None:
        name, _, folder = address.removeprefix("postgresql://scrout@/").partition("?host=")
        self._server = f"{folder}/.s.PGSQL.5432"
        self._folder = tempfile.TemporaryDirectory(prefix="scrout-wire-")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{self._folder.name}/.s.PGSQL.5432")
        self._listening.listen()
        self.address = f"postgresql://scrout@/{name}?host={self._folder.name}"
        self.cuts = 0
        self._behind = b""

    def cut_behind(self, statement: str) -> None:
        self._behind = statement.encode()

    def __enter__(self) -> Wire:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._folder.cleanup()

    def close(self) -> None:
        """Let nobody in any more."""
        Path(self._folder.name, ".s.PGSQL.5432").unlink(missing_ok=True)
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            last = False
            while True:
                ready, _, _ = select.select([client, server], [], [], 30)
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    if end is client:
                        server.sendall(data)
                        last = bool(self._behind) and self._behind in data
                    elif last:  # the server has answered, and so has done it
                        self.cuts, self._behind = self.cuts + 1, b""
                        return
                    else:
                        client.sendall(data)


@pytest.mark.postgres
async def test_a_server_that_stays_away_is_an_error_and_nothing_is_lost(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrout.ledger.postgres.WAITS_S", (0.01, 0.1))
    with Wire(address) as wire:
        ledger = Ledger(wire.address)
        run = begin(ledger)

        async def fix(task: Task) -> Attempt:
            run.book(receipt("1"))
            wire.close()
            terminate(address)
            run.book(receipt("2"))
            return attempt(receipt("1"), receipt("2"))

        with pytest.raises(LedgerError, match="finished steps are kept"):
            await run.step("fix", fix, TASK)
    with Ledger(address) as ledger:
        again = begin(ledger)
        assert (again.id, ledger.run(again.id).cost_usd) == (run.id, Decimal(1))


@pytest.mark.postgres
def test_passwords_and_options_are_in_no_message(address: str) -> None:
    folder = address.partition("host=")[2]
    wrong = [
        f"postgresql://scrout:hunter2hunter2@/absent?host={folder}",
        "postgresql://scrout:hunter2hunter2@localhost:1/x",
        "postgresql://scrout:hunter2%zz@localhost/x",
        "postgresql://scrout@localhost:1/x?password=hunter2hunter2",
        "postgresql://scrout:hunter2hunter2@[::1/x",
    ]
    for url in wrong:
        with Ledger(url) as ledger, pytest.raises(LedgerError) as told:
            ledger.runs()
        assert "hunter2" not in str(told.value)
        assert "Check that the server runs" in str(told.value)
        assert told.value.__cause__ is None and told.value.__suppress_context__
        assert "hunter2" not in repr(load(None, [f"ledger.url={url}"]))
        assert "hunter2" not in load(None, [f"ledger.url={url}"]).model_dump_json()


@pytest.mark.postgres
async def test_a_database_of_another_program_or_a_newer_scrout_is_refused_and_left_alone(address: str) -> None:
    with psycopg.connect(address) as db:
        db.execute("CREATE SCHEMA scrout")
        db.execute("CREATE TABLE scrout.wares (id INTEGER)")
    with Ledger(address) as ledger, pytest.raises(LedgerError, match="tables of another program"):
        ledger.runs()
    with psycopg.connect(address) as db:
        db.execute("DROP SCHEMA scrout CASCADE")
        db.execute("CREATE TABLE IF NOT EXISTS public.run (id INTEGER)")
    with Ledger(address) as ledger:
        await whole_run(ledger)
    with psycopg.connect(address) as db:
        db.execute("INSERT INTO scrout.version (number) VALUES (99)")
    with Ledger(address) as ledger, pytest.raises(LedgerError, match=r"newer scrout.*Upgrade scrout"):
        ledger.runs()


def test_a_missing_driver_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from scrout.ledger.store import Ledger\n"
        "from scrout.base import LedgerError\n"
        "try: Ledger('postgresql://localhost/x').runs()\n"
        "except LedgerError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'scrout[postgres]'" in done.stdout
