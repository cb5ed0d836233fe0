"""The one-call fixer with a real local model on real bugs whose reproduction is true; the fix's own tests judge.

    python bench/real_single.py --mirrors DIR --work DIR --given RESULT.json --model FILE --json FILE [--only ID ...]

Rows and folders are those of real_bugs.py, reproductions those of its RESULT. What the check says of the submitted
patch stands beside what the tests of the upstream fix say. The model is a GGUF file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from real_bugs import PROJECTS, REPORTS, Case, given_reproduction, kept_of, make_repository
from real_bugs_mine import Bench, git
from record import record

from scrout.check.check import check
from scrout.config.settings import Settings
from scrout.fix.fix import fix
from scrout.fix.kind import FixJob
from scrout.fix.kinds.single import SingleFixer
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.scout.recon.recon import recon
from scrout.task import Task

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--given", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    work = asked.work.resolve()
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")
    kept, tier = kept_of(asked.given), require_tier()
    rows = [json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    rows = [row | {"given": kept[row["id"]]} for row in rows if kept.get(row["id"], {}).get("reproduction") == "true"]
    rows = [row for row in rows if not asked.only or row["id"] in asked.only]
    fixer = SingleFixer(
        name="single",
        model_file=str(asked.model),
        context_tokens=6144,
        form="function",
        prompt_tokens=1800,
        max_tokens=700,
        samples=asked.samples,
        cap_seconds=900,
    )
    done: list[Row] = []
    for row in rows:
        done.append(asyncio.run(one(row, fixer, asked.mirrors.resolve(), work, tier)))
        print(json.dumps(done[-1]), file=sys.stderr, flush=True)
        solved = sum(row["tests"] == "right" and row["check"] == "passed" for row in done)
        record({"model": asked.model.name, "bugs": len(done), "solved": solved, "rows": done}, asked.json)


async def one(row: Row, fixer: SingleFixer, mirrors: Path, work: Path, tier: Tier) -> Row:
    project = next(project for project in PROJECTS if project.repo == row["repo"])
    bench = Bench(project, mirrors / row["repo"].replace("/", "+") / "repo", work, "")
    bench.prepare()
    repo = work / "repos" / f"single-{row['id']}"
    commit = make_repository(row, bench, repo)
    files = ("--", *row["source_files"])
    patch = git(bench.mirror, "diff", "--no-color", row["base_commit"], row["fix_commit"], *files)
    task = Task(id=row["id"], text=row["text"], repo=repo.resolve(), base_commit=commit)
    try:
        with open_task_sandbox(task, tier, Settings()) as task_sandbox, tempfile.TemporaryDirectory() as folder:
            handoff = (await recon(task, task_sandbox, Settings().scout)).handoff
            gated = given_reproduction(row["given"])
            handoff = handoff.model_copy(update={"reproduction": gated.handoff.reproduction})
            gated = gated.model_copy(update={"handoff": handoff})
            job = FixJob(task, gated, task_sandbox, Settings(), say, lambda _: None, folder=Path(folder))
            attempt = await fix(fixer, job)
            found: Row = {"id": row["id"], "stop": attempt.stop, "detail": attempt.detail, "calls": attempt.calls}
            found |= {"seconds": round(attempt.seconds), "cost_usd": str(attempt.cost_usd), "patch": attempt.patch}
            if not attempt.patch:
                return found | {"check": "no_patch", "tests": "none"}
            checked = await check(task.text, gated, attempt, task_sandbox)
            right = await Case(row, task, task_sandbox, bench.mirror, patch).passes(attempt.patch)
            return found | {"check": checked.outcome, "tests": "right" if right else "wrong"}
    finally:
        shutil.rmtree(repo, ignore_errors=True)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
