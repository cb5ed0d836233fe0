"""How fast the dashboard answers on a ledger of 100,000 runs.

    python bench/dashboard.py [--runs 100000] [--repeats 40] [--out bench/results/dashboard.json]

The ledger has ten real runs (two fixers and the router, solved and not, with scouting, gate, decision, patch, check and
6 receipts each), each at a commit of its own of a repository of 3,000 files, and copies of them, put in place by SQL
with all triggers on, in 20 batches; one in a thousand is left open. Each address is asked over HTTP on loopback,
through a `scrout dashboard` of its own, one request at a time; each repeat of a run's page is of another run. The index
of the dashboard is made at the first start, and taken from the cache at the second.

A list that is asked for again while nothing has changed comes from memory, and the code of a commit is read and
coloured once. So `pages` has `first_ms`, of an answer that nobody had asked for before, beside the rest; and
`first_looks` has addresses of which none was asked for before: words that all runs have, and stories whose commit
nobody has looked at.

Target: 100 ms a page.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import httpx
from record import record

from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.ledger.store import Ledger
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Candidate, Check, Decision, Evidence, GatedHandoff, Scouting
from scrout.task import Task

FILES, LINES = 5, 400
OTHER_FILES = 3000
RECEIPTS = 6
WORDS = ("larder", "reserve", "expired", "timezone", "rounding", "import", "unicode", "cache", "retry", "parser")


def make_repository(folder: Path) -> list[str]:
    """A project; the ids of ten commits."""

    def code(commit: int) -> str:
        one = "def find_{n}(items, limit={limit}):\n    return [i for i in items if i > limit]\n\n"
        return "".join(one.format(n=n, limit=n + commit) for n in range(LINES // 3))

    for number in range(OTHER_FILES):
        other = folder / f"room_{number % 60}" / f"box_{number}.py"
        other.parent.mkdir(exist_ok=True)
        other.write_text(f"# {number}\n{code(0)[:2000]}")

    def git(*command: str) -> str:
        who = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
        argv = ["git", *who, *command]
        return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    commits = []
    for commit in range(10):
        for number in range(FILES):
            (folder / f"shelf_{number}.py").write_text(code(commit))
        git("add", "--all")
        git("commit", "-q", "-m", f"base {commit}")
        commits.append(git("rev-parse", "HEAD"))
    git("repack", "-a", "-d", "-q")
    return commits


async def one(ledger: Ledger, repo: Path, commit: str, number: int) -> str:
    """One real run."""
    fixer = ("agent-a", "agent-b")[number % 2]
    arm = (f"solo/{fixer}", f"handoff/{fixer}", "handoff/routed")[number % 3]
    text = f"{WORDS[number]} goes wrong\n\n" + f"The {WORDS[number]} of the larder returns `find_3` too late.\n" * 30
    task = Task(id=f"larder-{number}", text=text, repo=repo, base_commit=commit)
    run = ledger.open(task, "settings", sandbox="bubblewrap", environment="none", batch="b-00", arm=arm)
    files = tuple(
        FileRef(path=f"shelf_{at}.py", regions=((100, 120), (200, 210)), confidence=0.5, why="names `find_3`")
        for at in range(FILES)
    )
    claim = Reproduction(command="python -m pytest", claim=True, observed="1 failed\n" * 20)
    handoff = Handoff(files=files, reproduction=claim, notes="It is there. " * 40)
    seen = Evidence(command="python -m pytest", exit_code=1, runs=2, output_tail="1 failed\n" * 50, seconds=2)
    lines = "".join(f"-old line {at}\n+new line {at}\n" for at in range(40))
    patch = f"diff --git a/shelf_0.py b/shelf_0.py\n--- a/shelf_0.py\n+++ b/shelf_0.py\n@@ -1,40 +1,40 @@\n{lines}"
    paid = tuple(
        Receipt(
            component="fix",
            fixer=fixer,
            model="model-of-some-name",
            usage=Usage(input_tokens=1000, cache_read_tokens=12_000, output_tokens=300),
            cost_usd=Decimal("0.0123456789") * (1 + number % 2),
            at=datetime.now(UTC),
            call=call,
        )
        for call in range(1, RECEIPTS + 1)
    )
    cost = sum((each.cost_usd or Decimal(0) for each in paid), Decimal(0))
    candidates = tuple(
        Candidate(fixer=name, p_solve=0.4, p_low=0.2, p_high=0.6, expected_cost_usd=Decimal("0.1"), reason="as cheap")
        for name in ("agent-a", "agent-b")
    )
    results: dict[str, Scouting | GatedHandoff | Decision | Attempt | Check] = {
        "scout": Scouting(handoff=handoff, text="# Handoff\n" * 100, seconds=1.5),
        "gate": GatedHandoff(
            verdict="real_failure",
            kept=True,
            materialized=True,
            reason="it fails",
            evidence=seen,
            handoff=handoff,
            text="# Handoff\n" * 100,
        ),
        "route": Decision(
            fixer=fixer, theta=0.3, degraded=False, fallback=False, reason="the cheapest", candidates=candidates
        ),
        "fix": Attempt(
            fixer=fixer, patch=patch, stop="finished", detail="", seconds=60, calls=6, cost_usd=cost, receipts=paid
        ),
        "check": Check(
            outcome="passed" if number % 4 else "failed",
            applies=True,
            reproduction="passes",
            tests="pass",
            tests_run=40,
        ),
    }
    for name, result in results.items():

        async def stage(task: Task, given: object = result) -> object:
            return given

        await run.step(name, stage, task)  # type: ignore[arg-type, type-var]
    return run.close().id


def large(path: Path, runs: int, repo: Path, commits: list[str]) -> None:
    """Ten real runs, and copies of them."""

    async def originals(ledger: Ledger) -> list[str]:
        return [await one(ledger, repo, commit, number) for number, commit in enumerate(commits)]

    with Ledger(path) as ledger:
        ids = asyncio.run(originals(ledger))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("CREATE TEMP TABLE original (place INTEGER PRIMARY KEY, id TEXT, first_step INT, first_receipt INT)")
        for place, run_id in enumerate(ids):
            db.execute(
                "INSERT INTO original SELECT ?, ?, (SELECT min(id) FROM step WHERE run_id = ?),"
                " (SELECT min(id) FROM receipt WHERE run_id = ?)",
                (place, run_id, run_id, run_id),
            )
        numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :runs)"
        new_id = "printf('20261116-%06d-%06x', i / 10, i)"
        batch = "printf('b-%02d', i / 10 % 20)"
        changed = {
            "run": {"id": new_id, "task_id": "'larder-' || i", "batch": batch},
            "step": {"id": "1000 + i * 100 + t.id - first_step", "run_id": new_id},
            "receipt": {
                "id": "1000 + i * 100 + t.id - first_receipt",
                "run_id": new_id,
                "step_id": "1000 + i * 100 + t.step_id - first_step",
            },
            "close": {
                "run_id": new_id,
                "run": f"replace(replace(t.run, original.id, {new_id}), '\"b-00\"', '\"' || {batch} || '\"')",
            },
        }
        for table, new in changed.items():
            names = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(new.get(name, f"t.{name}") for name in names)
            some = "i % 1000 <> 0" if table == "close" else "1"
            key = "id" if table == "run" else "run_id"
            db.execute("BEGIN")
            db.execute(
                f"{numbers} INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM n"
                f" JOIN original ON place = i % 10 JOIN {table} t ON t.{key} = original.id WHERE {some} ORDER BY i",
                {"runs": runs - 10},
            )
            db.execute("COMMIT")


@contextmanager
def dashboard(ledger: Path, home: Path) -> Iterator[tuple[str, float]]:
    """Its address, and how many seconds it took to start."""
    environment = os.environ | {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "DATA", "CONFIG")}
    code = "from scrout.cli.dashboard import command; command()"
    argv = [sys.executable, "-c", code, "--port", "0", "-c", f"ledger.path={ledger}"]
    started = time.perf_counter()
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True, cwd=home) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "http://" in line)
            took = time.perf_counter() - started
            match = re.search(r"http://\S+/", line)
            assert match
            yield match[0].rstrip("/"), took
        finally:
            process.terminate()
            process.wait()


def measure(url: str, runs: int, repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds of each address, from the request to the last byte."""
    every = [f"20261116-{i // 10:06d}-{i:06x}" for i in range(101, runs - 10)]
    unseen = every[runs // 2 : runs // 2 + 10]  # one of each commit
    ids = every[:: max(1, runs // repeats)]
    fresh = {
        "runs by a word of all": [f"/runs?words={word}" for word in ("returns", "goes", "wrong", "late", "too", "of")],
        "a run's story": [f"/runs/{run}" for run in unseen],
    }
    asked = {
        "runs": ["/runs"],
        "runs, second page": [f"/runs?before={runs - 50}"],
        "runs, middle": [f"/runs?before={runs // 2}"],
        "runs of an outcome": ["/runs?outcome=not_solved"],
        "runs of a fixer": ["/runs?fixer=agent-b"],
        "runs of an arm": ["/runs?arm=handoff/routed"],
        "runs of a batch": ["/runs?batch=b-07"],
        "runs since a day": ["/runs?since=2026-01-01"],
        "runs by a rare word": ["/runs?words=timezone"],
        "runs by a word of all": ["/runs?words=larder"],
        "runs by word, outcome and day": ["/runs?words=cache&outcome=solved&since=2026-01-01"],
        "runs.json": ["/runs.json"],
        "a run's story": [f"/runs/{run}" for run in ids],
        "a run's story.json": [f"/runs/{run}.json" for run in ids],
        "batches": ["/batches"],
        "a batch": ["/batch?name=b-07"],
        "frontier": ["/frontier"],
        "frontier of a batch": ["/frontier?batch=b-07"],
        "fixers": ["/fixers"],
        "studies": ["/studies"],
    }
    looks, pages = {}, {}
    with httpx.Client(base_url=url, timeout=60) as client:

        def ask(path: str) -> tuple[float, int]:
            began = time.perf_counter()
            answer = client.get(path)
            took = 1000 * (time.perf_counter() - began)
            assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
            return took, len(answer.content)

        ask("/fixers.json")  # the connection
        for name, paths in fresh.items():
            took = [ask(path)[0] for path in paths]
            looks[name] = {
                "asked": len(took),
                "p50_ms": round(statistics.median(took), 1),
                "most_ms": round(max(took), 1),
            }
        for name, paths in asked.items():
            answers = [ask(paths[repeat % len(paths)]) for repeat in range(repeats)]
            took = [took for took, _ in answers]
            pages[name] = {
                "first_ms": round(took[0], 1),
                "p50_ms": round(statistics.median(took), 1),
                "p95_ms": round(statistics.quantiles(took, n=20, method="inclusive")[18], 1),
                "kb": round(answers[-1][1] / 1000),
            }
    return {"first_looks": looks, "pages": pages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="Make the ledger here, or use the one that is there.")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = (asked.keep or Path(name)).absolute()
        path = home / "ledger.db"
        if not path.exists():
            repo = home / "larder"
            repo.mkdir(parents=True)
            large(path, asked.runs, repo, make_repository(repo))
        result: dict[str, object] = {
            "runs": asked.runs,
            "ledger_mb": round(path.stat().st_size / 1e6),
            "target_ms": 100,
        }
        with dashboard(path, home) as (_, took):
            result["first_start_s"] = round(took, 1)
        with dashboard(path, home) as (url, took):
            result["second_start_s"] = round(took, 1)
            result |= measure(url, asked.runs, asked.repeats)
        index = list((home / "cache" / "scrout" / "dashboard").glob("*.db"))
        result["index_mb"] = round(sum(one.stat().st_size for one in index) / 1e6)
    record(result, asked.out)


if __name__ == "__main__":
    main()
