"""Published figures beside recomputed ones, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeGuard

from scrout.base import FrozenModel

Place = tuple[str, ...]
"""Where a figure stands: its table, then the keys down to it."""
Status = Literal["agrees", "differs", "contradicted", "not backed"]
"""`differs`: the receipts ought to give it, and give another. `contradicted`: they give another of something alike."""

ENDS = ("low", "high")
_ROUNDING = 1e-9
_NOT_FIGURES = ("source", "backed", "columns")


@dataclass(frozen=True)
class ReceiptValue:
    """What the receipts say of one cell."""

    value: float
    slack: float = 0.0
    """By how much it may differ beyond the rounding of what is printed: an end of a bootstrap depends on its seed."""
    otherwise: Status = "differs"
    """What it is called if it is another."""
    note: str = ""


class PublishedCell(FrozenModel):
    """One published figure, and ours."""

    table: str
    name: str
    ours: float | None
    """None: the receipts do not say."""
    published: float
    digits: int
    """Decimals that the published one is printed with."""
    status: Status
    note: str
    """What ours is, where it is not the same thing to the letter; empty: it is."""


def cells(published: Mapping[str, Any], said: Mapping[Place, ReceiptValue]) -> tuple[PublishedCell, ...]:
    """Every figure that is published, in its order."""
    return tuple(_cell(place, figure, said.get(place)) for place, figure in _figures(published, ()))


def _cell(place: Place, published: float, said: ReceiptValue | None) -> PublishedCell:
    digits = _digits(published)
    labels = [part for part in place[1:] if part != "rows"]
    if said is not None and math.isnan(said.value):
        said = None  # a cost behind it is unknown
    if said is None:
        status: Status = "not backed"
    else:
        off = abs(said.value - published) - said.slack
        status = "agrees" if off <= 0.5 * 10**-digits + _ROUNDING else said.otherwise
    return PublishedCell(
        table=place[0],
        name=", ".join(labels),
        ours=said.value if said else None,
        published=float(published),
        digits=digits,
        status=status,
        note=said.note if said else "",
    )


def _figures(stored: object, place: Place, columns: Sequence[str] = ()) -> Iterator[tuple[Place, int | float]]:
    """Each number below, with its place. A list's numbers are of the table's columns, or the ends of an interval."""
    if isinstance(stored, Mapping):
        columns = stored.get("columns", columns)
        for key, value in stored.items():
            if key not in _NOT_FIGURES:
                yield from _figures(value, (*place, key), columns)
    elif isinstance(stored, list):
        names = columns if len(stored) == len(columns) else ENDS
        for name, value in zip(names, stored, strict=False):
            yield from _figures(value, (*place, name))
    elif _is_figure(stored):
        yield place, stored


def _is_figure(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _digits(figure: float) -> int:
    """As it is written: 24.0 has one decimal, and 24 is rounded to the whole."""
    exponent = Decimal(str(figure)).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
