"""The symbols of many files as flat arrays: quick to store, load, join and search.

A document is one content in one language; the repository maps paths to documents.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from scrout.index.definition import Definition, Kind
from scrout.index.symbols import Symbols
from scrout.index.words import split_identifier
from scrout.syntax import ALONE

Integers = npt.NDArray[np.int32]

UNREAD = -1
"""Line count of a document that is not read: binary, generated."""

_KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Postings:
    """The documents that contain each term, and how often, ordered by term."""

    term: Integers
    document: Integers
    count: Integers

    def of(self, term: int) -> slice:
        """The rows of one term."""
        # Numbers of another type would convert the whole array for every term.
        first, last = np.searchsorted(self.term, np.array((term, term + 1), dtype=np.int32)).tolist()
        return slice(first, last)


@dataclass(frozen=True)
class Tables:
    """Documents with their words, definitions and imports."""

    keys: tuple[str, ...]
    """Blob and language of each document."""
    lines: Integers
    vocabulary: tuple[str, ...]
    words: Postings
    names: Postings
    """The words of defined names only."""
    places: Integers
    """One row per definition: document, first, last, body, kind; by document, then in the order of the file."""
    defined: tuple[str, ...]
    """Qualified names."""
    importers: Integers
    """One row per import: document."""
    imported: tuple[str, ...]

    @cached_property
    def _first_place(self) -> list[int]:
        """The first row of each document's definitions, and one more for the end."""
        starts: list[int] = np.searchsorted(self.places[:, 0], np.arange(len(self.keys) + 1, dtype=np.int32)).tolist()
        return starts

    def definitions(self, document: int) -> tuple[Definition, ...]:
        """The definitions of one document."""
        first, last = self._first_place[document : document + 2]
        rows = zip(self.defined[first:last], self.places[first:last].tolist(), strict=True)
        return tuple(Definition(name, a, b, body, _KINDS[kind]) for name, (_, a, b, body, kind) in rows)


def tabulate(read: Iterable[tuple[str, Symbols]]) -> Tables:
    """Tables of documents by key."""
    terms: dict[str, int] = {}
    keys, lines, places, defined, importers, imported = [], [], [], [], [], []
    words: list[tuple[int, int, int]] = []
    names: list[tuple[int, int, int]] = []
    for document, (key, symbols) in enumerate(read):
        keys.append(key)
        lines.append(UNREAD if symbols.words is None else symbols.lines)
        words += [(terms.setdefault(word, len(terms)), document, n) for word, n in (symbols.words or {}).items()]
        counts: dict[str, int] = {}
        for name, first, last, body, kind in symbols.definitions:
            places.append((document, first, last, body, _KINDS.index(kind)))
            defined.append(_one_line(name))
            for word in split_identifier(name.rpartition(".")[2]):
                counts[word] = counts.get(word, 0) + 1
        names += [(terms.setdefault(word, len(terms)), document, n) for word, n in counts.items()]
        for name in symbols.imports:
            importers.append(document)
            imported.append(_one_line(name))
    return Tables(
        keys=tuple(keys),
        lines=np.array(lines, dtype=np.int32),
        vocabulary=tuple(terms),
        words=_postings(np.array(words, dtype=np.int32).reshape(-1, 3)),
        names=_postings(np.array(names, dtype=np.int32).reshape(-1, 3)),
        places=np.array(places, dtype=np.int32).reshape(-1, 5),
        defined=tuple(defined),
        importers=np.array(importers, dtype=np.int32),
        imported=tuple(imported),
    )


def merge(parts: Sequence[Tables]) -> Tables:
    """Join tables that share no document."""
    if len(parts) == 1:
        return parts[0]
    terms: dict[str, int] = {}
    offset = 0
    words: list[Integers] = []
    names: list[Integers] = []
    places, importers = [], []
    for part in parts:
        new_term = np.fromiter(
            (terms.setdefault(word, len(terms)) for word in part.vocabulary), np.int32, len(part.vocabulary)
        )
        for into, own in ((words, part.words), (names, part.names)):
            into.append(np.stack((new_term[own.term], own.document + offset, own.count), axis=1))
        places.append(part.places + np.array([offset, 0, 0, 0, 0], dtype=np.int32))
        importers.append(part.importers + np.int32(offset))
        offset += len(part.keys)
    return Tables(
        keys=tuple(key for part in parts for key in part.keys),
        lines=np.concatenate([part.lines for part in parts]),
        vocabulary=tuple(terms),
        words=_postings(np.concatenate(words)),
        names=_postings(np.concatenate(names)),
        places=np.concatenate(places),
        defined=tuple(name for part in parts for name in part.defined),
        importers=np.concatenate(importers),
        imported=tuple(name for part in parts for name in part.imported),
    )


