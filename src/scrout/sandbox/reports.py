"""Parses the output of test runners and interpreters: passed and failed tests, and Python tracebacks.

Python's runners have functions of their own (read_pytest, read_unittest, read_tracebacks), other languages use
read_runner, which has one small reader for each. A reader trusts its input; the caller must judge whether code under
test could have printed it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree


@dataclass(frozen=True)
class TestReport:
    """Tests, by their runner's names."""

    __test__ = False  # tells pytest that this class is not a test

    passed: frozenset[str]
    failed: frozenset[str]
    """Failed tests and errors."""
    skipped: frozenset[str] = frozenset()
    """Neither passed nor failed, if the runner names them."""


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
# In the summary, a reason may follow a test's name after " - ", but a parameter may contain " - " too: a name with a
# bracket ends at the first closing bracket before a reason, other names at the first " - ".
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
    """Parse the output of `pytest -rA`."""
    passed: set[str] = set()
    failed: set[str] = set()
    # Above its summary, pytest repeats what tests printed, which may look like results.
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
    """Parse the output of `unittest -v`. A test's docstring and output may separate its result from its name."""
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
    # Python 3.11 and later repeat the test's name after its class.
    return case if case.endswith(f".{test}") else f"{case}.{test}"


def read_tracebacks(output: str) -> tuple[Traceback, ...]:
    """Every traceback in an output, in order, from Python, unittest or pytest."""
    return (*_python_tracebacks(output.splitlines()), *_pytest_tracebacks(output.splitlines()))


def _python_tracebacks(lines: list[str]) -> Iterator[Traceback]:
    frames: list[Frame] | None = None
    grouped = False
    for line in lines:
        bare = line.lstrip(" ")
        if bare.startswith("+ Exception Group Traceback (most recent call last)"):
            frames, grouped = [], True
            continue
        # An exception group draws a frame of bars around its exceptions.
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


Runner = Literal["cargo", "go", "node_test", "vitest", "jest", "maven", "gradle", "junit", "rspec", "phpunit", "node"]


@dataclass(frozen=True)
class ReportedFailure:
    """One failed test, or the error that ended a plain script."""

    test: str
    message: str
    frames: tuple[Frame, ...]
    """Outermost first, like in a Traceback; empty: the runner gives no location."""


@dataclass(frozen=True)
class RunnerReport:
    """The report of a runner of another language than Python."""

    runner: Runner
    passed: int
    """Those that the runner names; quiet runners name only failures."""
    failed: int
    failures: tuple[ReportedFailure, ...]
    complete: bool
    """Whether the closing summary was found and every failure in it was parsed."""
    build_failed: str = ""
    """The first file that did not compile, parse or load; empty: none."""


_MAX_MESSAGE = 500
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_JS_FRAME = re.compile(
    r"(?:^|[\s(])(?:file://)?((?:\.{0,2}/)?[\w@.+/-]{1,500}\.[cm]?[jt]sx?):([0-9]{1,9}):[0-9]{1,9}\)?", re.M
)
_GO_FRAME = re.compile(r"^[ \t]++(?:Error Trace:\s+)?([^\s:]{1,500}\.go):([0-9]{1,9})(?::| \+0x|$)", re.M)
_RUST_FRAME = re.compile(r"^[ \t]++at (?:\./)?(\S{1,500}\.rs):([0-9]{1,9}):[0-9]{1,9}$", re.M)
_RUST_PANIC = re.compile(
    r"panicked at (?:'(?P<old>[^\n]{0,2000})', )?(?:\./)?(?P<path>[^\s:]{1,500}\.rs):(?P<line>[0-9]{1,9}):[0-9]{1,9}"
    r"(?::\n(?P<said>(?:(?!stack backtrace:|note: )[^\n]++\n?)*))?"
)
_JVM_FRAME = re.compile(r"\bat (?:[\w.@-]*/)*([\w.$]{1,300})\(([\w$]{1,200}\.(?:java|kt|groovy|scala)):([0-9]{1,9})\)")
_JVM_PLACE = re.compile(r"\bat ([\w$]{1,200}\.(?:java|kt|groovy|scala)):([0-9]{1,9})$", re.M)
_RUBY_FRAME = re.compile(r"^[ \t]++# (?:\./)?([^\s:]{1,500}\.rb):([0-9]{1,9})", re.M)
_PHP_FRAME = re.compile(r"^(\S{1,500}\.php):([0-9]{1,9})$", re.M)


