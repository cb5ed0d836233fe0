"""The official harnesses: their command lines, the reading of what they leave, and what is refused without Docker."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scrout.base import SandboxError, TaskError
from scrout.batch.grading.grade_batch import open_grade_store, report
from scrout.batch.grading.harness import (
    Official,
    pro_command,
    pro_prefix,
    read_pro,
    read_swebench,
    require_docker,
    swebench_command,
    swebench_dataset,
    write_pro_patches,
)
from scrout.batch.grading.patches import Prediction
from scrout.batch.task_formats import TaskRow
from scrout.task import Gold

GOLD = Gold(patch="p", fail_to_pass=("new",), pass_to_pass=("old",))
IDS = ("solved", "wrong", "empty", "refused", "lost", "torn")
ROWS = [TaskRow(task_id, "text", "o/n", "c" * 40, GOLD) for task_id in IDS]
PREDICTIONS = {
    task_id: Prediction(task_id, "" if task_id == "empty" else f"diff {task_id}", "org/m") for task_id in IDS
}
FAKE_DOCKER = "#!/bin/sh\necho 28\n"


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def swebench_report(task_id: str, resolved: bool) -> object:
    bad = [] if resolved else ["new"]
    return {
        task_id: {
            "patch_is_None": False,
            "patch_exists": True,
            "patch_successfully_applied": True,
            "resolved": resolved,
            "tests_status": {
                "FAIL_TO_PASS": {"success": ["new"] if resolved else [], "failure": bad},
                "PASS_TO_PASS": {"success": ["old"], "failure": []},
            },
        }
    }


def test_swebench_is_read_task_by_task(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "run_evaluation" / "run-1" / "org__m"
    write(logs / "solved" / "report.json", swebench_report("solved", True))
    write(logs / "wrong" / "report.json", swebench_report("wrong", False))
    write(logs / "refused" / "run_instance.log", "INFO - >>>>> Patch Apply Failed:\nerror: no such file\n")
    write(logs / "torn" / "report.json", '{"torn": {"reso')
    found = {one.id: one for one in read_swebench(tmp_path, "run-1", ROWS, PREDICTIONS)}
    assert {task_id: one.verdict for task_id, one in found.items()} == {
        "solved": "resolved",
        "wrong": "unresolved",
        "empty": "empty_patch",
        "refused": "does_not_apply",
        "lost": "infrastructure",
        "torn": "infrastructure",
    }
    assert found["wrong"].failed == ("new",) and found["solved"].failed == ()
    assert {one.verdict for one in read_swebench(tmp_path, "run-2", ROWS[:1], PREDICTIONS)} == {"infrastructure"}


def test_pro_is_read_task_by_task(tmp_path: Path) -> None:
    def output(task_id: str, *passed: str) -> None:
        tests = [{"name": name, "status": "PASSED" if name in passed else "FAILED"} for name in ("new", "old")]
        prefix = pro_prefix("run-1", PREDICTIONS[task_id].patch)
        write(tmp_path / task_id / f"{prefix}_output.json", {"tests": tests})

    output("solved", "new", "old")
    output("wrong", "old")
    output("torn", "old")
    # The script says False also where a container left nothing.
    write(tmp_path / "eval_results.json", {"solved": True, "wrong": False, "refused": False})
    write(tmp_path / "infra_errors.json", {"lost": "no image"})
    found = {one.id: one for one in read_pro(tmp_path, "run-1", ROWS, PREDICTIONS)}
    assert {task_id: one.verdict for task_id, one in found.items()} == {
        "solved": "resolved",
        "wrong": "unresolved",
        "empty": "empty_patch",
        "refused": "infrastructure",
        "lost": "infrastructure",
        "torn": "infrastructure",
    }
    assert found["wrong"].failed == ("new",) and found["lost"].detail == "no image"


def test_a_prefix_is_of_one_patch(tmp_path: Path) -> None:
    write_pro_patches(tmp_path / "p.json", "run-1", PREDICTIONS)
    rows = json.loads((tmp_path / "p.json").read_text())
    assert [row["instance_id"] for row in rows] == [task_id for task_id in IDS if task_id != "empty"]
    assert set(rows[0]) == {"instance_id", "model_patch", "prefix"}
    assert len({row["prefix"] for row in rows}) == len(rows)


def test_command_lines(tmp_path: Path) -> None:
    assert swebench_command("set/name", tmp_path / "p.jsonl", "run-1", 3, 1800.0) == [
        *(sys.executable, "-m", "swebench.harness.run_evaluation"),
        *("--dataset_name", "set/name", "--predictions_path", str(tmp_path / "p.jsonl")),
        *("--run_id", "run-1", "--max_workers", "3", "--timeout", "1800"),
    ]
    assert swebench_dataset(tmp_path / "t.jsonl", "") == str(tmp_path / "t.jsonl")
    assert swebench_dataset(tmp_path / "t.parquet", "set/name") == "set/name"
    with pytest.raises(TaskError, match=r"t\.parquet.*--dataset"):
        swebench_dataset(tmp_path / "t.parquet", "")
    with pytest.raises(TaskError, match=r"--scripts .*swe_bench_pro_eval\.py"):
        pro_command(tmp_path, tmp_path / "t.jsonl", tmp_path / "p", tmp_path / "out", 2)
    write(tmp_path / "swe_bench_pro_eval.py", "")
    with pytest.raises(TaskError, match="Convert"):
        pro_command(tmp_path, tmp_path / "t.parquet", tmp_path / "p", tmp_path / "out", 2)
    command = pro_command(tmp_path, tmp_path / "t.jsonl", tmp_path / "p", tmp_path / "out", 2)
    assert command[1] == "swe_bench_pro_eval.py" and "--use_local_docker" in command
    assert f"--patch_path={tmp_path / 'p'}" in command and f"--output_dir={tmp_path / 'out'}" in command


def with_docker(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "docker").write_text(script)
    (folder / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")


def test_without_docker_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"which is not installed. Install it, or grade with --harness own"):
        require_docker()


def test_a_docker_that_does_not_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_docker(tmp_path, "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n", monkeypatch)
    with pytest.raises(
        SandboxError, match=r"Cannot connect to the Docker daemon.*Start it, or grade with --harness own"
    ):
        require_docker()


PRO_SCRIPT = """
import json, pathlib, sys
given = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
out = pathlib.Path(given["output_dir"])
verdicts = {}
for row in json.load(open(given["patch_path"])):
    solved = "solved" in row["instance_id"]
    (out / row["instance_id"]).mkdir(exist_ok=True)
    tests = [{"name": name, "status": "PASSED" if solved else "FAILED"} for name in ("new", "old")]
    (out / row["instance_id"] / (row["prefix"] + "_output.json")).write_text(json.dumps({"tests": tests}))
    verdicts[row["instance_id"]] = solved
