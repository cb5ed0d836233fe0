"""Blobs read here and in processes of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.index import reading
from scrout.index.reading import read
from scrout.index.tables import Tables

if TYPE_CHECKING:
    from conftest import Commit


def keys(repo: Path, *languages: str) -> list[str]:
    argv = ["git", "ls-tree", "-r", "--format=%(objectname)", "HEAD"]
    blobs = subprocess.run(argv, cwd=repo, check=True, capture_output=True, text=True).stdout.split()
    return sorted(f"{blob} {language}" for blob in blobs for language in languages)


def known(tables: Tables) -> dict[str, tuple[object, ...]]:
    words = zip(tables.words.term.tolist(), tables.words.document.tolist(), tables.words.count.tolist(), strict=True)
    counts: dict[int, dict[str, int]] = {}
    for term, document, count in words:
        counts.setdefault(document, {})[tables.vocabulary[term]] = count
    return {
        key: (int(tables.lines[document]), tables.definitions(document), counts.get(document))
        for document, key in enumerate(tables.keys)
    }


def modules(count: int) -> dict[str, str]:
    return {f"m{n}.py": f"class A{n}:\n    def f{n}(self):\n        return {n}\n" for n in range(count)}


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_processes_give_what_is_read_here(repo: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WORTH_A_PROCESS", 40)
    commit(modules(41))
    wanted = keys(repo, "python", "")
    # Definitions limited in this process alone tell who has read.
    monkeypatch.setattr("scrout.index.symbols.MAX_DEFINITIONS", 1)
    here, there = read(repo / ".git", wanted[:10]), read(repo / ".git", wanted)
    assert {len(here.definitions(document)) for document in range(10)} == {0, 1}
    assert {len(there.definitions(document)) for document in range(len(wanted))} == {0, 2}
    assert sorted(there.keys) == wanted
    monkeypatch.undo()
    assert known(there) == known(read(repo / ".git", wanted))


@pytest.mark.usefixtures("two_cores")
def test_processes_import_nothing_from_where_they_are(
    repo: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evil = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    commit({"numpy.py": evil, "scrout/__init__.py": evil, "gc.py": evil, "zlib.py": evil, **modules(4)})
    monkeypatch.setattr(reading, "WORTH_A_PROCESS", 2)
    monkeypatch.chdir(repo)
    wanted = keys(repo, "python")
    assert sorted(read(repo / ".git", wanted).keys) == wanted
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("two_cores")
def test_processes_that_do_not_work_are_done_without(
    repo: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(modules(4))
    monkeypatch.setattr(reading, "WORTH_A_PROCESS", 2)
    monkeypatch.setattr("sys.executable", "/bin/false")
    wanted = keys(repo, "python")
    assert sorted(read(repo / ".git", wanted).keys) == wanted


def test_one_blob_in_two_languages_is_read_in_both(repo: Path, commit: Commit) -> None:
    commit({"a": "def f():\n    pass\n", "b": "func g() {\n}\n", "c": "class A {\n}\n"})
    wanted = keys(repo, "", "go", "javascript", "python")
    (repo / ".git" / "objects" / wanted[0][:2] / wanted[0][2:40]).unlink()
    tables = read(repo / ".git", wanted)
    assert list(tables.keys) == wanted[4:]
    for key in tables.keys:
        assert known(read(repo / ".git", [key])) == {key: known(tables)[key]}


def test_nothing_is_read_as_nothing(repo: Path) -> None:
    assert read(repo / ".git", ()).keys == ()
