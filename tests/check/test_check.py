"""The check: what proves a patch, what refutes it, and what leaves it open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from scrout.base import SandboxError
from scrout.check import guard, regression
from scrout.check.check import check
from scrout.check.recording import Bounds
from scrout.config.settings import EnvironmentSettings, Settings
from scrout.handoff import Basis, Handoff, Reproduction
from scrout.records import Attempt, Check, Evidence, GatedHandoff
from scrout.sandbox import suite
from scrout.sandbox.suite import SuiteRun
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Command, Completed, Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Task

SOURCE = "def double(n):\n    return n + n + 1\n"
TESTS = """\
import unittest
from numbers_ import double

class Double(unittest.TestCase):
    def test_grows(self):
        self.assertGreater(double(3), 3)

    def test_wrong_before(self):
        self.assertEqual(double(3), 6)
"""
SHOWN = "from numbers_ import double\nassert double(2) == 4, double(2)\n"


def gated(kept: bool = True, basis: Basis = "verbatim") -> GatedHandoff:
    reproduction = Reproduction(files={"shown.py": SHOWN}, command="python shown.py", claim=True) if kept else None
    return GatedHandoff(
        verdict="real_failure" if kept else "no_repro",
        kept=kept,
        materialized=kept,
        reason="",
        evidence=Evidence(),
        handoff=Handoff(reproduction=reproduction),
        text="",
        basis=basis if kept else None,
    )


async def checked(shop: TaskSandbox, change: str, handed: GatedHandoff) -> Check:
    """Make a patch with a shell command, then check it."""
    workspace = shop.fresh()
    done = await shop.shell(workspace, change)
    assert done.exit_code == 0, done.text
    patch = await shop.diff(workspace)
    attempt = Attempt(fixer="by hand", patch=patch, stop="finished", detail="", seconds=0)
    return await check("", handed, attempt, shop)


FIXED = "sed -i 's/ + 1//' numbers_.py"
REPO = {"numbers_.py": SOURCE, "test_numbers_.py": TESTS}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, empty_repo: Path, tier: Tier) -> Iterator[TaskSandbox]:
    """One task sandbox over REPO for all tests: each has workspaces of its own."""
    folder = tmp_path_factory.mktemp("check")
    repo = shutil.copytree(empty_repo, folder / "repo")
    for name, content in REPO.items():
        (repo / name).write_text(content)
    for arguments in (["add", "--all"], ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "base"]):
        subprocess.run(["git", *arguments], cwd=repo, check=True, env={"PATH": os.environ["PATH"]})
    source = find_source(repo)
    task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
        environment.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
        with open_task_sandbox(task, tier, Settings()) as opened:
            yield opened


async def test_a_right_patch_passes(shop) -> None:
    result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.reproduction, result.tests) == ("passed", "passes", "pass")
    assert result.tests_run == 2
    assert result.flags == ()


async def test_a_patch_that_leaves_the_bug_fails(shop) -> None:
    result = await checked(shop, "echo '# looked at' >> numbers_.py", gated())
    assert (result.outcome, result.reproduction) == ("failed", "fails")
    assert "still fails" in result.detail


async def test_a_patch_that_breaks_a_test_fails_though_the_bug_is_gone(shop) -> None:
    result = await checked(shop, "printf 'def double(n):\\n    return 4 if n == 2 else 0\\n' > numbers_.py", gated())
    assert (result.outcome, result.reproduction, result.tests) == ("failed", "passes", "fail")
    assert "test_grows" in result.detail
    assert "test_wrong_before" not in result.detail


async def test_without_a_reproduction_or_without_tests_a_patch_stays_unverified(shop, task_sandbox_over) -> None:
    unseen = await checked(shop, FIXED, gated(kept=False))
    assert (unseen.outcome, unseen.tests) == ("unverified", "pass")
    with task_sandbox_over({"numbers_.py": SOURCE}) as other:
        untested = await checked(other, FIXED, gated())
    assert (untested.outcome, untested.reproduction, untested.tests) == ("unverified", "passes", "none")


async def test_tests_that_cannot_run_prove_nothing(task_sandbox_over) -> None:
    with task_sandbox_over({**REPO, "test_numbers_.py": "import nobody_has_this\n" + TESTS}) as shop:
        result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.tests) == ("unverified", "not_run")


async def test_an_edited_test_is_flagged(shop) -> None:
    result = await checked(shop, f"{FIXED}; sed -i 's/3), 3/3), 2/' test_numbers_.py", gated())
    assert (result.outcome, result.tests) == ("passed", "pass")
    assert result.flags == ("changes what a test expects: test_numbers_.py::Double.test_grows",)


@pytest.mark.parametrize("trap", ["ln -s /etc/hostname shown.py", "mkdir shown.py; touch shown.py/x"])
async def test_a_patch_cannot_take_the_reproductions_place(shop, trap: str) -> None:
    result = await checked(shop, trap, gated())
    assert (result.outcome, result.reproduction) == ("failed", "fails")


async def test_no_patch_and_a_patch_that_does_not_apply(shop) -> None:
    empty = await check("", gated(), Attempt(fixer="x", patch="", stop="nothing_found", detail="", seconds=0), shop)
    alien = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    wrong = await check("", gated(), Attempt(fixer="x", patch=alien, stop="finished", detail="", seconds=0), shop)
    assert empty.outcome == "no_patch"
    assert (wrong.outcome, wrong.applies) == ("failed", False)
    assert "x.py" in wrong.detail


BROKEN = "printf 'def double(n):\\n    return 4 if n == 2 else 0\\n' > numbers_.py"
"""The reproduction passes with it, and test_grows does not."""


@pytest.mark.parametrize(
    ("weakening", "flag"),
    [
        ("sed -i 's/double(3), 3/3, 2/' test_numbers_.py", "changes what a test expects"),
        pytest.param(
            "sed -i 's/def test_grows/@unittest.skip(\"\")\\n    &/' test_numbers_.py",
            "skips a test",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "sed -i 's/def test_grows/def grows/' test_numbers_.py",
            "deletes or renames a test",
            marks=pytest.mark.slow,
        ),
        ("rm test_numbers_.py", "deletes a test file"),
        pytest.param("git mv test_numbers_.py numbers_checks.py", "deletes a test file", marks=pytest.mark.slow),
    ],
)
async def test_a_weakened_test_does_not_hide_what_it_tested(shop, weakening: str, flag: str) -> None:
    result = await checked(shop, f"{BROKEN}; {weakening}", gated())
    assert (result.outcome, result.reproduction, result.tests) == ("failed", "passes", "fail")
    assert "1 tests that passed before fail now: test_numbers_.Double.test_grows" in result.detail
    assert [one for one in result.flags if one.startswith(flag)]


@pytest.mark.slow
async def test_a_broken_test_that_the_patch_rewrote_is_told_as_such(shop) -> None:
    rewritten = await checked(shop, f"{BROKEN}; sed -i 's/double(3), 3/3, 2/' test_numbers_.py", gated())
    untouched = await checked(shop, BROKEN, gated())
    assert rewritten.detail.endswith("1 of them pass as the patch rewrote them, which is for a reviewer to judge")
    assert "rewrote" not in untouched.detail


async def test_a_test_that_fails_only_as_the_patch_leaves_it_is_broken_too(shop) -> None:
    result = await checked(shop, f"{FIXED}; sed -i 's/double(3), 3/double(3), 30/' test_numbers_.py", gated())
    assert (result.outcome, result.tests) == ("failed", "fail")
    assert "test_grows" in result.detail and "rewrote" not in result.detail


OWN = """\
import unittest
from numbers_ import double

