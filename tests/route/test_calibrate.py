from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.fix.kinds.agent import AgentFixer
from scrout.money import Price
from scrout.records import Candidate
from scrout.route.calibrate import (
    Calibration,
    OutcomeTable,
    Policy,
    calibrate,
    changed,
    combination,
    constant_warning,
    group_folds,
    load,
    matched,
    pick,
    read_table,
    rules,
    save,
    sweep,
)
from scrout.route.calibration_plot import svg
from scrout.route.policy import anchor_of, walk, worth
from scrout.route.stats import climbs, estimate, hull, hull_at, mix, resamples

POLICIES: tuple[Policy, ...] = ("paper", "value")
RULES = rules()
RECEIPTS = Path(__file__).parents[3] / "shared/data/receipts"


def table(
    resolved: list[list[int]], p: list[list[float]], costs: list[float], measured: list[list[int]] | None = None
) -> OutcomeTable:
    """Fixers with one cost each; every task is of a repository of its own."""
    n, k = len(resolved), len(costs)
    return OutcomeTable(
        ids=tuple(f"task-{at}" for at in range(n)),
        groups=tuple(f"repo{at}" for at in range(n)),
        fixers=("cheap", "middle", "strong")[:k],
        resolved=np.array(resolved, dtype=bool),
        cost=np.tile(np.array(costs, dtype=np.float64), (n, 1)),
        measured=np.ones((n, k), dtype=bool) if measured is None else np.array(measured, dtype=bool),
        p=np.array(p, dtype=np.float64),
    )


def easy_and_hard(n: int = 40) -> OutcomeTable:
    """Half of the tasks are easy and both fixers solve them; the others only the dear one does. The probabilities know
    it.
    """
    easy, hard = [[1, 1], [0.9, 0.95]], [[0, 1], [0.1, 0.9]]
    rows = [easy if at % 2 else hard for at in range(n)]
    return table([row[0] for row in rows], [row[1] for row in rows], [0.1, 1.0])  # type: ignore[misc]


# Folds


def test_folds_keep_groups_whole_and_are_balanced() -> None:
    groups = ["a"] * 6 + ["b"] * 3 + ["c"] * 3 + ["d"] * 2 + ["e"] * 2
    folds = group_folds(groups, 3)
    assert [set(folds[[at for at, g in enumerate(groups) if g == name]].tolist()) for name in "abcde"] == [
        {0},
        {1},
        {2},
        {1},
        {2},
    ]
    assert np.bincount(folds).tolist() == [6, 5, 5]
    shuffled = list(reversed(groups))
    assert group_folds(shuffled, 3).tolist() == folds[::-1].tolist()


def test_fewer_groups_than_folds_make_fewer_folds() -> None:
    assert sorted(set(group_folds(["a", "b", "a"]).tolist())) == [0, 1]
    with pytest.raises(RouteError, match="another repository"):
        group_folds(["a", "a"])


# The hull


def test_the_hull_of_three_points_leaves_out_what_a_mix_beats() -> None:
    # The middle one costs as much as a half and half of the others, and solves less than the .5 of that.
    points = np.array([[0.5, 0.45], [0.0, 0.2], [1.0, 0.8]])
    assert hull(points).tolist() == [[0.0, 0.2], [1.0, 0.8]]
    points[0] = [0.5, 0.6]
    assert hull(points).tolist() == [[0.0, 0.2], [0.5, 0.6], [1.0, 0.8]]
    # One that costs more than the best and solves less is no corner.
    assert hull(np.array([[0.2, 0.5], [0.4, 0.7], [0.9, 0.6]])).tolist() == [[0.2, 0.5], [0.4, 0.7]]


def test_points_that_add_nothing_are_no_corners() -> None:
    assert hull(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])).tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert hull(np.array([[0.4, 0.5], [0.2, 0.5], [0.2, 0.3]])).tolist() == [[0.2, 0.5]]
    with pytest.raises(RouteError, match="Leave unknown ones out"):
        hull(np.array([[0.4, np.nan]]))


