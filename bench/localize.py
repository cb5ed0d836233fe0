"""How well and how fast recon finds what has to change, on tasks whose answer is known, with BM25 alone beside it.

    python bench/localize.py --tasks FILE.jsonl[.gz] --mirrors DIR [--limit N] [--json] [--predictions FILE]
                             [--jobs N] [--no-timing] [--out bench/results/FILE.json]

DIR holds bare clones named owner+name/repo, in any case. A row has instance_id, repo, base_commit, problem_statement,
gold_files, gold_regions, and maybe requirements and interface, which join the text. Each prediction is made from text,
clone and commit alone; gold is opened when it is complete. One JSON object goes to stdout; progress and, without
--json, a short table go to stderr.

recall, precision, f1    of the files named, against gold_files as given, files that do not exist yet included; means of
                         the tasks' own values; nothing named counts as precision 0
all_gold                 share of tasks with every gold file named
file_acc k               share of tasks with every gold file among the first k of the ranking
function_acc k           share of tasks with every gold function among the first k functions, classes left out of both;
                         a gold function is the innermost one in the index around a line of gold_regions, and only the
                         `function_n` tasks that have one are counted
intervals                95%, from resampling tasks 2,000 times
bm25                     the ranking of BM25 over the words of the text, naming as many files as recon does on average
seconds                  reading the index and searching, of up to 12 tasks, one after the other when all else is done,
                         each in processes of its own: cold with an empty cache folder, warm in a new process after it.
                         The system's own cache of files is not emptied, and imports are not counted
peak_mb                  the most that any one process had in memory: a searcher, one that reads files for it, or git
                         (the part of its packs that it looked at included). Processes are not added up
unread                   ids of the tasks whose commit the clone does not hold; they count nowhere else
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np
from record import record

from scrout.base import ScroutError, TaskError
from scrout.index.repository import Repository, read_repository
from scrout.index.words import count_words
from scrout.lab.train.history import mirror, open_mirror

AT_FILES = (1, 3, 5, 10)
AT_FUNCTIONS = (5, 10)
SHOWN = 20
TIMED_TASKS = 12
TIMED_FILES = 5_000
"""The size of repository that the target for time is set for."""
RESAMPLES = 2_000

Result = TypeVar("Result")


@dataclass(frozen=True)
class Query:
    """All that a searcher may know of a task."""

    id: str
    repo: str
    text: str
    commit: str
    git_dir: Path
    created_at: str = ""
    """For the order of the work alone."""


@dataclass(frozen=True)
class Answer:
    """What scoring alone may know."""

    files: tuple[str, ...]
    regions: Mapping[str, Sequence[Sequence[int]]]

    @property
    def language(self) -> str:
        """The most common suffix of its files."""
        suffixes = Counter(PurePosixPath(path).suffix.lstrip(".") or "none" for path in self.files)
        return min(suffixes, key=lambda suffix: (-suffixes[suffix], suffix), default="none")


@dataclass(frozen=True)
class Prediction:
    """What was found, best first."""

    named: tuple[str, ...]
    ranking: tuple[str, ...]
    functions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Measured:
    """One task: both predictions, and what the index holds around the gold lines."""

    query: Query
    recon: Prediction
    bm25: Prediction
    answer: Answer
    gold_functions: frozenset[tuple[str, str]]
    files: int
    """In the repository."""
    peak_mb: float


@dataclass(frozen=True)
class Score:
    """How good one prediction is."""

    recall: float
    precision: float
    f1: float
    all_gold: float
    files_named: float
    file_acc: tuple[float, ...]
    function_acc: tuple[float, ...] | None
    """None: no function is around the gold lines."""


def read_tasks(path: Path, mirrors: Path, limit: int | None) -> list[tuple[Query, Answer]]:
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")
    rows = [json.loads(line) for line in lines if line.strip()]
    if limit is not None and limit < len(rows):
        rows = [rows[number * len(rows) // limit] for number in range(limit)]
    clones: dict[str, Path] = {}
    tasks = []
    for row in rows:
        repo = row["repo"]
        if repo not in clones:
            clones[repo] = open_mirror(mirror(mirrors.absolute(), repo))
        created_at = row.get("created_at") or ""
        query = Query(row["instance_id"], repo, text_of(row), row["base_commit"], clones[repo], created_at)
        tasks.append((query, Answer(tuple(row["gold_files"]), row.get("gold_regions") or {})))
    return tasks


def text_of(row: Mapping[str, str]) -> str:
    """The issue, then requirements and interface where there are some, as the long-form tasks are published."""
    text = _decoded(row["problem_statement"])
    for heading, field in (("Requirements:", "requirements"), ("New interfaces introduced:", "interface")):
        if row.get(field):
            text += f"\n\n{heading}\n{_decoded(row[field])}"
    return text


def _decoded(text: str) -> str:
    """Some published fields are JSON strings; only text that encodes to the very same bytes is taken for one."""
    if text.startswith('"'):
        try:
            inner = json.loads(text)
        except ValueError:
            return text
        if isinstance(inner, str) and text in (json.dumps(inner), json.dumps(inner, ensure_ascii=False)):
            return inner
    return text


def predict(query: Query, repository: Repository) -> Prediction:
    from scrout.scout.recon.search import search

    found = search(query.text, repository)
    kinds = {
        (path, definition.name, definition.first): definition.kind
        for path in {function.path for function in found.functions}
        for definition in repository.files[path].definitions
    }
    functions = [f for f in found.functions if kinds[f.path, f.name, f.first] == "function"]
    return Prediction(
        tuple(ranked.path for ranked in found.named),
        tuple(ranked.path for ranked in found.ranked),
        tuple(dict.fromkeys((function.path, function.name) for function in functions)),
    )


def predict_bm25(query: Query, repository: Repository) -> Prediction:
    words = {word: float(count) for word, count in count_words(query.text).items()}
    scores = repository.bm25(words)
    best = np.argsort(-scores, kind="stable")[:SHOWN]
    return Prediction((), tuple(repository.paths[position] for position in best if scores[position] > 0))


def gold_functions(repository: Repository, answer: Answer) -> frozenset[tuple[str, str]]:
    """The innermost functions around changed lines; a line of a class outside of its methods is in none."""
    found = set()
    for path, spans in answer.regions.items():
        if path in repository.files:
            functions = [d for d in repository.files[path].definitions if d.kind == "function"]
            for line in {line for first, last in spans for line in range(first, last + 1)}:
                around = [function for function in functions if function.first <= line <= function.last]
                if around:
                    found.add((path, min(around, key=lambda function: function.last - function.first).name))
    return frozenset(found)


def measure(tasks: Sequence[tuple[Query, Answer]]) -> list[Measured | str]:
    """Tasks of one repository; the id alone of one whose commit cannot be read."""
    done: list[Measured | str] = []
    for number, (query, answer) in enumerate(tasks, 1):
        try:
            repository = read_repository(query.git_dir, query.commit)
        except TaskError as error:
            print(f"{query.id}: {error}", file=sys.stderr)
            done.append(query.id)
            continue
        recon, bm25 = predict(query, repository), predict_bm25(query, repository)
        around = gold_functions(repository, answer)
        done.append(Measured(query, recon, bm25, answer, around, len(repository.paths), _peak_mb()))
        if number % 10 == 0:
            print(f"{query.repo}: {number} of {len(tasks)}", file=sys.stderr)
    return done


def _peak_mb() -> float:
    kilobytes = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return kilobytes / (1024 * 1024 if sys.platform == "darwin" else 1024)


def score(prediction: Prediction, answer: Answer, functions: frozenset[tuple[str, str]] = frozenset()) -> Score:
    gold, named = set(answer.files), set(prediction.named)
    hits = len(gold & named)
    recall = hits / len(gold) if gold else 0.0
    precision = hits / len(named) if named else 0.0
    found = tuple(float(functions <= set(prediction.functions[:k])) for k in AT_FUNCTIONS)
    return Score(
        recall=recall,
        precision=precision,
        f1=2 * recall * precision / (recall + precision) if hits else 0.0,
        all_gold=float(bool(gold) and gold <= named),
        files_named=float(len(named)),
        file_acc=tuple(float(bool(gold) and gold <= set(prediction.ranking[:k])) for k in AT_FILES),
        function_acc=found if functions else None,
    )


def summary(scores: Sequence[Score], with_functions: bool = True) -> dict[str, object]:
    """Means over tasks, in the layout of the result."""
    told = [one.function_acc for one in scores if one.function_acc is not None]
    result: dict[str, object] = {"n": len(scores)}
    for name in ("recall", "precision", "f1", "all_gold", "files_named"):
        result[name] = _mean([getattr(one, name) for one in scores])
    result["file_acc"] = {str(k): _mean([one.file_acc[at] for one in scores]) for at, k in enumerate(AT_FILES)}
    if with_functions:
        result["function_acc"] = {str(k): _mean([one[at] for one in told]) for at, k in enumerate(AT_FUNCTIONS)}
        result["function_n"] = len(told)
    return result


def intervals(scores: Sequence[Score]) -> dict[str, object]:
    columns = {name: [getattr(one, name) for one in scores] for name in ("recall", "precision", "f1", "all_gold")}
    columns |= {f"file_acc {k}": [one.file_acc[at] for one in scores] for at, k in enumerate(AT_FILES)}
    told = [one.function_acc for one in scores if one.function_acc is not None]
    columns |= {f"function_acc {k}": [one[at] for one in told] for at, k in enumerate(AT_FUNCTIONS)}
    return {name: interval(values) for name, values in columns.items()}


def interval(values: Sequence[float]) -> list[float] | None:
    """Where the mean lies with 95%; None: there is nothing to resample."""
    if not values:
        return None
    drawn = np.random.default_rng(0).choice(np.asarray(values), size=(RESAMPLES, len(values)))
    return [round(float(edge), 4) for edge in np.quantile(drawn.mean(axis=1), (0.025, 0.975))]


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 4) if values else None


def grouped(done: Sequence[Measured], scores: Sequence[Score], key: Callable[[Measured], str]) -> dict[str, object]:
    groups: dict[str, list[Score]] = defaultdict(list)
    for one, scored in zip(done, scores, strict=True):
        groups[key(one)].append(scored)
    return {name: summary(group) for name, group in sorted(groups.items())}


def alone(work: Callable[[Query], Result], query: Query, cache: Path) -> Result:
    """What a new process gives, with a cache folder of its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=_use_cache, initargs=(cache,)) as process:
        return process.submit(work, query).result()


