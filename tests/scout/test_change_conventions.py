"""What changes of a repository bring along, from histories written as they are read."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scrout.index.history import Commit, History
from scrout.scout.recon.change_conventions import FEWEST, change_conventions


@dataclass(frozen=True)
class Known:
    """As much of a repository as habits look at."""

    history: History
    position: dict[str, int]


def repository(commits: list[tuple[str, ...]], *present: str) -> Known:
    history = History(tuple(Commit("", paths) for paths in commits))
    return Known(history, {path: row for row, path in enumerate(present)})


def told(known: Known) -> list[str]:
    return [str(habit) for habit in change_conventions(known)]  # type: ignore[arg-type]


def test_a_changelog_that_most_changes_touch_is_told() -> None:
    commits = [("app/a.py", "CHANGES.rst")] * 15 + [("app/b.py",)] * 10
    assert told(repository(commits, "app/a.py", "CHANGES.rst")) == [
        "Changes of code here usually come with an entry in CHANGES.rst (15 of the last 25 did)."
    ]


def test_a_folder_of_fragments_is_told_with_the_newest_as_example() -> None:
    commits = [("app/a.py", f"changelog/fix_{number}.md") for number in range(FEWEST)]
    assert told(repository(commits, "app/a.py")) == [
        "Changes of code here usually come with a new file in changelog/, such as changelog/fix_0.md "
        "(20 of the last 20 did)."
    ]


@pytest.mark.parametrize(
    "commits",
    [
        [("app/a.py", "CHANGES.rst")] * (FEWEST - 1),
        [("app/a.py", "CHANGES.rst")] * 5 + [("app/a.py",)] * 20,
        [("docs/index.rst", "CHANGES.rst")] * 40,
        [("app/a.py", "app/b.py")] * 40,
    ],
    ids=["too few changes", "too rarely", "no change of code", "code alone"],
)
def test_what_is_no_habit_is_not_told(commits: list[tuple[str, ...]]) -> None:
    assert told(repository(commits, "app/a.py", "CHANGES.rst")) == []


def test_a_changelog_that_is_gone_is_not_told() -> None:
    assert told(repository([("app/a.py", "CHANGES.rst")] * 30, "app/a.py")) == []
