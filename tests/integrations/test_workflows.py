"""The action and the examples: what each job may do, read from their YAML, and what linters say of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scrout.cli.main import scrout as cli
from scrout.config.settings import Settings
from scrout.integrations.ci_environment import WRITERS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / "examples" / "github").glob("*.yml"))
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "examples" / "gitlab" / ".gitlab-ci.yml"
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.S)
NAMES = [path.name for path in WORKFLOWS]


def load(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    # YAML 1.1 reads `on` as true.
    return {"on" if key is True else key: value for key, value in document.items()}


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return list(job["steps"])


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif value is not None:
        yield str(value)


def expressions(value: Any) -> set[str]:
    return {found.strip() for text in strings(value) for found in EXPRESSION.findall(text)}


@pytest.fixture(params=WORKFLOWS, ids=NAMES)
def workflow(request: pytest.FixtureRequest) -> dict[str, Any]:
    return load(request.param)


def test_there_are_examples() -> None:
    assert NAMES == ["fix-on-label.yml", "scout-on-label.yml"]


def test_a_label_starts_it_and_nothing_else(workflow: dict[str, Any]) -> None:
    assert workflow["on"] == {"issues": {"types": ["labeled"]}}
    assert workflow["permissions"] == {} and list(workflow["jobs"]) == ["admit", "work", "publish"]
    assert workflow["concurrency"]["cancel-in-progress"] is False


def test_the_job_that_runs_an_agent_may_write_nothing(workflow: dict[str, Any]) -> None:
    work = workflow["jobs"]["work"]
    assert work["permissions"] == {"contents": "read"}
    told = expressions(work)
    assert not [one for one in told if "token" in one.lower() or one.startswith("github.event")], told
    secrets = {one for one in told if "secrets" in one}
    assert secrets <= {"secrets.MY_API_KEY"}
    for step in steps(work):
        assert not set(step.get("env", {})) & set(WRITERS)
        assert "token" not in step.get("with", {})
        # Secrets are given to the step that needs them and to no other.
        assert not expressions(step.get("env", {})) or step["with"]["step"] == "work"
    assert "env" not in work and "env" not in workflow
    (checkout,) = [step for step in steps(work) if step["uses"].startswith("actions/checkout@")]
    assert checkout["with"] == {"ref": "${{ github.sha }}", "fetch-depth": 0, "persist-credentials": False}


def test_the_jobs_that_may_write_run_nothing(workflow: dict[str, Any]) -> None:
    for name in ("admit", "publish"):
        job = workflow["jobs"][name]
        for step in steps(job):
            assert "run" not in step and not step["uses"].startswith("actions/checkout@"), step
            assert step["uses"].startswith(("OWNER/scrout@", "actions/download-artifact@"))
        assert not [one for one in expressions(job) if "secrets" in one]


def test_rights_are_no_more_than_each_job_needs() -> None:
    fix, scout = (load(ROOT / "examples" / "github" / name)["jobs"] for name in NAMES)
    assert fix["admit"]["permissions"] == {"contents": "write", "issues": "read"}
    assert fix["publish"]["permissions"] == {"contents": "write", "issues": "write", "pull-requests": "write"}
    assert scout["admit"]["permissions"] == {"issues": "read"}
    assert scout["publish"]["permissions"] == {"issues": "write"}
    # Without a right to write the budget, nothing may cost.
    assert "run-usd" not in scout["admit"]["steps"][0]["with"]
    assert load(ACTION)["inputs"]["run-usd"]["default"] == load(ACTION)["inputs"]["day-usd"]["default"] == "0"


def test_what_is_admitted_goes_past_the_work(workflow: dict[str, Any]) -> None:
    jobs = workflow["jobs"]
    for name in ("work", "publish"):
        given = [step["with"]["admission"] for step in steps(jobs[name]) if "admission" in step.get("with", {})]
        assert given == ["${{ needs.admit.outputs.admission }}"]
    assert "outputs" not in jobs["work"]
    assert jobs["work"]["if"] == "needs.admit.outputs.go == 'work'"
    assert "needs.admit.outputs.go == 'work'" in jobs["publish"]["if"] and "!cancelled()" in jobs["publish"]["if"]


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_no_expression_is_within_a_script(path: Path) -> None:
    document = load(path)
    lists = [job["steps"] for job in document["jobs"].values()] if "jobs" in document else [document["runs"]["steps"]]
    for step in (step for one in lists for step in one):
        assert not EXPRESSION.search(step.get("run", "")), step


def test_strangers_words_are_in_no_expression_but_the_group(workflow: dict[str, Any]) -> None:
    for job in workflow["jobs"].values():
        assert not [one for one in expressions(job) if "github.event" in one or "head_ref" in one]
    assert expressions(workflow["concurrency"]) == {"github.event.issue.number", "github.event.label.name"}


def test_everything_is_pinned_by_a_commit(workflow: dict[str, Any]) -> None:
    used = [step["uses"] for job in workflow["jobs"].values() for step in steps(job)]
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one) for one in used), used


def test_every_job_ends(workflow: dict[str, Any]) -> None:
    assert all(0 < job["timeout-minutes"] <= 60 for job in workflow["jobs"].values())


# The action


def test_the_action_gives_the_work_no_token_and_knows_our_options() -> None:
    action = load(ACTION)
    last = action["runs"]["steps"][-1]
    assert last["env"]["SCROUT_FORGE_TOKEN"] == "${{ inputs.step != 'work' && inputs.token || '' }}"
    assert {f"inputs.{name}" for name in action["inputs"]} == {
        re.sub(r".*(inputs\.[a-z-]+).*", r"\1", one) for one in expressions(last["env"])
    } | {"inputs.token"}
    assert not [step for step in action["runs"]["steps"] if "uses" in step]
    forge = cli.get_command(None, "forge")  # type: ignore[arg-type]
    known = {name for command in forge.commands.values() for option in command.params for name in option.opts}  # type: ignore[union-attr]
    assert set(re.findall(r"(?<= )--[a-z-]+", last["run"])) <= known


def test_an_example_names_only_inputs_of_the_action(workflow: dict[str, Any]) -> None:
    inputs = set(load(ACTION)["inputs"])
    for job in workflow["jobs"].values():
        for step in steps(job):
            if step["uses"].startswith("OWNER/scrout@"):
                assert set(step["with"]) <= inputs
                assert step["with"]["step"] == next(name for name, one in workflow["jobs"].items() if one is job)


@pytest.mark.parametrize("step, code", [("admit", 0), ("work", 0), ("publish", 3), ("other", 2)])
def test_the_actions_script_runs_the_command_with_its_inputs_as_they_are(tmp_path: Path, step: str, code: int) -> None:
    """By a real bash, with a program in scrout's place that tells what it was given."""
    program = tmp_path / "scrout-venv" / "bin" / "scrout"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/told"\necho "::error::x"\nexit {code}\n')
    program.chmod(0o755)
    hostile = f'x"; touch {tmp_path}/sprung; $(touch {tmp_path}/sprung) `id`'
    last = load(ACTION)["runs"]["steps"][-1]
    env = dict.fromkeys(last["env"], hostile) | {"STEP": step, "RESULT": "folder/result.json", "SCROUT_FORGE_TOKEN": ""}
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", last["run"]],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path), **env},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == code and not (tmp_path / "sprung").exists()
    stopped = ended.stdout.splitlines()
    token = stopped[0].removeprefix("::stop-commands::")
    assert len(token) == 32 and stopped[-1] == f"::{token}::"
    if step != "other":
        told = (tmp_path / "told").read_text().splitlines()
        assert told[:2] == ["forge", step] and hostile in told and stopped[1:-1] == ["::error::x"]


