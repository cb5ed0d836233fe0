"""One commit for a searcher: files with their symbols, words, imports and history, and ways to search them."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scrout.config.folders import cache_folder
from scrout.git import GitDir
from scrout.index.bm25 import Scores, bm25, rarity
from scrout.index.files import FileEntry, Role, list_files, read_blobs
from scrout.index.history import History, read_history
from scrout.index.reading import read
from scrout.index.store import TableStore
from scrout.index.symbols import Definition, language_of
from scrout.index.tables import UNREAD, Postings, Tables, dumps, keys_in, loads, merge, select

ROOTS = ("src", "lib", "python")
"""Folders that often contain a project's packages without being one."""

Progress = Callable[[str], None]
"""Called with a few words about slow work."""

_PACKAGE_FILES = ("__init__", "index", "mod")
_RUST_OWNERS = ("mod", "lib", "main")
"""Files that are their folder's module."""
_ALIKE_LOOKED_AT = 50
_MOST_ALIASES = 3
_STEP = re.compile(r"::|[./\\]+")


@dataclass(frozen=True)
class File:
    path: str
    blob: str
    role: Role
    lines: int
    tables: Tables = field(repr=False, compare=False)
    document: int = field(repr=False, compare=False)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """Its definitions, in the order of the file."""
        return self.tables.definitions(self.document)

    def around(self, line: int) -> Definition | None:
        """The innermost definition around a line."""
        inside = [definition for definition in self.definitions if definition.first <= line <= definition.last]
        return min(inside, key=lambda definition: definition.last - definition.first, default=None)

    def function(self, line: int) -> Definition | None:
        """The innermost function around a line."""
        inside = [own for own in self.definitions if own.kind == "function" and own.first <= line <= own.last]
        return min(inside, key=lambda own: own.last - own.first, default=None)

    def span(self, line: int) -> tuple[int, int] | None:
        """The lines of that definition, otherwise the line alone; None: the file has no such line."""
        around = self.around(line)
        if around is None:
            return (line, line) if 1 <= line <= self.lines else None
        return around.first, around.last


