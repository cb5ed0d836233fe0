"""Contrast: how many passing tests ran a line, as far as they got."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run

import pytest

from scrout.config import EnvironmentSettings, Settings
from scrout.fix.repair.spectrum import Contrast, contrast_of, counted
from scrout.sandbox.probe import probe
from scrout.sandbox.replay import Witness
from scrout.sandbox.workshop import open_workshop
from scrout.sandbox.workspace import find_source
from scrout.task import Task

SOURCE = "def f(a):\n    if a:\n        return 1\n    return 0\n"
TESTS = """\
from m import f


def test_true():
    assert f(True) == 1


def test_false():
    assert f(False) == 0


def test_wrong():
    assert f(True) == 2
"""


def project(folder: Path, tests: str) -> Task:
    folder.mkdir()
    for name, content in (("m.py", SOURCE), ("test_m.py", tests)):
        (folder / name).write_text(content)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "All"]):
        names = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)
    source = find_source(folder)
    return Task(id="t", text="", repo=source.repo, base_commit=source.head)


async def contrast(folder: Path, tests: str, seconds: float) -> Contrast:
    probed = probe()
    if probed.tier is None:
        pytest.skip(f"no sandbox here: {probed.detail}")
    settings = Settings(environment=EnvironmentSettings(venv=sys.prefix))
    with open_workshop(project(folder, tests), probed.tier, settings) as workshop:
        workspace = workshop.fresh()
        try:
            return await contrast_of(workshop, workspace, ["m.py"], ["test_m.py"], seconds)
        finally:
            workspace.remove()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


async def test_only_passing_tests_count(tmp_path: Path) -> None:
    told = await contrast(tmp_path / "project", TESTS, 60)
    assert told.spectrum == {"m.py": {2: 2, 3: 1, 4: 1}}
    assert told.passed == {"test_m.py::test_true", "test_m.py::test_false"}
    assert told.finished


async def test_at_the_limit_what_is_known_is_told(tmp_path: Path) -> None:
    told = await contrast(tmp_path / "project", f"{TESTS}\n\ndef test_zz():\n    while True:\n        pass\n", 8)
    assert told.passed == {"test_m.py::test_true", "test_m.py::test_false"}
    assert not told.finished


async def test_an_answer_that_is_none_is_no_contrast(tmp_path: Path) -> None:
    forged = "import os\nos.write(1, b'{')\nfor number in range(3, 20):\n    try:\n        os.write(number, b'[1]')\n"
    told = await contrast(tmp_path / "project", f"{forged}    except OSError:\n        pass\n{TESTS}", 60)
    assert told == Contrast({})


def test_whole_runs_are_counted_once_each() -> None:
    runs = [Witness({"m.py": frozenset({1, 2})}, ()), Witness({"m.py": frozenset({2}), "n.py": frozenset({5})}, ())]
    assert counted(runs) == {"m.py": {1: 1, 2: 2}, "n.py": {5: 1}}
