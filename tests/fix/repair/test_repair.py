"""The $0 fixer on real repositories in the real sandbox: what it repairs, what it refuses, and that it ends."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import copytree
from uuid import uuid4

import pytest

from scrout.config.settings import EnvironmentSettings, RepairSettings, Settings
from scrout.fix.repair.repair import Accept, repair
from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.records import Attempt, Basis, Evidence, GatedHandoff, Verdict
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Task

QUICK = RepairSettings(max_seconds=30, max_candidates=40)
Commit = Callable[[dict[str, str]], Task]


def commit_all(repo: Path) -> Task:
    for arguments in (["add", "-A"], ["commit", "-q", "-m", "All"]):
        names = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false"]
        subprocess.run(["git", *names, *arguments], cwd=repo, check=True, capture_output=True)
    source = find_source(repo)
    return Task(id="t", text="It is wrong.", repo=source.repo, base_commit=source.head)


@pytest.fixture
def commit(tmp_path: Path, empty_repo: Path) -> Commit:
    def make(files: dict[str, str]) -> Task:
        if not (tmp_path / "project").exists():
            copytree(empty_repo, tmp_path / "project")
        for name, content in files.items():
            path = tmp_path / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
        return commit_all(tmp_path / "project")

    return make


def handed(
    script: str,
    *files: str,
    verdict: Verdict = "real_failure",
    kept: bool = True,
    command: str = "python repro.py",
    basis: Basis = "confirmed",
) -> GatedHandoff:
    reproduction = Reproduction(files={"repro.py": script}, command=command, claim=True)
    return GatedHandoff(
        verdict=verdict,
        kept=kept,
        materialized=kept,
        reason="replayed",
        evidence=Evidence(),
        handoff=Handoff(files=tuple(FileRef(path=path) for path in files), reproduction=reproduction),
        text="",
        basis=basis,
    )


async def attempt(
    task: Task, tier: Tier, gated: GatedHandoff, settings: RepairSettings = QUICK, accept: Accept | None = None
) -> Attempt:
    with open_task_sandbox(task, tier, Settings()) as task_sandbox:
        result = await repair(gated, task_sandbox, settings, accept=accept)
        left_over = [path for path in task_sandbox.workspaces.shared.parent.iterdir() if (path / "upper").is_dir()]
        assert left_over == [], "every workspace is removed after use"
    return result


def case(*checks: str) -> str:
    """A test file of unittest, with a test for each check."""
    tests = (f"    def test_{at}(self):\n        {check}\n" for at, check in enumerate(checks))
    return f"import unittest\nfrom m import *\n\n\nclass T(unittest.TestCase):\n{''.join(tests)}"


def changed_lines(patch: str) -> list[str]:
    return [line for line in patch.split("\n") if re.match(r"[+-](?![+-])", line)]


TESTS_OF_STATS = """\
import unittest
from stats import mean, median, clamp

class Stats(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 3]), 2)
    def test_median(self):
        self.assertEqual(median([3, 1, 2]), 2)
        self.assertEqual(median([5, 5, 5, 5]), 5)
    def test_above(self):
        self.assertEqual(clamp(5, 0, 3), 3)
    def test_within(self):
        self.assertEqual(clamp(2, 0, 3), 2)
    def test_lowest(self):
        self.assertEqual(clamp(0, 0, 3), 0)
"""
STATS = """\
def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def clamp(value, low, high):
    return max(low, min(value, high))
