"""The stock: every item, and the batches of it that are there."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from larder.batches import Batch, merge, oldest_first, usable
from larder.errors import UnknownItem
from larder.expiry import Freshness
from larder.items import Item
from larder.naming import key
from larder.quantity import Quantity, total


class Stock:
    """What is in the larder. An item stays known when the last of it is gone."""

    def __init__(self, items: Iterable[Item] = (), batches: Iterable[Batch] = ()) -> None:
        self._items = {item.key: item for item in items}
        self._batches = list(batches)

    @property
    def items(self) -> list[Item]:
        """Every known item, by name."""
        return sorted(self._items.values(), key=lambda item: item.key)

    @property
    def batches(self) -> list[Batch]:
        """Every batch, the one that has to go first at the front."""
        return oldest_first(self._batches)

    def knows(self, name: str) -> bool:
        return key(name) in self._items

    def item(self, name: str) -> Item:
        """The item of that name, however it is spelled."""
        try:
            return self._items[key(name)]
        except KeyError:
            raise UnknownItem(name) from None

    def define(self, item: Item) -> None:
        """Add an item, or replace what is known about it."""
        self._items[item.key] = item

    def put(self, name: str, quantity: Quantity, bought: date, best_before: date | None = None) -> Batch:
        """Add what was bought; an unknown name becomes a new item."""
        if not self.knows(name):
            self.define(Item(name, quantity.unit))
        item = self.item(name)
        batch = Batch(item.key, item.check(quantity), bought, item.best_before(bought, best_before))
        self._batches = merge([*self._batches, batch])
        return batch

    def batches_of(self, name: str) -> list[Batch]:
        """The item's batches, oldest first."""
        wanted = self.item(name).key
        return oldest_first(batch for batch in self._batches if batch.item == wanted)

    def available(self, name: str, today: date) -> Quantity:
        """How much of an item can be used today."""
        item = self.item(name)
        return total((batch.quantity for batch in usable(self.batches_of(name), today)), item.unit)

    def replace(self, old: Batch, new: Batch) -> None:
        """Put a changed batch in the place of the old one; an empty one is thrown out."""
        self._batches[self._batches.index(old)] = new
        self._batches = merge(self._batches)

    def discard_expired(self, today: date) -> list[Batch]:
        """Throw out whatever is expired, and say what it was."""
        expired = [batch for batch in self.batches if batch.freshness(today) is Freshness.EXPIRED]
        self._batches = [batch for batch in self._batches if batch not in expired]
        return expired

    def running_low(self, today: date) -> list[Item]:
        """Items of which less is there than their minimum."""
        return [
            item for item in self.items if item.minimum is not None and self.available(item.name, today) < item.minimum
        ]
