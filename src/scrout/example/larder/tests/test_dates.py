import unittest
from datetime import date

from larder.dates import add_months, days_between, describe_days, parse_date
from larder.errors import DateError

TODAY = date(2024, 2, 28)


class ParseTest(unittest.TestCase):
    def test_forms(self):
        for text, day in [
            ("2024-05-14", date(2024, 5, 14)),
            ("14.5.2024", date(2024, 5, 14)),
            ("today", TODAY),
            ("Tomorrow", date(2024, 2, 29)),
            ("+10d", date(2024, 3, 9)),
            ("+2w", date(2024, 3, 13)),
            ("+6m", date(2024, 8, 28)),
        ]:
            with self.subTest(text):
                self.assertEqual(parse_date(text, TODAY), day)

    def test_nonsense_is_refused(self):
        for text in ("", "soon", "2024-13-01", "31.2.2024", "+3y"):
            with self.subTest(text), self.assertRaises(DateError):
                parse_date(text, TODAY)


class ArithmeticTest(unittest.TestCase):
    def test_days_between(self):
        self.assertEqual(days_between(TODAY, date(2024, 3, 1)), 2)
        self.assertEqual(days_between(TODAY, TODAY), 0)
        self.assertEqual(days_between(date(2024, 3, 1), TODAY), -2)

    def test_months_are_clipped_and_roll_over(self):
        self.assertEqual(add_months(date(2024, 1, 31), 1), date(2024, 2, 29))
        self.assertEqual(add_months(date(2024, 11, 30), 1), date(2024, 12, 30))
        self.assertEqual(add_months(date(2024, 11, 30), 3), date(2025, 2, 28))

    def test_words(self):
        words = {
            0: "today",
            1: "tomorrow",
            -1: "yesterday",
            -5: "5 days ago",
            2: "in 2 days",
            13: "in 13 days",
            14: "in 2 weeks",
            30: "in 4 weeks",
        }
        self.assertEqual({days: describe_days(days) for days in words}, words)
