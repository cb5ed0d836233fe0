"""Trials in the real sandbox: they end as the command itself would, and none can do more than spoil its batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.config.settings import EnvironmentSettings, Settings
from scrout.fix.repair.edit_site import Edit
from scrout.fix.repair.source import statements
from scrout.fix.repair.trials import STOPPED, EditTrial, Invocation, Trials, parse
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Task

if TYPE_CHECKING:
    from conftest import MakeRepo

SOURCE = """\
import os

STEP = 2


def up(value):
    return value - STEP


class Counter:
    def __init__(self):
        self.value = 0

    def up(self):
        self.value -= STEP
        return self.value
"""
TESTS = """\
from counting import Counter, up


def test_up():
    assert up(1) == 3


def test_counter():
    assert Counter().up() == 2


def test_step():
    assert up(5) == 2
"""
PYTEST = "python -m pytest -q -p no:cacheprovider tests/test_counting.py"


@contextmanager
def task_sandbox_of(repo: Path, tier: Tier, venv: Path) -> Iterator[TaskSandbox]:
    source = find_source(repo)
    task = Task(id="t", text="It is wrong.", repo=source.repo, base_commit=source.head)
    settings = Settings(environment=EnvironmentSettings(venv=str(venv)))
    with open_task_sandbox(task, tier, settings) as task_sandbox:
        yield task_sandbox


@pytest.fixture
def task_sandbox(make_repo: MakeRepo, tier: Tier, venv_with_pytest: Path) -> Iterator[TaskSandbox]:
    files = {
        "counting.py": SOURCE,
        "tests/test_counting.py": TESTS,
        "conftest.py": "",
        "script.py": "import counting\n",
    }
    with task_sandbox_of(make_repo(files), tier, venv_with_pytest) as task_sandbox:
        yield task_sandbox


def trial(before: str, after: str, at: int = 0) -> EditTrial:
    start = SOURCE.index(before, at)
    line = SOURCE.count("\n", 0, start) + 1
    statement = next(one for one in statements(SOURCE) if one.first_line <= line <= one.last_line)
    return EditTrial("counting.py", Edit(line, "", 1.0, start, start + len(before), before, after), statement)


async def codes(task_sandbox: TaskSandbox, command: str, *trials: EditTrial, exit_code: int = 1) -> list[int | None]:
    tried = Trials(task_sandbox, command, {})
    tried.begin(exit_code, 5.0, 60.0)
    try:
        return await tried.run(trials, {"counting.py": SOURCE})
    finally:
        tried.close()
        left = [path for path in task_sandbox.workspaces.shared.parent.iterdir() if (path / "upper").is_dir()]
        assert left == []


IN_FUNCTION = trial("value - STEP", "value + STEP")
IN_METHOD = trial("-= STEP", "+= STEP")
AT_MODULE_LEVEL = trial("STEP = 2", "STEP = -2")


@pytest.mark.parametrize(
    ("name", "trials", "expected"),
    [
        pytest.param("test_up", (IN_FUNCTION, IN_METHOD, AT_MODULE_LEVEL), [0, 1, 0], marks=pytest.mark.slow),
        ("test_counter", (IN_FUNCTION, IN_METHOD, AT_MODULE_LEVEL), [1, 0, 0]),
        pytest.param("test_step", (IN_FUNCTION, trial("STEP = 2", "STEP = 3")), [1, 0], marks=pytest.mark.slow),
    ],
)
async def test_a_function_a_method_and_a_constant_are_tried_each_by_itself(
    task_sandbox: TaskSandbox, name: str, trials: tuple[EditTrial, ...], expected: list[int]
) -> None:
    assert await codes(task_sandbox, f"{PYTEST}::{name}", *trials) == expected


async def test_a_script_is_tried_too(make_repo: MakeRepo, tier: Tier, venv_with_pytest: Path) -> None:
    files = {"counting.py": SOURCE, "script.py": "import sys, counting\nsys.exit(counting.up(1) != 3)\n"}
    with task_sandbox_of(make_repo(files), tier, venv_with_pytest) as task_sandbox:
        ended = await codes(task_sandbox, "python script.py", IN_FUNCTION, IN_METHOD, AT_MODULE_LEVEL)
    assert ended == [0, 1, 0]


async def test_one_that_hangs_is_stopped_and_the_next_one_runs(task_sandbox: TaskSandbox) -> None:
    hangs = trial("    return value - STEP", "    while True: pass")
    assert await codes(task_sandbox, f"{PYTEST}::test_up", hangs, IN_FUNCTION) == [STOPPED, 0]


@pytest.mark.slow
async def test_one_that_ends_the_batch_leaves_the_rest_unknown(task_sandbox: TaskSandbox) -> None:
    kills = trial("    return value - STEP", "    os.kill(os.getppid(), 9)")
    ended = await codes(task_sandbox, f"{PYTEST}::test_up", kills, IN_FUNCTION)
    assert ended[1] is None, "nobody may take it for tried"


@pytest.mark.slow
async def test_a_command_that_ends_in_another_way_here_tells_nothing(task_sandbox: TaskSandbox) -> None:
    assert await codes(task_sandbox, f"{PYTEST}::test_up", IN_FUNCTION, AT_MODULE_LEVEL, exit_code=3) == [None, None]


async def test_what_cannot_be_taken_apart_is_not_run(task_sandbox: TaskSandbox) -> None:
    command = "cd tests && python -m pytest -q"
    assert not Trials(task_sandbox, command, {}).possible
    assert await codes(task_sandbox, command, IN_FUNCTION) == [None]


@pytest.mark.parametrize(
    ("command", "parsed"),
    [
        ("python repro.py --fast", Invocation("script", "repro.py", ("--fast",), ())),
        ("python3 -m pytest 'tests/t.py::test[a b]'", Invocation("module", "pytest", ("tests/t.py::test[a b]",), ())),
        ("PYTHONPATH=src pytest -q", Invocation("module", "pytest", ("-q",), ("PYTHONPATH=src",))),
        ("/opt/venv/bin/python3.11 -m unittest", Invocation("module", "unittest", (), ())),
        ("python repro.py; true", None),
        ("python repro.py > out", None),
        ("python $FILE", None),
        ("python -c 'print(1)'", None),
        ("python -X dev repro.py", None),
        ("make test", None),
        ("python 'repro.py", None),
        ("X=1", None),
        ("", None),
    ],
)
def test_plain_commands_are_taken_apart(command: str, parsed: Invocation | None) -> None:
    assert parse(command) == parsed