def read_runner(output: str) -> RunnerReport | None:
    """Parse the output of a runner of another language; None if no reader recognizes it."""
    text = _ANSI.sub("", output).replace("\r\n", "\n")
    return next((report for reader in _READERS if (report := reader(text))), None)


def read_junit(xml: str) -> RunnerReport | None:
    """Parse a JUnit report, which runners of many languages write; None if it is not one."""
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        return None  # no runner writes one, and entities can expand without limit
    try:
        root = ElementTree.fromstring(xml)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return None
    if root.tag not in ("testsuites", "testsuite"):
        return None
    failures = []
    passed = failed = 0
    for case in root.iter("testcase"):
        bad = next((part for part in case if part.tag in ("failure", "error")), None)
        if bad is None:
            passed += not any(part.tag == "skipped" for part in case)
            continue
        failed += 1
        body = bad.text or ""
        named = (case.get("file", ""), case.get("line", ""))
        own = (Frame(named[0], int(named[1]), ""),) if named[0] and named[1].isdecimal() and named[1].isascii() else ()
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        said = bad.get("message") or _head(body, _JVM_FRAME)
        kind = bad.get("type", "")
        failures.append(ReportedFailure(name, f"{kind}: {said}"[:_MAX_MESSAGE] if kind else said, _jvm(body) or own))
    return RunnerReport("junit", passed, failed, tuple(failures), complete=True)


def _frames(text: str, shape: re.Pattern[str]) -> tuple[Frame, ...]:
    """Frames of runners that print the innermost one first."""
    found = [Frame(match[1], int(match[2]), "") for match in shape.finditer(text)]
    return tuple(reversed(found))


def _jvm(text: str) -> tuple[Frame, ...]:
    """The folder comes from the class's qualified name; a frame names only the file."""
    found = []
    for match in _JVM_FRAME.finditer(text):
        folders = match[1].split(".")[:-2]
        found.append(Frame("/".join([*folders, match[2]]), int(match[3]), ""))
    return tuple(reversed(found)) or _frames(text, _JVM_PLACE)


def _head(text: str, frame: re.Pattern[str]) -> str:
    """The text before the first frame."""
    match = frame.search(text)
    before = text[: match.start()] if match else text
    # The words before a location on the same line are a function's name, unless the line has nothing else.
    said = before.rpartition("\n")[0] if match else before
    return (said.strip() or before.strip())[:_MAX_MESSAGE]


def _blocks(text: str, head: re.Pattern[str]) -> list[tuple[re.Match[str], str]]:
    """Each heading with the lines below it."""
    heads = list(head.finditer(text))
    ends = [following.start() for following in heads[1:]] + [len(text)]
    return [(match, text[match.end() : end]) for match, end in zip(heads, ends, strict=False)]


def _first(shape: re.Pattern[str], text: str) -> str:
    match = shape.search(text)
    return match[0].strip()[:_MAX_MESSAGE] if match else ""


def _count(word: str, line: str) -> int:
    match = re.search(rf"\b([0-9]{{1,9}}) {word}", line)
    return int(match[1]) if match else 0


def _report(
    runner: Runner, passed: int, failed: int, failures: list[ReportedFailure], build_failed: str, closed: bool
) -> RunnerReport:
    once = tuple(dict.fromkeys(failures))  # some runners repeat all failures at the end
    return RunnerReport(runner, passed, failed, once, closed and len(once) >= failed, build_failed)


_CARGO_RESULT = re.compile(r"^test result: (?:ok|FAILED)\. ([0-9]{1,9}) passed; ([0-9]{1,9}) failed;", re.M)
_CARGO_STARTS = re.compile(r"^running [0-9]{1,9} tests?$", re.M)
_CARGO_FAILED = re.compile(r"^---- (.+) stdout ----$|^failures:$", re.M)
_CARGO_BUILD = re.compile(r"^error: could not compile .*$", re.M)


def _cargo(text: str) -> RunnerReport | None:
    results = _CARGO_RESULT.findall(text)
    build_failed = _first(_CARGO_BUILD, text)
    if not (results or build_failed):
        return None
    failures = []
    for head, body in _blocks(text, _CARGO_FAILED):
        panic = _RUST_PANIC.search(body)
        if not head[1]:
            continue
        place = (Frame(panic["path"], int(panic["line"]), ""),) if panic else ()
        callers = tuple(frame for frame in _frames(body, _RUST_FRAME) if frame not in place)
        said = (panic["old"] or panic["said"] or "").strip() if panic else body.strip()
        failures.append(ReportedFailure(head[1], said[:_MAX_MESSAGE], callers + place))
    passed, failed = (sum(int(result[column]) for result in results) for column in (0, 1))
    closed = len(results) == len(_CARGO_STARTS.findall(text))
    return _report("cargo", passed, failed, failures, build_failed, closed)


