"""An issue by number, address, file or text: what is asked of the forge, who gets a token, and what is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..conftest import SHOP_ISSUE, run_git

if TYPE_CHECKING:
    from conftest import Cli, Forge

TOKEN = "ghp_loopback0123456789abcdef"


def origin(repo: Path, address: str) -> Path:
    run_git(repo, "remote", "add", "origin", address)
    return repo


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/ada/shop.git",
        "git@github.com:ada/shop.git",
        "ssh://git@github.com/ada/shop",
        "https://ada:key@github.com/ada/shop/",
    ],
)
def test_a_number_is_an_issue_of_the_clones_forge(cli: Cli, shop_repo: Path, forge: Forge, address: str) -> None:
    ended = cli("scout", "--repo", origin(shop_repo, address), "--issue", "7", "--json", env={"GITHUB_TOKEN": TOKEN})
    assert ended.code == 0, ended.err
    assert (
        "read issue 7 of ada/shop at github.com" in ended.err and "1 picture in the issue cannot be read" in ended.err
    )
    ((path, headers),) = forge.asked
    assert path == "/repos/ada/shop/issues/7" and headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in ended.err + ended.out.decode()
    assert ended.json()["handoff"]["files"][0]["path"] == "shop/cart.py"  # type: ignore[index]


def test_an_address_needs_no_remote_and_comments_come_if_asked_for(cli: Cli, shop_repo: Path, forge: Forge) -> None:
    ended = cli("scout", "--repo", shop_repo, "--issue", "https://github.com/ada/shop/issues/7", "--comments", "--json")
    assert ended.code == 0, ended.err
    assert [path for path, _ in forge.asked] == [
        "/repos/ada/shop/issues/7",
        "/repos/ada/shop/issues/7/comments?per_page=100",
    ]
    assert all("authorization" not in headers for _, headers in forge.asked), "no token, none sent"


def test_gitlab_has_its_own_paths_and_header(cli: Cli, shop_repo: Path, forge: Forge) -> None:
    address = "https://gitlab.com/group/sub/shop/-/issues/7"
    ended = cli("scout", "--repo", shop_repo, "--issue", address, env={"GITLAB_TOKEN": TOKEN, "GITHUB_TOKEN": "other"})
    assert ended.code == 0, ended.err
    ((path, headers),) = forge.asked
    assert path == "/projects/group%2Fsub%2Fshop/issues/7" and headers["private-token"] == TOKEN


@pytest.mark.parametrize(
    "address",
    ["https://evil.example/ada/shop", "https://github.com.evil.example/ada/shop", "git@evil.example:ada/shop"],
)
def test_no_token_goes_where_a_clone_says(cli: Cli, shop_repo: Path, forge: Forge, address: str) -> None:
    ended = cli("scout", "--repo", origin(shop_repo, address), "--issue", "7", env={"GITHUB_TOKEN": TOKEN})
    assert ended.code == 2 and "neither github.com nor gitlab.com" in ended.err and not forge.asked


@pytest.mark.parametrize(
    ("address", "settings", "sent"),
    [
        ("https://github.com/ada/shop/issues/7", {"GH_HOST": "ghe.corp.example", "GH_ENTERPRISE_TOKEN": TOKEN}, ""),
        ("https://github.com/ada/shop/issues/7", {"GH_HOST": "ghe.corp.example", "GH_TOKEN": TOKEN}, TOKEN),
        ("https://gitlab.com/ada/shop/-/issues/7", {"GITLAB_HOST": "gl.corp.example", "GITLAB_TOKEN": TOKEN}, ""),
    ],
)
def test_a_token_goes_to_its_own_forge(
    cli: Cli, shop_repo: Path, forge: Forge, address: str, settings: dict[str, str], sent: str
) -> None:
    """A clone can be of the public forge where your token is for your company's."""
    cli("scout", "--repo", shop_repo, "--issue", address, env=settings)
    ((_, headers),) = forge.asked
    assert headers.get("authorization", headers.get("private-token", "")).removeprefix("Bearer ") == sent


@pytest.mark.parametrize("server", ["", "https://github.com"])
def test_what_is_for_another_forge_does_not_go_to_the_jobs(
    cli: Cli, shop_repo: Path, forge: Forge, server: str
) -> None:
    """GITHUB_API_URL is of the forge that runs the job."""
    settings = {"GH_HOST": "127.0.0.1", "GH_ENTERPRISE_TOKEN": TOKEN, "GITHUB_SERVER_URL": server}
    ended = cli("scout", "--repo", shop_repo, "--issue", "https://127.0.0.1/ada/shop/issues/7", env=settings)
    assert ended.code == 2 and "ConnectError" in ended.err and not forge.asked


@pytest.mark.parametrize("named", [(), ("--config", "scrout.toml")])
def test_no_program_of_the_repository_is_asked_for_a_token(
    cli: Cli, shop_repo: Path, forge: Forge, tmp_path: Path, named: tuple[str, ...]
) -> None:
    (cli.cwd / "scrout.toml").write_text("")
    (shop_repo / "bin").mkdir()
    (shop_repo / "bin" / "gh").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (shop_repo / "bin" / "gh").chmod(0o755)
    path = f"{shop_repo / 'bin'}{os.pathsep}{os.environ['PATH']}"
    address = "https://github.com/ada/shop/issues/7"
    ended = cli("scout", "--repo", shop_repo, "--issue", address, *named, env={"PATH": path})
    assert ended.code == 0 and not (tmp_path / "ran").exists(), ended.err


def test_what_cannot_be_found_is_told(cli: Cli, shop_repo: Path, forge: Forge) -> None:
    for source, said in {
        "8": "has no remote named origin",
        "https://github.com/ada/shop/issues/9": "issue 9 of ada/shop at github.com cannot be read (status 404)",
        "https://github.com/ada/shop/pull/9": "is not the address of an issue",
        "issue-that-is-not-here.md": "No such file",
    }.items():
        ended = cli("scout", "--repo", shop_repo, "--issue", source)
        assert ended.code == 2 and said in " ".join(ended.err.split()), ended.err
    assert cli("scout", "--repo", origin(shop_repo, "/srv/shop.git"), "--issue", "8").code == 2


def test_an_origin_that_leads_up_again_asks_nothing(cli: Cli, shop_repo: Path, forge: Forge) -> None:
    """It would name more of the forge than issues, with your token."""
    ended = cli("scout", "--repo", origin(shop_repo, "https://github.com/../../orgs"), "--issue", "8")
    assert ended.code == 2 and "its origin is 'https://github.com/../../orgs'" in " ".join(ended.err.split())
    assert not forge.asked


def test_the_text_itself_is_an_issue_and_a_file_comes_first(
    cli: Cli, shop_repo: Path, forge: Forge, tmp_path: Path
) -> None:
    ended = cli("scout", "--repo", shop_repo, "--issue", "total() of a cart is wrong", "--json")
    assert ended.code == 0 and ended.json()["handoff"]["files"], ended.err  # type: ignore[index]
    (cli.cwd / "7").write_text(SHOP_ISSUE)
    assert cli("scout", "--repo", shop_repo, "--issue", "7", "--json").code == 0 and not forge.asked
