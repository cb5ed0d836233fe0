"""Answers as models write them: what can be read, what is refused, and that nothing else is ever changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.fix.single.edits import UnusableAnswer, apply_answer
from scrout.fix.single.excerpts import Excerpt, find_excerpts, pack
from scrout.handoff import FileRef

CART = """\
import math


class Cart:
    def total(self, prices):
        rest = prices[1:]
        return sum(rest)

    def count(self, prices):
        rest = prices[1:]
        return len(rest)
"""
FILES = {"shop/cart.py": CART, "shop/crlf.py": "def one():\r\n    return 2\r\n"}


def read(path: str) -> bytes | None:
    return FILES[path].encode() if path in FILES else None


SHOWN = find_excerpts([FileRef(path="shop/cart.py", regions=((6, 7), (11, 11))), FileRef(path="shop/crlf.py")], read)


def block(search: str, replace: str, path: str = "shop/cart.py") -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def applied(answer: str) -> dict[str, str]:
    return apply_answer(answer, SHOWN, FILES)


RIGHT = CART.replace("return sum(rest)", "return sum(prices)")


@pytest.mark.parametrize(
    "answer",
    [
        block("        return sum(rest)", "        return sum(prices)"),
        "Here is the fix:\n\n```python\n" + block("        return sum(rest)", "        return sum(prices)") + "```\n",
        block("return sum(rest)", "return sum(prices)"),
        block("    return sum(rest)", "    return sum(prices)"),
        block("        return sum(rest)  ", "        return sum(prices)", path="**shop/cart.py**"),
        block("        return sum(rest)", "        return sum(prices)", path="the fix"),
        block("        return sum(rest)", "        return sum(prices)").replace(">>>>>>> REPLACE\n", ""),
        block("```python\n        return sum(rest)\n```", "```python\n        return sum(prices)\n```"),
        "```python\ndef total(self, prices):\n    rest = prices[1:]\n    return sum(prices)\n```",
        "```python\nclass Cart:\n"
        "    def total(self, prices):\n        rest = prices[1:]\n        return sum(prices)\n```",
        "    def total(self, prices):\n        rest = prices[1:]\n        return sum(prices)\n",
    ],
    ids=[
        *("exact", "prose and fence", "no indentation", "less indentation", "bold path", "no path", "no end mark"),
        *("fences inside", "a function", "a function in its class", "a function without a fence"),
    ],
)
def test_forms_that_are_read(answer: str) -> None:
    assert applied(answer) == {"shop/cart.py": RIGHT}


def test_lines_that_stand_twice_are_those_of_the_function_that_was_shown() -> None:
    only_count = [one for one in SHOWN if one.name == "Cart.count"]
    changed = apply_answer(block("        rest = prices[1:]", "        rest = prices"), only_count, FILES)
    assert (
        changed["shop/cart.py"].count("prices[1:]") == 1
        and "rest = prices\n        return len" in changed["shop/cart.py"]
    )


def test_line_ends_stay_as_they_are() -> None:
    changed = applied(block("    return 2", "    two = 1\n    return two", "shop/crlf.py"))
    assert changed == {"shop/crlf.py": "def one():\r\n    two = 1\r\n    return two\r\n"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("I cannot help with that.", "it changes nothing"),
        (block("        return sum(rest)", "        return sum(rest)"), "it changes nothing"),
        (block("        return average(rest)", "        return 1"), "not in shop/cart.py: 'return average(rest)'"),
        (block("", "        return 1"), "a SEARCH part is empty"),
        (block("        return sum(rest)", "        return sum(prices"), "no valid Python"),
        (block("root:x:0:0", "root::0:0", "../../etc/passwd"), "these SEARCH lines are not in"),
    ],
)
def test_what_cannot_be_used_is_told(answer: str, told: str) -> None:
    with pytest.raises(UnusableAnswer, match=told.replace("(", r"\(").replace(")", r"\)")):
        applied(answer)


@given(st.text(alphabet="<>=`ab \n/.py:def()SEARCHREPLACE", max_size=400))
def test_any_answer_changes_a_shown_file_or_is_refused(answer: str) -> None:
    try:
        assert set(applied(answer)) <= set(FILES)
    except UnusableAnswer as refused:
        assert str(refused)


def test_functions_are_shown_whole_with_what_they_need() -> None:
    assert [(one.path, one.name, one.first, one.last) for one in SHOWN] == [
        ("shop/cart.py", "Cart.total", 5, 7),
        ("shop/crlf.py", "", 1, 3),
        ("shop/cart.py", "Cart.count", 9, 11),
    ]
    shown, text = pack(SHOWN, read, 10_000)
    assert shown == SHOWN and "import math\nclass Cart:\n" in text


def test_what_does_not_fit_is_left_out_but_the_first_is_always_there() -> None:
    shown, text = pack(SHOWN, read, 10)
    assert [one.name for one in shown] == ["Cart.total"] and "import math" not in text


def test_a_long_function_is_shown_around_its_region() -> None:
    lines = ["def long():", *(f"    x = {number}" for number in range(400)), "    return x"]
    (one,) = find_excerpts([FileRef(path="a.py", regions=((300, 302),))], lambda path: "\n".join(lines).encode())
    assert one == Excerpt("a.py", "long", 300, 302, "    x = 298\n    x = 299\n    x = 300")


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef total(self, prices):\n    return '\ud800'\n```",
        block("        return sum(rest)", "        return sum(rest)  # \udc80"),
    ],
)
def test_half_of_a_surrogate_pair_is_told(answer: str) -> None:
    with pytest.raises(UnusableAnswer, match="surrogate"):
        applied(answer)
