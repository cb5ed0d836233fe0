"""What one decision of the router takes, over the shipped résumés, after the first.

    python bench/route_timing.py --tasks FILE.jsonl[.gz] [--out bench/results/route_timing.json]

Each decision is of a text that no cache has seen. `value` embeds nothing: it counts in the text, which is told apart.
`paper` embeds it with MiniLM. States are those in bench/results/states_verified.npz.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
from record import record

from scrout.config.settings import Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.money import Price
from scrout.records import State
from scrout.route import text_counts
from scrout.route.outcomes import read_texts
from scrout.route.router import Router

TASKS = 60
ROUNDS = 5
POOLS = {
    4: ("claude-opus-4-6", "gpt-5-mini", "gemini-3-flash", "kimi-k2.5"),
    12: (
        "claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5", "claude-opus-4-6", "deepseek-v3.2", "glm-5",
        "gpt-5.2-codex", "gpt-5-mini", "gemini-3-flash", "gemini-3-pro", "kimi-k2.5", "minimax-m2.5",
    ),
}  # fmt: skip


def router(models: tuple[str, ...], policy: str, embedder: str, folder: Path) -> Router:
    price = Price(input=Decimal(1), output=Decimal(1))
    pool = [AgentFixer(name=model, model=model, base_url="http://127.0.0.1:9/v1", price=price) for model in models]
    route = {"policy": policy, "embedder": {"kind": embedder}}
    return Router(Settings.model_validate({"route": route, "fixers": [one.model_dump() for one in pool]}), folder)


def median_ms(work: Callable[[int], object]) -> float:
    took = []
    for number in range(TASKS):
        started = time.perf_counter()
        work(number)
        took.append(time.perf_counter() - started)
    return 1000 * float(np.median(took))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    texts = read_texts(options.tasks)
    with np.load(Path(__file__).parent / "results" / "states_verified.npz", allow_pickle=False) as stored:
        space, ids, rows = str(stored["space"]), stored["ids"].tolist()[:TASKS], stored["rows"].tolist()
    states = [State(space=space, vector=tuple(row)) for row in rows[:TASKS]]
    fresh = itertools.count(time.time_ns())
    result: dict[str, object] = {"tasks": TASKS, "rounds": ROUNDS, "medians": "of the rounds' medians, in ms"}
    with tempfile.TemporaryDirectory() as empty:
        for fixers, models in POOLS.items():
            for policy, embedder in (("value", "hashed"), ("paper", "minilm")):
                one = router(models, policy, embedder, Path(empty))
                one.route(texts[ids[0]], states[0])
                whole, counting = [], []
                for _ in range(ROUNDS):
                    whole.append(median_ms(lambda at: one.route(f"{texts[ids[at]]} {next(fresh)}", states[at])))  # noqa: B023
                    counting.append(median_ms(lambda at: text_counts.count(texts[ids[at]])))
                result[f"{policy}, {fixers} fixers"] = round(float(np.median(whole)), 3)
                if policy == "value":
                    result[f"{policy}, {fixers} fixers, without counting"] = round(
                        float(np.median(whole) - np.median(counting)), 3
                    )
    record(result, options.out)


if __name__ == "__main__":
    main()
