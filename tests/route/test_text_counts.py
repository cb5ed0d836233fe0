"""Counts of a task's text: what each number counts, and that no text breaks or stalls them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.route.text_counts import MAX_CHARS, MAX_PATH_CHARS, NAMES, count

from ..conftest import assert_linear

ODD = st.text(st.sampled_from("aA1_-./`*+) \t\r\n:({$<\x00\x0bé日\ud800")) | st.text()
PIECES = st.lists(
    st.sampled_from(
        ["Requirements:\n", "New interfaces introduced:\n", "```\n", "Traceback (most recent call last)", "\n"]
    )
    | ODD
).map("".join)


def numbers(text: str) -> dict[str, float]:
    return dict(zip(NAMES, count(text).tolist(), strict=True))


@given(PIECES)
def test_any_text_gives_finite_numbers(text: str) -> None:
    found = count(text)
    assert found.shape == (len(NAMES),) and found.dtype == np.float32
    assert np.isfinite(found).all() and (found >= 0).all()
    told = dict(zip(NAMES, found.tolist(), strict=True))
    assert told["code_share"] <= 1 and told["traceback"] in (0, 1)
    assert told["log_chars"] == pytest.approx(math.log1p(len(text)), rel=1e-6)
    assert np.array_equal(found, count(text))


def test_nothing_counts_nothing() -> None:
    assert count("").tolist() == [0.0] * len(NAMES)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("bullets", "- one\n* two\n+ three\n  4. four\n5) five\n-six\n--\n- \n", 5),
        ("quoted_names", "`total` and `Cart.total()` and `total` again, not `two words` or `1`", 2),
        ("paths", "shop/cart.py, (tests/test_cart.py) and shop/cart.py; not shop/cart or cart.py", 2),
        ("paths", "see https://example.org/shop/cart.py", 1),
        ("paths", "a.py\nb/c.py\nd/e/f.js", 2),
        ("snake_case_names", "round_cents and round_cents, max_total_2; not Cart, _x, RETRY_LIMIT", 2),
        ("camel_case_names", "ShopCart and HttpServer and ShopCart; not Cart, HTTP, shop", 2),
        ("log_lines", "a\nb\nc\n", 3),
        ("log_requirements_chars", "It fails\n\nRequirements:\n- keep it\n\nNew interfaces introduced:\nnone", 9),
        ("log_requirements_chars", "It fails\n\nRequirements:\n- keep it", 9),
        ("log_interface_chars", "It fails\n\nRequirements:\n- keep it\n\nNew interfaces introduced:\nnone\n", 4),
        ("log_interface_chars", "No New interfaces introduced: here", 0),
    ],
)
def test_what_is_counted(name: str, text: str, expected: int) -> None:
    assert numbers(text)[name] == pytest.approx(math.log1p(expected), rel=1e-6)


def test_the_share_of_code() -> None:
    assert numbers("1234567\n```\ncd\n```")["code_share"] == pytest.approx(10 / 18, abs=0.01)
    assert numbers("```\nnever closed")["code_share"] == 0


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("Traceback (most recent call last):\n", 1),
        ("Error: x\n    at Cart.total (cart.js:3)\n", 0),
        ("Exception\n\n\tat shop.Cart.total(Cart.java:3)\n", 1),
        ("\n\n  at <init>(", 1),
        ("panic: runtime error", 1),
        ("thread 'main' panicked\nstack backtrace:\n", 1),
        ("look at cart(1)", 0),
    ],
)
def test_a_traceback_is_seen(text: str, has: int) -> None:
    assert numbers(text)["traceback"] == has


def test_what_is_beyond_the_limit_does_not_count() -> None:
    text = "a" * MAX_CHARS
    assert np.array_equal(count(text + "\n- b `c_d` Traceback (most recent call last)"), count(text))
    assert numbers(text[:-1])["log_chars"] < numbers(text)["log_chars"]


def test_what_is_too_long_for_a_path_is_none() -> None:
    folders = "folder/" * 41
    assert len(folders + "file.py") <= MAX_PATH_CHARS < len("folder/" * 43)
    assert numbers(folders + "file.py")["paths"] > 0
    assert numbers("folder/" * 43 + "file.py")["paths"] == 0


HOSTILE = (
    "a/",
    "x/.",
    "./",
    "." * 79 + "/",
    ".-" * 39 + "/",
    ("x/." * 100)[:MAX_PATH_CHARS] + " ",
    ("._" * 38 + "/") * 3 + " ",
    "_",
    "a_",
    "_a",
    "`",
    "`a",
    " ",
    "\t",
    "\n",
    " \n",
    "\n ",
    "\r\n\t",
    "```\n",
    "\n```x",
    "Aa",
    "A",
    "1) ",
    "- ",
    "Requirements:\n",
    "New interfaces introduced:\n",
    "\n at a",
    "  at " + "a" * 500 + "\n",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_stalls_the_counting(piece: str) -> None:
    assert_linear(lambda text: count(f"{text}!"), piece, 5_000)
