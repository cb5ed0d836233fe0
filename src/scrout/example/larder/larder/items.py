"""Items: the kinds of things a larder holds, as opposed to the packages that stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from larder.errors import UnitError
from larder.naming import display, key
from larder.quantity import Quantity


@dataclass(frozen=True)
class Item:
    """A kind of thing, with the unit it is counted in."""

    name: str
    unit: str
    minimum: Quantity | None = None
    """Buy more below this; None: only buy it for recipes."""
    shelf_life_days: int | None = None
    """How long a new package lasts when no date is printed on it; None: for ever."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", display(self.name))
        if self.minimum is not None:
            self.check(self.minimum)

    @property
    def key(self) -> str:
        return key(self.name)

    def check(self, quantity: Quantity) -> Quantity:
        """The quantity in this item's unit; an error when it is counted in something else."""
        try:
            return quantity.to(self.unit)
        except UnitError:
            raise UnitError(f"{self.name} is counted in {self.unit}, not in {quantity.unit}") from None

    def best_before(self, bought: date, printed: date | None) -> date | None:
        """The date that counts: the printed one, else the item's usual shelf life."""
        if printed is not None:
            return printed
        if self.shelf_life_days is None:
            return None
        return bought + timedelta(days=self.shelf_life_days)
