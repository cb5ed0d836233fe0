"""Repositories as they are out there: each of these must simply work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli

IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "protocol.file.allow=always")


def git(repo: Path, *args: str | Path) -> None:
    subprocess.run(["git", *IDENTITY, *args], cwd=repo, check=True, capture_output=True)


def commit(repo: Path) -> None:
    git(repo, "add", "--all")
    git(repo, "commit", "-qm", "more")


def assert_fixed(cli: Cli, repo: Path, issue: Path, *args: str) -> str:
    done = cli("fix", "--repo", repo, "--issue", issue, *args, "--json")
    assert done.code == 0, done.err
    run = done.json()
    assert run["outcome"] == "solved", run["attempts"]
    assert "shop/cart.py" in run["attempts"][-1]["patch"]
    return done.err


def test_names_links_encodings_and_submodules(
    cli: Cli, shop_repo: Path, make_repo: Callable[..., Path], issue: Path
) -> None:
    other = make_repo({"lib.py": "x = 1\n"}, name="other")
    (shop_repo / "loop").symlink_to("pool")
    (shop_repo / "pool").symlink_to("loop")
    (shop_repo / "outside").symlink_to("/etc/passwd")
    (shop_repo / "folder outside").symlink_to("/etc")
    (shop_repo / "a b").mkdir()
    (shop_repo / "a b" / "c d.py").write_text("def total(): pass\n")
    (shop_repo / "new\nline.py").write_text("def total(): pass\n")
    (shop_repo / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\ntotal = '\xe9'\n")
    Path(os.fsdecode(os.fsencode(shop_repo) + b"/caf\xe9 total.py")).write_text("def total(): pass\n")
    (shop_repo / "crlf.py").write_bytes(b"def total(xs):\r\n    return 2\r\n")
    (shop_repo / "locked").mkdir()
    (shop_repo / "locked" / "total.txt").write_text("total\n")
    (shop_repo / "locked").chmod(0o555)
    git(shop_repo, "submodule", "add", "-q", other, "sub module")
    commit(shop_repo)
    said = assert_fixed(cli, shop_repo, issue)
    assert "submodules are left empty: sub module" in said
    assert_fixed(cli, shop_repo, issue, "--dirty")
    (shop_repo / "locked").chmod(0o755)


def test_a_path_with_spaces_and_letters_of_all_kinds(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    moved = tmp_path / "Mein Projekt – größer (2) 'q' $HOME"
    shop_repo.rename(moved)
    git(moved, "checkout", "-q", "--detach")
    assert_fixed(cli, moved, issue)


def test_a_worktree(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    git(shop_repo, "worktree", "add", "-q", tmp_path / "tree")
    assert_fixed(cli, tmp_path / "tree" / "shop", issue)


def test_a_shallow_clone(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    (shop_repo / "README").write_text("a second commit\n")
    commit(shop_repo)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop_repo}", "shallow")
    assert_fixed(cli, tmp_path / "shallow", issue)


def test_a_repository_inside_another(cli: Cli, shop_repo: Path, issue: Path, make_repo: Callable[..., Path]) -> None:
    outer = make_repo({"shop/cart.py": "def total(prices):\n    return sum(prices)\n"}, name="outer")
    inner = outer / "vendor" / "inner"
    inner.parent.mkdir()
    shop_repo.rename(inner)
    assert_fixed(cli, inner / "shop", issue)


def test_a_folder_whose_name_is_not_unicode(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    moved = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    shop_repo.rename(moved)
    done = cli("fix", "--repo", moved, "--issue", issue, "--json")
    assert "Traceback" not in done.err
    assert done.json()["scouting"]["handoff"]["files"][0]["path"] == "shop/cart.py"
    listed = cli("runs")
    assert listed.code == 0 and "caf?" in listed.out.decode()


@pytest.mark.parametrize(
    "files",
    [
        {"src/total.js": "function total(prices) { return 0 }\n", "package.json": "{}"},
        {"README.md": "# total\n", "docs/prices.md": "How prices add up to a total.\n"},
    ],
    ids=["no Python", "documents"],
)
def test_without_python_there_is_still_an_answer(
    cli: Cli, make_repo: Callable[..., Path], tmp_path: Path, files: dict[str, str]
) -> None:
    issue = tmp_path / "issue.md"
    issue.write_text("total() of the prices is wrong\n")
    done = cli("fix", "--repo", make_repo(files), "--issue", issue, "--json")
    assert (done.code, done.json()["outcome"]) == (1, "not_solved"), done.err


@pytest.mark.slow
def test_a_file_of_400_megabytes(cli: Cli, shop_repo: Path, issue: Path) -> None:
    with (shop_repo / "total.bin").open("wb") as file:
        file.truncate(400_000_000)
    git(shop_repo, "-c", "core.compression=1", "add", "--all")
    commit(shop_repo)
    assert_fixed(cli, shop_repo, issue)
