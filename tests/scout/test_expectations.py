"""What a report says about values, sentence by sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.scout.recon.expectations import (
    StatedValue,
    find_expressions,
    is_about_each,
    leading_value,
    quote_call,
    raised_name,
    read_actual_values,
    read_expected_values,
    read_placed_values,
    read_stated_values,
    read_table,
    read_told_below,
    read_told_of,
    sentences,
)

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
        ("raises a bare ValueError from there instead of till's own MoneyError", "ValueError", "MoneyError"),
        ("should be caught before the TypeError", "", ""),
        ("A `ValueError` should be raised here", "", "ValueError"),
        ("TypeError should be raised", "", "TypeError"),
        ("`4` is expected", "", "4"),
        ("a TypeError is raised", "TypeError", ""),
        ("No ValueError should be raised", "", ""),
        ("# ValidationError: {0: ['bad']}, expected []", "ValidationError", "[]"),
        ("expected 4, not 3", "3", "4"),
        ("gives 3 while `4` is expected", "3", "4"),
        ("*Expected*: `4`", "", "4"),
        ("Observed: 3", "3", ""),
        # Words in quotes and in messages are not the reporter's.
        (
            'raises "ValueError: too few (expected 2, got 0)" instead of nan',
            "ValueError: too few (expected 2, got 0)",
            "nan",
        ),
        ("Got: TypeError: expected 2 arguments", "TypeError", ""),
        ("TypeError: must be 1, not 2", "", ""),
        # A comparison and a remark are no values.
        ("width 0 (must be > 0)", "", ""),
        ("# => 3, should be -> 4", "3", "4"),
        ("Expected output (the others should be as before):", "", ""),
        ("Expected [as in this issue](https://example.org)", "", ""),
        ("**Expected**: `1` - compare with what 0 gives, `2`", "", "1"),
        ("so I expected an empty list", "", "[]"),
        ("'/a' is what I expected", "", "'/a'"),
        # What is wished for comes before "instead of", what comes out behind it; else it is the other way round.
        ("It should give `4` instead of `3`", "3", "4"),
        ("could infer the value instead of giving an empty string", "''", ""),
        ("It should work, but it gives 3 instead of 4", "3", "4"),
        ("gives `3`, while `4` would be correct", "3", "4"),
        ("I would expect it to give 3", "", "3"),
        ("I would expect it to raise a ValueError", "", "ValueError"),
        ("a TypeError would be appropriate", "", "TypeError"),
        ("raises InvalidURL instead of giving the host", "InvalidURL", ""),
        ("returns FooBar for it", "", ""),
        # A value behind a comma or a colon ends what is said.
        ("I expected one line more, so 'a;b'.", "", "'a;b'"),
        ("I expected one line more, so 'a' in the file", "", ""),
        ("I'd have thought `3`", "", "3"),
        # A part of a date, a time, a version or a fraction is no number.
        ("# gives 2024-05-06 08:00, should be 2024-05-01 08:00", "", ""),
        ("returns 10:30 instead of 11:30", "", ""),
        ("should be 1.2.3", "", ""),
        ("returns 1/3", "", ""),
        ("it turns into `3` here", "3", ""),
        ("It should be accepted: 'abc'", "", ""),
        ("wrong: 2 is in the second one, has to be [0, 2]", "", "[0, 2]"),
        ("**What should happen:** `4`. With 3 it does.", "", "4"),
        ("is 'x' and should be (3, 'x')", "'x'", "(3, 'x')"),
        ("till.MoneyError would be the right thing", "", "till.MoneyError"),
    ],
)
def test_a_value_counts_for_the_word_before_it(said: str, actual: str, expected: str) -> None:
    assert read_stated_values(said) == StatedValue(actual, expected)


def test_below_a_heading_a_sentence_says_what_the_heading_does() -> None:
    assert read_told_below("expected", "Returns `[3]`") == StatedValue(expected="[3]")
    assert read_told_below("expected", "But it returns `[3]`") == StatedValue(actual="[3]")
    assert read_told_below("", "Returns `[3]`") == StatedValue(actual="[3]")


def test_a_comment_keeps_what_markup_would_take() -> None:
    assert read_stated_values("`x = **1**` should be `x = 1`", markup=False) == StatedValue("`x = **1**`", "`x = 1`")


def test_quotes_and_brackets_do_not_end_a_sentence() -> None:
    assert sentences('It says "No. Not here." (See x. Or y.) Then. Next.') == [
        'It says "No. Not here." (See x. Or y.) Then.',
        "Next.",
    ]


def test_each_call_of_a_sentence_has_its_own_words() -> None:
    said = "`f(1)` returns 2, but `f(2)` returns 3 instead of 4"
    assert find_expressions(said) == [("f(1)", " returns 2, but "), ("f(2)", " returns 3 instead of 4")]


def test_a_sentence_is_about_the_call_that_it_quotes() -> None:
    assert find_expressions("Here `f(1)` returns `2`.") == [("f(1)", " returns `2`.")]
    assert find_expressions("It should be `f(1)`.") == []
    assert find_expressions("Set `x` to `(1, 2)`.") == []


@pytest.mark.parametrize(
    "said",
    [
        "`f(1)` is `3` but should be `4`.",
        "I expected `f(1)` to return `4`, but it returned `3`.",
        "I would expect `f(1)` to be 4, not 3.",
        "Instead of `4`, `f(1)` returns `3`.",
        "Calling `f(1)` returned `3` when it should have returned `4`.",
    ],
)
def test_a_sentence_says_it_before_and_behind_the_call(said: str) -> None:
    [(code, rest)] = find_expressions(said)
    assert (code, read_told_of(said.partition(code)[0], rest)) == ("f(1)", StatedValue("3", "4"))


def test_a_table_needs_code_and_what_was_expected() -> None:
    rows = ["| call | got | should be |", "|---|---|---|", "| `f(1)` | 2 | 3 |", "| `f('a\\|b')` | `x` | y |"]
    table = read_table(rows)
    assert table is not None and table.rows == (
        (("f(1)",), StatedValue("2", "3")),
        (("f('a|b')",), StatedValue("x", "y")),
    )
    assert read_table(["| call | got |", "|---|---|", "| f(1) | 2 |"]) is None
    table = read_table(["text | `width()` | should be", "--- | --- | ---", "`'ab'` (two letters) | 3 | 2"])
    assert table is not None and (table.heads, table.actual_head) == (("text",), "width()")
    assert table.rows == ((("'ab'",), StatedValue("3", "2")),)
    table = read_table(["n | k | got | should be", "--- | --- | --- | ---", "10 | 3 | 9 | 10", "9 | 3 | 9 | 9"])
    assert table is not None and table.heads == ("n", "k") and table.rows[0] == (("10", "3"), StatedValue("9", "10"))


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("For the first two I expected '01' and '1011'", [(0, "'01'"), (1, "'1011'")]),
        ("I expected the second and third to be kept: 'a' and 'b'.", [(1, "'a'"), (2, "'b'")]),
        ("The last one should be {'a': 1}.", [(-1, "{'a': 1}")]),
        ("The first is right, the second should be 3.", [(1, "3")]),
        ("I expected an empty list for the second one", [(1, "[]")]),
        # Of an output and of a value, not of examples.
        ("The last line should be 'a'", []),
        ("The first character should be 'a'", []),
        ("I expected the first two to be 3", []),
    ],
)
def test_a_sentence_speaks_of_examples_by_their_places(said: str, places: list[tuple[int, str]]) -> None:
    assert [(place, told.expected) for place, told in read_placed_values(said) if told.expected] == places


def test_an_actual_value_has_a_place_too() -> None:
    assert read_placed_values("Got: 0 for the first, and an error for the second.") == [(0, StatedValue("0"))]


@pytest.mark.parametrize(
    ("said", "each"),
    [
        ("Expected: ValueError for each of them", True),
        ("all three calls should raise ValueError", True),
        ("I expect a ValueError in both.", True),
        ("ValueError for each bad value", False),
        ("all of it should be a ValueError", False),
    ],
)
def test_a_sentence_may_be_about_each_of_several_examples(said: str, each: bool) -> None:
    assert is_about_each(said) == each


def test_values_that_came_out_are_all_read() -> None:
    assert read_actual_values("Got: `[0,1]`, `()` and `3`, which is wrong") == ("[0,1]", "()", "3")


def test_values_that_a_sentence_lists_are_all_read() -> None:
    assert read_expected_values("I expected `'a'` and `'b'`.") == ("'a'", "'b'")
    assert read_expected_values("I expected 1, 2 and 3 here.") == ("1", "2", "3")
    assert read_expected_values("It is here.") == ()


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("- mean([1, 2]) -> 1", "`mean([1, 2])` -> 1"),
        ("till.mean([1, 2]) should be 1.5", "`till.mean([1, 2])` should be 1.5"),
        ("mean(x) and others", "mean(x) and others"),
        ("mean(x", "mean(x"),
    ],
)
def test_a_call_at_the_beginning_of_a_line_needs_no_quotes(line: str, quoted: str) -> None:
    assert quote_call(line) == quoted


def test_what_is_raised_may_have_any_name() -> None:
    assert raised_name("till.MoneyError") == "MoneyError"
    assert raised_name("till.TooPoor", "it raises till.TooPoor") == "TooPoor"
    assert raised_name("TooPoor", "it returns TooPoor") == ""


@pytest.mark.parametrize(("cell", "expected"), [("same", ""), ("at most 3", ""), ("`same`", "same"), ("None", "None")])
def test_a_remark_in_a_table_is_no_value(cell: str, expected: str) -> None:
    table = read_table(["| call | got | expected |", "|---|---|---|", f"| `f(1)` | 4 | {cell} |"])
    assert table is not None and table.rows == ((("f(1)",), StatedValue("4", expected)),)


@given(st.text(max_size=200))
def test_any_sentence_can_be_read(text: str) -> None:
    told = read_stated_values(text)
    plain = text.replace("**", "").replace("__", "")
    empty = ("[]", "''", "{}", "()") if "empty " in text else ()
    assert all(value in plain or value in empty for value in (told.actual, told.expected))
    assert leading_value(text) in text
    find_expressions(text)
    assert "".join(sentences(text)).split() == text.split()


@pytest.mark.parametrize("piece", ["should be ", "expected ", "[", "'", "`", "not ", "(", "**", "returns the a "])
def test_no_sentence_takes_long(piece: str) -> None:
    assert_linear(read_stated_values, piece, 20_000)
    assert_linear(sentences, piece, 20_000)
    assert_linear(find_expressions, piece, 20_000)
