"""A change that could be another one without anything failing is not shown to be right."""

from __future__ import annotations

import pytest

from scrout.check.changed import changed_functions
from scrout.check.patch import FileChange
from scrout.check.pinned import alterations

DOUBLE = '''\
def double(n):
    """Twice as much.

    >>> double({example})
    0
    """
    if n is None:
        return 0
    return n + n + 1
'''
SHOWN = 'from numbers_ import double\nassert double(2) == 4, double(2)\nassert not double("")\n'
FIXED = """sed -i 's/if n is None/if n is None or n == ""/; s/n + n + 1/n + n/' numbers_.py"""


async def test_a_condition_that_nothing_pins_leaves_a_patch_unverified(task_sandbox_over, check_patch) -> None:
    test = "import unittest\nfrom numbers_ import double\n\nclass T(unittest.TestCase):\n"
    test += "    def test(self):\n        self.assertGreater(double(3), 3)\n"
    files = {"numbers_.py": DOUBLE.format(example="None"), "test_numbers_.py": test}
    with task_sandbox_over(files) as shop:
        pinned = await check_patch(shop, FIXED, SHOWN)
    with task_sandbox_over({**files, "numbers_.py": DOUBLE.format(example="1) * (0")}) as shop:
        left_open = await check_patch(shop, FIXED, SHOWN)
    assert (pinned.outcome, pinned.missing) == ("passed", ())
    assert left_open.outcome == "unverified" and left_open.doubts == ()
    assert left_open.missing[0].startswith("With `(n is None and n == '')` in the place of `n is None or n ==")
    assert left_open.missing[0].endswith("(numbers_.py:7), neither the reproduction nor a test would fail.")


async def test_a_test_that_comes_with_the_patch_pins_what_it_is_about(task_sandbox_over, check_patch) -> None:
    test = "import unittest\nfrom numbers_ import double\n\nclass T(unittest.TestCase):\n"
    test += "    def test(self):\n        self.assertGreater(double(3), 3)\n"
    own = test.replace("T(", "Own(").replace("Greater(double(3), 3)", "Equal(double({}), 0)").replace("\n", "\\n")
    files = {"numbers_.py": DOUBLE.format(example="1) * (0"), "test_numbers_.py": test}
    with task_sandbox_over(files) as shop:
        pins = await check_patch(shop, f"{FIXED}; printf '{own.format('None')}' > test_own.py", SHOWN)
        silent = await check_patch(shop, f"{FIXED}; printf '{own.format('0')}' > test_own.py", SHOWN)
    assert (pins.outcome, silent.outcome) == ("passed", "unverified")
    assert silent.missing[0].startswith("With `(n is None and n == '')`")


async def test_a_test_that_fails_without_the_others_notices_nothing(task_sandbox_over, check_patch) -> None:
    test = "import unittest\nfrom numbers_ import double\n\nclass T(unittest.TestCase):\n    first = False\n"
    test += "    def test_0(self):\n        T.first = True\n"
    test += "    def test_1(self):\n        self.assertTrue(T.first and double(3) > 3)\n"
    with task_sandbox_over({"numbers_.py": DOUBLE.format(example="1) * (0"), "test_numbers_.py": test}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert result.outcome == "unverified"
    assert result.missing[0].startswith("With `(n is None and n == '')`")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if a > 3: b = a", ["(not (a > 3))", "(a >= 3)", "4", "2"]),
        ("b = a and b", ["(a or b)"]),
        ("b = a[1]", ["2", "0"]),
        ("b = a[0], a[-1]", []),
        ("b = a[0:]", ["1", "-1"]),
        ("b = True", []),
        ("log(a)", []),
    ],
)
def test_what_is_altered(line: str, expected: list[str]) -> None:
    before, after = "def f(a):\n    return a\n", f"def f(a):\n    {line}\n    return a\n"
    changes = [FileChange("a.py", "a.py", "", before=before, after=after)]
    found = alterations(changes, changed_functions(changes))
    assert sorted(one.after for one in found) == sorted(expected)
    assert all(one.after in one.source.splitlines()[1] and one.source.count("\n") == 3 for one in found)


def test_what_the_patch_leaves_as_it_was_is_not_altered() -> None:
    before, after = "def f(a):\n    return 10 if a > 500 else 0\n", "def f(a):\n    return 10 if a >= 500 else 0\n"
    changes = [FileChange("a.py", "a.py", "", before=before, after=after)]
    found = alterations(changes, changed_functions(changes))
    assert sorted(one.after for one in found) == ["(a > 500)", "(not (a >= 500))"]
