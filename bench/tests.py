"""How long `make test` takes a newcomer: a fresh clone, an empty home, nothing installed, each time anew.

    python bench/tests.py [--runs 3] [--target test] [--busy 0] [--coverage NAME=FILE ...] [--out FILE]

`--target test-all` measures that one after `make test`. `--busy 1` keeps that many cores busy with other work
meanwhile. `--coverage` adds the totals of a report that `pytest --cov=scrout --cov-branch --cov-report=json:FILE` wrote
(pytest-cov is in no extra: install it for this). Targets: `make test` in 6 minutes, all of .ci/run in 25.
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
from pathlib import Path

from record import record

ROOT = Path(__file__).parents[1]
PHASES = {"install": "pip install", "lint": "ruff check", "types": "bin/mypy", "tests": "-m pytest"}
"""A phase begins when make prints a command with these words."""
SPIN = "while True: pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--target", choices=("test", "test-all"), default="test")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--coverage", action="append", default=[])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    beside = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(asked.busy)]
    try:
        runs = [measure(asked.target) for _ in range(asked.runs)]
    finally:
        for process in beside:
            process.kill()
    result: dict[str, object] = {
        "busy_cores": asked.busy,
        "median_seconds": statistics.median(float(str(run["seconds"])) for run in runs),
        "target_seconds": 360 if asked.target == "test" else 1500,
        "runs": runs,
        "coverage": {name: covered(Path(file)) for name, _, file in (one.partition("=") for one in asked.coverage)},
    }
    record(result, asked.out)


def covered(report: Path) -> dict[str, float]:
    """Shares of lines and branches that ran in the test processes themselves, in percent."""
    totals = json.loads(report.read_text())["totals"]
    return {
        "lines": round(totals["percent_statements_covered"], 2),
        "branches": round(totals["percent_branches_covered"], 2),
    }


def measure(target: str) -> dict[str, object]:
    """One newcomer's way: the seconds of each phase, what the tests said, and how busy the machine was."""
    with tempfile.TemporaryDirectory(prefix="scrout-newcomer-") as name:
        clone, home = Path(name, "scrout"), Path(name, "home")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        shared = ROOT.parent / "shared"
        if shared.is_dir():
            (clone.parent / "shared").symlink_to(shared)
        load = os.getloadavg()[0]
        lines: list[tuple[float, str]] = []
        began = time.monotonic()
        for one in dict.fromkeys(("test", target)):
            with subprocess.Popen(
                ["make", one],
                cwd=clone,
                env={**os.environ, "HOME": str(home)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                assert process.stdout
                lines += [(time.monotonic() - began, line) for line in process.stdout]
            if process.returncode:
                sys.exit("".join(line for _, line in lines[-60:]) + f"make {one} failed")
        seconds = time.monotonic() - began
    starts = {phase: at for phase, words in PHASES.items() for at, line in reversed(lines) if words in line}
    ends = [*list(starts.values())[1:], seconds]
    return {
        "seconds": round(seconds, 1),
        "phases": {phase: round(end - at, 1) for (phase, at), end in zip(starts.items(), ends, strict=True)},
        "tests": [line.strip() for _, line in lines if re.search(r"\d+ passed", line)],
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    main()
