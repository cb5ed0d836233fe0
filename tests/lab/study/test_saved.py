"""What studies found is kept for the dashboard, the last of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrout.lab.study import saved
from scrout.lab.study.report import Figure, ReportTable, StudyReport
from scrout.lab.study.saved import SavedFigure, all_saved, save_study, saved_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1])


TABLE = ReportTable("By fixer", ["fixer", "$"], [["small", "1.00"], ["big", "9.00"]], note="alone")
REPORT = StudyReport(
    "Spend",
    ["Half of it went to one fixer."],
    [
        ReportTable("By fixer", ["fixer", "$"], [["small", "1.00"], ["big", "9.00"]], note="alone"),
        Figure("p", "P", draw, "up"),
    ],
    notes=["assumed"],
    failed=["a cell"],
)


def test_the_last_of_each_study_and_source_is_there() -> None:
    first = save_study("spend", REPORT, "a ledger", "scrout study spend")
    save_study("spend", REPORT, "another ledger", "scrout study spend")
    again = save_study("spend", REPORT, "a ledger", "scrout study spend --json")
    assert again.id == first.id and again.at > first.at
    newest, other = all_saved()
    assert newest == again and other.source == "another ledger"
    table, picture = newest.parts
    assert isinstance(table, ReportTable) and table.note == "alone"
    assert [list(row) for row in table.rows] == [["small", "1.00"], ["big", "9.00"]]
    assert isinstance(picture, SavedFigure) and "<svg" in picture.svg and picture.told == "up"
    assert (newest.notes, newest.failed) == (("assumed",), ("a cell",))


def test_no_more_than_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MAX_KEPT", 2)
    bare = StudyReport("Spend", [], [])
    made = [save_study("spend", bare, f"ledger {number}", "").id for number in range(4)]
    assert {one.id for one in all_saved()} == set(made[2:])


def test_what_is_damaged_or_newer_is_left_out() -> None:
    good = save_study("spend", StudyReport("Spend", ["x"], []), "a ledger", "")
    path = saved_folder() / f"{good.id}.json"
    (saved_folder() / "half.json").write_text(path.read_text()[:50])
    (saved_folder() / "newer.json").write_text(path.read_text().replace('"format":1', '"format":2'))
    (saved_folder() / "latin.json").write_bytes(b"\xff")
    assert all_saved() == [good]


def test_secrets_are_cut_out() -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    made = save_study(
        "spend", StudyReport(f"Spend {secret}"[:5], [secret], [ReportTable("t", ["a"], [[secret]])]), f"of {secret}", ""
    )
    assert secret not in made.model_dump_json() and secret not in (saved_folder() / f"{made.id}.json").read_text()
