"""Repositories as they are out there: each of these must simply work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
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


@pytest.fixture(params=["scout", pytest.param("fix", marks=pytest.mark.slow)])
def assert_works(request: pytest.FixtureRequest, cli: Cli, issue: Path) -> Callable[[Path], None]:
    """assert_works(repo): its code runs in the sandbox and is read; the whole job is done among the slow tests."""

    def scouted(repo: Path) -> None:
        done = cli("scout", "--repo", repo, "--issue", issue, "--json")
        assert done.code == 0, done.err
        handoff = done.json()["handoff"]
        assert handoff["files"][0]["path"] == "shop/cart.py" and "AssertionError: 2" in str(handoff["reproduction"])  # type: ignore[index]

    def fixed(repo: Path) -> None:
        assert_fixed(cli, repo, issue)

    return scouted if request.param == "scout" else fixed


@pytest.fixture
def odd_repo(shop_repo: Path, make_repo: Callable[..., Path]) -> Iterator[Path]:
    """Names, links and encodings of all kinds, a folder that is read-only, and a submodule."""
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
    yield shop_repo
    (shop_repo / "locked").chmod(0o755)


@pytest.mark.slow
def test_names_links_encodings_and_submodules(cli: Cli, odd_repo: Path, issue: Path) -> None:
    assert "submodules are left empty: sub module" in assert_fixed(cli, odd_repo, issue)


@pytest.mark.slow
def test_they_are_copied_from_the_tree_too(cli: Cli, odd_repo: Path, issue: Path) -> None:
    assert_fixed(cli, odd_repo, issue, "--dirty")


def test_a_path_with_spaces_and_letters_of_all_kinds(
    assert_works: Callable[[Path], None], shop_repo: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "Mein Projekt – größer (2) 'q' $HOME"
    shop_repo.rename(moved)
    git(moved, "checkout", "-q", "--detach")
    assert_works(moved)


def test_a_worktree(assert_works: Callable[[Path], None], shop_repo: Path, tmp_path: Path) -> None:
    git(shop_repo, "worktree", "add", "-q", tmp_path / "tree")
    assert_works(tmp_path / "tree" / "shop")


def test_a_shallow_clone(assert_works: Callable[[Path], None], shop_repo: Path, tmp_path: Path) -> None:
    (shop_repo / "README").write_text("a second commit\n")
    commit(shop_repo)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop_repo}", "shallow")
    assert_works(tmp_path / "shallow")


def test_a_repository_inside_another(
    assert_works: Callable[[Path], None], shop_repo: Path, make_repo: Callable[..., Path]
) -> None:
    outer = make_repo({"shop/cart.py": "def total(prices):\n    return sum(prices)\n"}, name="outer")
    inner = outer / "vendor" / "inner"
    inner.parent.mkdir()
    shop_repo.rename(inner)
    assert_works(inner / "shop")


def test_a_folder_whose_name_is_not_unicode(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    moved = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    shop_repo.rename(moved)
    issue.write_text("total() in shop/cart.py is wrong")
    done = cli("fix", "--repo", moved, "--issue", issue, "--json")
    assert done.json()["scouting"]["handoff"]["files"][0]["path"] == "shop/cart.py"
    listed = cli("runs", env={"COLUMNS": "160"})
    assert listed.code == 0 and "caf?" in listed.out.decode()


@pytest.mark.parametrize(
    "files",
    [
        {"src/total.js": "function total(prices) { return 0 }\n", "package.json": "{}"},
        pytest.param(
            {"README.md": "# total\n", "docs/prices.md": "How prices add up to a total.\n"}, marks=pytest.mark.slow
        ),
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
