from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.config.settings import RetentionSettings
from scrout.ledger.audit import audit
from scrout.ledger.retention import Pruning, prune
from scrout.ledger.store import Ledger, OpenRun
from scrout.money import Price, Receipt, Usage
from scrout.records import Attempt
from scrout.task import Task
from scrout.trajectory import (
    FILE_NAME,
    BilledCall,
    ModelRequest,
    ModelResponse,
    RefusedCall,
    ReservedCall,
    Trajectory,
    TrajectoryHeader,
    receipts,
)

TASK = Task(id="larder-1", text="The larder is empty.", repo=Path("/home/me/larder"), base_commit="c" * 40)
AT = datetime(2026, 11, 15, 14, 22, 33, tzinfo=UTC)
LATER = timedelta(days=40)
PRICE = Price(input=Decimal(3), output=Decimal(15))

Prune = Callable[..., Pruning]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


@pytest.fixture
def pruned(ledger: Ledger, tmp_path: Path) -> Prune:
    """pruned(after, dry_run=False, **settings): what is done with these settings, so much later."""

    def run(after: timedelta = LATER, *, dry_run: bool = False, **settings: object) -> Pruning:
        kept = RetentionSettings.model_validate(settings)
        folders = [tmp_path / "attempts"]
        return prune(ledger, folders, tmp_path / "traces", kept, dry_run=dry_run, now=datetime.now(UTC) + after)

    return run


def begin(ledger: Ledger) -> OpenRun:
    return ledger.open(TASK, "settings", sandbox="bubblewrap", environment="none", resume=False)


def paid(call: int) -> Receipt:
    usage = Usage(input_tokens=10, output_tokens=10)
    return Receipt(component="fix", fixer="a", model="m", usage=usage, cost_usd=Decimal("0.1"), at=AT, call=call)


def trajectory(folder: Path) -> Path:
    """One with an answered call, a refused one and one that nobody saw the end of."""
    file = Trajectory(folder / FILE_NAME)
    terms = {"component": "fix", "fixer": "a", "model": "m", "endpoint": "https://localhost/v1", "price": PRICE}
    file.write(TrajectoryHeader.model_validate(terms | {"cap_usd": 1, "cap_calls": 9, "rule": "hard"}))
    asked = ModelRequest(new=({"role": "user", "content": "the larder's secret door " * 50},), rest={"model": "m"})
    for call in (1, 2, 3):
        worst = Usage(input_tokens=100, output_tokens=100)
        file.write(ReservedCall(call=call, api="chat", held_usd=Decimal("0.2"), worst=worst))
    said = ModelResponse(text="behind the shelf", reasoning="think", finish="stop")
    file.write(BilledCall(call=1, api="chat", status=200, asked=asked, said=said, receipt=paid(1), seconds=1))
    file.write(RefusedCall(call=2, api="chat", status=400, asked=asked, error="no such shelf", seconds=1))
    file.close()
    (folder / "agent.log").write_text("behind the shelf")
    return folder / FILE_NAME


async def attempted(ledger: Ledger, attempts: Path) -> tuple[str, Path]:
    """A run with one attempt, and the file of its trajectory."""
    run = begin(ledger)
    files: list[Path] = []

    async def fix(task: Task) -> Attempt:
        files.append(trajectory(attempts / run.place))
        cost = Decimal("0.1")
        return Attempt(fixer="a", patch="p", stop="finished", detail="", seconds=1, cost_usd=cost, receipts=(paid(1),))

    await run.step("fix", fix, TASK)
    return run.close().id, files[0]


def trace(folder: Path, age: timedelta) -> Path:
    folder.mkdir(parents=True)
    (folder / "trace.jsonl").write_text("the larder's secret door\n")
    then = time.time() - age.total_seconds()
    for path in (folder / "trace.jsonl", folder):
        os.utime(path, (then, then))
    return folder


async def test_without_a_setting_everything_is_kept(ledger: Ledger, tmp_path: Path, pruned: Prune) -> None:
    _, file = await attempted(ledger, tmp_path / "attempts")
    scouting = trace(tmp_path / "traces" / "t-1", timedelta(days=900))
    before = file.read_bytes()
    done = pruned()
    assert (done.pruned, done.kept, done.left_alone) == ((), 2, 0)
    assert file.read_bytes() == before and scouting.exists()


async def test_what_is_too_old_is_removed_and_the_ledger_keeps_its_receipts(
    ledger: Ledger, tmp_path: Path, pruned: Prune
) -> None:
    run_id, file = await attempted(ledger, tmp_path / "attempts")
    old, new = trace(tmp_path / "traces" / "old", timedelta(days=3)), trace(tmp_path / "traces" / "new", timedelta())
    before = ledger.run(run_id)
    assert [one.folder for one in pruned(timedelta(days=1), days=2).pruned] == [old]
    assert file.exists() and new.exists() and not old.exists()
    (one,) = pruned(timedelta(days=2.5), days=2, dry_run=True).pruned[:1]
    assert (one.run, one.what, one.why) == (run_id, "removed", "days") and file.exists()
    pruned(days=2)
    assert not file.parents[1].exists() and not new.exists()
    assert ledger.run(run_id) == before
    assert audit(ledger).problems == ()
    assert pruned(days=2).pruned == ()


