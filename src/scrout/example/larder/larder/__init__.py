"""Larder keeps track of a kitchen's stock."""

from larder.quantity import Quantity, parse_quantity
from larder.recipes import Recipe
from larder.stock import Stock

__version__ = "0.4.1"

__all__ = ["Quantity", "Recipe", "Stock", "parse_quantity"]
