"""One commit as a searcher sees it: its files with their symbols, and the ways to find one."""

from __future__ import annotations

import gc
import posixpath
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from scrout.config import cache_folder
from scrout.index.cache import Cache
from scrout.index.files import Role, list_files, read_blobs
from scrout.index.symbols import Definition, Symbols, language_of, read_symbols

ROOTS = ("src", "lib", "python")
"""Folders that commonly hold a project's packages without being one."""

_PACKAGE_FILES = ("__init__", "index", "mod")
_BATCH = 500


@dataclass(frozen=True)
class File:
    """One readable file."""

    path: str
    blob: str
    role: Role
    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]
    words: dict[str, int]
    """Counts of the words that were asked for."""
    length: int
    """Words in all."""
    lines: int

    def around(self, line: int) -> Definition | None:
        """The innermost definition that holds a line."""
        inside = [definition for definition in self.definitions if definition.first <= line <= definition.last]
        return min(inside, key=lambda definition: definition.last - definition.first, default=None)

    def span(self, line: int) -> tuple[int, int] | None:
        """The lines of that definition, else the line alone; None: the file has no such line."""
        around = self.around(line)
        if around is None:
            return (line, line) if 1 <= line <= self.lines else None
        return around.first, around.last


@dataclass(frozen=True)
class Repository:
    """All readable files of a commit, by path, in the order of paths."""

    git_dir: Path
    files: dict[str, File]
    asked: frozenset[str]
    """The words that are counted in files."""
    taken: frozenset[str]
    """Names in use at the root."""

    @cached_property
    def defining(self) -> dict[str, list[tuple[File, Definition]]]:
        """Where a name is defined, by its last part and by its qualified form."""
        found: dict[str, list[tuple[File, Definition]]] = defaultdict(list)
        for file in self.files.values():
            for definition in file.definitions:
                for name in {definition.name, definition.name.rpartition(".")[2]}:
                    found[name].append((file, definition))
        return dict(found)

    @cached_property
    def modules(self) -> dict[str, str]:
        """Python modules by dotted name, to their path. A shallower file wins where two have one name."""
        found: dict[str, str] = {}
        for path in sorted(self.files, key=lambda path: (path.count("/"), path)):
            if path.endswith((".py", ".pyx")):
                found.setdefault(_dotted(path), path)
        return found

    @cached_property
    def top_levels(self) -> dict[str, str]:
        """What a script at the root could import, to the folder that has to be on Python's path; empty: the root."""
        found: dict[str, str] = {}
        for path, file in self.files.items():
            parts = path.split("/")
            root = parts[0] if len(parts) > 1 and parts[0] in ROOTS else ""
            name = parts[1] if root else parts[0]
            if path.endswith(".py") and file.role != "test":
                found.setdefault(name.removesuffix(".py"), root)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            pure = PurePosixPath(path)
            for name in {pure.name, pure.stem}:
                found[name].append(path)
        return dict(found)

    def find(self, named: str) -> list[str]:
        """The files that a path from elsewhere may mean: those that agree with it in the most parts from the end."""
        parts = [part for part in named.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        agreeing: dict[int, list[str]] = defaultdict(list)
        for path in self._by_name.get(parts[-1], ()) if parts else ():
            own = path.split("/")
            if own[-1] != parts[-1]:  # named without its suffix, which only a whole path makes plausible
                own = [*own[:-1], parts[-1]]
                if len(parts) < 2 or own[-len(parts) :] != parts:
                    continue
            shared = 1
            while shared < min(len(own), len(parts)) and own[-shared - 1] == parts[-shared - 1]:
                shared += 1
            # One part in common out of many is chance, such as any __init__.py.
            if shared > 1 or shared in (len(own), len(parts)):
                agreeing[shared].append(path)
        return agreeing[max(agreeing)] if agreeing else []

    def module(self, dotted: str) -> tuple[str, str] | None:
        """The file of the longest module that a dotted name starts with, and the rest of the name."""
        parts = dotted.split(".")
        for count in range(len(parts), 0, -1):
            path = self.modules.get(".".join(parts[:count]))
            if path is not None:
                return path, ".".join(parts[count:])
        return None

    def imported_by(self, path: str) -> Iterator[str]:
        """The files of the repository that a file imports."""
        folder = posixpath.dirname(path)
        for name in self.files[path].imports:
            if "/" in name:
                stem = posixpath.normpath(posixpath.join(folder, name))
                found = next((p for p in self.find(stem) if p.startswith(stem)), None)
            else:
                found = self._python_module(folder, name)
            if found is not None and found != path:
                yield found

    def _python_module(self, folder: str, name: str) -> str | None:
        bare = name.lstrip(".")
        if level := len(name) - len(bare):
            base = folder.split("/")[: folder.count("/") + 2 - level] if folder else []
            name = ".".join([_dotted("/".join([*base, "__init__.py"])), bare]).strip(".")
        found = self.module(name)
        return found[0] if found else None

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The contents of files, as text."""
        wanted = {path: self.files[path].blob for path in paths}
        contents = dict(read_blobs(self.git_dir, dict.fromkeys(wanted.values())))
        for path, blob in wanted.items():
            if blob in contents:
                yield path, contents[blob].decode("utf-8", errors="replace")


def read_repository(git_dir: Path, commit: str, words: Collection[str]) -> Repository:
    """Read a commit, from the cache where it can be. Of each file's words only those in `words` are kept in memory."""
    listing = list_files(git_dir, commit)
    cache = Cache(cache_folder() / "index.db")
    keys = {entry.path: (entry.blob, language_of(entry.path, entry.role)) for entry in listing.entries}
    wanted = frozenset(words)
    facts: dict[tuple[str, str], tuple[Symbols, int]] = {}

    def keep(found: dict[tuple[str, str], Symbols]) -> None:
        for key, symbols in found.items():
            counts = symbols.words
            few = None if counts is None else {word: counts[word] for word in sorted(wanted & counts.keys())}
            facts[key] = replace(symbols, words=few), sum((counts or {}).values())

    unique = list(dict.fromkeys(keys.values()))
    for start in range(0, len(unique), _BATCH):
        keep(cache.get(unique[start : start + _BATCH]))
    unknown = [key for key in unique if key not in facts]
    for start in range(0, len(unknown), _BATCH):
        batch = unknown[start : start + _BATCH]
        contents = dict(read_blobs(git_dir, dict.fromkeys(blob for blob, _ in batch)))
        with _no_garbage_collection():
            read = {key: read_symbols(contents[key[0]], key[1]) for key in batch if key[0] in contents}
        cache.put(read)
        keep(read)
    files = {}
    for entry in sorted(listing.entries, key=lambda entry: entry.path):
        symbols, length = facts.get(keys[entry.path], (Symbols(), 0))
        if symbols.words is not None:
            files[entry.path] = File(
                path=entry.path,
                blob=entry.blob,
                role=entry.role,
                definitions=symbols.definitions,
                imports=symbols.imports,
                words=symbols.words,
                length=length,
                lines=symbols.lines,
            )
    return Repository(git_dir, files, wanted, listing.taken)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Syntax trees hold no cycles, and looking for some in them takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _dotted(path: str) -> str:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if len(parts) > 1 and parts[0] in ROOTS:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] in _PACKAGE_FILES and len(parts) > 1 else parts)
