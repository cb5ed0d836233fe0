"""From a label to a pull request, by the commands that the jobs run, each with the rights of its job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import scrout
from scrout.base import ScroutError
from scrout.cli.main import scrout as cli
from scrout.integrations.ci_environment import CiEnvironment
from scrout.sandbox.tier import Tier

from ..conftest import SHOP
from .conftest import TOKEN, Server, github_payload


@dataclass(frozen=True)
class Jobs:
    """The three jobs of one run."""

    folder: Path
    env: dict[str, str]

    def __call__(self, *args: str, token: str = "", **env: str) -> subprocess.CompletedProcess[bytes]:
        clean = {name: value for name, value in os.environ.items() if name not in ("GITHUB_TOKEN", "GH_TOKEN")}
        # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
        path = f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}"
        told = {"PYTHONPATH": str(Path(scrout.__file__).parents[1]), "PATH": path, **self.env, **env}
        if token:
            told["SCROUT_FORGE_TOKEN"] = token
        return subprocess.run(
            [sys.executable, "-m", "scrout", "forge", *args],
            cwd=self.folder,
            env={**clean, **told},
            capture_output=True,
            timeout=120,
        )

    def outputs(self) -> dict[str, str]:
        told = Path(self.env["GITHUB_OUTPUT"]).read_text()
        return dict(line.split("=", 1) for line in told.splitlines())


SHOP_BODY = """It is as if it were free:

```python
from shop.cart import total

assert total([1, 2]) == 3, total([1, 2])
```

