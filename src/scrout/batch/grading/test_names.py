"""Which reported test a gold's name means, whatever folder the names of either are relative to.

A task names tests from one folder, and the runner may report them from another: pytest's are relative to its rootdir,
which depends on settings and arguments. A name is first looked for as it is. Else its file is looked for in the
repository, and the folder that the report starts from is the one under which most files of the gold are found. A name
that could mean two tests has not passed.
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
    """From the repository's root; empty: the name does not tell it, or tells several."""
    inner: str = ""
    """Its classes and its name, with dots between them."""
    rivals: tuple[str, ...] = ()
    """Files that the name may mean, where there are several."""

    @property
    def name(self) -> str:
        """As JUnit calls it from the repository's root; empty: its file is not known."""
        return f"{_module(self.file)}.{self.inner}" if self.file else ""


@dataclass(frozen=True)
class JudgedTests:
    passed: frozenset[str]
    ambiguous: tuple[str, ...]
    """Tests whose name could mean several, with what it could mean."""


def places_of(tests: Sequence[str], files: Collection[str]) -> dict[str, NamedTest]:
    """Each test's place among the Python files of a repository."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(PurePosixPath(file).name, []).append(file)
    return {test: _place(test, by_name) for test in tests}


def judge_names(places: dict[str, NamedTest], report: TestReport, exists: Callable[[str], bool]) -> JudgedTests:
    """Which tests have passed. `exists` tells whether the repository that was judged has a file."""
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
        # Named from a folder of the repository's, else from one above it.
        found = [file for file in alike if file.endswith(f"/{path}")] or [
            file for file in alike if path.endswith(f"/{file}")
        ]
        if len(found) > 1:
            return NamedTest(rivals=tuple(sorted(found)))
        if found:
            return NamedTest(found[0], inner)
    return NamedTest()


def _splits(test: str) -> Iterator[tuple[str, str]]:
    """Files that a name may tell, each with what is left of the name, likeliest first."""
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
    """Folders that the report's names may be relative to: one, or several that cannot be told apart."""
    known: set[str] = set()
    for name in (*report.passed, *report.failed, *report.skipped):
        parts = dotted(name).partition("[")[0].split(".")
        known.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    hits: Counter[str] = Counter()
    for file in files:
        for folder in PurePosixPath(file).parents:
            rest = str(PurePosixPath(file).relative_to(folder))
            root = "" if str(folder) == "." else str(folder)
            # A file of that very name at the repository's root may be the one that was run.
            if _module(rest) in known and not (root and exists(rest)):
                hits[root] += 1
    most = max(hits.values(), default=0)
    best = tuple(sorted(root for root, count in hits.items() if count == most))
    return ("",) if "" in best or not best else best


def _from(name: str, root: str) -> str:
    return name.removeprefix(root.replace("/", ".") + ".") if root else name


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")
