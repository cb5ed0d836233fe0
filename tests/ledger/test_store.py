from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import LedgerError, ModelError
from scrout.handoff import Handoff
from scrout.ledger.audit import audit
from scrout.ledger.store import Ledger, OpenRun, Result, outcome_of
from scrout.money import Receipt, Usage, known_usd, total_usd
from scrout.records import Attempt, Check, CheckOutcome, RunOutcome, Scouting, State, Stop
from scrout.task import Task

TASK = Task(id="larder-1", text="The larder is empty.", repo=Path("/home/me/larder"), base_commit="c" * 40)
SCOUTING = Scouting(handoff=Handoff(), text="# Handoff", seconds=0.25)
KEY = "sk-proj-A1b2C3d4E5f6G7h8I9j0"
R = TypeVar("R", bound=Result)
AT = datetime(2026, 11, 15, 14, 22, 33, 123456, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as ledger:
        yield ledger


def begin(ledger: Ledger, task: Task = TASK, digest: str = "settings", *, resume: bool = True) -> OpenRun:
    return ledger.open(task, digest, sandbox="bubblewrap", environment="none", resume=resume)


def attempt(
    fixer: str = "a", *, patch: str = "p", stop: Stop = "finished", costs: tuple[str | None, ...] = ()
) -> Attempt:
    receipts = tuple(
        Receipt(
            component="fix",
            fixer=fixer,
            model="m",
            usage=Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3, output_tokens=4),
            cost_usd=None if cost is None else Decimal(cost),
            at=AT,
        )
        for cost in costs
    )
    known = [receipt.cost_usd for receipt in receipts if receipt.cost_usd is not None]
    total = sum(known, Decimal(0)) if len(known) == len(receipts) else None
    return Attempt(fixer=fixer, patch=patch, stop=stop, detail="", seconds=1.5, cost_usd=total, receipts=receipts)


def check(outcome: CheckOutcome = "passed") -> Check:
    return Check(outcome=outcome, applies=True, reproduction="passes", tests="pass")


def gives(result: R, calls: list[str] | None = None) -> Callable[..., Awaitable[R]]:
    async def stage(*args: object) -> R:
        if calls is not None:
            calls.append(type(result).__name__)
        return result

    return stage


def raises(error: BaseException) -> Callable[..., Awaitable[Result]]:
    async def stage(*args: object) -> Result:
        raise error

    return stage


