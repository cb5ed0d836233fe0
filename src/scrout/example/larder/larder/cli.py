"""The command line: parse, change the stock, say what happened."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from larder import report, store
from larder.consume import consume, cook
from larder.dates import parse_date
from larder.errors import LarderError
from larder.quantity import parse_quantity
from larder.recipes import Recipe, parse_recipe
from larder.shopping import shopping_list
from larder.stock import Stock

DEFAULT_FILE = Path("larder.json")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="larder", description="Keeps track of what is in the kitchen.")
    parser.add_argument("--file", type=Path, default=DEFAULT_FILE, help="the stock file (default: %(default)s)")
    parser.add_argument("--today", help="pretend that today is this date")
    commands = parser.add_subparsers(dest="command", required=True)

    add = commands.add_parser("add", help="put something into the larder")
    add.add_argument("name")
    add.add_argument("quantity")
    add.add_argument("--best-before", help="a date, or a time ahead such as +10d")

    use = commands.add_parser("use", help="take something out, oldest first")
    use.add_argument("name")
    use.add_argument("quantity")

    listing = commands.add_parser("list", help="show what is there")
    listing.add_argument("--within", type=int, metavar="DAYS", help="only what has to be used in this many days")

    shop = commands.add_parser("shop", help="what to buy for some recipes")
    shop.add_argument("recipes", nargs="*", type=Path)
    shop.add_argument("--restock", action="store_true", help="also fill up what is below its minimum")

    cooking = commands.add_parser("cook", help="take out what a recipe needs")
    cooking.add_argument("recipe", type=Path)
    cooking.add_argument("--servings", type=int)

    commands.add_parser("discard", help="throw out what is expired")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    options = build_parser().parse_args(arguments)
    try:
        today = date.today() if options.today is None else parse_date(options.today, date.today())
        stock = store.load(options.file)
        print(run(options, stock, today))
        if options.command in {"add", "use", "cook", "discard"}:
            store.save(stock, options.file)
    except (LarderError, OSError) as error:
        print(f"larder: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace, stock: Stock, today: date) -> str:
    """Do what was asked for, and return what to print."""
    if options.command == "add":
        printed = None if options.best_before is None else parse_date(options.best_before, today)
        batch = stock.put(options.name, parse_quantity(options.quantity), today, printed)
        return f"added {batch.quantity} {stock.item(batch.item).name}"
    if options.command == "use":
        taken = consume(stock, options.name, parse_quantity(options.quantity), today)
        return "\n".join(f"took {part.quantity} {stock.item(part.batch.item).name}" for part in taken)
    if options.command == "shop":
        recipes = [_recipe(path) for path in options.recipes]
        return report.shopping_report(shopping_list(recipes, stock, today, options.restock))
    if options.command == "cook":
        recipe = _recipe(options.recipe)
        cook(recipe if options.servings is None else recipe.scaled(options.servings), stock, today)
        return f"enjoy your {recipe.title.lower()}"
    if options.command == "discard":
        return f"threw out {len(stock.discard_expired(today))}"
    return report.stock_report(stock, today, options.within) + "\n\n" + report.summary(stock, today)


def _recipe(path: Path) -> Recipe:
    return parse_recipe(path.read_text(encoding="utf-8"))