_GO_TEST = re.compile(r"^(?:=== (?:RUN|CONT|NAME|PAUSE) +|[ \t]*+--- (PASS|FAIL|SKIP): )(\S+)", re.M)
_GO_END = re.compile(r"^(?:FAIL|ok)\t\S+.*$|^FAIL$", re.M)
_GO_BUILD = re.compile(r"^FAIL\t\S+ \[(?:build|setup) failed\]$", re.M)
_GO_STOPPED = re.compile(r"^panic: test timed out|^signal: ", re.M)


def _go(text: str) -> RunnerReport | None:
    text = _go_text(text)
    build_failed = _first(_GO_BUILD, text)
    parts: dict[str, list[str]] = {}
    ended: dict[str, str] = {}
    for head, body in _blocks(text, _GO_TEST):
        end = _GO_END.search(body)
        parts.setdefault(head[2], []).append(body[: end.start()] if end else body)
        if head[1]:
            ended[head[2]] = head[1]
    if not (ended or build_failed):
        return None
    failed = [name for name, how in ended.items() if how == "FAIL"]
    # A test with failed subtests failed because of them.
    ordered = sorted(failed)
    following = ((name, bisect_left(ordered, f"{name}/")) for name in failed)
    failed = [name for name, at in following if not any(s.startswith(f"{name}/") for s in ordered[at : at + 1])]
    said = {name: "".join(parts[name]) for name in failed}
    failures = [
        ReportedFailure(name, said[name].strip()[:_MAX_MESSAGE], _frames(said[name], _GO_FRAME)) for name in failed
    ]
    closed = bool(_GO_END.search(text)) and not _GO_STOPPED.search(text)
    return _report("go", list(ended.values()).count("PASS"), len(failed), failures, build_failed, closed)


def _go_text(text: str) -> str:
    """The output inside of `go test -json`, one event per line."""
    if not text.startswith('{"Time"') and '\n{"Time"' not in text:
        return text
    said = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and event.get("Action") in ("output", "build-output"):
            said.append(str(event.get("Output", "")))
    return "".join(said)


_TAP_FAILED = re.compile(r"^[ \t]*+(?:not ok|ok) [0-9]{1,9} - (.*)$|^# tests [0-9]{1,9}$", re.M)
_TAP_FIELD = re.compile(r"^[ \t]++(failureType|name): '?([^'\n]*)'?$", re.M)
_TAP_ERROR = re.compile(r"^[ \t]++error: (?:\|-\n)?", re.M)
_TAP_CODE = re.compile(r"^[ \t]++code: ", re.M)
_TAP_BUILD = re.compile(r"^# (?:SyntaxError: |Error(?: \[\w+\])?: Cannot find ).*$", re.M)
_SPEC_BUILD = re.compile(r"^(?:SyntaxError: |Error(?: \[\w+\])?: Cannot find ).*$", re.M)
_SPEC_FAILED = re.compile(r"^test at \S+:[0-9]{1,9}:[0-9]{1,9}\n✖ (.*?)(?: \([0-9.]+ms\))?$", re.M)
_NODE_COUNT = re.compile(r"^[#ℹ] (pass|fail|cancelled) ([0-9]{1,9})$", re.M)


def _node_test(text: str) -> RunnerReport | None:
    counts = {word: int(number) for word, number in _NODE_COUNT.findall(text)}
    if not {"pass", "fail"} <= counts.keys():
        return None
    failures = []
    tap = re.search(r"^TAP version ", text, re.M) is not None
    for head, body in _blocks(text, _TAP_FAILED) if tap else ():
        fields = dict(_TAP_FIELD.findall(body))
        if head[0].lstrip().startswith("not ok") and fields.get("failureType") != "subtestsFailed":
            error = _TAP_ERROR.search(body)
            code = _TAP_CODE.search(body, error.end()) if error else None
            message = body[error.end() : code.start()].strip() if error and code else ""
            said = f"{fields.get('name', 'Error')}: {message}"
            stack = body.partition("stack: |-")[2]
            failures.append(ReportedFailure(head[1], said[:_MAX_MESSAGE], _frames(stack, _JS_FRAME)))
    for head, body in [] if tap else _blocks(text, _SPEC_FAILED):
        failures.append(ReportedFailure(head[1], _head(body, _JS_FRAME), _frames(body, _JS_FRAME)))
    build_failed = _first(_TAP_BUILD if tap else _SPEC_BUILD, text).removeprefix("# ")
    # Suites that failed because of their tests are counted, but are not failures of their own in this list.
    return RunnerReport("node_test", counts["pass"], counts["fail"], tuple(failures), bool(failures), build_failed)