```
AssertionError: 2
```
"""


@pytest.fixture
def jobs(github: Server, place: CiEnvironment, tmp_path: Path) -> Jobs:
    payload = tmp_path / "event.json"
    payload.write_text(json.dumps(github_payload()))
    output = tmp_path / "output"
    output.touch()
    return Jobs(
        tmp_path,
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "issues",
            "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_REPOSITORY": "ada/larder",
            "GITHUB_API_URL": github.url,
            "GITHUB_SERVER_URL": place.server_url,
            "GITHUB_RUN_ID": "1001",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_SHA": place.commit,
            "GITHUB_OUTPUT": str(output),
        },
    )


def show(bare: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=bare, capture_output=True, check=True).stdout.decode()


@pytest.mark.slow
def test_a_label_becomes_a_pull_request(
    tier: Tier, jobs: Jobs, github: Server, bare: Path, make_repo: Callable[..., Path]
) -> None:
    repo = make_repo(SHOP)
    shutil.rmtree(bare)
    subprocess.run(["git", "clone", "-q", "--bare", str(repo), str(bare)], check=True)
    jobs.env["GITHUB_SHA"] = show(bare, "rev-parse", "main").strip()
    payload = github_payload(issue__title="total() leaves out the first price", issue__body=SHOP_BODY)
    Path(jobs.env["GITHUB_EVENT_PATH"]).write_text(json.dumps(payload))
    github.issue = payload["issue"]
    admitted = jobs("admit", "--run-usd", "1.00", "--day-usd", "5.00", token=TOKEN)
    assert admitted.returncode == 0, admitted.stderr
    assert json.loads(admitted.stdout)["go"] == jobs.outputs()["go"] == "work"
    assert TOKEN.encode() not in admitted.stdout + admitted.stderr
    word = jobs.outputs()["admission"]

    args = ("work", "--admission", word, "--repo", str(repo), "--out", "result.json")
    asked = len(github.asked)
    done = jobs(*args)
    assert done.returncode == 0, done.stderr
    result = json.loads((jobs.folder / "result.json").read_text())
    assert (result["outcome"], result["cost_usd"], result["tried"]["fixer"]) == ("solved", 0, "repair"), done.stderr
    assert len(github.asked) == asked, "work asked the forge for something"

    published = jobs("publish", "--admission", word, "--result", "result.json", token=TOKEN)
    assert published.returncode == 0, published.stderr
    assert jobs.outputs()["pull"] == "https://github.com/ada/larder/pull/8"
    (pull,), (comment,) = github.pulls, github.comments
    for part in ("A patch for #7", "`shop/cart.py`", "`passed`", "**Receipt.** $0.00 in all.", "`real_failure`"):
        assert part in pull["body"], pull["body"]
    assert "Pull request: https://github.com/ada/larder/pull/8" in comment["body"]
    assert "+    for price in prices" in show(bare, "show", pull["head"])
    days = show(bare, "ls-tree", "--name-only", "scrout-budget").split()
    lines = [json.loads(line) for line in show(bare, "show", f"scrout-budget:{days[0]}").splitlines()]
    assert [(line["kind"], line["usd"]) for line in lines] == [("hold", 1.0), ("settle", 0.0)]


def test_the_step_that_runs_an_agent_does_not_run_with_a_token(
    jobs: Jobs, larder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITLAB_CI", raising=False)
    for name, value in ({"SCROUT_FORGE_TOKEN": TOKEN} | jobs.env).items():
        monkeypatch.setenv(name, value)
    out = jobs.folder / "result.json"
    ended = CliRunner().invoke(cli, ["forge", "work", "--admission", "x", "--repo", str(larder), "--out", str(out)])
    assert "SCROUT_FORGE_TOKEN is set" in str(ended.exception) and not out.exists()


@pytest.mark.parametrize(
    "env, words",
    [
        ({"GITHUB_EVENT_NAME": "pull_request_target"}, "pull_request_target"),
        ({"GITHUB_EVENT_NAME": ""}, "not 'issues'"),
        ({"GITHUB_SHA": "main"}, "GITHUB_SHA"),
        ({"GITHUB_REPOSITORY": "ada/other"}, "the event is of 'ada/larder'"),
        ({"GITHUB_API_URL": "https://ada:secret@127.0.0.1"}, "GITHUB_API_URL"),
        ({"GITHUB_EVENT_PATH": "nowhere.json"}, "nowhere.json"),
        ({"GITHUB_EVENT_PATH": ""}, "--event"),
        ({"SCROUT_FORGE_TOKEN": ""}, "SCROUT_FORGE_TOKEN is empty"),
    ],
)
def test_a_job_that_is_set_up_wrong_says_so(
    jobs: Jobs, github: Server, env: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITLAB_CI", raising=False)
    for name, value in ({"SCROUT_FORGE_TOKEN": TOKEN} | jobs.env | env).items():
        monkeypatch.setenv(name, value)
    ended = CliRunner().invoke(cli, ["forge", "admit"])
    assert isinstance(ended.exception, ScroutError) and words in str(ended.exception)
    assert "secret" not in str(ended.exception) and not github.asked


def test_settings_that_cannot_be_used_are_told_on_the_issue(
    jobs: Jobs, github: Server, larder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITLAB_CI", raising=False)
    for name, value in ({"SCROUT_FORGE_TOKEN": TOKEN} | jobs.env).items():
        monkeypatch.setenv(name, value)
    CliRunner().invoke(cli, ["forge", "admit"], catch_exceptions=False)
    word, file = jobs.outputs()["admission"], str(jobs.folder / "result.json")
    monkeypatch.delenv("SCROUT_FORGE_TOKEN")
    args = ["--repo", str(larder), "--config", "nowhere.toml", "--out", file]
    CliRunner().invoke(cli, ["forge", "work", "--admission", word, *args], catch_exceptions=False)
    monkeypatch.setenv("SCROUT_FORGE_TOKEN", TOKEN)
    CliRunner().invoke(cli, ["forge", "publish", "--admission", word, "--result", file], catch_exceptions=False)
    (comment,) = github.comments
    assert "It could not work" in comment["body"] and "nowhere.toml: No such file" in comment["body"]


def test_a_run_without_a_result_is_told_and_fails(jobs: Jobs, github: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITLAB_CI", raising=False)
    for name, value in ({"SCROUT_FORGE_TOKEN": TOKEN} | jobs.env).items():
        monkeypatch.setenv(name, value)
    held = ["forge", "admit", "--run-usd", "1", "--day-usd", "5"]
    CliRunner().invoke(cli, held, catch_exceptions=False)
    args = ["forge", "publish", "--admission", jobs.outputs()["admission"], "--result", "missing.json"]
    ended = CliRunner().invoke(cli, args, catch_exceptions=False, standalone_mode=False)
    assert ended.return_value == 1 and "nothing to show" in github.comments[0]["body"]
    # The same event once more, as `Re-run all jobs` would have it.
    monkeypatch.setenv("GITHUB_RUN_ATTEMPT", "2")
    CliRunner().invoke(cli, held, catch_exceptions=False)
    assert jobs.outputs()["go"] == "nothing"
