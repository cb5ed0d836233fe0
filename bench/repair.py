"""Measures the $0 fixer: how many bugs it fixes, how often it only seems to, and how long it takes.

    python bench/repair_cases.py --clones DIR --venv DIR --group measure --out cases.jsonl
    python bench/repair.py --clones DIR --venv DIR --cases cases.jsonl --json bench/results/repair.json

The cases are bugs seeded into published packages and real fixes replayed at their parents (see repair_cases.py for the
folders, and batch/make/mutations.py for what is seeded). The fixer gets the commit with the bug and one failing test as
its verified reproduction, nothing else: no issue text, no named file. A patch is graded with all the tests as they
should be, the hidden ones included: `fixed` if every test passes that passes without the bug, `overfitted` if not.

A line for each case is written beside the result as it comes; a run that was cut off goes on from there.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from record import record
from repair_cases import GROUPS, Case, append, read_cases, read_rows, run_tests, task_sandbox_at

from scrout.config.settings import RepairSettings
from scrout.fix.repair.edits import edits
from scrout.fix.repair.repair import repair
from scrout.handoff import Handoff, Reproduction
from scrout.intervals import wilson
from scrout.records import Attempt, Evidence, GatedHandoff
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Tier


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    id: str
    kind: str
    project: str
    outcome: str
    """fixed, overfitted, not found, or not applicable."""
    same: bool
    """The patched file says what the original says, but for layout."""
    reachable: bool
    """One edit of the fixer's gives the original back."""
    hidden: int
    """Tests that fail with the bug besides the reproduction."""
    seconds: float
    detail: str
    about: str
    patch: str
    load: float
    """Of the machine when it began, per core."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True, metavar="DIR")
    parser.add_argument("--venv", type=Path, required=True, metavar="DIR")
    parser.add_argument("--cases", type=Path, required=True, metavar="FILE", help="what repair_cases.py wrote")
    parser.add_argument("--kinds", nargs="+", choices=("seeded", "real"), default=("seeded", "real"))
    parser.add_argument("--only", help="cases whose id contains this")
    parser.add_argument("--limit", type=int, help="at most this many of each kind")
    parser.add_argument("--seconds", type=float, default=RepairSettings().max_seconds, help="for one search")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="lines as they come (default: beside the cases)")
    parser.add_argument("--note", default="", help="what a reader of the result should know")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    rows_file = asked.rows or asked.cases.with_suffix(".results.jsonl")
    done = {row["id"] for row in read_rows(rows_file)}
    settings = RepairSettings(max_seconds=asked.seconds)
    tier = require_tier()
    usual: dict[str, frozenset[str]] = {}
    chosen = choose(read_cases(asked.cases), asked.kinds, asked.only, asked.limit)
    for number, case in enumerate(chosen, 1):
        if case.id in done:
            continue
        outcome = run_case(case, asked.clones.resolve(), asked.venv.resolve(), tier, settings, usual)
        append(rows_file, asdict(outcome))
        said = f"[{number}/{len(chosen)}] {outcome.outcome:12} {outcome.seconds:5.1f} s {case.id} {case.about}"
        print(f"{said}\n      {outcome.detail[:150]}", file=sys.stderr, flush=True)
    wanted = {case.id for case in chosen}
    rows = [Outcome(**row) for row in read_rows(rows_file) if row["id"] in wanted]
    if asked.note:
        # It stands in the result by itself.
        sys.argv = [part for part in sys.argv if part not in ("--note", asked.note)]
    record({"note": asked.note, **summary(rows, settings)}, asked.json)


def choose(cases: Sequence[Case], kinds: Sequence[str], only: str | None, limit: int | None) -> list[Case]:
    """Projects take turns, so that the first ones of a cut-off run are of all of them."""
    chosen: list[Case] = []
    for kind in kinds:
        queues: dict[str, list[Case]] = {}
        for case in cases:
            if case.kind == kind and (only is None or only in case.id):
                queues.setdefault(case.project, []).append(case)
        turns: list[Case] = []
        while any(queues.values()):
            turns += [queue.pop(0) for queue in queues.values() if queue]
        chosen += turns[:limit]
    return chosen


def run_case(
    case: Case, clones: Path, venv: Path, tier: Tier, settings: RepairSettings, usual: dict[str, frozenset[str]]
) -> Outcome:
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    with task_sandbox_at(clones / case.project, case.commit, venv, tier) as task_sandbox:
        started = time.monotonic()
        attempt = asyncio.run(repair(handed(case), task_sandbox, settings))
        seconds = time.monotonic() - started
        outcome = asyncio.run(grade(case, attempt, task_sandbox, usual))
        path, right = next(iter(case.right.items()))
        wrong = (task_sandbox.base.read(path) or b"").decode()
        same = bool(attempt.patch) and equal(asyncio.run(patched(task_sandbox, attempt.patch, path)), right)
    return Outcome(
        id=case.id,
        kind=case.kind,
        project=case.project,
        outcome=outcome,
        same=same,
        reachable=reachable(wrong, right),
        hidden=len(case.hidden),
        seconds=round(seconds, 2),
        detail=attempt.detail,
        about=case.about,
        patch=attempt.patch,
        load=round(load, 2),
    )


def handed(case: Case) -> GatedHandoff:
    reproduction = Reproduction(files=case.files, command=case.command, claim=True)
    return GatedHandoff(
        verdict="real_failure",
        kept=True,
        materialized=True,
        reason="given",
        evidence=Evidence(),
        handoff=Handoff(reproduction=reproduction),
        text="",
    )


async def grade(case: Case, attempt: Attempt, task_sandbox: TaskSandbox, usual: dict[str, frozenset[str]]) -> str:
    """Every test that passes without the bug must pass with the patch. One that does not is given a second run.

    Where the whole suite does not end in time, the test files with the hidden tests are all of it.
    """
    if not attempt.patch:
        return "not applicable" if attempt.stop == "not_applicable" else "not found"
    key = case.project if case.kind == "seeded" else case.id
    names: tuple[str, ...] = ()
    if key not in usual:
        usual[key], _, _ = await run_tests(task_sandbox, case.tests | case.right)
    wanted = usual[key]
    if not wanted:
        names = tuple(case.tests)
        wanted, _, _ = await run_tests(task_sandbox, case.tests | case.right, names)
    wanted |= set(case.hidden)
    passed, _, _ = await run_tests(task_sandbox, case.tests, names, patch=attempt.patch)
    if wanted - passed:
        # What fails by chance fails without the bug too, once in a while.
        steady, _, _ = await run_tests(task_sandbox, case.tests | case.right, names)
        again, _, _ = await run_tests(task_sandbox, case.tests, names, patch=attempt.patch)
        wanted, passed = (wanted & steady) | set(case.hidden), passed | again
    return "overfitted" if wanted - passed else "fixed"


async def patched(task_sandbox: TaskSandbox, patch: str, path: str) -> str:
    workspace = task_sandbox.fresh()
    try:
        await task_sandbox.apply(workspace, patch)
        return (workspace.read(path) or b"").decode()
    finally:
        workspace.remove()


def equal(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


def reachable(wrong: str, right: str) -> bool:
    """Whether one edit gives the original back, but for spaces; on the lines where the two differ, and around them."""
    old, new = wrong.splitlines(), right.splitlines()
    first = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    wanted = "".join(right.split())
    around = range(max(1, first - 1), first + 6)
    return any("".join(edit.apply(wrong).split()) == wanted for edit in edits(wrong, around))


def summary(rows: Sequence[Outcome], settings: RepairSettings) -> dict[str, object]:
    kinds = sorted({row.kind for row in rows}, reverse=True)
    return {
        "max_seconds": settings.max_seconds,
        "jobs": settings.jobs or os.cpu_count(),
        "groups": {name: list(projects) for name, projects in GROUPS.items()},
        **{kind: told([row for row in rows if row.kind == kind]) for kind in kinds},
        "cases": [{key: value for key, value in asdict(row).items() if key not in ("patch", "detail")} for row in rows],
    }


def told(rows: Sequence[Outcome]) -> dict[str, object]:
    """Shares with 95% intervals after Wilson."""
    outcomes = Counter(row.outcome for row in rows)
    fixed = [row for row in rows if row.outcome == "fixed"]
    return {
        "cases": len(rows),
        "projects": len({row.project for row in rows}),
        **{name: share(outcomes[name], len(rows)) for name in ("fixed", "overfitted", "not found", "not applicable")},
        "fixed_as_the_original": sum(row.same for row in fixed),
        "original_is_one_edit_away": sum(row.reachable for row in rows),
        "fixed_where_it_is_not": sum(not row.reachable for row in fixed),
        "with_hidden_failing_tests": sum(row.hidden > 0 for row in rows),
        "median_seconds": median([row.seconds for row in rows]),
        "median_seconds_fixed": median([row.seconds for row in fixed]),
        "median_load_per_core": median([row.load for row in rows]),
        "by_what": by_what(rows),
    }


def share(number: int, of: int) -> dict[str, object]:
    low, high = wilson(number, of) if of else (0.0, 0.0)
    return {"n": number, "share": round(number / of, 4) if of else None, "interval": [round(low, 4), round(high, 4)]}


def median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 2) if values else None


def by_what(rows: Sequence[Outcome]) -> Mapping[str, Mapping[str, int]]:
    """Seeded: by operator. Real: by project."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        key = row.about.partition(" in ")[0] if row.kind == "seeded" else row.project
        counts.setdefault(key, Counter())[row.outcome] += 1
    return {key: dict(counts[key]) for key in sorted(counts)}


if __name__ == "__main__":
    main()
