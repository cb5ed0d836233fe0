"""The daily budget (UTC) of all runs of a repository, stored on a branch of the repository.

One file per day, one line per entry, append-only. A run reserves its cap before it works and settles its cost
afterwards; without a settlement, the reservation counts. The forge refuses a push that is not a fast-forward, so of two
concurrent runs, one reads again and sees the other's reservation. People who may push can change the branch, as they
can change the workflow. The budget does not protect against them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from scrout.base import FrozenModel
from scrout.integrations.forge import ForgeError
from scrout.integrations.remote import Remote, RemoteError
from scrout.money import Usd
from scrout.text import usd

BRANCH = "refs/heads/scrout-budget"
MAX_FILE_BYTES = 2_000_000
KEPT_DAYS = 60
"""Days in the branch's files; older ones stay in its history."""
TRIES = 8

Key = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}-[0-9]{1,6}$")]
Day = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class BudgetEntry(FrozenModel):
    kind: Literal["hold", "settle"]
    key: Key
    """Of the run and its attempt."""
    usd: Usd = Field(ge=0, lt=100_000)
    at: datetime
    issue: int = Field(gt=0)


class Spent(Exception):
    """The day's budget has no room for this run. Callers handle this; users never see it."""

    def __init__(self, remaining_usd: Decimal) -> None:
        super().__init__(f"{usd(remaining_usd, exact=True)} left")
        self.remaining_usd = remaining_usd


class AlreadyWorked(Exception):
    """An earlier, finished attempt has already worked on this run."""


@dataclass(frozen=True)
class DailyBudget:
    remote: Remote
    ref: str = BRANCH
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def hold(self, key: str, usd: Decimal, day_usd: Decimal, issue: int) -> str:
        """Reserve dollars for a run; returns the day whose budget it uses.

        Repeating it for one attempt has no effect.
        """
        at = self.now().astimezone(UTC).replace(microsecond=0)
        day = at.date().isoformat()

        def add(entries: tuple[BudgetEntry, ...]) -> BudgetEntry | None:
            run = key.partition("-")[0]
            if any(one.kind == "settle" and one.key.partition("-")[0] == run for one in entries):
                raise AlreadyWorked
            if any(one.key == key for one in entries):
                return None
            left = day_usd - spent(entries)
            if usd > left:
                raise Spent(max(left, Decimal(0)))
            return BudgetEntry(kind="hold", key=key, usd=usd, at=at, issue=issue)

        self._append(day, add)
        return day

    def settle(self, key: str, usd: Decimal, day: str, issue: int) -> None:
        """Replace a reservation by the run's cost. Repeating it has no effect."""
        at = self.now().astimezone(UTC).replace(microsecond=0)

        def add(entries: tuple[BudgetEntry, ...]) -> BudgetEntry | None:
            kinds = {one.kind for one in entries if one.key == key}
            if "hold" not in kinds:
                raise ForgeError(
                    f"the budget of {day} has no entry for run {key}. Check whether the branch was changed by hand."
                )
            return None if "settle" in kinds else BudgetEntry(kind="settle", key=key, usd=usd, at=at, issue=issue)

        self._append(day, add)

    def day(self, day: str) -> tuple[BudgetEntry, ...]:
        tip = self.remote.tip(self.ref)
        if tip:
            self.remote.fetch(tip)
        return self._entries(tip, day)

    def _append(self, day: str, add: Callable[[tuple[BudgetEntry, ...]], BudgetEntry | None]) -> None:
        for _ in range(TRIES):
            tip = self.remote.tip(self.ref)
            if tip:
                self.remote.fetch(tip)
            entries = self._entries(tip, day)
            entry = add(entries)
            if entry is None:
                return
            try:
                self.remote.push(self._written(tip, day, (*entries, entry)), self.ref)
                return
            except RemoteError:
                if self.remote.tip(self.ref) == tip:
                    raise
                # Another run was first: its reservation counts.
                time.sleep(random.uniform(0.05, 0.5))
        raise ForgeError(
            f"the budget on {self.ref} was changed {TRIES} times by other runs during the update. Add the label again."
        )

    def _entries(self, tip: str, day: str) -> tuple[BudgetEntry, ...]:
        raw = self.remote.read(tip, f"{day}.jsonl", MAX_FILE_BYTES) if tip else None
        try:
            return tuple(BudgetEntry.model_validate_json(line) for line in (raw or b"").splitlines())
        except ValidationError:
            raise ForgeError(
                f"{day}.jsonl on {self.ref} has a line that is not an entry, so the rest of the day's budget is "
                f"unknown. Repair the line, or remove the file to start the day's budget again."
            ) from None

    def _written(self, tip: str, day: str, entries: Iterable[BudgetEntry]) -> str:
        text = "".join(f"{entry.model_dump_json()}\n" for entry in entries)
        blob = self.remote.git("hash-object", "-w", "--stdin", stdin=text.encode()).decode().strip()
        listed = self.remote.git("ls-tree", tip).decode().splitlines() if tip else []
        rows = [row for row in listed if row.startswith("100644 blob ") and not row.endswith(f"\t{day}.jsonl")]
        rows = sorted(rows, key=lambda row: row.partition("\t")[2])[-KEPT_DAYS:]
        rows.append(f"100644 blob {blob}\t{day}.jsonl")
        tree = self.remote.git("mktree", stdin="".join(f"{row}\n" for row in rows).encode()).decode().strip()
        return self.remote.commit(tree, (tip,) if tip else (), f"{day}\n", self.now())


def spent(entries: Iterable[BudgetEntry]) -> Decimal:
    """The used budget of a day: settled costs, and open reservations."""
    counted: dict[str, Decimal] = {}
    settled: set[str] = set()
    for one in entries:
        if one.kind == "settle":
            settled.add(one.key)
            counted[one.key] = one.usd
        elif one.key not in settled:
            counted[one.key] = one.usd
    return sum(counted.values(), Decimal(0))
