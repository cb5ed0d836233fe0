"""git as a subprocess: what it prints, and what a user is told when it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scrout.errors import TaskError
from scrout.git import GitError, git, text


def test_output_is_bytes_or_stripped_text(make_repo) -> None:
    repo = make_repo({"a": "x"})
    assert git("cat-file", "blob", "HEAD:a", cwd=repo) == b"x"
    assert text("rev-parse", "--abbrev-ref", "HEAD", cwd=repo) == "main"
    assert git("hash-object", "--stdin", cwd=repo, stdin=b"x") == git("rev-parse", "HEAD:a", cwd=repo)


def test_a_failure_says_what_git_said(make_repo) -> None:
    with pytest.raises(GitError, match=r"git cat-file in .*nowhere"):
        git("cat-file", "blob", "HEAD:nowhere", cwd=make_repo({"a": "x"}))


def test_a_missing_folder_is_not_a_missing_git(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"git cannot run in .*missing"):
        git("status", cwd=tmp_path / "missing")


def test_a_missing_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TaskError, match="Install git"):
        git("status", cwd=tmp_path)


def test_a_ctrl_c_of_the_terminal_does_not_reach_git_itself(make_repo) -> None:
    """It would die of it before scrout has noticed, and be told as a failure of git's."""
    group = git("-c", "alias.group=!ps -o pgid= -p $$", "group", cwd=make_repo({"a": "x"}))
    assert int(group) != os.getpgrp()
