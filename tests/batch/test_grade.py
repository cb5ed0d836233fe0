"""One patch judged by real tests in the real sandbox: verdicts, the gold control, flaky tests, and tests that lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from scrout.batch.grading.grade import Control, control, grade
from scrout.batch.grading.judge import Case, GradingRun, Judge, gold_digest, open_judge
from scrout.config.settings import EnvironmentSettings, Settings
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tiers.unsafe import Unsafe
from scrout.sandbox.workspace import find_source
from scrout.task import Gold, Task

if TYPE_CHECKING:
    from conftest import MakeRepo, OpenTaskSandbox

SOURCE = """\
def total(prices):
    result = 0
    for price in prices[1:]:
        result += price
    return result
"""
FIX = """\
diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,5 +1,5 @@
 def total(prices):
     result = 0
-    for price in prices[1:]:
+    for price in prices:
         result += price
     return result
"""
BREAKS = FIX.replace("+    for price in prices:", "+    for price in (7,):")
SAME = FIX.replace("+    for price in prices:", "+    for price in prices[1:]:  # looked at")
PYTEST_TESTS = "from shop import total\n\n\ndef test_empty():\n    assert total([]) == 0\n"
UNITTEST_TESTS = """\
import unittest

from shop import total


class CartTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(total([]), 0)
"""


def deleted(path: str, text: str) -> str:
    """A patch that removes a file."""
    lines = text.splitlines()
    head = f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n"
    return head + f"@@ -1,{len(lines)} +0,0 @@\n" + "".join(f"-{line}\n" for line in lines)


def new_file(path: str, text: str) -> str:
    """A patch that adds a file."""
    lines = text.splitlines()
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    )
    return head + "".join(f"+{line}\n" for line in lines)


ADDS_TEST = """\
diff --git a/tests/test_shop.py b/tests/test_shop.py
--- a/tests/test_shop.py
+++ b/tests/test_shop.py
@@ -4,2 +4,6 @@
 def test_empty():
     assert total([]) == 0
+
+
+def test_all():
+    assert total([1, 2]) == 3
"""
WEAKENS = """\
diff --git a/tests/test_shop.py b/tests/test_shop.py
--- a/tests/test_shop.py
+++ b/tests/test_shop.py
@@ -4,2 +4,2 @@
 def test_empty():
-    assert total([]) == 0
+    assert True
"""
ALL = "from shop import total\n\n\ndef test_all():\n    assert total([1, 2]) == 3\n"
GOLD = Gold(
    patch=FIX,
    test_patch=ADDS_TEST,
    fail_to_pass=("tests/test_shop.py::test_all",),
    pass_to_pass=("tests/test_shop.py::test_empty",),
)


@dataclass(frozen=True)
class Court:
    """A task whose patches can be judged."""

    case: Case
    task_sandbox: TaskSandbox

    async def judge(self, timeout_s: float = 120) -> Judge:
        return await open_judge(self.case, self.task_sandbox, timeout_s)


Open = Callable[..., AbstractContextManager[Court]]


@pytest.fixture
def court(make_repo: MakeRepo, task_sandbox: OpenTaskSandbox, venv_with_pytest: Path) -> Open:
    """court(gold, files): the task of a repository with these files beside the shop's."""

    @contextmanager
    def opened(
        gold: Gold = GOLD,
        tests: str = PYTEST_TESTS,
        files: Mapping[str, str] = MappingProxyType({}),
        name: str = "repo",
    ) -> Iterator[Court]:
        repo = make_repo({"shop.py": SOURCE, "tests/__init__.py": "", "tests/test_shop.py": tests, **files}, name)
        settings = Settings(environment=EnvironmentSettings(venv=str(venv_with_pytest)))
        with task_sandbox(repo, settings) as shop:
            task = Task(id="shop-1", text="wrong", repo=repo, base_commit=shop.base.commit)
            yield Court(Case(task, gold, gold_digest(task.base_commit, gold)), shop)

    return opened


