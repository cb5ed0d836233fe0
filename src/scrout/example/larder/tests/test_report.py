import unittest
from datetime import date

from larder.quantity import parse_quantity
from larder.recipes import parse_ingredient
from larder.report import shopping_report, stock_report, summary, table
from larder.stock import Stock

TODAY = date(2024, 5, 10)


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.stock = Stock()
        self.stock.put("Salt", parse_quantity("500 g"), TODAY)
        self.stock.put("Milk", parse_quantity("1 l"), TODAY, date(2024, 5, 11))
        self.stock.put("Yoghurt", parse_quantity("150 g"), TODAY, date(2024, 5, 8))
        self.stock.put("Butter", parse_quantity("250 g"), TODAY, date(2024, 6, 10))

    def test_most_urgent_first(self):
        self.assertEqual(
            stock_report(self.stock, TODAY).splitlines(),
            [
                "item     amount  best before",
                "Yoghurt  150 g   2 days ago      expired",
                "Milk     1 l     tomorrow        use soon",
                "Butter   250 g   in 4 weeks",
                "Salt     500 g   keeps for ever",
            ],
        )

    def test_within(self):
        report = stock_report(self.stock, TODAY, within_days=1)
        self.assertEqual([line.split()[0] for line in report.splitlines()], ["item", "Yoghurt", "Milk"])
        self.assertEqual(stock_report(Stock(), TODAY), "nothing to show")

    def test_summary(self):
        self.assertEqual(summary(self.stock, TODAY), "4 batches, 1 use soon, 1 expired")
        self.assertEqual(summary(Stock(), TODAY), "0 batches")

    def test_shopping(self):
        self.assertEqual(shopping_report([parse_ingredient("250 g flour")]), "[ ] 250 g flour")
        self.assertEqual(shopping_report([]), "nothing to buy")

    def test_empty_table(self):
        self.assertEqual(table([]), "")