class Own(unittest.TestCase):
    def test_own(self):
        {}
"""


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("self.assertEqual(double(5), 10)", ()),
        ("self.assertEqual(double(5), 9)", ("fails a test of its own: test_own.Own.test_own",)),
    ],
)
async def test_tests_that_the_patch_adds_are_run(shop, line: str, flags: tuple[str, ...]) -> None:
    added = OWN.format(line).replace("\n", "\\n")
    result = await checked(shop, f"{FIXED}; printf '{added}' > test_own.py", gated())
    assert (result.outcome, result.tests) == ("passed", "pass")
    assert result.flags == flags
    assert len(result.evidence) == 3


async def test_code_in_a_folder_called_test_is_judged_by_the_patch_as_a_whole(task_sandbox_over) -> None:
    files = {**REPO, "test/__init__.py": "", "test/client.py": "def get():\n    return 1\n"}
    files["test_numbers_.py"] = (
        TESTS + "\n    def test_get(self):\n        from test.client import get\n        self.assertEqual(get(), 1)\n"
    )
    with task_sandbox_over(files) as shop:
        result = await checked(shop, f"{FIXED}; sed -i 's/return 1/return 2/' test/client.py", gated())
    assert (result.outcome, result.tests) == ("failed", "fail")
    assert "test_get" in result.detail


LEAKY = """\
import unittest
import numbers_

