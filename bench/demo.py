"""How long the whole job takes on the bundled example, run as a user runs it.

    python bench/demo.py [--runs 5] [--out bench/results/demo.json]

Target: under 10 s, every run solved.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from record import record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    seconds, runs = [], []
    for _ in range(asked.runs):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "scrout", "demo", "--json"], check=False, capture_output=True)
        seconds.append(round(time.perf_counter() - started, 2))
        runs.append(json.loads(done.stdout))
    result = {
        "outcomes": [run["outcome"] for run in runs],
        "seconds": seconds,
        "median_seconds": statistics.median(seconds),
        "by_stage_median_seconds": {
            "scout": statistics.median(run["scouting"]["seconds"] for run in runs),
            "gate": statistics.median(run["gated"]["evidence"]["seconds"] for run in runs),
            "fix": statistics.median(run["attempts"][-1]["seconds"] for run in runs),
            "check": statistics.median(run["checks"][-1]["seconds"] for run in runs),
        },
        "cost_usd": [run["cost_usd"] for run in runs],
        "target_seconds": 10,
    }
    record(result, asked.out)


if __name__ == "__main__":
    main()
