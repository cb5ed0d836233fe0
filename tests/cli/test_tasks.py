"""`scrout tasks`, as a subprocess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli

GOOD = {"id": "one", "text": "It fails.", "repo": "owner/name", "base_commit": "0123456789", "gold": {"patch": "p"}}


def test_show_counts_tasks_and_names_what_cannot_be_used(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "id": "two", "base_commit": "?"}) + "\n{cut")
    ended = cli("tasks", "show", path, "--json")
    assert ended.code == 1
    report = ended.json()
    assert (report["tasks"], report["with_answer"], report["with_tests"]) == (1, 1, 0)
    assert report["repositories"] == [{"repo": "owner/name", "tasks": 1, "commits": 1}]
    problems = report["problems"]
    assert isinstance(problems, list)
    assert [(one["source"], one["id"]) for one in problems] == [("tasks.jsonl:2", "two"), ("tasks.jsonl:3", "")]
    shown = cli("tasks", "show", path)
    assert shown.code == 1 and b"1 tasks, 1 with their answer" in shown.out and b"owner/name" in shown.out
    assert "tasks.jsonl:2 (two): its base_commit is '?'" in shown.err


def test_show_of_a_folder_of_issues(cli: Cli, shop_repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "issues"
    folder.mkdir()
    (folder / "crash.md").write_text("It crashes.\n")
    ended = cli("tasks", "show", folder, "--repo", shop_repo, "--json")
    assert ended.code == 0 and ended.json()["tasks"] == 1
    without = cli("tasks", "show", folder)
    assert without.code == 2 and "--repo" in without.err and "Traceback" not in without.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("show", "absent.jsonl"), "No such file"),
        (("make", "--packages", "a b", "--out", "new"), "NAME==VERSION"),
        (("make", "--packages", "x", "X", "--out", "new"), "named twice"),
        (("make", "--packages", "x", "--out", "file"), "file is a file"),
        (("make", "--out", "new"), "--packages"),
    ],
)
def test_bad_input_is_an_error_without_a_traceback(cli: Cli, args: tuple[str, ...], words: str) -> None:
    (cli.cwd / "file").write_text("")
    ended = cli("tasks", *args)
    assert ended.code == 2 and words in ended.err and "Traceback" not in ended.err
    assert not (cli.cwd / "new").exists()


@pytest.mark.slow
def test_a_package_that_does_not_exist_is_told_and_the_rest_goes_on(cli: Cli) -> None:
    env = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0", "PIP_TIMEOUT": "2"}
    ended = cli("tasks", "make", "--packages", "no-such-package", "--out", "new", "--json", env=env)
    assert ended.code == 1
    packages = ended.json()["packages"]
    assert isinstance(packages, list)
    assert packages[0]["tasks"] == 0 and "cannot be downloaded" in packages[0]["words"]


@pytest.mark.slow
def test_draw_takes_each_repository_by_its_share_and_says_how_to_go_on(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    rows = [{**GOOD, "id": f"t{number}", "repo": f"owner/{'ab'[number % 4 == 0]}"} for number in range(200)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = cli("tasks", "draw", path, "--fixers", "one, two", "--points", "10", "--out", tmp_path / "study", "--json")
    assert ended.code == 0, ended.err
    told = ended.json()
    drawn = [json.loads(line) for line in (tmp_path / "study" / "tasks.jsonl").read_text().splitlines()]
    assert told["drawn"] == told["needed"] == len(drawn) < 200 and float(str(told["power"])) >= 0.8
    share = sum(row["repo"] == "owner/b" for row in drawn) / len(drawn)
    assert share == pytest.approx(0.25, abs=0.02)
    commands = told["commands"]
    assert isinstance(commands, list) and "--arms solo,handoff,passthrough --fixers one,two" in commands[0]
    again = cli("tasks", "draw", path, "--fixers", "one", "--points", "2", "--out", tmp_path / "more")
    assert again.code == 1 and "take" in again.err and again.out.startswith(b"scrout batch run ")
    wrong = cli("tasks", "draw", path, "--fixers", " , ", "--out", tmp_path / "none")
    assert wrong.code == 2 and "Name the fixers" in wrong.err
