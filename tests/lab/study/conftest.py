"""What tests of studies share: a folder laid out like the paper's, small enough to count by hand."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

TASKS = 24
LABELLED = 10
NAMES = {"kimi": "kimi-k2-5", "gpt": "gpt-5-2-high", "opus": "claude-4-6-opus", "flash": "gemini-3-flash"}
LABEL_FIXERS = ("Kimi K2.5", "Gemini 3 Flash", "GPT-5.2", "Claude Opus 4.6")


def task_name(number: int) -> str:
    return f"repo{number % 3}-{number:02d}"


def episode(resolved: bool, usd: float, steps: int) -> dict[str, Any]:
    return {"resolved": resolved, "cost_usd_pinned": usd, "cost_usd_litellm": 2 * usd, "steps": steps}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture
def small_paper(tmp_path: Path) -> Path:
    """24 tasks of 3 repositories, and a label run of 10.

    Kimi solves the even tasks alone; with the handoff 1, 5 and 9 as well, and 22 no longer. GPT-5.2 took all 50 steps
    on the first 12 tasks, Kimi on the first 8 alone and on the first 4 with the handoff. Every fourth handoff was
    forced, every third names all gold files, the first 6 claims failed for real.
    """
    folder = tmp_path / "paper"
    solo, pairs = {}, {}
    for number in range(TASKS):
        even = number % 2 == 0
        solo[task_name(number)] = {
            "family": f"repo{number % 3}",
            "kimi": episode(even, 0.1, 50 if number < 8 else 30),
            "gpt": episode(number % 4 == 0, 0.25, 50 if number < 12 else 20),
            "opus": episode(number % 3 != 0, 0.5, 10),
        }
        handed = (even or number in (1, 5, 9)) and number != 22
        pairs[task_name(number)] = {NAMES["kimi"]: episode(handed, 0.12, 50 if number < 4 else 25)}
    pairs[task_name(0)][NAMES["opus"]] = episode(True, 0.4, 10)
    write(folder / "receipts/outcomes_per_task.json", {"solo": solo, "system_union_pairs": pairs})
    _write_scouting(folder)
    _write_routing(folder)
    _write_label_run(folder)
    spend: Mapping[str, Any] = {
        "evaluation": {"Kimi K2.5 solo": 2.4, "system arm": 3.0},
        "label_run": {"fixer API": 7.0, "total": 40},
        "training": {"fine-tuning": 9, "notes": 1},
    }
    write(folder / "published.json", {"spend_usd": spend})
    return folder


def _write_scouting(folder: Path) -> None:
    rows = []
    with (folder / "receipts/verify_census.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("task_id", "handoff_type", "failure_class", "claim", "ran", "returncode", "verified"))
        for number in range(TASKS):
            kind = "forced" if number % 4 == 3 else "spontaneous"
            real = number < 6
            verdict = "real_failure" if real else "passed_stripped"
            table.writerow((task_name(number), kind, verdict, "true", "true", int(real), str(real).lower()))
            recall = 1.0 if number % 3 == 0 else 0.5
            rows.append(
                {
                    **{"task_id": task_name(number), "repo": f"repo{number % 3}", "handoff_type": kind},
                    **{"n_pred": 2, "n_gold": 2, "recall": recall, "precision": recall, "f1": recall},
                }
            )
    write(folder / "receipts/localization.json", {"rows": rows})


def _write_routing(folder: Path) -> None:
    probabilities = {name: {"p_text": 0.5, "p_state": 0.5, "p_blend": 0.5} for name in NAMES.values()}
    routing = {
        "theta": 0.3,
        "anchor": NAMES["gpt"],
        "decisions": {task_name(number): NAMES["kimi" if number else "opus"] for number in range(TASKS)},
        "probability_vectors": {task_name(number): probabilities for number in range(TASKS)},
    }
    write(folder / "receipts/routing_scenarios.json", routing)


def _write_label_run(folder: Path) -> None:
    names = [f"owner__name{number % 5}-{number}" for number in range(LABELLED)]
    rows = [
        {
            **{"task_id": name, "fixer": fixer, "arm": arm, "cost_usd_pinned": 0.1 * (1 + place)},
            "solved": (number + place) % 2 == 0 or (arm == "handoff" and number == 1),
        }
        for number, name in enumerate(names)
        for place, fixer in enumerate(LABEL_FIXERS)
        for arm in ("solo", "handoff")
    ]
    (folder / "labelrun").mkdir(parents=True)
    (folder / "labelrun/outcomes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with gzip.open(folder / "labelrun/task_inputs.jsonl.gz", "wt") as file:
        for number, name in enumerate(names):
            file.write(json.dumps({"instance_id": name, "problem_statement": "x" * (number + 1)}) + "\n")
