"""Tests that a patch takes away or makes easier to pass, told from a test file's text before and after.

Python is parsed; of other languages lines are matched. It cannot see a test that was made weaker by other means: a
changed fixture, a mocked module, a helper that no longer looks. What the original tests say of the patch is for
regression.py to find out.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from scrout.check.patch import FileChange
from scrout.index.files import role
from scrout.sandbox.suite import is_test_file
from scrout.syntax import parse_python

_SETTINGS = "conftest.py"
_WHOLE = ""
"""The scope of what stands outside every test and class."""


@dataclass(frozen=True)
class _Tests:
    """What a file tests, by the name of a test or class."""

    names: frozenset[str] = frozenset()
    bodies: dict[str, Counter[str]] = field(default_factory=dict)
    """A test as one piece, a module or class as its statements; empty: lines cannot tell where a test ends."""
    assertions: dict[str, Counter[str]] = field(default_factory=dict)
    skips: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class ComparedTests:
    """A change, and the tests that its file holds before and after it."""

    change: FileChange
    before: _Tests | None
    after: _Tests | None
    """None: no code that may hold tests, or it was not read."""

    @property
    def names_before(self) -> frozenset[str]:
        return self.before.names if self.before else frozenset()

    @property
    def rewrites(self) -> bool:
        """Whether lines are gone from a test file that stays."""
        old, new = self.change.old, self.change.new
        stays = old is not None and new is not None and _is_test_code(old)
        return stays and any(line.strip() for line in self.change.removed)

    def at(self, name: str) -> str:
        return f"{self.change.path}::{name}" if name else self.change.path

    def common(self) -> list[str]:
        """What was read on both sides, by name."""
        both = self.before.assertions.keys() & self.after.assertions.keys() if self.before and self.after else ()
        return sorted(both)

    def asserted(self, name: str) -> Literal["same", "less", "other"]:
        """How what a test asserts compares with what it asserted before."""
        assert self.before is not None and self.after is not None
        before, after = self.before.assertions[name], self.after.assertions[name]
        if before <= after:
            return "same"
        return "less" if after.total() < before.total() else "other"

    def differs(self, name: str) -> bool:
        """Whether a test is not as it was, though it asserts the same and is skipped no more than before."""
        assert self.before is not None and self.after is not None
        if self.asserted(name) != "same" or self.after.skips[name] > self.before.skips[name]:
            return False
        if self.before.bodies:
            return not self.before.bodies[name] <= self.after.bodies[name]
        return self.rewrites and self.before.names <= self.after.names


@dataclass(frozen=True)
class _Language:
    suffixes: tuple[str, ...]
    test: re.Pattern[str]
    """The last group that took part is the test's name."""
    skip: re.Pattern[str]
    assertion: re.Pattern[str]


