"""What of a workspace a reproduction needs, whatever the repository says of its files."""

from __future__ import annotations

from typing import Any

import pytest

from scrout.scout import reproduction_files
from scrout.scout.reproduction_files import find_reproduction_files

from ..conftest import MakeRepo


async def test_patterns_that_git_never_finishes_matching_are_not_waited_for(
    make_repo: MakeRepo, task_sandbox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduction_files, "IGNORED_S", 1.0)
    path = "a/" * 40 + "x"
    with task_sandbox(make_repo({"a.py": "a", ".gitignore": "**/" * 12 + "x/b\n"})) as shop:
        workspace = shop.fresh()
        workspace.write(path, b"print(1)\n")
        found = find_reproduction_files(f"python {path}", workspace)
    assert found.files == {path: "print(1)\n"}
