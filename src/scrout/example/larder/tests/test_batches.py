import unittest
from datetime import date

from larder.batches import Batch, merge, oldest_first, usable
from larder.errors import NotEnough
from larder.quantity import parse_quantity

TODAY = date(2024, 5, 10)


def batch(quantity, best_before=None, bought=date(2024, 5, 1)):
    return Batch("milk", parse_quantity(quantity), bought, best_before)


class BatchTest(unittest.TestCase):
    def test_take(self):
        left = batch("1 l").take(parse_quantity("400 ml"))
        self.assertEqual(left.quantity, parse_quantity("600 ml"))
        self.assertTrue(left.take(parse_quantity("600 ml")).is_empty)
        with self.assertRaises(NotEnough):
            left.take(parse_quantity("601 ml"))

    def test_open(self):
        self.assertEqual(batch("1 l", date(2024, 6, 1)).open(TODAY, 4).best_before, date(2024, 5, 14))

    def test_oldest_first(self):
        endless, late = batch("1 l"), batch("1 l", date(2024, 6, 1))
        early = batch("1 l", date(2024, 5, 20))
        earlier_bought = batch("1 l", date(2024, 5, 20), bought=date(2024, 4, 1))
        self.assertEqual(oldest_first([endless, late, early, earlier_bought]), [earlier_bought, early, late, endless])

    def test_usable_leaves_out_expired_and_empty(self):
        expired, empty = batch("1 l", date(2024, 5, 9)), batch("0 l", date(2024, 5, 20))
        good, endless = batch("1 l", date(2024, 5, 11)), batch("1 l")
        self.assertEqual(usable([endless, empty, good, expired], TODAY), [good, endless])

    def test_merge(self):
        first, second = batch("1 l", date(2024, 5, 20)), batch("500 ml", date(2024, 5, 20))
        other = batch("1 l", date(2024, 5, 21))
        merged = merge([first, other, batch("0 l"), second])
        self.assertEqual([part.quantity for part in merged], [parse_quantity("1.5 l"), parse_quantity("1 l")])