"""


@pytest.mark.parametrize(
    ("right", "wrong", "script"),
    [
        ("ordered[middle - 1] +", "ordered[middle - 2] +", "assert median([1, 2, 3, 4]) == 2.5, median([1, 2, 3, 4])"),
        pytest.param("[middle]) / 2", "[middle]) // 2", "assert median([1, 2]) == 1.5", marks=pytest.mark.slow),
        pytest.param(
            "max(low, min(value, high))",
            "max(value, min(value, high))",
            "assert clamp(-1, 0, 3) == 0",
            marks=pytest.mark.slow,
        ),
        pytest.param("max(low,", "min(low,", "assert clamp(2, 0, 3) == 2", marks=pytest.mark.slow),
    ],
    ids=["constant", "operator", "variable", "sibling"],
)
async def test_seeded_bugs(right: str, wrong: str, script: str, commit: Commit, tier: Tier) -> None:
    assert STATS.count(right) == 1
    task = commit(
        {"stats.py": STATS.replace(right, wrong), "tests/test_stats.py": TESTS_OF_STATS, "tests/__init__.py": ""}
    )
    result = await attempt(task, tier, handed(f"from stats import *\n{script}\n", "stats.py"))
    assert result.stop == "finished", result.detail
    before, after = (
        next(line for line in text.splitlines() if line not in other.splitlines())
        for text, other in ((STATS.replace(right, wrong), STATS), (STATS, STATS.replace(right, wrong)))
    )
    assert changed_lines(result.patch) == [f"-{before}", f"+{after}"]
    assert "stats.py:" in result.detail and "still pass" in result.detail
    assert "repro.py" not in result.patch


@pytest.mark.slow
async def test_nothing_found_says_what_was_tried(commit: Commit, tier: Tier) -> None:
    task = commit({"stats.py": STATS, "tests/test_stats.py": TESTS_OF_STATS, "tests/__init__.py": ""})
    result = await attempt(task, tier, handed("from stats import *\nassert clamp(1, 0, 3) == 'one'\n"))
    assert (result.stop, result.patch) == ("nothing_found", "")
    tried = re.search(r"(\d+) edits tried on 1 suspected statement in \d+\.\d+ s", result.detail)
    assert tried and int(tried[1]) > 10, result.detail


async def test_where_several_places_would_do_none_is_taken(commit: Commit, tier: Tier) -> None:
    source = "def one(n):\n    return n + 1\n\n\ndef two(n):\n    return one(n) + 1\n\n\n"
    source += "def three(n):\n    return two(n) + 1\n"
    files = {"m.py": source, "test_m.py": case("self.assertIn(three(0), (3, 4))")}
    result = await attempt(commit(files), tier, handed("from m import three\nassert three(0) == 4\n"))
    assert (result.stop, result.patch) == ("nothing_found", "")
    assert re.match(r"edits at several places passed, and none could be told from an accident: \d+ ed", result.detail)


@pytest.mark.slow
async def test_the_edit_that_mends_more_tests_is_taken(commit: Commit, tier: Tier) -> None:
    tests = "import unittest\nfrom m import f\n\nclass T(unittest.TestCase):\n"
    tests += "    def test_equal(self):\n        self.assertTrue(f(3, 3))\n"
    tests += "    def test_kind(self):\n        self.assertIn(f(1, 1), (True, False))\n"
    files = {"m.py": "def f(a, b):\n    return a < b\n", "test_m.py": tests}
    result = await attempt(commit(files), tier, handed("from m import f\nassert f(4, 3)\n"))
    assert changed_lines(result.patch)[1] == "+    return a >= b", result.detail


async def test_what_no_passing_test_runs_is_not_proposed(commit: Commit, tier: Tier) -> None:
    source = "def f(a):\n    return a < 3\n\n\ndef g(a):\n    return a\n"
    gated = handed("from m import f\nassert f(3) and not f(4)\n")
    without = await attempt(commit({"m.py": source, "test_m.py": case("self.assertEqual(g(1), 1)")}), tier, gated)
    assert (without.stop, without.patch) == ("nothing_found", "")
    tested = await attempt(commit({"test_m.py": case("self.assertTrue(f(1))", "self.assertFalse(f(5))")}), tier, gated)
    assert changed_lines(tested.patch)[1] == "+    return a <= 3", tested.detail


async def test_a_project_without_tests_gets_no_edit(commit: Commit, tier: Tier) -> None:
    result = await attempt(commit({"m.py": "def f(a):\n    return a < 3\n"}), tier, handed("import m\nassert m.f(3)\n"))
    assert (result.stop, result.patch) == ("not_applicable", "") and "has no tests" in result.detail


EXAMPLES = '''\
def half(n):
    """Rounds down.

    >>> half(7)
    3
    >>> half(8)  # wrong before and after
    5
    """
    return n // 2
'''


async def test_examples_in_docstrings_that_hold_go_on_holding(commit: Commit, tier: Tier) -> None:
    files = {"m.py": EXAMPLES, "test_m.py": case("self.assertEqual(half(8), 4)")}
    gated = handed("from m import half\nassert half(5) == 2.5\n")
    kept = await attempt(commit(files), tier, gated)
    assert (kept.stop, kept.patch) == ("nothing_found", ""), kept.detail
    free = await attempt(commit({"m.py": EXAMPLES.replace("half(7)", "int(half(7))")}), tier, gated)
    assert changed_lines(free.patch)[1] == "+    return n / 2", free.detail


async def test_an_edit_after_which_work_is_skipped_is_not_proposed(commit: Commit, tier: Tier) -> None:
    """`count >= 0` would pass, and then nothing calls `clean` any more."""
    source = "def clean(n):\n    return n[0]\n\n\n"
    source += "def f(n, count):\n    if count < 1:\n        return clean(n)\n    return n\n"
    files = {"m.py": source, "test_m.py": case("self.assertEqual(f([2], 3), [2])")}
    result = await attempt(commit(files), tier, handed("from m import f\nassert f([], 0) == []\n"))
    assert (result.stop, result.patch) == ("nothing_found", "")
    assert "an edit passed, but nothing runs m.py:" in result.detail


async def test_who_called_has_the_last_word(commit: Commit, tier: Tier) -> None:
    shown: list[str] = []

    async def refuse(patch: str) -> str:
        shown.append(patch)
        return "it changes\nf(7)"

    files = {"m.py": "def f(a):\n    return a < 3\n", "test_m.py": case("self.assertTrue(f(1))")}
    gated = handed("from m import f\nassert f(3) and not f(4)\n")
    task = commit(files)
    refused = await attempt(task, tier, gated, accept=refuse)
    assert (refused.stop, refused.patch) == ("nothing_found", "")
    assert "an edit passed and was refused (it changes f(7))" in refused.detail
    assert shown[0].startswith("diff --git a/m.py b/m.py") and "+    return a <= 3" in shown[0]

    async def accept(patch: str) -> str:
        return ""

    assert (await attempt(task, tier, gated, accept=accept)).patch == shown[0]


CLEAN = 'def clean(text):\n    return text.lstrip("/")\n'
CLEAN_SHOWN = 'from clean import clean\nassert clean("a/") == "a"\n'
TESTS_OF_CLEAN = """\
import unittest
from clean import clean

