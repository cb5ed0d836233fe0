"""Scrout is killed with SIGKILL at every kind of instant, and nothing that it started is left."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from scrout.config.settings import SandboxSettings
from scrout.sandbox.probe import probe

# Says where it is, and stays there if it is asked to: after so many of the signals that end the sandbox.
HOST = """
import asyncio, os, sys, time
from pathlib import Path
from scrout.config.settings import SandboxSettings, Settings
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.workspace import find_source
from scrout.task import Task

repo, tier, form, command, pause_after = *sys.argv[1:5], int(sys.argv[5])
settings = Settings(sandbox=SandboxSettings(tier=tier))
source = find_source(Path(repo))
task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
signals = 0

def counted(send):
    def sent(*args):
        global signals
        try:
            return send(*args)
        finally:
            signals += 1
            if signals == pause_after:
                print("paused", flush=True)
                time.sleep(60)
    return sent

async def main(shop):
    workspace = shop.fresh()
    print("starting", flush=True)
    if form == "warm":
        async with shop.session(workspace) as session:
            await session.shell(command, timeout_s=1 if pause_after else 60)
    else:
        await shop.shell(workspace, command, timeout_s=1 if pause_after else 60)

with open_task_sandbox(task, require_tier(settings.sandbox), settings) as shop:
    os.kill, os.killpg = counted(os.kill), counted(os.killpg)
    asyncio.run(main(shop))
print("ended", flush=True)
"""
FORMS = [
    ("bubblewrap", "alone"),
    ("bubblewrap", "warm"),
    ("unsafe", "alone"),
    pytest.param(("sandlock", "alone"), marks=pytest.mark.slow),
]


@pytest.fixture(params=FORMS, ids=lambda form: ", ".join(form))
def form(request: pytest.FixtureRequest) -> tuple[str, str]:
    name, form = request.param
    if probe(SandboxSettings(tier=name)).tier is None:
        pytest.skip(f"no {name} here")
    return name, form


@contextmanager
def host(repo: Path, form: tuple[str, str], marker: str, pause_after: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A scrout that runs a command which resists: deaf, stopped and in sessions of its own."""
    sleep = f"sleep {marker}"
    deaf = f"trap '' TERM HUP INT; setsid {sleep} & {sleep} & kill -STOP $!; {sleep}; {sleep}"
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(repo), *form, deaf, str(pause_after)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == "starting\n"
            yield running
        finally:
            running.kill()


def running_with(*marks: str) -> list[str]:
    """Command lines of processes that name one of these. A dead one that nobody has reaped yet has none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            if any(mark.encode() in line for mark in marks):
                found.append(line.replace(b"\0", b" ").decode()[:200])
    return found


def assert_nothing_left(*marks: str) -> None:
    deadline = time.monotonic() + 20
    while left := running_with(*marks):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def marker() -> str:
    return f"987{secrets.randbelow(10**9)}"


@pytest.mark.parametrize("signals", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_between_the_signals_that_end_a_sandbox(
    make_repo: Callable[..., Path], form: tuple[str, str], signals: int, tmp_path: Path
) -> None:
    mark = marker()
    with host(make_repo({"file.txt": "x"}), form, mark, signals) as scrout:
        assert scrout.stdout is not None
        said = scrout.stdout.readline()
        assert said in ("paused\n", "ended\n")  # a keeper needs one signal alone
        assert said == "paused\n" or signals > 1
    assert_nothing_left(mark, str(tmp_path / "xdg_cache_home"))


def kill_at_random(repo: Path, form: tuple[str, str], times: int, cache: Path) -> None:
    probability = random.Random(form[1])
    mark = marker()
    for _ in range(times):
        with host(repo, form, mark):
            time.sleep(probability.random() * 0.3)
        assert_nothing_left(mark, str(cache))


def test_killed_while_a_sandbox_starts_and_runs(
    make_repo: Callable[..., Path], form: tuple[str, str], tmp_path: Path
) -> None:
    kill_at_random(make_repo({"file.txt": "x"}), form, 2, tmp_path / "xdg_cache_home")


@pytest.mark.slow
def test_killed_while_a_sandbox_starts_and_runs_many_times(
    make_repo: Callable[..., Path], form: tuple[str, str], tmp_path: Path
) -> None:
    kill_at_random(make_repo({"file.txt": "x"}), form, 40, tmp_path / "xdg_cache_home")
