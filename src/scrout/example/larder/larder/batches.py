"""Batches: the packages of one item, each bought on one day and with one best-before date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from larder.errors import NotEnough
from larder.expiry import Freshness, freshness, once_opened, urgency
from larder.quantity import Quantity


@dataclass(frozen=True)
class Batch:
    """What is left of something that was bought together."""

    item: str
    """Key of the item."""
    quantity: Quantity
    bought: date
    best_before: date | None = None

    @property
    def is_empty(self) -> bool:
        return self.quantity.is_zero

    def freshness(self, today: date) -> Freshness:
        return freshness(self.best_before, today)

    def take(self, quantity: Quantity) -> Batch:
        """The batch after some of it was taken."""
        if quantity > self.quantity:
            raise NotEnough(self.item, quantity, self.quantity)
        return replace(self, quantity=self.quantity - quantity)

    def open(self, today: date, keeps_days: int) -> Batch:
        """The batch after its package was opened."""
        return replace(self, best_before=once_opened(self.best_before, today, keeps_days))

    def matches(self, other: Batch) -> bool:
        """Whether two batches can be kept as one."""
        return self.item == other.item and self.bought == other.bought and self.best_before == other.best_before


def oldest_first(batches: Iterable[Batch]) -> list[Batch]:
    """In the order to use them: by best-before date, then by the day they were bought."""
    return sorted(batches, key=lambda batch: (urgency(batch.best_before), batch.bought))


def usable(batches: Iterable[Batch], today: date) -> list[Batch]:
    """Those that may still be eaten, oldest first."""
    good = [batch for batch in batches if batch.freshness(today) is not Freshness.EXPIRED]
    return [batch for batch in oldest_first(good) if not batch.is_empty]


def merge(batches: Iterable[Batch]) -> list[Batch]:
    """The same stock in as few batches as possible, without empty ones."""
    merged: list[Batch] = []
    for batch in batches:
        if batch.is_empty:
            continue
        for position, other in enumerate(merged):
            if other.matches(batch):
                merged[position] = replace(other, quantity=other.quantity + batch.quantity)
                break
        else:
            merged.append(batch)
    return merged