_JEST_TOTAL = re.compile(r"^Tests: ++(.*[0-9] total)$", re.M)
_JEST_FAILED = re.compile(r"^  ● (.*)$|^(?:FAIL|PASS) .*$|^Test Suites: .*$|^Summary of all failing tests$", re.M)
_JEST_LOAD = "Test suite failed to run"


def _jest(text: str) -> RunnerReport | None:
    total = _JEST_TOTAL.findall(text)
    if not total:
        return None
    failures = []
    build_failed = ""
    for head, body in _blocks(text, _JEST_FAILED):
        if head[1] and head[1].endswith(_JEST_LOAD):
            build_failed = build_failed or body.strip()[:_MAX_MESSAGE] or _JEST_LOAD
        elif head[1] and not head[1].endswith(":"):  # `● Validation Warning:`
            failures.append(ReportedFailure(head[1], _head(body, _JS_FRAME), _frames(body, _JS_FRAME)))
    return _report("jest", _count("passed", total[-1]), _count("failed", total[-1]), failures, build_failed, True)


_VITEST_TOTAL = re.compile(r"^ ++Tests ++(.*\([0-9]{1,9}\)|no tests)$", re.M)
_VITEST_FAILED = re.compile(r"^ FAIL +(.*)$|^⎯+.*$|^ Test Files .*$", re.M)


def _vitest(text: str) -> RunnerReport | None:
    total = _VITEST_TOTAL.findall(text)
    if not total:
        return None
    failures = []
    build_failed = ""
    for head, body in _blocks(text, _VITEST_FAILED):
        if head[1] and " > " in head[1]:
            failures.append(ReportedFailure(head[1], _head(body, _JS_FRAME), _frames(body, _JS_FRAME)))
        elif head[1]:  # a whole file: `FAIL  test/a.test.ts [ test/a.test.ts ]`
            build_failed = build_failed or body.strip()[:_MAX_MESSAGE] or head[1]
    return _report("vitest", _count("passed", total[-1]), _count("failed", total[-1]), failures, build_failed, True)


_MAVEN_TOTAL = re.compile(
    r"^\[\w+\] Tests run: ([0-9]{1,9}), Failures: ([0-9]{1,9}), Errors: ([0-9]{1,9}), Skipped: ([0-9]{1,9})$", re.M
)
_MAVEN_FAILED = re.compile(r"^\[ERROR\] ++(\S++) .*<<< (?:FAILURE|ERROR)!$|^\[\w+\].*$", re.M)
_MAVEN_BUILD = re.compile(r"^\[ERROR\] (?:COMPILATION ERROR|.*Compilation failure).*$", re.M)
_MAVEN_END = re.compile(r"^\[\w+\] BUILD FAILURE$", re.M)


def _maven(text: str) -> RunnerReport | None:
    totals = _MAVEN_TOTAL.findall(text)
    build_failed = _first(_MAVEN_BUILD, text)
    if not (totals or build_failed):
        return None
    failures = [
        ReportedFailure(head[1], _head(body, _JVM_FRAME), _jvm(body))
        for head, body in _blocks(text, _MAVEN_FAILED)
        if head[1] and body.strip()
    ]
    ran, failed, errors, skipped = map(int, totals[-1]) if totals else (0, 0, 0, 0)
    passed = ran - failed - errors - skipped
    return _report("maven", passed, failed + errors, failures, build_failed, bool(_MAVEN_END.search(text)))


_GRADLE_TOTAL = re.compile(r"^([0-9]{1,9}) tests? completed, ([0-9]{1,9}) failed", re.M)
_GRADLE_FAILED = re.compile(
    r"^(\S[^\n>]* > .*) FAILED$|^(?:> Task |FAILURE: |\S.* PASSED$|[0-9]+ tests? completed).*$", re.M
)
_GRADLE_BUILD = re.compile(r"^(?:Execution failed for task '\S*:compile\w*'|> Compilation (?:failed|error)).*$", re.M)
_GRADLE_END = re.compile(r"^BUILD FAILED", re.M)


