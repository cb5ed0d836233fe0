"""How early the one-call fixer shows the function that a fix changes: by what ran, by the report's words, and by both.

    python bench/suspected.py --mirrors DIR --work DIR --half fresh2 --given RESULT.json --rows ROWS.jsonl --json FILE

Rows and folders are those of real_bugs.py, reproductions those of its RESULT. For each bug with a true reproduction
the candidates are the functions around suspected statements. The right ones are those that the upstream fix changes.
`what ran` orders them by the most suspected statement of each, `words` by BM25 over the report, `both` as the fixer
does. ROWS keeps the candidates of finished rows, so a run goes on after a cut-off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from real_bugs import PROJECTS, REPORTS, given_reproduction, kept_of, make_repository
from real_bugs_mine import Bench, git
from record import record

from scrout.config.settings import Settings
from scrout.fix.single import suspected
from scrout.fix.single.excerpts import excerpt_around
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.scout.recon.recon import recon
from scrout.task import Task

Row = dict[str, Any]
TOPS = (1, 3, 5)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--half", required=True)
    parser.add_argument("--given", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    work = asked.work.resolve()
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")
    done = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    ids, tier = {row["id"] for row in done}, require_tier()
    for row in true_reproductions(asked.half, asked.given):
        if row["id"] not in ids:
            found = asyncio.run(candidates(row, asked.mirrors.resolve(), work, tier))
            done.append(found)
            with asked.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
    record({"half": asked.half, "bugs": len(done), "orders": compare(done)}, asked.json)


def true_reproductions(half: str, given: Path) -> Iterator[Row]:
    kept = kept_of(given)
    for line in REPORTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["half"] == half and kept.get(row["id"], {}).get("reproduction") == "true":
            yield row | {"given": kept[row["id"]]}


async def candidates(row: Row, mirrors: Path, work: Path, tier: Tier) -> Row:
    """The functions around suspected statements, with the scores of these."""
    project = next(project for project in PROJECTS if project.repo == row["repo"])
    bench = Bench(project, mirrors / row["repo"].replace("/", "+") / "repo", work, "")
    bench.prepare()
    repo = work / "repos" / f"suspected-{row['id']}"
    commit = make_repository(row, bench, repo)
    task = Task(id=row["id"], text=row["text"], repo=repo.resolve(), base_commit=commit)
    ranked: list[suspected.Suspect] = []

    def rank(*given: Any) -> Sequence[suspected.Suspect]:
        ranked.extend(original(*given))
        return ranked

    original = suspected.rank
    try:
        with open_task_sandbox(task, tier, Settings()) as task_sandbox, mock.patch.object(suspected, "rank", rank):
            handoff = (await recon(task, task_sandbox, Settings().scout)).handoff
            gated = given_reproduction(row["given"])
            handoff = handoff.model_copy(update={"reproduction": gated.handoff.reproduction})
            gated = gated.model_copy(update={"handoff": handoff})
            await suspected.suspected_files(task.text, gated, task_sandbox)
            read = task_sandbox.base.read
            functions: dict[tuple[str, int], Row] = {}
            for one in ranked:
                excerpt = excerpt_around(one.path, (one.first_line, one.last_line), read)
                if excerpt:
                    place = {"path": excerpt.path, "name": excerpt.name, "first": excerpt.first, "last": excerpt.last}
                    known = functions.setdefault((excerpt.path, excerpt.first), {**place, "scores": []})
                    known["text"] = excerpt.text
                    known["scores"].append(round(one.score, 4))
    finally:
        shutil.rmtree(repo, ignore_errors=True)
    return {"id": row["id"], "issue": task.text, "gold": changed_lines(row, bench), "funcs": list(functions.values())}


def changed_lines(row: Row, bench: Bench) -> list[tuple[str, int, int]]:
    """What the fix changes, as lines of the commit with the bug."""
    files = ("--", *row["source_files"])
    patch = git(bench.mirror, "diff", "-U0", "--no-color", row["base_commit"], row["fix_commit"], *files)
    found, path = [], ""
    for line in patch.splitlines():
        if line.startswith("--- a/"):
            path = line.removeprefix("--- a/")
        elif hunk := _HUNK.match(line):
            first = int(hunk[1])
            found.append((path, first, first + max(int(hunk[2] or 1), 1) - 1))
    return found


def compare(rows: Sequence[Row]) -> Row:
    places: dict[str, list[int]] = {"what ran": [], "words": [], "both": []}
    for row in rows:
        functions = row["funcs"]
        ran = np.array([max(one["scores"]) for one in functions] or [0.0])
        texts = [f"{one['name']}\n{one['text']}" for one in functions]
        words = suspected.likeness(row["issue"], texts) if texts else np.zeros(1)
        for name, scores in {"what ran": ran, "words": words, "both": ran * (1 + suspected.WORDS * words)}.items():
            order = np.argsort(-scores, kind="stable") if functions else []
            places[name].append(place([functions[at] for at in order], row["gold"]))
    return {name: figures(found) for name, found in places.items()}


def place(functions: Sequence[Mapping[str, Any]], gold: Sequence[tuple[str, int, int]]) -> int:
    """Of the first function that the fix changes, from 1; 0: none of them is."""
    for number, one in enumerate(functions, 1):
        if any(path == one["path"] and first <= one["last"] and one["first"] <= last for path, first, last in gold):
            return number
    return 0


def figures(places: Sequence[int]) -> Row:
    tops = {f"first {top}": round(sum(0 < one <= top for one in places) / max(len(places), 1), 3) for top in TOPS}
    reciprocal = sum(1 / one for one in places if one) / max(len(places), 1)
    return {**tops, "mean reciprocal rank": round(reciprocal, 3), "never": sum(one == 0 for one in places)}


if __name__ == "__main__":
    main()
