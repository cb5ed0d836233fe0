"""Fits what recon ranks by: three logistic regressions over its signals, on tasks whose changed files are known.

    python -m scrout.lab.train.ranker --tasks FILE... --mirrors DIR --out weights.json [--jobs N]

DIR holds bare clones named owner+name/repo. The shortlist that the signals are read with is the one that ships, so
after a change of signals run it twice. Needs scikit-learn: pip install 'scrout[train]'.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scrout.base import ScroutError, TaskError
from scrout.git import repository_at
from scrout.index.bm25 import Scores
from scrout.index.repository import Repository, read_repository
from scrout.lab.train.blocklist import refuse_blocked
from scrout.lab.train.history import mirror
from scrout.scout.recon.ranker import Logistic, load_model
from scrout.scout.recon.search import ExaminedRepository, Ranked, cut, examine

ROUGHLY_RANKED = 200
"""Files a task that teach the shortlist; the rest of a repository is never close."""
STRENGTH = {"shortlist": 0.1, "files": 0.02, "functions": 0.05}
"""The regressions' C: smaller keeps the weights smaller. Chosen by folds over repositories."""
FOLDS = 8

Names = tuple[str, ...]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RegressionRows:
    """Rows of one task for one of the regressions."""

    group: str
    """The repository, or what else is held out together."""
    names: Names
    values: Matrix
    changed: npt.NDArray[np.bool_]
    missed: int = 0
    """Changed files that no row stands for."""


@dataclass(frozen=True)
class TaskRows:
    """What one task teaches."""

    shortlist: RegressionRows
    files: RegressionRows
    functions: RegressionRows


def read_tasks(paths: Iterable[Path]) -> list[Mapping[str, object]]:
    """The rows of task files. Refuses any of a repository that nothing is trained on."""
    rows: list[Mapping[str, object]] = []
    for path in paths:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        rows += [json.loads(line) for line in data.splitlines() if line.strip()]
    refuse_blocked(str(row["repo"]) for row in rows)
    refuse_blocked(str(row["instance_id"]) for row in rows)
    return rows


def learn(row: Mapping[str, object], mirrors: Path) -> TaskRows | None:
    """None: the clone lacks the commit."""
    repo = str(row["repo"])
    refuse_blocked([repo])
    with repository_at(mirror(mirrors, repo)).borrowed() as git:
        try:
            repository = read_repository(git.path, str(row["base_commit"]))
        except TaskError:
            return None
        return _lessons(row, repo, repository)


def _lessons(row: Mapping[str, object], repo: str, repository: Repository) -> TaskRows:
    gold = row["gold_files"]
    regions = row["gold_regions"]
    assert isinstance(gold, list) and isinstance(regions, dict)
    examined = examine(str(row["problem_statement"]), repository, load_model().shortlist)
    changed = np.array([repository.position[path] for path in gold if path in repository.position], dtype=np.int64)
    return TaskRows(
        shortlist=_shortlist(repo, examined, changed),
        files=_lesson(repo, examined.values, np.isin(examined.rows, changed), missed=len(gold)),
        functions=_functions(repo, examined, repository, regions),
    )


def _shortlist(repo: str, examined: ExaminedRepository, changed: npt.NDArray[np.int64]) -> RegressionRows:
    values = examined.signals.values
    order = np.argsort(-load_model().shortlist.score(values), kind="stable")
    rows = np.union1d(order[:ROUGHLY_RANKED], changed)
    return _lesson(repo, {name: every[rows] for name, every in values.items()}, np.isin(rows, changed))


def _functions(
    repo: str, examined: ExaminedRepository, repository: Repository, regions: Mapping[str, Sequence[Sequence[int]]]
) -> RegressionRows:
    ranked_functions = examined.ranked_functions
    gold = {
        (path, around.first)
        for path, spans in regions.items()
        if path in repository.files
        for first, last in spans
        for line in range(first, last + 1)
        if (around := repository.files[path].function(line))
    }
    changed = [
        (path, own.first) in gold
        for path, own in zip(ranked_functions.paths, ranked_functions.definitions, strict=True)
    ]
    score = load_model().files.score(examined.values)
    return _lesson(
        repo, ranked_functions.values | {"file": score[examined.passage_rows]}, np.array(changed, dtype=np.bool_)
    )


