"""What was read, as arrays: joined, picked from, written down and read back."""

from __future__ import annotations

import io
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.index.definition import Definition
from scrout.index.symbols import Symbols
from scrout.index.tables import UNREAD, Postings, Tables, dumps, keys_in, loads, merge, select, tabulate

NAMES = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\n"), min_size=1, max_size=6)
LINES = st.integers(1, 999)
DEFINITIONS = st.builds(Definition, NAMES, LINES, LINES, LINES, st.sampled_from(("class", "function", "constant")))
WORDS = st.dictionaries(st.sampled_from(("alpha", "beta", "gamma", "größe", "x_y")), st.integers(1, 99))
SYMBOLS = st.builds(
    Symbols,
    st.lists(DEFINITIONS, max_size=3).map(tuple),
    st.lists(NAMES, max_size=3).map(tuple),
    st.none() | WORDS,
    LINES,
)
READ = st.dictionaries(st.integers(0, 10**6).map(lambda number: f"{number:040x} python"), SYMBOLS, max_size=8)

Content = dict[str, tuple[object, ...]]


def content(tables: Tables) -> Content:
    """What is known of each key, whatever the order of documents and terms."""

    def counted(postings: Postings, document: int) -> dict[str, int]:
        rows = zip(postings.term.tolist(), postings.document.tolist(), postings.count.tolist(), strict=True)
        return {tables.vocabulary[term]: count for term, own, count in rows if own == document}

    return {
        key: (
            int(tables.lines[document]),
            counted(tables.words, document),
            counted(tables.names, document),
            tables.definitions(document),
            [name for own, name in zip(tables.importers.tolist(), tables.imported, strict=True) if own == document],
        )
        for document, key in enumerate(tables.keys)
    }


def ordered(tables: Tables) -> bool:
    """By term, which searches rely on."""
    return all(bool((np.diff(own.term) >= 0).all()) for own in (tables.words, tables.names))


@given(READ)
def test_tables_hold_what_was_read(read: dict[str, Symbols]) -> None:
    held = content(tabulate(read.items()))
    assert list(held) == list(read)
    for key, symbols in read.items():
        lines, words, _, definitions, imports = held[key]
        assert lines == (UNREAD if symbols.words is None else symbols.lines)
        assert (words, definitions, imports) == (symbols.words or {}, symbols.definitions, list(symbols.imports))


def test_the_words_of_names_are_those_of_the_last_part() -> None:
    put = Definition("Stock.putBack", 1, 2, 2, "function")
    held = content(tabulate([("a", Symbols((put, put._replace(name="put")), (), {}, 2))]))
    assert held["a"][2] == {"putback": 1, "put": 2, "back": 1}


@given(READ, st.lists(st.integers(0, 8), max_size=3))
def test_parts_that_are_merged_equal_the_whole(read: dict[str, Symbols], cuts: list[int]) -> None:
    items = list(read.items())
    edges = [0, *sorted(cuts), len(items)]
    merged = merge([tabulate(items[first:last]) for first, last in pairwise(edges)])
    assert content(merged) == content(tabulate(items))
    assert ordered(merged)


@given(READ, st.data())
def test_exactly_the_wanted_are_selected(read: dict[str, Symbols], data: st.DataObject) -> None:
    wanted = data.draw(st.frozensets(st.sampled_from([*read, "unknown"])))
    selected = select(tabulate(read.items()), wanted)
    alone = tabulate((key, symbols) for key, symbols in read.items() if key in wanted)
    assert content(selected) == content(alone)
    assert sorted(selected.vocabulary) == sorted(alone.vocabulary)
    assert ordered(selected)


@given(READ)
def test_what_is_written_down_is_read_back(read: dict[str, Symbols]) -> None:
    tables = tabulate(read.items())
    back = loads(dumps(tables))
    assert back is not None
    assert (back.keys, back.vocabulary, content(back)) == (tables.keys, tables.vocabulary, content(tables))


SAMPLE = tabulate(
    (f"{n:040x} python", Symbols((Definition(f"A.f{n}", 1, 2, 2, "function"),), ("os",), {"alpha": 1, f"w{n}": n}, 9))
    for n in range(1, 5)
)
WRITTEN = dumps(SAMPLE)


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "tables").write_bytes(WRITTEN)
    assert keys_in(tmp_path / "tables") == SAMPLE.keys


@given(st.data())
def test_damage_is_noticed_or_does_no_harm(data: st.DataObject) -> None:
    damaged = bytearray(WRITTEN)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    back = loads(bytes(damaged))
    assert back is None or content(back)


def test_damage_of_the_archive_s_directory_is_noticed_or_does_no_harm() -> None:
    for at in range(WRITTEN.index(b"PK\x01\x02"), len(WRITTEN)):
        back = loads(WRITTEN[:at] + bytes([WRITTEN[at] ^ 1]) + WRITTEN[at + 1 :])
        assert back is None or content(back) == content(SAMPLE)


@given(st.integers(0, len(WRITTEN) - 1))
def test_what_is_cut_off_is_not_read(length: int) -> None:
    assert loads(WRITTEN[:length]) is None


def _archive(**arrays: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    with np.load(io.BytesIO(WRITTEN)) as own:
        np.savez(out, **{**own, **arrays})
    return out.getvalue()


def _plain() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(9))
    return out.getvalue()


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"not an archive" * 100,
        pickle.dumps(["a"]),
        _plain(),
        _archive(words=np.zeros((2, 2), np.int32)),
        _archive(words=np.zeros(3, np.int32)),
        _archive(words=np.full((3, 1), 99, np.int32)),
        _archive(names=np.full((3, 1), -1, np.int32)),
        _archive(lines=np.zeros(1, np.int32)),
        _archive(lines=np.array(["x"] * 4)),
        _archive(places=np.zeros((4, 4), np.int32)),
        _archive(places=np.full((4, 5), 7, np.int32)),
        _archive(importers=np.array([0, 1, 2, 4], np.int32)),
        _archive(keys=np.frombuffer(b"\xff\n", np.uint8)),
        _archive(keys=np.array([{}], dtype=object)),
    ],
)
def test_what_others_wrote_is_not_read(foreign: bytes) -> None:
    assert loads(_archive()) is not None
    assert loads(foreign) is None


@pytest.mark.parametrize("foreign", [b"", b"not an archive", _plain(), WRITTEN[:500]])
def test_a_foreign_file_has_no_keys(tmp_path: Path, foreign: bytes) -> None:
    (tmp_path / "tables").write_bytes(foreign)
    assert keys_in(tmp_path / "tables") == ()
    assert keys_in(tmp_path) == ()
    assert keys_in(tmp_path / "missing") == ()
