"""Would a sentence encoder help recon? Its regressions with and without two more signals, on repositories not seen.

    python bench/embeddings.py --tasks FILE.jsonl[.gz] --mirrors DIR --model FOLDER [--limit N] [--out FILE.json]

DIR holds bare clones named owner+name/repo; FOLDER holds a model in the form of transformers, such as all-MiniLM-L6-v2.
Tasks are rows as in bench/localize.py, of repositories that may be trained on. Needs the extras `states` and `train`.

The encoder reads the issue and the 120 functions that recon finds likeliest. One signal is the cosine of a function to
the issue, the other the best cosine of a file's functions, both in standard deviations within the task. Both arms are
fitted as `scrout.lab.train.ranker` does and judged in its folds by repository; the functions' regression sees the
probability that the files' regression of its own arm gave in the fold. Fitting is the whole difference: what recon adds
for paths that an issue spells out is in neither arm.

Two things come from the weights that ship, which have seen these tasks: the shortlist of files, alike in both arms, and
the choice of the 120 functions, which favours the encoder if anything.

first_right              share of tasks whose first file is a gold one
others                   as in bench/localize.py; function_acc counts `function_n` tasks
with_less_without        means and 95% intervals of the tasks' own differences, from resampling tasks 2,000 times
alone                    the same files and functions, ranked by the encoder's signals and nothing else
cpu_seconds              of embedding one task's texts on one thread, without the cache, for up to 12 tasks
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
from localize import AT_FUNCTIONS, Answer, Prediction, gold_functions, interval, score
from record import record

from scrout.base import ScroutError
from scrout.index.bm25 import Scores
from scrout.index.repository import read_repository
from scrout.lab.train.history import mirror, open_mirror
from scrout.lab.train.ranker import STRENGTH, RegressionRows, TaskRows, held_out, learn, read_tasks
from scrout.scout.recon.ranker import load_model
from scrout.scout.recon.search import Ranked, cut, examine

EMBEDDED = 120
"""Functions a task."""
ISSUE_CHARS, ISSUE_TOKENS = 1_500, 256
FUNCTION_CHARS, FUNCTION_TOKENS = 500, 96
BATCH = 64
TIMED_TASKS = 12
MAX_FILES = 5
"""The default of `scout.max_files`."""

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Encode = Callable[[Sequence[str], int], Vectors]
"""Texts, and the tokens that each is cut to; one vector of length 1 a text."""
Figures = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """One task: what recon measured, what an encoder may read, and what is right."""

    lessons: TaskRows
    paths: tuple[str, ...]
    """Of the files' rows."""
    functions: tuple[tuple[str, str, str], ...]
    """Path, name and kind of the functions' rows."""
    file_of: Rows
    """The file's row of each function."""
    issue: str
    likely: Rows
    """Functions that are embedded."""
    texts: tuple[str, ...]
    """One for each of these."""
    answer: Answer
    gold: frozenset[tuple[str, str]]
    """Functions around the changed lines."""


@dataclass(frozen=True)
class Nearness:
    """What the encoder says of one task."""

    files: Scores
    functions: Scores


def read_case(row: Mapping[str, object], mirrors: Path) -> Case | None:
    """None: the clone lacks the commit."""
    lessons = learn(row, mirrors)
    if lessons is None:
        return None
    repository = read_repository(open_mirror(mirror(mirrors, str(row["repo"]))), str(row["base_commit"]))
    issue = str(row["problem_statement"])
    model = load_model()
    examined = examine(issue, repository, model.shortlist)
    ranked_functions = examined.ranked_functions
    probability = model.functions.score(dict(zip(lessons.functions.names, lessons.functions.values.T, strict=True)))
    likely = np.argsort(-probability, kind="stable")[:EMBEDDED]
    opened = {ranked_functions.paths[at] for at in likely.tolist()}
    lines = {path: content.splitlines() for path, content in repository.read(sorted(opened))}
    texts = []
    for at in likely.tolist():
        path, own = ranked_functions.paths[at], ranked_functions.definitions[at]
        texts.append(function_text(path, own.name, lines.get(path, [])[own.first - 1 : own.last]))
    files, regions = row["gold_files"], row["gold_regions"]
    assert isinstance(files, list) and isinstance(regions, dict)
    answer = Answer(tuple(files), regions)
    return Case(
        lessons=lessons,
        paths=tuple(repository.paths[at] for at in examined.rows.tolist()),
        functions=tuple(
            (path, own.name, own.kind)
            for path, own in zip(ranked_functions.paths, ranked_functions.definitions, strict=True)
        ),
        file_of=examined.passage_rows,
        issue=issue.strip()[:ISSUE_CHARS],
        likely=likely,
        texts=tuple(texts),
        answer=answer,
        gold=gold_functions(repository, answer),
    )


