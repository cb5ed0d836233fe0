"""Which tests a project has, which of them are near a change, and what a run of them gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scrout.sandbox.suite import Suite, find_suite, is_test_file, related_tests, run_on_base, run_suite
from scrout.sandbox.suite import test_files as list_test_files
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace

from ..conftest import assert_linear, run_git

FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": "def total(prices):\n    return sum(prices)\n",
    "shop/tax.py": "rate = 2\n",
    "tests/__init__.py": "",
    "tests/test_cart.py": "import unittest\nfrom shop import cart\n\n\nclass T(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(cart.total([1, 2]), 3)\n",
    "tests/test_other.py": "import unittest\nimport shop.tax\n\n\nclass T(unittest.TestCase):\n"
    "    def test_rate(self):\n        self.assertEqual(shop.tax.rate, 3)\n",
    "tests/test_far.py": "# cart and tax are only mentioned\n",
}


@pytest.fixture(scope="module")
def shop(shared_task_sandbox):  # type: ignore[no-untyped-def]
    with shared_task_sandbox(FILES) as opened:
        yield opened


@pytest.mark.parametrize(("path", "expected"), [("tests/test_a.py", True), ("a_test.py", True), ("latest.py", False)])
def test_what_a_test_file_is(path: str, expected: bool) -> None:
    assert is_test_file(path) is expected


async def test_a_run_names_what_passed_and_failed(shop) -> None:
    suite = Suite("unittest", list_test_files(shop.base))
    run = await run_suite(shop, shop.fresh(), suite, ("tests/test_cart.py", "tests/test_other.py"), timeout_s=30)
    assert run.finished
    assert run.passed == {"tests.test_cart.T.test_total"} and run.failed == {"tests.test_other.T.test_rate"}
    whole = await run_suite(shop, shop.fresh(), suite, timeout_s=30)
    assert whole.passed == run.passed and whole.failed == run.failed


async def test_a_run_that_is_stopped_is_not_finished(shop) -> None:
    workspace = shop.fresh()
    workspace.write("tests/test_cart.py", b"import time\ntime.sleep(30)\n")
    run = await run_suite(shop, workspace, Suite("unittest", ()), ("tests/test_cart.py",), timeout_s=1)
    assert not run.finished and not run.passed


async def test_the_runner_is_found(shop, make_repo, task_sandbox) -> None:
    suite = await find_suite(shop)
    assert suite is not None and suite.files == ("tests/test_cart.py", "tests/test_far.py", "tests/test_other.py")
    with task_sandbox(make_repo({"a.py": ""}, "untested")) as other:
        assert await find_suite(other) is None


def test_the_nearest_tests_come_first(shop) -> None:
    assert related_tests(shop.base, ["shop/cart.py"]) == ("tests/test_cart.py",)
    assert related_tests(shop.base, ["shop/tax.py"]) == ("tests/test_other.py",)
    assert set(related_tests(shop.base, ["shop/__init__.py"])) == {"tests/test_cart.py", "tests/test_other.py"}
    assert related_tests(shop.base, ["setup.cfg", "README"]) == ()


def test_a_test_file_made_to_be_slow_is_not(make_repo, task_sandbox) -> None:
    def made(size: int) -> str:
        return "import " * 10 * size + "\n" + "from x import y\n" * size

    with task_sandbox(make_repo({"test_a.py": ""})) as shop:

        def related(text: str) -> None:
            (shop.base.tree / "test_a.py").write_text(text)
            related_tests(shop.base, ["pkg/mod.py", "pkg/other.py"])

        assert_linear(related, made, 1_000)


@pytest.mark.slow
async def test_what_a_commit_gives_is_asked_once(make_repo, task_sandbox) -> None:  # type: ignore[no-untyped-def]
    counts = FILES | {
        "tests/test_cart.py": "import time\n\n\ndef test_now():\n    print(time.time())\n    assert False\n"
    }
    repo = make_repo(counts)
    outputs = []
    for _ in range(2):
        with task_sandbox(repo) as opened:
            suite = Suite("pytest", ("tests/test_cart.py",))
            run = await run_on_base(opened, suite, ("tests/test_cart.py",), timeout_s=60)
            outputs.append(run.replay.output)
    assert "Captured stdout" in outputs[0] and outputs[0].endswith(outputs[1])
    other = make_repo({**counts, "tests/test_cart.py": "def test_now():\n    pass\n"}, "other")
    with task_sandbox(other) as opened:
        run = await run_on_base(opened, suite, ("tests/test_cart.py",), timeout_s=60)
    assert run.passed and not run.failed


async def test_a_file_of_the_repository_cannot_take_the_runners_place(make_repo, task_sandbox) -> None:  # type: ignore[no-untyped-def]
    files = {
        "pytest.py": "def main():\n    print('PASSED tests/test_a.py::test_a')\n    return 0\n\n\nmain()\n",
        "tests/test_a.py": "import lib\n\n\ndef test_a():\n    assert lib.one == 2\n",
        "lib.py": "one = 1\n",
    }
    with task_sandbox(make_repo(files)) as opened:
        suite = Suite("pytest", ("tests/test_a.py",))
        run = await run_suite(opened, opened.fresh(), suite, suite.files, timeout_s=60)
    assert run.failed == {"tests/test_a.py::test_a"} and not run.passed


async def test_a_package_below_src_that_is_not_installed_is_found_by_its_tests(task_sandbox_over) -> None:
    test = "import unittest\nfrom shop import one\n\nclass T(unittest.TestCase):\n    def test(self):\n        one()\n"
    with task_sandbox_over({"src/shop/__init__.py": "def one(): 1\n", "tests/test_shop.py": test}) as shop:
        suite = await find_suite(shop)
        assert suite is not None and suite.source_root == "src"
        run = await run_suite(shop, shop.fresh(), suite, ("tests/test_shop.py",), timeout_s=30)
        assert run.passed == {"tests.test_shop.T.test"}


async def test_a_link_out_of_the_repository_names_no_package(
    make_repo, task_sandbox, tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "private" / "secretname").mkdir(parents=True)
    (tmp_path / "private" / "secretname" / "__init__.py").touch()
    repo = make_repo({"tests/test_a.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test(self): ...\n"})
    (repo / "src").symlink_to(tmp_path / "private")
    run_git(repo, "add", "src")
    run_git(repo, "commit", "-q", "-m", "a link")
    told: list[str] = []
    shell = TaskSandbox.shell

    def listened(self: TaskSandbox, workspace: Workspace, line: str, **more: Any) -> Any:
        told.append(line)
        return shell(self, workspace, line, **more)

    monkeypatch.setattr(TaskSandbox, "shell", listened)
    with task_sandbox(repo) as opened:
        suite = await find_suite(opened)
    assert suite is not None and suite.source_root == "" and "secretname" not in " ".join(told)


async def test_filters_for_warnings_of_another_version_do_not_keep_tests_from_running(task_sandbox_over) -> None:
    files = {"tests/test_a.py": "import pytest\n\n\ndef test_a():\n    pass\n"}
    strange = {"pytest.ini": "[pytest]\nfilterwarnings =\n    error\n    ignore::pytest.NoSuchWarningHere\n"}
    newer = {
        "pytest.ini": "[pytest]\nfilterwarnings = error\n",
        "tests/conftest.py": "import warnings\n\nwarnings.warn('is deprecated', DeprecationWarning)\n",
    }
    for settings in (strange, newer):
        with task_sandbox_over({**files, **settings}) as shop:
            suite = await find_suite(shop)
            assert suite is not None
            run = await run_suite(shop, shop.fresh(), suite, suite.files, timeout_s=60)
            assert run.passed == {"tests/test_a.py::test_a"}
    with task_sandbox_over({**files, "pytest.ini": "[pytest]\nfilterwarnings = error\n"}) as shop:
        suite = await find_suite(shop)
        assert suite is not None and suite.options == ""


async def test_functions_that_unittest_does_not_see_are_run_by_pytest(task_sandbox_over) -> None:
    case = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n\n\n"
    with task_sandbox_over({"tests/test_a.py": f"{case}def test_b():\n    pass\n"}) as shop:
        suite = await find_suite(shop)
        assert suite is not None
        run = await run_suite(shop, shop.fresh(), suite, suite.files, timeout_s=60)
        assert run.passed == {"tests/test_a.py::T::test_a", "tests/test_a.py::test_b"}
    with task_sandbox_over({"tests/test_a.py": f"{case}def test_suite():\n    return unittest.TestSuite()\n"}) as shop:
        suite = await find_suite(shop)
        assert suite is not None and suite.runner == "unittest"
