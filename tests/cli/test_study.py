"""`scrout study`, as a subprocess: what cannot be studied is said in a line, with the next step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name what to study"),
        (("--data", "nowhere"), "nowhere is no folder"),
        (("--data", ".", "--ledger", "x.db"), "name what to study"),
        (("--data", ".", "--batch", "b"), "not with the paper's files"),
        (("--data", "."), "is not there"),
        (("--ledger", "nowhere.db"), "there is no such file"),
        (("--data", ".", "--html", "no/such/page.html"), "is not a folder"),
    ],
)
def test_what_cannot_be_studied_is_said(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    ended = cli("study", "spend", *arguments)
    assert ended.code == 2 and words in ended.err and "Traceback" not in ended.err


def test_no_password_of_a_ledger_gets_into_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from scrout.cli.study import _write
    from scrout.lab.study.report import StudyReport
    from scrout.lab.study.saved import all_saved
    from scrout.lab.study.sources.benchmark import Benchmark
    from scrout.lab.study.sources.source import Own

    monkeypatch.setattr("sys.argv", ["scrout", "study", "spend", "--ledger", "postgresql://me:hunter2hunter2@host/x"])
    source = Own(Benchmark("own runs", "a ledger", (), (), {}), "grade")
    _write("spend", StudyReport("Spend", ["$1"], []), source, tmp_path / "page.html", None)
    page = (tmp_path / "page.html").read_text()
    assert "hunter2" not in page and "postgresql://[secret]@host/x" in page
    (kept,) = all_saved()
    assert "postgresql://[secret]@host/x" in kept.command
    assert "hunter2" not in kept.model_dump_json()


def test_a_study_that_cannot_be_kept_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from scrout.cli.study import _write
    from scrout.lab.study.report import StudyReport
    from scrout.lab.study.sources.benchmark import Benchmark
    from scrout.lab.study.sources.source import Own

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    source = Own(Benchmark("own runs", "a ledger", (), (), {}), "grade")
    _write("spend", StudyReport("Spend", ["$1"], []), source, tmp_path / "page.html", None)
    assert "not kept for the dashboard" in capsys.readouterr().err and (tmp_path / "page.html").exists()
