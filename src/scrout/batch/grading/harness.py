"""Runs the official harnesses, SWE-bench's and SWE-bench Pro's script, and reads their results.

Both need Docker and grade in their tasks' images. Both store results under a name (a run id, a prefix) and silently
reuse old results of that name, so each name here stands for one set of patches.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from scrout.base import SandboxError, TaskError
from scrout.batch.grading.grade import Grade, grade_of, without_run
from scrout.batch.grading.grade_batch import Arms, GradeStore
from scrout.batch.grading.judge import TIMEOUT_S, digest
from scrout.batch.grading.patches import Prediction
from scrout.batch.task_formats import TaskRow
from scrout.files import write_atomic
from scrout.programs import NEUTRAL, find_program
from scrout.task import Gold

PRO_IMAGES = "jefzda"
"""The account with SWE-bench Pro's published images."""
PRO_IDS = "instance_"
PRO_SCRIPT = "swe_bench_pro_eval.py"
DOCKER_S = 30
MOST_BYTES = 50_000_000
"""Maximum size of one result file."""


@dataclass(frozen=True)
class Official:
    """Grades with the official harness of the tasks."""

    book: GradeStore
    tasks: Path
    run_id: str
    jobs: int = 1
    timeout_s: float = TIMEOUT_S
    dataset: str = ""
    """The published dataset of the tasks; empty: SWE-bench's harness gets the task file."""
    scripts: Path | None = None
    """A clone of SWE-bench Pro's repository; None: the tasks are SWE-bench's."""
    say: Callable[[str], None] = field(default=lambda words: None)

    def run(self, rows: Sequence[TaskRow], arms: Arms, files: Mapping[str, Path]) -> None:
        """Grade all patches without a grade. `files` are the predictions of each arm."""
        judged = [row for row in rows if row.gold]
        if self.scripts is None and any(row.id.startswith(PRO_IDS) for row in judged):
            raise TaskError("these are tasks of SWE-bench Pro. Name a clone of its repository with --scripts.")
        require_docker()
        if self.scripts is None:
            require_swebench()
        for number, (arm, predictions) in enumerate(arms.items()):
            folder = self.book.folder / "harness" / self.run_id / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            self.say(f"the official harness judges {len(predictions)} patches {f'of {arm}' if arm else ''}".rstrip())
            for made in self._arm(folder, judged, predictions, files[arm]):
                if not predictions[made.id].lost:
                    self.book.add(made, [arm])

    def _arm(
        self, folder: Path, rows: Sequence[TaskRow], predictions: Mapping[str, Prediction], file: Path
    ) -> list[Grade]:
        log = folder / "harness.log"
        if self.scripts is None:
            dataset = swebench_dataset(self.tasks, self.dataset)
            command = swebench_command(dataset, file, self.run_id, self.jobs, self.timeout_s)
            _explain(run_harness(command, folder, log), log)
            return read_swebench(folder, self.run_id, rows, predictions)
        patches, results = folder / "patches.json", folder / "results"
        results.mkdir(exist_ok=True)
        write_pro_patches(patches, self.run_id, predictions)
        command = pro_command(self.scripts, self.tasks, patches, results, self.jobs)
        _explain(run_harness(command, self.scripts, log), log)
        return read_pro(results, self.run_id, rows, predictions)


def _explain(exit_code: int, log: Path) -> None:
    if exit_code != 0:
        last = _text(log).strip()[-300:]
        raise SandboxError(
            f"the official harness ended with exit code {exit_code}: {last} The full output is in {log}."
        )


def require_docker() -> None:
    """Raise a SandboxError with the next step unless Docker answers."""
    docker = find_program("docker")
    own = "grade with --harness own, in scrout's sandbox"
    if docker is None:
        raise SandboxError(f"--harness official needs Docker, which is not installed. Install it, or {own}.")
    try:
        asked = [docker, "version", "--format", "{{.Server.Version}}"]
        done = subprocess.run(asked, cwd=NEUTRAL, capture_output=True, text=True, timeout=DOCKER_S, check=False)
        said = done.stderr.strip()[-300:] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if said:
        raise SandboxError(f"--harness official needs Docker, which does not answer: {said} Start it, or {own}.")


def require_swebench() -> None:
    """Raise a TaskError with the next step unless SWE-bench's harness is installed."""
    if find_spec("swebench") is None:
        raise TaskError(f"--harness official needs SWE-bench's package: {sys.executable} -m pip install swebench")


def swebench_command(dataset: str, predictions: Path, run_id: str, jobs: int, timeout_s: float) -> list[str]:
    """The command line. Run it in a separate folder: it writes logs and a report to the current one."""
    return [
        *(sys.executable, "-m", "swebench.harness.run_evaluation"),
        *("--dataset_name", dataset),
        *("--predictions_path", str(predictions.absolute())),
        *("--run_id", run_id),
        *("--max_workers", str(jobs)),
        *("--timeout", str(int(timeout_s))),
    ]


def swebench_dataset(tasks: Path, dataset: str) -> str:
    """The harness's dataset argument: a published set's name, or a file of its rows that it can read."""
    if dataset:
        return dataset
    if tasks.suffix not in (".json", ".jsonl"):
        raise TaskError(f"SWE-bench's harness reads .json and .jsonl, not {tasks.name}. Name the set with --dataset.")
    return str(tasks.absolute())


