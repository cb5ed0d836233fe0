"""The files and messages of commits up to a base. Reads only the base's ancestors, so that no later commit can leak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from scrout.base import TaskError
from scrout.git import GitDir
from scrout.index.bm25 import Scores, bm25
from scrout.index.store import TableStore
from scrout.index.words import count_words

MOST_COMMITS = 3_000
MOST_FILES = 30
"""A larger commit is a sweep, and says nothing about a single file."""
_MESSAGE_CHARS = 2_000
_MOST_BYTES = 200_000_000
"""Limit of git's whole output: one message can have gigabytes."""
_MOST_S = 120.0
"""Time limit, in case git finds no end of the history."""


@dataclass(frozen=True)
class Commit:
    """One change."""

    message: str
    paths: tuple[str, ...]
    """Empty for a sweep."""


@dataclass(frozen=True)
class History:
    """Commits without merges, newest first."""

    commits: tuple[Commit, ...] = ()

    @cached_property
    def touching(self) -> dict[str, list[int]]:
        """The commits that changed a path, by position, newest first."""
        found: dict[str, list[int]] = {}
        for position, commit in enumerate(self.commits):
            for path in commit.paths:
                found.setdefault(path, []).append(position)
        return found

    def bm25(self, wanted: Mapping[str, float]) -> Scores:
        """The score of each commit's message for these words."""
        column = {word: index for index, word in enumerate(wanted)}
        rows: list[tuple[int, int, int]] = []
        lengths = []
        for position, commit in enumerate(self.commits):
            counts = count_words(commit.message)
            lengths.append(sum(counts.values()))
            rows += [(column[word], position, count) for word, count in counts.items() if word in column]
        term, document, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return bm25(np.array(list(wanted.values())), term, document, count, np.array(lengths, dtype=np.int64))


def read_history(git_dir: Path, commit: str, store: TableStore) -> History:
    """The last commits up to one; empty if git cannot list them, as in a clone without old trees."""
    name = f"{commit}.log"
    raw = store.unpacked(name)
    if raw is None:
        form = "--format=%x00%x01%B"
        args = ("log", form, "--name-only", "--no-renames", "--no-merges", "-z", f"--max-count={MOST_COMMITS}", commit)
        try:
            raw = GitDir(git_dir)(*args, "--", timeout_s=_MOST_S, most_bytes=_MOST_BYTES)
        except TaskError:
            return History()
        # A shallow clone has fewer commits than the next clone may have.
        if not (git_dir / "shallow").exists():
            store.pack(name, raw)
    return History(tuple(_commits(raw)))


def _commits(raw: bytes) -> list[Commit]:
    commits = []
    # No path is empty, so two NULs in a row occur only between commits; the NUL before the first one is its own.
    for record in f"\0{raw.decode('utf-8', errors='replace')}".split("\0\0\x01")[1:]:
        message, _, listed = record.partition("\0")
        paths = tuple(path for path in listed.removeprefix("\n").split("\0") if path)
        commits.append(Commit(message[:_MESSAGE_CHARS], paths if len(paths) <= MOST_FILES else ()))
    return commits
