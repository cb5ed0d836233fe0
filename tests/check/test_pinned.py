"""A change that could be another one without anything failing is not shown to be right."""

from __future__ import annotations

import pytest

from scrout.check import pinned
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
SHOWN = 'from numbers_ import double\nassert double(2) == 4, double(2)\nassert double("") == 0\n'
FIXED = """sed -i 's/if n is None/if n is None or n == ""/; s/n + n + 1/n + n/' numbers_.py"""


FEE = "def fee(n):\n    return 10\n"
FREE_FROM_5 = "sed -i 's/return 10/return 10 if n < 5 else 0/' numbers_.py"
FEE_SHOWN = "from numbers_ import fee\nassert fee(8) == 0, fee(8)\n"


def suite_of(name: str, *asserted: str) -> str:
    test = f"import unittest\nfrom numbers_ import {name}\n\nclass T(unittest.TestCase):\n    def test(self):\n"
    return test + "".join(f"        self.assertTrue({one})\n" for one in asserted)


async def test_a_number_that_decides_what_the_report_complains_about_leaves_a_patch_unverified(
    task_sandbox_over, check_patch
) -> None:
    files = {"numbers_.py": FEE, "test_numbers_.py": suite_of("fee", "fee(3) == 10")}
    with task_sandbox_over(files) as shop:
        left_open = await check_patch(shop, FREE_FROM_5, FEE_SHOWN)
    assert left_open.outcome == "unverified" and left_open.doubts == ()
    assert left_open.missing[0].startswith(
        "With `(n <= 5)` in the place of `n < 5` (numbers_.py:2), fee(n=5) gives 10 "
    )
    assert left_open.missing[0].endswith("neither the reproduction nor a test would fail.")


async def test_what_a_patch_leaves_as_it_was_need_not_be_pinned(task_sandbox_over, check_patch) -> None:
    test = "import unittest\nfrom numbers_ import double\n\nclass T(unittest.TestCase):\n"
    test += "    def test(self):\n        self.assertGreater(double(3), 3)\n"
    with task_sandbox_over({"numbers_.py": DOUBLE.format(example="1) * (0"), "test_numbers_.py": test}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert result.outcome == "passed", (result.missing, result.doubts)


async def test_another_way_to_write_the_same_speaks_against_nothing(task_sandbox_over, check_patch) -> None:
    files = {"numbers_.py": "def clamp(n):\n    return n\n", "test_numbers_.py": suite_of("clamp", "clamp(1) == 1")}
    with task_sandbox_over(files) as shop:
        shown = "from numbers_ import clamp\nassert clamp(-3) == 0, clamp(-3)\n"
        result = await check_patch(shop, "sed -i 's/return n/return n if n > 0 else 0/' numbers_.py", shown)
    assert result.outcome == "passed", (result.missing, result.doubts)


async def test_a_test_that_comes_with_the_patch_pins_what_it_is_about(task_sandbox_over, check_patch) -> None:
    own = suite_of("fee", "{} == 10").replace("class T", "class Own").replace("\n", "\\n")
    with task_sandbox_over({"numbers_.py": FEE, "test_numbers_.py": suite_of("fee", "fee(3) == 10")}) as shop:
        added = [f"{FREE_FROM_5}; printf '{own.format(one)}' > test_own.py" for one in ("fee(4) - fee(5)", "fee(2)")]
        pins, silent = [await check_patch(shop, one, FEE_SHOWN) for one in added]
    assert (pins.outcome, silent.outcome) == ("passed", "unverified")
    assert silent.missing[0].startswith("With `(n <= 5)`")


async def test_tests_that_come_with_the_patch_run_first(
    task_sandbox_over, check_patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned, "MAX_TESTS", 1)
    own = suite_of("fee", "fee(4) - fee(5) == 10").replace("class T", "class Own").replace("\n", "\\n")
    with task_sandbox_over({"numbers_.py": FEE, "test_numbers_.py": suite_of("fee", "fee(3) == 10")}) as shop:
        result = await check_patch(shop, f"{FREE_FROM_5}; printf '{own}' > test_own.py", FEE_SHOWN)
    assert result.outcome == "passed", result.missing


async def test_a_test_that_fails_without_the_others_notices_nothing(task_sandbox_over, check_patch) -> None:
    test = "import unittest\nfrom numbers_ import fee\n\nclass T(unittest.TestCase):\n    first = False\n"
    test += "    def test_0(self):\n        T.first = True\n"
    test += "    def test_1(self):\n        self.assertTrue(T.first and fee(3) == 10)\n"
    with task_sandbox_over({"numbers_.py": FEE, "test_numbers_.py": test}) as shop:
        result = await check_patch(shop, FREE_FROM_5, FEE_SHOWN)
    assert result.outcome == "unverified"
    assert result.missing[0].startswith("With `(n <= 5)`")


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


def test_an_operator_that_the_patch_only_gives_another_operand_is_not_altered() -> None:
    before = "def f(a, b):\n    return 0 <= a and a > b + 1\n"
    after = "def f(a, b):\n    return 0 <= a and a >= b\n"
    changes = [FileChange("a.py", "a.py", "", before=before, after=after)]
    assert [one.after for one in alterations(changes, changed_functions(changes))] == ["(a > b)"]


def test_an_alteration_leaves_all_that_is_below_it_in_its_line() -> None:
    before = "def f(a):\n    return a\n\ndef g(a):\n    return a\n"
    after = "def f(a):\n    return (a or\n        2 + a)\n\ndef g(a):\n    return a\n"
    changes = [FileChange("a.py", "a.py", "", before=before, after=after)]
    found = alterations(changes, changed_functions(changes))
    assert "(a and 2 + a" in found[0].after
    assert {one.source.splitlines().index("def g(a):") for one in found} == {4}
