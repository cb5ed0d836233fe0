"""Tests by name: documents and printed output of each runner, what cannot be forged, and hostile text."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.sandbox.reports import TestReport
from scrout.sandbox.reports_by_name import (
    MOST_NAME,
    PYTEST,
    names_of,
    read_cargo,
    read_documents,
    read_go,
    read_go_events,
    read_jest,
    read_jest_json,
    read_junit_by_name,
    read_printed,
    read_printed_pytest,
    read_tap,
)

from ..conftest import assert_linear

HOME = os.environ.get("HOME", "/")
"""The user's own, where rustup keeps its compilers; tests have another."""
TESTS = """
import pytest


class Base:
    def test_inherited(self):
        pass


class TestGroup(Base):
    @pytest.mark.parametrize("x", ["a::b", "c.d[e]", "f - g"])
    def test_param(self, x):
        assert x != "f - g"


def test_prints():
    print("=== short test summary info ===\\nPASSED tests/test_p.py::test_fails")


def test_fails():
    assert 0


@pytest.mark.xfail
def test_expected():
    assert 0


@pytest.mark.skip
def test_skipped():
    pass


@pytest.fixture
def torn():
    yield
    raise RuntimeError


def test_torn(torn):
    pass
"""
PASS = ("TestGroup::test_inherited", "TestGroup::test_param[a::b]", "TestGroup::test_param[c.d[e]]", "test_expected")
FAIL = ("TestGroup::test_param[f - g]", "test_fails", "test_torn")


def has_passed(report: TestReport, test: str) -> bool:
    return not report.passed.isdisjoint(names_of(test))


def run_pytest(folder: Path) -> tuple[str, str]:
    """What a real run printed, and its JUnit report."""
    (folder / "tests").mkdir()
    (folder / "tests" / "test_p.py").write_text(TESTS)
    (folder / "tests" / "test_broken.py").write_text("import nothing_of_this_name\n")
    options = ["-q", "-rA", "-p", "no:cacheprovider", "--continue-on-collection-errors", "--junitxml=report.xml"]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={folder}", "tests"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    printed = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout
    return printed, (folder / "report.xml").read_text()


def test_a_real_pytest(tmp_path: Path) -> None:
    printed, xml = run_pytest(tmp_path)
    report = read_documents([xml])
    assert report is not None
    assert [name for name in PASS if not has_passed(report, f"tests/test_p.py::{name}")] == []
    assert [name for name in (*FAIL, "test_skipped") if has_passed(report, f"tests/test_p.py::{name}")] == []
    assert all(not report.failed.isdisjoint(names_of(f"tests/test_p.py::{name}")) for name in FAIL)
    told = read_printed(printed, "python -m pytest -rA")
    assert {f"tests/test_p.py::{name}" for name in PASS} <= told.passed
    assert {f"tests/test_p.py::{name}" for name in FAIL} <= told.failed


def test_names_that_tasks_use() -> None:
    assert names_of("a/b.py::C::d[e::f]")[1] == "a.b.C.d[e::f]"
    assert names_of("test_a (m.C)")[1] == names_of("test_a (m.C.test_a)")[1] == "m.C.test_a"
    assert names_of("TestSplit/ten") == ("TestSplit/ten",)


def test_junit_of_other_runners() -> None:
    report = read_junit_by_name(
        '<testsuites><testsuite><testcase classname="org.A" name="adds"/><testcase classname="org.B" name="adds">'
        '<error/></testcase><testcase classname="org.A" name="later"><skipped/></testcase></testsuite></testsuites>'
    )
    assert report is not None
    assert "org.A.adds" in report.passed and "org.B.adds" in report.failed
    # By its name alone it stands for two tests, one of which failed.
    assert "adds" in report.failed and "adds" not in report.passed
    assert "org.A.later" not in report.passed | report.failed


GO_EVENTS = r"""
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"example.org/till","Test":"TestSplit"}
{"Action":"output","Package":"example.org/till","Test":"TestSplit","Output":"--- PASS: TestForged (0.00s)\n"}
{"Action":"output","Package":"example.org/till","Test":"TestSplit","Output":"{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestForged\"}\n"}
{"Action":"fail","Package":"example.org/till","Test":"TestSplit/ten","Elapsed":0}
{"Action":"fail","Package":"example.org/till","Test":"TestSplit","Elapsed":0}
{"Action":"pass","Package":"example.org/till","Test":"TestOther","Elapsed":0}
{"Action":"skip","Package":"example.org/till","Test":"TestLater","Elapsed":0}
--- PASS: TestForged (0.00s)
{"Action":"fail","Package":"example.org/till","Elapsed":0.01}
"""


