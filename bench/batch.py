"""A batch against a stand-in model, beside mini-SWE-agent's batch runner: tasks a minute, memory, processor time.

    python bench/batch.py [--mini PYTHON] [--tasks 300] [--rounds 3] [--cases 3] [--out bench/results/batch.json]

Each side is a command of its own, started for each round, with --jobs tasks in flight; what it takes to start and to
end counts. Both run the same commands in the same number of turns, and their last reply ends the task with the same
patch. scrout does the whole job: `scrout batch run --arms solo` with its own agent, each task in a workspace and a
sandbox of its own, each call through the meter, ledger, trajectory, check, predictions and report. mini-SWE-agent has
clones that were made before, and no check. PYTHON is an interpreter with mini-SWE-agent 2.4.6 and litellm 1.105.0;
without it the comparison is left out.

The model is bench/batch_endpoint.py, a process of its own that is no part of any figure. It thinks for --think-s
seconds, as any model does, and in a further measurement not at all. All tasks are at one commit of the bundled example:
with its tests, which the check runs before and after each patch, and without them, so that the check only applies the
patch. mini-SWE-agent's work is the same in both.

Memory is sampled every --sample-s seconds as the proportional set size (each shared page counted once) of the side's
process and all that descends from it, the meter included. Processor time is what the kernel booked for all of them.
Sides alternate in each round. The interval of a ratio is its smallest and largest of n rounds, with confidence
1 - 2^(1-n) for the median.

Targets: at least 3 times the tasks a minute at a third of the memory.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

from episodes import EXAMPLE, GREP, PR_SET_CHILD_SUBREAPER, _bwrap, _process, _versions
from record import record

HERE = Path(__file__).parent
EDIT = "sed -i 's/days >= 0/days > 0/; 1i # Examined.' larder/expiry.py"
SUBMISSION = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"
LARGE_MB = 20
"""More than any program that a task runs."""
SETTINGS = """\
[[fixers]]
name = "toy"
kind = "agent"
model = "stand-in"
base_url = "{base_url}"
price = {{ input = 1, output = 4 }}
cap_calls = 1000
cap_usd = 100
"""


@dataclass(frozen=True)
class Batch:
    """What one side did in one round."""

    tasks: int
    seconds: float
    cpu_s: float
    peak_mb: float
    """Of all its processes."""
    runner_mb: float
    """Of the process that was started, at its peak."""
    processes: int
    """The most that were seen at once."""
    disk_kb: float = 0.0
    """Of what it leaves in its output folder."""

    @property
    def tasks_per_minute(self) -> float:
        return 60 * self.tasks / self.seconds

    @property
    def cpu_ms_per_task(self) -> float:
        return 1000 * self.cpu_s / self.tasks


@dataclass(frozen=True)
class Ground:
    """What both sides work on."""

    folder: Path
    repo: Path
    commit: str
    issues: dict[str, str]
    base_url: str
    jobs: int
    turns: int
    sample_s: float


class Sampler:
    """Watches the memory of all that descends from a process."""

    def __init__(self, root: int, without: set[int], every_s: float) -> None:
        self.peak_mb = self.runner_mb = 0.0
        self.processes = 0
        self._root = root
        self._without = without
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            # What a side leaves behind on purpose, such as the meter, has become a child of ours.
            found = {pid: _pss_mb(pid) for pid in descendants(os.getpid(), self._without)}
            self.peak_mb = max(self.peak_mb, sum(found.values()))
            self.runner_mb = max(self.runner_mb, found.get(self._root, 0.0))
            self.processes = max(self.processes, sum(1 for mb in found.values() if mb))
            _reap([pid for pid in found if pid != self._root])


def descendants(root: int, without: set[int]) -> list[int]:
    """Processes below one, those of `without` and theirs left out."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                # The command's name stands in brackets and may hold anything.
                parent = int(Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), []) if pid not in without]
        found += below
        waiting += below
    return found


def _pss_mb(pid: int) -> float:
    with suppress(OSError, StopIteration):
        rollup, stat, name = (Path(f"/proc/{pid}/{part}") for part in ("smaps_rollup", "stat", "cmdline"))
        held_mb = (
            next(int(line.split()[1]) for line in rollup.read_text().splitlines() if line.startswith("Pss:")) / 1024
        )
        if held_mb < LARGE_MB:
            return held_mb
        parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
        # After vfork a child has its parent's memory, not a copy, until it runs its program.
        return 0.0 if Path(f"/proc/{parent}/cmdline").read_bytes() == name.read_bytes() else held_mb
    return 0.0


