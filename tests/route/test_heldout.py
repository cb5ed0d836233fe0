"""Held-out probabilities: nothing of a fold's outcomes may reach its own probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scrout.base import RouteError
from scrout.route.heldout import by_difficulty, by_resumes, fit_difficulty, fit_resumes, lessons
from scrout.route.outcome_table import Ints, OutcomeTable, group_folds
from scrout.route.stats import Floats

NAMES = ("log_chars", "noise", "other")
SPACE = "counts-1"
FIXERS = ("cheap", "middle", "strong")
N = 150

DRAWS = np.random.default_rng(7)
FEATURES: Floats = DRAWS.normal(size=(N, 3))
TURNS = {"text/a": DRAWS.normal(size=(N, 4)).astype(np.float32), "hidden": DRAWS.normal(size=(N, 6)).astype(np.float32)}


def made() -> OutcomeTable:
    """Short tasks are easier and cost less; six repositories."""
    draws = np.random.default_rng(1)
    odds = -1.2 * FEATURES[:, :1] + np.array([-1.2, 0.2, 1.6])
    ids = tuple(f"repo{at % 6}-{at}" for at in range(N))
    cost = np.exp(0.5 * FEATURES[:, :1]) * np.array([0.1, 0.4, 0.9]) * np.exp(draws.normal(size=(N, 3), scale=0.2))
    return OutcomeTable(
        ids=ids,
        groups=tuple(one.rpartition("-")[0] for one in ids),
        fixers=FIXERS,
        resolved=draws.random((N, 3)) < 1 / (1 + np.exp(-odds)),
        cost=cost,
        measured=np.ones((N, 3), dtype=bool),
    )


TABLE = made()
FOLDS = group_folds(TABLE.groups, 3)


def difficulty(table: OutcomeTable, folds: Ints = FOLDS) -> Floats:
    return by_difficulty(table, FEATURES, NAMES, [SPACE], folds)


def helped(table: OutcomeTable, folds: Ints = FOLDS) -> Floats:
    """With lessons of other tasks, where what makes a task hard is another feature."""
    others = lessons(TABLE, FEATURES[:, [1, 0, 2]])
    return by_difficulty(table, FEATURES, NAMES, [SPACE], folds, others)


def resumes(table: OutcomeTable, folds: Ints = FOLDS) -> Floats:
    return by_resumes(table, TURNS, folds)


Way = Callable[[OutcomeTable, Ints], Floats]
BOTH = pytest.mark.parametrize("probabilities", [difficulty, resumes])
ALL = pytest.mark.parametrize("probabilities", [difficulty, helped, resumes])


@ALL
@pytest.mark.parametrize("fold", range(3))
def test_a_folds_outcomes_do_not_reach_its_probabilities(probabilities: Way, fold: int) -> None:
    own = np.equal(FOLDS, fold)
    before = probabilities(TABLE, FOLDS)
    other_ends = np.where(own[:, None], ~TABLE.resolved, TABLE.resolved)
    other_costs = np.where(own[:, None], TABLE.cost[::-1] * 100, TABLE.cost)
    after = probabilities(replace(TABLE, resolved=other_ends, cost=other_costs), FOLDS)
    assert np.array_equal(before[own], after[own])
    # The same outcomes do reach those of the others: the test would see them.
    assert np.abs(before[~own] - after[~own]).min(axis=0).max() > 1e-6


@BOTH
def test_whether_a_task_was_tried_does_not_reach_its_probabilities(probabilities: Way) -> None:
    own = FOLDS == 1
    untried = replace(TABLE, measured=TABLE.measured & ~own[:, None])
    assert np.array_equal(probabilities(untried, FOLDS)[own], probabilities(TABLE, FOLDS)[own])


@BOTH
def test_probabilities_are_probabilities(probabilities: Way) -> None:
    found = probabilities(TABLE, FOLDS)
    assert found.shape == TABLE.resolved.shape and ((found > 0) & (found < 1)).all()


def test_probabilities_know_ease_and_ability() -> None:
    found = difficulty(TABLE)
    assert (np.diff(found.mean(axis=0)) > 0.05).all()
    for column in range(3):
        assert np.corrcoef(found[:, column], FEATURES[:, 0])[0, 1] < -0.8
    assert found.mean(axis=0) == pytest.approx(TABLE.resolved.mean(axis=0), abs=0.06)


@BOTH
def test_a_fixer_without_an_outcome_in_the_other_folds_has_no_probability(probabilities: Way) -> None:
    measured = TABLE.measured.copy()
    measured[:, 2] = FOLDS == 0
    found = probabilities(replace(TABLE, measured=measured), FOLDS)
    assert np.isnan(found[FOLDS == 0, 2]).all() and np.isfinite(found[FOLDS != 0, 2]).all()
    assert np.isfinite(found[:, :2]).all()


def test_a_resume_needs_both_solves_and_failures() -> None:
    resolved = TABLE.resolved.copy()
    resolved[FOLDS != 0, 0] = True
    found = resumes(replace(TABLE, resolved=resolved))
    assert np.isnan(found[FOLDS == 0, 0]).all() and np.isfinite(found[:, 1:]).all()
    assert np.isfinite(difficulty(replace(TABLE, resolved=resolved))).all()


def test_lessons_of_other_tasks_take_part() -> None:
    alone, more = difficulty(TABLE), helped(TABLE)
    for column in range(3):
        by_length = [np.corrcoef(found[:, column], FEATURES[:, 0])[0, 1] for found in (alone, more)]
        assert by_length[0] < by_length[1] - 0.02


def test_spaces_are_averaged() -> None:
    apart = [by_resumes(TABLE, {space: rows}, FOLDS) for space, rows in TURNS.items()]
    assert resumes(TABLE) == pytest.approx(np.mean(apart, axis=0))
    assert np.abs(apart[0] - apart[1]).max() > 0.01


def test_tasks_that_nobody_tried_teach_nothing() -> None:
    untried = np.arange(N) % 5 == 0
    some = replace(TABLE, measured=TABLE.measured & ~untried[:, None])
    learned = lessons(some, FEATURES)
    assert len(learned.rate) == (~untried).sum() and np.isfinite(learned.rate).all()
    head = fit_difficulty(some, FEATURES, NAMES, [SPACE])
    alone = fit_difficulty(TABLE.rows(~untried), FEATURES[~untried], NAMES, [SPACE])
    assert head.to_json() == alone.to_json() and head.slope_ > 0.1


def test_lessons_of_a_table() -> None:
    table = OutcomeTable(
        ids=("a-1", "a-2", "b-1"),
        groups=("a", "a", "b"),
        fixers=FIXERS[:2],
        resolved=np.array([[True, False], [True, True], [False, True]]),
        cost=np.array([[1.0, np.e], [np.nan, 1.0], [np.nan, 0.0]]),
        measured=np.array([[True, True], [True, True], [False, True]]),
    )
    learned = lessons(table, np.zeros((3, 1)))
    assert learned.rate.tolist() == [0.5, 1.0, 1.0]
    assert learned.log_cost[:2] == pytest.approx([0.5, 0.0]) and np.isnan(learned.log_cost[2])
    assert learned.sets[0] == learned.sets[1] != learned.sets[2] and learned.groups == table.groups


def test_the_prior_is_what_the_fixers_are() -> None:
    head = fit_difficulty(TABLE, FEATURES, NAMES, [SPACE])
    assert abs(head.prior_mean_) < 0.6 and 0.75 <= head.prior_sd_ < 2.5
    stronger = fit_difficulty(
        replace(TABLE, resolved=TABLE.resolved | (FEATURES[:, 1:2] > 0)), FEATURES, NAMES, [SPACE]
    )
    assert stronger.prior_mean_ > head.prior_mean_ + 0.5


def test_outcomes_that_allow_no_fit_are_told() -> None:
    nothing = replace(TABLE, measured=np.zeros((N, 3), dtype=bool))
    with pytest.raises(RouteError, match="0 repository in 0 tasks"):
        difficulty(nothing)
    with pytest.raises(RouteError, match="0 of 0 outcomes"):
        resumes(nothing)
    with pytest.raises(RouteError, match="0 of 0 outcomes"):
        fit_resumes(TABLE, "text/a", TURNS["text/a"], [None] * 3, np.ones(N, dtype=bool))
