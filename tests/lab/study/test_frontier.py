"""Ways to spend on outcomes that can be counted by hand; then the paper's figures on its receipts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scrout.base import StudyError
from scrout.cli.main import scrout
from scrout.lab.study.figures import drawn
from scrout.lab.study.frontier import evaluation_plane, held_out_arms, study
from scrout.lab.study.frontier_pools import escalation, pool_census, second_try
from scrout.lab.study.frontier_report import report
from scrout.lab.study.policies import Policy, alone, oracle, over_mix, policy_points, uniform_policy
from scrout.lab.study.report import Figure
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.source import Own
from scrout.records import Arm
from scrout.route.outcome_table import Bools, OutcomeTable
from scrout.route.stats import Floats

DATA = Path(__file__).parents[3].parent / "shared" / "data"
with_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not in {DATA}")

TASKS = 40
FIXERS = ("mini", "small", "middle", "large", "vast")
COSTS = (0.1, 0.2, 0.4, 0.8, 1.6)


def outcomes(shares: tuple[float, ...]) -> Bools:
    """Each fixer solves the first tasks, as many as its share: the stronger one all that the weaker does."""
    return np.column_stack([np.arange(TASKS) < share * TASKS for share in shares])


def played(resolved: Bools, costs: Floats | None = None) -> ArmOutcomes:
    cost = np.broadcast_to(np.array(COSTS[: resolved.shape[1]]), resolved.shape) if costs is None else costs
    return ArmOutcomes(
        FIXERS[: resolved.shape[1]], np.ones(resolved.shape, bool), resolved, cost, np.full(resolved.shape, np.nan)
    )


def benchmark(arms: dict[Arm, ArmOutcomes], repositories: int = 4) -> Benchmark:
    ids = tuple(f"task-{number}" for number in range(TASKS))
    return Benchmark(
        name="made up",
        source="a test",
        ids=ids,
        repositories=tuple(f"repo-{number % repositories}" for number in range(TASKS)),
        arms=arms,
        texts={task: f"Task {number} is broken." for number, task in enumerate(ids)},
    )


def table(resolved: Bools) -> OutcomeTable:
    return benchmark({"solo": played(resolved)}).table("solo")


RISING = outcomes((0.2, 0.4, 0.6, 0.7, 0.8))


def test_a_mix_lies_on_the_hull_and_the_oracle_above_it() -> None:
    fixers = alone(table(RISING))
    half = Policy("half", "random", (fixers[0].solved + fixers[1].solved) / 2, (fixers[0].cost + fixers[1].cost) / 2)
    evenly, best, mixed = policy_points([uniform_policy(fixers), oracle(fixers), half], fixers, [], draws=200)
    assert mixed.over_mix.value == pytest.approx(0)
    assert evenly.solve.value == pytest.approx(0.54) and evenly.usd.value == pytest.approx(np.mean(COSTS))
    # 8 tasks by each of the first three, 4 by each of the last, 8 by none: those cost the cheapest.
    assert best.solve.value == pytest.approx(0.8)
    assert best.usd.value == pytest.approx((8 * (0.1 + 0.2 + 0.4) + 4 * (0.8 + 1.6) + 8 * 0.1) / TASKS)
    assert best.over_mix.low > 0


def test_what_costs_less_than_every_fixer_is_held_against_the_cheapest() -> None:
    fixers = alone(table(RISING))
    free = Policy("free", "policy", np.zeros(TASKS), np.zeros(TASKS))
    assert over_mix(free, fixers)(np.full((1, TASKS), 1 / TASKS))[0] == pytest.approx(-0.2)


def test_an_unmeasured_outcome_bounds_the_solve_rate() -> None:
    fixers = alone(table(RISING))
    unmeasured = np.arange(TASKS) < 10
    way = Policy("open", "policy", fixers[4].solved, fixers[4].cost, "", (), unmeasured, fixers[4].cost + 1)
    (spot,) = policy_points([way], fixers, [], draws=50)
    assert (spot.unmeasured, spot.solve_low, spot.solve_high) == (10, pytest.approx(0.55), pytest.approx(0.8))
    assert spot.usd_full == pytest.approx(2.6)


def test_a_pool_whose_cheapest_is_strongest_is_a_constant() -> None:
    found = pool_census("made up", table(outcomes((0.9, 0.5, 0.5, 0.5, 0.5))), None, None, {})
    assert len(found.pools) == 5
    with_best = [pool for pool in found.pools if "mini" in pool.fixers]
    assert {pool.corners for pool in with_best} == {1} and {pool.strongest for pool in with_best} == {"mini"}
    # Where all solve the same, the cheapest is as strong as any.
    assert found.constant == 1.0 and found.oracle_gain == (0.0, 0.0, 0.0)
    assert found.lead_not_shown == 1.0
    assert found.ablations[0].on_hull == 1.0 and found.ablations[0].given_up == 0.0


def test_no_router_takes_the_cheapest_that_reaches_theta() -> None:
    found = pool_census("made up", table(RISING), None, None, {})
    low, half, *_ = found.ablations
    # mini has .2 and small .4: at .30 the pools without mini and those whose next is small take small.
    assert low.theta == 0.3 and low.cheapest == pytest.approx(1 / 5)
    assert half.theta == 0.5 and half.cheapest == 0.0
    assert found.constant == 0.0 and [kind.name for kind in found.kinds] == ["the strongest's lead is shown"]
    assert all(pool.containment == 1.0 for pool in found.pools)


def test_a_free_fixer_has_no_price_and_breaks_nothing() -> None:
    costs = np.broadcast_to(np.array((0.0, *COSTS[1:])), RISING.shape)
    found = study(Own(benchmark({"solo": played(RISING, costs)}), "grade"))
    assert {pool.price is None for pool in found.pools[0].pools if "mini" in pool.fixers} == {True}
    assert "NaN" not in json.dumps(found.model_dump(mode="json"))
    assert "Infinity" not in json.dumps(found.model_dump(mode="json"))


def test_probabilities_that_know_the_outcome_win_what_the_oracle_does() -> None:
    """Of a price: where nothing solves it, every fixer is as good, and the cheapest is taken."""
    rows = table(RISING)
    folds = np.arange(TASKS) % 4
    found = pool_census("made up", rows, RISING.astype(np.float64), folds, {"$100": 100.0})
    for pool in found.pools:
        assert pool.routed_gain["$100"].value == pytest.approx(pool.oracle_gain.value)
    assert found.routed["$100"][3] == 1.0


def test_a_second_try_by_hand() -> None:
    first, second = alone(table(outcomes((0.5, 0.8))))
    perfect = second_try(first, second, recall=1.0, false_alarms=0.0)
    assert perfect.solved.mean() == pytest.approx(0.8)
    assert perfect.cost.mean() == pytest.approx(0.1 + 0.5 * 0.2)
    never = second_try(first, second, recall=0.0, false_alarms=0.0)
    assert np.array_equal(never.solved, first.solved) and np.array_equal(never.cost, first.cost)
    blind = second_try(first, second, recall=1.0, false_alarms=1.0)
    assert np.array_equal(blind.solved, second.solved)


def test_what_a_verifier_has_to_be_worth() -> None:
    complementary = np.column_stack([np.arange(TASKS) % 2 == 0, np.arange(TASKS) % 2 == 1])
    cheap = Policy("cheap", "alone", complementary[:, 0].astype(float), np.full(TASKS, 0.1))
    expensive = Policy("dear", "alone", complementary[:, 1].astype(float), np.full(TASKS, 1.0))
    found = escalation("made up", [cheap, expensive], coverage=0.25)
    assert (found.first, found.second) == ("cheap", "dear")
    perfect = next(one for one in found.grid if one.recall == 1 and one.false_alarms == 0)
    assert (
        perfect.solve.value == pytest.approx(1.0)
        and perfect.over_mix.value == pytest.approx(0.5)
        and perfect.precision == 1.0
    )
    half = next(one for one in found.grid if one.recall == 0.5 and one.false_alarms == 0.1)
    assert half.precision == pytest.approx(0.25 / 0.3) and half.again == pytest.approx(0.3)
    assert found.break_even["0"] == 0.1
    assert found.named[0].verifier.startswith("the gate, 25%")


def test_ones_own_runs_in_both_arms() -> None:
    better = RISING | (np.arange(TASKS) == TASKS - 1)[:, None]
    found = study(Own(benchmark({"solo": played(RISING), "handoff": played(better)}), "grade"))
    (field,) = found.fields
    kinds = [spot.kind for spot in field.spots]
    assert kinds.count("alone") == kinds.count("handoff") == 5
    assert {"$1 a solve, counts", "$1 a solve, counts + handoff"} <= {spot.name for spot in field.spots}
    assert all(spot.over_constants is not None for spot in field.spots)
    assert len(found.pools[0].pools) == 5 and len(found.escalations) == 1
    shown = report(found)
    pictures = [part for part in shown.parts if isinstance(part, Figure)]
    assert len(pictures) == 3
    assert all(drawn(picture, "png").startswith(b"\x89PNG") for picture in pictures)
    assert any("second try on made up" in line for line in shown.findings)


def test_what_a_source_lacks_is_said() -> None:
    one_repository = study(Own(benchmark({"handoff": played(RISING)}, repositories=1), "grade"))
    (field,) = one_repository.fields
    assert not [spot for spot in field.spots if spot.kind == "policy"]
    assert any("one repository" in note for note in field.notes) and any("Only the arm" in note for note in field.notes)
    unpriced = played(RISING, np.full(RISING.shape, np.nan))
    (field,) = study(Own(benchmark({"solo": played(RISING), "handoff": unpriced}), "grade")).fields
    assert any("arm handoff is left out" in note for note in field.notes)
    with pytest.raises(StudyError, match="no cost of any fixer is known"):
        study(Own(benchmark({"solo": unpriced}), "grade"))
    few = played(RISING)
    tried = np.broadcast_to(np.arange(TASKS)[:, None] < 3, RISING.shape)
    gone = ArmOutcomes(few.fixers, tried, few.resolved, few.cost, few.steps)
    with pytest.raises(StudyError, match="3 tasks were tried by all of mini"):
        study(Own(benchmark({"solo": gone}), "grade"))


def test_a_small_paper_through_the_command(small_paper: Path) -> None:
    done = CliRunner().invoke(scrout, ["study", "frontier", "--data", str(small_paper), "--json"])
    found = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} in the JSON"))
    assert [field["benchmark"] for field in found["fields"]] == ["Pro, 24 Python tasks", "label run"]
    assert any(line.startswith("Verified: ") for line in found["left_out"])
    spots_by_name = {spot["name"]: spot for spot in found["fields"][0]["spots"]}
    shared = 5.13 / 24
    assert spots_by_name["Kimi K2.5"]["usd"]["value"] == pytest.approx(0.1)
    assert spots_by_name["Kimi K2.5 + handoff"]["usd"]["value"] == pytest.approx(0.12 + shared)
    assert spots_by_name["Kimi K2.5 + handoff"]["solve"]["value"] == pytest.approx(14 / 24)
    # Every probability is .5, so the walk takes the cheapest; the released decisions gave the first task to Opus.
    assert found["fields"][0]["differs"]["theta 0.30, blend"] == 1
    assert spots_by_name["theta 0.30, blend"]["unmeasured"] == 0


@with_data
def test_the_receipts_give_the_papers_sweep_and_what_it_hides() -> None:
    spots_by_name = {spot.name: spot for spot in evaluation_plane(Paper(DATA)).spots}
    router, constant = spots_by_name["the paper's router"], spots_by_name["Kimi K2.5 + handoff"]
    assert round(266 * router.solve.value) == round(266 * constant.solve.value) == 159
    assert round(router.usd.value, 3) == 0.137 and round(router.over_mix.value, 3) == 0.036
    assert router.over_mix.low < 0 < router.over_mix.high
    seen = {
        theta: (
            round(266 * spot.solve.value),
            round(266 * spot.solve_low),
            round(266 * spot.solve_high),
            round(spot.usd.value, 3),
            round(spot.usd_full, 3),
        )
        for theta in ("0.35", "0.40", "0.50")
        for spot in [spots_by_name[f"theta {theta}, blend"]]
    }
    assert seen == {
        "0.35": (151, 149, 169, 0.154, 0.171),
        "0.40": (140, 132, 179, 0.178, 0.210),
        "0.50": (132, 94, 196, 0.334, 0.367),
    }


@with_data
def test_on_verified_every_pool_leaves_an_oracle_something_and_some_are_constants() -> None:
    (seen,) = held_out_arms(Paper(DATA).comparable("Verified")).values()
    found = pool_census("Verified", seen.table, None, None, {})
    assert (found.models, found.tasks, len(found.pools)) == (12, 500, 495)
    assert min(pool.oracle_gain.low for pool in found.pools) > 0
    assert found.constant == pytest.approx(105 / 495)
    assert found.ablations[0].cheapest == 1.0
