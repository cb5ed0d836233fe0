"""A patch of one place, where the same fault stands in another one."""

from __future__ import annotations

import pytest

from scrout.check.changed import changed_functions
from scrout.check.half_fixes import named_examples, same_code_elsewhere, with_example
from scrout.check.patch import FileChange

SOURCE = """\
class Bag:
    def __init__(self, items):
        self.items = dict(items)

    def __getitem__(self, key):
        first, _, rest = key.partition(".")
        return self.items[first][rest] if rest else self.items.get(first, "none")

    def __delitem__(self, key):
        first, _, rest = key.partition(".")
        inner = self.items[first]
        del inner[rest]
"""
TESTS = """\
import unittest
from bags import Bag

class T(unittest.TestCase):
    def test(self):
        bag = Bag({"a": {"b": 1}, "c": 2})
        self.assertEqual((bag["a.b"], bag["c"], bag["d"]), (1, 2, "none"))
        del bag["a.b"]
        self.assertEqual(bag.items, {"a": {}, "c": 2})
"""
SHOWN = 'from bags import Bag\nbag = Bag({})\nbag["x.y"]\n'
HALF = "sed -i 's/self.items\\[first\\]\\[rest\\]/self.items.get(first, {}).get(rest)/' bags.py"
WHOLE = f"{HALF}; sed -i 's/inner = self.items.first./inner = self.items.get(first, {{rest: 0}})/' bags.py"
REPORT = 'Missing keys raise a KeyError:\n\n```python\nbag["x.y"]\n```\n\n`del bag["x.y"]` is the same.'


async def test_an_example_that_the_report_only_names_still_fails(task_sandbox_over, check_patch) -> None:
    with task_sandbox_over({"bags.py": SOURCE, "test_bags.py": TESTS}) as shop:
        half = await check_patch(shop, HALF, SHOWN, report=REPORT)
        unnamed = await check_patch(shop, HALF, SHOWN)
        whole = await check_patch(shop, WHOLE, SHOWN, report=REPORT)
    assert half.outcome == "unverified"
    assert half.missing[0].startswith(
        'The report names `del bag["x.y"]` too, which still fails as before the patch: Key'
    )
    assert unnamed.outcome == "passed", (unnamed.missing, unnamed.doubts)
    assert whole.missing == ()


def test_which_code_a_report_names_beside_its_example() -> None:
    text = (
        "`load(x)` raises a KeyError.\n\n```python\nload('also')\n```\n\nload_all() has it too, and `~x` is another "
        "case, `save(x)` is fine.\n\n    >>> same(`x`)\n\n`|` has the same problem."
    )
    assert named_examples(text) == ("load_all()", "~x", "|")


@pytest.mark.parametrize(
    ("script", "example", "put"),
    [
        ("a = f()\na['x.y']\n", "del a['x.y']", "a = f()\ndel a['x.y']"),
        ("a = f()\nprint(g(1, 2) & a)\n", "~a", "a = f()\nprint(g(1, 2) & ~a)"),
        ("a = f()\nprint(1 & a)\n", "|", "a = f()\nprint(1 | a)"),
        ("from m import f\nf('')\n", "g", "from m import f, g\ng('')"),
        ("import m\na = m.f()\na.b\n", "c()", "import m\na = m.f()\na.c()"),
        ("import m\nm.f(1)\n", "g([])", "import m\nm.g([])"),
    ],
)
def test_an_example_is_put_into_the_reproduction(script: str, example: str, put: str) -> None:
    assert put in list(with_example(script, example))


def test_a_script_of_any_depth_is_tried_or_left_alone() -> None:
    assert list(with_example("f(x" + "+ x" * 3000 + ")\n", "g()")) == []


def test_what_follows_an_example_is_left_out() -> None:
    assert "a = f()\ng(-a)" in list(with_example("a = f()\ng(a)\na.b\n", "g(-a)"))


@pytest.mark.parametrize("example", ["", "no code", "unknown + 1", "x = ", "'text'"])
def test_what_is_no_example_changes_nothing(example: str) -> None:
    assert list(with_example("a = f()\nprint(a)\n", example)) == []


TWINS = """\
class Table:
    def indexes(self):
        query = f'list("{self.name}", "{self.schema}", "{self.database}")'
        return [row["name"].strip() for row in self.run(query)]

    def more_indexes(self):
        query = f'list("{self.name}", "{self.schema}", "{self.database}")'
        return [More(row["name"].strip()) for row in self.run(query)]

    def all_of_it(self, row):
        query = f'list("{self.name}", "{self.schema}", "{self.database}")'
        title, number = self.title or "none", self.number + row.number * self.rows
        found = [one.number for one in row.cells if one.number > number and one.title.strip() == title]
        return title, number, self.read(title, number, query, *found, least=min(found), most=max(found))
"""
UNQUOTED, QUOTED = 'list("{self.name}", "{self.schema}", "{self.database}")', "list({self.quoted()})"


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (1, "Code that the patch replaces in Table.indexes still stands in Table.more_indexes (a.py:7): `query = "),
        # What is left has the same line by chance: it is not much like them.
        (2, ""),
        (3, ""),
    ],
)
def test_replaced_code_that_stands_in_a_function_much_like_it(places: int, told: str) -> None:
    changes = [FileChange("a.py", "a.py", "", before=TWINS, after=TWINS.replace(UNQUOTED, QUOTED, places))]
    assert same_code_elsewhere(changes, changed_functions(changes))[: len(told) or None] == told


def test_short_code_is_the_same_by_chance() -> None:
    short = TWINS.replace(', "{self.schema}", "{self.database}"', "")
    after = short.replace('"{self.name}"', "{self.quoted()}", 1)
    changes = [FileChange("a.py", "a.py", "", before=short, after=after)]
    assert same_code_elsewhere(changes, changed_functions(changes)) == ""
