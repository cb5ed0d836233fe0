import unittest
from datetime import date

from larder.items import Item
from larder.quantity import parse_quantity
from larder.recipes import parse_recipe
from larder.shopping import needs, shopping_list
from larder.stock import Stock

MONDAY = date(2024, 5, 6)
FRIDAY = date(2024, 5, 10)
PANCAKES = parse_recipe("Pancakes\n4 servings\n250 g flour\n500 ml milk\n3 eggs")
PUDDING = parse_recipe("Pudding\n2 servings\n300 ml milk\n1 egg\n40 g sugar")


def lines(recipes, stock, today, **options):
    return [str(line) for line in shopping_list(recipes, stock, today, **options)]


class ShoppingTest(unittest.TestCase):
    def setUp(self):
        self.stock = Stock()
        self.stock.put("Flour", parse_quantity("1 kg"), MONDAY, date(2025, 1, 1))
        self.stock.put("Milk", parse_quantity("500 ml"), MONDAY, date(2024, 5, 9))
        self.stock.put("Eggs", parse_quantity("2"), MONDAY, date(2024, 5, 20))

    def test_recipes_share_ingredients(self):
        self.assertEqual(
            [str(need) for need in needs([PANCAKES, PUDDING])], ["4 eggs", "250 g flour", "800 ml milk", "40 g sugar"]
        )

    def test_only_what_is_missing(self):
        self.assertEqual(lines([PANCAKES], self.stock, MONDAY), ["1 eggs"])
        self.assertEqual(lines([PANCAKES, PUDDING], self.stock, MONDAY), ["2 eggs", "300 ml milk", "40 g sugar"])

    def test_expired_stock_does_not_count(self):
        self.assertEqual(lines([PANCAKES], self.stock, FRIDAY), ["1 eggs", "500 ml milk"])

    def test_an_empty_larder_needs_everything(self):
        self.assertEqual(lines([PUDDING], Stock(), MONDAY), ["1 egg", "300 ml milk", "40 g sugar"])
        self.assertEqual(lines([], self.stock, MONDAY), [])

    def test_restock_fills_up_after_cooking(self):
        self.stock.define(Item("Flour", "kg", minimum=parse_quantity("1 kg")))
        self.stock.define(Item("Eggs", "pc", minimum=parse_quantity("2")))
        self.assertEqual(lines([PANCAKES], self.stock, MONDAY, restock=True), ["3 Eggs", "250 g Flour"])
        self.assertEqual(lines([], self.stock, MONDAY, restock=True), [])