class Leak(unittest.TestCase):
    def test_first(self):
        numbers_.double(3)

    def test_second(self):
        self.assertEqual(getattr(numbers_, "calls", []), [])
"""


async def test_a_test_that_passes_alone_breaks_nothing_and_is_flagged(task_sandbox_over) -> None:
    remembers = "printf 'calls = []\\ndef double(n):\\n    calls.append(n)\\n    return n + n\\n' > numbers_.py"
    with task_sandbox_over({**REPO, "test_numbers_.py": LEAKY}) as shop:
        result = await checked(shop, remembers, gated())
    assert (result.outcome, result.tests) == ("passed", "pass")
    assert result.flags == ("a test failed with the others and passed alone: test_numbers_.Leak.test_second",)


async def test_only_so_many_tests_are_run_again(task_sandbox_over, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "MOST_AGAIN", 1)
    many = LEAKY + "\n    def test_third(self):\n        self.assertEqual(getattr(numbers_, 'calls', []), [])\n"
    remembers = "printf 'calls = []\\ndef double(n):\\n    calls.append(n)\\n    return n + n\\n' > numbers_.py"
    with task_sandbox_over({**REPO, "test_numbers_.py": many}) as shop:
        result = await checked(shop, remembers, gated())
    assert result.tests == "fail"
    assert "1 tests that passed before fail now: test_numbers_.Leak.test_third" in result.detail
    assert result.flags == ("a test failed with the others and passed alone: test_numbers_.Leak.test_second",)


@pytest.mark.slow
async def test_a_patch_that_hangs_its_tests_is_stopped(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "SUITE_TIMEOUT_S", 8.0)
    monkeypatch.setattr(regression, "AGAIN_TIMEOUT_S", 2.0)
    hangs = "printf 'def double(n):\\n    while n == 3: pass\\n    return n + n\\n' > numbers_.py"
    result = await checked(shop, hangs, gated())
    assert (result.outcome, result.reproduction, result.tests) == ("failed", "passes", "fail")


async def test_without_time_the_original_tests_still_judge(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "LATE_S", 0.0)
    result = await checked(shop, f"{BROKEN}; sed -i 's/double(3), 3/3, 2/' test_numbers_.py", gated())
    assert (result.outcome, result.tests) == ("failed", "fail")
    assert "no time was left for the tests as it changes them" in result.flags


PYTESTS = """\
import pytest
from numbers_ import double

@pytest.mark.parametrize("n", [1, 2, "[a] - b"])
def test_grows(n):
    assert double(n) > n
