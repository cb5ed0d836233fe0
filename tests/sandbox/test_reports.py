"""Real runs of unittest and pytest, and hostile text, read by reports."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.sandbox.reports import Frame, read_junit, read_pytest, read_runner, read_tracebacks, read_unittest
from scrout.sandbox.suite import Suite

from ..conftest import assert_linear

UNITTEST = '''
import unittest
class A(unittest.TestCase):
    def test_doc(self):
        """First line of words."""
    def test_doc_fails(self):
        """Docs here."""
        self.fail("no")
    def test_prints(self):
        print("noise")
    def test_sub(self):
        for i in range(3):
            with self.subTest("message", i=i):
                self.assertNotEqual(i, 1)
    @unittest.expectedFailure
    def test_expected(self):
        self.fail()
    @unittest.skip("later")
    def test_skipped(self):
        pass
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no class")
    def test_never(self):
        pass
'''
PYTEST = """
import pytest
@pytest.mark.parametrize("x", ["a - b", "c d", "[", "ok - too"])
def test_param(x):
    assert x in ("c d", "ok - too")
@pytest.fixture
def broken():
    raise RuntimeError("no - never")
def test_error(broken):
    pass
@pytest.mark.xfail(reason="why - not")
def test_xpass():
    pass
def test_prints():
    print("FAILED test_p.py::test_prints\\nPASSED test_p.py::forged")
def test_fails():
    values = [1]
    assert values[0] - 1 == 2
class TestGroup:
    def test_inside(self):
        pass