def function_text(path: str, name: str, lines: Sequence[str]) -> str:
    """Indentation would use up the tokens."""
    return f"{path} {name}\n" + re.sub(r"\s+", " ", "\n".join(lines))[:FUNCTION_CHARS]


def load_encoder(folder: Path) -> Encode:
    """Mean pooling over a model's last layer, on one thread."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()

    def encode(texts: Sequence[str], tokens: int) -> Vectors:
        vectors = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
        # A batch is as long as its longest text.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            given = tokenizer(
                [texts[at] for at in batch], padding=True, truncation=True, max_length=tokens, return_tensors="pt"
            )
            with torch.inference_mode():
                states = model(**given).last_hidden_state
            mask = given["attention_mask"][..., None]
            pooled = (states * mask).sum(dim=1) / mask.sum(dim=1)
            vectors[batch] = torch.nn.functional.normalize(pooled, dim=1).numpy()
        return vectors

    return encode


def remembering(encode: Encode) -> Encode:
    """The same, but a text is read once: commits of a repository share most of their functions."""
    known: dict[tuple[str, int], Vectors] = {}

    def recall(texts: Sequence[str], tokens: int) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if (text, tokens) not in known]
        if new:
            known.update(zip(((text, tokens) for text in new), encode(new, tokens), strict=True))
        return np.stack([known[text, tokens] for text in texts])

    return recall


def nearness(case: Case, encode: Encode) -> Nearness:
    """Cosines in standard deviations; a function that was not embedded, or a file without one, has the lowest."""
    if not case.texts:
        return Nearness(np.zeros(len(case.paths)), np.zeros(len(case.functions)))
    cosine = (encode(case.texts, FUNCTION_TOKENS) @ encode([case.issue], ISSUE_TOKENS)[0]).astype(np.float64)
    apart = (cosine - cosine.mean()) / (cosine.std() + 1e-6)
    functions = np.full(len(case.functions), apart.min())
    functions[case.likely] = apart
    files = np.full(len(case.paths), apart.min())
    np.maximum.at(files, case.file_of, functions)
    return Nearness(files, functions)


def predict(cases: Sequence[Case], near: Sequence[Nearness] | None) -> list[Prediction]:
    """What fits on other repositories make of each case, with the encoder's signals or without."""
    files = [case.lessons.files for case in cases]
    functions = [case.lessons.functions for case in cases]
    if near is not None:
        files = [_more(lesson, own.files) for lesson, own in zip(files, near, strict=True)]
        functions = [_more(lesson, own.functions) for lesson, own in zip(functions, near, strict=True)]
    probabilities = _judged(files, STRENGTH["files"])
    functions = [
        _under(lesson, probabilities[id(file)][case.file_of])
        for lesson, file, case in zip(functions, files, cases, strict=True)
    ]
    # As the ranker does: a task whose function was not found teaches nothing about functions. Here it is a miss.
    found = _judged([lesson for lesson in functions if lesson.changed.any()], STRENGTH["functions"])
    return [
        ranked(case, probabilities[id(file)], found.get(id(lesson)))
        for case, file, lesson in zip(cases, files, functions, strict=True)
    ]


def _judged(lessons: Sequence[RegressionRows], strength: float) -> dict[int, Scores]:
    """By identity: folds come in an order of their own."""
    return {id(lesson): probability for lesson, probability in held_out(lessons, strength)}


def _more(lesson: RegressionRows, signal: Scores) -> RegressionRows:
    return replace(lesson, names=(*lesson.names, "nearness"), values=np.column_stack([lesson.values, signal]))


def _under(lesson: RegressionRows, probability: Scores) -> RegressionRows:
    """With the log odds of a function's file from the fold; those that ship have seen the task."""
    values = lesson.values.copy()
    sure = np.clip(probability, 1e-9, 1 - 1e-9)
    values[:, lesson.names.index("file")] = np.log(sure / (1 - sure))
    return replace(lesson, values=values)


def ranked(case: Case, files: Scores, functions: Scores | None) -> Prediction:
    """The rows of a case, best first. Of functions, None: nothing was found."""
    order = np.argsort(-files, kind="stable").tolist()
    best = [Ranked(case.paths[at], float(files[at]), ()) for at in order]
    rows = [] if functions is None else np.argsort(-functions, kind="stable").tolist()
    named = [case.functions[at][:2] for at in rows if case.functions[at][2] == "function"]
    return Prediction(
        tuple(file.path for file in cut(best, MAX_FILES)),
        tuple(file.path for file in best),
        tuple(dict.fromkeys(named)),
    )


