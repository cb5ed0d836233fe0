"""Symbols by blob, in one SQLite file that processes share. Losing it, or being unable to write it, costs time only."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from scrout.index.symbols import Definition, Symbols

VERSION = 1
"""Part of every key: raise it when symbols are read differently."""

_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_BUSY_TIMEOUT_S = 5.0
_TABLE = "CREATE TABLE IF NOT EXISTS symbols (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
_T = TypeVar("_T")

Key = tuple[str, str]
"""Blob id and language."""


class Cache:
    """Holds no connection between calls."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, keys: Iterable[Key]) -> dict[Key, Symbols]:
        """What is known of these; a row that cannot be read is as good as none."""

        def select(database: sqlite3.Connection) -> dict[Key, Symbols]:
            found = {}
            for key in keys:
                row = database.execute("SELECT value FROM symbols WHERE key = ?", (_joined(key),)).fetchone()
                if row is not None and (symbols := _decode(row[0])) is not None:
                    found[key] = symbols
            return found

        return self._try(select) or {}

    def put(self, known: dict[Key, Symbols]) -> None:
        """Keep these."""
        rows = [(_joined(key), _encode(symbols)) for key, symbols in known.items()]
        self._try(lambda database: database.executemany("INSERT OR REPLACE INTO symbols VALUES (?, ?)", rows))

    def _try(self, work: Callable[[sqlite3.Connection], _T]) -> _T | None:
        for _ in range(2):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # SQLite gives its side files the mode of the database.
                self.path.touch(mode=0o600)
                with contextlib.closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S)) as database, database:
                    database.execute("PRAGMA journal_mode = WAL")
                    database.execute("PRAGMA synchronous = NORMAL")
                    database.execute(_TABLE)
                    return work(database)
            except sqlite3.DatabaseError as error:
                # The low byte is the primary code; locked, full and read-only files are left alone.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BROKEN:
                    return None
                self._delete()
            except OSError:
                return None
        return None

    def _delete(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()


def _joined(key: Key) -> str:
    return f"{VERSION} {key[0]} {key[1]}"


def _encode(symbols: Symbols) -> str:
    return json.dumps([symbols.definitions, symbols.imports, symbols.words, symbols.lines], separators=(",", ":"))


def _decode(value: str) -> Symbols | None:
    try:
        definitions, imports, words, lines = json.loads(value)
        return Symbols(tuple(Definition(*row) for row in definitions), tuple(imports), words, lines)
    except (ValueError, TypeError):
        return None
