import unittest
from datetime import date
from decimal import Decimal

from larder.errors import UnitError, UnknownItem
from larder.items import Item
from larder.quantity import Quantity, parse_quantity
from larder.stock import Stock

MONDAY = date(2024, 5, 6)
FRIDAY = date(2024, 5, 10)


class StockTest(unittest.TestCase):
    def setUp(self):
        self.stock = Stock()
        self.stock.put("Milk", parse_quantity("1 l"), MONDAY, date(2024, 5, 8))
        self.stock.put("milk", parse_quantity("500 ml"), MONDAY, date(2024, 5, 15))
        self.stock.put("Salt", parse_quantity("500 g"), MONDAY)

    def test_items_are_known_by_any_spelling(self):
        self.assertEqual([item.name for item in self.stock.items], ["Milk", "Salt"])
        self.assertEqual(len(self.stock.batches_of("MILK")), 2)
        with self.assertRaises(UnknownItem):
            self.stock.item("tea")

    def test_available_counts_what_is_not_expired(self):
        self.assertEqual(self.stock.available("milk", MONDAY), parse_quantity("1.5 l"))
        self.assertEqual(self.stock.available("milk", FRIDAY), parse_quantity("500 ml"))
        self.assertEqual(self.stock.available("milk", date(2024, 6, 1)), Quantity(Decimal(0), "l"))
        self.assertEqual(self.stock.available("salt", date(2034, 6, 1)), parse_quantity("500 g"))

    def test_an_item_keeps_its_unit(self):
        with self.assertRaisesRegex(UnitError, "Milk is counted in l"):
            self.stock.put("milk", parse_quantity("300 g"), MONDAY)

    def test_the_same_purchase_is_one_batch(self):
        self.stock.put("salt", parse_quantity("1 kg"), MONDAY)
        self.assertEqual([batch.quantity for batch in self.stock.batches_of("salt")], [parse_quantity("1.5 kg")])

    def test_shelf_life_stands_in_for_a_printed_date(self):
        self.stock.define(Item("Bread", "pc", shelf_life_days=4))
        self.assertEqual(self.stock.put("bread", parse_quantity("1"), MONDAY).best_before, FRIDAY)
        self.assertEqual(self.stock.put("bread", parse_quantity("1"), MONDAY, MONDAY).best_before, MONDAY)

    def test_discard_expired(self):
        thrown = self.stock.discard_expired(FRIDAY)
        self.assertEqual([batch.quantity for batch in thrown], [parse_quantity("1 l")])
        self.assertEqual(len(self.stock.batches), 2)
        self.assertEqual(self.stock.discard_expired(FRIDAY), [])

    def test_running_low(self):
        self.stock.define(Item("Salt", "g", minimum=parse_quantity("500 g")))
        self.stock.define(Item("Milk", "l", minimum=parse_quantity("1 l")))
        self.assertEqual([item.name for item in self.stock.running_low(MONDAY)], [])
        self.assertEqual([item.name for item in self.stock.running_low(FRIDAY)], ["Milk"])