def _gradle(text: str) -> RunnerReport | None:
    total = _GRADLE_TOTAL.search(text)
    build_failed = _first(_GRADLE_BUILD, text)
    if not (total or build_failed):
        return None
    failures = [
        ReportedFailure(head[1], _head(body, _JVM_PLACE if _JVM_PLACE.search(body) else _JVM_FRAME), _jvm(body))
        for head, body in _blocks(text, _GRADLE_FAILED)
        if head[1]
    ]
    ran, failed = (int(total[1]), int(total[2])) if total else (0, 0)
    return _report("gradle", ran - failed, failed, failures, build_failed, bool(_GRADLE_END.search(text)))


_RSPEC_TOTAL = re.compile(r"^([0-9]{1,9}) examples?, ([0-9]{1,9}) failures?(.*)$", re.M)
_RSPEC_FAILED = re.compile(r"^  [0-9]{1,9}\) (.*)$|^Finished in .*$|^Failed examples:$", re.M)
_RSPEC_LOAD = re.compile(r"^An error occurred while loading .*$", re.M)


def _rspec(text: str) -> RunnerReport | None:
    total = _RSPEC_TOTAL.search(text)
    if not total:
        return None
    failures = [
        ReportedFailure(head[1], _head(body, _RUBY_FRAME), _frames(body, _RUBY_FRAME))
        for head, body in _blocks(text, _RSPEC_FAILED)
        if head[1]
    ]
    outside = "outside of examples" in total[3]
    build_failed = (_first(_RSPEC_LOAD, text) or total[0]) if outside else ""
    ran, failed = int(total[1]), int(total[2])
    return _report("rspec", ran - failed, failed, failures, build_failed, True)


_PHPUNIT_TOTAL = re.compile(r"^Tests: ([0-9]{1,9}), Assertions: [0-9]{1,9}(.*)\.$", re.M)
_PHPUNIT_FAILED = re.compile(r"^[0-9]{1,9}\) (.*)$|^--$|^(?:FAILURES|ERRORS)!$|^There (?:was|were) .*:$", re.M)
_PHP_BUILD = re.compile(r"^(?:PHP )?(?:Parse error|Fatal error): .*$", re.M)
_PHPUNIT_BAD = re.compile(r"(Errors|Failures): ([0-9]{1,9})")


def _phpunit(text: str) -> RunnerReport | None:
    total = _PHPUNIT_TOTAL.search(text)
    build_failed = _first(_PHP_BUILD, text)
    if not (total or (build_failed and "PHPUnit" in text)):
        return None
    failures = [
        ReportedFailure(head[1], _head(body, _PHP_FRAME), _frames(body, _PHP_FRAME))
        for head, body in _blocks(text, _PHPUNIT_FAILED)
        if head[1]
    ]
    failed = sum(int(number) for _, number in _PHPUNIT_BAD.findall(total[2])) if total else 0
    ran = int(total[1]) if total else 0
    return _report("phpunit", ran - failed, failed, failures, build_failed, total is not None)


_NODE_END = re.compile(r"^Node\.js v[0-9]", re.M)
_NODE_CARET = re.compile(r"^[ \t]*+\^++$", re.M)
_NODE_LOADS = re.compile(
    r"Cannot find (?:module|package) |at (?:wrapSafe|ModuleLoader\.\w+Translator|compileSource\w+) \(node:"
)


def _node(text: str) -> RunnerReport | None:
    """An uncaught exception of a plain script: source line, caret, exception, stack, version."""
    if not _NODE_END.search(text):
        return None
    said = _NODE_CARET.split(text)[-1]
    message = said.strip().partition("\n    at ")[0][:_MAX_MESSAGE]
    build_failed = message if _NODE_LOADS.search(said) else ""
    return RunnerReport("node", 0, 1, (ReportedFailure("", message, _frames(said, _JS_FRAME)),), True, build_failed)


_READERS: tuple[Callable[[str], RunnerReport | None], ...] = (
    _cargo,
    _go,
    _node_test,
    _vitest,
    _jest,
    _maven,
    _gradle,
    _rspec,
    _phpunit,
    _node,
)
