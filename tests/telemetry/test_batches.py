"""A batch: a trace for each run, whichever process it is in, and what the arms share is told once."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout import telemetry
from scrout.batch.session import open_session
from scrout.batch.tasks import read_tasks
from scrout.config.settings import Settings
from scrout.git import GitDir
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.sandbox.tier import Tier
from scrout.telemetry import names

if TYPE_CHECKING:
    from conftest import Collector

ALONE = "SCROUT_TEST_ALONE"
"""Set where this file runs in a network namespace of its own, in which Ray binds loopback alone."""
HANDOFF = "<files>\nquokka.py:1-2\n</files>\n<notes>\nThe slice.\n</notes>\nSTOP"


def assert_told(
    collector: Collector,
    config: Callable[..., Settings],
    script: list[ScriptedReply],
    repo: Path,
    out: Path,
    ray: str = "",
) -> None:
    """A task in three arms, at the same time, with a searcher that costs."""
    tasks = out.with_suffix(".jsonl")
    given = {"repo": str(repo), "base_commit": GitDir.of(repo).text("rev-parse", "HEAD")}
    tasks.write_text(json.dumps({"id": "task-1", "text": "burrow", **given}))

    def reply(request: ScriptedRequest) -> ScriptedReply:
        if request.content["model"] == "m":
            return ScriptedReply(HANDOFF, usage=script[0].usage)
        return script[str(request.content["messages"]).count("tool_call_id")]

    with ScriptedEndpoint(reply) as endpoint:
        searcher = {"model": "m", "base_url": endpoint.base_url, "price": {"input": 1.0, "output": 1.0}}
        settings = config(endpoint.base_url, scout={"searcher": "model", "model": searcher | {"shortlist": False}})
        arms = ("solo", "handoff", "passthrough")
        with open_session(read_tasks(tasks), out, settings, arms=arms, fixers=("toy",), ray=ray) as session:
            asyncio.run(session.runner(4).run())
            runs = {run.id: session.ledger.run(run.id) for run in session.ledger.runs_of(session.batch.id)}
            steps = [step for run_id in runs for step in session.ledger.steps(run_id)]
            batch = session.batch.id
    telemetry.flush(20)
    receipts = [receipt for step in steps for receipt in step.receipts]
    assert len(runs) == 3 and len(receipts) == 3 * len(script) + 1
    roots = collector.named("scrout.run")
    assert {root[names.RUN] for root in roots} == set(runs) and len({root.trace for root in roots}) == 3
    for root in roots:
        run = runs[root[names.RUN]]
        assert (root[names.TASK], root[names.ARM], root[names.BATCH]) == (run.task.id, run.arm, batch)
        assert root[names.COST] == float(run.cost_usd or 0)
    chats = Counter(span.name for span in collector.spans if span.name.startswith("chat "))
    assert chats == {"chat toy-1": 3 * len(script), "chat m": 1}
    sent = sum(span[names.INPUT_TOKENS] for span in collector.spans if names.INPUT_TOKENS in span.attributes)
    assert sent == sum(receipt.usage.prompt_tokens for receipt in receipts)


@pytest.mark.slow
def test_each_run_of_a_batch_is_a_trace(
    collector: Collector,
    config: Callable[..., Settings],
    script: list[ScriptedReply],
    files: dict[str, str],
    make_repo: Callable[..., Path],
    tmp_path: Path,
    tier: Tier,
) -> None:
    assert_told(collector, config, script, make_repo(files), tmp_path / "out")
    assert sum(count for _, count, _ in collector.points(names.RUNS)) == 3
    assert {given[names.ARM] for given, _, _ in collector.points(names.RUNS)} == {
        f"{arm}/toy" for arm in ("solo", "handoff", "passthrough")
    }


@pytest.mark.ray
@pytest.mark.skipif(ALONE not in os.environ, reason="run by the test below")
def test_inside(
    collector: Collector,
    config: Callable[..., Settings],
    script: list[ScriptedReply],
    files: dict[str, str],
    make_repo: Callable[..., Path],
    tmp_path: Path,
    tier: Tier,
) -> None:
    assert_told(collector, config, script, make_repo(files), tmp_path / "out", ray="local")
    instances = {span.resource["service.instance.id"] for span in collector.spans}
    assert instances and all(instances)


@pytest.mark.ray
@pytest.mark.skipif(ALONE in os.environ, reason="this is the one inside")
def test_processes_of_a_cluster_tell_before_they_are_ended(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    alone = ["unshare", "--net", "ip", "link", "set", "lo", "up"]
    if not (shutil.which("unshare") and shutil.which("ip")) or subprocess.run(alone, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here: run as root, with util-linux and iproute2 installed")
    shell = 'ip link set lo up && exec "$@"'
    argv = [sys.executable, "-m", "pytest", __file__, "-m", "ray", "-k", "test_inside", "-W", "default"]
    env = {**os.environ, ALONE: "1", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", shell, "sh", *argv], capture_output=True, text=True, env=env, timeout=600
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