_LANGUAGES = (
    _Language(
        (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue"),
        re.compile(
            r"""\b[xf]?(?:it|test|describe|context|specify|suite)(?:\.\w{1,20}){0,3}\(\s{0,20}"""
            r"""(?:"([^"\n]{1,300})"|'([^'\n]{1,300})'|`([^`\n]{1,300})`)"""
        ),
        re.compile(
            r"\b(?:it|test|describe|context|specify|suite)\.(?:skip|only|todo|fixme|fails?)\b"
            r"|\b[xf](?:it|describe|context|specify)\s?\(|\bxtest\s?\(|\bthis\.skip\("
        ),
        re.compile(r"\bexpect\w*\s?\(|\bassert\b|\bshould\b|\bt\.(?:is|not|deepEqual|true|false|throws)\("),
    ),
    _Language(
        (".go",),
        re.compile(r"^func ((?:Test|Fuzz|Example)\w{0,200})\(", re.MULTILINE),
        re.compile(r"\b[tbf]\.Skip(?:f|Now)?\(|^//(?:go:build| \+build) ", re.MULTILINE),
        re.compile(r"\b[tbf]\.(?:Errorf?|Fatalf?|Fail|FailNow)\(|\b(?:assert|require)\.\w+\("),
    ),
    _Language(
        (".java", ".kt", ".groovy", ".scala"),
        re.compile(
            r"@\w{0,40}Test\b(?:\([^()]{0,200}\))?[^{};]{0,300}?\b(?:void|fun)\s{1,20}(\w{1,200}|`[^`\n]{1,200}`)"
        ),
        re.compile(r"@(?:Ignore|Disabled)\w{0,40}|\bassume(?:True|False|That)\s?\("),
        re.compile(r"\bassert\w{0,60}\s?\(|\bverify\w{0,40}\s?\(|\bexpect\w{0,40}\s?\(|\bshould\w{0,40}\b|\bfail\("),
    ),
    _Language(
        (".rs",),
        re.compile(
            r"#\[(?:\w{1,40}::)?test\b[^\]\n]{0,200}\](?:\s{0,200}#\[[^\]\n]{0,200}\]){0,8}\s{0,200}"
            r"(?:pub\s{1,20})?(?:async\s{1,20})?fn\s{1,20}(\w{1,200})"
        ),
        re.compile(r"#\[ignore\b|#\[cfg_attr\([^\]\n]{0,200}\bignore\b|#\[cfg\((?:any\(\)|FALSE)\)\]"),
        re.compile(r"\b(?:debug_)?assert\w{0,40}!|\bpanic!|\bshould_panic\b"),
    ),
    _Language(
        (".rb",),
        re.compile(
            r"""\b[xf]?(?:it|specify|describe|context|test)[ (]\s{0,20}(?:"([^"\n]{1,300})"|'([^'\n]{1,300})')"""
            r"""|\bdef (test_\w{1,200})"""
        ),
        re.compile(r"^\s{0,80}(?:skip|pending)\b|\b[xf](?:it|describe|context|specify)\b", re.MULTILINE),
        re.compile(r"\b(?:assert|refute)\w{0,40}\b|\bexpect\b|\bshould\b"),
    ),
    _Language(
        (".php",),
        re.compile(r"\bfunction (test\w{0,200})\s?\("),
        re.compile(r"\bmarkTest(?:Skipped|Incomplete)\b"),
        re.compile(r"\bassert\w{1,60}\s?\(|\bexpect\w{0,40}\s?\("),
    ),
)
_COMMENT = ("//", "/*", "*", "# ")
_GO_TAG = ("//go:build ", "// +build ")

_SKIPS = frozenset(
    ("skipif", "xfail", "skipIf", "skipUnless", "skipTest", "SkipTest", "expectedFailure", "importorskip")
)
_SKIP_OWNERS = frozenset(("mark", "pytest", "unittest"))
_SKIP_NAMES = _SKIPS | {"skip", "__test__", "collect_ignore", "collect_ignore_glob"}
_CHECKS = frozenset(("raises", "warns", "fail", "deprecated_call"))
_APART = (ast.ClassDef, ast.Import, ast.ImportFrom)
_HOLDERS = (ast.If, ast.Try, ast.ExceptHandler, ast.With)


def is_test(path: str | None) -> bool:
    """Whether a path is for tests, in any language: tests themselves, or what they stand on."""
    return path is not None and (is_test_file(path) or role(path) == "test")


def compare(changes: Sequence[FileChange]) -> tuple[ComparedTests, ...]:
    """Read the tests of every changed file; the changes come with their texts."""
    return tuple(
        ComparedTests(change, _read_text(change.old, change.before), _read_text(change.new, change.after))
        for change in changes
    )


def deleted_files(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Test files that are gone, or have a name under which no runner looks for tests."""
    for change in (one.change for one in compared):
        if change.old is None or not _is_test_code(change.old):
            continue
        if not is_test(change.new) or (is_test_file(change.old) and not is_test_file(change.path)):
            yield change.old


def lost_tests(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Tests that are in no file of the patch any more, or under another name."""
    gained = {name for one in compared if one.after for name in one.after.names - one.names_before}
    for one in compared:
        if one.after:
            yield from (one.at(name) for name in sorted(one.names_before - one.after.names - gained))


def removed_assertions(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Tests that assert less often than before."""
    yield from (one.at(name) for one in compared for name in one.common() if one.asserted(name) == "less")


def changed_expectations(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Tests that assert as often, but not the same: other values, tolerances, exceptions, cases."""
    yield from (one.at(name) for one in compared for name in one.common() if one.asserted(name) == "other")


def changed_tests(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Tests that say the same, but not after the same steps; and files that could not be compared."""
    for one in compared:
        yield from (one.at(name) for name in one.common() if one.differs(name))
        if one.rewrites and not (one.before and one.after):
            yield one.change.path


def new_skips(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Tests, classes and files that were run, and now are skipped or may fail."""
    for one in compared:
        if one.before and one.after:
            more = one.after.skips - one.before.skips
            yield from (one.at(name) for name in sorted(more) if name in one.before.skips)


def changed_supports(compared: Sequence[ComparedTests]) -> Iterator[str]:
    """Files that are no tests themselves, but that tests stand on: data, snapshots."""
    for old in (one.change.old for one in compared):
        if old is not None and is_test(old) and not _is_test_code(old) and not old.endswith(_SETTINGS):
            yield old


def parses(text: str) -> bool:
    """Whether a text is Python."""
    return _parsed(text) is not None


def _is_test_code(path: str) -> bool:
    """Whether a path for tests is code, which holds the tests themselves."""
    return is_test(path) and not path.endswith(_SETTINGS) and (path.endswith(".py") or _language(path) is not None)


def _may_hold_tests(path: str) -> bool:
    # Rust has its tests in the files that they test.
    return _is_test_code(path) or path.endswith(".rs")


def _read_text(path: str | None, text: str | None) -> _Tests | None:
    """None: it holds no tests, or cannot be read."""
    if path is None or text is None or not _may_hold_tests(path):
        return None
    if path.endswith(".py"):
        return _read_python(text)
    language = _language(path)
    return _read_lines(text, language, asserts=is_test(path)) if language else None


def _language(path: str) -> _Language | None:
    return next((language for language in _LANGUAGES if path.endswith(language.suffixes)), None)


def _read_lines(text: str, language: _Language, *, asserts: bool) -> _Tests:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if not line.startswith(_COMMENT) or line.startswith(_GO_TAG)]
    code = "\n".join(lines)
    names = frozenset(match[match.lastindex or 0] for match in language.test.finditer(code))
    assertions = Counter(line for line in lines if language.assertion.search(line)) if asserts else Counter[str]()
    skips = sum(1 for _ in language.skip.finditer(code))
    return _Tests(names=names, assertions={_WHOLE: assertions}, skips=Counter({_WHOLE: skips}))


def _parsed(text: str) -> ast.Module | None:
    try:
        return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _read_python(text: str) -> _Tests | None:
    tree = _parsed(text)
    if tree is None:
        return None
    try:
        return _python_tests(tree)
    except RecursionError:
        return None  # an expression of thousands of terms is no test that somebody wrote


def _python_tests(tree: ast.Module) -> _Tests:
    functions = list(_functions(tree, ""))
    found = _Tests(names=frozenset(name for name, _, _ in functions))
    for name, test, held in functions:
        # Of two with one name the later is the one that runs.
        found.bodies[name] = Counter((held + ast.dump(test),))
        found.assertions[name] = Counter(_assertions(test))
        found.skips[name] = sum(1 for node in ast.walk(test) if _is_skip(node))
    for scope, nodes in _around(tree, _WHOLE):
        found.skips[scope] += sum(1 for node in nodes for part in ast.walk(node) if _is_skip(part))
        found.assertions[scope] = Counter()
        found.bodies[scope] = Counter(map(ast.dump, nodes))
    return found


def _functions(node: ast.AST, prefix: str, held: str = "") -> Iterator[tuple[str, ast.AST, str]]:
    """The tests in a module or class: their qualified names, and what has to hold for them to be defined."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if child.name.startswith("test"):
                yield prefix + child.name, child, held
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.", held)
        elif isinstance(child, _HOLDERS):
            condition = ast.dump(child.test) if isinstance(child, ast.If) else type(child).__name__
            yield from _functions(child, prefix, f"{held}{condition} ")


def _around(scope: ast.Module | ast.ClassDef, name: str) -> Iterator[tuple[str, list[ast.AST]]]:
    """A module and its classes, each with what in it is neither a test nor a class nor an import."""
    children = list(ast.iter_child_nodes(scope))
    classes = [child for child in children if isinstance(child, ast.ClassDef)]
    left_out = {id(test) for _, test, _ in _functions(scope, "")}
    yield name, [child for child in children if id(child) not in left_out and not isinstance(child, _APART)]
    for child in classes:
        yield from _around(child, f"{name}.{child.name}".lstrip("."))


def _assertions(test: ast.AST) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            yield ast.dump(node.test)
        elif isinstance(node, ast.Call):
            name = _last_name(node.func)
            if name.lower().startswith("assert") or name in _CHECKS:
                yield ast.dump(node)
    # What a parametrized test expects stands above it.
    for decorator in getattr(test, "decorator_list", ()):
        if any(isinstance(node, ast.Attribute) and node.attr == "parametrize" for node in ast.walk(decorator)):
            yield ast.dump(decorator)


def _is_skip(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _SKIPS or (node.attr == "skip" and _last_name(node.value) in _SKIP_OWNERS)
    return isinstance(node, ast.Name) and node.id in _SKIP_NAMES


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
