"""Finds the reported test that a gold's name means, even if their names are relative to different folders.

A task names tests from one folder, and the runner may report them from another: pytest's are relative to its rootdir,
which depends on settings and arguments. A name is first looked for as it is. Otherwise, its file is searched in the
repository, and the report's base folder is the one under which most of the gold's files exist. A name that could mean
two tests counts as not passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.sandbox.reports import TestReport
from scrout.sandbox.reports_by_name import dotted, names_of


@dataclass(frozen=True)
class NamedTest:
    file: str = ""
    """From the repository's root; empty: unknown or ambiguous."""
    inner: str = ""
    """Its classes and its name, joined by dots."""
    rivals: tuple[str, ...] = ()
    """Files that the name may mean, if there are several."""

    @property
    def name(self) -> str:
        """JUnit's name for it from the repository's root; empty: its file is not known."""
        return f"{_module(self.file)}.{self.inner}" if self.file else ""


@dataclass(frozen=True)
class JudgedTests:
    passed: frozenset[str]
    ambiguous: tuple[str, ...]
    """Ambiguous tests, with their possible meanings."""


def places_of(tests: Sequence[str], files: Collection[str]) -> dict[str, NamedTest]:
    """Each test's place among the Python files of a repository."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(PurePosixPath(file).name, []).append(file)
    return {test: _place(test, by_name) for test in tests}


def judge_names(places: dict[str, NamedTest], report: TestReport, exists: Callable[[str], bool]) -> JudgedTests:
    """Find the tests that passed. `exists` tells whether the graded repository has a file."""
    roots = _roots({place.file for place in places.values() if place.file}, report, exists)
    passed: set[str] = set()
    ambiguous: list[str] = []
    ended = {dotted(name): name in report.passed for name in (*report.passed, *report.failed)}
    for test, place in places.items():
        names = names_of(test)
        if any(name in report.passed or name in report.failed for name in names):
            if not any(name in report.failed for name in names):
                passed.add(test)
        elif place.rivals:
            ambiguous.append(f"{test} ({' or '.join(place.rivals)})")
        elif place.name:
            found = {name for root in roots if (name := _from(place.name, root)) in ended}
            if found and len(roots) > 1:
                ambiguous.append(f"{test} (names are relative to {' or '.join(roots)})")
            elif found and all(ended[name] for name in found):
                passed.add(test)
    return JudgedTests(frozenset(passed), tuple(ambiguous))


def _place(test: str, by_name: dict[str, list[str]]) -> NamedTest:
    splits = list(_splits(test))
    for path, inner in splits:
        if path in by_name.get(PurePosixPath(path).name, ()):
            return NamedTest(path, inner)
    for path, inner in splits:
        alike = by_name.get(PurePosixPath(path).name, [])
        # Named from a folder of the repository, or else from one above it.
        found = [file for file in alike if file.endswith(f"/{path}")] or [
            file for file in alike if path.endswith(f"/{file}")
        ]
        if len(found) > 1:
            return NamedTest(rivals=tuple(sorted(found)))
        if found:
            return NamedTest(found[0], inner)
    return NamedTest()


def _splits(test: str) -> Iterator[tuple[str, str]]:
    """Files that a name may start with, each with the rest of the name, likeliest first."""
    if "::" in test:
        path, _, inner = test.partition("::")
        yield path, dotted(f"::{inner}").removeprefix(".")
        return
    address, bracket, parameters = names_of(test)[-1].partition("[")
    parts = address.split(".")
    if all(part.isidentifier() for part in parts):
        for end in range(len(parts) - 1, 0, -1):
            inner = ".".join(parts[end:]) + bracket + parameters
            yield str(PurePosixPath(*parts[:end]).with_suffix(".py")), inner


def _roots(files: Collection[str], report: TestReport, exists: Callable[[str], bool]) -> tuple[str, ...]:
    """Folders that the report's names may be relative to: one, or several candidates."""
    known: set[str] = set()
    for name in (*report.passed, *report.failed, *report.skipped):
        parts = dotted(name).partition("[")[0].split(".")
        known.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    hits: Counter[str] = Counter()
    for file in files:
        for folder in PurePosixPath(file).parents:
            rest = str(PurePosixPath(file).relative_to(folder))
            root = "" if str(folder) == "." else str(folder)
            # The test may be from a file of exactly this name at the repository's root.
            if _module(rest) in known and not (root and exists(rest)):
                hits[root] += 1
    most = max(hits.values(), default=0)
    best = tuple(sorted(root for root, count in hits.items() if count == most))
    return ("",) if "" in best or not best else best


def _from(name: str, root: str) -> str:
    return name.removeprefix(root.replace("/", ".") + ".") if root else name


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")
