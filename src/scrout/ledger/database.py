"""What a ledger needs of the database it is kept in. One file an implementation: sqlite.py, postgres.py.

Statements are written once, for both: with `?` for a value, and `rowid` for the order in which runs were begun.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

Value = str | int | float | None
T = TypeVar("T")


class Transaction(Protocol):
    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """The rows that it gives, all of them."""


class RunLock(Protocol):
    """Says who works on something right now. It vanishes with its holder, however that one ends."""

    def take(self) -> bool:
        """True: it is ours, now or since before."""

    def release(self) -> None:
        """Let others take it."""

    def retire(self) -> None:
        """The same for one that nobody will take again."""


class Database(Protocol):
    """Tables that rows can be added to, and nothing else. It is reached when it is first needed."""

    sum_usd: str
    """SQL for the exact sum of the column cost_usd, where there is a row."""

    @property
    def name(self) -> str:
        """For messages; no secret is in it."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What `work` makes of one state of all tables. It may be called more than once."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        """The same, with all that it adds kept, or nothing of it. It is called again only where nothing was kept."""

    def claim(self, name: str) -> RunLock:
        """Of that name, among all users of the database."""

    def close(self) -> None:
        """Let go of everything."""


def database(place: Path | str) -> Database:
    """The one at a path, or at a postgresql:// address."""
    if isinstance(place, Path):
        from scrout.ledger.sqlite import SqliteDatabase

        return SqliteDatabase(place)
    from scrout.ledger.postgres import PostgresDatabase

    return PostgresDatabase(place)