def test_the_hull_is_undefined_left_of_the_cheapest_and_flat_right_of_the_best() -> None:
    costs, solves = np.array([0.2, 0.4, 0.9]), np.array([0.5, 0.7, 0.6])
    found = [float(hull_at(costs, solves, at)) for at in (0.1, 0.2, 0.3, 0.4, 5.0)]
    assert np.isnan(found[0]) and found[1:] == pytest.approx([0.5, 0.6, 0.7, 0.7])
    with pytest.raises(RouteError, match=r"\$0\.2000"):
        mix(costs, solves, 0.1)


points = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100)), min_size=1, max_size=6)


@given(points, st.floats(0, 1), st.lists(st.floats(0.01, 1), min_size=6, max_size=6))
def test_a_random_mix_reaches_the_hull_and_none_is_over_it(
    rows: list[tuple[int, int]], place: float, weights: list[float]
) -> None:
    costs, solves = (np.array(column, dtype=np.float64) / 100 for column in zip(*rows, strict=True))
    at = costs.min() + place * (costs.max() - costs.min())
    best = float(hull_at(costs, solves, at))
    shares = mix(costs, solves, at)
    assert shares.sum() == pytest.approx(1) and (shares >= 0).all()
    assert shares @ costs <= at + 1e-9 and shares @ solves == pytest.approx(best, abs=1e-9)
    corners = hull(np.column_stack([costs, solves]))
    assert np.interp(at, corners[:, 0], corners[:, 1]) == pytest.approx(best, abs=1e-9)
    other = np.array(weights[: len(rows)]) / sum(weights[: len(rows)])
    assert other @ solves <= float(hull_at(costs, solves, other @ costs)) + 1e-9


def test_rows_of_fixers_are_looked_up_one_by_one() -> None:
    costs, solves = np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([[0.0, 1.0], [0.5, 1.0]])
    assert hull_at(costs, solves, np.array([0.25, 1.0])).tolist() == pytest.approx([0.25, 0.75])


def test_a_climb_goes_by_the_cheapest_further_solve() -> None:
    # From .2 to .6 for $0.2, then to .8 for $0.8; the third costs more than the second and solves less.
    prices, added = climbs(np.array([[0.2, 0.6, 0.5, 0.8]]), np.array([0.1, 0.3, 0.4, 1.1]))
    assert prices.tolist() == pytest.approx([0.5, 4.0]) and added.tolist() == pytest.approx([0.2, 0.8])
    # A step that is no corner is skipped: half of the way costs more than half of the price.
    prices, added = climbs(np.array([[0.2, 0.3, 0.8]]), np.array([0.0, 0.5, 0.6]))
    assert prices.tolist() == pytest.approx([1.0]) and added.tolist() == pytest.approx([0.6])


# Resampling


def test_an_interval_covers_what_a_mean_of_coins_should() -> None:
    solved = (np.arange(400) % 4 == 0).astype(np.float64)
    found = estimate(solved.mean(), resamples(400) @ solved)
    # The standard error of a share of .25 over 400 tasks is .0217.
    assert found.value == 0.25
    assert (found.low, found.high) == pytest.approx((0.25 - 1.96 * 0.0217, 0.25 + 1.96 * 0.0217), abs=0.006)
    assert found.clear and not estimate(0.0, np.linspace(-1, 1, 100)).clear


def test_draws_repeat_by_their_seed() -> None:
    assert (resamples(20) == resamples(20)).all() and (resamples(20, seed=1) != resamples(20)).any()
    assert resamples(20, draws=7).sum(axis=1) == pytest.approx(np.ones(7))


# Rules

probability_tables = st.integers(1, 4).flatmap(
    lambda k: st.tuples(
        st.lists(st.lists(st.one_of(st.none(), st.integers(0, 20)), min_size=k, max_size=k), min_size=1, max_size=5),
        st.lists(st.integers(1, 300), min_size=k, max_size=k, unique=True),
        st.integers(0, 41),
    )
)


