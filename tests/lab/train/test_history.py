"""Rows from commit history: which commits are taken, what is left of a message, and which lines changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.lab.train.history import clean, read_diff, rows

TELLING = (
    "Fix the parser when a field is empty\n\nAn empty field made parse_row raise IndexError instead of giving None.\n"
)


def git(repo: Path, *args: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
    return subprocess.run(
        ["git", *identity, *args], cwd=repo, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(repo: Path, message: str, files: dict[str, str]) -> str:
    for path, content in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(content)
    git(repo, "add", "--all")
    git(repo, "commit", "-q", "-m", message)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "project"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    commit(repo, "base", {"app/rows.py": "a\nb\nc\nd\n", "docs/index.md": "x\n"})
    return repo


def test_a_fix_becomes_a_row(repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    files = {"app/rows.py": "a\nB\nc\nd\ne\n", "app/new.py": "n\n", "tests/test_rows.py": "t\n", "CHANGELOG.md": "c\n"}
    fix = commit(repo, TELLING + "\nSigned-off-by: Somebody <a@b.c>\n", files)
    (row,) = rows(repo, "owner/name", 5)
    assert row.instance_id == f"owner__name@{fix[:12]}"
    assert row.base_commit == base
    assert row.gold_files == ("app/new.py", "app/rows.py")
    assert row.new_files == ("app/new.py",)
    assert row.gold_regions == {"app/rows.py": ((2, 2), (4, 4))}
    assert row.other_files == ("CHANGELOG.md",)
    assert row.problem_statement == TELLING.strip()


@pytest.mark.parametrize(
    ("message", "files"),
    [
        ("Fix it", {"app/rows.py": "z\n"}),
        (f"Revert {TELLING}", {"app/rows.py": "z\n"}),
        (f"Bump the version\n\n{TELLING}", {"app/rows.py": "z\n"}),
        (f"Fix typos in the docstrings\n\n{TELLING}", {"app/rows.py": "z\n"}),
        (TELLING, {"docs/index.md": "z\n"}),
        (TELLING, {"tests/test_rows.py": "z\n"}),
        (TELLING, {"app/only_new.py": "z\n"}),
        (TELLING + "\nThe bug is in app/rows.py.\n", {"app/rows.py": "z\n"}),
        (TELLING, {"app/rows.py": "z\n" * 400}),
        (TELLING, {"app/rows.py": "z\n", **{f"app/more{number}.py": "z\n" for number in range(6)}}),
    ],
)
def test_a_commit_that_teaches_nothing_is_left_out(repo: Path, message: str, files: dict[str, str]) -> None:
    commit(repo, message, files)
    assert list(rows(repo, "owner/name", 5)) == []


def test_the_sample_is_spread_and_always_the_same(repo: Path) -> None:
    made = [commit(repo, f"{TELLING}\nCase {number}.", {"app/rows.py": f"{number}\n"}) for number in range(12)]
    taken = [row.instance_id.partition("@")[2] for row in rows(repo, "owner/name", 3)]
    assert taken == [row.instance_id.partition("@")[2] for row in rows(repo, "owner/name", 3)]
    places = [next(at for at, full in enumerate(reversed(made)) if full.startswith(short)) for short in taken]
    assert [place // 4 for place in places] == [0, 1, 2]


def test_a_commit_whose_blob_is_missing_is_skipped(repo: Path) -> None:
    commit(repo, TELLING, {"app/rows.py": "z\n"})
    # A bare one, as mirrors are: git reads a missing blob from an unchanged work tree.
    bare = repo.with_suffix(".git")
    shutil.copytree(repo / ".git", bare)
    git(bare, "config", "core.bare", "true")
    (bare / "index").unlink()
    assert len(list(rows(bare, "owner/name", 5))) == 1
    blob = git(bare, "rev-parse", "HEAD:app/rows.py")
    (bare / "objects" / blob[:2] / blob[2:]).unlink()
    assert list(rows(bare, "owner/name", 5)) == []


def test_messages_lose_what_an_issue_would_not_have() -> None:
    message = (
        "BUG: wrong total for empty carts (#123)\n\n* wrong total for empty carts\n\nThe sum was None.\n\n"
        "* fix lint\n\nFixes #120\nCo-authored-by: A <a@b.c>\nChange-Id: I0123\n"
    )
    assert clean(message) == "wrong total for empty carts\n\nThe sum was None."


@given(st.text())
def test_cleaning_takes_any_text(message: str) -> None:
    assert clean(message) == clean(message).strip()


def test_a_changed_line_that_looks_like_a_header_is_not_one() -> None:
    diff = "--- a/x.sql\n+++ b/x.sql\n@@ -3 +3,2 @@\n--- a/other\n+++ b/other\n+y\n@@ -9,0 +11 @@\n+z\n"
    assert read_diff(diff) == ({"x.sql": ((3, 3), (9, 9))}, 4)


def test_the_command_refuses_a_blocked_repository(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    command = [sys.executable, "-m", "scrout.lab.train.history", "--mirrors", str(tmp_path), "--repos", "pallets/flask"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pallets/flask" in done.stderr
    assert not out.exists()
