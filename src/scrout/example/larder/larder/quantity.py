"""Quantities: an amount with its unit, such as 1.5 kg."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import total_ordering

from larder.errors import QuantityError
from larder.units import convert, find_unit, shown_unit

_PATTERN = re.compile(r"(?P<whole>\d+(?:[.,]\d+)?)(?:/(?P<parts>\d+))?\s*(?P<unit>[a-z]*)", re.IGNORECASE)
_PLACES = Decimal("0.01")


@total_ordering
@dataclass(frozen=True, eq=False)
class Quantity:
    """An amount in a unit. Quantities of one dimension compare and add, whatever their units."""

    amount: Decimal
    unit: str

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise QuantityError(f"a quantity cannot be negative, and {self.amount} {self.unit} is")

    @property
    def dimension(self) -> str:
        return find_unit(self.unit).dimension

    @property
    def is_zero(self) -> bool:
        return self.amount == 0

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit."""
        return Quantity(convert(self.amount, self.unit, unit), find_unit(unit).symbol)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.amount + other.to(self.unit).amount, self.unit)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.amount - other.to(self.unit).amount, self.unit)

    def __mul__(self, factor: Decimal | int) -> Quantity:
        return Quantity(self.amount * factor, self.unit)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.dimension == other.dimension and self.amount == other.to(self.unit).amount

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.to(self.unit).amount

    def __hash__(self) -> int:
        return hash((self.dimension, convert(self.amount, self.unit, _base(self.unit))))

    def __str__(self) -> str:
        unit = shown_unit(self.amount, self.unit)
        number = convert(self.amount, self.unit, unit).quantize(_PLACES)
        digits = f"{number:f}".rstrip("0").rstrip(".")
        return digits if unit == "pc" else f"{digits} {unit}"


def parse_quantity(text: str) -> Quantity:
    """Read "1.5 kg", "1,5kg", "1/2 l" or a plain count such as "3"."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"cannot read {text!r} as a quantity; write it like 250 g or 1.5 l")
    amount = Decimal(match["whole"].replace(",", "."))
    if match["parts"] is not None:
        parts = int(match["parts"])
        if parts == 0:
            raise QuantityError(f"cannot divide by zero in {text!r}")
        amount = amount / parts
    return Quantity(amount, find_unit(match["unit"]).symbol)


def total(quantities: Iterable[Quantity], unit: str) -> Quantity:
    """The sum, in the given unit; nothing adds up to zero."""
    result = Quantity(Decimal(0), unit)
    for quantity in quantities:
        result = result + quantity
    return result


def _base(unit: str) -> str:
    return {"weight": "g", "volume": "ml", "count": "pc"}[find_unit(unit).dimension]