class Clean(unittest.TestCase):
    def test_one_end_only(self):
        self.assertEqual(len(clean("/a/")), 2)
"""


async def test_an_edit_that_only_suits_the_reproduction_is_refuted_by_the_tests(commit: Commit, tier: Tier) -> None:
    weak = TESTS_OF_CLEAN.replace('len(clean("/a/")), 2', 'clean("a"), "a"')
    without = await attempt(commit({"clean.py": CLEAN, "test_clean.py": weak}), tier, handed(CLEAN_SHOWN))
    assert changed_lines(without.patch)[1] == '+    return text.strip("/")'
    with_tests = await attempt(commit({"test_clean.py": TESTS_OF_CLEAN}), tier, handed(CLEAN_SHOWN))
    assert changed_lines(with_tests.patch)[1] == '+    return text.rstrip("/")'
    assert "all 1 tests that passed before still pass" in with_tests.detail


@pytest.mark.slow
async def test_where_the_whole_suite_is_too_slow_related_tests_refute(commit: Commit, tier: Tier) -> None:
    slow = "import time, unittest\n\nclass Slow(unittest.TestCase):\n    def test(self):\n        time.sleep(60)\n"
    task = commit({"clean.py": CLEAN, "test_clean.py": TESTS_OF_CLEAN, "test_slow.py": slow})
    result = await attempt(task, tier, handed(CLEAN_SHOWN), RepairSettings(max_seconds=20))
    assert changed_lines(result.patch)[1] == '+    return text.rstrip("/")'
    assert "1 related tests still pass, and the whole suite could not be run" in result.detail


@pytest.mark.slow
async def test_after_many_candidates_passing_tests_are_watched(commit: Commit, tier: Tier) -> None:
    """The one statement that few passing tests run comes next then; otherwise some hundred edits would go first."""
    noise = "".join(
        f"    if n > {number} and n < {number + 3}:\n        n = max(n, {number})\n" for number in range(9, 40)
    )
    source = f"def total(n):\n{noise}    return n\n\n\ndef report(n):\n    return total(n) + 1\n"
    tests = (
        "import unittest, noisy\n\nclass T(unittest.TestCase):\n"
        "    def test(self):\n        self.assertEqual([noisy.total(n) for n in range(50)], list(range(50)))\n"
        "    def test_more(self):\n        self.assertEqual(noisy.total(7), 7)\n"
        "    def test_report(self):\n        self.assertIn(noisy.report(5), (4, 6))\n"
    )
    task = commit({"noisy.py": source, "test_noisy.py": tests})
    gated = handed("import noisy\nassert noisy.report(30) == 29\n")
    result = await attempt(task, tier, gated, RepairSettings(max_seconds=60))
    assert changed_lines(result.patch) == ["-    return total(n) + 1", "+    return total(n) - 1"], result.detail
    tried = re.search(r"(\d+) edits tried", result.detail)
    assert tried and int(tried[1]) < 1000, "soon after the tests were counted, and as many again"


@pytest.mark.slow
async def test_tests_far_from_the_change_refute_it_too(commit: Commit, tier: Tier) -> None:
    """The related tests know nothing of `deep`, which only the whole suite covers."""
    files = {
        "core.py": "def step(n):\n    return n + 1\n",
        "facade.py": "import importlib\n\ndef deep(n):\n    return importlib.import_module('co' + 're').step(n)\n",
        "test_facade.py": "import unittest, facade\n\nclass T(unittest.TestCase):\n"
        "    def test_deep(self):\n        self.assertEqual(facade.deep(3), 4)\n",
    }
    script = "from core import step\nassert step(1) == 0\n"
    result = await attempt(commit(files), tier, handed(script))
    assert "`+` became `-`" not in result.detail
    assert result.stop == "nothing_found", result.detail


@pytest.mark.slow
async def test_windows_line_endings_and_wide_characters_stay(commit: Commit, tier: Tier) -> None:
    source = (
        '"""Größen."""\r\n\r\n\r\ndef größer(ä, b):\r\n    x = "日本"; return x if ä > b else ""  # für größere\r\n'
    )
    tests = case("self.assertEqual(größer(2, 1), '日本')").replace("from m import", "from maß import")
    task = commit({"maß.py": source, "test_m.py": tests})
    script = "from maß import größer\nassert größer(2, 2) == '日本'\nassert größer(1, 2) == ''\n"
    result = await attempt(task, tier, handed(script))
    assert result.stop == "finished", result.detail
    line = '    x = "日本"; return x if ä > b else ""  # für größere\r'
    assert changed_lines(result.patch) == [f"-{line}", f"+{line.replace('ä > b', 'ä >= b')}"]


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.slow
async def test_the_first_in_order_wins_though_a_later_one_is_faster(commit: Commit, tier: Tier, jobs: int) -> None:
    source = "import time\n\n\ndef f(a, b):\n    if a < b:\n        time.sleep(0.1)\n        return 1\n    return 2\n"
    gated = handed("from m import f\nassert f(1, 1) == 1\n")
    files = {"m.py": source, "test_m.py": case("self.assertEqual(f(1, 2), 1)", "self.assertEqual(f(2, 1), 2)")}
    result = await attempt(commit(files), tier, gated, RepairSettings(jobs=jobs, max_candidates=40))
    assert changed_lines(result.patch) == ["-    if a < b:", "+    if a <= b:"]


@pytest.mark.parametrize(
    ("gated", "says"),
    [
        (handed("", kept=False, verdict="flaky"), "no verified reproduction"),
        (handed("", verdict="reproduced_exit_zero"), "exit code cannot tell"),
        (handed("", basis="assumed"), "only assumed"),
        (handed("print('fine')"), "passes on the unchanged repository"),
        (handed("raise SystemExit(3)"), "no Python code of the repository"),
    ],
)
async def test_what_it_cannot_work_on_it_says(gated: GatedHandoff, says: str, commit: Commit, tier: Tier) -> None:
    result = await attempt(commit({"m.py": "x = 1\n"}), tier, gated)
    assert (result.stop, result.patch) == ("not_applicable", "")
    assert says in result.detail


def running(word: str) -> list[Path]:
    """Processes of this machine with this word in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (process / "cmdline").read_bytes():
                found.append(process)
    return found


