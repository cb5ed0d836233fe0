"""Taking things out of the stock, the batch that has to go first at the front."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from larder.batches import Batch, usable
from larder.errors import NotEnough
from larder.quantity import Quantity
from larder.recipes import Recipe
from larder.shopping import needs
from larder.stock import Stock


@dataclass(frozen=True)
class Withdrawal:
    """How much to take from one batch."""

    batch: Batch
    quantity: Quantity

    @property
    def empties(self) -> bool:
        """Whether nothing is left of the batch afterwards."""
        return self.quantity == self.batch.quantity


def plan(batches: Iterable[Batch], wanted: Quantity) -> list[Withdrawal]:
    """What to take from which batch, in the order given; less than wanted when they do not hold as much."""
    withdrawals: list[Withdrawal] = []
    missing = wanted
    for batch in batches:
        if missing.is_zero:
            break
        part = min(batch.quantity, missing)
        withdrawals.append(Withdrawal(batch, part))
        missing = missing - part
    return withdrawals


def consume(stock: Stock, name: str, wanted: Quantity, today: date) -> list[Withdrawal]:
    """Take some of an item, all of it or nothing, and say from which batches."""
    item = stock.item(name)
    wanted = item.check(wanted)
    available = stock.available(name, today)
    if available < wanted:
        raise NotEnough(item.name, wanted, available)
    withdrawals = plan(usable(stock.batches_of(name), today), wanted)
    for withdrawal in withdrawals:
        stock.replace(withdrawal.batch, withdrawal.batch.take(withdrawal.quantity))
    return withdrawals


def cook(recipe: Recipe, stock: Stock, today: date) -> list[Withdrawal]:
    """Take everything that a recipe needs. When one ingredient is short, nothing is taken."""
    wanted = needs([recipe])
    for need in wanted:
        available = stock.available(need.name, today)
        if available < need.quantity:
            raise NotEnough(need.name, need.quantity, available)
    return [withdrawal for need in wanted for withdrawal in consume(stock, need.name, need.quantity, today)]
