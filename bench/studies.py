"""How long studies take: the commands as a user runs them, and the resampling behind their intervals.

    python bench/studies.py --data DIR [--rounds 3] [--out bench/results/studies.json]

DIR has the paper's files (docs/research/studies.md). Each command is a process of its own, from its start to its end,
with its output in a file. Targets, on 2 cores: `replicate` and `audit` under 10 s each; 10,000 resamples of 500 tasks
by 40 figures under 3 s.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from record import record

from scrout.lab.study.stats import bootstraps, mean_of
from scrout.route.stats import resamples

NAMES = ("replicate", "audit", "handoff", "localize", "spend", "calibrate", "frontier")
TASKS, FIGURES, DRAWS = 500, 40, 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    commands = {name: [command(name, asked.data) for _ in range(asked.rounds)] for name in NAMES}
    drawn = [resampling() for _ in range(asked.rounds)]
    record(
        {
            "rounds": asked.rounds,
            "load_per_core_before": round(load, 2),
            "median_s": {
                name: round(statistics.median(one[0] for one in taken), 2) for name, taken in commands.items()
            },
            "median_cpu_s": {
                name: round(statistics.median(one[1] for one in taken), 2) for name, taken in commands.items()
            },
            f"{DRAWS}_resamples_of_{TASKS}_by_{FIGURES}_median_s": {
                method: _median(one[method] for one in drawn) for method in drawn[0]
            },
        },
        asked.out,
    )


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 2)


def command(name: str, data: Path) -> tuple[float, float]:
    """Seconds on the clock and of the processors."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryFile() as told:
        argv = [sys.executable, "-m", "scrout", "study", name, "--data", str(data)]
        subprocess.run(argv, check=True, stdout=told, stderr=told)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def resampling() -> dict[str, float]:
    values = np.random.default_rng(0).random((TASKS, FIGURES))
    taken = {}
    for method in ("percentile", "bca"):
        resamples.cache_clear()
        began = time.monotonic()
        bootstraps(TASKS, {str(at): mean_of(values[:, at]) for at in range(FIGURES)}, method=method, draws=DRAWS)
        taken[method] = time.monotonic() - began
    return taken


if __name__ == "__main__":
    main()
