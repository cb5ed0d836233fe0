"""What `scrout --version` costs beyond an interpreter that does nothing, alternating: a busy machine slows both.

    python bench/startup.py [--runs 40] [--out bench/results/startup.json]

Target: at most 0.15 s more than `python -c pass`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from record import record

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "scrout --version": [str(Path(sys.executable).with_name("scrout")), "--version"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(asked.runs):
        for name, argv in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    pairs = list(zip(*seconds.values(), strict=True))
    result = {
        "runs": asked.runs,
        "median_seconds": {name: round(statistics.median(took), 4) for name, took in seconds.items()},
        "median_difference_seconds": round(statistics.median(ours - bare for bare, ours in pairs), 4),
        "target_seconds": 0.15,
    }
    record(result, asked.out)


if __name__ == "__main__":
    main()
