"""What a handoff is worth to a fixer, and whether a policy by task could do better than always giving it.

python bench/handoff.py --data ../shared/data --out bench/results/handoff.json

Two sets with both arms: the receipts of SWE-bench Pro and the label run, both of arXiv 2608.04804 (CC-BY-4.0). For each
fixer: solves with and without, on the same tasks. Then the policy `auto` of scrout (no handoff where the predicted
probability reaches a bound), with the probabilities that the paper's router gave, which were fitted on other data. A
split that no policy can see, by whether another fixer hit its call cap, shows how much there would be to gain.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from record import record

from scrout.fix.prompt import EASY
from scrout.route.stats import estimate, resamples

CAP = 50
NAMES = {"kimi-k2-5": "kimi", "gpt-5-2-high": "gpt", "claude-4-6-opus": "opus"}
Pair = tuple[str, bool, bool]
"""A task, solved without, solved with."""


def gain(pairs: Iterable[Pair]) -> dict[str, object]:
    """Points that the handoff gains, with an interval over tasks."""
    rows = np.array([(solo, handed) for _, solo, handed in pairs], dtype=float).reshape(-1, 2)
    n = len(rows)
    if not n:
        return {"tasks": 0}
    difference = 100 * (rows[:, 1] - rows[:, 0])
    told = estimate(float(difference.mean()), resamples(n) @ difference)
    return {
        "tasks": n,
        "solo": int(rows[:, 0].sum()),
        "handoff": int(rows[:, 1].sum()),
        "gained": int((difference > 0).sum()),
        "lost": int((difference < 0).sum()),
        "points": told.model_dump() if hasattr(told, "model_dump") else told,
    }


def receipts(data: Path) -> dict[str, object]:
    outcomes = json.loads((data / "receipts" / "outcomes_per_task.json").read_text())
    probabilities = json.loads((data / "receipts" / "routing_scenarios.json").read_text())["probability_vectors"]
    told: dict[str, object] = {}
    for fixer, short in NAMES.items():
        pairs = [
            (task, bool(solo[short]["resolved"]), bool(outcomes["system_union_pairs"][task][fixer]["resolved"]))
            for task, solo in outcomes["solo"].items()
            if fixer in outcomes["system_union_pairs"].get(task, {})
        ]
        others = [other for other in NAMES.values() if other != short]
        long = {
            task
            for task, solo in outcomes["solo"].items()
            if any(other in solo and solo[other]["steps"] >= CAP for other in others)
        }
        told[fixer] = {
            "all": gain(pairs),
            "another fixer hit its call cap": gain(pair for pair in pairs if pair[0] in long),
            "none did": gain(pair for pair in pairs if pair[0] not in long),
            "auto": auto(pairs, {task: probabilities[task][fixer]["p_blend"] for task, _, _ in pairs}),
        }
    return told


def auto(pairs: list[Pair], probabilities: dict[str, float]) -> dict[str, object]:
    """Solves if the handoff is left out above a bound: scrout's, and the best bound in hindsight."""

    def solves(bound: float) -> int:
        return sum(solo if probabilities[task] >= bound else handed for task, solo, handed in pairs)

    bounds = sorted({0.0, 2.0, *probabilities.values()})
    best = max(bounds, key=solves)
    return {
        "always": solves(2.0),
        "never": solves(0.0),
        f"below a probability of {EASY}": solves(EASY),
        "tasks at or above it": sum(probability >= EASY for probability in probabilities.values()),
        "best bound in hindsight": {"bound": round(best, 3), "solves": solves(best)},
    }


def label_run(data: Path) -> dict[str, object]:
    rows = [json.loads(line) for line in (data / "labelrun" / "outcomes.jsonl").read_text().splitlines()]
    by = {(row["fixer"], row["task_id"], row["arm"]): bool(row["solved"]) for row in rows}
    told: dict[str, object] = {}
    for fixer in sorted({row["fixer"] for row in rows}):
        tasks = [task for name, task, arm in by if name == fixer and arm == "handoff"]
        pairs = [(task, by[fixer, task, "solo"], by[fixer, task, "handoff"]) for task in tasks]
        told[fixer] = {"all": gain(pairs)}
    return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    record({"receipts": receipts(arguments.data), "label run": label_run(arguments.data)}, arguments.out)


if __name__ == "__main__":
    main()