async def test_resolved_unresolved_empty_and_what_does_not_apply(court: Open) -> None:
    with court() as one:
        judge = await one.judge()
        solved = await grade(judge, FIX.rstrip("\n"))
        assert (solved.verdict, solved.failed, solved.runs) == ("resolved", (), 1), solved
        assert solved.id == "shop-1" and len(solved.patch_digest) == len(solved.gold_digest) == 64
        wrong = await grade(judge, SAME)
        assert (wrong.verdict, wrong.failed) == ("unresolved", ("tests/test_shop.py::test_all",)), wrong
        assert "1 of 2 tests" in wrong.detail and wrong.patch_digest != solved.patch_digest
        empty = await grade(judge, " \n")
        assert (empty.verdict, empty.runs) == ("empty_patch", 0)
        lost = await grade(judge, FIX.replace("prices[1:]", "prices[2:]"))
        assert lost.verdict == "does_not_apply" and "shop.py" in lost.detail


async def test_tests_of_the_gold_win_over_those_of_the_patch(court: Open) -> None:
    with court() as one:
        judge = await one.judge()
        cheat = await grade(judge, WEAKENS + BREAKS)
        assert cheat.verdict == "unresolved" and "tests/test_shop.py::test_empty" in cheat.failed
        assert any("test" in flag for flag in cheat.flags), cheat.flags
        assert (await grade(judge, WEAKENS + FIX)).verdict == "resolved"


@pytest.mark.slow
async def test_a_test_file_that_the_patch_brings_itself_gives_way(court: Open) -> None:
    gold = Gold(patch=FIX, test_patch=new_file("tests/test_new.py", ALL), fail_to_pass=("tests/test_new.py::test_all",))
    with court(gold) as one:
        in_its_place = new_file("tests/test_new.py", "def test_all():\n    pass\n")
        judge = await one.judge()
        assert (await grade(judge, in_its_place + SAME)).verdict == "unresolved"
        assert (await grade(judge, in_its_place + FIX)).verdict == "resolved"


async def test_tests_of_the_repository_that_judge_cannot_be_deleted(court: Open) -> None:
    gold = Gold(patch=FIX, fail_to_pass=("tests/test_all.py::test_all",))
    with court(gold, files={"tests/test_all.py": ALL}) as one:
        assert (await grade(await one.judge(), deleted("tests/test_all.py", ALL) + FIX)).verdict == "resolved"


@pytest.mark.slow
async def test_a_doctest_is_judged_with_the_patch_in_its_file(court: Open) -> None:
    source = '"""\n>>> total([1, 2])\n3\n"""\n' + SOURCE
    fix = FIX.replace("@@ -1,5 +1,5 @@", "@@ -5,5 +5,5 @@")
    gold = Gold(patch=fix, fail_to_pass=("shop.py::shop",), test_command="python -m pytest --doctest-modules shop.py")
    with court(gold, files={"shop.py": source}) as one:
        held = await control(await one.judge())
        assert held.outcome == "held", held


NESTED = {"tests/pytest.ini": "[pytest]\n"}
"""Then the names of pytest are relative to the folder of tests, not to the repository."""


@pytest.mark.parametrize("command", ["", "python -m pytest tests/test_shop.py", "cd tests && python -m pytest"])
async def test_names_of_another_rootdir_agree_with_the_runner(court: Open, command: str) -> None:
    gold = GOLD.model_copy(update={"test_command": command and f"PYTHONPATH=$PWD; export PYTHONPATH; {command}"})
    with court(gold, files=NESTED) as one:
        judge = await one.judge()
        held = await control(judge)
        assert (held.outcome, held.detail) == ("held", ""), held
        assert (await grade(judge, FIX, control=held)).verdict == "resolved"
        assert (await grade(judge, SAME, control=held)).failed == gold.fail_to_pass


@pytest.mark.parametrize("prefix", ["", "checkout/tests/"])
async def test_names_that_a_gold_has_from_another_folder(court: Open, prefix: str) -> None:
    names = {
        "fail_to_pass": (f"{prefix}test_shop.py::test_all",),
        "pass_to_pass": (f"{prefix}test_shop.py::test_empty",),
    }
    with court(GOLD.model_copy(update=names)) as one:
        judge = await one.judge()
        assert (await grade(judge, FIX)).verdict == "resolved"
        assert (await grade(judge, SAME)).failed == names["fail_to_pass"]


async def test_a_name_that_could_mean_two_tests_fails_and_is_told(court: Open) -> None:
    names = {"fail_to_pass": ("test_shop.py::test_all",), "pass_to_pass": ()}
    with court(GOLD.model_copy(update=names), files={"old/tests/test_shop.py": ALL}) as one:
        unclear = await control(await one.judge())
        assert unclear.outcome == "failed", unclear
        assert "test_shop.py::test_all (old/tests/test_shop.py or tests/test_shop.py)" in unclear.detail