@given(probability_tables)
def test_rules_choose_as_the_policies_do(drawn: tuple[list[list[int | None]], list[int], int]) -> None:
    """Whole numbers of twentieths and cents against settings in between: no tie hangs on rounding."""
    rows, cents, half = drawn
    p = np.array([[np.nan if at is None else at / 20 for at in row] for row in rows])
    costs = np.array(cents) / 100
    theta, solve_usd = half / 40, half * 0.37717
    walked, weighed = (
        rule.choices(p, costs, np.array([setting]))[0]
        for rule, setting in zip(RULES.values(), (theta, solve_usd), strict=True)
    )
    for at, row in enumerate(rows):
        pool = [
            Candidate(
                fixer=str(column),
                p_solve=None if probability is None else probability / 20,
                expected_cost_usd=Decimal(cents[column]) / 100,
                reason="",
            )
            for column, probability in enumerate(row)
        ]
        price = Price(input=Decimal(1), output=Decimal(1))
        agents = [AgentFixer(name=one.fixer, model="m", base_url="http://localhost/v1", price=price) for one in pool]
        anchor = anchor_of(agents, pool)
        assert str(walked[at]) == walk(pool, theta, anchor)
        made = worth(pool, Decimal(str(solve_usd)))
        assert str(weighed[at]) == (made.fixer if made else anchor)


def test_of_equally_cheap_fixers_the_likelier_is_taken() -> None:
    p, costs = np.array([[0.2, 0.6, 0.4]]), np.array([0.1, 0.1, 0.5])
    assert RULES["value"].choices(p, costs, np.array([0.0, 1.0, 1000.0])).ravel().tolist() == [1, 1, 1]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_settings_of_a_rule_go_from_one_end_to_the_other(policy: Policy) -> None:
    tasks = easy_and_hard()
    rule = RULES[policy]
    settings = rule.settings(tasks.probabilities, tasks.mean_costs)
    chosen = rule.choices(tasks.probabilities, tasks.mean_costs, settings)
    assert (np.diff(settings) > 0).all()
    assert set(chosen[0].tolist()) == {0} and set(chosen[-1].tolist()) == {1}
    # In between, the easy half is left to the cheap one.
    assert any(set(row[1::2].tolist()) == {0} and set(row[::2].tolist()) == {1} for row in chosen)


# The matched-point rule


@pytest.mark.parametrize("policy", POLICIES)
def test_matched_solves_as_much_as_the_strongest_for_less(policy: Policy) -> None:
    tasks = easy_and_hard()
    found = matched(tasks, group_folds(tasks.groups), RULES[policy])
    assert found.choices.tolist() == [at % 2 == 0 for at in range(40)]
    assert found.resolved.mean() == 1.0 and found.cost.mean() == pytest.approx(0.55)
    assert all(picked.reached for picked in found.by_fold)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tolerance_buys_a_cheaper_setting(policy: Policy) -> None:
    tasks = easy_and_hard()
    assert matched(tasks, group_folds(tasks.groups), RULES[policy], tolerance=0.5).cost.mean() == pytest.approx(0.1)


def test_the_anchor_is_the_likeliest_where_all_probabilities_are_known_else_the_most_expensive() -> None:
    nan = float("nan")
    p = np.array([[0.2, 0.6, 0.4], [0.2, nan, 0.4], [0.6, 0.6, 0.4]])
    # The dearest of equals; and where a probability is unknown, the dearest of all.
    assert RULES["paper"].choices(p, np.array([0.1, 0.5, 1.0]), np.array([0.9]))[0].tolist() == [1, 2, 1]
    assert rules(anchor=0)["paper"].choices(p, np.array([0.1, 0.5, 1.0]), np.array([0.9]))[0].tolist() == [0, 0, 0]


def test_a_setting_that_cannot_match_takes_the_most_solves_and_says_so() -> None:
    # The probabilities hide the middle one, which is the strongest.
    rows = [[0, 1, 0]] * 3 + [[1, 1, 0]]
    tasks = table(rows, [[0.9, 0.1, 0.2]] * 4, [0.1, 0.5, 1.0])
    picked = pick(tasks, RULES["paper"])
    assert not picked.reached
    chosen = RULES["paper"].choices(tasks.probabilities, tasks.mean_costs, np.array([picked.setting]))
    assert set(chosen[0].tolist()) == {0}