@pytest.mark.usefixtures("alone")
async def test_a_reproduction_that_attacks_ends_within_bounds(commit: Commit, tier: Tier, tmp_path: Path) -> None:
    script = (
        "import os, sys\nimport m\nm.f(1)\n"
        f"for path in ({str(tmp_path / 'escaped')!r}, '/etc/passwd', '/usr/escaped'):\n"
        "    try:\n        open(path, 'w').write('mine')\n    except OSError:\n        pass\n"
        "for _ in range(20):\n    if os.fork() == 0:\n        while True:\n            pass\n"
        "sys.stdout.flush()\nos._exit(1)\n"
    )
    task = commit({"m.py": "def f(a):\n    return a + 1\n", "test_m.py": case("self.assertEqual(f(1), 2)")})
    word = f"attack-{uuid4().hex}"
    gated = handed(script, "m.py", command=f"python repro.py {word}")
    result = await attempt(task, tier, gated, RepairSettings(max_seconds=2, max_candidates=8))
    assert result.stop in ("nothing_found", "timeout")
    assert result.patch == ""
    assert not (tmp_path / "escaped").exists()
    for _ in range(100):
        if not running(word):
            break
        await asyncio.sleep(0.1)
    assert running(word) == [], "what it forked is gone with its sandbox"


