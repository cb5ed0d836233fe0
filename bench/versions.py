"""Is a version slower than another? The hot paths of two checkouts, alternating in one run, as ratios.

    python bench/versions.py --old DIR --new DIR --repo DIR [--rounds 5] [--out FILE]

DIR is a clone of scrout in which `make install` was run (for the proxy, the ledger and the batch its own bench/ scripts
run there). --repo is any git repository to scout. For commands the figures are wall clock and the processor time of the
command with all that it waited for; the latter says more on a shared machine. Ratios are new to old: the median of the
rounds, with the smallest and the largest round. Target: no hot path slower by more than 5%.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from record import record

ISSUE = "TypeError is raised when the configuration file is empty; an empty one should give the defaults."
Figures = dict[str, float]
Measure = Callable[[Path, Path], Figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--new", type=Path, required=True)
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sides = {"old": options.old.resolve(), "new": options.new.resolve()}
    paths: dict[str, Measure] = {
        "scrout --help": command("--help"),
        "scrout demo": command("demo"),
        "scrout scout, warm": command("scout", "--repo", str(options.repo.resolve()), "--issue", ISSUE, "--json"),
        "proxy": script("proxy.py", "--rounds", "2", "--calls", "192"),
        "ledger": script("ledger.py", "--receipts", "4000", "--runs", "2000", "--repeats", "1"),
        "batch": script("batch.py", "--tasks", "32", "--rounds", "1"),
    }
    measured: dict[str, dict[str, list[Figures]]] = {name: {side: [] for side in sides} for name in paths}
    with tempfile.TemporaryDirectory() as folder:
        homes = {side: Path(folder, side) for side in sides}
        for home in homes.values():
            home.mkdir()
            (home / "issue.md").write_text(ISSUE)
        for turn in range(options.rounds + 1):
            for name, run in paths.items():
                for side, checkout in sides.items() if turn % 2 else reversed(sides.items()):
                    figures = run(checkout, homes[side])
                    if turn:  # the first one warms caches
                        measured[name][side].append(figures)
                    print(turn, name, side, figures, file=sys.stderr, flush=True)
    result = {
        "old": commit(sides["old"]),
        "new": commit(sides["new"]),
        "rounds": options.rounds,
        "new_to_old": {name: compared(both["old"], both["new"]) for name, both in measured.items()},
    }
    record(result, options.out)


def command(*args: str) -> Measure:
    """A command of scrout's, with its processor time."""

    def run(checkout: Path, home: Path) -> Figures:
        given = [str(home / "issue.md") if arg == ISSUE else arg for arg in args]
        return timed([str(checkout / ".venv/bin/scrout"), *given], home, home)

    return run


def script(name: str, *args: str) -> Measure:
    """A benchmark of the checkout's own, and the figures of its result."""

    def run(checkout: Path, home: Path) -> Figures:
        out = home / f"{name}.json"
        argv = [str(checkout / ".venv/bin/python"), f"bench/{name}", *args, "--out", str(out)]
        spent = timed(argv, checkout, home)
        read = json.loads(out.read_text())
        if name == "proxy.py":
            added = read["latency_ms"]["all"]["added"]
            return {
                "cpu_ms_per_call": read["meter_cpu_ms_per_call"],
                "added_p50_ms": added["first byte p50"],
                "added_p99_ms": added["first byte p99"],
            }
        return {"cpu_s": spent["cpu_s"], "wall_s": spent["wall_s"]}

    return run


def timed(argv: list[str], folder: Path, home: Path) -> Figures:
    env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "data")}
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    wall_s, after = time.perf_counter() - started, os.times()
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace')[-2000:]}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall_s": round(wall_s, 4), "cpu_s": round(cpu_s, 4)}


def compared(old: list[Figures], new: list[Figures]) -> dict[str, dict[str, float]]:
    """For each figure the medians and the ratio of each round's pair."""
    found: dict[str, dict[str, float]] = {}
    for key in old[0]:
        ratios = [ours[key] / theirs[key] for theirs, ours in zip(old, new, strict=True) if theirs[key] > 0]
        found[key] = {
            "old": round(statistics.median(one[key] for one in old), 4),
            "new": round(statistics.median(one[key] for one in new), 4),
            "ratio": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
        }
    return found


def commit(checkout: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