def figures(case: Case, found: Prediction) -> Figures:
    """Of one task; without those of functions where none is around the changed lines."""
    one = score(found, case.answer, case.gold)
    told = zip(AT_FUNCTIONS, one.function_acc or (), strict=False)
    return {
        "first_right": float(bool(set(found.ranking[:1]) & set(case.answer.files))),
        "recall": one.recall,
        "precision": one.precision,
        "f1": one.f1,
        "files_named": one.files_named,
        **{f"function_acc {k}": value for k, value in told},
    }


def means(tasks: Sequence[Figures]) -> dict[str, float]:
    """Over the tasks that have a figure."""
    return {name: round(float(np.mean(column)), 4) for name, column in _columns(tasks).items()}


def differences(ours: Sequence[Figures], theirs: Sequence[Figures]) -> dict[str, object]:
    """Ours less theirs, task by task."""
    pairs = zip(ours, theirs, strict=True)
    columns = _columns([{name: value - other[name] for name, value in one.items()} for one, other in pairs])
    return {
        name: {"mean": round(float(np.mean(column)), 4), "interval": interval(column)}
        for name, column in columns.items()
    }


def _columns(tasks: Sequence[Figures]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for task in tasks for name in task)
    return {name: [task[name] for task in tasks if name in task] for name in names}


def cpu_seconds(cases: Sequence[Case], encode: Encode) -> dict[str, float]:
    """Of the processor and not of the clock, which others slow down."""
    count = min(TIMED_TASKS, len(cases))
    took = []
    for case in (cases[number * len(cases) // count] for number in range(count)):
        started = time.process_time()
        nearness(case, encode)
        took.append(time.process_time() - started)
    return {"tasks": count, "median": round(float(np.median(took)), 2), "most": round(max(took), 2)}


def report(cases: Sequence[Case], near: Sequence[Nearness]) -> dict[str, object]:
    """Both arms, what lies between them, and the encoder alone."""
    arms = {}
    for name, signals in (("without", None), ("with", near)):
        found = predict(cases, signals)
        arms[name] = [figures(case, own) for case, own in zip(cases, found, strict=True)]
    alone = means(
        [figures(case, ranked(case, own.files, own.functions)) for case, own in zip(cases, near, strict=True)]
    )
    # A cosine is no probability, so a list cannot be cut by it.
    uncut = ("first_right", *(f"function_acc {k}" for k in AT_FUNCTIONS))
    return {
        "n": len(cases),
        "function_n": sum(bool(case.gold) for case in cases),
        "by_repo": dict(sorted(Counter(case.lessons.files.group for case in cases).items())),
        **{name: means(tasks) for name, tasks in arms.items()},
        "with_less_without": differences(arms["with"], arms["without"]),
        "alone": {name: alone[name] for name in uncut if name in alone},
        "texts": {
            "functions": sum(len(case.texts) for case in cases),
            "distinct": len({text for case in cases for text in case.texts}),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True, help="rows as JSON lines, also compressed (.gz)")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare clones named owner+name/repo")
    parser.add_argument("--model", type=Path, required=True, help="folder of the encoder")
    parser.add_argument("--limit", type=int, help="take so many rows, evenly spaced over the file")
    parser.add_argument("--out", type=Path, help="write the JSON object there too")
    asked = parser.parse_args()
    mirrors = asked.mirrors.absolute()
    cases: list[Case] = []
    near: list[Nearness] = []
    unread: list[str] = []
    try:
        rows = read_tasks([asked.tasks])
        if asked.limit is not None and asked.limit < len(rows):
            rows = [rows[number * len(rows) // asked.limit] for number in range(asked.limit)]
        weights = hashlib.sha256((asked.model / "model.safetensors").read_bytes()).hexdigest()
        plain = load_encoder(asked.model)
        encode = remembering(plain)
        # Neighbours share most of their index.
        for number, row in enumerate(sorted(rows, key=lambda row: (str(row["repo"]), str(row.get("created_at")))), 1):
            case = read_case(row, mirrors)
            if case is None:
                unread.append(str(row["instance_id"]))
                continue
            cases.append(case)
            near.append(nearness(case, encode))
            if number % 25 == 0:
                print(f"{number} of {len(rows)} tasks", file=sys.stderr)
    except (ScroutError, OSError) as error:
        parser.error(str(error))
    if len({case.lessons.files.group for case in cases}) < 2:
        parser.error(f"{asked.tasks} has tasks of fewer than two repositories; one is judged by a fit on the others.")
    result = {
        **{name: version(name) for name in ("torch", "transformers", "scikit-learn")},
        "model_sha256": weights,
        **report(cases, near),
        "cpu_seconds": cpu_seconds(cases, plain),
        "unread": unread,
    }
    record(result, asked.out)


if __name__ == "__main__":
    main()
