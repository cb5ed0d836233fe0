"""Vectors that were made before: equal to new ones, shared by processes, bounded, and never an error."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scrout.base import RouteError
from scrout.route.embed import HashedEmbedder, Vectors
from scrout.route.embedding_cache import CHUNK, CachedEmbedder


class Counting(HashedEmbedder):
    """The real one, which remembers what it was asked."""

    def __init__(self, name: str = "counting", size: int = 512) -> None:
        self.name, self.width = name, size
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return super().embed(texts)[:, : self.width]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "vectors.db"


def test_a_text_is_embedded_once_and_its_row_is_the_same_to_the_bit(path: Path) -> None:
    texts = ["one", "two", "one", "", "lone \ud800"]
    first, second = Counting(), Counting()
    made = CachedEmbedder(first, path).embed(texts)
    assert first.asked == ["one", "two", "", "lone \ud800"]
    kept = CachedEmbedder(second, path).embed([*texts, "three"])
    assert second.asked == ["three"]
    assert kept.dtype == np.float32 and np.array_equal(kept[:5], made)
    assert np.array_equal(made, HashedEmbedder().embed(texts))


def test_the_wrapper_is_known_by_what_it_wraps(path: Path) -> None:
    cached = CachedEmbedder(Counting("some-name"), path)
    assert (cached.name, cached.size) == ("some-name", 512)
    assert cached.embed([]).shape == (0, 512)


def test_embedders_of_other_names_share_nothing(path: Path) -> None:
    CachedEmbedder(Counting("a"), path).embed(["text"])
    other = Counting("b")
    CachedEmbedder(other, path).embed(["text"])
    assert other.asked == ["text"]


def test_another_size_under_the_same_name_makes_all_rows_again(path: Path) -> None:
    CachedEmbedder(Counting(size=512), path).embed(["old", "other"])
    smaller = Counting(size=8)
    assert CachedEmbedder(smaller, path).embed(["old", "new"]).shape == (2, 8)
    assert CachedEmbedder(smaller, path).embed(["old"]).shape == (1, 8)


def test_what_was_made_before_an_interruption_is_kept(path: Path) -> None:
    class Breaking(Counting):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if len(self.asked) >= CHUNK:
                raise RouteError("the endpoint is gone")
            return super().embed(texts)

    texts = [f"text {number}" for number in range(CHUNK + 1)]
    with pytest.raises(RouteError):
        CachedEmbedder(Breaking(), path).embed(texts)
    after = Counting()
    CachedEmbedder(after, path).embed(texts)
    assert after.asked == texts[CHUNK:]


def test_no_text_is_in_the_file(path: Path) -> None:
    CachedEmbedder(Counting(), path).embed(["a confidential sentence"])
    assert b"confidential" not in path.read_bytes()


@pytest.mark.parametrize("damage", ["nonsense", "truncated", "emptied", "foreign", "zeroed"])
def test_a_damaged_file_is_made_anew(path: Path, damage: str) -> None:
    texts = [f"text {number}" for number in range(40)]
    made = CachedEmbedder(Counting(), path).embed(texts)
    content = path.read_bytes()
    match damage:
        case "nonsense":
            path.write_bytes(b"nonsense " * 1000)
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "emptied":
            path.write_bytes(b"")
        case "zeroed":
            path.write_bytes(content[:4096] + b"\0" * (len(content) - 4096))
        case "foreign":
            path.unlink()
            with sqlite3.connect(path) as db:
                db.execute("CREATE TABLE vectors (something TEXT)")
            db.close()
    assert np.array_equal(CachedEmbedder(Counting(), path).embed(texts), made)
    after = Counting()
    assert np.array_equal(CachedEmbedder(after, path).embed(texts), made)
    if after.asked:  # what was damaged may come to light at the first write only
        after = Counting()
        assert np.array_equal(CachedEmbedder(after, path).embed(texts), made)
    assert after.asked == [], "and is whole again"


def test_a_changed_number_is_not_believed(path: Path) -> None:
    made = CachedEmbedder(Counting(), path).embed(["one", "two"])
    with sqlite3.connect(path) as db:
        (key, value) = db.execute("SELECT key, vector FROM vectors ORDER BY id LIMIT 1").fetchone()
        changed = bytearray(value)
        changed[100] ^= 64
        db.execute("UPDATE vectors SET vector = ? WHERE key = ?", (bytes(changed), key))
    db.close()
    after = Counting()
    assert np.array_equal(CachedEmbedder(after, path).embed(["one", "two"]), made)
    assert after.asked == ["one"]


def test_a_place_that_cannot_hold_a_file_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "vectors.db", tmp_path):
        assert CachedEmbedder(Counting(), path).embed(["text"]).any()


def test_the_file_is_bounded_and_the_first_ones_go(path: Path) -> None:
    limit = 400_000
    cached = CachedEmbedder(Counting(), path, max_bytes=limit)
    texts = [f"text {number}" for number in range(600)]  # about 1.6 MB
    cached.embed(texts)
    assert path.stat().st_size < 2 * limit
    after = Counting()
    CachedEmbedder(after, path).embed(texts[-50:])
    assert after.asked == [], "the last ones are there"
    CachedEmbedder(after, path).embed(texts[:50])
    assert after.asked == texts[:50]


def test_a_limit_below_one_vector_ends(path: Path) -> None:
    assert CachedEmbedder(Counting(), path, max_bytes=1).embed(["text"]).any()


@pytest.mark.slow
def test_several_processes_write_at_once(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from scrout.route.embed import HashedEmbedder; from scrout.route.embedding_cache import CachedEmbedder;"
        "start = int(sys.argv[2]);"
        "cached = CachedEmbedder(HashedEmbedder(), Path(sys.argv[1]));"
        "[cached.embed([f'text {n}', f'text {n + 1}']) for n in range(start, start + 40)]"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(start)], env=environment) for start in (0, 20, 40)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    after = Counting(HashedEmbedder.name)
    texts = [f"text {number}" for number in range(81)]
    assert np.array_equal(CachedEmbedder(after, path).embed(texts), HashedEmbedder().embed(texts))
    assert after.asked == []
