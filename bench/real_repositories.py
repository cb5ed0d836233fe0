"""Runs `scrout fix` on real issues of real repositories and reports what every stage gave.

    python bench/real_repositories.py --tasks swebench_dev.jsonl.gz --mirrors DIR [--out FILE] ID...

Each task's repository is cloned from DIR/owner+name/repo at its base commit into a temporary folder, gets a .venv with
the project and pytest installed (this step needs a package index), and is handed to the command line like a user's. The
gold files are compared with the handoff after the run; nothing that runs sees them. A few tasks show that the pipeline
works on code nobody here wrote; they are too few to estimate a rate.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import record

Report = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", metavar="ID")
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with gzip.open(asked.tasks, "rt") as lines:
        rows = {row["instance_id"]: row for row in map(json.loads, lines)}
    reports = []
    for name in asked.ids:
        print(f"{name} ...", file=sys.stderr)
        reports.append(attempt(rows[name], asked.mirrors))
        print(json.dumps(reports[-1]), file=sys.stderr)
    record({"results": reports}, asked.out)


def attempt(row: dict[str, str], mirrors: Path) -> Report:
    """One task, from clone to verdict."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder) / row["repo"].rpartition("/")[2]
        mirror = mirrors / row["repo"].replace("/", "+") / "repo"
        shell("git", "clone", "-q", "--no-checkout", str(mirror), str(repo))
        shell("git", "-C", str(repo), "checkout", "-q", row["base_commit"])
        shell(sys.executable, "-m", "venv", str(repo / ".venv"))
        shell(str(repo / ".venv/bin/pip"), "install", "-q", "-e", f"{repo}[tests]", "pytest", "setuptools<80")
        issue = Path(folder) / "issue.md"
        issue.write_text(row["problem_statement"])
        started = time.monotonic()
        program = [sys.executable, "-m", "scrout", "fix", "--repo", str(repo), "--issue", str(issue), "--json"]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
        clean = shell("git", "-C", str(repo), "status", "--porcelain", "--untracked-files=no") == ""
    if not done.stdout:
        return {"id": row["instance_id"], "exit_code": done.returncode, "error": done.stderr[-500:]}
    run = json.loads(done.stdout)
    named = [ref["path"] for ref in run["scouting"]["handoff"]["files"]]
    return {
        "id": row["instance_id"],
        "exit_code": done.returncode,
        "outcome": run["outcome"],
        "files_named": named,
        "gold_files": row["gold_files"],
        "scout_seconds": round(run["scouting"]["seconds"], 2),
        "verdict": run["gated"]["verdict"],
        "reason": run["gated"]["reason"],
        "fix": run["attempts"][-1]["detail"],
        "patch": run["attempts"][-1]["patch"],
        "check": run["checks"][-1]["detail"],
        "cost_usd": run["cost_usd"],
        "seconds": round(seconds, 1),
        "work_tree_untouched": clean,
    }


def shell(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr[-1000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
