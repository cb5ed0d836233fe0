"""The wheel carries all that it needs: installed alone in an empty environment, it runs the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_alone_runs_the_demo(tmp_path: Path) -> None:
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", tmp_path / "dist", ROOT], check=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    venv.create(tmp_path / "venv", with_pip=True)
    subprocess.run([tmp_path / "venv/bin/python", *pip, "install", wheel], check=True)
    folders = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "DATA", "CONFIG")}
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **folders}
    demo = subprocess.run(
        [tmp_path / "venv/bin/scrout", "demo"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert demo.returncode == 0, demo.stderr
    assert "total: solved" in demo.stderr and "-    if left <= 0:" in demo.stdout