"""


@pytest.fixture
def with_pytest(make_repo, task_sandbox, venv_with_pytest):
    """A task sandbox over a project that is tested by pytest."""
    repo = make_repo(
        {
            **REPO,
            "numbers_.py": "def double(n):\n    return n + n + n\n",
            "tests/test_numbers_.py": PYTESTS,
            "test_numbers_.py": "",
        }
    )
    with task_sandbox(repo, Settings(environment=EnvironmentSettings(venv=str(venv_with_pytest)))) as shop:
        yield shop


@pytest.mark.slow
async def test_pytest_names_are_run_again(with_pytest: TaskSandbox) -> None:
    change = "printf 'def double(n):\\n    return n if n == 1 else n + n\\n' > numbers_.py"
    result = await checked(with_pytest, change, gated())
    assert (result.outcome, result.tests) == ("failed", "fail")
    assert "1 tests that passed before fail now: tests/test_numbers_.py::test_grows[1]" in result.detail


@pytest.mark.slow
async def test_a_test_that_has_the_time_in_its_name_is_not_missed(make_repo, task_sandbox, venv_with_pytest) -> None:
    timed = (
        "import time\nimport pytest\nfrom numbers_ import double\n\n"
        "@pytest.mark.parametrize('n', [1, time.time_ns()])\ndef test_grows(n):\n    assert double(n) > n\n"
    )
    files = {**REPO, "numbers_.py": "def double(n):\n    return n + n + n\n", "tests/test_numbers_.py": timed}
    repo = make_repo({**files, "test_numbers_.py": ""})
    with task_sandbox(repo, Settings(environment=EnvironmentSettings(venv=str(venv_with_pytest)))) as shop:
        right = await checked(shop, "printf 'def double(n):\\n    return n + n\\n' > numbers_.py", gated())
        wrong = await checked(shop, "printf 'def double(n):\\n    return 2 if n == 1 else 0\\n' > numbers_.py", gated())
    assert (right.tests, wrong.tests) == ("pass", "fail")


@pytest.mark.slow
async def test_a_patch_cannot_deselect_the_tests_that_it_breaks(with_pytest: TaskSandbox) -> None:
    ignore = "printf 'collect_ignore = [\"test_numbers_.py\"]\\n' > tests/conftest.py"
    result = await checked(with_pytest, f"{BROKEN}; {ignore}", gated())
    assert (result.outcome, result.tests) == ("failed", "fail")
    assert "changes how tests are chosen or run: tests/conftest.py" in result.flags


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        pytest.param("rm -rf .git", "", marks=pytest.mark.slow),
        pytest.param(
            "git -c user.name=x -c user.email=x commit -qam mine; git checkout -q -b other", "", marks=pytest.mark.slow
        ),
        pytest.param(
            "mkdir -p vendor && echo 'int x;' > vendor/x.c",
            "changes vendored, generated or lock files: vendor/x.c",
            marks=pytest.mark.slow,
        ),
        ("head -c 3000000 /dev/zero > zero.bin", "has a binary file: zero.bin"),
        pytest.param(
            "seq 1 300000 > numbers.txt", "adds a lot: 300,001 lines, 1,988,912 bytes", marks=pytest.mark.slow
        ),
        ("ln -s /etc/passwd link", "leaves the repository or enters .git: link"),
        ("mkdir -p 'x\ty' && echo 1 > $'x\ty/caf\\xe9.py'", ""),
    ],
)
async def test_what_an_agent_may_leave_behind_is_flagged_and_the_rest_is_judged(shop, change: str, flag: str) -> None:
    result = await checked(shop, f"{FIXED}; {change}", gated())
    assert (result.outcome, result.tests) == ("passed", "pass")
    assert flag in result.flags if flag else result.flags == ()
    assert Check.model_validate_json(result.model_dump_json()) == result


async def test_a_patch_that_leaves_the_repository_does_not_apply_and_says_why(shop) -> None:
    patch = "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"
    attempt = Attempt(fixer="x", patch=patch, stop="finished", detail="", seconds=0)
    result = await check("", gated(), attempt, shop)
    assert (result.outcome, result.applies) == ("failed", False)
    assert result.flags == ("leaves the repository or enters .git: ../x",)


async def test_parts_that_only_apply_together_leave_the_tests_unrun(task_sandbox_over) -> None:
    files = {**REPO, "lib/tests/test_lib.py": "import unittest\n"}
    with task_sandbox_over(files) as shop:
        result = await checked(shop, f"{FIXED}; rm -rf lib; echo file > lib", gated())
    assert (result.outcome, result.tests) == ("unverified", "not_run")
    assert any(flag.startswith("keeps its tests from being run: ") for flag in result.flags)
    assert "cannot be run with the patch" in result.detail


class Failing:
    """A tier whose sandbox does not start for a command with this word in it."""

    def __init__(self, tier: Tier, word: str) -> None:
        self._tier, self._word = tier, word

    def __getattr__(self, name: str) -> object:
        return getattr(self._tier, name)

    async def run(self, command: Command) -> Completed:
        if any(self._word in word for word in command.argv):
            raise SandboxError("the sandbox ended before its command started")
        return await self._tier.run(command)


async def test_a_reproduction_that_cannot_be_started_proves_nothing(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop, "tier", Failing(shop.tier, "shown.py"))
    result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.reproduction, result.tests) == ("unverified", "none", "pass")
    assert result.flags[0].startswith("keeps the reproduction from being run: ")


def test_a_check_of_an_older_version_can_be_read() -> None:
    old = '{"outcome": "passed", "applies": true, "reproduction": "passes", "tests": "pass"}'
    assert Check.model_validate_json(old).flags == ()


async def test_what_agrees_is_told(shop) -> None:
    result = await checked(shop, FIXED, gated())
    assert result.agreement == ("A passing test executes the changed lines: test_numbers_.Double.test_grows.",)
    assert result.missing == ()


@pytest.mark.parametrize("change", [FIXED, "echo '# looked at' >> numbers_.py"])
async def test_an_assumed_reproduction_neither_proves_nor_refutes(shop, change: str) -> None:
    result = await checked(shop, change, gated(basis="assumed"))
    assert result.outcome == "unverified"
    assert "was assumed" in result.missing[0]


async def test_a_patch_whose_lines_no_test_executes_is_unverified(task_sandbox_over) -> None:
    elsewhere = (
        "import unittest\nimport numbers_\n\nclass Other(unittest.TestCase):\n    def test(self):\n        pass\n"
    )
    with task_sandbox_over({**REPO, "test_numbers_.py": elsewhere}) as shop:
        result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.tests, result.agreement) == ("unverified", "pass", ())
    assert result.missing == (
        "Nothing else speaks for the patch: no passing test or example executes the changed lines.",
    )


async def test_a_test_of_the_patchs_own_does_not_agree(task_sandbox_over) -> None:
    elsewhere = (
        "import unittest\nimport numbers_\n\nclass Other(unittest.TestCase):\n    def test(self):\n        pass\n"
    )
    own = OWN.format("self.assertEqual(double(5), 10)").replace("\n", "\\n")
    with task_sandbox_over({**REPO, "test_numbers_.py": elsewhere}) as shop:
        result = await checked(shop, f"{FIXED}; printf '{own}' > test_own.py", gated())
    assert (result.outcome, result.agreement) == ("unverified", ())


async def test_what_is_missing_is_told(shop, task_sandbox_over) -> None:
    unseen = await checked(shop, FIXED, gated(kept=False))
    assert unseen.missing == ("No reproduction was verified, so nothing shows that the bug is gone.",)
    with task_sandbox_over({**REPO, "test_numbers_.py": "import nobody_has_this\n" + TESTS}) as other:
        unrun = await checked(other, FIXED, gated())
    assert "The project's tests did not judge the patch" in unrun.missing[0]


async def test_tests_that_do_not_finish_together_are_sampled(
    task_sandbox_over, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "SUITE_TIMEOUT_S", 3.0)
    monkeypatch.setattr(regression, "SAMPLE_FILE_S", 2.0)
    hangs = (
        "import time, unittest, numbers_\n\nclass Slow(unittest.TestCase):\n    test = lambda self: time.sleep(99)\n"
    )
    with task_sandbox_over({**REPO, "test_slow.py": hangs}) as shop:
        result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.tests, result.tests_run) == ("passed", "pass", 2)
    assert "2 related tests ran in the 1 file that finished in time and none broke" in result.detail


async def test_where_no_near_test_executes_the_lines_all_tests_run(task_sandbox_over) -> None:
    files = {
        "numbers_.py": SOURCE + "\n\ndef half(n):\n    return n // 2\n",
        "shop.py": "import numbers_\n\n\ndef pair(price):\n    return numbers_.double(price)\n",
        "test_numbers_.py": TESTS.replace("import double", "import half").replace("double(3), 3", "half(8), 3"),
        "test_far.py": "import unittest\nimport shop\n\nclass Far(unittest.TestCase):\n"
        "    def test_pair(self):\n        self.assertGreater(shop.pair(3), {least})\n",
    }
    with task_sandbox_over({**files, "test_far.py": files["test_far.py"].format(least=5)}) as shop:
        agrees = await checked(shop, FIXED, gated())
    assert agrees.outcome == "passed", agrees
    assert agrees.agreement[0] == "A passing test executes the changed lines: test_far.Far.test_pair."
    with task_sandbox_over({**files, "test_far.py": files["test_far.py"].format(least=6)}) as shop:
        refuted = await checked(shop, FIXED, gated())
    assert (refuted.outcome, refuted.tests) == ("failed", "fail")


@pytest.mark.parametrize("rewritten", ["double(2), 4", "double(5), 10"])
async def test_a_rewritten_test_of_what_the_report_complains_about_leaves_the_patch_unverified(
    task_sandbox_over, rewritten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have expected the bug. Who knows the project has to tell. No time for varied inputs is needed for that."""
    monkeypatch.setattr(guard, "REPRODUCTION", Bounds())
    monkeypatch.setattr(guard, "TESTS", Bounds())
    expects_the_bug = TESTS.replace("double(3), 6", "double(2), 5")
    with task_sandbox_over({"numbers_.py": SOURCE, "test_numbers_.py": expects_the_bug}) as shop:
        source_alone = await checked(shop, FIXED, gated())
        result = await checked(shop, f"{FIXED}; sed -i 's/double(2), 5/{rewritten}/' test_numbers_.py", gated())
    assert (source_alone.outcome, source_alone.tests) == ("failed", "fail")
    assert (result.outcome, result.tests) == ("unverified", "fail")
    assert result.missing[0].startswith("Tests broke, and the patch rewrites or removes them: test_numbers_.Double.")


