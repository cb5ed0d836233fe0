"""Searches a repository for what a text is about: every file with its probability to be changed, best first, and a
cut.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scrout.index.bm25 import Scores
from scrout.index.repository import Repository
from scrout.scout.recon.functions import RankedFunctions, rank_functions
from scrout.scout.recon.mentions import Mentions, read_mentions
from scrout.scout.recon.ranker import Logistic, Model, load_model
from scrout.scout.recon.signals import CLUE_KINDS, Clue, Signals, neighbours, read_signals

SHORTLIST = 60
"""Files that are looked at closely: nearly always all that a change needs."""
OPENED = 30
"""Of these, how many have their functions read. Tests have none that a change belongs into."""


DECLARED, SPELLED = 3.0, 1.5
"""Log odds for a path behind a label such as `Path:`, and for one in a sentence. Assumptions: in the training tasks
nearly all paths are frames of tracebacks."""
MOST_REGIONS = 3
MOST_NEW_FILES = 3

_RAN = 3.0  # log odds for a function that ran for sure and nothing else did
_REGION_DROP = 1.0  # log odds below the best function of the file
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,4}$")


@dataclass(frozen=True)
class Ranked:
    """A file with its probability to be changed and what speaks for it, strongest clue first."""

    path: str
    confidence: float
    clues: tuple[Clue, ...]
    regions: tuple[tuple[int, int], ...] = ()
    """Where in it, in the order of the file; empty: the whole file."""


@dataclass(frozen=True)
class Function:
    """A function, method or class with its probability to be changed."""

    path: str
    name: str
    first: int
    last: int
    score: float


@dataclass(frozen=True)
class Ranking:
    """What a search gave."""

    ranked: tuple[Ranked, ...]
    named: tuple[Ranked, ...]
    """The first ones, as many as are worth naming."""
    functions: tuple[Function, ...]
    new_files: tuple[str, ...]
    """Paths that the text spells out, where a file could be but is not."""


@dataclass(frozen=True)
class ExaminedRepository:
    """What is known of a text and the files on its shortlist, before the last judgement."""

    mentions: Mentions
    signals: Signals
    rows: npt.NDArray[np.int64]
    """The shortlist, by position in `repository.paths`, best first."""
    values: dict[str, Scores]
    """Signals of the shortlist."""
    ranked_functions: RankedFunctions
    passage_rows: npt.NDArray[np.int64]
    """The place on the shortlist of each passage's file."""


def search(text: str, repository: Repository, max_files: int = 5) -> Ranking:
    """Rank the files of a repository by their probability to be changed for a text."""
    model = load_model()
    return judge(examine(text, repository, model.shortlist), repository, max_files, model)


def judge(
    examined: ExaminedRepository,
    repository: Repository,
    max_files: int,
    model: Model,
    witnessed: Sequence[Clue] = (),
) -> Ranking:
    """The last judgement. Where a run of the issue's code led, a file has at least the probability that its clue
    gives.
    """
    score = model.files.score(examined.values)
    paths = [repository.paths[row] for row in examined.rows.tolist()]
    spelled = dict.fromkeys(_meant(examined.mentions.spelled, repository), SPELLED)
    spelled |= dict.fromkeys(_meant(examined.mentions.declared, repository), DECLARED)
    score = score + np.array([spelled.get(path, 0.0) for path in paths])
    # What ran need not read like the issue at all, and then it is not on the shortlist.
    unread = list(dict.fromkeys(clue.path for clue in witnessed if clue.path not in set(paths)))
    paths, score = paths + unread, np.append(score, np.full(len(unread), -np.inf))
    seen = np.array([min(0.99, max(1e-9, _seen(path, witnessed))) for path in paths])
    score = np.maximum(score, np.log(seen / (1 - seen)))
    probability = 1 / (1 + np.exp(-score))
    functions = _functions(examined, score, model.functions, witnessed)
    clues: dict[str, list[Clue]] = defaultdict(list)
    for clue in (*witnessed, *examined.signals.clues):
        clues[clue.path].append(clue)
    ranked = []
    for place in np.argsort(-score, kind="stable").tolist():
        path = paths[place]
        own = tuple(
            sorted(
                clues[path],
                key=lambda clue: (CLUE_KINDS.index(clue.kind), -clue.weight, clue.words, clue.lines or (0, 0)),
            )
        )
        ranked.append(Ranked(path, round(float(probability[place]), 4), own, _regions(path, own, functions)))
    return Ranking(
        ranked=tuple(ranked),
        named=cut(ranked, max_files),
        functions=functions,
        new_files=_new_files(examined.mentions, repository),
    )


def cut(ranked: Sequence[Ranked], max_files: int) -> tuple[Ranked, ...]:
    """As many files as promise the best balance of naming all that change and none that does not.

    The expected F1 of the first k, given that each changes with its own probability and that at least one file does.
    """
    expected = max(1.0, sum(file.confidence for file in ranked))
    gained = np.cumsum([file.confidence for file in ranked[:max_files]])
    if not len(gained):
        return ()
    return tuple(ranked[: int(np.argmax(2 * gained / (np.arange(1, len(gained) + 1) + expected))) + 1])


