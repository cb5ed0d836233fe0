import unittest
from datetime import date

from larder.consume import consume, cook
from larder.errors import NotEnough, UnknownItem
from larder.quantity import parse_quantity
from larder.recipes import parse_recipe
from larder.stock import Stock

MONDAY = date(2024, 5, 6)
FRIDAY = date(2024, 5, 10)


class ConsumeTest(unittest.TestCase):
    def setUp(self):
        self.stock = Stock()
        self.stock.put("Milk", parse_quantity("1 l"), MONDAY, date(2024, 5, 15))
        self.stock.put("Milk", parse_quantity("500 ml"), MONDAY, date(2024, 5, 8))
        self.stock.put("Eggs", parse_quantity("6"), MONDAY, date(2024, 5, 30))

    def test_oldest_first(self):
        taken = consume(self.stock, "milk", parse_quantity("700 ml"), MONDAY)
        self.assertEqual([part.quantity for part in taken], [parse_quantity("500 ml"), parse_quantity("200 ml")])
        self.assertEqual([part.empties for part in taken], [True, False])
        self.assertEqual(self.stock.available("milk", MONDAY), parse_quantity("800 ml"))

    def test_a_batch_that_is_used_up_is_gone(self):
        consume(self.stock, "milk", parse_quantity("500 ml"), MONDAY)
        self.assertEqual([batch.best_before for batch in self.stock.batches_of("milk")], [date(2024, 5, 15)])

    def test_expired_batches_are_left_alone(self):
        consume(self.stock, "milk", parse_quantity("1 l"), FRIDAY)
        self.assertEqual([batch.best_before for batch in self.stock.batches_of("milk")], [date(2024, 5, 8)])

    def test_all_or_nothing(self):
        with self.assertRaisesRegex(NotEnough, "1.2 l wanted, 1 l there"):
            consume(self.stock, "milk", parse_quantity("1.2 l"), FRIDAY)
        self.assertEqual(len(self.stock.batches_of("milk")), 2)
        consume(self.stock, "milk", parse_quantity("1.5 l"), MONDAY)
        self.assertTrue(self.stock.available("milk", MONDAY).is_zero)

    def test_cook(self):
        cook(parse_recipe("Omelette\n1 serving\n3 eggs\n50 ml milk"), self.stock, MONDAY)
        self.assertEqual(self.stock.available("egg", MONDAY), parse_quantity("3"))
        self.assertEqual(self.stock.available("milk", MONDAY), parse_quantity("1450 ml"))

    def test_cook_takes_nothing_when_one_thing_is_short(self):
        with self.assertRaises(NotEnough):
            cook(parse_recipe("Omelette\nserves 3\n50 ml milk\n7 eggs"), self.stock, MONDAY)
        with self.assertRaises(UnknownItem):
            cook(parse_recipe("Omelette\nserves 3\n1 egg\n5 g salt"), self.stock, MONDAY)
        self.assertEqual(self.stock.available("egg", MONDAY), parse_quantity("6"))