def select(tables: Tables, wanted: frozenset[str]) -> Tables:
    """The documents with these keys."""
    keep = np.fromiter((key in wanted for key in tables.keys), np.bool_, len(tables.keys))
    if keep.all():
        return tables
    new_document = np.cumsum(keep, dtype=np.int32) - 1

    def kept(postings: Postings) -> Postings:
        rows = keep[postings.document]
        return Postings(postings.term[rows], new_document[postings.document[rows]], postings.count[rows])

    words, names = kept(tables.words), kept(tables.names)
    used = np.zeros(len(tables.vocabulary), dtype=np.bool_)
    used[words.term] = used[names.term] = True
    new_term = np.cumsum(used, dtype=np.int32) - 1
    defined, importing = keep[tables.places[:, 0]], keep[tables.importers]
    places = tables.places[defined]
    places[:, 0] = new_document[places[:, 0]]
    return Tables(
        keys=tuple(key for key, kept in zip(tables.keys, keep, strict=True) if kept),
        lines=tables.lines[keep],
        vocabulary=tuple(word for word, kept in zip(tables.vocabulary, used, strict=True) if kept),
        words=Postings(new_term[words.term], words.document, words.count),
        names=Postings(new_term[names.term], names.document, names.count),
        places=places,
        defined=tuple(name for name, kept in zip(tables.defined, defined, strict=True) if kept),
        importers=new_document[tables.importers[importing]],
        imported=tuple(name for name, kept in zip(tables.imported, importing, strict=True) if kept),
    )


def dumps(tables: Tables) -> bytes:
    """An uncompressed npz archive, whose checksums reveal damage."""
    out = io.BytesIO()
    np.savez(
        out,
        keys=_text(tables.keys),
        lines=tables.lines,
        vocabulary=_text(tables.vocabulary),
        words=np.stack((tables.words.term, tables.words.document, tables.words.count)),
        names=np.stack((tables.names.term, tables.names.document, tables.names.count)),
        places=tables.places,
        defined=_text(tables.defined),
        importers=tables.importers,
        imported=_text(tables.imported),
    )
    return out.getvalue()


def loads(data: bytes) -> Tables | None:
    """None: not written by `dumps`."""
    try:
        with ALONE, np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            tables = Tables(
                keys=_strings(arrays["keys"]),
                lines=arrays["lines"],
                vocabulary=_strings(arrays["vocabulary"]),
                words=Postings(*arrays["words"]),
                names=Postings(*arrays["names"]),
                places=arrays["places"],
                defined=_strings(arrays["defined"]),
                importers=arrays["importers"],
                imported=_strings(arrays["imported"]),
            )
            return tables if _fits(tables) else None
    except Exception:  # zipfile and numpy raise a dozen types for damage
        return None


def keys_in(path: Path) -> tuple[str, ...]:
    """The keys of stored tables, without reading the rest."""
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, ALONE, np.load(file, allow_pickle=False) as arrays:
            return _strings(arrays["keys"])
    except Exception:
        return ()


def _fits(tables: Tables) -> bool:
    """Whether every number is a valid index: a file of another program must fail here, not during a search."""
    documents, terms = len(tables.keys), len(tables.vocabulary)
    return (
        tables.lines.shape == (documents,)
        and tables.lines.dtype == np.int32
        and tables.places.shape == (len(tables.defined), 5)
        and tables.importers.shape == (len(tables.imported),)
        and all(_below(own.term, terms) and _below(own.document, documents) for own in (tables.words, tables.names))
        and _below(tables.places[:, 0], documents)
        and _below(tables.places[:, 4], len(_KINDS))
        and _below(tables.importers, documents)
    )


def _below(numbers: Integers, bound: int) -> bool:
    plain = numbers.ndim == 1 and numbers.dtype == np.int32
    return plain and (numbers.size == 0 or bool(numbers.min() >= 0 and numbers.max() < bound))


def _postings(rows: npt.NDArray[np.int32]) -> Postings:
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return Postings(*np.ascontiguousarray(rows.T))


def _one_line(name: str) -> str:
    return name if "\n" not in name else name.replace("\n", " ")


def _text(strings: Sequence[str]) -> npt.NDArray[np.uint8]:
    # A closing newline tells an empty list from one empty string.
    return np.frombuffer("".join(f"{string}\n" for string in strings).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _strings(text: npt.NDArray[np.uint8]) -> tuple[str, ...]:
    return tuple(text.tobytes().decode("utf-8", "surrogatepass").split("\n")[:-1])