def measured(ground: Ground, argv: list[str], given: str, env: dict[str, str], log: Path) -> Batch:
    """Run one side's command; what it leaves running is ended, and counts."""
    without = set(descendants(os.getpid(), set()))
    used, began = _cpu_s(), time.monotonic()
    with log.open("wb") as talk:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=talk, stderr=talk, env=os.environ | env, cwd=ground.folder
        )
        with Sampler(process.pid, without, ground.sample_s) as sampler:
            process.communicate(given.encode())
            seconds = time.monotonic() - began
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(argv[:4])} ended with {process.returncode}:\n{log.read_text()[-3000:]}")
    _end_rest(without)
    return Batch(
        tasks=len(ground.issues),
        seconds=seconds,
        cpu_s=_cpu_s() - used,
        peak_mb=sampler.peak_mb,
        runner_mb=sampler.runner_mb,
        processes=sampler.processes,
    )


def _end_rest(without: set[int]) -> None:
    deadline = time.monotonic() + 10
    while rest := descendants(os.getpid(), without):
        for pid in rest:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        _reap(rest)
        time.sleep(0.05)


def _reap(pids: Sequence[int]) -> None:
    """Wait for those that have ended: an orphan's processor time is booked to us only then."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _cpu_s() -> float:
    """Of every process that has ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(ground: Ground, number: int) -> Batch:
    folder = ground.folder / f"scrout-{number}"
    folder.mkdir()
    rows = [
        {"id": name, "text": text, "repo": str(ground.repo), "base_commit": ground.commit}
        for name, text in ground.issues.items()
    ]
    tasks, settings, out = folder / "tasks.jsonl", folder / "scrout.toml", folder / "out"
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings.write_text(SETTINGS.format(base_url=ground.base_url))
    runtime = folder / "r"
    runtime.mkdir(mode=0o700)
    env = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "DATA", "CONFIG")}
    argv = [sys.executable, "-m", "scrout", "batch", "run", str(tasks), "--out", str(out)]
    argv += ["--arms", "solo", "--fixers", "toy", "--jobs", str(ground.jobs), "--config", str(settings)]
    batch = measured(ground, argv, "", env | {"XDG_RUNTIME_DIR": str(runtime)}, folder / "log")
    (predictions,) = (out / "predictions").glob("*.jsonl")
    patches = [json.loads(line)["model_patch"] for line in predictions.read_text().splitlines()]
    _expect(ground, patches)
    batch = replace(batch, disk_kb=_size_kb(out))
    shutil.rmtree(folder, ignore_errors=True)
    return batch


def theirs(ground: Ground, number: int, python: str, environment: dict[str, str]) -> Batch:
    folder = ground.folder / f"mini-{environment['environment_class']}-{number}"
    clones, out = folder / "clones", folder / "out"
    out.mkdir(parents=True)
    for name in ground.issues:
        shutil.copytree(ground.repo, clones / name)
    order = {
        "issues": ground.issues,
        "clones": str(clones),
        "out": str(out),
        "base_url": ground.base_url,
        "jobs": ground.jobs,
        "environment": environment,
    }
    argv = [python, str(HERE / "batch_mini.py")]
    batch = measured(ground, argv, json.dumps(order) + "\n", {}, folder / "log")
    predictions = json.loads((out / "preds.json").read_text())
    _expect(ground, [prediction["model_patch"] for prediction in predictions.values()])
    batch = replace(batch, disk_kb=_size_kb(out))
    shutil.rmtree(folder, ignore_errors=True)
    return batch


def _size_kb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1000


def _expect(ground: Ground, patches: Sequence[str]) -> None:
    """A side that did less than the work would look fast; a call that a client repeats is its own affair."""
    with urlopen(f"{ground.base_url.removesuffix('/v1')}/calls") as answer:
        calls = int(answer.read())
    if calls < ground.turns * len(ground.issues) or len(patches) != len(ground.issues):
        raise SystemExit(f"{calls} calls and {len(patches)} predictions for {len(ground.issues)} tasks")
    if not all("+# Examined." in patch for patch in patches):
        raise SystemExit("a prediction is not the patch that the script makes")


@contextmanager
def serving(turns: int, think_s: float) -> Iterator[str]:
    """The address of the stand-in, which is one of the sides' work in no figure."""
    script = {
        "commands": [*[GREP] * (turns - 2), EDIT],
        "reply": "The last day counts now.",
        "submission": SUBMISSION,
        "think_s": think_s,
    }
    with _process([sys.executable, str(HERE / "batch_endpoint.py")]) as (send, receive):
        send(script)
        yield receive()


