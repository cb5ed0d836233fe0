import unittest
from decimal import Decimal

from larder.errors import QuantityError, UnitError
from larder.quantity import Quantity, parse_quantity, total


class ParseTest(unittest.TestCase):
    def test_forms_that_people_type(self):
        for text, amount, unit in [
            ("1.5 kg", "1.5", "kg"),
            ("1,5kg", "1.5", "kg"),
            (" 250 g ", "250", "g"),
            ("1/2 l", "0.5", "l"),
            ("3", "3", "pc"),
            ("2 Tablespoons", "2", "tbsp"),
        ]:
            with self.subTest(text):
                quantity = parse_quantity(text)
                self.assertEqual((quantity.amount, quantity.unit), (Decimal(amount), unit))

    def test_nonsense_is_refused(self):
        for text in ("", "some", "-3 g", "1/0 l", "1 2 g"):
            with self.subTest(text), self.assertRaises(QuantityError):
                parse_quantity(text)

    def test_unknown_unit(self):
        with self.assertRaisesRegex(UnitError, "bushel"):
            parse_quantity("1 bushel")


class ArithmeticTest(unittest.TestCase):
    def test_units_mix_within_a_dimension(self):
        self.assertEqual(parse_quantity("1 kg") + parse_quantity("250 g"), parse_quantity("1250 g"))
        self.assertEqual(parse_quantity("1 l") - parse_quantity("25 cl"), parse_quantity("750 ml"))

    def test_weight_is_not_volume(self):
        with self.assertRaises(UnitError):
            parse_quantity("1 kg") + parse_quantity("1 l")
        self.assertNotEqual(parse_quantity("1 kg"), parse_quantity("1 l"))

    def test_nothing_is_less_than_nothing(self):
        with self.assertRaises(QuantityError):
            parse_quantity("100 g") - parse_quantity("101 g")
        self.assertTrue((parse_quantity("100 g") - parse_quantity("0.1 kg")).is_zero)

    def test_order(self):
        self.assertLess(parse_quantity("900 g"), parse_quantity("1 kg"))
        self.assertGreaterEqual(parse_quantity("1000 g"), parse_quantity("1 kg"))

    def test_equal_quantities_have_equal_hashes(self):
        self.assertEqual(len({parse_quantity("1 kg"), parse_quantity("1000 g"), parse_quantity("1 l")}), 2)

    def test_total(self):
        parts = [parse_quantity("1 l"), parse_quantity("200 ml")]
        self.assertEqual(total(parts, "ml"), parse_quantity("1.2 l"))
        self.assertEqual(total([], "g"), Quantity(Decimal(0), "g"))


class ShownTest(unittest.TestCase):
    def test_the_unit_fits_the_amount(self):
        for text, shown in [
            ("1500 g", "1.5 kg"),
            ("0.2 kg", "200 g"),
            ("1000 ml", "1 l"),
            ("2 tbsp", "30 ml"),
            ("12", "12"),
        ]:
            with self.subTest(text):
                self.assertEqual(str(parse_quantity(text)), shown)


if __name__ == "__main__":
    unittest.main()
