"""Wilson's interval against published values, against scipy, and at its ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.intervals import wilson

COUNTS = st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [  # Newcombe 1998, table I
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published_values(count: int, of: int, low: float, high: float) -> None:
    assert wilson(count, of) == pytest.approx((low, high), abs=5e-5)


@given(COUNTS)
def test_scipy_agrees(counted: tuple[int, int]) -> None:
    stats = pytest.importorskip("scipy.stats")
    found = stats.binomtest(*counted).proportion_ci(0.95, method="wilson")
    assert wilson(*counted) == pytest.approx((found.low, found.high), abs=1e-12)


def test_intervals_hold_at_both_ends() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 10)[0] == 0.0 and 0.25 < wilson(0, 10)[1] < 0.31
    assert wilson(10, 10)[1] == 1.0 and 0.69 < wilson(10, 10)[0] < 0.75


@given(COUNTS)
def test_an_interval_holds_its_share_and_narrows(counted: tuple[int, int]) -> None:
    solved, n = counted
    low, high = wilson(solved, n)
    more = wilson(4 * solved, 4 * n)
    assert 0 <= low <= solved / n <= high <= 1 and more[1] - more[0] < high - low


@pytest.mark.parametrize(("count", "of"), [(5, 4), (-1, 4), (0, -1)])
def test_what_is_no_share_is_refused(count: int, of: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(count, of)
