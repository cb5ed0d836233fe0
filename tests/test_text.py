"""How things are shown: every rule at its edges, and that no amount is shown as what it is not."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.text import clip, duration, excerpt, percent, plural, usd, without_comments

from .conftest import assert_linear

AMOUNTS = st.decimals(min_value=-(10**9), max_value=10**9, allow_nan=False, allow_infinity=False, places=12)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("0.05", "$0.05"),
        ("0.01", "$0.01"),
        ("1234.5", "$1,234.50"),
        ("0.00996", "$0.0100"),
        ("0.0042", "$0.0042"),
        ("0.00004", "$0.000040"),
        ("0.0000006", "$0.000001"),
        ("0.0000004", "<$0.000001"),
        ("-3.2", "-$3.20"),
        ("-0.0042", "-$0.0042"),
        ("-0.0000004", ">-$0.000001"),
    ],
)
def test_amounts_read_the_same_as_decimals_and_floats(amount: str, shown: str) -> None:
    assert usd(Decimal(amount)) == usd(float(amount)) == shown


def test_an_amount_that_is_not_known_says_so() -> None:
    assert usd(None) == usd(math.nan) == usd(Decimal("NaN")) == "unknown"
    assert usd(None, unknown="unpriced") == "unpriced"


def test_callers_may_ask_for_digits_a_sign_or_every_digit() -> None:
    assert (usd(0.13712, 3), usd(0.22664, 4), usd(0.0042, 3), usd(0, 3)) == ("$0.137", "$0.2266", "$0.0042", "$0.00")
    assert (usd(0.01, 3, sign=True), usd(-0.01, 3, sign=True), usd(0, sign=True)) == ("+$0.010", "-$0.010", "$0.00")
    exact = [usd(Decimal(amount), exact=True) for amount in ("2", "0.500000", "0.0000001234", "-1234.5", "1E+3")]
    assert exact == ["$2.00", "$0.50", "$0.0000001234", "-$1,234.50", "$1,000.00"]
    assert usd(0.3, exact=True) == "$0.30"


@given(AMOUNTS, st.integers(2, 5), st.booleans())
def test_a_shown_amount_is_the_amount_within_what_is_shown(amount: Decimal, digits: int, sign: bool) -> None:
    shown = usd(amount, digits, sign=sign)
    if shown[0] in "<>":
        assert 0 < abs(amount) < Decimal("0.000001") and ("-" in shown) == (amount < 0)
        return
    read = Decimal(shown.replace("$", "").replace(",", ""))
    decimals = len(shown.partition(".")[2])
    assert abs(read - amount) <= Decimal(5).scaleb(-decimals - 1)
    assert (read == 0) == (amount == 0) and (read < 0) == (amount < 0)
    assert shown.startswith("+$") == (sign and amount > 0)


@given(AMOUNTS)
def test_an_exact_amount_loses_nothing(amount: Decimal) -> None:
    assert Decimal(usd(amount, exact=True).replace("$", "").replace(",", "")) == amount


def test_a_share_is_a_percentage() -> None:
    assert [percent(0.598), percent(0.598, 0), percent(1), percent(-0.0001)] == ["59.8%", "60%", "100.0%", "0.0%"]
    assert percent(None) == percent(math.nan) == "unknown" and percent(None, unknown="-") == "-"


@given(st.text(), st.integers(1, 50))
def test_a_clipped_text_fits_and_is_marked(text: str, limit: int) -> None:
    shown = clip(text, limit)
    assert len(shown) <= limit
    assert shown == text if len(text) <= limit else shown == text[: limit - 1] + "…"


def test_an_excerpt_says_how_much_is_missing() -> None:
    assert excerpt("whole") == "whole"
    assert excerpt("a" * 2_500, 1_000) == f"{'a' * 1_000}\n… 1,500 more characters"


def test_counts_and_their_nouns_agree() -> None:
    assert [plural(0, "task"), plural(1, "task"), plural(2_000, "task")] == ["0 tasks", "1 task", "2,000 tasks"]
    assert [plural(1, "repository", "repositories"), plural(2, "repository", "repositories")] == [
        "1 repository",
        "2 repositories",
    ]


def test_durations_grow_in_their_unit() -> None:
    assert [duration(0.409), duration(12.34), duration(270), duration(5_400)] == [
        "0.41 s",
        "12.3 s",
        "4.5 min",
        "1.5 h",
    ]
    assert duration(None) == "unknown" and duration(None, unknown="") == ""


def test_comments_of_a_template_are_left_out() -> None:
    text = "`<!-- a -->`\n  <!--\n```\nd\n```\n--> e\n```html\n<!-- f -->\n```\n<!-- g"
    assert without_comments(text) == "`<!-- a -->`\n e\n```html\n<!-- f -->\n```\n<!-- g"
    assert_linear(without_comments, "<!--\n", 5_000)