async def test_a_rewritten_test_that_asserted_the_reported_exception_speaks_against_nothing(
    task_sandbox_over, check_patch
) -> None:
    source = "def share(n):\n    return 8 // n\n"
    test = "import unittest\nfrom numbers_ import share\n\nclass Share(unittest.TestCase):\n    def test_some(self):\n"
    test += "        self.assertEqual([share(n) for n in (1, 2, 4, 8)], [8, 4, 2, 1])\n\n    def test_none(self):\n"
    raises, equal = "assertRaises(ZeroDivisionError, share, 0)", "assertEqual(share(0), 0)"
    fix = "sed -i 's/return 8/return n and 8/' numbers_.py"
    with task_sandbox_over({"numbers_.py": source, "test_numbers_.py": f"{test}        self.{raises}\n"}) as shop:
        shown = "from numbers_ import share\nassert share(0) == 0\n"
        alone = await check_patch(shop, fix, shown)
        result = await check_patch(shop, f"{fix}; sed -i 's/{raises}/{equal}/' test_numbers_.py", shown)
    assert alone.outcome == "failed"
    assert result.outcome == "passed", (result.missing, result.doubts)
    expected = "rewrites or removes tests that expected what the report complains about: test_numbers_.Share.test_none"
    assert expected in result.flags


