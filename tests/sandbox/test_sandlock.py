"""What is particular to the sandlock tier; what it stops is tested in tests/contracts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scrout.config.settings import SandboxSettings, Settings
from scrout.sandbox.probe import probe
from scrout.sandbox.replay import replay
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.workspace import find_source
from scrout.task import Task


async def test_the_repositorys_python_runs_its_copy(
    make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probe(SandboxSettings(tier="sandlock"))
    if found.tier is None:
        pytest.skip(f"no sandlock here: {found.detail}")
    assert "weaker" in found.detail
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
    source = find_source(
        make_repo({"pkg/__init__.py": "def f():\n    return 1\n", "t.py": "import pkg; print(pkg.f())"})
    )
    task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
    with open_task_sandbox(task, found.tier, Settings()) as shop:
        workspace = shop.fresh()
        workspace.write("pkg/__init__.py", b"def f():\n    return 2\n")
        done = await replay(shop, workspace, f"python t.py; cd /; python {source.repo}/t.py")
        assert done.output == "2\n2\n"


def test_without_the_package_the_probe_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "sandlock", raising=False)
    found = probe(SandboxSettings(tier="sandlock"))
    assert found.tier is None and "scrout[sandlock]" in found.remedy
