"""Contrast: how many passing tests ran a line, as far as they got."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from scrout.config.settings import EnvironmentSettings, Settings
from scrout.fix.repair.spectrum import Contrast, contrast_of
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Task

if TYPE_CHECKING:
    from conftest import MakeRepo

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


@pytest.fixture
def contrast(make_repo: MakeRepo, tier: Tier, venv_with_pytest: Path) -> Callable[..., Awaitable[Contrast]]:
    """contrast(tests, seconds): what passing ones of these tests ran."""

    async def found(
        tests: str, seconds: float, runner: Literal["pytest", "unittest"] = "pytest", options: str = "", ini: str = ""
    ) -> Contrast:
        source = find_source(make_repo({"m.py": SOURCE, "test_m.py": tests, "pytest.ini": f"[pytest]\n{ini}"}))
        task = Task(id="t", text="", repo=source.repo, base_commit=source.head)
        settings = Settings(environment=EnvironmentSettings(venv=str(venv_with_pytest)))
        with open_task_sandbox(task, tier, settings) as task_sandbox:
            workspace = task_sandbox.fresh()
            try:
                return await contrast_of(task_sandbox, workspace, ["m.py"], ["test_m.py"], seconds, runner, options)
            finally:
                workspace.remove()

    return found


async def test_only_passing_tests_count(contrast) -> None:
    told = await contrast(TESTS, 60)
    assert told.spectrum == {"m.py": {2: 2, 3: 1, 4: 1}}
    assert told.passed == {"test_m.py::test_true", "test_m.py::test_false"}
    assert told.finished


async def test_options_of_the_suite_are_passed_on(contrast) -> None:
    strange = "filterwarnings = ignore::pytest.NoSuchWarningHere\n"
    told = await contrast(TESTS, 60, options="-o filterwarnings=", ini=strange)
    assert told.passed == {"test_m.py::test_true", "test_m.py::test_false"}


async def test_what_cannot_be_collected_does_not_keep_the_rest_from_counting(contrast) -> None:
    broken = "import pytest\n\n\nclass TestBroken:\n"
    broken += "    @pytest.mark.parametrize('a, b', [(1,)])\n    def test(self, a, b): ...\n"
    told = await contrast(f"{TESTS}\n\n{broken}", 60)
    assert told.passed == {"test_m.py::test_true", "test_m.py::test_false"}


@pytest.mark.slow
async def test_at_the_limit_what_is_known_is_told(contrast) -> None:
    told = await contrast(f"{TESTS}\n\ndef test_zz():\n    while True:\n        pass\n", 4)
    assert told.passed == {"test_m.py::test_true", "test_m.py::test_false"}
    assert not told.finished


@pytest.mark.parametrize("answer", ["b'{'", "b'[' * 100_000", 'b\'{"counts": {"m.py": {"1": 1e999}}}\''])
async def test_an_answer_that_is_none_is_no_contrast(contrast, answer: str) -> None:
    forged = (
        f"import os\nos.write(1, {answer})\nfor number in range(3, 20):\n    try:\n        os.write(number, b'[1]')\n"
    )
    told = await contrast(f"{forged}    except OSError:\n        pass\n{TESTS}", 60)
    assert told == Contrast({})


CASES = """\
import unittest
from m import f


class T(unittest.TestCase):
    def test_true(self):
        self.assertEqual(f(True), 1)

    def test_parts(self):
        for value in (False, True):
            with self.subTest(value=value):
                self.assertEqual(f(value), 0)

    def test_wrong(self):
        self.assertEqual(f(True), 2)

    @unittest.skip("later")
    def test_skipped(self):
        f(False)

    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(f(False), 3)
"""


async def test_the_same_under_unittest(contrast) -> None:
    told = await contrast(CASES, 60, "unittest")
    assert told.passed == {"test_m.T.test_true", "test_m.T.test_expected"}
    assert told.spectrum == {"m.py": {2: 2, 3: 1, 4: 1}} and told.finished
