"""The functions of the likeliest files, each with what speaks for it: where in a file the change belongs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scrout.index.bm25 import Scores, bm25
from scrout.index.repository import Repository
from scrout.index.symbols import Definition
from scrout.index.words import split_identifier
from scrout.scout.recon.mentions import Mentions
from scrout.scout.recon.signals import Clue, wanted

MOST_FUNCTIONS = 4_000

_IDENTIFIER = re.compile(r"[^\W\d]\w{1,79}")


@dataclass(frozen=True)
class RankedFunctions:
    """Functions, methods and classes of some files, with one array a signal over them."""

    paths: tuple[str, ...]
    definitions: tuple[Definition, ...]
    values: dict[str, Scores]

    def per_file(self, signal: str, paths: Sequence[str], count: int) -> Scores:
        """The mean of a signal's highest values in each file; 0 for one without functions."""
        values: dict[str, list[float]] = defaultdict(list)
        for path, value in zip(self.paths, self.values[signal].tolist(), strict=True):
            values[path].append(value)
        return np.array([sum(sorted(values[path], reverse=True)[:count]) / count for path in paths])


def rank_functions(
    mentions: Mentions, repository: Repository, files: Sequence[str], clues: Sequence[Clue]
) -> RankedFunctions:
    """Every definition of these files but constants."""
    asked = wanted(mentions.words, mentions.title_words)
    columns = {word: column for column, word in enumerate(asked)}
    known: dict[str, tuple[int, ...]] = {}
    paths: list[str] = []
    definitions: list[Definition] = []
    rows: list[tuple[int, int, int]] = []
    lengths: list[int] = []
    for path, content in repository.read(files):
        line_of, term_of, words_until = _occurrences(content, columns, known)
        for definition in repository.files[path].definitions:
            if definition.kind == "constant" or len(paths) >= MOST_FUNCTIONS:
                continue
            first, last = np.searchsorted(line_of, (definition.first, definition.last + 1))
            terms, counts = np.unique(term_of[first:last], return_counts=True)
            rows += [(term, len(paths), count) for term, count in zip(terms.tolist(), counts.tolist(), strict=True)]
            until = min(definition.last, len(words_until) - 1)
            lengths.append(int(words_until[until] - words_until[min(definition.first - 1, until)]))
            paths.append(path)
            definitions.append(definition)
    values = _named(mentions, paths, definitions) | _pointed(paths, definitions, clues)
    term, document, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    length = np.array(lengths, dtype=np.int64)
    for name, title in (("text", False), ("title", True)):
        weights = np.array([weight * (not title or word in mentions.title_words) for word, weight in asked.items()])
        scores = bm25(weights, term, document, count, length) if len(length) else np.zeros(0)
        values[name] = scores / max(float(scores.max(initial=0.0)), 1e-9)
    return RankedFunctions(tuple(paths), tuple(definitions), values)


def _occurrences(
    content: str, columns: dict[str, int], known: dict[str, tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Line and column of every word asked for, in order, and how many identifiers stand up to each line."""
    line_of, term_of, until = [], [], [0]
    for number, line in enumerate(content.splitlines(), 1):
        identifiers = _IDENTIFIER.findall(line)
        until.append(until[-1] + len(identifiers))
        for identifier in identifiers:
            asked = known.get(identifier)
            if asked is None:
                asked = known[identifier] = tuple(columns[w] for w in split_identifier(identifier) if w in columns)
            for column in asked:
                line_of.append(number)
                term_of.append(column)
    return np.array(line_of, dtype=np.int64), np.array(term_of, dtype=np.int64), np.array(until, dtype=np.int64)


def _named(mentions: Mentions, paths: Sequence[str], definitions: Sequence[Definition]) -> dict[str, Scores]:
    """How the text names a definition, what it stands in, and the words of its name."""
    kinds = ("title", "quoted", "prose", "plain", "code")
    values = {f"named_{kind}": np.zeros(len(paths)) for kind in kinds}
    values |= {name: np.zeros(len(paths)) for name in ("qualified", "owner", "name_words", "title_words")}
    ends = {".".join(dotted.split(".")[-2:]) for dotted in mentions.dotted}
    for row, definition in enumerate(definitions):
        owner, _, last = definition.name.rpartition(".")
        for kind in mentions.names.get(last, ()):
            values[f"named_{kind}"][row] = 1.0
        values["qualified"][row] = ".".join(definition.name.split(".")[-2:]) in ends and bool(owner)
        values["owner"][row] = bool(owner) and owner.rpartition(".")[2] in mentions.names
        parts = split_identifier(last)[1:] or split_identifier(last)
        if parts:
            values["name_words"][row] = sum(part in mentions.words for part in parts) / len(parts)
            values["title_words"][row] = sum(part in mentions.title_words for part in parts) / len(parts)
    values["is_class"] = np.array([float(definition.kind == "class") for definition in definitions])
    values["is_private"] = np.array([float(d.name.rpartition(".")[2].startswith("_")) for d in definitions])
    values["is_special"] = np.array([float(d.name.rpartition(".")[2].startswith("__")) for d in definitions])
    values["log_lines"] = np.log1p([definition.last - definition.first for definition in definitions])
    return values


def _pointed(paths: Sequence[str], definitions: Sequence[Definition], clues: Sequence[Clue]) -> dict[str, Scores]:
    """Lines that the text points at, and messages that stand there."""
    values = {"place": np.zeros(len(paths)), "message": np.zeros(len(paths))}
    spans = [(clue.kind, clue.path, clue.lines) for clue in clues if clue.kind in values and clue.lines]
    for row, (path, definition) in enumerate(zip(paths, definitions, strict=True)):
        for kind, at, (first, last) in spans:
            if at == path and definition.first <= first and last <= definition.last:
                values[kind][row] = 1.0
    return values
