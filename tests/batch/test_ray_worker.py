"""A batch on a real Ray, which bench/kill.py starts in a network namespace of its own: Ray binds what addresses there
are, and there it has loopback alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scrout.sandbox.tier import Tier

BENCH = Path(__file__).parents[2] / "bench"
CALLS = 2 * 2 * 3 + 2 * 2
"""Of two tasks in two arms that nobody disturbs, each scouted once by two calls."""


def on_ray(tmp_path: Path, *args: str) -> dict[str, Any]:
    """What the benchmark reports of two tasks in two arms."""
    pytest.importorskip("ray")
    alone = ["unshare", "--net", "ip", "link", "set", "lo", "up"]
    if not (shutil.which("unshare") and shutil.which("ip")) or subprocess.run(alone, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here: run as root, with util-linux and iproute2 installed")
    out = tmp_path / "result.json"
    argv = [sys.executable, str(BENCH / "kill.py"), "--scenes", "ray", "--tasks", "2", "--out", str(out), *args]
    # Files of a Ray need a short name, which pytest's own folders have not.
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
    assert out.exists(), done.stderr
    report: dict[str, Any] = json.loads(out.read_text())
    assert report["problems"] == [], done.stderr
    return report


@pytest.mark.ray
def test_a_killed_worker_of_ray_loses_nothing(tmp_path: Path, tier: Tier) -> None:
    report = on_ray(tmp_path, "--kills", "2", "--kinds", "ray worker")
    assert report["kills_by_kind"] == {"ray worker": 2}
    assert (report["runs_retried_as_infrastructure"], report["missing"], report["doubled"]) == (0, 0, 0)
    assert report["calls_answered"] >= CALLS