async def test_of_too_much_the_oldest_go(ledger: Ledger, tmp_path: Path, pruned: Prune) -> None:
    files = []
    for _ in range(3):
        files.append((await attempted(ledger, tmp_path / "attempts"))[1])
    each = sum(file.stat().st_size for file in files[0].parent.iterdir())
    assert pruned(max_gb=each * 3.1 / 1e9).pruned == ()
    done = pruned(max_gb=each * 1.1 / 1e9)
    assert [one.why for one in done.pruned] == ["max_gb", "max_gb"]
    assert [file.exists() for file in files] == [False, False, True]
    assert (done.kept, done.kept_bytes) == (1, each)


async def test_text_is_cut_out_and_what_was_paid_stays(ledger: Ledger, tmp_path: Path, pruned: Prune) -> None:
    run_id, file = await attempted(ledger, tmp_path / "attempts")
    scouting = trace(tmp_path / "traces" / "t-1", timedelta(days=3))
    before, booked = file.stat().st_size, receipts(file)
    assert [receipt.estimated for receipt in booked] == [False, True]
    untouched = file.read_bytes()
    assert pruned(text=False, dry_run=True).pruned
    assert file.read_bytes() == untouched and scouting.exists()
    done = pruned(text=False)
    assert {(one.run, one.what, one.why) for one in done.pruned} == {
        (run_id, "redacted", "text"),
        ("", "removed", "text"),
    }
    for words in (b"secret door", b"behind the shelf", b"no such shelf", b"think"):
        assert words not in file.read_bytes()
    assert receipts(file) == booked
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == [FILE_NAME]
    (redacted,) = (one for one in done.pruned if one.what == "redacted")
    assert redacted.freed_bytes == before + len("behind the shelf") - file.stat().st_size
    assert all(json.loads(line) for line in file.read_text().splitlines())
    assert pruned(text=False).pruned == ()
    assert audit(ledger).problems == ()


async def test_a_run_in_progress_and_one_of_another_ledger_are_not_touched(
    ledger: Ledger, tmp_path: Path, pruned: Prune
) -> None:
    run = begin(ledger)
    started, go_on = asyncio.Event(), asyncio.Event()
    mine = tmp_path / "attempts" / run.id

    async def fix(task: Task) -> Attempt:
        trajectory(tmp_path / "attempts" / run.place)
        started.set()
        await go_on.wait()
        return Attempt(fixer="a", patch="p", stop="finished", detail="", seconds=1)

    step = asyncio.ensure_future(run.step("fix", fix, TASK))
    await started.wait()
    with Ledger(tmp_path / "other.db") as other:
        _, foreign = await attempted(other, tmp_path / "attempts")
    for settings in ({"days": 0}, {"max_gb": 0}, {"text": False}):
        done = pruned(**settings)
        assert (done.pruned, done.left_alone) == ((), 2)
    assert mine.is_dir() and b"secret door" in foreign.read_bytes()
    go_on.set()
    await step
    run.close()
    assert [one.folder for one in pruned(days=0).pruned] == [mine]
    assert foreign.exists()


async def test_an_interrupted_run_can_go_on_after_its_traces_went(
    ledger: Ledger, tmp_path: Path, pruned: Prune
) -> None:
    run = begin(ledger)

    async def fix(task: Task) -> Attempt:
        trajectory(tmp_path / "attempts" / run.place)
        run.book(paid(1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run.step("fix", fix, TASK)
    assert len(pruned(days=1).pruned) == 1
    again = ledger.open(TASK, "settings", sandbox="bubblewrap", environment="none")
    assert again.id == run.id
    assert again.close().cost_usd == Decimal("0.1")
    assert audit(ledger).problems == ()


def test_a_ledger_from_elsewhere_names_no_folder_to_remove(ledger: Ledger, pruned: Prune, tmp_path: Path) -> None:
    """Its folder of attempts is a link, and its run has the name of a folder there."""
    begin(ledger).close("solved")
    (tmp_path / "home" / "Documents").mkdir(parents=True)
    (tmp_path / "attempts").symlink_to(tmp_path / "home")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as books, books:
        books.execute("PRAGMA foreign_keys = OFF")
        for (name,) in books.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            books.execute(f"DROP TRIGGER {name}")
        books.execute("UPDATE run SET id = 'Documents'")
        books.execute("UPDATE close SET run_id = 'Documents'")
    assert ledger.ended("Documents") is not None
    assert pruned(days=0).pruned == () and (tmp_path / "home" / "Documents").is_dir()
