import unittest

from larder.naming import display, key, singular, slug


class NamingTest(unittest.TestCase):
    def test_slug(self):
        self.assertEqual(slug("  Crème  fraîche (30%)"), "creme-fraiche-30")

    def test_singular(self):
        for plural, word in [
            ("eggs", "egg"),
            ("tomatoes", "tomato"),
            ("cherries", "cherry"),
            ("radishes", "radish"),
            ("leaves", "leaf"),
            ("couscous", "couscous"),
            ("watercress", "watercress"),
            ("gas", "gas"),
        ]:
            with self.subTest(plural):
                self.assertEqual(singular(plural), word)

    def test_one_thing_has_one_key(self):
        self.assertEqual(key("Spring Onions"), key("spring onion"))
        self.assertNotEqual(key("onion"), key("spring onion"))

    def test_display_keeps_the_case(self):
        self.assertEqual(display(" Earl  Grey "), "Earl Grey")