def test_a_named_anchor_takes_what_no_probability_reaches() -> None:
    rows = [[0, 1, 0]] * 39 + [[1, 1, 0]]
    tasks = table(rows, [[0.2, 0.1, 0.1]] * 40, [0.1, 0.5, 1.0])
    folds = group_folds(tasks.groups)
    found = {
        anchor: calibrate(tasks, folds, policy="paper", arm="solo", spaces=["x"], anchor=anchor).shares
        for anchor in ("", "middle")
    }
    assert found[""]["middle"] == 0 and found["middle"]["middle"] == 1
    with pytest.raises(RouteError, match="the anchor nobody has no outcomes"):
        calibrate(tasks, folds, policy="paper", arm="solo", spaces=["x"], anchor="nobody")


def test_a_fold_has_no_part_in_its_own_setting() -> None:
    tasks = easy_and_hard(40)
    folds = group_folds(tasks.groups)
    before = matched(tasks, folds, RULES["value"])
    resolved = tasks.resolved.copy()
    resolved[folds == 2, 0] = False
    after = matched(replace(tasks, resolved=resolved), folds, RULES["value"])
    assert after.by_fold[2] == before.by_fold[2] and after.by_fold != before.by_fold


def test_tasks_without_every_outcome_are_left_out() -> None:
    tasks = easy_and_hard()
    measured = tasks.measured.copy()
    measured[:10, 1] = False
    found = matched(replace(tasks, measured=measured), group_folds(tasks.groups), RULES["value"])
    assert found.table.ids == tasks.ids[10:] and len(found.choices) == 30


# The sweep


def test_pairs_without_an_outcome_make_the_solve_rate_an_interval() -> None:
    measured = [[1, 1], [1, 0], [1, 0], [1, 1]]
    tasks = table(
        [[1, 1], [0, 0], [0, 1], [0, 1]], [[0.9, 0.95], [0.1, 0.9], [0.2, 0.9], [0.3, 0.9]], [0.1, 1.0], measured
    )
    points = sweep(tasks, RULES["paper"])
    first, last = points[0], points[-1]
    assert (first.setting, first.solve_low, first.solve_high, first.unmeasured) == (0.0, 0.25, 0.25, 0)
    # All to the strong one: two are measured and solved; the others' flags are no outcomes, and cost its mean.
    assert (last.solve_low, last.solve_high, last.unmeasured, last.usd) == (0.5, 1.0, 2, 1.0)
    middle = next(point for point in points if 0.3 < point.setting < 0.9)
    assert (middle.solve_low, middle.solve_high, middle.usd) == (0.5, 1.0, pytest.approx(0.775))


def test_a_cost_that_nothing_tells_stays_unknown() -> None:
    tasks = table([[1, 1], [0, 1]], [[0.9, 0.9], [0.1, 0.9]], [0.1, float("nan")])
    # Between .1 and .9 the second task goes to the fixer whose cost nobody knows.
    assert [point.usd for point in sweep(tasks, RULES["paper"]) if point.setting < 0.9] == [pytest.approx(0.1), None]
    with pytest.raises(RouteError, match="no cost of middle is known"):
        matched(tasks, np.array([0, 1]), RULES["paper"])


def test_the_published_sweep_comes_out_of_the_published_receipts() -> None:
    """364 with-handoff outcomes of 266 tasks and four fixers, and the released router's probabilities."""
    if not RECEIPTS.is_dir():
        pytest.skip(f"{RECEIPTS} is not here")
    routing = json.loads((RECEIPTS / "routing_scenarios.json").read_text())
    pairs = json.loads((RECEIPTS / "outcomes_per_task.json").read_text())["system_union_pairs"]
    fixers, ids = routing["cheap_order"], sorted(routing["probability_vectors"])
    found = [[pairs.get(task, {}).get(fixer) for fixer in fixers] for task in ids]
    tasks = OutcomeTable(
        ids=tuple(ids),
        groups=tuple(ids),
        fixers=tuple(fixers),
        resolved=np.array([[bool(pair and pair["resolved"]) for pair in row] for row in found]),
        cost=np.array([[pair["cost_usd_pinned"] if pair else np.nan for pair in row] for row in found]),
        measured=np.array([[pair is not None for pair in row] for row in found]),
        p=np.array([[routing["probability_vectors"][task][fixer]["p_blend"] for fixer in fixers] for task in ids]),
    )
    # Its anchor is named: the last of the cheap order, which is not the likeliest of every task.
    points = sweep(tasks, rules(anchor=3)["paper"], [0.25, 0.30, 0.35, 0.40, 0.50])
    solved = [(round(266 * point.solve_low), round(266 * point.solve_high)) for point in points]
    assert solved == [(159, 159), (159, 159), (149, 169), (132, 179), (94, 196)]
    # The published dollars add $5.13 for all of the scouting.
    assert [round((point.usd or 0) + 5.13 / 266, 4) for point in points[:2]] == [0.1358, 0.1374]


