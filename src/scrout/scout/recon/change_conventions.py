"""What changes of a repository usually bring along besides code: a changelog's entry, a news fragment of their own."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from scrout.index.files import role
from scrout.index.repository import Repository

RECENT = 200
"""Changes of code that are looked at."""
FEWEST = 20
"""With fewer there is no telling."""
USUAL = 0.35
"""From this share on it is a habit."""


@dataclass(frozen=True)
class ChangeConvention:
    """A file that most changes touch, or a folder in which most changes make one."""

    path: str
    """A folder's ends with a slash."""
    example: str
    """The newest file of the folder; empty for a file."""
    changes: int
    of: int
    """Of how many recent changes of code."""

    def __str__(self) -> str:
        what = f"a new file in {self.path}, such as {self.example}" if self.example else f"an entry in {self.path}"
        return f"Changes of code here usually come with {what} ({self.changes} of the last {self.of} did)."


def change_conventions(repository: Repository) -> tuple[ChangeConvention, ...]:
    """What a change is likely to need that no issue asks for, the most usual first."""
    history = repository.history
    of_code = (commit.paths for commit in history.commits if any(role(path) == "source" for path in commit.paths))
    changes = list(islice(of_code, RECENT))
    if len(changes) < FEWEST:
        return ()
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    example: dict[str, str] = {}
    for paths in changes:
        told = [path for path in paths if role(path) in ("changelog", "docs")]
        files.update(path for path in told if path in repository.position)
        # A fragment is made for one change, and gone with the next release.
        fragments = [path for path in told if posixpath.dirname(path) and len(history.touching[path]) <= 2]
        folders.update({posixpath.dirname(path) for path in fragments})
        for path in fragments:
            example.setdefault(posixpath.dirname(path), path)
    found = (*_usual(files, {}, len(changes)), *_usual(folders, example, len(changes)))
    return tuple(sorted(found, key=lambda habit: (-habit.changes, habit.path)))


def _usual(counts: Counter[str], example: dict[str, str], of: int) -> Iterator[ChangeConvention]:
    for path, changes in counts.items():
        if changes >= USUAL * of:
            yield ChangeConvention(f"{path}/" if example else path, example.get(path, ""), changes, of)
