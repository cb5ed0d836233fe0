"""The interface of a ledger's database, implemented in sqlite.py and postgres.py.

Statements are written once, for both: with `?` for a value, and `rowid` for the order in which runs started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

Value = str | int | float | None
T = TypeVar("T")


class Transaction(Protocol):
    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; returns all rows."""


class RunLock(Protocol):
    """Lock on a piece of work. It is released when its holder dies, in whatever way."""

    def take(self) -> bool:
        """Try to take it. True if this object holds it now, also if it did before."""

    def release(self) -> None:
        """Let others take it."""

    def retire(self) -> None:
        """Release a lock that will never be taken again."""


class Database(Protocol):
    """Append-only tables. Connects when first needed."""

    sum_usd: str
    """SQL for the exact sum of the column cost_usd, if there is a row."""

    @property
    def name(self) -> str:
        """For messages; contains no secret."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """The result of `work` on a consistent state of all tables. `work` may be called more than once."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Like `read`, with everything that `work` adds stored, or nothing of it.

        It is called again only if nothing was stored.
        """

    def claim(self, name: str) -> RunLock:
        """The lock of that name, among all users of the database."""

    def close(self) -> None:
        """Close all connections."""


def database(place: Path | str) -> Database:
    """The database at a path, or at a postgresql:// address."""
    if isinstance(place, Path):
        from scrout.ledger.sqlite import SqliteDatabase

        return SqliteDatabase(place)
    from scrout.ledger.postgres import PostgresDatabase

    return PostgresDatabase(place)