# The constant


def test_a_router_that_takes_one_fixer_is_called_a_constant() -> None:
    assert constant_warning(np.array([1] * 95 + [0] * 5), ["cheap", "strong"]) == (
        "this router is a constant: it takes strong for 95% of the tasks, and strong alone needs no router"
    )
    assert constant_warning(np.array([1] * 94 + [0] * 6), ["cheap", "strong"]) == ""


# The whole


def calibrated(tasks: OutcomeTable, policy: Policy = "value") -> Calibration:
    folds = group_folds(tasks.groups)
    return calibrate(tasks, folds, policy=policy, arm="handoff", spaces=("text/x", "recon-2"))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_calibration_stands_beside_its_baselines(policy: Policy) -> None:
    found = calibrated(easy_and_hard(), policy)
    assert (found.ours.solve, found.ours.usd) == (1.0, pytest.approx(0.55))
    lines = {line.kind: line for line in found.baselines}
    assert list(lines) == ["cheapest", "strongest", "mix", "oracle"]
    assert (lines["cheapest"].solve, lines["cheapest"].usd) == (0.5, pytest.approx(0.1))
    assert found.strongest == lines["strongest"] and found.strongest.name == "always middle"
    assert found.strongest.saving is not None and found.strongest.solve_gain is not None
    assert found.strongest.saving.value == pytest.approx(0.45) and found.strongest.saving.clear
    assert (found.strongest.solve_gain.low, found.strongest.solve_gain.high) == (0, 0)
    # $0.55 is half of the way from $0.1 to $1, and so the mix solves half of the rest.
    assert lines["mix"].solve == pytest.approx(0.75)
    assert found.over_hull is not None and found.over_hull.value == pytest.approx(0.25) and found.over_hull.clear
    # The oracle pays the cheap one for easy tasks and the strong one for hard ones, as ours does.
    assert (lines["oracle"].solve, lines["oracle"].usd) == (1.0, pytest.approx(0.55))
    assert found.shares == {"cheap": 0.5, "middle": 0.5} and found.warnings == ()
    assert (found.tasks, found.left_out, found.repositories, found.folds) == (40, 0, 40, 5)


def test_every_constant_has_a_line() -> None:
    rng = np.random.default_rng(0)
    solved = (rng.random((60, 3)) < [0.3, 0.5, 0.6]).astype(int).tolist()
    found = calibrated(table(solved, [[0.3, 0.5, 0.6]] * 60, [0.1, 0.5, 1.0]))
    names = [line.name for line in found.baselines]
    assert names[:3] == ["always cheap", "always middle", "always strong"] and names[-1] == "oracle"
    assert all(line.solve_gain is not None for line in found.baselines)


def test_probabilities_that_know_nothing_make_a_constant_that_beats_no_mix() -> None:
    tasks = easy_and_hard()
    found = calibrated(replace(tasks, p=np.tile([0.5, 0.9], (40, 1))))
    assert found.shares == {"cheap": 0.0, "middle": 1.0}
    assert any("this router is a constant: it takes middle" in words for words in found.warnings)
    assert any("at random at the same cost" in words for words in found.warnings)