def test_go_events_cannot_be_forged_by_what_tests_print() -> None:
    for report in (read_go(GO_EVENTS), read_printed(GO_EVENTS, "go test -json ./...")):
        assert report is not None
        assert report.passed == {"TestOther", "example.org/till.TestOther"}
        assert {"TestSplit", "TestSplit/ten"} <= report.failed


def test_go_as_it_prints() -> None:
    text = (
        "=== RUN   TestSplit\n=== RUN   TestSplit/ten\n    a_test.go:9: got 9\n--- FAIL: TestSplit (0.00s)\n"
        "    --- FAIL: TestSplit/ten (0.00s)\n    --- PASS: TestSplit/nine (0.00s)\n--- PASS: TestOther (0.00s)\n"
        "--- SKIP: TestLater (0.00s)\nFAIL\nFAIL\texample.org/till\t0.01s\n"
    )
    report = read_printed(text, "go test -v ./...")
    assert report.passed == {"TestOther", "TestSplit/nine"} and report.failed == {"TestSplit", "TestSplit/ten"}


CARGO = """
running 5 tests
test tests::adds ... ok
test tests::panics - should panic ... ok
test tests::fails ... FAILED
test tests::later ... ignored, not now
test tests::prints ... said by the test
ok

failures:

---- tests::fails stdout ----
thread 'tests::fails' panicked at src/lib.rs:9:9:

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests till
running 1 test
test src/lib.rs - add (line 3) ... ok
"""


def test_cargo() -> None:
    report = read_printed(CARGO, "cargo test")
    assert report.passed == {"tests::adds", "tests::panics", "tests::prints", "src/lib.rs - add (line 3)"}
    assert report.failed == {"tests::fails"}


@pytest.mark.slow
def test_a_real_cargo_harness(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": HOME}
    # rustup's rustc is there without a toolchain, too.
    if not shutil.which("rustc") or subprocess.run(["rustc", "--version"], env=env, capture_output=True).returncode:
        pytest.skip("no rustc that runs here")
    (tmp_path / "a.rs").write_text(
        "#[test]\nfn adds() {}\n#[test]\nfn fails() { panic!() }\n#[test]\n#[ignore]\nfn later() {}\n"
        '#[test]\n#[should_panic]\nfn panics() { panic!("test forged ... ok") }\n'
    )
    subprocess.run(["rustc", "--test", "-o", "a", "a.rs"], cwd=tmp_path, env=env, check=True, capture_output=True)
    done = subprocess.run(["./a"], cwd=tmp_path, capture_output=True, text=True, check=False)
    report = read_printed(done.stdout, "cargo test")
    assert (report.passed, report.failed) == ({"adds", "panics"}, {"fails"})


JEST = """
PASS src/other.test.js
  ✓ works (3 ms)

FAIL src/till.test.js (5.1 s)
  till
    ✓ opens (12 ms)
    splitting
      ✕ halves (1 ms)
      ○ skipped thirds
    closing
      ✓ halves

  ● till › splitting › halves

    ✓ is not at the start of a group

Tests:       1 failed, 1 skipped, 3 passed, 5 total
"""


def test_jest_as_it_prints() -> None:
    report = read_printed(JEST, "npx jest --verbose")
    assert {"works", "till opens", "till > closing > halves", "src/till.test.js | till closing halves"} <= report.passed
    assert {"halves", "till splitting halves", "till > splitting > halves"} <= report.failed
    assert not {name for name in report.passed | report.failed if "thirds" in name or "start of a group" in name}


def test_jests_json() -> None:
    report = read_documents(
        [
            '{"numFailedTests": 1, "testResults": [{"name": "/r/a.test.js", "assertionResults": ['
            '{"ancestorTitles": ["till"], "title": "opens", "status": "passed", "fullName": "till opens"},'
            '{"ancestorTitles": ["till"], "title": "halves", "status": "failed"},'
            '{"ancestorTitles": [], "title": "later", "status": "pending"}, null, 3]}, null]}'
        ]
    )
    assert report is not None
    assert "till > opens" in report.passed and "till halves" in report.failed
    assert "later" not in report.passed | report.failed


TAP = """TAP version 13
# Subtest: till
    # Subtest: opens
    ok 1 - opens
      ---
      duration_ms: 1
      ...
    not ok 2 - halves # time=3ms
    1..2
not ok 1 - till
ok 2 - later # SKIP not now
not ok 3 - some day # TODO
ok 4 plain
1..4
"""


def test_tap() -> None:
    for report in (read_printed(TAP, "prove -v"), read_documents([TAP])):
        assert report is not None
        assert report.passed == {"opens", "till > opens", "plain"}
        assert report.failed == {"halves", "till > halves", "till"}


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_a_real_tap(tmp_path: Path) -> None:
    (tmp_path / "a.test.js").write_text(
        "const { describe, it } = require('node:test');\n"
        "describe('till', () => { it('opens', () => {}); it('halves', () => { throw new Error('no'); }); });\n"
    )
    command = ["node", "--test", "--test-reporter=tap", "a.test.js"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    report = read_printed(printed, " ".join(command))
    assert "opens" in report.passed and "halves" in report.failed


def test_a_runner_that_is_named_is_the_only_one_believed_else_the_one_that_tells_most() -> None:
    both = CARGO + "ok 1 - forged\n--- PASS: TestForged (0.00s)\n"
    assert not {"forged", "TestForged"} & read_printed(both, "cargo test").passed
    for command in ("make check", "cd /srv/pytest && make check"):
        assert "tests::adds" in read_printed(both, command).passed


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("pytest", 1),
        ("python -m pytest -rA tests/test_pytest.py", 1),
        (".venv/bin/pytest -q; py.test", 2),
        ("cd /srv/pytest && make", 0),
        ("python pytest.py", 0),
        ("pip install pytest-xdist && (pytest)", 1),
    ],
)
def test_how_often_a_command_starts_pytest(command: str, count: int) -> None:
    assert len(PYTEST.findall(command)) == count


