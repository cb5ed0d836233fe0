"""Recipes, and the plain text they are written in: a title, the servings, then one ingredient a line."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal

from larder.errors import LarderError, RecipeError
from larder.naming import display, key
from larder.quantity import Quantity, parse_quantity
from larder.units import is_unit

_SERVINGS = re.compile(r"(?:serves\s+(\d+)|(\d+)\s+servings?)", re.IGNORECASE)
_LINE = re.compile(r"(?P<number>\d+(?:[.,/]\d+)?)\s*(?P<rest>.+)")


@dataclass(frozen=True)
class Ingredient:
    """So much of something."""

    name: str
    quantity: Quantity

    @property
    def key(self) -> str:
        return key(self.name)

    def __str__(self) -> str:
        return f"{self.quantity} {self.name}"


@dataclass(frozen=True)
class Recipe:
    """What a dish takes, for a number of servings."""

    title: str
    servings: int
    ingredients: tuple[Ingredient, ...]

    def scaled(self, servings: int) -> Recipe:
        """The recipe for another number of people."""
        if servings < 1:
            raise RecipeError(f"{self.title} cannot be cooked for {servings}")
        factor = Decimal(servings) / self.servings
        ingredients = tuple(replace(part, quantity=part.quantity * factor) for part in self.ingredients)
        return replace(self, servings=servings, ingredients=ingredients)


def parse_recipe(text: str) -> Recipe:
    """Read a recipe. Empty lines and lines that start with # do not count."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) < 3:
        raise RecipeError("a recipe needs a title, the servings and at least one ingredient")
    title, servings_line, *ingredient_lines = lines
    match = _SERVINGS.fullmatch(servings_line)
    if match is None:
        raise RecipeError(f"{title}: the second line should say for how many it is, not {servings_line!r}")
    servings = int(match[1] or match[2])
    if servings == 0:
        raise RecipeError(f"{title}: a recipe is for at least one")
    return Recipe(title, servings, tuple(parse_ingredient(line) for line in ingredient_lines))


def parse_ingredient(line: str) -> Ingredient:
    """Read "250 g flour" or "3 eggs"."""
    match = _LINE.fullmatch(line.strip().removeprefix("- "))
    if match is None:
        raise RecipeError(f"cannot read {line!r} as an ingredient; write it like 250 g flour or 3 eggs")
    word, _, name = match["rest"].partition(" ")
    if not name or not is_unit(word):
        word, name = "", match["rest"]
    try:
        quantity = parse_quantity(f"{match['number']} {word}")
    except LarderError as error:
        raise RecipeError(f"in {line!r}: {error}") from None
    return Ingredient(display(name), quantity)
