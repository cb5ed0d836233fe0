import unittest

from larder.errors import RecipeError
from larder.quantity import parse_quantity
from larder.recipes import parse_ingredient, parse_recipe

PANCAKES = """
# from grandmother
Pancakes
4 servings

250 g flour
500 ml milk
- 3 eggs
1/2 tsp baking powder
"""


class RecipeTest(unittest.TestCase):
    def test_parse(self):
        recipe = parse_recipe(PANCAKES)
        self.assertEqual((recipe.title, recipe.servings), ("Pancakes", 4))
        self.assertEqual(
            [str(part) for part in recipe.ingredients], ["250 g flour", "500 ml milk", "3 eggs", "2.5 ml baking powder"]
        )

    def test_scaled(self):
        recipe = parse_recipe(PANCAKES).scaled(2)
        self.assertEqual(recipe.ingredients[0].quantity, parse_quantity("125 g"))
        self.assertEqual(recipe.servings, 2)
        with self.assertRaises(RecipeError):
            recipe.scaled(0)

    def test_a_unit_may_be_missing_or_look_like_a_name(self):
        self.assertEqual(parse_ingredient("2 l").name, "l")
        self.assertEqual(parse_ingredient("2 red onions").quantity, parse_quantity("2"))
        self.assertEqual(parse_ingredient("1.5kg red onions").quantity, parse_quantity("1500 g"))

    def test_what_is_wrong_is_named(self):
        for text, word in [
            ("Soup\n2 servings", "at least one ingredient"),
            ("Soup\nfor two\n1 l water", "for two"),
            ("Soup\n0 servings\n1 l water", "at least one"),
            ("Soup\n2 servings\nsome water", "some water"),
            ("Soup\n2 servings\n1/0 l water", "zero"),
        ]:
            with self.subTest(text), self.assertRaisesRegex(RecipeError, word):
                parse_recipe(text)