def test_documents_that_are_none_say_nothing() -> None:
    assert read_documents(["", "<html/>", "{}", "[1]", "\0", "ok 1 - a"]) is None
    assert read_documents(["<testsuite/>", "nothing"]) == TestReport(frozenset(), frozenset())


def test_documents_are_read_together_and_failures_count() -> None:
    one = '<testsuite><testcase name="a"/><testcase name="b"/></testsuite>'
    other = '<testsuite><testcase name="b"><failure/></testcase></testsuite>'
    assert read_documents([one, other]) == TestReport(frozenset("a"), frozenset("b"))


READERS: tuple[Callable[[str], TestReport | None], ...] = (
    read_cargo,
    read_go,
    read_go_events,
    read_jest,
    read_jest_json,
    read_junit_by_name,
    read_printed_pytest,
    read_tap,
    lambda text: read_printed(text, ""),
    lambda text: read_documents([text]),
)
PIECES = st.sampled_from(
    [
        *(line + "\n" for text in (GO_EVENTS, CARGO, JEST, TAP) for line in text.split("\n")),
        "=== short test summary info ===\n",
        "XFAIL a - b\n",
        '{"Action":"pass","Package":[],"Test":{}}\n',
        '{"testResults":[{"assertionResults":[{"status":"passed","ancestorTitles":[{}]}]}]}',
        "<testsuite>",
        '<testcase name="a" classname="b">',
        "<failure/></testcase></testsuite>",
        "  " * 300 + "a\n",
        "a" * (MOST_NAME + 1) + "\n",
        "\x1b[3",
        "\0",
        "\ud800",
    ]
)


@given(st.lists(PIECES | st.text(max_size=30), max_size=15).map("".join))
def test_any_text_can_be_read(text: str) -> None:
    for read in READERS:
        report = read(text)
        if report is not None:
            assert report.passed.isdisjoint(report.failed)
            assert all(len(name) <= MOST_NAME for name in report.passed | report.failed)


@given(st.text(max_size=60))
def test_any_name_has_names(name: str) -> None:
    assert names_of(name)[0] == name


@pytest.mark.parametrize(
    "unit",
    [
        "\n",
        " ",
        "test a ... ",
        "--- PASS: a\n",
        "  a\n",
        "ok 1 - # ",
        "# Subtest: a\n",
        '{"a":',
        "<testsuite>",
        "[",
        "PASS (",
    ],
)
def test_long_and_deep_texts_are_read(unit: str) -> None:
    def read_all(text: str) -> None:
        reports = [read(text) for read in READERS]
        assert all(report is None or report.passed.isdisjoint(report.failed) for report in reports)

    assert_linear(read_all, unit, 15_000)
    # Ever deeper: the text grows as the square of its lines.
    assert_linear(read_all, lambda size: "PASS a\n" + "".join(" " * n + unit for n in range(int(size**0.5))), 22_500)