@pytest.mark.parametrize("reported", [True, False])
async def test_rewritten_tests_of_what_the_patch_changes_leave_it_unverified(task_sandbox_over, reported: bool) -> None:
    """Two functions change alike, and the report complains about one. A fix may be right for both."""
    source = "def double(n):\n    return n + n + 1\n\n\ndef more(n):\n    return n + 1 + 1\n"
    test = "import unittest\nfrom numbers_ import double, more\n\nclass T(unittest.TestCase):\n"
    test += "    def test_some(self):\n        self.assertGreater(double(3), 3)\n\n"
    right = "".join(
        f"    def test_{name}(self):\n        self.assertEqual({name}({number}), {result})\n\n"
        for name, number, result in (("double", 2, 4), ("more", 4, 5))
    )
    wrong = right.replace("double(2), 4", "double(2), 5").replace("more(4), 5", "more(4), 6")
    before = wrong if reported else wrong.replace("double(2), 5", "more(3), 5")
    after = right if reported else right.replace("double(2), 4", "more(3), 4")
    with task_sandbox_over({"numbers_.py": source, "test_numbers_.py": test + before}) as shop:
        write = f"cat > test_numbers_.py <<'END'\n{test}{after}END\nsed -i 's/ + 1$//' numbers_.py"
        result = await checked(shop, write, gated())
    assert (result.outcome, result.tests) == ("unverified", "fail")


async def test_a_rewritten_test_that_asserted_another_exception_than_the_report_asks_for(
    task_sandbox_over, check_patch
) -> None:
    source = "def read(text):\n    return int(text) if text else [][0]\n"
    test = "import unittest\nfrom numbers_ import read\n\nclass Read(unittest.TestCase):\n    def test_some(self):\n"
    test += "        self.assertEqual([read(str(n)) for n in range(5)], [0, 1, 2, 3, 4])\n\n    def test_none(self):\n"
    fix = "sed -i 's/return .*/return int(text) if text.isdigit() else {}[text]/' numbers_.py"
    rewrite = "sed -i 's/ValueError/KeyError/' test_numbers_.py"
    shown = "from numbers_ import read\ntry:\n    read('')\nexcept KeyError:\n    pass\n"
    asserted = "        self.assertRaises(ValueError, read, 'x')\n"
    with task_sandbox_over({"numbers_.py": source, "test_numbers_.py": test + asserted}) as shop:
        result = await check_patch(shop, f"{fix}; {rewrite}", shown)
    assert result.outcome == "passed", (result.missing, result.doubts)


