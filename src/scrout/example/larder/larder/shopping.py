"""The shopping list: what the next recipes need and the stock does not have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from larder.quantity import Quantity
from larder.recipes import Ingredient, Recipe
from larder.stock import Stock


def needs(recipes: Iterable[Recipe]) -> list[Ingredient]:
    """All ingredients of some recipes, each once, by name."""
    merged: dict[str, Ingredient] = {}
    for recipe in recipes:
        for part in recipe.ingredients:
            known = merged.get(part.key)
            merged[part.key] = part if known is None else replace(known, quantity=known.quantity + part.quantity)
    return [merged[name] for name in sorted(merged)]


def missing(need: Ingredient, stock: Stock, today: date) -> Quantity | None:
    """How much of an ingredient has to be bought; None: enough is there."""
    if not stock.knows(need.name):
        return need.quantity
    available = stock.available(need.name, today)
    if available >= need.quantity:
        return None
    return need.quantity - available


def shopping_list(recipes: Iterable[Recipe], stock: Stock, today: date, restock: bool = False) -> list[Ingredient]:
    """What to buy to cook these recipes, by name; with `restock`, also to get back above every minimum."""
    wanted = needs(recipes)
    if restock:
        wanted = _with_minimums(wanted, stock)
    lines = []
    for need in wanted:
        short = missing(need, stock, today)
        if short is not None:
            lines.append(replace(need, quantity=short))
    return lines


def _with_minimums(wanted: list[Ingredient], stock: Stock) -> list[Ingredient]:
    """The minimum has to be there after cooking, so it comes on top of what the recipes need."""
    by_key = {need.key: need for need in wanted}
    for item in stock.items:
        if item.minimum is None:
            continue
        need = by_key.get(item.key)
        quantity = item.minimum if need is None else need.quantity + item.minimum
        by_key[item.key] = Ingredient(item.name, quantity)
    return [by_key[name] for name in sorted(by_key)]
