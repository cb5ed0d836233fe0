"""The stock as a JSON file."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

from larder.batches import Batch
from larder.errors import LarderError, StoreError
from larder.items import Item
from larder.quantity import Quantity
from larder.stock import Stock

VERSION = 2


def load(path: Path) -> Stock:
    """Read a stock; a file that does not exist yet is an empty one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Stock()
    except ValueError as error:
        raise StoreError(f"{path} is not valid JSON: {error}") from None
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, InvalidOperation) as error:
        raise StoreError(f"{path} is damaged: {error!r}") from None
    except LarderError as error:
        raise StoreError(f"{path}: {error}") from None


def save(stock: Stock, path: Path) -> None:
    """Write a stock. The old file is replaced only when the new one is complete."""
    document = {
        "version": VERSION,
        "items": [_item_row(item) for item in stock.items],
        "batches": [_batch_row(batch) for batch in stock.batches],
    }
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)


def _read(document: dict) -> Stock:
    version = document["version"]
    if version > VERSION:
        raise StoreError(f"it was written by a newer larder (format {version}); this one reads up to {VERSION}")
    items = [_item(row) for row in document["items"]]
    batches = [_batch(row) for row in document["batches"]]
    return Stock(items, batches)


def _item(row: dict) -> Item:
    # Format 1 had neither minimums nor shelf lives.
    return Item(row["name"], row["unit"], _quantity(row.get("minimum")), row.get("shelf_life_days"))


def _batch(row: dict) -> Batch:
    quantity = _quantity(row["quantity"])
    if quantity is None:
        raise ValueError(f"a batch of {row['item']} has no quantity")
    return Batch(row["item"], quantity, date.fromisoformat(row["bought"]), _date(row["best_before"]))


def _quantity(pair: list | None) -> Quantity | None:
    return None if pair is None else Quantity(Decimal(pair[0]), pair[1])


def _date(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _item_row(item: Item) -> dict:
    minimum = None if item.minimum is None else [str(item.minimum.amount), item.minimum.unit]
    return {"name": item.name, "unit": item.unit, "minimum": minimum, "shelf_life_days": item.shelf_life_days}


def _batch_row(batch: Batch) -> dict:
    return {
        "item": batch.item,
        "quantity": [str(batch.quantity.amount), batch.quantity.unit],
        "bought": batch.bought.isoformat(),
        "best_before": None if batch.best_before is None else batch.best_before.isoformat(),
    }
