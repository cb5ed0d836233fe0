import tempfile
import unittest
from datetime import date
from pathlib import Path

from larder.errors import StoreError
from larder.items import Item
from larder.quantity import parse_quantity
from larder.stock import Stock
from larder.store import load, save


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "larder.json"

    def test_what_is_saved_is_loaded(self):
        stock = Stock([Item("Flour", "kg", parse_quantity("500 g"), 300)])
        stock.put("Flour", parse_quantity("1.5 kg"), date(2024, 5, 6))
        stock.put("Crème fraîche", parse_quantity("200 g"), date(2024, 5, 6), date(2024, 5, 20))
        save(stock, self.path)
        loaded = load(self.path)
        self.assertEqual(loaded.items, stock.items)
        self.assertEqual(loaded.batches, stock.batches)
        self.assertEqual([path.name for path in self.path.parent.iterdir()], ["larder.json"])

    def test_no_file_is_an_empty_stock(self):
        self.assertEqual(load(self.path).batches, [])

    def test_the_first_format_is_still_read(self):
        self.path.write_text('{"version": 1, "items": [{"name": "Tea", "unit": "g"}], "batches": []}', encoding="utf-8")
        self.assertEqual(load(self.path).items, [Item("Tea", "g")])

    def test_what_cannot_be_read_is_refused(self):
        row = '{"item": "tea", "quantity": %s, "bought": "2024-05-06", "best_before": null}'
        document = '{"version": 2, "items": [], "batches": [%s]}'
        for text, word in [
            ("{", "not valid JSON"),
            ("[]", "damaged"),
            ('{"version": 2}', "damaged"),
            ('{"version": 3, "items": [], "batches": []}', "newer"),
            (document % (row % "null"), "no quantity"),
            (document % (row % '["-1", "g"]'), "negative"),
        ]:
            self.path.write_text(text, encoding="utf-8")
            with self.subTest(text), self.assertRaisesRegex(StoreError, word):
                load(self.path)
