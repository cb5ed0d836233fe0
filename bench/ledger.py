"""How fast receipts are booked, and how fast a ledger with a million of them answers.

    python bench/ledger.py [--receipts 20000] [--runs 20000] [--repeats 3] [--out bench/results/ledger.json]

Booking is what a run does at each paid call: one transaction each, through `OpenRun.book`, by 64 tasks of one process
and by 4 processes with 16 tasks each, on one SQLite file. The large ledger has 50 receipts a run; its rows are copies
of a real run, put in place by SQL with all triggers on. All repeats are given, the best first: the machine is shared.

Targets: 5,000 receipts a second; a million receipts open in 1 s, and `scrout runs` answers in 0.3 s of query time.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from record import record

from scrout.config.loading import load
from scrout.handoff import FileRef, Handoff
from scrout.ledger.audit import audit
from scrout.ledger.opening import open_ledger
from scrout.ledger.store import Ledger, OpenRun
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Check, Evidence, GatedHandoff, Scouting
from scrout.task import Task

TASK = Task(id="larder-1", text="The larder is empty.\n" * 40, repo=Path("/srv/larder"), base_commit="c" * 40)
HANDOFF = Handoff(files=tuple(FileRef(path=f"larder/shelf_{number}.py") for number in range(5)))
SCOUTING = Scouting(handoff=HANDOFF, text="# Handoff\n" * 100, seconds=1.5)
GATED = GatedHandoff(
    verdict="passed",
    kept=False,
    materialized=False,
    reason="the command succeeds on the unpatched repository",
    evidence=Evidence(command="python -m pytest", exit_code=0, runs=2, output_tail="1 passed\n" * 50, seconds=2),
    handoff=HANDOFF,
    text="# Handoff\n" * 100,
)
CHECK = Check(outcome="passed", applies=True, reproduction="passes", tests="pass", tests_run=40)
PATCH = "diff --git a/larder/shelf_0.py b/larder/shelf_0.py\n" + "-old line\n+new line\n" * 40
EACH = 50
"""Receipts of a run."""


def receipt(call: int) -> Receipt:
    return Receipt(
        component="fix",
        fixer="agent-a",
        model="model-of-some-name",
        usage=Usage(input_tokens=1000 + call, cache_read_tokens=12_000, cache_write_tokens=500, output_tokens=300),
        cost_usd=Decimal("0.0123456789"),
        at=datetime.now(UTC),
        call=call,
    )


def begin(ledger: Ledger, batch: str = "") -> OpenRun:
    return ledger.open(TASK, "settings", sandbox="bubblewrap", environment="none", batch=batch, arm="solo/agent-a")


async def write(path: Path, writers: int, each: int) -> tuple[float, float]:
    """Seconds from the first booking to the last, of tasks that take turns after each, and how many the CPU worked."""
    with Ledger(path) as ledger:
        runs = [begin(ledger) for _ in range(writers)]
        paid = [receipt(call) for call in range(1, each + 1)]
        bounds: list[float] = []

        async def book(run: OpenRun) -> None:
            async def fix(task: Task) -> Attempt:
                bounds.append(time.perf_counter())
                for one in paid:
                    run.book(one)
                    await asyncio.sleep(0)
                bounds.append(time.perf_counter())
                return Attempt(fixer="agent-a", patch="", stop="finished", detail="", seconds=0)

            await run.step("fix", fix, TASK)

        worked = time.process_time()
        await asyncio.gather(*(book(run) for run in runs))
        worked = time.process_time() - worked
    return max(bounds) - min(bounds), worked


def write_in_process(path: Path, writers: int, each: int, together: object) -> None:
    together.wait()  # type: ignore[attr-defined]
    asyncio.run(write(path, writers, each))


def one_process(folder: Path, receipts: int) -> tuple[float, float]:
    """Receipts a second, and microseconds of CPU for each."""
    each = receipts // 64
    took, worked = asyncio.run(write(folder / "ledger.db", 64, each))
    return 64 * each / took, 1e6 * worked / (64 * each)


def four_processes(folder: Path, receipts: int) -> tuple[float, float]:
    """The same, with the start of each process in the CPU time."""
    each = receipts // 64
    path = folder / "ledger.db"
    with Ledger(path) as ledger:
        ledger.runs()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = children.ru_utime + children.ru_stime
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(5)
    workers = [context.Process(target=write_in_process, args=(path, 16, each, together)) for _ in range(4)]
    for worker in workers:
        worker.start()
    together.wait()
    started = time.perf_counter()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - started
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = children.ru_utime + children.ru_stime - before
    with closing(sqlite3.connect(path)) as db:
        ((stored,),) = db.execute("SELECT count(*) FROM receipt")
    assert stored == 64 * each, stored
    return 64 * each / took, 1e6 * worked / (64 * each)


def large(path: Path, runs: int) -> None:
    """One real run, and copies of it."""

    async def one(ledger: Ledger) -> str:
        run = begin(ledger, "b-0")
        paid = tuple(receipt(call) for call in range(1, EACH + 1))

        async def scout(task: Task) -> Scouting:
            return SCOUTING

        async def gate(task: Task) -> GatedHandoff:
            return GATED

        async def fix(task: Task) -> Attempt:
            cost = sum((one.cost_usd or Decimal(0) for one in paid), Decimal(0))
            return Attempt(
                fixer="agent-a", patch=PATCH, stop="finished", detail="", seconds=60, cost_usd=cost, receipts=paid
            )

        async def check(task: Task) -> Check:
            return CHECK

        await run.step("scout", scout, TASK)
        await run.step("gate", gate, TASK)
        await run.step("fix", fix, TASK)
        await run.step("check", check, TASK)
        return run.close().id

    with Ledger(path) as ledger:
        first = asyncio.run(one(ledger))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA foreign_keys = OFF")
        columns = {
            table: [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            for table in ("run", "step", "receipt", "close")
        }
        ((steps,),) = db.execute("SELECT count(*) FROM step")
        numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :runs)"
        run_id = "printf('20261116-%06d-%06x', i / 10, i)"
        for table, names in columns.items():
            changed = {
                "run": {"id": run_id, "task_id": "'larder-' || i", "batch": "'b-' || (i % 10)"},
                "step": {"id": f"i * {steps} + id", "run_id": run_id},
                "receipt": {"id": f"i * {EACH} + id", "run_id": run_id, "step_id": f"i * {steps} + step_id"},
                "close": {
                    "run_id": run_id,
                    "run": f"replace(replace(run, '{first}', {run_id}), '\"b-0\"', '\"b-' || (i % 10) || '\"')",
                },
            }[table]
            # A few are left open, as after interruptions.
            some = "i % 1000 <> 0" if table == "close" else "1"
            values = ", ".join(changed.get(name, name) for name in names)
            db.execute("BEGIN")
            db.execute(
                f"{numbers} INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} JOIN n"
                f" WHERE {some} AND {'id' if table == 'run' else 'run_id'} = :first ORDER BY i",
                {"runs": runs - 1, "first": first},
            )
            db.execute("COMMIT")


def times(work: Callable[[], object], repeats: int) -> list[float]:
    took = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        took.append(round(time.perf_counter() - started, 4))
    return sorted(took)


def ask(path: Path, repeats: int) -> dict[str, object]:
    settings = load(None, [f"ledger.path={path}"])

    def opening() -> None:
        with open_ledger(settings, path.parent) as ledger:
            ledger.runs(1)

    def command(*arguments: str) -> None:
        argv = [str(Path(sys.executable).with_name("scrout")), *arguments, "-c", f"ledger.path={path}"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=path.parent)

    opened = times(opening, repeats)
    whole = times(lambda: command("runs"), repeats)
    with Ledger(path) as ledger:
        newest = ledger.runs(1)[0].id
        return {
            "open_s": opened,
            "runs_20_s": times(lambda: ledger.runs(20), repeats),
            "runs_20_of_a_batch_s": times(lambda: ledger.runs(20, batch="b-3"), repeats),
            "runs_20_interrupted_s": times(lambda: ledger.runs(20, outcome="interrupted"), repeats),
            "run_by_id_s": times(lambda: ledger.run(newest), repeats),
            "runs_of_a_batch_s": times(lambda: ledger.runs_of("b-3"), repeats),
            "spent_of_a_batch_s": times(lambda: ledger.spent_usd("b-3"), repeats),
            "scrout_runs_whole_command_s": whole,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receipts", type=int, default=20_000, help="Booked in each repeat.")
    parser.add_argument("--runs", type=int, default=20_000, help="Of the large ledger, with 50 receipts each.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--audit", action="store_true", help="Audit the large ledger too, which takes minutes.")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    result: dict[str, object] = {"receipts": asked.receipts, "large_ledger_runs": asked.runs}
    with tempfile.TemporaryDirectory() as name:
        for way in (one_process, four_processes):
            made = []
            for repeat in range(asked.repeats):
                folder = Path(name, f"{way.__name__}-{repeat}")
                folder.mkdir()
                made.append(way(folder, asked.receipts))
            result[f"{way.__name__}_64_writers_receipts_a_second"] = [round(rate) for rate, _ in sorted(made)[::-1]]
            result[f"{way.__name__}_cpu_microseconds_a_receipt"] = [round(cpu) for _, cpu in sorted(made)[::-1]]
        result["target_receipts_a_second"] = 5000
        if asked.runs:
            path = Path(name, "large", "ledger.db")
            large(path, asked.runs)
            result["large_ledger_receipts"] = asked.runs * EACH
            result["large_ledger_mb"] = round(path.stat().st_size / 1e6)
            result |= ask(path, asked.repeats)
            if asked.audit:
                with Ledger(path) as ledger:
                    started = time.perf_counter()
                    report = audit(ledger)
                    result["audit_s"] = round(time.perf_counter() - started, 1)
                    result["audit_problems"] = len(report.problems)
                result["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
        result |= {"target_open_s": 1, "target_runs_s": 0.3, "load": round(os.getloadavg()[0], 1)}
    record(result, asked.out)


if __name__ == "__main__":
    main()