def pro_command(scripts: Path, tasks: Path, patches: Path, results: Path, jobs: int) -> list[str]:
    """The command line. Run it in the clone of SWE-bench Pro's repository, because it reads files there."""
    if not (scripts / PRO_SCRIPT).is_file():
        raise TaskError(f"--scripts {scripts} has no {PRO_SCRIPT}. Name a clone of SWE-bench Pro's repository.")
    if tasks.suffix not in (".csv", ".jsonl"):
        raise TaskError(f"SWE-bench Pro's script reads .csv and .jsonl, not {tasks.name}. Convert it to .jsonl.")
    return [
        *(sys.executable, PRO_SCRIPT),
        f"--raw_sample_path={tasks.absolute()}",
        f"--patch_path={patches.absolute()}",
        f"--output_dir={results.absolute()}",
        "--scripts_dir=run_scripts",
        f"--num_workers={jobs}",
        f"--dockerhub_username={PRO_IMAGES}",
        "--use_local_docker",
    ]


def pro_prefix(run_id: str, patch: str) -> str:
    """A prefix with the patch's digest, so that no patch gets the result of another."""
    return f"{run_id}-{digest(patch)[:12]}"


def write_pro_patches(path: Path, run_id: str, predictions: Mapping[str, Prediction]) -> None:
    """Write the script's one JSON array. The script has no verdict for an empty patch, so empty ones are left out."""
    rows = [
        {"instance_id": one.id, "model_patch": one.patch, "prefix": pro_prefix(run_id, one.patch)}
        for one in predictions.values()
        if one.patch.strip()
    ]
    write_atomic(path, json.dumps(rows, indent=1) + "\n")


def run_harness(command: Sequence[str], folder: Path, log: Path) -> int:
    """Run a harness; returns its exit code and writes its output to a file."""
    with log.open("ab") as said:
        try:
            return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said).returncode
        except OSError as error:
            raise SandboxError(f"{command[0]} cannot be started: {error.strerror}. Check the installation.") from None


def read_swebench(
    folder: Path, run_id: str, rows: Sequence[TaskRow], predictions: Mapping[str, Prediction]
) -> list[Grade]:
    """Read the harness's results in its start folder, task by task."""
    judged = ((row, row.gold) for row in rows if row.gold and row.id in predictions)
    return [_swebench_grade(folder, run_id, row, gold, predictions[row.id]) for row, gold in judged]


def _swebench_grade(folder: Path, run_id: str, row: TaskRow, gold: Gold, one: Prediction) -> Grade:
    grade = partial(grade_of, row, gold, one.patch)
    if ended := without_run(row, gold, one):
        return ended
    logs = folder / "logs" / "run_evaluation" / run_id / (one.model or "None").replace("/", "__") / row.id
    told = _object(_object(_document(logs / "report.json")).get(row.id))
    if isinstance(told.get("resolved"), bool):
        status = _object(told.get("tests_status"))
        kinds = (_object(status.get(kind)) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS"))
        failed = tuple(name for kind in kinds for name in _texts(kind.get("failure")))
        resolved = told["resolved"] is True
        return grade("resolved" if resolved else "unresolved", "by SWE-bench's harness", failed)
    said = _text(logs / "run_instance.log")
    if "Patch Apply Failed" in said:
        return grade("does_not_apply", "the patch does not apply, says SWE-bench's harness")
    return grade("infrastructure", f"SWE-bench's harness left no report; see {logs.name} under {run_id}")


def read_pro(results: Path, run_id: str, rows: Sequence[TaskRow], predictions: Mapping[str, Prediction]) -> list[Grade]:
    """Read the script's results in its output folder, task by task."""
    verdicts = _object(_document(results / "eval_results.json"))
    not_run = _object(_document(results / "infra_errors.json"))
    judged = ((row, row.gold) for row in rows if row.gold and row.id in predictions)
    return [_pro_grade(results, run_id, row, gold, predictions[row.id], verdicts, not_run) for row, gold in judged]


def _pro_grade(
    results: Path,
    run_id: str,
    row: TaskRow,
    gold: Gold,
    one: Prediction,
    verdicts: Mapping[str, object],
    not_run: Mapping[str, object],
) -> Grade:
    grade = partial(grade_of, row, gold, one.patch)
    if ended := without_run(row, gold, one):
        return ended
    if row.id in not_run:
        return grade("infrastructure", str(not_run[row.id])[:1000])
    output = _document(results / row.id / f"{pro_prefix(run_id, one.patch)}_output.json")
    # The script counts a container without a result as a wrong patch.
    if not isinstance(verdicts.get(row.id), bool) or not isinstance(output, dict):
        return grade("infrastructure", "SWE-bench Pro's script left no output for it")
    tests = output.get("tests")
    tests_ended = [_object(test) for test in tests] if isinstance(tests, list) else []
    passed = {test.get("name") for test in tests_ended if test.get("status") == "PASSED"}
    if verdicts[row.id]:
        return grade("resolved", "by SWE-bench Pro's script")
    failed = tuple(test for test in (*gold.fail_to_pass, *gold.pass_to_pass) if test not in passed)
    return grade("unresolved", "by SWE-bench Pro's script", failed)


def _document(path: Path) -> object:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError):
        return None


def _text(path: Path) -> str:
    """Empty if there is no such file."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
