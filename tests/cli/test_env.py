"""`scrout env`, and what the other commands say and do about an environment that is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli

NEEDY = {"requirements.txt": "not-a-package\n", "shop/__init__.py": "", "shop/cart.py": "def total(): return 0\n"}


@pytest.fixture
def few_programs(tmp_path: Path) -> dict[str, str]:
    """Without a Python on PATH a setup command gets no virtual environment, whose making takes seconds."""
    folder = tmp_path / "few programs"
    folder.mkdir()
    for name in ("chmod", "chown", "cp", "git", "rm"):
        (folder / name).symlink_to(shutil.which(name) or "")
    return {"PATH": str(folder)}


def test_show_says_what_is_asked_for_and_the_next_step(cli: Cli, make_repo: Callable[..., Path]) -> None:
    repo = make_repo(NEEDY)
    report = cli("env", "show", "--repo", repo / "shop", "--json").json()
    assert set(report) == {"repo", "base_commit", "label", "python", "missing", "recipes"}
    (recipe,) = report["recipes"]
    assert (recipe["kind"], recipe["source"], recipe["state"]) == ("python", "requirements.txt", "not_built")
    assert recipe["lines"][1:] == ["python -m pip install -r requirements.txt"]
    assert recipe["size_bytes"] is None and report["repo"] == str(repo)
    assert "requirements.txt asks for dependencies" in report["missing"] and "scrout env build" in report["missing"]
    shown = cli("env", "show", "--repo", repo)
    assert shown.code == 0 and b"not built" in shown.out and b"$ python -m pip install -r" in shown.out


def test_a_repository_that_asks_for_nothing(cli: Cli, shop_repo: Path) -> None:
    built = cli("env", "build", "--repo", shop_repo, "--json")
    assert built.code == 0 and "nothing to build" in built.err
    assert (built.json()["recipes"], built.json()["missing"]) == ([], "")


def test_build_show_and_clear(cli: Cli, shop_repo: Path, few_programs: dict[str, str]) -> None:
    setup = ("-c", 'environment.setup="echo made > $SCROUT_ENV/file"')
    built = cli("env", "build", "--repo", shop_repo, *setup, env=few_programs)
    assert built.code == 0, built.err
    assert "building the environment, 1 of 1: echo made" in built.err
    (recipe,) = cli("env", "show", "--repo", shop_repo, *setup, "--json", env=few_programs).json()["recipes"]
    assert recipe["state"] == "built" and recipe["size_bytes"] > 0
    assert (Path(recipe["folder"]) / "root" / "file").read_text() == "made\n"
    assert "removed 1 " in cli("env", "clear", "--repo", shop_repo).err
    assert not Path(recipe["folder"]).exists()
    assert "removed 0 " in cli("env", "clear", "--all").err


def test_a_failed_build_names_its_line_and_ends_with_1(cli: Cli, shop_repo: Path, few_programs: dict[str, str]) -> None:
    setup = ("-c", 'environment.setup="""echo fine\necho the reason; exit 3"""')
    failed = cli("env", "build", "--repo", shop_repo, *setup, env=few_programs)
    assert failed.code == 1
    assert b"| fine" in failed.out and b"the reason" in failed.out and b"--force" in failed.out
    again = cli("env", "build", "--repo", shop_repo, *setup, "--json", env=few_programs)
    assert again.code == 1 and "building" not in again.err
    assert again.json()["recipes"][0]["state"] == "failed"
    assert "building" in cli("env", "build", "--force", "--repo", shop_repo, *setup, env=few_programs).err


def test_a_hostile_name_is_shown_inert(cli: Cli, shop_repo: Path, few_programs: dict[str, str]) -> None:
    setup = ("-c", "environment.setup=\"printf 'error \\\\033[2J'; false\"")
    failed = cli("env", "build", "--repo", shop_repo, *setup, env=few_programs)
    assert failed.code == 1 and b"error" in failed.out and b"\x1b" not in failed.out


def test_other_commands_say_what_is_missing_and_build_where_told(
    cli: Cli, shop_repo: Path, issue: Path, few_programs: dict[str, str]
) -> None:
    args = ("scout", "--repo", shop_repo, "--issue", issue, "-c", "environment.setup=echo ok")
    assert "note: environment.setup asks for dependencies" in cli(*args, env=few_programs).err
    built = cli(*args, "-c", "environment.build=true", env=few_programs)
    assert built.code == 0 and "building the environment" in built.err and "note:" not in built.err
    assert "note:" not in cli(*args, env=few_programs).err


def test_a_committed_file_may_not_turn_building_on(cli: Cli, make_repo: Callable[..., Path], issue: Path) -> None:
    repo = make_repo({**NEEDY, "scrout.toml": "[environment]\nbuild = true\n"})
    refused = cli("scout", "--repo", repo, "--issue", issue)
    assert refused.code == 2 and "environment.build" in refused.err and "--config" in refused.err
    assert "building" not in refused.err
