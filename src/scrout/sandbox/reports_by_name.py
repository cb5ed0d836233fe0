"""The outcome of every test by name, from runners of several languages, for grading.

The best source is a document that the runner wrote: JUnit XML, the events of `go test -json`, Jest's JSON, TAP. Printed
output is the second choice, because code under test can print there too.

A reader never raises, takes linear time, and lists each test under every name it may have. If two tests share a name,
the failed one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from xml.etree import ElementTree

from scrout.sandbox.reports import TestReport, read_pytest, read_unittest

MOST_NAME = 2_000
"""Maximum length of a test's name, in characters."""
MOST_GROUPS = 50
"""Maximum nesting."""

PYTEST = re.compile(r"(?:^|[\s;&|(]|bin/)(?:pytest|py\.test)(?![\w/.-])")
"""A pytest that a command starts, not one in a path."""

Reader = Callable[[str], TestReport | None]
"""None: the reader recognizes nothing in the text."""
Ended = tuple[bool | None, tuple[str, ...]]
"""Whether a test passed (None: it was skipped), and its names."""

_NOTHING = TestReport(frozenset(), frozenset())
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_XFAIL = re.compile(r"^XFAIL (\S.*)$", re.MULTILINE)
_XFAILED = "pytest.xfail"
_SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
_GO_ENDED = re.compile(r"^[ \t]*+--- (PASS|FAIL): (\S+)", re.MULTILINE)
_JEST_FILE = re.compile(r"^(?:PASS|FAIL) +(\S.*?)(?: \([0-9.]{1,12} ?m?s\))?$")
_JEST_TIME = re.compile(r" \([0-9.]{1,12} ?m?s\)$")
_JEST_MARKS = {"✓": True, "√": True, "✕": False, "×": False}
_JEST_SKIPPED = ("○", "✎")
_TAP_POINT = re.compile(r"^( *)(not )?ok\b(?: ++[0-9]{1,9})?(?: ++- ++| ++|$)(.*)$")
_TAP_SUBTEST = re.compile(r"^( *)# Subtest: (.*)$")
_TAP_DIRECTIVE = re.compile(r"^(?:skip|todo)", re.IGNORECASE)
_UNITTEST_NAME = re.compile(r"^(\w+) \(([\w.]+)\)$")


def read_documents(documents: Iterable[str]) -> TestReport | None:
    """All documents joined; None: none of them is a report."""
    reports = [report for text in documents if (report := _read_document(text)) is not None]
    if not reports:
        return None
    passed, failed, skipped = (
        frozenset[str]().union(*(getattr(report, how) for report in reports)) for how in ("passed", "failed", "skipped")
    )
    return TestReport(passed - failed, failed, skipped - passed - failed)


def read_printed(output: str, command: str) -> TestReport:
    """Parse output with the reader of the command's runner; if that finds nothing, with the reader that finds most."""
    text = _ANSI.sub("", output).replace("\r\n", "\n")
    named = [reader for shape, reader in _PRINTERS if shape.search(command)]
    for readers in (named, [reader for _, reader in _PRINTERS]):
        reports = [report for reader in readers if (report := reader(text))]
        best = max(reports, key=lambda report: len(report.passed) + len(report.failed), default=_NOTHING)
        if best.passed or best.failed:
            return best
    return _NOTHING


def names_of(test: str) -> tuple[str, ...]:
    """The names that reports may use for a task's test: the name itself, JUnit's name for pytest's, unittest's dotted
    name.
    """
    if "::" in test:
        return (test, dotted(test))
    match = _UNITTEST_NAME.match(test)
    if match:
        name, case = match[1], match[2]
        return (test, case if case.endswith(f".{name}") else f"{case}.{name}")
    return (test,)


def dotted(node: str) -> str:
    """pytest's `a/b.py::C::d[e]` as class and name of its JUnit report, joined by a dot; other names unchanged."""
    address, bracket, parameters = node.partition("[")
    if "::" not in address:
        return node
    path, *names = address.split("::")
    return ".".join([path.replace("/", ".").removesuffix(".py"), *names]) + bracket + parameters


def read_junit_by_name(xml: str) -> TestReport | None:
    """Parse a JUnit file of any runner. An expected failure counts as passed, a skipped test as neither."""
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        return None  # no runner writes one, and entities can expand without limit
    try:
        root = ElementTree.fromstring(xml)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return None
    return _gathered(_junit_cases(root)) if root.tag in ("testsuites", "testsuite") else None


def _junit_cases(root: ElementTree.Element) -> Iterator[Ended]:
    for case in root.iter("testcase"):
        group, name = case.get("classname", ""), case.get("name", "")
        names = (f"{group}.{name}", f"{group}::{name}", name) if group else (name,)
        parts = {part.tag: part for part in case}
        if "failure" in parts or "error" in parts:
            yield False, names
        elif "skipped" not in parts or parts["skipped"].get("type") == _XFAILED:
            yield True, names
        else:
            yield None, names


def read_go_events(text: str) -> TestReport | None:
    """Parse `go test -json`, one JSON object per line; other lines are ignored."""
    ended: list[Ended] = []
    known = False
    for line in text.split("\n"):
        event = _json_object(line) if line.startswith("{") else None
        if event is None or not isinstance(event.get("Action"), str) or "Package" not in event:
            continue
        known = True
        test, package = event.get("Test"), event["Package"]
        if isinstance(test, str) and event["Action"] in ("pass", "fail"):
            ended.append((event["Action"] == "pass", (test, f"{package}.{test}")))
    return _gathered(ended) if known else None