def raw(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(statement).fetchall()
        db.commit()
    return rows


async def test_a_run_holds_what_its_steps_gave_and_cost(ledger: Ledger) -> None:
    run = begin(ledger)
    await run.step("scout", gives(SCOUTING), TASK)
    await run.step("fix", gives(attempt("a", costs=("0.10", "0.20"))), TASK, "a")
    await run.step("check", gives(check("failed")), TASK, "a")
    await run.step("fix", gives(attempt("b", costs=("1",))), TASK, "b")
    await run.step("check", gives(check()), TASK, "b")
    closed = run.close()
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", closed.id)
    assert closed.task == TASK
    assert closed.scouting == SCOUTING
    assert [tried.fixer for tried in closed.attempts] == ["a", "b"]
    assert [checked.outcome for checked in closed.checks] == ["failed", "passed"]
    assert closed.outcome == "solved"
    assert closed.cost_usd == Decimal("1.30")
    assert closed.finished is not None
    assert closed.finished >= closed.started
    assert ledger.run(closed.id) == ledger.derive(closed.id) == closed


async def test_a_receipt_of_unknown_cost_makes_the_run_unknown(ledger: Ledger) -> None:
    run = begin(ledger)
    await run.step("fix", gives(attempt(costs=("0.10", None))), TASK)
    assert run.close().cost_usd is None


async def test_an_interrupted_run_goes_on_and_finished_steps_are_not_repeated(path: Path) -> None:
    calls: list[str] = []
    with Ledger(path) as ledger:
        first = begin(ledger)
        await first.step("scout", gives(SCOUTING, calls), TASK)
        with pytest.raises(ModelError):
            await first.step("fix", raises(ModelError("down")), TASK, SCOUTING)
    with Ledger(path) as ledger:
        again = begin(ledger)
        assert again.id == first.id
        scouting = await again.step("scout", gives(SCOUTING, calls), TASK)
        await again.step("fix", gives(attempt(), calls), TASK, scouting)
        closed = again.close()
        assert calls == ["Scouting", "Attempt"]
        assert len(closed.attempts) == 1
        assert [(step.name, step.status) for step in ledger.steps(first.id)] == [
            ("scout", "started"),
            ("scout", "done"),
            ("fix", "started"),
            ("fix", "failed"),
            ("fix", "started"),
            ("fix", "done"),
        ]


async def test_another_amount_of_dollars_is_another_step(ledger: Ledger) -> None:
    run = begin(ledger)
    calls: list[str] = []
    for dollars in ("2.00", "2.00", "1.50"):
        await run.step("fix", gives(attempt(), calls), TASK, Decimal(dollars))
    assert calls == ["Attempt", "Attempt"]


async def test_other_inputs_another_name_or_other_arguments_are_other_steps(ledger: Ledger) -> None:
    calls: list[str] = []
    run = begin(ledger)
    inputs = [("fix", ("a", "b")), ("fix", ("ab",)), ("fix", ("a", "b", None)), ("fix", ()), ("check", ("a", "b"))]
    for name, args in inputs + inputs:
        await run.step(name, gives(attempt(), calls), *args)
    assert len(calls) == len(inputs)


@pytest.mark.parametrize(
    ("task", "digest", "resume"),
    [
        (TASK, "other settings", True),
        (TASK.model_copy(update={"base_commit": "d" * 40}), "settings", True),
        (TASK.model_copy(update={"id": "larder-2"}), "settings", True),
        (TASK, "settings", False),
    ],
)
async def test_a_run_of_another_making_is_not_continued(path: Path, task: Task, digest: str, resume: bool) -> None:
    with Ledger(path) as ledger:
        first = begin(ledger)
    with Ledger(path) as ledger:
        assert begin(ledger, task, digest, resume=resume).id != first.id


async def test_the_newest_unclosed_run_is_continued_and_a_closed_one_never(path: Path) -> None:
    with Ledger(path) as ledger:
        older, newer = begin(ledger, resume=False), begin(ledger, resume=False)
        begin(ledger, resume=False).close()
    with Ledger(path) as ledger:
        first, second, third = begin(ledger), begin(ledger), begin(ledger)
        assert first.id == newer.id
        assert second.id == older.id  # the newer one is being worked on
        assert third.id not in {older.id, newer.id}


async def test_a_run_that_is_being_worked_on_is_left_to_its_worker(path: Path) -> None:
    with Ledger(path) as mine, Ledger(path) as yours:
        run = begin(mine)
        other = begin(yours)
        assert other.id != run.id
        with pytest.raises(ModelError):
            await run.step("fix", raises(ModelError("down")), TASK)
        taken = begin(yours)
        assert taken.id == run.id
        with pytest.raises(LedgerError, match="is being continued by another process"):
            await run.step("fix", gives(attempt()), TASK)
        with pytest.raises(LedgerError, match="is being continued by another process"):
            run.close()


@pytest.mark.parametrize("error", [ModelError(f"401 for {KEY}"), KeyboardInterrupt(), RuntimeError("half \udce9")])
async def test_a_step_that_raises_is_recorded_and_the_error_goes_on(ledger: Ledger, error: BaseException) -> None:
    run = begin(ledger)
    with pytest.raises(type(error)) as caught:
        await run.step("fix", raises(error), TASK)
    assert caught.value is error
    started, failed = ledger.steps(run.id)
    assert (started.status, failed.status) == ("started", "failed")
    assert failed.error == f"{type(error).__name__}: {str(error).replace(KEY, '[secret]')}"
    assert run.close("infrastructure").outcome == "infrastructure"


async def test_a_cancelled_step_is_recorded(ledger: Ledger) -> None:
    run = begin(ledger)
    started = asyncio.Event()

    async def hang(task: Task) -> Attempt:
        started.set()
        await asyncio.sleep(60)
        return attempt()

    step = asyncio.create_task(run.step("fix", hang, TASK))
    await started.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert ledger.steps(run.id)[-1].error.startswith("CancelledError")


async def test_what_a_step_books_is_stored_at_once_and_only_once(path: Path) -> None:
    cut_off, whole = attempt(costs=("0.10", "0.20")), attempt(costs=("1", "2", "4"))

    async def interrupted(task: Task) -> Attempt:
        for receipt in cut_off.receipts:
            run.book(receipt)
        with Ledger(path) as other:  # as after a kill: only the start of the step is there
            assert other.run(run.id).cost_usd == Decimal("0.30")
            assert other.steps(run.id)[-1].receipts == cut_off.receipts
            assert audit(other).problems == ()
        raise KeyboardInterrupt

    async def finished(task: Task) -> Attempt:
        for receipt in whole.receipts[:2]:
            run.book(receipt)
        return whole

    with Ledger(path) as ledger:
        run = begin(ledger)
        with pytest.raises(KeyboardInterrupt):
            await run.step("fix", interrupted, TASK)
        assert (ledger.run(run.id).outcome, ledger.run(run.id).cost_usd) == ("interrupted", Decimal("0.30"))
        assert audit(ledger).problems == ()
        await run.step("fix", finished, TASK)
        closed = run.close()
        assert closed.attempts == (whole,)
        assert closed.cost_usd == ledger.derive(run.id).cost_usd == Decimal("7.30")
        assert closed.lost_usd == run.lost_usd("fix") == Decimal("0.30")
        assert ledger.paid_usd(run.id) == total_usd(one.cost_usd for one in ledger.receipts(run.id)) == Decimal("7.30")
        assert [(step.status, len(step.receipts)) for step in ledger.steps(run.id)] == [
            ("started", 0),
            ("failed", 2),
            ("started", 0),
            ("done", 3),
        ]
        report = audit(ledger)
        assert (report.receipts, report.problems) == (5, ())
    assert raw(path, "SELECT attempt FROM receipt ORDER BY id") == [(1,), (1,), (2,), (2,), (2,)]


async def test_a_receipt_that_cannot_be_stored_at_once_is_stored_with_the_steps_end(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrout.ledger.sqlite.BUSY_TIMEOUT_S", 0)
    paid = attempt(costs=("1", "2"))

    async def fix(task: Task) -> Attempt:
        with closing(sqlite3.connect(path, isolation_level=None)) as busy:
            busy.execute("BEGIN IMMEDIATE")
            run.book(paid.receipts[0])
        run.book(paid.receipts[1])
        raise ModelError("down")

    run = begin(ledger)
    with pytest.raises(ModelError):
        await run.step("fix", fix, TASK)
    assert ledger.steps(run.id)[-1].receipts == paid.receipts


async def test_a_receipt_outside_of_a_step_is_a_bug(ledger: Ledger) -> None:
    with pytest.raises(RuntimeError, match="no step"):
        begin(ledger).book(attempt(costs=("1",)).receipts[0])


async def test_a_result_of_a_kind_the_ledger_does_not_know_is_a_bug(ledger: Ledger) -> None:
    run = begin(ledger)

    async def odd(task: Task) -> State:
        return State(space="recon", vector=())

    with pytest.raises(TypeError, match="State"):
        await run.step("scout", odd, TASK)
    assert ledger.steps(run.id)[-1].status == "failed"


async def test_no_step_enters_a_closed_run(ledger: Ledger) -> None:
    run = begin(ledger)
    run.close()
    with pytest.raises(sqlite3.IntegrityError, match="closed"):
        await run.step("fix", gives(attempt()), TASK)
    with pytest.raises(sqlite3.IntegrityError):
        run.close()


async def test_text_that_is_not_unicode_survives(path: Path) -> None:
    odd = attempt(patch="-caf\udce9\n+café\0\n")
    with Ledger(path) as ledger:
        await begin(ledger).step("fix", gives(odd), TASK)
    with Ledger(path) as ledger:
        run = begin(ledger)
        assert await run.step("fix", raises(AssertionError("repeated")), TASK) == odd
        assert ledger.run(run.close().id).patch == odd.patch


async def test_secrets_are_not_stored_yet_the_submission_is_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANTRY_TOKEN", "open-sesame-now")
    task = TASK.model_copy(update={"text": f"my key is {KEY}"})
    patch = f"+KEY = {KEY!r} # open-sesame-now"
    with Ledger(path) as ledger:
        run = begin(ledger, task)
        assert (await run.step("fix", gives(attempt(patch=patch, costs=("1",))), task)).patch == patch
        await run.step("check", gives(check()), task)
        stored = ledger.run(run.id)
        assert stored.patch == "+KEY = '[secret]' # [secret]"
        assert stored.task.text == "my key is [secret]"
        closed = run.close()
        assert closed.patch == patch
        assert closed.task == task
        assert audit(ledger).problems == ()
    on_disk = path.read_bytes()  # noqa: ASYNC240
    assert b"[secret]" in on_disk
    assert KEY.encode() not in on_disk
    assert b"open-sesame" not in on_disk


async def test_a_result_that_lost_a_secret_is_made_again_and_both_are_paid_for(path: Path) -> None:
    holed = attempt(patch=f"+{KEY}", costs=("0.50",))
    with Ledger(path) as ledger:
        run = begin(ledger)
        await run.step("fix", gives(holed), TASK)
        assert run.lost_usd("fix") == 0
        await run.step("check", gives(check("failed")), TASK, holed)
    with Ledger(path) as ledger:
        calls: list[str] = []
        run = begin(ledger)
        assert run.lost_usd("fix") == Decimal("0.50"), "it cannot be taken over, so the next try has that much less"
        await run.step("fix", gives(holed, calls), TASK)
        await run.step("fix", gives(holed, calls), TASK)
        assert run.lost_usd("fix") == Decimal("0.50")
        await run.step("check", gives(check("passed")), TASK, "again")
        closed = run.close()
        assert calls == ["Attempt"]
        assert closed.patch == f"+{KEY}"
        assert len(closed.attempts) == len(closed.checks) == 1
        assert closed.outcome == "solved"
        assert closed.cost_usd == Decimal("1.00")
        assert audit(ledger).problems == ()


async def test_runs_are_newest_first_and_unfinished_ones_are_interrupted(ledger: Ledger) -> None:
    ids = [begin(ledger, resume=False).close().id for _ in range(3)]
    unfinished = begin(ledger, resume=False)
    await unfinished.step("scout", gives(SCOUTING), TASK)
    newest, *rest = ledger.runs()
    assert (newest.id, newest.outcome, newest.finished) == (unfinished.id, "interrupted", None)
    assert (newest.scouting, newest.cost_usd) == (SCOUTING, SCOUTING.cost_usd)
    assert [run.id for run in rest] == ids[::-1]
    assert [run.id for run in ledger.runs(limit=2)] == [unfinished.id, ids[-1]]


def test_a_run_is_found_by_the_beginning_of_its_id(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="no run yet"):
        ledger.run("2026")
    first = begin(ledger, resume=False).id
    assert ledger.run(first[:4]).id == first
    second = begin(ledger, resume=False).id
    assert ledger.run(second).id == second
    with pytest.raises(LedgerError, match=rf"several runs: {second}, {first}"):
        ledger.run("2")
    for unknown in ("x", "%", first + "0"):
        with pytest.raises(LedgerError, match=rf"{unknown}.*newest are: {second}, {first}"):
            ledger.run(unknown)


@pytest.mark.parametrize(
    ("attempts", "checks", "outcome"),
    [
        ([], [], "not_solved"),
        ([attempt()], [check("passed")], "solved"),
        ([attempt(stop="cap_usd")], [check("passed")], "solved"),
        ([attempt()], [check("unverified")], "unverified"),
        ([attempt(patch="")], [check("unverified")], "not_solved"),
        ([attempt(patch="")], [check("no_patch")], "not_solved"),
        ([attempt()], [check("failed")], "not_solved"),
        ([attempt(stop="endpoint", patch="")], [check("no_patch")], "infrastructure"),
        ([attempt(stop="endpoint")], [check("passed")], "solved"),
        ([attempt(stop="endpoint")], [check("unverified")], "unverified"),
        ([attempt(stop="endpoint")], [check("failed")], "not_solved"),
        ([attempt(stop="endpoint", patch=""), attempt()], [check("no_patch"), check("passed")], "solved"),
        ([attempt(), attempt(stop="endpoint", patch="")], [check("failed"), check("no_patch")], "infrastructure"),
        ([attempt(), attempt()], [check("passed")], "not_solved"),
    ],
)
def test_what_a_run_came_to(attempts: list[Attempt], checks: list[Check], outcome: RunOutcome) -> None:
    assert outcome_of(attempts, checks) == outcome


amounts = st.none() | st.decimals(min_value=0, max_value=500, places=10)


@given(costs=st.lists(st.lists(amounts, max_size=5), max_size=4), scouting=st.decimals(0, 500, places=10))
def test_receipts_sum_to_the_run(costs: list[list[Decimal | None]], scouting: Decimal) -> None:
    async def record(ledger: Ledger) -> None:
        run = begin(ledger)
        paid = attempt(costs=(str(scouting),)).receipts
        await run.step("scout", gives(SCOUTING.model_copy(update={"cost_usd": scouting, "receipts": paid})), TASK)
        for number, group in enumerate(costs):
            texts = tuple(None if cost is None else str(cost) for cost in group)
            await run.step("fix", gives(attempt(costs=texts)), TASK, str(number))
        closed = run.close()
        every = [scouting, *(cost for group in costs for cost in group)]
        known = [cost for cost in every if cost is not None]
        expected = sum(known, Decimal(0)) if len(known) == len(every) else None
        assert closed.cost_usd == ledger.run(closed.id).cost_usd == expected
        report = audit(ledger)
        assert report.problems == ()
        assert report.receipts == 1 + sum(len(group) for group in costs)
        booked = [receipt.cost_usd for receipt in ledger.receipts(closed.id)]
        assert (total_usd(booked), known_usd(booked)) == (expected, sum(known, Decimal(0)))
        assert ledger.paid_usd(closed.id) == known_usd(booked)

    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.db") as ledger:
        asyncio.run(record(ledger))


async def test_rows_can_be_added_but_not_changed_removed_or_replaced(ledger: Ledger, path: Path) -> None:
    run = begin(ledger)
    await run.step("fix", gives(attempt(costs=("1",))), TASK)
    for table in ("run", "step", "receipt", "close"):
        if table == "close":
            run.close()
        before = raw(path, f"SELECT * FROM {table}")
        assert before
        for statement in (
            f"UPDATE {table} SET rowid = rowid + 100",
            f"DELETE FROM {table}",
            f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw(path, statement)
        assert raw(path, f"SELECT * FROM {table}") == before


async def test_receipts_are_plain_rows_with_exact_amounts(ledger: Ledger, path: Path) -> None:
    run = begin(ledger)
    await run.step("fix", gives(attempt("a", costs=("0.1000000001",))), TASK, "a")
    await run.step("fix", gives(attempt("b", costs=(None,))), TASK, "b")
    assert raw(
        path,
        "SELECT attempt, fixer, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_usd"
        " FROM receipt ORDER BY id",
    ) == [(1, "a", 1, 2, 3, 4, "0.1000000001"), (2, "b", 1, 2, 3, 4, None)]


def test_file_and_folder_are_the_users_alone(ledger: Ledger, path: Path) -> None:
    begin(ledger)
    assert raw(path, "PRAGMA journal_mode") == [("wal",)]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600, "ledger.db-locks": 0o700}


def test_a_damaged_file_is_an_error_that_names_it(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be read as the header of one" * 20)
    with Ledger(path) as ledger, pytest.raises(LedgerError, match=rf"{path}.*Move it away"):
        ledger.runs()


def test_a_file_damaged_further_in_is_an_error_that_names_it(path: Path) -> None:
    with Ledger(path) as ledger:
        for _ in range(50):
            begin(ledger, resume=False).close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with Ledger(path) as ledger, pytest.raises(LedgerError, match=rf"{path}.*damaged"):
        ledger.runs()


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "file" / "ledger.db", tmp_path / "folder", Path("/proc/scrout/ledger.db")):
        with Ledger(place) as ledger, pytest.raises(LedgerError, match=rf"{place}.*set ledger.path"):
            ledger.runs()


CHILD = """
import asyncio, os, resource, sys, time
from pathlib import Path
from decimal import Decimal
from scrout.base import LedgerError
from scrout.handoff import Handoff
from scrout.ledger.store import Ledger
from scrout.records import Attempt, Scouting
from scrout.task import Task

task = Task.model_validate_json(sys.argv[3])

async def scout(task):
    return Scouting(handoff=Handoff(), text="from the child", seconds=0.25)

async def hang(task, scouting):
    print("in flight", flush=True)
    await asyncio.sleep(60)

async def big(task, number):
    return Attempt(fixer="a", patch="x" * 100_000, stop="finished", detail="", seconds=1)

async def main(how, ledger):
    if how == "hang":
        run = ledger.open(task, "settings", sandbox="bubblewrap", environment="none")
        scouting = await run.step("scout", scout, task)
        await run.step("fix", hang, task, scouting)
    elif how == "full":
        run = ledger.open(task, "settings", sandbox="bubblewrap", environment="none")
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
        try:
            for number in range(20):
                await run.step("fix", big, task, str(number))
        except LedgerError as error:
            print(error)
    else:
        for _ in range(10):
            run = ledger.open(task, "settings", sandbox="bubblewrap", environment="none", resume=False)
            await run.step("scout", scout, task)
            await run.step("fix", big, task, "a")
            run.close()

with Ledger(Path(sys.argv[2])) as ledger:
    asyncio.run(main(sys.argv[1], ledger))
"""


def child(how: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, how, str(path), TASK.model_dump_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_a_killed_process_loses_only_the_step_in_flight(path: Path) -> None:
    with child("hang", path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in flight\n"
        with Ledger(path) as ledger:
            (alive,) = ledger.runs()
            assert begin(ledger).id != alive.id  # the child still works on it
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    with Ledger(path) as ledger:
        killed = ledger.run(alive.id)
        assert killed.outcome == "interrupted"
        assert killed.scouting is not None
        assert killed.scouting.text == "from the child"
        begin(ledger).close()  # the one made meanwhile is the newest
        run = begin(ledger)
        assert run.id == alive.id
        calls: list[str] = []
        scouting = await run.step("scout", gives(SCOUTING, calls), TASK)
        assert scouting.text == "from the child"
        await run.step("fix", gives(attempt(costs=("1",)), calls), TASK, scouting)
        assert calls == ["Attempt"]
        assert run.close().cost_usd == Decimal(1)
        assert [step.status for step in ledger.steps(run.id) if step.name == "fix"] == ["started", "started", "done"]
        assert audit(ledger).problems == ()


def test_a_full_disk_is_an_error_and_what_was_finished_stays(path: Path) -> None:
    with child("full", path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert str(path) in out
    assert "finished steps are kept" in out
    with Ledger(path) as ledger:
        assert 1 <= len(ledger.runs()[0].attempts) < 20
        assert audit(ledger).problems == ()


def test_processes_write_at_the_same_time(path: Path) -> None:
    processes = [child("many", path) for _ in range(3)]
    for process in processes:
        with process:
            _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
    with Ledger(path) as ledger:
        runs = ledger.runs(limit=100)
        assert len({run.id for run in runs}) == 30
        assert all(len(run.attempts) == 1 and run.scouting for run in runs)
        assert audit(ledger).problems == ()


def test_the_first_users_of_a_new_ledger_do_not_trip_over_each_other(tmp_path: Path) -> None:
    def use(path: Path) -> int:
        with Ledger(path) as ledger:
            together.wait()
            return len(ledger.runs())

    together = Barrier(6)
    with ThreadPoolExecutor(6) as pool:
        for number in range(40):
            assert list(pool.map(use, [tmp_path / f"{number}.db"] * 6)) == [0] * 6


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    def work(number: int) -> str:
        run = begin(ledger, resume=False)
        asyncio.run(run.step("fix", gives(attempt(costs=(str(number),))), TASK))
        return run.close().id

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(work, range(40)))
    assert [ledger.run(run_id).cost_usd for run_id in ids] == [Decimal(number) for number in range(40)]
    assert audit(ledger).problems == ()


async def test_a_run_of_a_ledger_from_elsewhere_names_no_file(path: Path, tmp_path: Path) -> None:
    """Locks and folders of attempts are called like their run, and a lock of a closed run is removed."""
    with Ledger(path) as ledger:
        run = begin(ledger)
        with pytest.raises(KeyboardInterrupt):
            await run.step("scout", raises(KeyboardInterrupt()), TASK)
    victim = tmp_path / "victim"
    with closing(sqlite3.connect(path)) as books, books:
        for (name,) in books.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            books.execute(f"DROP TRIGGER {name}")
        books.execute("DELETE FROM step WHERE status <> 'started'")
        for table, key in (("run", "id"), ("step", "run_id"), ("unclosed", "run_id")):
            books.execute(f"UPDATE {table} SET {key} = ?", (str(victim),))
    with Ledger(path) as ledger:
        for work in (lambda: ledger.recover(lambda place: ()), lambda: begin(ledger)):
            with pytest.raises(LedgerError, match="which scrout did not start"):
                work()
    assert not victim.exists()