@pytest.mark.parametrize(
    "test",
    [
        "tests.test_shop.CartTest.test_all",
        pytest.param("test_all (tests.test_shop.CartTest)", marks=pytest.mark.slow),
        pytest.param("test_all (m.CartTest.test_all)", marks=pytest.mark.slow),
    ],
)
async def test_unittest(court: Open, test: str) -> None:
    tests = UNITTEST_TESTS + "\n    def test_all(self):\n        self.assertEqual(total([1, 2]), 3)\n"
    with court(Gold(patch=FIX, fail_to_pass=(test.replace("m.Cart", "tests.test_shop.Cart"),)), tests) as one:
        judge = await one.judge()
        held = await control(judge)
        assert (held.outcome, held.detail) == ("held", ""), held
        assert (await grade(judge, SAME, control=held)).failed == judge.case.tests


QUICK = GOLD.model_copy(
    update={
        "fail_to_pass": ("all",),
        "pass_to_pass": ("empty",),
        "test_command": 'echo "ok 1 - empty"; if grep -q "in prices:" shop.py; then echo "ok 2 - all"; fi',
    }
)
LACKING = GOLD.model_copy(update={"patch": FIX.replace("@@ -1,5 +1,5 @@", "@@ -2,5 +2,5 @@")})
BAD_GOLDS = {
    "gold patch does not apply": QUICK.model_copy(update={"patch": FIX.replace("result = 0", "result = 1")}),
    "test patch does not apply": QUICK.model_copy(update={"test_patch": ADDS_TEST.replace("total([])", "total()")}),
    "1 of 2 tests do not pass": QUICK.model_copy(update={"patch": SAME}),
    "they show nothing": QUICK.model_copy(update={"fail_to_pass": ()}),
    "has no patch": QUICK.model_copy(update={"patch": ""}),
}


@pytest.mark.parametrize("words", BAD_GOLDS)
async def test_a_gold_that_shows_nothing_fails_the_control(court: Open, words: str) -> None:
    with court(BAD_GOLDS[words]) as one:
        failed = await control(await one.judge())
        assert failed.outcome == "failed" and words in failed.detail, failed


async def test_a_gold_whose_failing_tests_pass_anyway_fails_the_control(court: Open) -> None:
    command = 'echo "ok 1 - all"; if grep -q "in prices:" shop.py; then echo "ok 2 - empty"; fi'
    with court(QUICK.model_copy(update={"test_command": command})) as one:
        failed = await control(await one.judge())
        assert failed.outcome == "failed" and "they show nothing" in failed.detail, failed


async def test_a_gold_that_tells_right_from_wrong_passes_the_control(court: Open) -> None:
    with court(QUICK) as one:
        held = await control(await one.judge())
        assert (held.outcome, held.detail, held.runs, held.flaky) == ("held", "", 1, ()), held


async def test_tests_that_cannot_be_run_are_nobodys_failure(court: Open) -> None:
    with court(GOLD.model_copy(update={"test_command": "no-such-runner --all"})) as one:
        judge = await one.judge()
        checked = await control(judge)
        assert checked.outcome == "infrastructure" and "exit code 127" in checked.detail, checked
        graded = await grade(judge, FIX, control=checked)
        assert (graded.verdict, graded.detail, graded.runs) == ("infrastructure", checked.detail, 0)


@pytest.mark.slow
async def test_an_environment_that_lacks_a_module_is_nobodys_failure(court: Open) -> None:
    with court(files={"shop.py": "import nothing_of_this_name\n" + SOURCE}, gold=LACKING) as one:
        checked = await control(await one.judge())
        assert checked.outcome == "infrastructure" and "lacks nothing_of_this_name" in checked.detail, checked


async def test_a_project_without_tests_is_nobodys_failure(make_repo: MakeRepo, task_sandbox: OpenTaskSandbox) -> None:
    with task_sandbox(make_repo({"shop.py": SOURCE})) as shop:
        task = Task(id="shop-1", text="wrong", repo=shop.base.repo, base_commit=shop.base.commit)
        judge = await open_judge(Case(task, GOLD, "d"), shop)
        assert (await control(judge)).outcome == "infrastructure"
        graded = await grade(judge, FIX)
        assert graded.verdict == "infrastructure" and "test_command" in graded.detail