def _use_cache(folder: Path) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder)


def timed(query: Query) -> tuple[float, float]:
    """Seconds of one search, imports not counted, and the peak of this process."""
    from scrout.scout.recon import search as _  # noqa: F401

    started = time.perf_counter()
    predict(query, read_repository(query.git_dir, query.commit))
    return time.perf_counter() - started, _peak_mb()


def timing(done: Sequence[Measured]) -> tuple[dict[str, object], float]:
    """Cold and warm seconds of a few tasks: one of a repository of the target's size, the others by digest."""
    by_digest = sorted(done, key=lambda one: hashlib.sha256(one.query.id.encode()).digest())
    sized = min(by_digest, key=lambda one: abs(one.files - TIMED_FILES))
    chosen = [sized, *(one for one in by_digest if one is not sized)][:TIMED_TASKS]
    rows: list[dict[str, object]] = []
    peaks_mb = []
    seconds: dict[str, list[float]] = {"cold": [], "warm": []}
    for one in chosen:
        with tempfile.TemporaryDirectory() as cache:
            for state, took in seconds.items():
                second, peak_mb = alone(timed, one.query, Path(cache))
                took.append(second)
                peaks_mb.append(peak_mb)
                print(f"{one.query.id} {state} {second:.2f} s, {one.files:,} files", file=sys.stderr)
        last = {state: round(took[-1], 3) for state, took in seconds.items()}
        rows.append({"id": one.query.id, "files": one.files, **last})
    result: dict[str, object] = {}
    for state, took in seconds.items():
        result[f"{state}_median"] = round(float(np.median(took)), 3)
        result[f"{state}_p95"] = round(float(np.quantile(took, 0.95)), 3)
    return {**result, "tasks": rows}, max(peaks_mb)