@pytest.mark.parametrize(
    ("removed", "outcome"),
    [
        ("assertRaises(ZeroDivisionError, share, 0)", "passed"),
        # The same fault, elsewhere.
        ("assertRaises(ZeroDivisionError, other, 0)", "unverified"),
        ("assertEqual(share(4), 2); self.assertEqual(other(8), 1.0)", "failed"),
    ],
)
async def test_a_removed_test_of_an_exception_such_as_the_reported_one(
    task_sandbox_over, check_patch, removed: str, outcome: str
) -> None:
    source = "def share(n):\n    return 8 // n\n\n\ndef other(n):\n    return 8 // n\n"
    test = "import unittest\nfrom numbers_ import share, other\n\nclass Share(unittest.TestCase):\n"
    test += "    def test_some(self):\n        self.assertEqual([share(n) for n in (1, 2, 4)], [8, 4, 2])\n"
    result_of_8 = "5" if outcome == "failed" else "8 // n"
    fixed = source.replace("8 // n", "0 if n == 0 else 8 // n", 1)
    if "other" in removed:
        fixed = fixed.replace("return 8 // n", f"return 0 if n == 0 else {result_of_8}")
    fix = f"printf '{fixed}' > numbers_.py; printf '{test}' > test_numbers_.py".replace("\n", "\\n")
    files = {"numbers_.py": source, "test_numbers_.py": f"{test}\n    def test_gone(self):\n        self.{removed}\n"}
    with task_sandbox_over(files) as shop:
        result = await check_patch(shop, fix, "from numbers_ import share\nassert share(0) == 0\n")
    assert result.outcome == outcome, (result.missing, result.doubts, result.detail)


@pytest.mark.parametrize(("unchanged", "outcome"), [(2, "passed"), (1, "unverified")])
async def test_a_rewritten_test_of_reported_calls_alone_speaks_against_nothing_if_more_pass_unchanged(
    task_sandbox_over, unchanged: int, outcome: str
) -> None:
    """All its calls take the path of which the report complains."""
    tests = TESTS.replace("double(3), 6", "double(2), 5")
    tests += "\n    def test_more(self):\n        self.assertGreater(double(5), 5)\n" * (unchanged - 1)
    with task_sandbox_over({"numbers_.py": SOURCE, "test_numbers_.py": tests}) as shop:
        result = await checked(shop, f"{FIXED}; sed -i 's/double(2), 5/double(2), 4/' test_numbers_.py", gated())
    assert result.outcome == outcome, (result.missing, result.doubts)


@pytest.mark.parametrize(("failing", "tests"), [({1, 2, 3}, "pass"), ({1, 2}, "fail"), ({1, 2, 3, 4}, "fail")])
async def test_a_test_that_fails_without_the_patch_too_runs_once_more_with_the_others(
    shop, monkeypatch: pytest.MonkeyPatch, failing: set[int], tests: str
) -> None:
    """The runs are: with the patch, alone, alone without the patch, and with the patch again."""
    runs = count(1)

    async def run_suite(*arguments: Any, **options: Any) -> SuiteRun:
        run = await suite.run_suite(*arguments, **options)
        if next(runs) not in failing:
            return run
        return replace(run, passed=frozenset(), failed=run.passed | run.failed)

    monkeypatch.setattr(regression, "run_suite", run_suite)
    assert (await checked(shop, FIXED, gated())).tests == tests


async def test_what_a_constructor_sets_is_its_result(task_sandbox_over, check_patch) -> None:
    source = "class Box:\n    def __init__(self, n):\n        self.n = n + 1\n"
    test = "import unittest\nfrom numbers_ import Box\n\nclass T(unittest.TestCase):\n    def test(self):\n"
    test += "        self.assertEqual(Box(5).n, 6)\n"
    with task_sandbox_over({"numbers_.py": source, "test_numbers_.py": test}) as shop:
        change = "sed -i 's/ + 1$//' numbers_.py; sed -i 's/, 6)/, 5)/' test_numbers_.py"
        result = await check_patch(shop, change, "from numbers_ import Box\nassert Box(2).n == 2\n")
    assert (result.outcome, result.tests) == ("unverified", "fail")
