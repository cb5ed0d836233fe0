"""mini-SWE-agent's side of bench/batch.py, run by the interpreter that it is installed for.

    python bench/batch_mini.py < order.json

One batch, as `mini-extra swebench` runs it: `process_instance` in a pool of threads, with the configuration that it
ships and another environment and model. Left out are the dataset's download, the live table and the start of
containers: each task finds a clone of its own that was made before. The order, a JSON line, has `issues` by id, the
`clones`, `out`, `base_url`, `jobs` and the `environment`.
"""

from __future__ import annotations

import concurrent.futures
import copy
import json
import os
import sys
from pathlib import Path

os.environ |= {"MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}

from minisweagent.config import builtin_config_dir, get_config_from_spec
from minisweagent.run.benchmarks.swebench import process_instance
from minisweagent.run.benchmarks.utils.batch_progress import RunBatchProgressManager

MODEL = "submitter"
"""The endpoint tells by this name which end is wanted."""


def main() -> None:
    order = json.loads(sys.stdin.readline())
    out, clones, issues = Path(order["out"]), Path(order["clones"]), order["issues"]
    prices = out / "prices.json"
    price = {"input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6, "litellm_provider": "openai", "mode": "chat"}
    # Without a price each call would end in an exception, caught and logged.
    prices.write_text(json.dumps({MODEL: price, f"openai/{MODEL}": price, "stand-in": price}))
    config = get_config_from_spec(builtin_config_dir / "benchmarks" / "swebench.yaml")
    config["model"] |= {
        "model_name": f"openai/{MODEL}",
        "litellm_model_registry": str(prices),
        "model_kwargs": {"api_base": order["base_url"], "api_key": "none"},
    }
    config["agent"]["cost_limit"] = 0
    progress = RunBatchProgressManager(len(issues))
    with concurrent.futures.ThreadPoolExecutor(order["jobs"]) as pool:
        waiting = []
        for name, text in issues.items():
            own = copy.deepcopy(config)
            own["environment"] = {"timeout": 60, "cwd": str(clones / name)} | order["environment"]
            instance = {"instance_id": name, "problem_statement": text}
            waiting.append(pool.submit(process_instance, instance, out, own, progress))
        for done in waiting:
            done.result()


if __name__ == "__main__":
    main()