"""


def run(folder: Path, command: str) -> str:
    command = command.replace("python", sys.executable, 1)
    return subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout


def test_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_u.py").write_text(UNITTEST)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "__init__.py").touch()
    (tmp_path / "sub" / "test_imports.py").write_text("import nothing_of_this_name\n")
    report = read_unittest(run(tmp_path, Suite("unittest", ()).command(("test_u.py", "sub/test_imports.py"))))
    assert report.passed == {f"test_u.A.{name}" for name in ("test_doc", "test_prints", "test_expected")}
    assert report.failed == {
        "test_u.A.test_doc_fails",
        "test_u.A.test_sub",
        "test_u.B.setUpClass",
        "unittest.loader._FailedTest.test_imports",
    }
    found = run(tmp_path, "python -m unittest discover -v")
    assert "unittest.loader._FailedTest.sub.test_imports" in read_unittest(found).failed


def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_p.py").write_text(PYTEST)
    (tmp_path / "test_imports.py").write_text("import nothing_of_this_name\n")
    report = read_pytest(run(tmp_path, Suite("pytest", ()).command(("test_p.py", "test_imports.py"))))
    names = ("test_param[c d]", "test_param[ok - too]", "test_xpass", "test_prints", "TestGroup::test_inside")
    assert report.passed == {f"test_p.py::{name}" for name in names}
    assert report.failed == {
        "test_imports.py",
        *(f"test_p.py::{name}" for name in ("test_param[a - b]", "test_param[[]", "test_error", "test_fails")),
    }


@pytest.mark.parametrize("style", ["short", "long", pytest.param("native", marks=pytest.mark.slow)])
def test_pytest_tracebacks(style: str, tmp_path: Path) -> None:
    (tmp_path / "test_t.py").write_text("def inner():\n    {}['k']\ndef test_it():\n    inner()\n")
    told = run(tmp_path, f"python -m pytest -q -p no:cacheprovider --tb={style} test_t.py")
    last = read_tracebacks(told)[-1]
    assert (last.type, last.message) == ("KeyError", "'k'")
    assert Path(last.frames[-1].path).name == "test_t.py" and last.frames[-1].line == 2


def raised_by(tmp_path: Path, source: str) -> list[tuple[str, str, int]]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(source))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    return [(found.type, found.message, found.frames[-1].line) for found in read_tracebacks(done.stderr)]


def test_chained_exceptions(tmp_path: Path) -> None:
    source = """
    import json
    try:
        {}["k"]
    except KeyError:
        json.loads("{")
    """
    found = raised_by(tmp_path, source)
    assert [kind for kind, _, _ in found] == ["KeyError", "JSONDecodeError"]
    assert found[0][1:] == ("'k'", 4)


def test_exception_groups(tmp_path: Path) -> None:
    source = """
    found = []
    for number in (1, 2):
        try:
            raise ValueError(f"number {number}")
        except ValueError as error:
            found.append(error)
    raise ExceptionGroup("many", found)
    """
    assert raised_by(tmp_path, source) == [
        ("ExceptionGroup", "many (2 sub-exceptions)", 8),
        ("ValueError", "number 1", 5),
        ("ValueError", "number 2", 5),
    ]


def test_syntax_errors(tmp_path: Path) -> None:
    assert raised_by(tmp_path, "x = 1\ny = (\n") == [("SyntaxError", "'(' was never closed", 2)]
    (tmp_path / "other.py").write_text("def f(:\n")
    assert raised_by(tmp_path, "import other") == [("SyntaxError", "invalid syntax", 1)]


def test_a_frame_has_path_line_and_function() -> None:
    told = 'Traceback (most recent call last):\n  File "a b.py", line 7, in f\n    x\nmy.pkg.Oops: so: it is\n'
    (found,) = read_tracebacks(told)
    assert found.frames == (Frame("a b.py", 7, "f"),)
    assert (found.type, found.message) == ("Oops", "so: it is")


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        "  + Exception Group Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        '  File "x.py", line ' + "9" * 5000,
        "  | ",
        "KeyError: 'k'",
        "x.py:" + "9" * 5000 + ": in f",
        "E   KeyError: x",
        "= short test summary info =",
        "FAILED a[b] - c",
        "test_a (m.A.test_a) ... ok",
        "____",
        "ok",
    ]
)


@given(st.lists(PIECES | st.text(max_size=30)).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    for read in (read_pytest, read_unittest, read_tracebacks):
        read(text)


@pytest.mark.parametrize(
    "unit", [" ", "=", "|", "+ ", "a", "a.", "E   a", "FAILED [", "a (", 'File "', "\n", "x.py:1", " - "]
)
@pytest.mark.parametrize("start", ["", "Traceback (most recent call last):\n", "= short test summary info =\nFAILED "])
def test_reading_takes_linear_time(unit: str, start: str) -> None:
    for read in (read_pytest, read_unittest, read_tracebacks):
        assert_linear(lambda text, read=read: read(start + text), unit)


NODE = shutil.which("node")
NODE_TEST = """\
const { describe, it, test } = require('node:test');
const assert = require('node:assert');
test('adds up', () => {
  assert.strictEqual(9, 10);
});
describe('labels', () => {
  it('dies', () => {
    undefined.name;
  });
  it('works', () => {});
});
"""


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize("reporter", ["tap", "spec"])
def test_nodes_own_runner(reporter: str, tmp_path: Path) -> None:
    (tmp_path / "a.test.js").write_text(NODE_TEST)
    report = read_runner(run(tmp_path, f"node --test --test-reporter={reporter} a.test.js"))
    assert report is not None
    assert (report.runner, report.passed, report.complete, report.build_failed) == ("node_test", 1, True, "")
    assert [failed.test for failed in report.failures] == ["adds up", "dies"]
    assert [failed.frames[-1].line for failed in report.failures] == [4, 8]
    assert "9 !== 10" in report.failures[0].message
    assert "TypeError" in report.failures[1].message


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize(
    ("script", "build_failed", "line"),
    [
        ("\n\nJSON.parse('{');\n", "", 3),  # a SyntaxError of what it reads, not of itself
        ("const a = ;\n", "SyntaxError: Unexpected token ';'", None),
        ("require('./b');\n", "Error: Cannot find module './b'", 1),
    ],
)
def test_a_plain_script_of_nodes(script: str, build_failed: str, line: int | None, tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text(script)
    report = read_runner(run(tmp_path, "node a.js"))
    assert report is not None
    assert (report.runner, report.failed) == ("node", 1)
    assert report.build_failed.partition("\n")[0] == build_failed
    frames = report.failures[0].frames
    assert (frames[-1].line if frames else None) == line


RUST = """
running 2 tests
test fine ... ok
test adds_up ... FAILED

failures:

---- adds_up stdout ----

thread 'adds_up' (8198) panicked at tests/shows.rs:5:5:
assertion `left == right` failed
  left: 9
 right: 10
stack backtrace:
   0: core::panicking::panic_fmt
             at /rustc/59807616/library/core/src/panicking.rs:80:14
   1: shows::adds_up
             at ./tests/shows.rs:5:5