def _meant(named: Sequence[str], repository: Repository) -> list[str]:
    """The files that paths mean without doubt."""
    return [found[0] for path in named if len(found := repository.find(path)) == 1]


def _seen(path: str, witnessed: Sequence[Clue]) -> float:
    return max((clue.weight for clue in witnessed if clue.path == path), default=0.0)


def _functions(
    examined: ExaminedRepository, score: Scores, model: Logistic, witnessed: Sequence[Clue]
) -> tuple[Function, ...]:
    ranked_functions = examined.ranked_functions
    values = ranked_functions.values | {"file": score[examined.passage_rows]}
    total = model.score(values) if ranked_functions.paths else np.zeros(0)
    seen = [(clue.path, clue.lines, clue.weight) for clue in witnessed if clue.lines]
    found = []
    for path, definition, own in zip(ranked_functions.paths, ranked_functions.definitions, total.tolist(), strict=True):
        ran = max(
            (w for at, lines, w in seen if at == path and lines == (definition.first, definition.last)), default=0.0
        )
        found.append(Function(path, definition.name, definition.first, definition.last, round(own + _RAN * ran, 4)))
    return tuple(sorted(found, key=lambda function: (-function.score, function.path, function.first)))


def _regions(path: str, clues: Sequence[Clue], functions: Sequence[Function]) -> tuple[tuple[int, int], ...]:
    """Lines that were pointed at, then the likeliest functions, at most three spans that do not overlap."""
    pointed = [clue.lines for clue in clues if clue.kind in ("raised", "place", "message") and clue.lines]
    own = [function for function in functions if function.path == path]
    likely = [(f.first, f.last) for f in own if f.score >= own[0].score - _REGION_DROP]
    chosen: list[tuple[int, int]] = []
    for first, last in dict.fromkeys([*pointed, *likely]):
        if len(chosen) < MOST_REGIONS and not any(a <= last and first <= b for a, b in chosen):
            chosen.append((first, last))
    return tuple(sorted(chosen))


def _new_files(mentions: Mentions, repository: Repository) -> tuple[str, ...]:
    """Spelled-out paths in folders that exist, of a kind of file that is there too."""
    folders = {posixpath.dirname(path) for path in repository.paths} - {""}
    suffixes = {posixpath.splitext(path)[1] for path in repository.paths}
    found = []
    for named in mentions.paths:
        path = posixpath.normpath(named.replace("\\", "/")).lstrip("/")
        known = posixpath.splitext(path)[1] in suffixes and _SUFFIX.search(path)
        if known and posixpath.dirname(path) in folders and not repository.find(path):
            found.append(path)
    return tuple(dict.fromkeys(found))[:MOST_NEW_FILES]


def examine(text: str, repository: Repository, shortlist: Logistic) -> ExaminedRepository:
    """Rank all files roughly, then look closely at the first."""
    mentions = read_mentions(text)
    signals = read_signals(mentions, repository)
    score = shortlist.score(signals.values) if repository.files else np.zeros(0)
    probability = 1 / (1 + np.exp(-score))
    rows = np.argsort(-score, kind="stable")[:SHORTLIST]
    spelled = [repository.position[path] for path in _meant((*mentions.declared, *mentions.spelled), repository)]
    rows = np.array(list(dict.fromkeys([*rows.tolist(), *spelled])), dtype=np.int64)
    paths = [repository.paths[row] for row in rows.tolist()]
    opened = [path for path in paths if repository.files[path].role != "test"][:OPENED]
    ranked_functions = rank_functions(mentions, repository, opened, signals.clues)
    values = {name: every[rows] for name, every in (signals.values | neighbours(probability, repository)).items()}
    values |= {
        "rough": score[rows],
        "rough_share": probability[rows] / max(1e-9, float(probability[rows].sum()))
        if len(rows)
        else probability[rows],
        "rough_behind": score[rows[:1]].sum() - score[rows],
        "rough_rank": 1 / np.arange(1, len(rows) + 1),
        "short_text": np.full(len(rows), 1 / np.log1p(10 + mentions.chars)),
    }
    values |= _of_passages(paths, ranked_functions)
    place = {path: number for number, path in enumerate(paths)}
    return ExaminedRepository(
        mentions,
        signals,
        rows,
        values,
        ranked_functions,
        np.array([place[path] for path in ranked_functions.paths], dtype=np.int64),
    )


def _of_passages(paths: list[str], ranked_functions: RankedFunctions) -> dict[str, Scores]:
    """What the functions of a file say about it."""
    return {
        "passage_best": ranked_functions.per_file("text", paths, 1),
        "passage_few": ranked_functions.per_file("text", paths, 3),
        "passage_title": ranked_functions.per_file("title", paths, 1),
        "passage_name": ranked_functions.per_file("name_words", paths, 1),
        "passage_title_words": ranked_functions.per_file("title_words", paths, 1),
    }