async def test_a_forged_witness_leads_nowhere(commit: Commit, tier: Tier) -> None:
    forged = {"/etc/passwd": [1], "../../outside.py": [1], ".git/config": [1], "m.py": [2, 10**12, -5]}
    lines = ", ".join(f"root + '/' + {path!r}: {numbers}" for path, numbers in forged.items())
    script = (
        "import json, os\nroot, outbox = os.environ.get('SCROUT_WATCH_ROOT'), os.environ.get('SCROUT_WATCH_OUTBOX')\n"
        "if outbox:\n"
        f"    told = {{'lines': {{{lines}, '/etc/shadow': [1], root + '/\\ud800\\0.py': [1]}}, 'raised': []}}\n"
        "    with open(outbox + '/watch-0.json', 'w') as file:\n        json.dump(told, file)\n"
        "raise SystemExit(1)\n"
    )
    task = commit({"m.py": "def f(a):\n    return a + 1\n", "test_m.py": case("self.assertEqual(f(1), 2)")})
    result = await attempt(task, tier, handed(script))
    assert (result.stop, result.patch) == ("nothing_found", "")
    assert "on 1 suspected statement in" in result.detail


async def test_the_time_bound_stops_edits_that_hang(commit: Commit, tier: Tier) -> None:
    source = "import time\n\ndef f(a):\n    time.sleep(0.2)\n    return a\n"
    task = commit({"m.py": source, "test_m.py": case("self.assertEqual(f(1), 1)")})
    gated = handed("import m\nassert m.f(1) == 'never'\n")
    result = await attempt(task, tier, gated, RepairSettings(max_seconds=1.5, jobs=1))
    assert result.stop == "timeout"
    assert "edits tried" in result.detail


NEVER = {"m.py": "def f(a, b, c):\n    return a + b - c\n", "test_m.py": case("self.assertEqual(f(1, 1, 1), 1)")}


async def test_the_number_of_candidates_is_bounded(commit: Commit, tier: Tier) -> None:
    task = commit(
        {"m.py": "def f(a, b, c):\n    return a + b - c\n", "test_m.py": case("self.assertEqual(f(1, 1, 1), 1)")}
    )
    gated = handed("import m\nassert m.f(1, 2, 3) == 'never'\n")
    result = await attempt(task, tier, gated, RepairSettings(max_candidates=3))
    assert result.stop == "nothing_found"
    assert "3 edits tried on 1 suspected" in result.detail


@pytest.mark.slow
async def test_progress_is_reported_and_not_too_often(commit: Commit, tier: Tier) -> None:
    task = commit(
        {"m.py": "def f(a, b, c):\n    return a + b - c\n", "test_m.py": case("self.assertEqual(f(1, 1, 1), 1)")}
    )
    said: list[str] = []
    with open_task_sandbox(task, tier, Settings()) as task_sandbox:
        gated = handed("import m\nassert m.f(1, 2, 3) == 'never'\n")
        result = await repair(gated, task_sandbox, QUICK, said.append, name="free")
    assert result.fixer == "free"
    assert said[0] == "running the reproduction"
    assert len(said) <= 3 + 2 * result.seconds


