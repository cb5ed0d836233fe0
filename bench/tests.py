"""How long the tests take a newcomer: a fresh clone, an empty home, nothing installed, each time anew.

    python bench/tests.py [--runs 3] [--ci] [--user NAME] [--random 5] [--busy 0]
                          [--coverage NAME=FILE ...] [--out FILE]

`--runs` measures `make test`, `--ci` all that .ci/run does, `--user` `make test` as an ordinary user (needs root), and
`--random` the default tests in random orders, one run after the other. `--busy 1` keeps that many cores busy with other
work meanwhile. `--coverage` adds the totals of a report that `pytest --cov=scrout --cov-branch --cov-report=json:FILE`
wrote (pytest-cov is in no extra: install it for this), or those that an earlier result has by that name. Targets:
`make test` in 6 minutes, all of .ci/run in 25.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from record import record

ROOT = Path(__file__).parents[1]
CI = ("test", "test-all", "demo")
PHASES = {"install": "pip install", "lint": "ruff check", "types": "bin/mypy", "tests": "-m pytest"}
"""A phase begins when make prints a command with these words."""
SPIN = "while True: pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--user", default="")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--coverage", action="append", default=[])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    result: dict[str, object] = {"busy_cores": asked.busy}
    beside = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(asked.busy)]
    try:
        if asked.runs:
            runs = [measure(["test"]) for _ in range(asked.runs)]
            median = statistics.median(float(str(run["seconds"])) for run in runs)
            result["make_test"] = {"target_seconds": 360, "median_seconds": median, "runs": runs}
        if asked.ci:
            result["ci"] = {"target_seconds": 1500, **measure(CI)}
        if asked.user:
            result["ordinary_user"] = {"target_seconds": 360, **measure(["test"], asked.user)}
        if asked.random:
            result["random_order"] = shuffled(asked.random)
    finally:
        for process in beside:
            process.kill()
    result["coverage"] = {
        name: covered(name, Path(file)) for name, _, file in (one.partition("=") for one in asked.coverage)
    }
    record(result, asked.out)


def covered(name: str, report: Path) -> dict[str, float]:
    """Shares of lines and branches that ran in the test processes themselves, in percent, and of how many."""
    read = json.loads(report.read_text())
    if earlier := read.get("coverage"):
        return earlier[name]
    totals = read["totals"]
    return {
        "lines": round(totals["percent_statements_covered"], 2),
        "branches": round(totals["percent_branches_covered"], 2),
        "of_lines": totals["num_statements"],
        "of_branches": totals["num_branches"],
    }


@dataclass
class Newcomer:
    """A fresh clone and an empty home. With a name, both belong to that user, who knows nothing of root's settings."""

    folder: Path
    user: str
    began: float = field(default_factory=time.monotonic)
    load_before: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))
    lines: list[tuple[float, str]] = field(default_factory=list)
    """What was printed, and after how many seconds."""

    def run(self, *command: str) -> int:
        home = {"HOME": str(self.folder / "home")}
        if self.user:
            kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            own = {**kept, **home, "PATH": f"/usr/local/bin:{os.defpath}", "LANG": "C.UTF-8"}
            pairs = (f"{name}={value}" for name, value in own.items())
            command = ("runuser", "-u", self.user, "--", "env", "-i", *pairs, *command)
        with subprocess.Popen(
            command,
            cwd=self.folder / "scrout",
            env={**os.environ, **home, "PYTHONDONTWRITEBYTECODE": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout
            self.lines += [(self.seconds, line) for line in process.stdout]
        return process.returncode

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def told(self, code: int) -> dict[str, object]:
        lines = [line.strip() for _, line in self.lines]
        told: dict[str, object] = {
            "seconds": self.seconds,
            "exit_code": code,
            "tests": [line for line in lines if re.search(r"\d+ passed", line)],
            "load_before": self.load_before,
            "load_after": round(os.getloadavg()[0], 2),
        }
        if code:
            told["failed"] = [line for line in lines if re.match("(FAILED|ERROR) tests/", line)] or lines[-10:]
        return told


@contextmanager
def newcomer(user: str = "") -> Iterator[Newcomer]:
    with tempfile.TemporaryDirectory(prefix="scrout-newcomer-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # a database server runs as another user, from the programs in the clone
        (folder / "home").mkdir()
        subprocess.run(["git", "clone", "--quiet", ROOT, folder / "scrout"], check=True)
        if (ROOT.parent / "shared").is_dir():
            (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
        if user:
            subprocess.run(["chown", "--recursive", "--no-dereference", user, folder], check=True)
        yield Newcomer(folder, user)


def measure(targets: Sequence[str], user: str = "") -> dict[str, object]:
    """One newcomer's way up to the first failure: the seconds of each target and phase, and what the tests said."""
    parts: dict[str, float] = {}
    code = 0
    with newcomer(user) as one:
        for target in targets:
            before = one.seconds
            code = code or one.run("make", target)
            parts[f"make {target}"] = round(one.seconds - before, 1)
        told = one.told(code)
    starts = [next((at for at, line in one.lines if words in line), parts["make test"]) for words in PHASES.values()]
    spans = zip(PHASES, pairwise([*starts, parts["make test"]]), strict=True)
    phases = {phase: round(end - start, 1) for phase, (start, end) in spans}
    left_out = sorted({line.strip() for _, line in one.lines if re.match(r"left out: (?!tests/)", line)})
    return {**told, "parts": parts, "phases": phases, "left_out": left_out}


def shuffled(runs: int) -> list[dict[str, object]]:
    """The default tests in one clone, in another order each time; a run that fails is told as one."""
    results = []
    with newcomer() as one:
        if one.run("make", ".venv/.installed-dev"):
            sys.exit("".join(line for _, line in one.lines[-60:]))
        workers = str((os.cpu_count() or 1) + 1)
        for seed in range(1, runs + 1):
            one.began, one.lines, one.load_before = time.monotonic(), [], round(os.getloadavg()[0], 2)
            pytest = (".venv/bin/python", "-m", "pytest", "-n", workers, "--dist", "worksteal")
            code = one.run(*pytest, f"--randomly-seed={seed}")
            results.append({"seed": seed, **one.told(code)})
    return results


if __name__ == "__main__":
    main()