async def test_a_test_patch_that_does_not_fit_is_nobodys_failure(court: Open) -> None:
    with court(BAD_GOLDS["test patch does not apply"]) as one:
        assert (await grade(await one.judge(), FIX)).verdict == "infrastructure"


async def test_a_full_disk_is_nobodys_failure(court: Open) -> None:
    with court(QUICK) as one:
        judge = await one.judge()
        assert one.task_sandbox.workspaces.folder is not None
        one.task_sandbox.workspaces.folder = one.task_sandbox.workspaces.folder / "gone"
        graded = await grade(judge, FIX)
        assert graded.verdict == "infrastructure" and "the sandbox failed" in graded.detail
        assert (await control(judge)).outcome == "infrastructure"
        one.task_sandbox.workspaces.folder = one.task_sandbox.workspaces.folder.parent


@pytest.mark.slow
async def test_a_patch_that_hangs_is_told_from_a_machine_that_is_slow(court: Open) -> None:
    gold = GOLD.model_copy(update={"test_command": "grep -q while shop.py && sleep 60; true"})
    hangs = FIX.replace("+    for price in prices:", "+    while prices:")
    quick = Control(id="shop-1", gold_digest="d", outcome="held", seconds=0.1)
    with court(gold) as one:
        judge = await one.judge(timeout_s=0.5)
        graded = await grade(judge, hangs, control=quick)
        assert (graded.verdict, graded.failed) == ("unresolved", judge.case.tests) and "gold patch" in graded.detail
        for unclear in (None, quick.model_copy(update={"seconds": 0.45})):
            assert (await grade(judge, hangs, control=unclear)).verdict == "infrastructure"
        broken = quick.model_copy(update={"outcome": "failed"})
        assert (await grade(judge, hangs, control=broken)).verdict == "control_failed"


async def test_a_gold_whose_tests_do_not_end_says_nothing(court: Open) -> None:
    with court(GOLD.model_copy(update={"test_command": "sleep 60"})) as one:
        late = await control(await one.judge(timeout_s=0.5))
        assert late.outcome == "infrastructure" and "--timeout-s" in late.detail


async def test_a_run_that_is_killed_is_tried_again(court: Open) -> None:
    gold = GOLD.model_copy(update={"test_command": "kill -9 $$"})
    held = Control(id="shop-1", gold_digest="d", outcome="held", seconds=0.1)
    with court(gold) as one:
        judge = await one.judge()
        graded = await grade(judge, FIX)
        assert graded.verdict == "infrastructure" and "killed" in graded.detail
        assert (await grade(judge, FIX, control=held)).verdict == "unresolved"


@pytest.mark.slow
async def test_tests_that_waver_are_noticed_and_excused_only_where_the_gold_wavers_too(
    make_repo: MakeRepo, tmp_path: Path
) -> None:
    """Without isolation, so that the tests can count their runs: every second one fails."""
    count = tmp_path / "count"
    # Written so that the tier does not take it for a path of the sandbox's /tmp.
    counts = f'count="/""{str(count)[1:]}"; echo >> "$count"; echo "ok 1 - steady"'
    command = f'{counts}; test $(($(wc -l < "$count") % 2)) = 1 && echo "ok 2 - shaky"; true'
    gold = Gold(patch=FIX, fail_to_pass=("steady",), pass_to_pass=("shaky",), test_command=command)
    repo = make_repo({"shop.py": SOURCE})
    task = Task(id="shop-1", text="wrong", repo=repo, base_commit=find_source(repo).head)
    with open_task_sandbox(task, Unsafe(), Settings()) as shop:
        judge = await open_judge(Case(task, gold, "d"), shop)
        checked = await control(judge, repeats=2)
        assert checked.flaky == ("shaky",) and checked.runs == 2
        strict = await grade(judge, FIX, repeats=3)
        assert (strict.verdict, strict.flaky, strict.failed, strict.runs) == ("unresolved", ("shaky",), ("shaky",), 3)
        excused = await grade(judge, FIX, control=checked.model_copy(update={"outcome": "held"}), repeats=2)
        assert (excused.verdict, excused.flaky, excused.failed) == ("resolved", ("shaky",), ())