def _lesson(
    group: str, values: Mapping[str, Scores], changed: npt.NDArray[np.bool_], missed: int = 0
) -> RegressionRows:
    names = tuple(sorted(values))
    matrix = np.stack([values[name] for name in names], axis=1) if len(changed) else np.zeros((0, len(names)))
    return RegressionRows(group, names, matrix, changed, max(0, missed - int(changed.sum())))


def fit(lessons: Sequence[RegressionRows], strength: float) -> Logistic:
    """One regression, its weights for the values as they are."""
    from sklearn.linear_model import LogisticRegression

    values = np.concatenate([lesson.values for lesson in lessons])
    changed = np.concatenate([lesson.changed for lesson in lessons])
    scale = values.std(axis=0)
    scale[scale == 0] = 1.0  # a signal that never varies teaches nothing
    fitted = LogisticRegression(C=strength, max_iter=2_000).fit(values / scale, changed)
    weights = fitted.coef_[0] / scale
    named = {name: round(float(weight), 4) for name, weight in zip(lessons[0].names, weights, strict=True)}
    return Logistic(named, round(float(fitted.intercept_[0]), 4))


def held_out(lessons: Sequence[RegressionRows], strength: float) -> Iterator[tuple[RegressionRows, Scores]]:
    """Every task with probabilities from a fit that has not seen its group."""
    folds = [zlib.crc32(lesson.group.encode()) % FOLDS for lesson in lessons]
    for fold in sorted(set(folds)):
        model = fit([lesson for lesson, own in zip(lessons, folds, strict=True) if own != fold], strength)
        for lesson, own in zip(lessons, folds, strict=True):
            if own == fold:
                yield lesson, model.predict_proba(dict(zip(lesson.names, lesson.values.T, strict=True)))


def scored(judged: Iterable[tuple[RegressionRows, Scores]], max_files: int = 5) -> dict[str, float]:
    """How good the cut list of files is, and whether the probabilities are honest."""
    found = []
    for lesson, probability in judged:
        order = np.argsort(-probability, kind="stable")
        named = cut([Ranked(str(row), float(probability[row]), ()) for row in order.tolist()], max_files)
        hits = int(lesson.changed[order[: len(named)]].sum())
        gold = int(lesson.changed.sum()) + lesson.missed
        first = bool(lesson.changed[order[:1]].any())
        hoped = float(probability[order[: len(named)]].sum())
        found.append((first, hits / max(1, gold), hits / max(1, len(named)), len(named), hits == gold, hits, hoped))
    table = np.array(found, dtype=np.float64)
    mean = table.mean(axis=0)
    return {
        "tasks": len(found),
        "first_right": round(float(mean[0]), 4),
        "recall": round(float(mean[1]), 4),
        "precision": round(float(mean[2]), 4),
        "files_named": round(float(mean[3]), 4),
        "all_gold": round(float(mean[4]), 4),
        "promised_over_kept": round(float(table[:, 6].sum() / max(1.0, table[:, 5].sum())), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scrout.lab.train.ranker", description=__doc__)
    parser.add_argument("--tasks", type=Path, nargs="+", required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    try:
        rows = read_tasks(given.tasks)
    except ScroutError as error:
        parser.exit(2, f"{error}\n")
    # Neighbours share most of their index.
    rows.sort(key=lambda row: (str(row["repo"]), str(row.get("created_at"))))
    learned: list[TaskRows] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for number, lessons in enumerate(pool.map(learn, rows, [given.mirrors] * len(rows), chunksize=8), 1):
            learned += [lessons] if lessons is not None else []
            if number % 25 == 0:
                print(f"{number} of {len(rows)} tasks read", file=sys.stderr)
    kinds = {
        "shortlist": [lessons.shortlist for lessons in learned],
        "files": [lessons.files for lessons in learned],
        "functions": [lessons.functions for lessons in learned if lessons.functions.changed.any()],
    }
    held = scored(held_out(kinds["files"], STRENGTH["files"]))
    models = {kind: fit(lessons, STRENGTH[kind]) for kind, lessons in kinds.items()}
    stored = {
        "trained_on": {"tasks": len(learned), "repositories": sorted({lessons.files.group for lessons in learned})},
        "held_out": held,
        **{kind: {"bias": model.bias, "weights": model.weights} for kind, model in models.items()},
    }
    given.out.write_text(json.dumps(stored, indent=1) + "\n")
    print(json.dumps(held))


if __name__ == "__main__":
    main()