def test_a_router_cheaper_than_every_fixer_has_no_mix_beside_it() -> None:
    # Each fixer is cheap where it is likely, so whoever follows the probabilities pays less than any one of them costs.
    first, second = ([1, 0], [0.9, 0.1], [0.1, 0.9]), ([0, 1], [0.1, 0.9], [0.9, 0.2])
    rows = [first if at % 2 else second for at in range(40)]
    tasks = table([list(row[0]) for row in rows], [list(row[1]) for row in rows], [1.0, 1.0])
    found = calibrated(replace(tasks, cost=np.array([row[2] for row in rows])))
    assert found.ours.solve == 1.0 and found.ours.usd == pytest.approx(0.15)
    assert found.over_hull is None and "mix" not in {line.kind for line in found.baselines}
    assert any("less than the cheapest fixer alone" in words for words in found.warnings)


def test_a_router_below_the_mix_is_told_so() -> None:
    # The middle one solves everything, and its probabilities say the opposite: the walk can only end at one of the
    # others.
    rows = [[int(at % 10 == 0), 1, int(at % 3 == 0)] for at in range(40)]
    found = calibrated(table(rows, [[0.9, 0.1, 0.95]] * 40, [0.1, 0.5, 1.0]), "paper")
    assert found.shares["strong"] == 1.0 and found.over_hull is not None and found.over_hull.high < 0
    assert "it does worse than drawing fixers at random at the same cost" in found.warnings
    assert any("in 5 of 5 folds no setting" in words for words in found.warnings)


def test_a_setting_belongs_to_its_combination_of_spaces_alone() -> None:
    found = calibrated(easy_and_hard(), "paper")
    assert list(found.thetas) == list(found.solve_usds) == ["recon-2+text/x"] == [combination(("text/x", "recon-2"))]
    assert found.theta(["recon-2", "text/x"]) == found.setting and 0.1 < found.setting <= 0.9
    assert found.theta(["text/x"]) is None and found.solve_usd(["text/x"]) is None
    assert found.solve_usd(["text/x", "recon-2"]) is not None


def test_a_calibration_is_stored_with_what_was_stored_before(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    tasks = easy_and_hard()
    folds = group_folds(tasks.groups)
    alone = calibrate(tasks, folds, policy="paper", arm="handoff", spaces=["text/x"])
    both = calibrated(tasks)
    save(alone, tmp_path)
    assert load(tmp_path) == alone
    save(both, tmp_path)
    stored = load(tmp_path)
    assert stored is not None and stored.thetas == alone.thetas | both.thetas and stored.policy == "value"
    # Another arm is another matter: nothing of the former stays.
    save(both.model_copy(update={"arm": "solo"}), tmp_path)
    stored = load(tmp_path)
    assert stored is not None and stored.thetas == both.thetas
    (tmp_path / "calibration.json").write_text("{}")
    with pytest.raises(RouteError, match="scrout calibrate"):
        load(tmp_path)


def test_calibrations_that_are_saved_at_once_all_stay(tmp_path: Path) -> None:
    made = calibrated(easy_and_hard())
    names = [f"space-{at}" for at in range(24)]
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(lambda name: save(made.model_copy(update={"thetas": {name: 0.5}}), tmp_path), names))
    stored = load(tmp_path)
    assert stored is not None and sorted(stored.thetas) == sorted(names)


def test_what_changed_is_told_by_combination() -> None:
    now = calibrated(easy_and_hard())
    (line,) = changed(None, now)
    assert re.fullmatch(r"recon-2\+text/x: theta 0\.\d{3} \(new\), a solve is worth \$\d+\.\d\d \(new\)", line)
    former = now.model_copy(
        update={
            "thetas": {"recon-2+text/x": 0.1234, "old": 0.5},
            "solve_usds": now.solve_usds,
            "fixers": ("a", "b", "c"),
            "arm": "solo",
        }
    )
    both = changed(former, now)
    assert "(was 0.123)" in both[0] and "(as before)" in both[0]
    assert both[1:] == ["old: no longer set, as that was of 3 fixers, solo arm"]


def test_too_little_is_refused() -> None:
    with pytest.raises(RouteError, match="24 tasks have an outcome of all 2 fixers"):
        calibrated(easy_and_hard(24))
    measured = np.ones((40, 2), dtype=bool)
    measured[:20, 1] = False
    with pytest.raises(RouteError, match="Add outcomes of middle, which has 20 of 40"):
        calibrated(replace(easy_and_hard(), measured=measured))
    with pytest.raises(RouteError, match="the only fixer"):
        calibrated(table([[1]] * 30, [[0.5]] * 30, [0.1]))
    with pytest.raises(RouteError, match="no probabilities"):
        calibrated(replace(easy_and_hard(), p=None))
    with pytest.raises(RouteError, match="p has shape"):
        replace(easy_and_hard(), p=np.zeros((3, 2)))


