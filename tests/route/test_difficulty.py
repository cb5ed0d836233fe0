"""Ease of tasks and ability of fixers: what a fit finds on made-up tasks whose truth is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.route.difficulty import REACH, Ability, DifficultyData, DifficultyHead, Floats, load, save

SPACES = ("recon-3", "counts-1")
NAMES = ("log_chars", "top_confidence", "noise", "colour")
"""Two that are always heard and two that have to earn it; `colour` only tells repositories apart."""
REPOSITORIES = 12
FIXERS = 8
TRUTH = np.array([-1.0, 0.8, 0.0, 0.0])


def world(n: int = 360, seed: int = 0, colour: float = 2.0) -> tuple[DifficultyData, Floats]:
    """Tasks with their ease. Repositories of a high colour are easier, whatever else is measured of their tasks."""
    draws = np.random.default_rng(seed)
    places = np.arange(n) % REPOSITORIES
    shades = draws.normal(size=REPOSITORIES)
    x = np.column_stack([draws.normal(size=(n, 3)), shades[places]])
    ease = x @ TRUTH
    odds = ease[:, None] + colour * shades[places][:, None] + np.linspace(-1, 1, FIXERS)
    rate = (draws.random((n, FIXERS)) < 1 / (1 + np.exp(-odds))).mean(axis=1)
    log_cost = -0.5 * ease + draws.normal(size=n, scale=0.3)
    groups = tuple(f"repo{place}" for place in places)
    return DifficultyData(x, groups, ("all",) * n, rate, log_cost), ease


@cache
def fitted() -> DifficultyHead:
    return DifficultyHead(SPACES, NAMES).fit(world()[0]).with_prior([-0.5, 0.0, 1.0])


def agreement(head: DifficultyHead, seed: int = 9) -> float:
    """Correlation of what the head says of new tasks with the truth."""
    lessons, ease = world(seed=seed)
    given = head.judge(lessons.features).ease
    return 0.0 if given.std() == 0 else float(np.corrcoef(given, ease)[0, 1])


# The fit


def test_ease_is_found_with_its_direction() -> None:
    head = fitted()
    long, sure = head.ease_[:2] * head.slope_
    assert long < -0.2 and sure > 0.2
    assert agreement(head) > 0.95


def test_what_only_tells_repositories_apart_has_no_weight() -> None:
    head = fitted()
    assert abs(head.ease_[3]) < 1e-9 and abs(head.effort_[3]) < 1e-9
    lessons, _ = world()
    assert abs(np.corrcoef(lessons.features[:, 3], lessons.rate)[0, 1]) > 0.4  # though it goes along with solving


def test_tasks_of_repositories_with_one_task_each_still_teach() -> None:
    lessons, _ = world(colour=0.0)
    alone = replace(lessons, groups=tuple(f"repo{at}" for at in range(len(lessons.rate))))
    assert agreement(DifficultyHead(SPACES, NAMES).fit(alone)) > 0.95


def test_cost_alone_teaches_ease() -> None:
    lessons, _ = world()
    head = DifficultyHead(SPACES, NAMES).fit(replace(lessons, rate=np.full(len(lessons.rate), 0.5)))
    assert head.ease_[0] < -0.05 and head.ease_[1] > 0.05
    # How many log odds it is worth is not to be had from equal rates, so it is worth none.
    assert head.slope_ == pytest.approx(0.0, abs=1e-6)
    hard, easy = head.judge([[2.0, -2.0, 0.0, 0.0], [-2.0, 2.0, 0.0, 0.0]]).cost_factor
    assert hard > 1.5 > 0.7 > easy


def test_cost_helps_where_rates_say_little() -> None:
    lessons, ease = world(n=96, seed=4)
    solved = np.random.default_rng(5).random(96) < 1 / (1 + np.exp(-0.5 * ease))  # one fixer, one bit a task
    one_fixer = replace(lessons, rate=solved.astype(np.float64))
    without = replace(one_fixer, log_cost=np.full(96, np.nan))
    with_cost, blind = (DifficultyHead(SPACES, NAMES).fit(one) for one in (one_fixer, without))
    assert agreement(with_cost) > agreement(blind) + 0.02
    assert blind.effort_slope_ == 0 and blind.judge(lessons.features).cost_factor.tolist() == [1.0] * 96


def test_noise_earns_no_say_and_a_strong_feature_does() -> None:
    head = fitted()
    assert abs(head.ease_[2]) < 0.02 * abs(head.ease_[0])
    lessons, _ = world(n=720)
    strong = DifficultyHead(SPACES, ("a", "b", "noise", "colour")).fit(lessons)
    assert strong.penalty_ < 1e5 and agreement(strong) > 0.9


def test_rates_that_have_nothing_to_do_with_features_give_no_ease() -> None:
    lessons, _ = world()
    draws = np.random.default_rng(3)
    n = len(lessons.rate)
    head = DifficultyHead(SPACES, NAMES).fit(replace(lessons, rate=draws.random(n), log_cost=draws.normal(size=n)))
    assert np.abs(head.judge(lessons.features).ease).mean() < 0.2


def test_sets_of_tasks_are_compared_within_themselves() -> None:
    half = np.arange(360) % 2 == 0
    lessons = replace(world(colour=0.0)[0], sets=tuple("strong" if one else "weak" for one in half))
    rate = np.where(half, 0.5 + lessons.rate / 2, lessons.rate / 2)
    other_fixers = replace(lessons, rate=rate, log_cost=lessons.log_cost + 5 * half)
    before, after = (DifficultyHead(SPACES, NAMES).fit(one) for one in (lessons, other_fixers))
    # That one set had better and dearer fixers says nothing of its tasks.
    assert after.ease_ == pytest.approx(before.ease_) and after.effort_ == pytest.approx(before.effort_)
    assert agreement(after) > 0.95


def test_joined_lessons_keep_their_repositories_and_sets_apart() -> None:
    lessons, _ = world(n=24)
    both = lessons.joined(lessons)
    assert both.features.shape == (48, 4) and both.rate.tolist() == lessons.rate.tolist() * 2
    assert len(set(both.groups)) == 2 * REPOSITORIES and len(set(both.sets)) == 2
    back = both.rows(np.arange(48) >= 24)
    assert np.array_equal(back.features, lessons.features) and len(set(back.groups)) == REPOSITORIES


def test_the_effort_of_the_average_task_is_one() -> None:
    lessons, ease = world()
    factor = fitted().judge(lessons.features).cost_factor
    assert factor.mean() == pytest.approx(1.0) and np.corrcoef(np.log(factor), ease)[0, 1] < -0.95


def test_lessons_that_cannot_be_learned_from_are_refused() -> None:
    lessons, _ = world(n=24)
    with pytest.raises(RouteError, match=r"24 tasks with features, and .* another number"):
        replace(lessons, rate=lessons.rate[:-1])
    with pytest.raises(RouteError, match="not a share from 0 to 1"):
        replace(lessons, rate=np.full(24, np.nan))
    with pytest.raises(RouteError, match="Name each feature"):
        DifficultyHead(SPACES, NAMES[:3]).fit(lessons)
    with pytest.raises(RouteError, match="1 repository in 24 tasks"):
        DifficultyHead(SPACES, NAMES).fit(replace(lessons, groups=("one",) * 24))
    for bad in (math.nan, math.inf):
        features = lessons.features.copy()
        features[3, 1] = bad
        with pytest.raises(RouteError, match="values that are not numbers"):
            replace(lessons, features=features)


# Ability


def tried(n: int, solved: float, ease: float = 0.0, repositories: int = 10) -> Ability:
    """Of a fixer that solved a share of n tasks, evenly over repositories."""
    resolved = np.floor(np.arange(1, n + 1) * solved + 1e-9) > np.floor(np.arange(n) * solved + 1e-9)
    groups = [f"repo{at * repositories // n}" for at in range(n)]
    return fitted().ability(np.full(n, ease), resolved, groups)


def test_without_outcomes_a_fixer_is_what_fixers_are() -> None:
    head = fitted()
    nothing = head.ability([], [], [])
    assert [nothing.value, nothing.sd] == pytest.approx([head.prior_mean_, head.prior_sd_])


def test_few_outcomes_shrink_towards_the_prior_and_many_do_not() -> None:
    prior, told = fitted().prior_mean_, math.log(0.8 / 0.2)
    few, many = (tried(n, 0.8).value for n in (25, 400))
    assert prior < few < many
    assert told - few > 0.15 and abs(told - many) < 0.1


def test_more_outcomes_leave_less_open() -> None:
    head = fitted()
    abilities = [tried(n, 0.6) for n in (25, 50, 100, 400)]
    assert [one.sd for one in abilities] == sorted((one.sd for one in abilities), reverse=True)
    widths = [float((high - low)[0]) for _, low, high in (head.probability(one, [0.0]) for one in abilities)]
    assert widths == sorted(widths, reverse=True) and widths[0] > 1.5 * widths[-1]


def test_hard_tasks_solved_say_more_than_easy_ones() -> None:
    assert tried(40, 0.5, ease=-1.0).value > tried(40, 0.5).value + 0.5 > tried(40, 0.5, ease=1.0).value + 1.0


def test_outcomes_of_one_repository_leave_much_open() -> None:
    one, many = tried(400, 0.6, repositories=1), tried(400, 0.6, repositories=20)
    assert one.sd > 2.5 * many.sd and one.sd > 0.4
    assert tried(4000, 0.6, repositories=1).sd > 0.4  # and more of the same does not help


def test_a_fixer_that_solved_all_or_nothing_has_a_finite_ability() -> None:
    assert -6 < tried(50, 0.0).value < -1.5 and 1.5 < tried(50, 1.0).value < 6


# Probabilities

FINITE = st.floats(-30, 30)


@given(FINITE, st.floats(0, 10), FINITE)
def test_a_probability_lies_within_its_interval(value: float, sd: float, ease: float) -> None:
    p, low, high = (float(one[0]) for one in fitted().probability(Ability(value, sd), [ease]))
    assert 0 <= low <= p <= high <= 1


@given(FINITE, st.floats(0, 3), FINITE, st.floats(0.01, 5))
def test_a_probability_grows_with_ability_and_ease(value: float, sd: float, ease: float, more: float) -> None:
    head = fitted()
    before = head.probability(Ability(value, sd), [ease])
    for after in (
        head.probability(Ability(value + more, sd), [ease]),
        head.probability(Ability(value, sd), [ease + more]),
    ):
        assert all(one[0] <= other[0] for one, other in zip(before, after, strict=True))
        assert before[0][0] < after[0][0] or before[0][0] > 0.999999 or after[0][0] < 0.000001


def test_several_fixers_at_once_get_what_each_gets_alone() -> None:
    head, abilities = fitted(), [Ability(-1.0, 0.2), Ability(0.4, 1.0), Ability(2.0, 0.0)]
    together = np.array(head.probabilities(abilities, -0.3))
    assert together == pytest.approx(np.column_stack([np.ravel(head.probability(one, [-0.3])) for one in abilities]))


def test_the_ends_of_an_interval_are_two_deviations_of_ability_away() -> None:
    p, low, high = (float(one[0]) for one in fitted().probability(Ability(0.3, 0.5), [0.2]))
    ends = [fitted().probability(Ability(0.3 + step * 0.5, 0.0), [0.2])[0][0] for step in (-1.96, 1.96)]
    assert [low, high] == pytest.approx(ends, abs=1e-4) and low < p - 0.15 < p + 0.15 < high


def test_what_is_open_draws_a_probability_to_a_half() -> None:
    sure, unsure = (fitted().probability(Ability(2.0, sd), [0.0])[0][0] for sd in (0.1, 1.5))
    assert 0.5 < unsure < sure < 1 / (1 + math.exp(-2.0))


def test_the_probabilities_of_known_tasks_are_right_on_average() -> None:
    """On tasks and repositories that were not fitted on, fixers solve about as often as they are said to."""
    head, draws = fitted(), np.random.default_rng(11)
    told = []
    for ability in (-1.0, 0.0, 1.0):
        known, ease = world(n=600, seed=12, colour=0.0)
        resolved = draws.random(600) < 1 / (1 + np.exp(-(ability + ease)))
        seen = head.judge(known.features).ease
        learned = head.ability(seen[:300], resolved[:300], known.groups[:300])
        told.append(abs(head.probability(learned, seen[300:])[0].mean() - resolved[300:].mean()))
    assert max(told) < 0.06


# Odd tasks


def test_a_task_unlike_all_is_far() -> None:
    lessons, _ = world()
    # The outermost hundredth of the lessons themselves: beyond it there is too little to learn from.
    assert fitted().judge(lessons.features).far.sum() == math.ceil((1 - REACH) * (len(lessons.rate) - 1))
    assert fitted().judge([[0.0] * 4, [40.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1e300]]).far.tolist() == [
        False,
        True,
        True,
    ]


def test_a_far_number_counts_as_four_deviations() -> None:
    far, farther = fitted().judge([[50.0, 0.0, 0.0, 0.0], [1e30, 0.0, 0.0, 0.0]]).ease
    assert far == farther < 0


@given(st.lists(st.floats(), min_size=4, max_size=4), st.lists(st.booleans(), max_size=5))
def test_hostile_vectors_give_a_probability_or_an_error_of_ours(vector: list[float], resolved: list[bool]) -> None:
    head = fitted()
    if not all(map(math.isfinite, vector)):
        with pytest.raises(RouteError, match="values that are not numbers"):
            head.judge(vector)
        return
    judged = head.judge(vector)
    assert judged.cost_factor[0] > 0 and np.isfinite(judged.cost_factor).all()
    ability = head.ability(np.repeat(judged.ease, len(resolved)), resolved, ["r"] * len(resolved))
    p, low, high = (float(one[0]) for one in head.probability(ability, judged.ease))
    assert 0 <= low <= p <= high <= 1


def test_a_vector_of_another_size_is_refused() -> None:
    with pytest.raises(RouteError, match=r"3 numbers where the head of counts-1\+recon-3 knows 4"):
        fitted().judge([1.0, 2.0, 3.0])


# Files


def test_json_gives_back_the_same_numbers(tmp_path: Path) -> None:
    head, (lessons, _) = fitted(), world(seed=1)
    path = save(head, tmp_path / "new")
    assert path.name == "counts-1+recon-3.difficulty.json"
    back = load(tmp_path / "none", tmp_path / "new")["counts-1", "recon-3"]
    assert back.to_json() == head.to_json() and (back.names, back.rows_) == (NAMES, 360)
    for mine, its in zip(
        vars(head.judge(lessons.features)).values(), vars(back.judge(lessons.features)).values(), strict=True
    ):
        assert np.array_equal(mine, its)
    outcomes = ([0.5, -0.5, 0.0], [True, False, True], ["a", "a", "b"])
    assert back.ability(*outcomes) == head.ability(*outcomes)


def test_a_later_folder_wins(tmp_path: Path) -> None:
    mine = DifficultyHead(SPACES, NAMES).fit(world(seed=2)[0]).with_prior([0.0])
    save(fitted(), tmp_path / "shipped")
    save(mine, tmp_path / "own")
    found = load(tmp_path / "shipped", tmp_path / "own")
    assert [head.to_json() for head in found.values()] == [mine.to_json()]


def test_features_that_never_vary_can_be_kept(tmp_path: Path) -> None:
    lessons, _ = world(n=24)
    flat = replace(lessons, features=np.ones((24, 4)))
    save(DifficultyHead(SPACES, NAMES).fit(flat).with_prior([0.0]), tmp_path)
    (head,) = load(tmp_path).values()
    judged = head.judge([[1.0] * 4, [1.0, 1.0, 1.0, 1.5]])
    assert judged.ease.tolist() == [0.0, 0.0] and judged.far.tolist() == [False, True]


@pytest.mark.parametrize(
    "changes",
    [
        {"ease": [0.0] * 3},
        {"scale": [0.0] * 4},
        {"slope": math.nan},
        {"prior_sd": 0.0},
        {"reach": -1.0},
        {"spaces": []},
        {"version": 2},
        {"extra": 1},
    ],
)
def test_a_head_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    path = save(fitted(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(RouteError, match=r"counts-1\+recon-3\.difficulty\.json: not a fitted head"):
        load(tmp_path)


def test_a_head_under_another_name_is_refused(tmp_path: Path) -> None:
    save(fitted(), tmp_path).rename(tmp_path / "counts-1.difficulty.json")
    with pytest.raises(RouteError, match=r"is the head of counts-1\+recon-3\. Rename it"):
        load(tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RouteError, match=r"cannot write .*Choose a folder with `route\.resumes`"):
        save(fitted(), tmp_path / "file")
