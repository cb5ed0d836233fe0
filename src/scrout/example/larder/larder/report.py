"""Plain-text reports for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from larder.batches import Batch
from larder.dates import describe_days
from larder.expiry import Freshness, days_left
from larder.recipes import Ingredient
from larder.stock import Stock

HEADINGS = ("item", "amount", "best before", "")


def table(rows: Iterable[Sequence[str]]) -> str:
    """Columns, as wide as their widest cell; numbers are not treated specially."""
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def best_before_words(batch: Batch, today: date) -> str:
    """When a batch has to be used by, as one would say it."""
    left = days_left(batch.best_before, today)
    return "keeps for ever" if left is None else describe_days(left)


def stock_report(stock: Stock, today: date, within_days: int | None = None) -> str:
    """The batches, most urgent first; `within_days` leaves out what lasts longer than that."""
    rows: list[Sequence[str]] = []
    for batch in stock.batches:
        left = days_left(batch.best_before, today)
        if within_days is not None and (left is None or left > within_days):
            continue
        state = batch.freshness(today)
        mark = "" if state is Freshness.FRESH else state.value
        rows.append((stock.item(batch.item).name, str(batch.quantity), best_before_words(batch, today), mark))
    if not rows:
        return "nothing to show"
    return table([HEADINGS, *rows])


def summary(stock: Stock, today: date) -> str:
    """One line: how much there is, and how much of it is in a hurry."""
    states = [batch.freshness(today) for batch in stock.batches]
    parts = [_count(len(states), "batch", "batches")]
    for state in (Freshness.SOON, Freshness.EXPIRED):
        if state in states:
            parts.append(f"{states.count(state)} {state.value}")
    return ", ".join(parts)


def shopping_report(lines: Sequence[Ingredient]) -> str:
    """The shopping list with boxes to tick."""
    if not lines:
        return "nothing to buy"
    return "\n".join(f"[ ] {line}" for line in lines)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
