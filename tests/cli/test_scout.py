"""`scrout scout`: the page, the picture, and searching a part of the repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli


def test_a_page_is_written_beside_the_handoff(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    page = folder / "scouting.html"
    page.write_text("old")
    (shop_repo / "shop" / "cart.py").write_text("uncommitted\n")
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, "--html", page)
    assert ended.code == 0, ended.err
    assert ended.out.startswith(b"<files>") and f"page written to {page}" in ended.err.replace("\n", "")
    written = page.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>") and "leaves out the first price" in written
    assert "shop/cart.py" in written and "uncommitted" not in written and "python scrout_repro.py" in written
    assert list(folder.iterdir()) == [page]


def test_json_stays_alone_on_standard_output(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, "--html", tmp_path / "p.html", "--json")
    assert ended.json()["handoff"] and (tmp_path / "p.html").is_file()


@pytest.mark.parametrize(
    ("name", "said"), [("-", "Name a file"), ("folder", "cannot be written"), ("no/such.html", "Make it first")]
)
def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    cli: Cli, shop_repo: Path, issue: Path, name: str, said: str
) -> None:
    (cli.cwd / "folder").mkdir()
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, "--html", name)
    assert ended.code == 2 and said in ended.err and name in ended.err
    assert not ended.out and "copying" not in ended.err


def test_the_picture_has_bars_and_the_code_and_is_plain_in_a_pipe(cli: Cli, shop_repo: Path, issue: Path) -> None:
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, env={"COLUMNS": "100", "LINES": "60"})
    assert "━" in ended.err and "\x1b" not in ended.err
    row = next(line for line in ended.err.splitlines() if "shop/cart.py:" in line)
    assert row.split()[0] == "1"
    # The line's number, and the line itself.
    assert any(line.split() == ["4", "def", "total(prices):"] for line in ended.err.splitlines())


def test_the_picture_fits_the_screen(cli: Cli, make_repo: Callable[..., Path], issue: Path) -> None:
    body = "".join(f"    step_{n} = {n}\n" for n in range(300))
    repo = make_repo({"shop/__init__.py": "", "shop/cart.py": f"def total(prices):\n{body}    return 0\n"})
    ended = cli("scout", "--repo", repo, "--issue", issue, env={"COLUMNS": "120", "LINES": "40"})
    picture = ended.err.partition("confidence")[2].splitlines()
    assert "step_1 = 1" in ended.err and len(picture) <= 40


MONOREPO = {
    "api/cart.py": "def total(prices):\n    return sum(prices[1:])\n",
    "web/cart.py": "def total(prices):\n    return sum(prices)\n",
}


@pytest.mark.parametrize("named", ["/etc", "../repo/api", "api/../.."])
def test_a_subtree_outside_is_refused(cli: Cli, make_repo: Callable[..., Path], issue: Path, named: str) -> None:
    repo = make_repo(MONOREPO)
    for option in (["--subtree", named], ["-c", f"scout.subtree={named}"]):
        ended = cli("scout", "--repo", repo, "--issue", issue, *option)
        assert ended.code == 2 and "outside of the repository" in ended.err and named in ended.err


@pytest.mark.parametrize("named", ["apis", "api/cart.py", "new", "3"])
def test_a_subtree_that_the_commit_lacks_is_refused(
    cli: Cli, make_repo: Callable[..., Path], issue: Path, named: str
) -> None:
    repo = make_repo(MONOREPO)
    (repo / "new").mkdir()
    (repo / "new" / "a.py").write_text("")
    ended = cli("scout", "--repo", repo, "--issue", issue, "--subtree", named)
    assert ended.code == 2 and f"'{named}' is no folder of commit" in ended.err.replace("\n", " ")


def test_a_subtree_is_named_in_any_spelling(cli: Cli, make_repo: Callable[..., Path], issue: Path) -> None:
    repo = make_repo(MONOREPO)
    for named in ("api", "./api/", "web/../api", ".", ""):
        assert cli("scout", "--repo", repo, "--issue", issue, "--subtree", named, "--json").code == 0, named


def test_fix_and_gate_refuse_it_too(cli: Cli, make_repo: Callable[..., Path], issue: Path, tmp_path: Path) -> None:
    repo = make_repo(MONOREPO)
    claim = tmp_path / "handoff.txt"
    claim.write_text("<files>\napi/cart.py\n</files>\nSTOP\n")
    for command in (["fix", "--issue", issue], ["gate", "--handoff", claim]):
        ended = cli(*command, "--repo", repo, "-c", "scout.subtree=apis")
        assert ended.code == 2 and "'apis' is no folder of commit" in ended.err.replace("\n", " "), command
        assert not ended.out
