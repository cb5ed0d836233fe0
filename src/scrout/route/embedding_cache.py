"""Caches vectors by the embedder's name and the text's digest, in one SQLite file.

Numbers are stored in single precision, as they were made, so cached and new vectors route alike. The texts are not
stored. If the file is lost or cannot be used, only time is lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from scrout.config.folders import cache_folder
from scrout.route.embedder import Embedder, Vectors

FILE_NAME = "vectors-1.db"
"""Includes the version of the content."""
MAX_BYTES = 200_000_000
"""About 100,000 vectors of 384 numbers; the oldest are removed."""
CHUNK = 64
"""New vectors per transaction, so that an interrupted job loses no more."""
BUSY_TIMEOUT_S = 5.0

_TABLE = "CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB)"
_CHECKSUM_BYTES = 4
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
    }
)
"""Errors that do not mean a damaged file. After any other error, the file is deleted."""


class CachedEmbedder:
    """An embedder that makes each vector once, for all processes of this user."""

    def __init__(self, embedder: Embedder, path: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.embedder = embedder
        self.path = cache_folder() / "embedders" / FILE_NAME if path is None else path
        self.max_bytes = max_bytes

    @property
    def name(self) -> str:
        return self.embedder.name

    @property
    def size(self) -> int:
        return self.embedder.size

    def embed(self, texts: Sequence[str]) -> Vectors:
        keys = [self._key(text) for text in texts]
        rows = self._read(keys)
        self._make(rows, keys, texts)
        if len({row.size for row in rows.values()}) > 1:
            # The name now belongs to another model, so the stored vectors are wrong.
            rows = {}
            self._make(rows, keys, texts)
        return np.stack([rows[key] for key in keys]) if keys else np.zeros((0, self.size), dtype=np.float32)

    def _make(self, rows: dict[bytes, Vectors], keys: Sequence[bytes], texts: Sequence[str]) -> None:
        """Embed the texts without a row, and store them."""
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}
        pairs = list(new.items())
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            made = self.embedder.embed([text for _, text in chunk])
            fresh = {key: row for (key, _), row in zip(chunk, made, strict=True)}
            self._write(fresh)
            rows |= fresh

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.name}\0{text}".encode("utf-8", "surrogatepass")).digest()

    def _read(self, keys: Iterable[bytes]) -> dict[bytes, Vectors]:
        rows = {}
        with self._forgiving():
            if self.path.exists():
                with self._open() as db:
                    for key in set(keys):
                        found = db.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                        row = None if found is None else _unpacked(found[0])
                        if row is not None:
                            rows[key] = row
        return rows

    def _write(self, rows: Mapping[bytes, Vectors]) -> None:
        packed = [(key, _packed(row)) for key, row in rows.items()]
        with self._forgiving(), self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", packed)
            while self._bytes(db) > self.max_bytes and self._drop_oldest(db):
                pass
            db.execute("COMMIT")

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one call: it is bound to its thread and does not survive a fork."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")  # data lost in a power cut is made again
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchone() is None:
                # Lock first: otherwise, one of two concurrent starts would fail instead of waiting.
                db.execute("BEGIN IMMEDIATE")
                db.execute(_TABLE)
                db.execute("COMMIT")
            yield db

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """The cache's errors never reach the caller. A damaged file is deleted, and the next write makes a new one."""
        try:
            yield
        except OSError:
            pass
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None:
                raise  # not SQLite's own error: a bug
            if code & 0xFF not in _PASSING:
                for file in (self.path, self.path.with_name(self.path.name + "-journal")):
                    with contextlib.suppress(OSError):
                        file.unlink()

    @staticmethod
    def _bytes(db: sqlite3.Connection) -> int:
        """Bytes in use; freed pages are reused before the file grows."""
        pages, free, size = (
            db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
        used: int = (pages - free) * size
        return used

    @staticmethod
    def _drop_oldest(db: sqlite3.Connection) -> bool:
        """Remove a tenth of all vectors, so that this happens rarely. False: none is left."""
        tenth = "SELECT id FROM vectors ORDER BY id LIMIT (SELECT count(*) / 10 + 1 FROM vectors)"
        return db.execute(f"DELETE FROM vectors WHERE id IN ({tenth})").rowcount > 0


def _packed(row: Vectors) -> bytes:
    """SQLite does not detect a changed byte in a value, so the numbers have a checksum."""
    numbers = row.astype("<f4").tobytes()
    return zlib.crc32(numbers).to_bytes(_CHECKSUM_BYTES, "little") + numbers


def _unpacked(value: object) -> Vectors | None:
    if not isinstance(value, bytes) or len(value) % 4 or len(value) <= _CHECKSUM_BYTES:
        return None
    checksum, numbers = value[:_CHECKSUM_BYTES], value[_CHECKSUM_BYTES:]
    if zlib.crc32(numbers).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        return None
    return np.frombuffer(numbers, dtype="<f4").astype(np.float32)
