"""Real runs of unittest and pytest, and hostile text, read by reports."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.sandbox.reports import Frame, read_pytest, read_tracebacks, read_unittest
from scrout.sandbox.suite import Suite

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
    command = command.replace("python", sys.executable, 1).replace("-q", "-q -p no:asyncio -p no:hypothesispytest", 1)
    return subprocess.run(
        command.split(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
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


def test_pytest_tracebacks(tmp_path: Path) -> None:
    (tmp_path / "test_t.py").write_text("def inner():\n    {}['k']\ndef test_it():\n    inner()\n")
    for style in ("short", "long", "native"):
        told = run(tmp_path, f"python -m pytest -q -p no:cacheprovider --tb={style} test_t.py")
        last = read_tracebacks(told)[-1]
        assert (last.type, last.message) == ("KeyError", "'k'"), style
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
    text = start + unit * (400_000 // len(unit))
    began = time.monotonic()
    for read in (read_pytest, read_unittest, read_tracebacks):
        read(text)
    assert time.monotonic() - began < 4
