"""What studies found is kept for the dashboard, the last of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrout.study import kept
from scrout.study.kept import KeptPicture, KeptTable, all_kept, keep, kept_folder
from scrout.study.report import Picture, Report, Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1])


TABLE = Sheet("By fixer", ["fixer", "$"], [["small", "1.00"], ["big", "9.00"]], note="alone")
REPORT = Report(
    "Spend",
    ["Half of it went to one fixer."],
    [
        Sheet("By fixer", ["fixer", "$"], [["small", "1.00"], ["big", "9.00"]], note="alone"),
        Picture("p", "P", draw, "up"),
    ],
    notes=["assumed"],
    failed=["a cell"],
)


def test_the_last_of_each_study_and_source_is_there() -> None:
    first = keep("spend", REPORT, "a ledger", "scrout study spend")
    keep("spend", REPORT, "another ledger", "scrout study spend")
    again = keep("spend", REPORT, "a ledger", "scrout study spend --json")
    assert again.id == first.id and again.at > first.at
    newest, other = all_kept()
    assert newest == again and other.source == "another ledger"
    table, picture = newest.parts
    assert isinstance(table, KeptTable) and table.rows == (("small", "1.00"), ("big", "9.00")) and table.note == "alone"
    assert isinstance(picture, KeptPicture) and "<svg" in picture.svg and picture.told == "up"
    assert (newest.notes, newest.failed) == (("assumed",), ("a cell",))


def test_no_more_than_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_KEPT", 2)
    bare = Report("Spend", [], [])
    made = [keep("spend", bare, f"ledger {number}", "").id for number in range(4)]
    assert {one.id for one in all_kept()} == set(made[2:])


def test_what_is_damaged_or_newer_is_left_out() -> None:
    good = keep("spend", Report("Spend", ["x"], []), "a ledger", "")
    path = kept_folder() / f"{good.id}.json"
    (kept_folder() / "half.json").write_text(path.read_text()[:50])
    (kept_folder() / "newer.json").write_text(path.read_text().replace('"format":1', '"format":2'))
    (kept_folder() / "latin.json").write_bytes(b"\xff")
    assert all_kept() == [good]


def test_secrets_are_cut_out() -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    made = keep("spend", Report(f"Spend {secret}"[:5], [secret], [Sheet("t", ["a"], [[secret]])]), f"of {secret}", "")
    assert secret not in made.model_dump_json() and secret not in (kept_folder() / f"{made.id}.json").read_text()
