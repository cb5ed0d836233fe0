import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from larder.cli import main


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.recipe = self.folder / "pancakes.txt"
        self.recipe.write_text("Pancakes\n4 servings\n\n250 g flour\n500 ml milk\n", encoding="utf-8")

    def larder(self, *arguments, today="2024-05-06"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["--file", str(self.folder / "larder.json"), "--today", today, *arguments])
        return code, out.getvalue() + err.getvalue()

    def test_from_shopping_to_cooking(self):
        self.assertEqual(self.larder("add", "Flour", "1 kg"), (0, "added 1 kg Flour\n"))
        self.assertEqual(self.larder("shop", str(self.recipe)), (0, "[ ] 500 ml milk\n"))
        self.assertEqual(self.larder("add", "Milk", "1 l", "--best-before", "+3d"), (0, "added 1 l Milk\n"))
        self.assertEqual(self.larder("shop", str(self.recipe)), (0, "nothing to buy\n"))
        self.assertEqual(self.larder("cook", str(self.recipe), "--servings", "2"), (0, "enjoy your pancakes\n"))
        self.assertEqual(self.larder("use", "milk", "750 ml"), (0, "took 750 ml Milk\n"))
        code, listing = self.larder("list")
        self.assertEqual(code, 0)
        self.assertIn("Flour  875 g", listing)
        self.assertTrue(listing.endswith("\n1 batch\n"))

    def test_discard(self):
        self.larder("add", "Milk", "1 l", "--best-before", "2024-05-09")
        self.assertEqual(self.larder("discard"), (0, "threw out 0\n"))
        self.assertEqual(self.larder("discard", today="2024-05-12"), (0, "threw out 1\n"))
        self.assertEqual(self.larder("list", today="2024-05-12"), (0, "nothing to show\n\n0 batches\n"))

    def test_a_mistake_is_one_line(self):
        self.assertEqual(self.larder("use", "tea", "1 g"), (1, "larder: there has never been any tea in the larder\n"))
        self.assertEqual(self.larder("list", today="someday")[0], 1)
        self.assertEqual(self.larder("cook", str(self.folder / "none.txt"))[0], 1)