def project(folder: Path, *, tests: bool) -> tuple[Path, str]:
    """The bundled example as a repository, and its commit."""
    left_out = ["__pycache__", *([] if tests else ["tests"])]
    repo = shutil.copytree(EXAMPLE / "larder", folder / "larder", ignore=shutil.ignore_patterns(*left_out))
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run(["git", *identity, *arguments], cwd=repo, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, stdout=subprocess.PIPE, text=True)
    return repo, head.stdout.strip()


def compare(asked: argparse.Namespace, *, tests: bool, think_s: float) -> dict[str, object]:
    """Rounds of all sides in turn, over one project and one stand-in."""
    issue = (EXAMPLE / "issue.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name, serving(asked.turns, think_s) as base_url:
        repo, commit = project(Path(name), tests=tests)
        issues = {f"task-{number}": f"{issue}\nReport {number}." for number in range(asked.tasks)}
        ground = Ground(Path(name), repo, commit, issues, base_url, asked.jobs, asked.turns, asked.sample_s)
        sides: dict[str, Callable[[int], Batch]] = {"scrout": lambda number: ours(ground, number)}
        if asked.mini:
            bwrap = {"environment_class": "bubblewrap", "executable": _bwrap()}
            sides["mini, local"] = lambda number: theirs(ground, number, asked.mini, {"environment_class": "local"})
            sides["mini, bubblewrap"] = lambda number: theirs(ground, number, asked.mini, bwrap)
        batches: dict[str, list[Batch]] = {side: [] for side in sides}
        for number in range(asked.rounds):
            for side in list(sides) if number % 2 else list(reversed(sides)):
                batch = sides[side](number)
                batches[side].append(batch)
                print(
                    f"tests={tests} think={think_s:g}  {side}: {batch.tasks_per_minute:.0f} tasks/min, "
                    f"{batch.peak_mb:.0f} MB ({batch.runner_mb:.0f}), {batch.cpu_ms_per_task:.0f} ms CPU a task",
                    file=sys.stderr,
                )
    return {
        "project_has_tests": tests,
        "think_s": think_s,
        "sides": {side: _figures(done) for side, done in batches.items()},
        "ratio": {side: _ratios(batches["scrout"], done) for side, done in batches.items() if side != "scrout"},
    }


def _figures(side: Sequence[Batch]) -> dict[str, object]:
    return {
        "tasks_per_minute": [round(batch.tasks_per_minute, 1) for batch in side],
        "peak_mb": [round(batch.peak_mb) for batch in side],
        "runner_peak_mb": [round(batch.runner_mb) for batch in side],
        "cpu_ms_per_task": [round(batch.cpu_ms_per_task) for batch in side],
        "most_processes": [batch.processes for batch in side],
        "disk_kb_per_task": [round(batch.disk_kb / batch.tasks, 1) for batch in side],
    }


def _ratios(mine: Sequence[Batch], theirs: Sequence[Batch]) -> dict[str, object]:
    """Ours by theirs: more is better of the first, less of the others."""
    parts: dict[str, Callable[[Batch], float]] = {
        "tasks_per_minute": lambda batch: batch.tasks_per_minute,
        "peak_mb": lambda batch: batch.peak_mb,
        "runner_peak_mb": lambda batch: batch.runner_mb,
        "cpu_per_task": lambda batch: batch.cpu_ms_per_task,
    }
    found: dict[str, object] = {"confidence": round(1 - 2 ** (1 - len(mine)), 3)}
    for name, part in parts.items():
        ratios = [part(a) / part(b) for a, b in zip(mine, theirs, strict=True)]
        ends = [round(min(ratios), 2), round(max(ratios), 2)]
        found[name] = {"median": round(statistics.median(ratios), 2), "interval": ends}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mini", metavar="PYTHON", help="an interpreter that has mini-SWE-agent")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--think-s", type=float, default=0.05)
    parser.add_argument("--sample-s", type=float, default=1.0)
    parser.add_argument("--cases", type=int, default=3, help="only the first so many")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    # What a side leaves behind becomes ours, so that it can be counted and ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    cases = ((False, asked.think_s), (True, asked.think_s), (False, 0.0))[: asked.cases]
    result: dict[str, object] = {
        "tasks": asked.tasks,
        "in_flight": asked.jobs,
        "turns_each": asked.turns,
        "rounds": asked.rounds,
        "mini_versions": _versions(asked.mini) if asked.mini else {},
        "cases": [compare(asked, tests=tests, think_s=think_s) for tests, think_s in cases],
        "targets": {"tasks_per_minute": 3, "peak_mb": round(1 / 3, 3)},
        "load_1_min": round(os.getloadavg()[0], 2),
    }
    record(result, asked.out)


if __name__ == "__main__":
    main()
