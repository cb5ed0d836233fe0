"""The overfit guard: patches that pass reproduction and tests, and are wrong for other inputs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scrout.check.changed import changed_functions
from scrout.check.guard import GuardComparison, effect_of, judge
from scrout.check.patch import FileChange
from scrout.check.recording import FunctionRecording, Observed, RecordedCall
from scrout.check.swallowed_work import reported_literals, swallowed_work
from scrout.sandbox.task_sandbox import TaskSandbox

SOURCE = '''\
import re


def price(text, rounded=False):
    """Cents of a price."""
    if text.startswith("$"):
        text = text[1:]
    elif text.endswith("EUR"):
        text = text[:-4]
    euros, _, cents = text.partition(".")
    value = int(euros) * 100 + int(cents or "0")
    return round(value, -2) if rounded else value


def total(prices):
    return sum(price(one) for one in prices)
'''
TESTS = """\
import unittest
from shop import price, total

class Price(unittest.TestCase):
    def test_dollars(self):
        self.assertEqual(price("$3.50"), 350)

    def test_euros(self):
        self.assertEqual(price("3.50 EUR"), 350)

    def test_total(self):
        self.assertEqual(total(["1.10", "2.20"]), 330)
"""
SHOWN = 'from shop import price\nassert price("7.5") == 750, price("7.5")\n'
FIXED = """sed -i 's/int(cents or "0")/int((cents + "00")[:2])/' shop.py"""


@pytest.fixture
def shop(task_sandbox_over) -> Iterator[TaskSandbox]:
    with task_sandbox_over({"shop.py": SOURCE, "test_shop.py": TESTS}) as opened:
        yield opened


async def test_a_right_patch_raises_no_doubt(shop, check_patch) -> None:
    result = await check_patch(shop, FIXED, SHOWN)
    assert (result.outcome, result.doubts) == ("passed", ())
    assert len(result.agreement) >= 1


async def test_a_patch_that_drops_a_branch_is_doubtful(shop, check_patch) -> None:
    # Of euros no test has a price of more than ten.
    wrong = f"{FIXED}; sed -i 's/text = text\\[:-4\\]/text = text[:1] + \".50\"/' shop.py"
    result = await check_patch(shop, wrong, SHOWN)
    assert (result.outcome, result.reproduction, result.tests) == ("doubtful", "passes", "pass")
    assert "price(" in result.doubts[0] and "before the patch" in result.doubts[0]


async def test_a_change_that_a_passing_test_goes_through_is_no_doubt(task_sandbox_over, check_patch) -> None:
    source = "def label(n):\n    text = f'<{n}>'\n    if n and n > 900:\n        text = text + '?'\n    return text\n"
    test = (
        "import unittest\nfrom shop import label\n\nclass T(unittest.TestCase):\n"
        "    def test(self):\n        self.assertIn('950', label(950))\n"
    )
    fixed = """sed -i "s/<{n}>/[{n}]/; s/text + '?'/text + '!'/" shop.py"""
    with task_sandbox_over({"shop.py": source, "test_shop.py": test}) as shop:
        result = await check_patch(shop, fixed, "from shop import label\nassert label(5) == '[5]', label(5)\n")
    assert (result.outcome, result.doubts) == ("passed", ())


async def test_what_a_share_below_zero_gives_is_no_doubt(task_sandbox_over, check_patch) -> None:
    source = "from math import atan2\n\ndef angle(x, share):\n    far = 1 / share\n    return round(atan2(x, far), 6)\n"
    test = (
        "import unittest\nfrom shop import angle\n\nclass T(unittest.TestCase):\n"
        "    def test(self):\n        self.assertEqual(angle(1, 1), 0.785398)\n"
    )
    fixed = "sed -i 's,1 / share,x * share,; s/atan2(x, far)/atan2(far, 1)/' shop.py"
    shown = "from shop import angle\nassert angle(1, 0) == 0, angle(1, 0)\n"
    with task_sandbox_over({"shop.py": source, "test_shop.py": test}) as shop:
        result = await check_patch(shop, fixed, shown)
    assert (result.outcome, result.doubts) == ("passed", ())
    assert any("-" in flag for flag in result.flags)


async def test_a_patch_for_the_reported_input_alone_is_doubtful(shop, check_patch) -> None:
    wrong = """sed -i 's/    if text.startswith/    if text == "7.5":\\n        return 750\\n&/' shop.py"""
    result = await check_patch(shop, wrong, SHOWN)
    assert (result.outcome, result.reproduction, result.tests) == ("doubtful", "passes", "pass")
    assert result.doubts == ("price compares with a value of the reproduction: '7.5'.",)


async def test_an_assumed_reproduction_leaves_a_flag_instead_of_a_doubt(shop, check_patch) -> None:
    wrong = """sed -i 's/    if text.startswith/    if text == "7.5":\\n        return 750\\n&/' shop.py"""
    result = await check_patch(shop, wrong, SHOWN, basis="assumed")
    assert (result.outcome, result.doubts) == ("unverified", ())
    assert "price compares with a value of the reproduction: '7.5'." in result.flags


async def test_what_would_write_is_left_out(task_sandbox_over, check_patch) -> None:
    source = "def save(name):\n    open(name, 'a').write(name)\n    return 1\n"
    test = "import unittest\nfrom shop import save\n\nclass T(unittest.TestCase):\n    def test(self): save('x')\n"
    shown = "from shop import save\nassert save('y') == 2\n"
    with task_sandbox_over({"shop.py": source, "test_shop.py": test}) as shop:
        result = await check_patch(shop, "sed -i 's/return 1/return 2/' shop.py", shown)
    assert (result.outcome, result.doubts) == ("passed", ())


def functions(before: str, after: str):  # type: ignore[no-untyped-def]
    return changed_functions([FileChange("a.py", "a.py", "", before=before, after=after)])


BODY = "def f(a):\n    b = g(a)\n    return b\n"


@pytest.mark.parametrize(
    ("after", "word"),
    [
        ("def f(a):\n    return None\n    b = g(a)\n    return b\n", "can no longer be reached"),
        (
            "def f(a):\n    try:\n        b = g(a)\n    except Exception:\n        return None\n    return b\n",
            "catches every",
        ),
        ("def f(a):\n    try:\n        b = g(a)\n    except:\n        b = 0\n    return b\n", "catches every"),
    ],
)
def test_swallowed_work_is_told(after: str, word: str) -> None:
    (sentence,) = swallowed_work(functions(BODY, after))
    assert word in sentence


@pytest.mark.parametrize(
    "after",
    [
        "def f(a):\n    if not a:\n        return None\n    b = g(a)\n    return b\n",
        "def f(a):\n    try:\n        b = g(a)\n    except KeyError:\n        return None\n    return b\n",
        "def f(a):\n    try:\n        b = g(a)\n    except Exception:\n        raise ValueError(a)\n    return b\n",
    ],
)
def test_what_fixes_do_is_not_swallowed_work(after: str) -> None:
    assert swallowed_work(functions(BODY, after)) == ()


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("def f(a):\n    if a == 42:\n        return 7\n    b = g(a)\n    return b\n", True),
        ("def f(a):\n    if a in (41, 42):\n        return 7\n    b = g(a)\n    return b\n", True),
        ("def f(a):\n    if a >= 42:\n        return 7\n    b = g(a)\n    return b\n", False),
        ("def f(a):\n    if a == 43:\n        return 7\n    b = g(a)\n    return b\n", False),
    ],
)
def test_literals_of_the_reproduction(after: str, found: bool) -> None:
    assert bool(reported_literals(functions(BODY, after), "assert f(42) == 7")) is found


def test_a_literal_that_the_file_knows_is_no_special_case() -> None:
    before = f"KNOWN = 42\n\n{BODY}"
    after = before.replace("    b =", "    if a == 42:\n        return 7\n    b =")
    changes = [FileChange("a.py", "a.py", "", before=before, after=after)]
    assert reported_literals(changed_functions(changes), "assert f(42) == 7", changes) == ()


RIGHT = Observed(kind="returned", value="1", real=True, changed=[{}])
OTHER = RIGHT.model_copy(update={"value": "2"})
NOTHING = Observed(kind="returned", value="None", changed=[{}])
NOT_FOUND = Observed(kind="raised", value="KeyError")


@pytest.mark.parametrize(
    ("before", "after", "altered", "undecided"),
    [
        (RIGHT, RIGHT, RIGHT, False),
        # The base says what is right where the patch changes nothing.
        (RIGHT, RIGHT, OTHER, False),
        (OTHER, RIGHT, OTHER, True),
        # A mistake of the alteration is none of the patch. What a function refuses may be right.
        (OTHER, RIGHT, Observed(kind="raised", value="IndexError"), False),
        (OTHER, RIGHT, Observed(kind="raised", value="ValueError"), True),
        (OTHER, NOT_FOUND, Observed(kind="raised", value="ValueError"), False),
        # What only an object's own code sees does not matter, if the call has a result that a caller sees.
        (OTHER, RIGHT, RIGHT.model_copy(update={"changed": [{"_cache": "1"}]}), False),
        (OTHER, RIGHT, RIGHT.model_copy(update={"changed": [{"name": "1"}]}), True),
        (OTHER, NOTHING, NOTHING.model_copy(update={"changed": [{"_name": "1"}]}), True),
    ],
)
def test_what_an_alteration_changes(before: Observed, after: Observed, altered: Observed, undecided: bool) -> None:
    change = FileChange("a.py", "a.py", "", before="def f(a):\n    return a\n", after="def f(a):\n    return a or 1\n")
    failing = [Observed(kind="returned", value=value, lines=["0:1"]) for value in ("3", "4", "4")]

    def recorded(seen: Observed, shown: Observed) -> FunctionRecording:
        inputs = [("as called", shown), ("a=7", seen.model_copy(update={"lines": ["0:2"]}))]
        return FunctionRecording(calls=(RecordedCall(target="a.py::f", key="1", context="", inputs=inputs),))

    recordings = [recorded(*one) for one in zip((before, after, altered), failing, strict=True)]
    compared = GuardComparison({"before": recordings[0], "after": recordings[1]}, {})
    effect = effect_of(changed_functions([change]), compared, recordings[2:], "a.py", 2)
    assert bool(effect.undecided) == undecided
    assert effect.unchanged == (not undecided and after.visible_result == altered.visible_result)


@pytest.mark.parametrize(("error", "is_doubt"), [("shop.Refused", False), ("RuntimeError", True)])
def test_a_projects_own_exception_where_nothing_was_given_is_a_flag(error: str, is_doubt: bool) -> None:
    after = "def f(a):\n    if a:\n        refuse(a)\n    return None\n"
    change = FileChange("a.py", "a.py", "", before="def f(a):\n    return None\n", after=after)

    def recorded(shown: Observed, varied: Observed) -> FunctionRecording:
        inputs = [("as called", shown), ("a=7", varied)]
        return FunctionRecording(calls=(RecordedCall(target="a.py::f", key="1", context="", inputs=inputs),))

    nothing = NOTHING.model_copy(update={"lines": ["0:4"]})
    refused = Observed(kind="raised", value=error.rpartition(".")[2], lines=["0:2", "0:3"])
    before = recorded(Observed(kind="raised", value="KeyError", lines=["0:1"]), nothing)
    compared = GuardComparison({"before": before, "after": recorded(NOTHING, refused)}, {})
    report = judge(changed_functions([change]), "", compared)
    assert (len(report.doubts), len(report.flags)) == ((1, 0) if is_doubt else (0, 1))