@pytest.mark.slow
async def test_without_a_witness_the_handoffs_regions_are_searched(commit: Commit, tier: Tier) -> None:
    tests = "import sys\nsys.path.insert(0, 'src')\n" + case("self.assertTrue(f(1))", "self.assertFalse(f(5))")
    task = commit({"src/m.py": "def f(a):\n    return a < 3\n", "test_m.py": tests})
    gated = handed("import m\nassert m.f(3)\nassert not m.f(4)\n", "src/m.py", command="PYTHONPATH=src python repro.py")
    result = await attempt(task, tier, gated)
    assert changed_lines(result.patch) == ["-    return a < 3", "+    return a <= 3"]


async def test_a_project_whose_tests_cannot_run_gets_no_edit_on_trust(commit: Commit, tier: Tier) -> None:
    broken = "import a_module_that_nobody_has\n\n" + TESTS_OF_CLEAN
    task = commit({"clean.py": CLEAN, "test_clean.py": broken})
    result = await attempt(task, tier, handed(CLEAN_SHOWN))
    assert (result.stop, result.patch) == ("not_applicable", "")
    assert "no test near the code passes" in result.detail


TESTS_FOR_PYTEST = """\
import pytest
from stats import clamp, mean, median


@pytest.mark.parametrize("value", [1, 2, 3])
def test_within(value):
    assert clamp(value, 0, 3) == value


def test_below():
    assert clamp(-1, 0, 3) == 0


def test_median():
    assert median([3, 1, 2]) == 2


def test_mean():
    assert mean([1, 3]) == 2
"""


async def with_pytest(
    task: Task, tier: Tier, venv: Path, settings: RepairSettings, name: str = "tests/test_stats.py::test_below"
) -> Attempt:
    reproduction = Reproduction(command=f"python -m pytest -q -p no:cacheprovider {name}", claim=True)
    gated = handed("").model_copy(update={"handoff": Handoff(reproduction=reproduction)})
    with open_task_sandbox(task, tier, Settings(environment=EnvironmentSettings(venv=str(venv)))) as task_sandbox:
        result = await repair(gated, task_sandbox, settings)
        left_over = [path for path in task_sandbox.workspaces.shared.parent.iterdir() if (path / "upper").is_dir()]
        assert left_over == []
    return result


@pytest.mark.slow
async def test_a_test_of_the_projects_own_as_reproduction(commit: Commit, tier: Tier, venv_with_pytest: Path) -> None:
    wrong = STATS.replace("max(low, min(value, high))", "max(high, min(value, high))")
    task = commit({"stats.py": wrong, "tests/test_stats.py": TESTS_FOR_PYTEST, "conftest.py": ""})
    result = await with_pytest(task, tier, venv_with_pytest, QUICK)
    assert changed_lines(result.patch) == [
        "-    return max(high, min(value, high))",
        "+    return max(low, min(value, high))",
    ], result.detail
    assert "related tests still pass" in result.detail or "tests that passed before still pass" in result.detail


@pytest.mark.slow
async def test_the_same_seed_searches_in_the_same_order(commit: Commit, tier: Tier) -> None:
    wrong = STATS.replace("max(low, min(value, high))", "max(high, min(value, high))")
    task = commit({"stats.py": wrong, "test_stats.py": TESTS_OF_STATS})
    gated = handed("from stats import clamp\nassert clamp(-1, 0, 3) == 0\n")
    seeded = RepairSettings(max_candidates=40, seed=7)
    first, again = [await attempt(task, tier, gated, seeded) for _ in range(2)]
    assert first.stop == "finished" and first.patch == again.patch


@pytest.mark.slow
async def test_tests_under_an_unusual_name_are_used_and_never_edited(
    commit: Commit, tier: Tier, venv_with_pytest: Path
) -> None:
    tests = TESTS_FOR_PYTEST + "\n\ndef same(one, other):\n    assert one == other\n"
    tests += "\n\ndef test_above():\n    same(clamp(9, 0, 3), 3)\n"
    wrong = STATS.replace("max(low, min(value, high))", "max(low, max(value, high))")
    task = commit({"stats.py": wrong, "checks.py": tests})
    result = await with_pytest(task, tier, venv_with_pytest, QUICK, "checks.py::test_above")
    assert "checks.py" not in result.patch
    assert changed_lines(result.patch)[1:] == ["+    return max(low, min(value, high))"], result.detail
    assert "still pass" in result.detail