async def test_without_names_the_exit_code_decides(court: Open) -> None:
    command = "python -c 'import shop; assert shop.total([1, 2]) == 3'"
    with court(Gold(patch=FIX, test_command=command)) as one:
        judge = await one.judge()
        assert (await control(judge)).outcome == "held"
        assert (await grade(judge, FIX)).verdict == "resolved"
        assert (await grade(judge, SAME)).verdict == "unresolved"


ENDINGS = """\
import unittest


class Base(unittest.TestCase):
    def test_passes(self):
        print("test_fails (tests.test_shop.Base.test_fails) ... ok")

    def test_fails(self):
        self.fail("<&\\x1b\\udce9")

    def test_errs(self):
        raise KeyError

    def test_parts(self):
        for number in (1, 2):
            with self.subTest(number=number):
                self.assertEqual(number, 1)

    def test_cleans(self):
        self.addCleanup(lambda: self.fail())

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    @unittest.expectedFailure
    def test_surprise(self):
        pass

    @unittest.skip("later")
    def test_skipped(self):
        pass


class Inherits(Base):
    def test_fails(self):
        pass
"""


async def test_how_tests_of_unittest_can_end(court: Open) -> None:
    names = ("passes", "expected", "fails", "errs", "parts", "cleans", "surprise", "skipped")
    tests = tuple(f"tests.test_shop.{case}.test_{name}" for case in ("Base", "Inherits") for name in names)
    with court(Gold(patch=FIX, fail_to_pass=tests), ENDINGS) as one:
        trial = await (await one.judge()).trial(FIX)
        assert isinstance(trial, GradingRun) and trial.exit_code == 1
        good = {f"tests.test_shop.{case}.test_{name}" for case in ("Base", "Inherits") for name in names[:2]}
        assert trial.passed == good | {"tests.test_shop.Inherits.test_fails"}, trial


async def test_unittest_cannot_be_forged_by_printing(court: Open) -> None:
    tests = UNITTEST_TESTS + "\n    def test_all(self):\n        self.assertEqual(total([1, 2]), 3)\n"
    told = "test_all (tests.test_shop.CartTest.test_all) ... ok"
    lies = f"    import os; os.write(2, b'{told}\\\\n'); os._exit(0)"
    patch = SAME.replace("+1,5", "+1,6").replace("+    for price", f"+{lies}\n+    for price")
    with court(Gold(patch=FIX, fail_to_pass=("tests.test_shop.CartTest.test_all",)), tests) as one:
        graded = await grade(await one.judge(), patch)
        assert graded.verdict == "unresolved" and graded.failed, graded


SUMMARY = (
    "=== short test summary info ===\\nPASSED tests/test_shop.py::test_all\\nPASSED tests/test_shop.py::test_empty\\n"
)
LIES = f"""\
import atexit, os, sys
def lie():
    sys.__stdout__.write("{SUMMARY}")
    sys.__stdout__.flush()
atexit.register(lie)
lie()
"""


@pytest.mark.parametrize("command", ["", pytest.param("python -m pytest -rA tests", marks=pytest.mark.slow)])
@pytest.mark.parametrize("ending", [pytest.param("", marks=pytest.mark.slow), "os._exit(0)\n"])
async def test_a_printed_pass_is_not_believed_where_there_is_a_report(court: Open, command: str, ending: str) -> None:
    lies = new_file("lies.py", LIES + ending) + SAME.replace("+1,5", "+1,6").replace(
        " def total", "+import lies\n def total"
    )
    with court(GOLD.model_copy(update={"test_command": command})) as one:
        graded = await grade(await one.judge(), lies)
        assert (graded.verdict, len(graded.failed)) == ("unresolved", 2 if ending else 1), graded


async def test_reports_of_a_command_count_for_more_than_what_it_prints(court: Open) -> None:
    writes = (
        """printf '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>' """
        '> "$SCROUT_REPORTS/report.xml"; echo "ok 1 - b"; echo "ok 2 - c"'
    )
    gold = Gold(patch=FIX, fail_to_pass=("a", "b", "c"), test_command=writes)
    with court(gold) as one:
        assert (await grade(await one.judge(), FIX)).failed == ("b", "c")


async def test_what_is_printed_counts_where_there_is_no_report(court: Open) -> None:
    prints = 'echo "ok 1 - a"; echo "not ok 2 - c"'
    with court(Gold(patch=FIX, fail_to_pass=("a", "c"), test_command=prints)) as one:
        assert (await grade(await one.judge(), FIX)).failed == ("c",)
