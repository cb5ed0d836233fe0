"""Each against values that are known from elsewhere: textbooks, scipy's own slower ways, or counting by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from scrout.base import StudyError
from scrout.lab.study import stats


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(6, 1, 0.125), (11, 7, 0.481), (7, 5, 0.774), (5, 9, 0.424), (29, 22, 0.401), (44, 25, 0.029), (35, 25, 0.245)],
)
def test_mcnemar_gives_the_values_that_the_paper_prints(gained: int, lost: int, p: float) -> None:
    assert stats.mcnemar(gained, lost) == pytest.approx(p, abs=0.0005)
    assert stats.mcnemar(lost, gained) == stats.mcnemar(gained, lost)


def test_mcnemar_of_ways_that_never_differ_is_one() -> None:
    assert stats.mcnemar(0, 0) == 1.0


def test_wilson_by_its_formula() -> None:
    # Newcombe 1998, table I: 81 of 263.
    found = stats.wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    with pytest.raises(StudyError):
        stats.wilson(5, 4)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_agrees_with_scipy_on_skewed_values(method: stats.Method) -> None:
    values = np.random.default_rng(1).lognormal(size=80)
    ours = stats.bootstrap(80, stats.mean_of(values), method=method, draws=20_000)
    theirs = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method=method, rng=np.random.default_rng(2)
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, rel=0.02)
    assert ours.high == pytest.approx(theirs.high, rel=0.02)


def test_bca_moves_the_interval_toward_the_long_tail() -> None:
    values = np.random.default_rng(1).lognormal(size=60)
    plain, corrected = (stats.bootstrap(60, stats.mean_of(values), method=m) for m in ("percentile", "bca"))
    assert corrected.high > plain.high and corrected.low > plain.low


def test_a_ratio_is_of_sums() -> None:
    found = stats.bootstrap(3, stats.ratio_of([1.0, 2.0, 3.0], [1, 0, 1]), draws=200)
    assert found.value == pytest.approx(3.0)


def test_draws_without_a_ratio_are_left_out() -> None:
    found = stats.bootstrap(2, stats.ratio_of([1.0, 1.0], [1, 0]), draws=200)
    assert np.isfinite([found.low, found.high]).all()


def test_a_figure_of_no_task_is_refused() -> None:
    with pytest.raises(StudyError, match="no task"):
        stats.bootstrap(0, stats.mean_of([]))


def test_permutation_is_exact_where_there_are_few() -> None:
    values = [3.0, 1.0, 2.0, -0.5, 1.5]
    signs = np.array(list(itertools.product([1, -1], repeat=5)))
    sums = signs @ np.array(values)
    expected = min(1.0, 2 * float(np.mean(sums >= sum(values) - 1e-12)))
    assert stats.permutation(values) == pytest.approx(expected)
    assert stats.permutation([0.0, 0.0]) == stats.permutation([0.0, 3.0]) == 1.0


def test_permutation_of_signs_is_close_to_mcnemar() -> None:
    differences = [1.0] * 44 + [-1.0] * 25 + [0.0] * 197
    assert stats.permutation(differences) == pytest.approx(stats.mcnemar(44, 25), abs=0.01)


def test_holm_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_and_keeps_their_order(values: list[float]) -> None:
    adjusted = stats.holm(values)
    assert all(a >= p - 1e-12 and a <= 1 for a, p in zip(adjusted, values, strict=True))
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [adjusted[i] for i in order] == sorted(adjusted)


def test_paired_counts_what_each_way_has_alone() -> None:
    first = np.array([True, True, False, False, False])
    second = np.array([True, False, True, True, False])
    found = stats.paired(first, second)
    assert (found.gained, found.lost, found.tasks) == (2, 1, 5)
    assert found.change.value == pytest.approx(0.2)
    with pytest.raises(StudyError, match="no pairs"):
        stats.paired(first, second[:3])


def test_power_by_simulation() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(300, [0.12, 0.06, 0.82], size=4000)
    found = np.mean([stats.mcnemar(int(b), int(c)) < 0.05 for b, c, _ in counts])
    assert stats.power(300, 0.12, 0.06) == pytest.approx(found, abs=0.025)


def test_without_a_change_power_is_at_most_the_level() -> None:
    assert 0 < stats.power(400, 0.1, 0.1) <= 0.05


def test_tasks_needed_reach_the_power_and_no_fewer_nearly() -> None:
    needed = stats.tasks_needed(0.14, 0.10)
    assert needed is not None
    assert stats.power(needed, 0.14, 0.10) >= 0.8 > stats.power(needed - 40, 0.14, 0.10)
    assert stats.tasks_needed(0.1001, 0.1, most=500) is None
