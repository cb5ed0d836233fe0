"""What a report says about values, sentence by sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.scout.recon.expectations import Told, find_expression, leading_value, read_table, read_told

from ..conftest import assert_linear


@pytest.mark.parametrize(
    ("said", "actual", "expected"),
    [
        ("`split(10, 3)` returns [3, 3, 3] instead of [4, 3, 3]", "[3, 3, 3]", "[4, 3, 3]"),
        ("# should be [4, 3, 3], is [3, 3, 3]", "[3, 3, 3]", "[4, 3, 3]"),
        ("# expected 4, got 5", "5", "4"),
        ("# 5 (expected 4)", "5", "4"),
        ("# -> 5, should be 4", "5", "4"),
        ("**Expected**: `[4]`", "", "[4]"),
        ("Got: [3]", "[3]", ""),
        ("**Is**: 'a '", "'a '", ""),
        ("it gives `None`, not `''`", "None", "''"),
        ("I expected to get datetime.date(2020, 1, 1) but got `x`", "x", "datetime.date(2020, 1, 1)"),
        ("It raises TypeError, should return 3", "TypeError", "3"),
        ("returns None without a word instead of raising a TypeError", "None", "TypeError"),
        ("This should not return 3", "", ""),
        ("# not as expected: [4, 3, 3]", "", ""),
        ("3 is a number", "", ""),
    ],
)
def test_a_value_counts_for_the_word_before_it(said: str, actual: str, expected: str) -> None:
    assert read_told(said) == Told(actual, expected)


def test_a_sentence_is_about_the_call_that_it_quotes() -> None:
    assert find_expression("Here `f(1)` returns `2`.") == ("f(1)", " returns `2`.")
    assert find_expression("It should be `f(1)`.")[0] == ""
    assert find_expression("Set `x` to `(1, 2)`.")[0] == ""


def test_a_table_needs_code_and_what_was_expected() -> None:
    rows = ["| call | got | should be |", "|---|---|---|", "| `f(1)` | 2 | 3 |", "| `f('a\\|b')` | `x` | y |"]
    assert list(read_table(rows)) == [("f(1)", Told("2", "3")), ("f('a|b')", Told("x", "y"))]
    assert list(read_table(["| call | got |", "|---|---|", "| f(1) | 2 |"])) == []


@given(st.text(max_size=200))
def test_any_sentence_can_be_read(text: str) -> None:
    told = read_told(text)
    assert all(value in text.replace("**", "").replace("__", "") for value in (told.actual, told.expected))
    assert leading_value(text) in text
    find_expression(text)


@pytest.mark.parametrize("piece", ["should be ", "expected ", "[", "'", "`", "not ", "(", "**", "returns the a "])
def test_no_sentence_takes_long(piece: str) -> None:
    assert_linear(read_told, piece, 20_000)
    assert_linear(find_expression, piece, 20_000)
