"""The units a kitchen uses, and how they convert."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from larder.errors import UnitError


@dataclass(frozen=True)
class Unit:
    """A unit of one dimension; `factor` is its size in the dimension's base unit."""

    symbol: str
    dimension: str
    factor: Decimal
    aliases: tuple[str, ...] = ()


UNITS = (
    Unit("g", "weight", Decimal(1), ("gram", "grams")),
    Unit("kg", "weight", Decimal(1000), ("kilo", "kilos", "kilogram", "kilograms")),
    Unit("ml", "volume", Decimal(1), ("millilitre", "millilitres")),
    Unit("tsp", "volume", Decimal(5), ("teaspoon", "teaspoons")),
    Unit("tbsp", "volume", Decimal(15), ("tablespoon", "tablespoons")),
    Unit("cl", "volume", Decimal(10), ("centilitre", "centilitres")),
    Unit("l", "volume", Decimal(1000), ("litre", "litres", "liter", "liters")),
    Unit("pc", "count", Decimal(1), ("", "piece", "pieces")),
)

# Spoons and centilitres are fine to type, but nobody wants "66.67 tbsp milk" in a report.
SHOWN = {"weight": ("g", "kg"), "volume": ("ml", "l"), "count": ("pc",)}

_BY_NAME = {name: unit for unit in UNITS for name in (unit.symbol, *unit.aliases)}


def find_unit(name: str) -> Unit:
    """The unit with this symbol or alias, in any case."""
    try:
        return _BY_NAME[name.strip().lower()]
    except KeyError:
        known = ", ".join(unit.symbol for unit in UNITS)
        raise UnitError(f"unknown unit {name!r}; known are {known}") from None


def is_unit(name: str) -> bool:
    """Whether a word is a unit (the empty word is not)."""
    return name != "" and name.strip().lower() in _BY_NAME


def convert(amount: Decimal, source: str, target: str) -> Decimal:
    """The amount in another unit of the same dimension."""
    from_unit, to_unit = find_unit(source), find_unit(target)
    if from_unit.dimension != to_unit.dimension:
        raise UnitError(f"{from_unit.dimension} in {source} does not convert to {to_unit.dimension} in {target}")
    return amount * from_unit.factor / to_unit.factor


def shown_unit(amount: Decimal, symbol: str) -> str:
    """The unit to show an amount in: the largest that still gives a number of at least one."""
    best, *larger = SHOWN[find_unit(symbol).dimension]
    for candidate in larger:
        if convert(amount, symbol, candidate) >= 1:
            best = candidate
    return best