(out / "eval_results.json").write_text(json.dumps(verdicts))
if "broken" in verdicts:
    sys.exit("no such image")
"""


def test_a_whole_run_through_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a script in place of SWE-bench Pro's that takes and leaves the same."""
    with_docker(tmp_path, FAKE_DOCKER, monkeypatch)
    write(tmp_path / "pro" / "swe_bench_pro_eval.py", PRO_SCRIPT)
    rows = [TaskRow(task_id, "text", "o/n", "c" * 40, GOLD) for task_id in ("instance_solved", "instance_wrong")]
    arms = {"": {row.id: Prediction(row.id, f"diff {row.id}") for row in rows}}
    files = {"": tmp_path / "p.jsonl"}
    with open_grade_store(tmp_path / "out") as book:
        with pytest.raises(TaskError, match=r"SWE-bench Pro.*--scripts"):
            Official(book, tmp_path / "t.jsonl", "run-1").run(rows, arms, files)
        official = Official(book, tmp_path / "t.jsonl", "run-1", scripts=tmp_path / "pro")
        official.run(rows, arms, files)
        (arm,) = report(rows, arms, book).arms
        assert arm.verdicts == {"resolved": 1, "unresolved": 1}
        broken = {"": {"broken": Prediction("broken", "diff")}}
        with pytest.raises(SandboxError, match=r"exit code 1: no such image.*harness\.log"):
            official.run([TaskRow("broken", "t", "o/n", "c" * 40, GOLD)], broken, files)


def test_swebench_must_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_docker(tmp_path, FAKE_DOCKER, monkeypatch)
    with open_grade_store(tmp_path / "out") as book, pytest.raises(TaskError, match="pip install swebench"):
        Official(book, tmp_path / "t.jsonl", "run-1").run(ROWS, {"": PREDICTIONS}, {"": tmp_path / "p.jsonl"})