@dataclass(frozen=True)
class Repository:
    """All readable files of a commit, ordered by path."""

    git_dir: Path
    files: dict[str, File]
    tables: Tables
    history: History
    taken: frozenset[str]
    """Names at the root."""
    store: TableStore

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The order of arrays over files."""
        return tuple(self.files)

    @cached_property
    def position(self) -> dict[str, int]:
        """Index of a path in `paths`."""
        return {path: position for position, path in enumerate(self.files)}

    @cached_property
    def documents(self) -> npt.NDArray[np.int64]:
        """The document of each file."""
        return np.array([file.document for file in self.files.values()], dtype=np.int64)

    @cached_property
    def terms(self) -> dict[str, int]:
        """The position of a word in the tables' vocabulary."""
        return {word: position for position, word in enumerate(self.tables.vocabulary)}

    @cached_property
    def defining(self) -> dict[str, list[tuple[File, int]]]:
        """Files and table rows that define a name, by its last part or its qualified form."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, name in enumerate(self.tables.defined):
            rows[name].append(row)
            if "." in name:
                rows[name.rpartition(".")[2]].append(row)
        return _Defining(rows, self)

    @cached_property
    def holding(self) -> dict[int, list[File]]:
        """The files of a document."""
        found: dict[int, list[File]] = defaultdict(list)
        for file in self.files.values():
            found[file.document].append(file)
        return dict(found)

    @cached_property
    def modules(self) -> dict[str, str]:
        """Python modules by dotted name, with their path. A shallower file wins if two have the same name."""
        found: dict[str, str] = {}
        for path in sorted(self.files, key=lambda path: (path.count("/"), path)):
            if path.endswith((".py", ".pyx")):
                found.setdefault(_dotted(path), path)
        return found

    @cached_property
    def top_levels(self) -> dict[str, str]:
        """Modules that a script at the root could import, with the folder that must be on Python's path; empty: the
        root.
        """
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
            base = posixpath.basename(path)
            for name in {base, posixpath.splitext(base)[0]}:
                found[name].append(path)
        return dict(found)

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            found[posixpath.splitext(path)[0]].append(path)
        return dict(found)

    @cached_property
    def _by_folder(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            found[posixpath.dirname(path)].append(path)
        return dict(found)

    @cached_property
    def edges(self) -> npt.NDArray[np.int64]:
        """One row per import of one file by another: positions of importer and imported file."""
        listed = "\n".join(f"{file.blob} {path}" for path, file in self.files.items())
        name = hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()[:40] + ".imports"
        if (stored := self.store.unpacked(name)) is not None:
            return np.frombuffer(stored, dtype="<i4").reshape(-1, 2).astype(np.int64)
        edges = self._edges()
        self.store.pack(name, edges.astype("<i4").tobytes())
        return edges

    def _edges(self) -> npt.NDArray[np.int64]:
        by_document: dict[int, list[str]] = defaultdict(list)
        for document, name in zip(self.tables.importers.tolist(), self.tables.imported, strict=True):
            by_document[document].append(name)
        pairs = set()
        for importer, file in enumerate(self.files.values()):
            for name in by_document.get(file.document, ()):
                for path in self._imported(file.path, name):
                    pairs.add((importer, self.position[path]))
        rows = sorted((a, b) for a, b in pairs if a != b)
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    def bm25(self, words: Mapping[str, float], field: str = "words") -> Scores:
        """The BM25 score of each file for weighted words; `field` "names" searches defined names only."""
        postings: Postings = self.tables.names if field == "names" else self.tables.words
        wanted = [(self.terms[word], weight) for word, weight in words.items() if word in self.terms]
        if not wanted:
            return np.zeros(len(self.files))
        rows = [postings.of(term) for term, _ in wanted]
        chosen = np.concatenate([np.arange(own.start, own.stop) for own in rows])
        term_of = np.repeat(np.arange(len(rows)), [own.stop - own.start for own in rows])
        lengths = self.lengths if field == "words" else self._name_lengths
        weights = np.array([weight for _, weight in wanted])
        document = postings.document[chosen].astype(np.int64)
        return bm25(weights, term_of, document, postings.count[chosen].astype(np.int64), lengths)[self.documents]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of words of each document."""
        words = self.tables.words
        return np.bincount(words.document, words.count, minlength=len(self.tables.keys)).astype(np.int64)

    @cached_property
    def _name_lengths(self) -> npt.NDArray[np.int64]:
        names = self.tables.names
        return np.bincount(names.document, names.count, minlength=len(self.tables.keys)).astype(np.int64)

    def holders(self, word: str) -> npt.NDArray[np.int64]:
        """The documents that contain a lower-case word."""
        term = self.terms.get(word, -1)
        return self.tables.words.document[self.tables.words.of(term)].astype(np.int64)

    def rarity(self, word: str) -> float:
        """The weight of a word in this repository."""
        return float(rarity(np.array(len(self.holders(word))), len(self.tables.keys)))

    def telling(self, word: str) -> float:
        """How specific a word is here: 1 if no file contains it, near 0 if all do."""
        return self.rarity(word) / self.rarity("")

    def find(self, named: str) -> list[str]:
        """The files that a path from elsewhere may mean: those that share the most parts with it, from the end."""
        parts = [part for part in named.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        agreeing: dict[int, list[str]] = defaultdict(list)
        for path in self._by_name.get(parts[-1], ()) if parts else ():
            own = path.split("/")
            if own[-1] != parts[-1]:  # named without its suffix, which is only plausible for a whole path
                own = [*own[:-1], parts[-1]]
                if len(parts) < 2 or own[-len(parts) :] != parts:
                    continue
            shared = _shared_end(own, parts)
            # One shared part out of many is a coincidence, such as any __init__.py.
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

    def _imported(self, importer: str, name: str) -> Iterable[str]:
        """The files of the repository that an import means, judging by names."""
        folder, suffix = posixpath.dirname(importer), posixpath.splitext(importer)[1]
        if suffix in (".py", ".pyi", ".pyx"):
            found = self._python_module(folder, name)
            return (found,) if found else ()
        if suffix == ".go":
            steps = name.split("/")
            return next((sources for n in (3, 2, 1) if (sources := self._folder("/".join(steps[-n:])))), ())
        if name.startswith("."):
            stem = posixpath.normpath(posixpath.join(folder, name))
            # A TypeScript file is imported by the name of its compiled JavaScript.
            return self._one_of(suffix, stem, posixpath.splitext(stem)[0], posixpath.join(stem, "index"))
        if suffix == ".rs" and name.startswith(("crate::", "self::", "super::")):
            return self._rust_module(importer, name)
        parts = [part for part in _STEP.split(re.sub(r"\.(h|hh|hpp|hxx|rb|js|ts)$", "", name)) if part]
        # The last part may be a member of the module.
        for wanted in (parts, parts[:-1]):
            known = self._by_name.get(wanted[-1], ()) if wanted else ()
            shared = {path: _shared_end(path.rpartition(".")[0].split("/"), wanted) for path in known}
            best = max(shared.values(), default=0)
            alike = [path for path, count in shared.items() if count == best and best >= min(2, len(wanted))]
            if 0 < len(alike) <= _MOST_ALIASES:
                return alike
        return ()

    def _one_of(self, suffix: str, *stems: str) -> list[str]:
        """The file at the first existing path, without or with a suffix."""
        for stem in stems:
            if stem in self.files:
                return [stem]
            if alike := self._by_stem.get(posixpath.normpath(stem)):
                return sorted(alike, key=lambda path: not path.endswith(suffix))[:1]
        return []

    def _rust_module(self, importer: str, name: str) -> list[str]:
        """The file of the longest module that a path, from here or from the crate's root, starts with."""
        stem = posixpath.splitext(importer)[0]
        module = posixpath.dirname(stem) if posixpath.basename(stem) in _RUST_OWNERS else stem
        head, *steps = name.split("::")
        if head == "crate":
            module = f"/{importer}".rpartition("/src/")[0].lstrip("/") + "/src"
        while head == "super":
            module = posixpath.dirname(module)
            head, *steps = steps if steps[:1] == ["super"] else ["", *steps]
        for count in range(len(steps), -1, -1):
            below = posixpath.join(module, *steps[:count])
            if found := self._one_of(".rs", below, *(posixpath.join(below, owner) for owner in _RUST_OWNERS)):
                return found
        return []

    def _folder(self, end: str) -> list[str]:
        """The sources of the only folder whose path ends like this; empty: none or several."""
        folders = [
            folder for folder in self._folders.get(end.rpartition("/")[2], ()) if f"/{folder}".endswith(f"/{end}")
        ]
        return (
            [path for path in self._by_folder[folders[0]] if self.files[path].role == "source"]
            if len(folders) == 1
            else []
        )

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for folder in self._by_folder:
            found[posixpath.basename(folder)].append(folder)
        return dict(found)

    def _python_module(self, folder: str, name: str) -> str | None:
        bare = name.lstrip(".")
        if level := len(name) - len(bare):
            base = folder.split("/")[: max(0, folder.count("/") + 2 - level)] if folder else []
            name = ".".join([_dotted("/".join([*base, "__init__.py"])), bare]).strip(".") if base else bare
        found = self.module(name)
        return found[0] if found else None

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The contents of files as text."""
        wanted = {path: self.files[path].blob for path in paths}
        contents = dict(read_blobs(self.git_dir, dict.fromkeys(wanted.values())))
        for path, blob in wanted.items():
            if blob in contents:
                yield path, contents[blob].decode("utf-8", errors="replace")


class _Defining(dict[str, list[tuple[File, int]]]):
    """Finds the files of a name's rows on request, because most names are never requested."""

    def __init__(self, rows: dict[str, list[int]], repository: Repository) -> None:
        super().__init__()
        self._rows = rows
        self._repository = repository

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __missing__(self, name: str) -> list[tuple[File, int]]:
        documents = self._repository.tables.places[:, 0]
        found = [
            (file, row)
            for row in self._rows.get(name, ())
            for file in self._repository.holding.get(int(documents[row]), ())
        ]
        self[name] = found
        return found


def read_repository(
    git_dir: Path, commit: str, subtree: str = "", progress: Progress = lambda words: None
) -> Repository:
    """Read a commit, or one of its folders, with the cache if possible."""
    listing = list_files(git_dir, commit, subtree)
    full = GitDir(git_dir).text("rev-parse", "--verify", f"{commit}^{{commit}}")
    store = TableStore(cache_folder() / "index")
    keys = {entry.path: f"{entry.blob} {language_of(entry.path, entry.role)}" for entry in listing.entries}
    tables = _tables(git_dir, tuple(sorted(set(keys.values()))), store, progress)
    history = read_history(git_dir, full, store)
    return Repository(git_dir, _files(listing.entries, keys, tables), tables, history, listing.taken, store)


def _tables(git_dir: Path, keys: tuple[str, ...], store: TableStore, progress: Progress) -> Tables:
    """The tables of exactly these contents: stored, or built from the stored ones that share the most."""
    name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:40] + ".npz"
    wanted = frozenset(keys)
    # A stored table may be incomplete if a clone lacked some blobs.
    if (tables := _stored(name, store)) is not None and wanted == frozenset(tables.keys):
        return tables
    shared = {
        other: len(wanted.intersection(keys_in(store.path(other)))) for other in store.recent(".npz", _ALIKE_LOOKED_AT)
    }
    alike = max(shared, key=lambda other: shared[other], default="")
    best = _stored(alike, store) if shared.get(alike) else None
    parts = [select(best, wanted)] if best else []
    unknown = sorted(wanted.difference(*(part.keys for part in parts)))
    if unknown:
        progress(f"reading {len(unknown):,} files" + ("" if best else ", the first time here"))
        parts.append(read(git_dir, unknown))
    tables = merge(parts) if parts else read(git_dir, ())
    store.put(name, dumps(tables))
    return tables


def _stored(name: str, store: TableStore) -> Tables | None:
    data = store.get(name)
    tables = loads(data) if data is not None else None
    if data is not None and tables is None:
        store.drop(name)
    return tables


def _files(entries: Iterable[FileEntry], keys: Mapping[str, str], tables: Tables) -> dict[str, File]:
    document = {key: number for number, key in enumerate(tables.keys)}
    lines = tables.lines.tolist()
    files = {}
    for entry in sorted(entries, key=lambda entry: entry.path):
        own = document.get(keys[entry.path])
        if own is not None and lines[own] != UNREAD:
            files[entry.path] = File(entry.path, entry.blob, entry.role, lines[own], tables, own)
    return files


def _shared_end(own: list[str], other: list[str]) -> int:
    shared = 0
    while shared < min(len(own), len(other)) and own[-shared - 1] == other[-shared - 1]:
        shared += 1
    return shared


def _dotted(path: str) -> str:
    parts = posixpath.splitext(path)[0].split("/")
    if len(parts) > 1 and parts[0] in ROOTS:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] in _PACKAGE_FILES and len(parts) > 1 else parts)