def read_go(text: str) -> TestReport | None:
    """Parse events if there are any, otherwise the output of `go test -v`."""
    events = read_go_events(text)
    if events is not None:
        return events
    return _gathered((how == "PASS", (name,)) for how, name in _GO_ENDED.findall(text))


def read_cargo(text: str) -> TestReport | None:
    """Parse the lines `test NAME ... ok`; with --nocapture, the result may follow the test's own output."""
    return _gathered(_cargo_tests(text))


def _cargo_tests(text: str) -> Iterator[Ended]:
    open_test = ""
    for line in text.split("\n"):
        if line.startswith("test ") and " ... " in line:
            open_test, _, rest = line[5:].partition(" ... ")
            open_test = open_test.removesuffix(" - should panic")
            how = rest.rpartition(" ... ")[2]
        else:
            how = line
        word = how.split(" ", 1)[0].rstrip(",")
        if open_test and word in ("ok", "FAILED", "ignored"):
            if word != "ignored":
                yield word == "ok", (open_test,)
            open_test = ""


def read_jest(text: str) -> TestReport | None:
    """Parse the tree of `jest --verbose`: groups by indentation, one test per line."""
    return _gathered(_jest_tests(text))


def _jest_tests(text: str) -> Iterator[Ended]:
    file = ""
    groups: list[tuple[int, str]] = []
    for line in text.split("\n"):
        bare = line.strip()
        match = _JEST_FILE.match(line)
        if match:
            file, groups = match[1], []
        elif not bare:
            groups = []
        elif line.startswith("  ● "):
            file = ""  # skip the details of failures, up to the next file
        elif file and line.startswith("  "):
            depth = len(line) - len(line.lstrip())
            groups = _above(groups, depth)
            mark, _, title = bare.partition(" ")
            if mark in _JEST_MARKS and title:
                yield _JEST_MARKS[mark], _jest_names(file, [group[1] for group in groups], _JEST_TIME.sub("", title))
            elif mark not in _JEST_SKIPPED:
                groups.append((depth, bare))


def _jest_names(file: str, groups: list[str], title: str) -> tuple[str, ...]:
    full = " ".join([*groups, title])
    return (title, full, " > ".join([*groups, title]), f"{file} | {full}")


def read_jest_json(text: str) -> TestReport | None:
    """Parse the output of `jest --json --outputFile` or Vitest's JSON reporter."""
    document = _json_object(text)
    files = document.get("testResults") if document else None
    return _gathered(_jest_results(files)) if isinstance(files, list) else None


def _jest_results(files: list[object]) -> Iterator[Ended]:
    for file in files:
        tests = file.get("assertionResults") if isinstance(file, dict) else None
        for test in tests if isinstance(tests, list) else ():
            if not isinstance(test, dict) or test.get("status") not in ("passed", "failed"):
                continue
            groups = test.get("ancestorTitles")
            above = [str(group) for group in groups] if isinstance(groups, list) else []
            title = str(test.get("title", ""))
            names = _jest_names(str(file.get("name", "")) if isinstance(file, dict) else "", above, title)
            yield test["status"] == "passed", names


def read_tap(text: str) -> TestReport | None:
    """Parse TAP, with subtests by indentation. A skipped or todo point counts as neither."""
    return _gathered(_tap_points(text))


def _tap_points(text: str) -> Iterator[Ended]:
    above: list[tuple[int, str]] = []
    for line in text.split("\n"):
        subtest, point = _TAP_SUBTEST.match(line), _TAP_POINT.match(line)
        if subtest:
            above = [*_above(above, len(subtest[1])), (len(subtest[1]), subtest[2])]
        elif point:
            above = _above(above, len(point[1]))
            name, hash_sign, directive = point[3].rpartition(" # ")
            name = name.strip() if hash_sign else point[3].strip()
            if not _TAP_DIRECTIVE.match(directive if hash_sign else ""):
                yield not point[2], (name, " > ".join([*(group[1] for group in above), name]))


def _above(groups: list[tuple[int, str]], depth: int) -> list[tuple[int, str]]:
    """The enclosing groups of a line, each with its indentation."""
    return [group for group in groups if group[0] < depth][:MOST_GROUPS]


def read_printed_pytest(text: str) -> TestReport | None:
    """Parse the summary of -rA; an expected failure counts as passed, as in a JUnit report."""
    report = read_pytest(text)
    summary = _SUMMARY.split(text)[1:]
    expected = {name.split(" - ", 1)[0].strip() for name in _XFAIL.findall(summary[-1])} if summary else set()
    return TestReport(report.passed | (expected - report.failed), report.failed)


_PRINTERS: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (PYTEST, read_printed_pytest),
    (re.compile(r"\bgo test\b|\bgotestsum\b"), read_go),
    (re.compile(r"\bcargo\b"), read_cargo),
    (re.compile(r"\bunittest\b|\bmanage\.py test\b|\bruntests\.py\b"), read_unittest),
    (re.compile(r"\bjest\b"), read_jest),
    (re.compile(r"\btap\b|\bprove\b|\bbats\b|\bnode --test\b"), read_tap),
)


def _read_document(text: str) -> TestReport | None:
    for reader in (read_junit_by_name, read_jest_json, read_go_events):
        report = reader(text)
        if report is not None:
            return report
    return read_tap(text) if text.startswith("TAP version ") else None


def _gathered(tests: Iterable[Ended]) -> TestReport:
    ended: dict[bool | None, set[str]] = {True: set(), False: set(), None: set()}
    for is_passed, names in tests:
        ended[is_passed].update(name for name in names if 0 < len(name) <= MOST_NAME)
    passed = ended[True] - ended[False]
    return TestReport(frozenset(passed), frozenset(ended[False]), frozenset(ended[None] - passed - ended[False]))


def _json_object(text: str) -> dict[str, object] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