# The pool beside the example


def test_the_examples_pool_is_one() -> None:
    text = (ROOT / "examples" / "github" / "scrout.toml").read_text(encoding="utf-8")
    settings = Settings.model_validate(tomllib.loads(text))
    assert [fixer.key_env for fixer in settings.fixers] == ["", "MY_API_KEY"]
    fix = load(ROOT / "examples" / "github" / "fix-on-label.yml")
    (given,) = [step["env"] for step in steps(fix["jobs"]["work"]) if "env" in step]
    assert set(given) == {"MY_API_KEY"}


# GitLab


def test_gitlabs_jobs_have_environments_of_their_own() -> None:
    pipeline = load(GITLAB)
    jobs = {name: pipeline[name] for name in ("admit", "work", "publish")}
    environments = {name: job["environment"]["name"] for name, job in jobs.items()}
    assert environments == {"admit": "scrout/write", "work": "scrout/work", "publish": "scrout/write"}
    for name in ("admit", "publish"):
        assert jobs[name]["variables"]["GIT_STRATEGY"] == "none"
    assert "SCROUT_FORGE_TOKEN" not in yaml.safe_dump(jobs)
    # `rules` and `when` beside each other are an error, and a job without rules would run for every push.
    guard = '$CI_PIPELINE_SOURCE == "trigger" && $CI_COMMIT_REF_NAME == $CI_DEFAULT_BRANCH'
    for name, job in jobs.items():
        rules = job.get("rules", pipeline[job["extends"]]["rules"])
        assert [rule["if"] for rule in rules] == [guard] and "when" not in job, name
    assert jobs["publish"]["rules"][0]["when"] == "always"
    assert jobs["work"]["artifacts"]["paths"] == ["scrout-result/result.json"]
    assert jobs["admit"]["artifacts"]["reports"] == {"dotenv": jobs["admit"]["variables"]["SCROUT_FORGE_OUTPUT"]}


def test_gitlabs_scripts_quote_what_they_are_given() -> None:
    pipeline = load(GITLAB)
    for name in (".scrout", "admit", "work", "publish"):
        for line in (*pipeline[name].get("before_script", ()), *pipeline[name].get("script", ())):
            subprocess.run(["bash", "-n", "-c", line], check=True)
            assert not re.search(r'(?<!")\$(?!1)\w+(?!")', line.replace('"$1"', "")), line
            assert "TRIGGER_PAYLOAD" not in line and "CI_COMMIT_MESSAGE" not in line


# Linters


def test_actionlint_finds_nothing_but_what_was_broken_on_purpose(tmp_path: Path) -> None:
    program = Path(sys.prefix) / "actionlint" / "bin" / "actionlint"
    if not program.exists():
        pytest.skip(f"{program} is not there. Install it with: sh scripts/add-actionlint {sys.prefix}")
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("needs.admit.outputs.go ==", "needs.nobody.outputs.go =="))
    ended = subprocess.run([program, *WORKFLOWS, broken], capture_output=True, text=True)
    assert ended.returncode == 1 and "nobody" in ended.stdout and not ended.stderr
    assert all(line.startswith(f"{broken}:") for line in ended.stdout.splitlines()), ended.stdout


def test_zizmor_finds_no_way_in() -> None:
    program = Path(sys.prefix) / "bin" / "zizmor"
    if not program.exists():
        pytest.skip(f"{program} is not there. Install it with: sh scripts/add-actionlint {sys.prefix}")
    ended = subprocess.run(
        [program, "--offline", "--no-progress", "--persona", "pedantic", "--min-severity", "low", ACTION, *WORKFLOWS],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
