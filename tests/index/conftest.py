"""Small repositories to read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Commit = Callable[[Mapping[str, str | bytes]], str]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Its work tree; `commit` fills it."""
    folder = tmp_path / "repo"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    return folder


@pytest.fixture
def commit(repo: Path) -> Commit:
    """commit(files): write them, commit everything that is not ignored, and say the commit."""

    def git(*args: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
        return subprocess.run(["git", *identity, *args], cwd=repo, check=True, capture_output=True, text=True).stdout

    def make(files: Mapping[str, str | bytes]) -> str:
        for name, content in files.items():
            path = repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else os.fsencode(content))
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "x")
        return git("rev-parse", "HEAD").strip()

    return make