def report(done: Sequence[Measured]) -> dict[str, object]:
    """Everything but time."""
    scores = [score(one.recon, one.answer, one.gold_functions) for one in done]
    names = round(statistics.fmean(one.files_named for one in scores)) if scores else 0
    plain = [score(replace(one.bm25, named=one.bm25.ranking[: max(names, 1)]), one.answer) for one in done]
    return {
        **summary(scores),
        "intervals": intervals(scores),
        "by_repo": grouped(done, scores, lambda one: one.query.repo),
        "by_language": grouped(done, scores, lambda one: one.answer.language),
        "bm25": summary(plain, with_functions=False),
    }


def prediction_line(one: Measured) -> str:
    found = one.recon
    return json.dumps(
        {
            "instance_id": one.query.id,
            "files": list(found.named),
            "ranking": list(found.ranking[:SHOWN]),
            "functions": [f"{path}::{name}" for path, name in found.functions[:SHOWN]],
        }
    )


def run(tasks: Sequence[tuple[Query, Answer]], jobs: int) -> list[Measured | str]:
    """In the order given. A process has one repository at a time: neighbours in history share most of an index."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number in sorted(range(len(tasks)), key=lambda number: (tasks[number][0].created_at, number)):
        groups[tasks[number][0].repo].append(number)
    # The largest first: a small one is a better last.
    order = sorted(groups.values(), key=len, reverse=True)
    outcomes: dict[int, Measured | str] = {}
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for numbers, measured in zip(
            order, pool.map(measure, ([tasks[n] for n in group] for group in order)), strict=True
        ):
            outcomes |= zip(numbers, measured, strict=True)
            print(f"{len(outcomes)} of {len(tasks)} tasks", file=sys.stderr)
    return [outcomes[number] for number in range(len(tasks))]


def table(result: Mapping[str, object], columns: Iterable[str] = ("recall", "precision", "f1", "all_gold")) -> str:
    plain = result["bm25"]
    assert isinstance(plain, dict)
    lines = [f"{name:12} recon {result[name]}  bm25 {plain[name]}" for name in (*columns, "files_named", "file_acc")]
    return "\n".join([*lines, f"{'function_acc':12} recon {result['function_acc']}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True, help="rows as JSON lines, also compressed (.gz)")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare clones named owner+name/repo")
    parser.add_argument("--limit", type=int, help="take so many rows, evenly spaced over the file")
    parser.add_argument("--json", action="store_true", help="the JSON object alone, without a table on stderr")
    parser.add_argument("--predictions", type=Path, help="write what was found, one line a task")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one repository at a time")
    parser.add_argument("--no-timing", action="store_true", help="leave `seconds` out, which take a cold pass")
    parser.add_argument("--out", type=Path, help="write the JSON object there too")
    asked = parser.parse_args()
    try:
        tasks = read_tasks(asked.tasks, asked.mirrors, asked.limit)
    except (ScroutError, OSError) as error:
        parser.error(str(error))
    outcomes = run(tasks, asked.jobs)
    done = [one for one in outcomes if isinstance(one, Measured)]
    unread = [one for one in outcomes if isinstance(one, str)]
    if asked.predictions:
        asked.predictions.write_text("".join(prediction_line(one) + "\n" for one in done), encoding="utf-8")
    result = report(done)
    seconds: dict[str, object] | None = None
    peak_mb = max((one.peak_mb for one in done), default=0.0)
    if done and not asked.no_timing:
        seconds, timed_mb = timing(done)
        peak_mb = max(peak_mb, timed_mb)
    result |= {"seconds": seconds, "peak_mb": round(peak_mb), "unread": unread}
    if not asked.json:
        print(table(result), file=sys.stderr)
    record(result, asked.out)


if __name__ == "__main__":
    main()
