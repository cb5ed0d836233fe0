"""Public leaderboards' outcomes: every model alone on the same tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scrout.base import StudyError
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.sources.episodes import FixerEpisode, add, amount_of, played
from scrout.languages import language_of
from scrout.route.outcomes import read_rows, read_texts, repository_of

_COMMIT = re.compile(r"-[0-9a-f]{40}.*", re.S)


@dataclass(frozen=True)
class Public:
    benchmark: Benchmark
    versions: Mapping[str, str]
    """Of the agent, by model; empty: not told."""


def read_public(path: Path, name: str) -> Public:
    """A table of outcomes: a row for each model and task, with `model, instance_id, resolved` and, where known,
    `cost_usd, api_calls, mini_swe_agent_version`."""
    found: dict[tuple[str, str], FixerEpisode] = {}
    versions: dict[str, str] = {}
    for number, row in read_rows(path):
        where = f"{path}, row {number}"
        if lacking := [column for column in ("model", "instance_id", "resolved") if not row.get(column)]:
            raise StudyError(f"{where}: no {', '.join(lacking)}. Each row needs model, instance_id and resolved.")
        if row["resolved"] not in ("0", "1"):
            raise StudyError(f"{where}: resolved is {row['resolved']!r}. Write 1 or 0.")
        episode = FixerEpisode(
            row["resolved"] == "1", amount_of(row.get("cost_usd"), where), amount_of(row.get("api_calls"), where)
        )
        add(found, (row["instance_id"], row["model"]), episode, where)
        versions[row["model"]] = row.get("mini_swe_agent_version") or ""
    if not found:
        raise StudyError(f"{path} has no outcome. Take the table as it was published.")
    ids = tuple(dict.fromkeys(task for task, _ in found))
    benchmark = Benchmark(
        name=name,
        source=f"public outcomes, {path.name}",
        ids=ids,
        repositories=tuple(_repository(task) for task in ids),
        played={"solo": played(ids, tuple(versions), found)},
    )
    return Public(benchmark, versions)


def with_tasks(benchmark: Benchmark, path: Path) -> Benchmark:
    """With the texts of a task file, and each task's language: that of most true files of its repository."""
    files: dict[str, list[str]] = {}
    for number, row in read_rows(path):
        gold = row.get("gold_files") or []
        if not isinstance(gold, list) or not all(isinstance(name, str) for name in gold):
            raise StudyError(f"{path}, row {number}: gold_files is {gold!r:.80}. Write a list of paths.")
        files.setdefault(str(row.get("repo")), []).extend(gold)
    languages = {repository: language_of(paths) for repository, paths in files.items()}
    return replace(
        benchmark,
        texts=read_texts(path),
        languages={str(row["instance_id"]): languages[str(row.get("repo"))] for _, row in read_rows(path)},
    )


def _repository(task: str) -> str:
    """Of a public task; SWE-bench Pro's ids go on with a commit, of 40 digits."""
    return _COMMIT.sub("", task.removeprefix("instance_")) if task.startswith("instance_") else repository_of(task)
