import unittest
from datetime import date

from larder.expiry import Freshness, days_left, freshness, once_opened

TODAY = date(2024, 5, 10)


class FreshnessTest(unittest.TestCase):
    def test_goes_from_fresh_to_expired(self):
        self.assertIs(freshness(date(2024, 5, 20), TODAY), Freshness.FRESH)
        self.assertIs(freshness(date(2024, 5, 14), TODAY), Freshness.FRESH)
        self.assertIs(freshness(date(2024, 5, 13), TODAY), Freshness.SOON)
        self.assertIs(freshness(date(2024, 5, 11), TODAY), Freshness.SOON)
        self.assertIs(freshness(date(2024, 5, 9), TODAY), Freshness.EXPIRED)
        self.assertIs(freshness(date(2023, 5, 9), TODAY), Freshness.EXPIRED)

    def test_no_date_keeps_for_ever(self):
        self.assertIs(freshness(None, TODAY), Freshness.FRESH)
        self.assertIsNone(days_left(None, TODAY))

    def test_the_warning_can_come_earlier(self):
        self.assertIs(freshness(date(2024, 5, 17), TODAY, warn_days=7), Freshness.SOON)

    def test_opening_never_prolongs(self):
        self.assertEqual(once_opened(date(2024, 6, 1), TODAY, 3), date(2024, 5, 13))
        self.assertEqual(once_opened(date(2024, 5, 11), TODAY, 3), date(2024, 5, 11))
        self.assertEqual(once_opened(None, TODAY, 3), date(2024, 5, 13))