# Files


def test_outcomes_are_read_from_one_file_a_fixer(tmp_path: Path) -> None:
    (tmp_path / "mini%2Fa-1@high.csv").write_text(
        "instance_id,resolved,cost_usd,arm,text\nx__y-1,1,0.5,handoff,one\nx__y-2,0,,handoff,two\nx__y-2,1,9,solo,two\n"
    )
    rows = [
        {"instance_id": "x__y-1", "resolved": True, "cost_usd": 2, "arm": "handoff", "text": "one", "fixer": "b"},
        {"instance_id": "z-3", "resolved": False, "cost_usd": 0, "arm": "handoff", "text": "three", "fixer": "b"},
        {"instance_id": "z-3", "resolved": True, "cost_usd": 1, "arm": "handoff", "text": "three", "model": "c"},
    ]
    (tmp_path / "others.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "notes.txt").write_text("not outcomes")
    found, texts = read_table(tmp_path, None, "handoff")
    assert (found.ids, found.groups) == (("x__y-1", "x__y-2", "z-3"), ("x__y", "x__y", "z"))
    assert found.fixers == ("b", "c", "mini/a-1@high") and texts == ["one", "two", "three"]
    assert found.resolved.tolist() == [[True, False, True], [False, False, False], [False, True, False]]
    assert found.measured.tolist() == [[True, False, True], [False, False, True], [True, True, False]]
    # A cost of 0 beside others that are not is a missing receipt.
    assert np.isnan(found.cost[2, 0]) and found.mean_costs.tolist() == [2.0, 1.0, 0.5]


def test_repositories_come_from_a_column_or_the_tasks(tmp_path: Path) -> None:
    folder = tmp_path / "outcomes"
    folder.mkdir()
    (folder / "a.csv").write_text("instance_id,resolved,repo\np-1-v2,1,mine\np-1-v3,0,\nq,1,\n")
    tasks = tmp_path / "tasks.jsonl"
    told = [{"instance_id": name, "text": name, "repo": "theirs"} for name in ("p-1-v2", "p-1-v3")]
    tasks.write_text("\n".join(map(json.dumps, [*told, {"instance_id": "q", "text": "q"}])))
    assert read_table(folder, tasks, "solo")[0].groups == ("mine", "theirs", "q")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("instance_id,resolved,text\na-1,1,x\n", "--arm solo"),
        ("instance_id,resolved,text,arm\na-1,1,x,handoff\na-1,0,x,handoff\n", "two outcomes of a-1"),
        ("instance_id,resolved,text,arm,fixer\na-1,1,x,handoff,f\na-1,0,y,handoff,g\n", "different texts"),
        ("instance_id,resolved,arm\na-1,1,handoff\n", "--tasks FILE"),
    ],
)
def test_files_that_cannot_be_used_say_why(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "f.csv").write_text(content)
    with pytest.raises(RouteError, match=re.escape(words)):
        read_table(tmp_path, None, "handoff")


def test_a_folder_without_outcomes_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(RouteError, match=re.escape(str(folder))):
            read_table(folder, None, "solo")


# The picture


def test_the_picture_is_xml_with_every_name_and_nothing_that_runs() -> None:
    tasks = replace(easy_and_hard(), fixers=("<script>alert(1)</script>", "strong & slow\x1b"))
    root = ElementTree.fromstring(svg(calibrated(tasks)))
    space = "{http://www.w3.org/2000/svg}"
    tags = {child.tag.removeprefix(space) for child in root.iter()}
    assert tags == {"svg", "g", "style", "title", "desc", "rect", "text", "polyline", "circle"}
    words = [child.text for child in root.iter(f"{space}text")]
    assert {"<script>alert(1)</script>", "strong & slow\ufffd", "ours (value)"} <= set(words)
    assert len(list(root.iter(f"{space}circle"))) == 2