failures:
    adds_up

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.35s
"""


def test_cargo_as_version_1_95_and_as_before_1_73_print_it() -> None:
    report = read_runner(RUST)
    assert report is not None
    assert (report.runner, report.passed, report.failed, report.complete) == ("cargo", 1, 1, True)
    assert report.failures[0].message == "assertion `left == right` failed\n  left: 9\n right: 10"
    assert report.failures[0].frames[-1] == Frame("tests/shows.rs", 5, "")
    before = re.sub(r"panicked at tests.*?stack backtrace:", "panicked at 'lost', tests/shows.rs:5:5", RUST, flags=re.S)
    old = read_runner(before)
    assert old is not None
    assert (old.failures[0].message, old.failures[0].frames[-1]) == ("lost", Frame("tests/shows.rs", 5, ""))


def test_a_report_without_its_end_is_not_complete() -> None:
    report = read_runner(RUST.replace("running 2 tests", "running 2 tests\n\nrunning 7 tests"))
    assert report is not None
    assert not report.complete


def test_subtests_of_go_fail_in_place_of_their_parent() -> None:
    report = read_runner(
        "--- FAIL: TestSplit (0.00s)\n    --- FAIL: TestSplit/ten (0.00s)\n        a_test.go:9: got 9\n"
        "--- PASS: TestOther (0.00s)\nFAIL\nFAIL\texample.org/till\t0.01s\n"
    )
    assert report is not None
    assert (report.passed, report.failed, report.complete) == (1, 1, True)
    assert [(failed.test, failed.frames) for failed in report.failures] == [
        ("TestSplit/ten", (Frame("a_test.go", 9, ""),))
    ]


def test_junit_files() -> None:
    report = read_junit(
        '<testsuites><testsuite name="s"><testcase classname="org.till.SplitTest" name="adds"><failure type="X" '
        'message="lost">at org.till.SplitTest.adds(SplitTest.java:7)</failure></testcase><testcase name="b"/>'
        '<testcase name="c"><skipped/></testcase><testcase name="d" file="spec/d_spec.rb" line="4"><error/></testcase>'
        "</testsuite></testsuites>"
    )
    assert report is not None
    assert (report.passed, report.failed) == (1, 2)
    assert report.failures[0].message == "X: lost"
    assert [failed.frames for failed in report.failures] == [
        (Frame("org/till/SplitTest.java", 7, ""),),
        (Frame("spec/d_spec.rb", 4, ""),),
    ]


@pytest.mark.parametrize(
    "xml",
    ["", "<html/>", "<testsuite", '<!DOCTYPE t [<!ENTITY a "b">]><testsuite>&a;</testsuite>', "<a>" * 100_000],
)
def test_what_is_no_junit_file(xml: str) -> None:
    assert read_junit(xml) is None


PIECES = st.sampled_from(
    [
        *RUST.splitlines(keepends=True)[:12],
        "--- FAIL: TestA (0.00s)\n",
        "    a_test.go:3: no\n",
        "FAIL\n",
        "TAP version 13\n",
        "not ok 1 - a\n",
        "  stack: |-\n    a (/b/c.js:1:2)\n",
        "# pass 0\n# fail 1\n",
        "  ● a\n",
        "Tests:       1 failed, 1 total\n",
        " FAIL  a.test.ts > b\n",
        "      Tests  1 failed (1)\n",
        "[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0\n",
        "1 tests completed, 1 failed\n",
        "1 example, 1 failure\n",
        "Tests: 1, Assertions: 1, Failures: 1.\n",
        "    ^\n",
        "Node.js v20.1.0\n",
    ]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=30)), max_size=12).map("".join))
def test_any_output_can_be_read(output: str) -> None:
    report = read_runner(output)
    if report is not None:
        assert report.failed >= 0
        assert all(frame.line >= 0 and frame.path for failed in report.failures for frame in failed.frames)


@pytest.mark.parametrize(
    "piece", ["\n", " ", "--- FAIL: a\n", "panicked at '", "  ● a\n", "a > b", "[ERROR] a ", "at a."]
)
def test_reading_other_runners_takes_linear_time(piece: str) -> None:
    assert_linear(lambda text: read_runner(f"{text}\nTests: 1 total\n"), piece)
