"""Measures the whole pipeline without a paid model on tasks of our own: recon, gate, router and the $0 fixer.

    python bench/own_tasks.py --out DIR --json bench/results/own_tasks.json

Tasks are made with `scrout tasks make` (8 of each package in PACKAGES, see docs/research/tasks.md), run with `scrout
batch run` and graded with `scrout batch grade`, each as a user would. All go on where they were cut off, and so does
this.
A task counts as solved if every test that the bug broke, all of which are hidden from the pipeline, passes with the
patch, and every test that passed before still does. A patch that fails this is `wrong`: worse than none.

None of the packages is one that the fixer's templates were tuned on. Issues with an example in code and issues that
only tell what is wrong are reported apart: the first can be reproduced, the second hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from record import record

from scrout.batch.folder import BatchFolder
from scrout.batch.make.make import Origin
from scrout.batch.outputs.summary import Grades, read_grades
from scrout.batch.tasks import TaskRow, read_tasks
from scrout.intervals import wilson
from scrout.ledger.store import Ledger
from scrout.records import Run

PACKAGES = (
    *("semver==3.1.1", "isodate==0.7.2", "hyperlink==21.0.0", "simpleeval==1.0.8", "voluptuous==0.16.0"),
    *("xmltodict==1.0.4", "rfc3986==2.0.0", "validators==0.36.0", "jsonpatch==1.46", "uritemplate==4.2.0"),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one task."""

    id: str
    package: str
    operator: str
    example: bool
    """Whether its issue has code that shows the bug."""
    rank: int | None
    """Of the file with the bug among those that the scout named, from 1; None: it is not among them."""
    verdict: str
    """The gate's."""
    fixer: str
    outcome: str
    """solved, wrong (a patch that the tests refuse), none (no patch), or failed (not run, or not graded)."""
    cost_usd: float | None
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for tasks, clones and the batch")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, metavar="NAME==VERSION")
    parser.add_argument("--count", type=int, default=8, help="tasks of each package (default: 8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="tasks at once; more disturb each other's times")
    parser.add_argument("--only-make", action="store_true", help="make the tasks, run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    tasks, batch = asked.out / "tasks" / "tasks.jsonl", asked.out / "batch"
    numbers = ("--count", asked.count, "--seed", asked.seed)
    scrout("tasks", "make", "--packages", *asked.packages, "--out", tasks.parent, *numbers)
    if asked.only_make:
        return
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    started = time.monotonic()
    scrout("batch", "run", tasks, "--out", batch, "--jobs", asked.jobs, "--arms", "handoff")
    wall_s = time.monotonic() - started
    scrout("batch", "grade", batch, "--tasks", tasks)
    outcomes = read(tasks, batch)
    record({"load_per_core": round(load, 2), "wall_s": round(wall_s, 1), **summary(outcomes)}, asked.json)


def scrout(*args: object) -> None:
    """One command; exit code 1 means that some of it could not be done, which the figures show."""
    done = subprocess.run([sys.executable, "-m", "scrout", *map(str, args)], check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)


def read(tasks: Path, batch: Path) -> list[Outcome]:
    rows = {row.id: row for row in read_tasks(tasks).rows}
    lines = (tasks.parent / "origins.jsonl").read_text().splitlines()
    origins = {origin.id: origin for origin in map(Origin.model_validate_json, lines)}
    folder = BatchFolder(batch)
    grades = read_grades(folder.grades)
    with Ledger(folder.ledger) as ledger:
        # A batch's list has the heads of runs alone; what the stages gave is read run by run.
        heads = ledger.runs_of(json.loads((batch / "batch.json").read_text())["id"])
        runs = {head.task.id: ledger.run(head.id) for head in heads}
    return [one(row, origins[name], runs.get(name), grades) for name, row in rows.items()]


def one(row: TaskRow, origin: Origin, run: Run | None, grades: Grades) -> Outcome:
    """A task that was not run to its end stays in the denominator, as `failed`."""
    assert row.gold is not None
    about: dict[str, Any] = {
        "id": row.id,
        "package": origin.package,
        "operator": origin.operator,
        "example": origin.example,
    }
    if run is None or run.finished is None:
        return Outcome(**about, rank=None, verdict="", fixer="", outcome="failed", cost_usd=None, seconds=0.0)
    if run.scouting is None or run.gated is None:
        sys.exit(f"run {run.id} of {row.id} is finished without a scouting or a verdict: the ledger was misread")
    named = [file.path for file in run.scouting.handoff.files]
    graded = grades.verdict(run)
    if graded == "infrastructure" or (run.patch and graded is None):
        outcome = "failed"
    elif not run.patch:
        outcome = "none"
    else:
        outcome = "solved" if graded == "resolved" else "wrong"
    return Outcome(
        **about,
        rank=next((rank for rank, path in enumerate(named, 1) if path in row.gold.files), None),
        verdict=run.gated.verdict,
        fixer=run.attempts[-1].fixer if run.attempts else "",
        outcome=outcome,
        cost_usd=None if run.cost_usd is None else float(run.cost_usd),
        seconds=round((run.finished - run.started).total_seconds(), 1),
    )


def summary(outcomes: Sequence[Outcome]) -> dict[str, object]:
    packages = sorted({outcome.package for outcome in outcomes})
    return {
        "all": told(outcomes),
        "issue_with_an_example": told([outcome for outcome in outcomes if outcome.example]),
        "issue_without": told([outcome for outcome in outcomes if not outcome.example]),
        "by_package": {name: counts([one for one in outcomes if one.package == name]) for name in packages},
        "by_operator": {
            name: counts([one for one in outcomes if one.operator == name])
            for name in sorted({outcome.operator for outcome in outcomes})
        },
        "tasks": [asdict(outcome) for outcome in outcomes],
    }


def told(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Shares with 95% intervals after Wilson."""
    number = len(outcomes)
    kept = ("real_failure", "reproduced_exit_zero")
    costs = [outcome.cost_usd for outcome in outcomes]
    return {
        "tasks": number,
        **{name: share(counts(outcomes).get(name, 0), number) for name in ("solved", "wrong", "none", "failed")},
        "buggy_file_named_first": share(sum(outcome.rank == 1 for outcome in outcomes), number),
        "buggy_file_named": share(sum(outcome.rank is not None for outcome in outcomes), number),
        "reproduction_kept": share(sum(outcome.verdict in kept for outcome in outcomes), number),
        "verdicts": dict(Counter(outcome.verdict for outcome in outcomes).most_common()),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
        "median_seconds": round(statistics.median([outcome.seconds for outcome in outcomes]), 1) if outcomes else None,
    }


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return dict(Counter(outcome.outcome for outcome in outcomes))


def share(number: int, of: int) -> dict[str, object]:
    low, high = wilson(number, of) if of else (0.0, 0.0)
    return {"n": number, "share": round(number / of, 4) if of else None, "interval": [round(low, 4), round(high, 4)]}


if __name__ == "__main__":
    main()
