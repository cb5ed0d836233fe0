"""mini-SWE-agent's side of bench/episodes.py, run by the interpreter that it is installed for.

    python bench/episodes_mini.py < order.json

It does what `mini-extra swebench` does between loading a dataset and its report: `process_instance` in a pool of
threads, with the configuration that it ships and another environment and model. The live table is left out, which only
makes it faster. Each line of input is one round, answered by a line of figures; the first line is the common order.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}
out = sys.stdout
sys.stdout = sys.stderr

from minisweagent.config import builtin_config_dir, get_config_from_spec  # noqa: E402
from minisweagent.run.benchmarks.swebench import process_instance  # noqa: E402
from minisweagent.run.benchmarks.utils.batch_progress import RunBatchProgressManager  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36


def cpu_seconds() -> float:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:  # what bubblewrap left behind counts too
            pass
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def batch(order: dict[str, str], environment: dict[str, object], episodes: int, folder: Path) -> dict[str, float]:
    prices = folder / "prices.json"
    price = {"input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6, "litellm_provider": "openai", "mode": "chat"}
    # Without a price each call would end in an exception, caught and logged.
    prices.write_text(json.dumps({"submitter": price, "openai/submitter": price, "stand-in": price}))
    config = get_config_from_spec(builtin_config_dir / "benchmarks" / "swebench.yaml")
    config["environment"] = {"timeout": 60, "cwd": order["repo"]} | environment
    config["model"] |= {
        "model_name": "openai/submitter",
        "litellm_model_registry": str(prices),
        "model_kwargs": {"api_base": order["base_url"], "api_key": "none"},
    }
    config["agent"]["cost_limit"] = 0
    progress = RunBatchProgressManager(episodes)
    instances = [{"instance_id": f"task-{number}", "problem_statement": order["issue"]} for number in range(episodes)]
    began, used = time.monotonic(), cpu_seconds()
    with concurrent.futures.ThreadPoolExecutor(episodes) as pool:
        for done in [pool.submit(process_instance, one, folder, config, progress) for one in instances]:
            done.result()
    seconds, cpu = time.monotonic() - began, cpu_seconds() - used
    turns = 0
    for one in instances:
        name = one["instance_id"]
        record = json.loads((folder / name / f"{name}.traj.json").read_text())
        if record["info"]["exit_status"] != "Submitted":
            raise SystemExit(f"{name} ended with {record['info']['exit_status']}: {record['info']}")
        turns += record["info"]["model_stats"]["api_calls"]
    return {"seconds": seconds, "cpu_seconds": cpu, "turns": turns}


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    order = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            figures = batch(order, asked["environment"], asked["episodes"], Path(folder))
        print(json.dumps(figures), file=out, flush=True)


if __name__ == "__main__":
    main()
