"""What test runners and interpreters print, read in one place: tests that passed and failed, and Python tracebacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class TestReport:
    """Tests by the name their runner gives them."""

    __test__ = False  # not a test itself, whatever pytest thinks of the name

    passed: frozenset[str]
    failed: frozenset[str]
    """Failures and errors."""


@dataclass(frozen=True)
class Frame:
    """One line of a traceback."""

    path: str
    line: int
    function: str


@dataclass(frozen=True)
class Traceback:
    """An exception as Python prints it."""

    frames: tuple[Frame, ...]
    """Outermost first, as printed."""
    type: str
    """Without its module: `KeyError`, not `builtins.KeyError`."""
    message: str


_PYTEST_SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
# In the summary a reason may follow a test's name after " - ", which a parameter may hold as well: where the name has a
# bracket it ends at the first that closes before a reason, else before the first " - ".
_PYTEST = re.compile(r"^(PASSED|FAILED|ERROR|XPASS) (\S.*)$", re.MULTILINE)
_UNITTEST_TEST = re.compile(r"^(\w+) \(([\w.]+)\)")
_UNITTEST_FAILED = re.compile(r"^(?:FAIL|ERROR): ([\w.]+) \(([\w.]+)\)", re.MULTILINE)
_UNITTEST_OK = ("... ok", "... expected failure")
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line ([0-9]{1,9})(?:, in (.+))?$')
_RAISED = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (.*))?$")
_PYTEST_FRAME = re.compile(r"^([^\s:][^:\n]*\.py):([0-9]{1,9}): (?:in (\S+)|[A-Za-z_][\w.]*)?$")
_PYTEST_RAISED = re.compile(
    r"^E {3,40}(?:((?:[A-Za-z_][\w.]*)?(?:Error|Exception|Exit|Interrupt|Warning|Failed)\b)(?:: (.*))?|(assert\b.*))$"
)


def read_pytest(output: str) -> TestReport:
    """Of a run with -rA."""
    passed: set[str] = set()
    failed: set[str] = set()
    # Above its summary pytest repeats what tests printed, which may look like results.
    summary = _PYTEST_SUMMARY.split(output)[1:]
    for status, rest in _PYTEST.findall(summary[-1] if summary else ""):
        name = rest.strip()
        if status != "PASSED":
            name = name.split(" - ", 1)[0] if "[" not in name.split(" - ", 1)[0] else _to_bracket(name)
        (failed if status in ("FAILED", "ERROR") else passed).add(name)
    return TestReport(frozenset(passed - failed), frozenset(failed))


def _to_bracket(name: str) -> str:
    end = name.find("] - ")
    return name[: end + 1] if end >= 0 else name


def read_unittest(output: str) -> TestReport:
    """Of a run with -v. A test's result may stand lines below its name: its docstring and output come between."""
    failed = {_unittest_name(*found) for found in _UNITTEST_FAILED.findall(output)}
    passed = set()
    current = ""
    for line in output.splitlines():
        match = _UNITTEST_TEST.match(line)
        if match:
            current = _unittest_name(match[1], match[2])
        if current and (line.rstrip().endswith(_UNITTEST_OK) or line.strip() in ("ok", "expected failure")):
            passed.add(current)
            current = ""
    return TestReport(frozenset(passed - failed), frozenset(failed))


def _unittest_name(test: str, case: str) -> str:
    # Python 3.11 and later repeat the test's name behind its class.
    return case if case.endswith(f".{test}") else f"{case}.{test}"


def read_tracebacks(output: str) -> tuple[Traceback, ...]:
    """Every traceback in an output, in order, whether Python, unittest or pytest printed it."""
    return (*_python_tracebacks(output.splitlines()), *_pytest_tracebacks(output.splitlines()))


def _python_tracebacks(lines: list[str]) -> Iterator[Traceback]:
    frames: list[Frame] | None = None
    grouped = False
    for line in lines:
        bare = line.lstrip(" ")
        if bare.startswith("+ Exception Group Traceback (most recent call last)"):
            frames, grouped = [], True
            continue
        # An exception group draws a frame of bars around what it holds.
        grouped = grouped and bare.startswith(("|", "+"))
        if grouped:
            line = bare[1:].removeprefix(" ")
        if line.lstrip().startswith("Traceback (most recent call last)"):
            frames = []
            continue
        if frames is None:
            # A syntax error in the main script has a File line but no Traceback line.
            match = _FRAME.match(line)
            if match and match[3] is None:
                frames = [Frame(match[1], int(match[2]), "")]
            continue
        match = _FRAME.match(line)
        if match:
            frames.append(Frame(match[1], int(match[2]), match[3] or ""))
        elif line and not line.startswith((" ", "\t")):
            raised = _RAISED.match(line)
            if raised:
                yield Traceback(tuple(frames), raised[1].rpartition(".")[2], raised[2] or "")
            frames = None


def _pytest_tracebacks(lines: list[str]) -> Iterator[Traceback]:
    """pytest prints `path:line: in function` (short style) or `path:line: Type` (long style, after the E lines)."""
    frames: list[Frame] = []
    kind = message = ""
    for line in lines:
        raised = _PYTEST_RAISED.match(line)
        if raised and not kind:
            kind = (raised[1] or "AssertionError").rpartition(".")[2]
            message = raised[2] or raised[3] or ""
        match = _PYTEST_FRAME.match(line)
        if match:
            frames.append(Frame(match[1], int(match[2]), match[3] or ""))
        if line.startswith(("____", "====", "----")) and frames:
            if kind:
                yield Traceback(tuple(frames), kind, message)
            frames, kind, message = [], "", ""
        elif line.startswith(("____", "====")):
            kind = message = ""
    if frames and kind:
        yield Traceback(tuple(frames), kind, message)
