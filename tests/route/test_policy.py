from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scrout.base import RouteError
from scrout.config.settings import Fixer, RouteSettings
from scrout.fix.kinds.agent import AgentFixer
from scrout.fix.kinds.repair import RepairFixer
from scrout.money import Price
from scrout.records import Candidate, Check, CheckOutcome, Decision
from scrout.route.policy import (
    INFINITE,
    Dial,
    anchor_of,
    at_least,
    choose,
    follow,
    goal_of,
    goes_on,
    order,
    undominated,
    walk,
    within,
    worth,
)


def candidate(fixer: str, p: float | None, cost: str | None) -> Candidate:
    cost_usd = None if cost is None else Decimal(cost)
    return Candidate(fixer=fixer, p_solve=p, expected_cost_usd=cost_usd, reason="")


def agent(name: str, output_usd: str) -> Fixer:
    price = Price(input=Decimal(1), output=Decimal(output_usd))
    return AgentFixer(name=name, model="m", base_url="http://localhost/v1", price=price)


REPAIR = RepairFixer(name="repair")
KIMI, GPT, OPUS = agent("kimi", "2.5"), agent("gpt", "14"), agent("opus", "25")
POOL = (OPUS, KIMI, REPAIR, GPT)


def decision(fixer: str, *candidates: Candidate) -> Decision:
    return Decision(fixer=fixer, theta=0.3, degraded=False, fallback=False, reason="", candidates=candidates)


@pytest.mark.parametrize(
    ("probabilities", "chosen"),
    [
        ((0.9, 0.9, 0.9), "kimi"),
        ((0.29, 0.30, 0.9), "gpt"),
        ((0.1, 0.1, 0.9), "opus"),
        ((0.1, 0.2, 0.29), "anchor"),
        ((None, None, 0.4), "opus"),
        ((None, None, None), "anchor"),
    ],
)
def test_walk_takes_the_cheapest_that_reaches_theta(probabilities: tuple[float | None, ...], chosen: str) -> None:
    kimi, gpt, opus = probabilities
    candidates = [candidate("opus", opus, "0.78"), candidate("kimi", kimi, "0.21"), candidate("gpt", gpt, "0.42")]
    assert walk(candidates, 0.30, "anchor") == chosen


def test_walk_takes_an_unknown_cost_last_and_an_unknown_probability_never() -> None:
    candidates = [candidate("secret", 0.9, None), candidate("new", None, "0.01"), candidate("opus", 0.4, "0.78")]
    assert walk(candidates, 0.30, "anchor") == "opus"
    assert walk(candidates, 0.50, "anchor") == "secret"
    # Even a theta of 0 is not reached by a probability that nobody knows.
    assert walk([candidate("new", None, "0.01")], 0.0, "anchor") == "anchor"


def test_the_anchor_is_the_named_one_else_the_most_expensive_of_equals() -> None:
    costs = [candidate("kimi", 0.5, "0.90"), candidate("gpt", 0.5, "0.42"), candidate("opus", 0.5, "0.78")]
    assert anchor_of(POOL, costs, "repair") == "repair"
    assert anchor_of(POOL, costs) == "kimi"


def test_the_anchor_is_the_likeliest_agent_where_every_probability_is_known() -> None:
    known = [candidate("kimi", 0.5, "0.21"), candidate("gpt", 0.7, "0.42"), candidate("opus", 0.6, "0.78")]
    assert anchor_of(POOL, known) == "gpt"
    # A free fixer's probability does not count, and one that is unknown makes all of them count for nothing.
    assert anchor_of(POOL, [*known, candidate("repair", 0.9, "0")]) == "gpt"
    assert anchor_of((*POOL, agent("new", "3")), [*known, candidate("new", None, "0.10")]) == "opus"
    # Probabilities alone suffice; among equals the price tells who is dearer.
    assert anchor_of(POOL, [candidate("kimi", 0.7, None), candidate("gpt", 0.7, "9"), known[2]]) == "gpt"


def test_the_anchor_goes_by_price_when_a_cost_is_unknown() -> None:
    costs = [candidate("kimi", None, None), candidate("gpt", 0.5, "0.99"), candidate("opus", 0.5, "0.78")]
    assert anchor_of(POOL, costs) == "opus"
    assert anchor_of((KIMI, GPT), []) == "gpt"


def test_a_free_fixer_is_the_anchor_only_without_agents() -> None:
    assert anchor_of((REPAIR,), [candidate("repair", None, "0")]) == "repair"
    assert anchor_of((REPAIR, KIMI), [candidate("kimi", None, None)]) == "kimi"


def names(fixers: Iterable[Fixer]) -> list[str]:
    return [fixer.name for fixer in fixers]


@pytest.mark.parametrize(("free_first", "expected"), [(False, ["gpt"]), (True, ["repair", "gpt"])])
def test_order_without_escalation(free_first: bool, expected: list[str]) -> None:
    made = decision("gpt", candidate("kimi", 0.9, "0.1"))
    assert names(order(made, POOL, free_first=free_first, escalate=False)) == expected


def test_order_with_escalation() -> None:
    weighed = [
        candidate("opus", None, None),
        candidate("gpt", 0.5, "0.42"),
        candidate("kimi", 0.1, "0.21"),
        candidate("repair", None, "0"),
        candidate("new", None, None),
    ]
    pool = (*POOL, agent("new", "3"))

    def escalated(fixer: str, anchor: str = "") -> list[str]:
        return names(order(decision(fixer, *weighed), pool, free_first=False, escalate=True, anchor=anchor))

    assert escalated("gpt") == ["repair", "gpt", "kimi", "opus"]
    assert escalated("gpt", anchor="kimi") == ["repair", "gpt", "kimi"]
    assert escalated("opus") == ["repair", "opus", "kimi", "gpt"]
    assert escalated("repair") == ["repair", "kimi", "gpt", "opus"]


@pytest.mark.parametrize(
    ("outcome", "free", "paid"),
    [
        ("passed", False, False),
        ("unverified", True, False),
        ("doubtful", True, True),
        ("failed", True, True),
        ("no_patch", True, True),
    ],
)
def test_a_free_patch_that_is_not_shown_to_be_right_does_not_keep_the_chosen_fixer_from_trying(
    outcome: CheckOutcome, free: bool, paid: bool
) -> None:
    check = Check(outcome=outcome, applies=True, reproduction="none", tests="none")
    assert (goes_on(REPAIR, check), goes_on(KIMI, check)) == (free, paid)


# A fixer that costs $0.05 and solves .71, and so on: the third adds .06 for $0.50 more.
MINI, MIDDLE, STRONG = (
    candidate("mini", 0.71, "0.05"),
    candidate("middle", 0.70, "0.30"),
    candidate("strong", 0.77, "0.55"),
)
NEW, SECRET = candidate("new", None, "0.01"), candidate("secret", 0.99, None)
EVERYONE = (STRONG, SECRET, MINI, NEW, MIDDLE)

some_candidates = st.lists(
    st.tuples(st.floats(0, 1), st.decimals("0", "3", places=2, allow_nan=False)), min_size=1, max_size=6
).map(lambda rows: [candidate(f"f{at}", p, str(cost)) for at, (p, cost) in enumerate(rows)])
worths = st.one_of(st.decimals("0", "1000", places=2, allow_nan=False), st.just(INFINITE))


def test_undominated_drops_what_costs_no_less_and_solves_no_more() -> None:
    kept, dropped = undominated(EVERYONE)
    assert [one.fixer for one in kept] == ["strong", "secret", "mini", "new"]
    assert dropped == {"middle": ".70 for $0.30, and mini has .71 for $0.05"}


def test_of_two_equals_the_first_stays() -> None:
    twin = candidate("twin", 0.71, "0.05")
    assert [one.fixer for one in undominated([MINI, twin]).kept] == ["mini"]
    assert [one.fixer for one in undominated([twin, MINI]).kept] == ["twin"]


@given(some_candidates)
def test_whoever_was_dropped_has_a_better_one_that_was_kept(candidates: list[Candidate]) -> None:
    kept, dropped = undominated(candidates)
    assert {one.fixer for one in kept} | set(dropped) == {one.fixer for one in candidates}
    for one in candidates:
        better = [k for k in kept if k.p_solve >= one.p_solve and k.expected_cost_usd <= one.expected_cost_usd]  # type: ignore[operator]
        assert better
        assert (one.fixer in dropped) == (one not in kept)


@pytest.mark.parametrize(
    ("solve_usd", "chosen"), [("0", "mini"), ("8.30", "mini"), ("8.40", "strong"), ("Infinity", "strong")]
)
def test_worth_weighs_a_further_solve_against_its_cost(solve_usd: str, chosen: str) -> None:
    made = worth(EVERYONE, Decimal(solve_usd))
    assert made is not None and (made.fixer, made.fallback) == (chosen, False)


def test_worth_says_what_the_next_step_would_cost() -> None:
    made = worth(EVERYONE, Decimal(5))
    assert made is not None
    assert made.reason == (
        "mini: .71 for $0.05; strong would add .06 for $0.50 more, that is $8.33 a further solve; "
        "a solve is taken to be worth $5.00"
    )
    assert set(made.lost) == {"strong", "secret", "new", "middle"}
    assert (made.lost["secret"], made.lost["new"]) == ("its cost is unknown", "its probability is unknown")
    at_the_top = worth([MINI, STRONG], Decimal(100))
    assert at_the_top is not None
    assert "none is likelier; mini would save $0.50 and lose .06" in at_the_top.reason


@given(some_candidates, worths)
def test_worth_takes_the_best_and_never_a_dominated_fixer(candidates: list[Candidate], solve_usd: Decimal) -> None:
    made = worth(candidates, solve_usd)
    assert made is not None
    chosen = next(one for one in candidates if one.fixer == made.fixer)
    assert not [
        one
        for one in candidates
        if one.p_solve >= chosen.p_solve  # type: ignore[operator]
        and one.expected_cost_usd <= chosen.expected_cost_usd  # type: ignore[operator]
        and (one.p_solve, one.expected_cost_usd) != (chosen.p_solve, chosen.expected_cost_usd)
    ]
    if solve_usd == INFINITE:
        assert chosen.p_solve == max(one.p_solve or 0 for one in candidates)
    else:
        gains = [Decimal(str(one.p_solve)) * solve_usd - (one.expected_cost_usd or 0) for one in (chosen, *candidates)]
        assert gains[0] == max(gains)


@pytest.mark.parametrize(
    ("min_solve", "chosen", "fallback"),
    [(0.5, "mini", False), (0.75, "strong", False), (0.8, "secret", False), (0.995, "secret", True)],
)
def test_at_least_takes_the_cheapest_that_is_likely_enough(min_solve: float, chosen: str, fallback: bool) -> None:
    made = at_least(EVERYONE, min_solve)
    assert made is not None and (made.fixer, made.fallback) == (chosen, fallback)
    assert ("no fixer has a probability" in made.reason) == fallback


@pytest.mark.parametrize(
    ("max_usd", "chosen", "fallback"),
    [("0.55", "strong", False), ("0.54", "mini", False), ("0.05", "mini", False), ("0.04", "mini", True)],
)
def test_within_takes_the_likeliest_that_fits(max_usd: str, chosen: str, fallback: bool) -> None:
    made = within(EVERYONE, Decimal(max_usd))
    assert made is not None and (made.fixer, made.fallback) == (chosen, fallback)
    assert ("no fixer is expected to cost" in made.reason) == fallback


def test_nothing_is_taken_on_a_guess() -> None:
    assert worth([NEW, SECRET], Decimal(9)) is within([NEW, SECRET], Decimal(9)) is at_least([NEW], 0.0) is None


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        (RouteSettings(policy="paper", theta=0.72), "strong"),
        (RouteSettings(policy="paper", theta=0.995), "anchor"),
        (RouteSettings(min_solve=0.72), "strong"),
        (RouteSettings(max_usd=Decimal("0.40")), "mini"),
        (RouteSettings(solve_usd=Decimal(9)), "strong"),
        (RouteSettings(dial=0.0), "mini"),
        (RouteSettings(dial=1.0), "strong"),
        (RouteSettings(), "mini"),
    ],
)
def test_choose_does_what_the_settings_say(settings: RouteSettings, chosen: str) -> None:
    made = choose(EVERYONE, settings, "anchor")
    assert (made.fixer, made.abstained) == (chosen, False)
    assert made.fallback == (chosen == "anchor") and chosen in made.reason


def test_calibrated_settings_count_where_the_user_named_no_goal() -> None:
    assert choose(EVERYONE, RouteSettings(), "anchor", solve_usd=Decimal(9)).fixer == "strong"
    assert choose(EVERYONE, RouteSettings(dial=0.0), "anchor", solve_usd=Decimal(9)).fixer == "mini"
    paper = RouteSettings(policy="paper", theta=0.3)
    assert choose(EVERYONE, paper, "anchor", theta=0.75).fixer == "strong"
    assert choose(EVERYONE, paper, "anchor").fixer == "mini"


@pytest.mark.parametrize(
    ("settings", "kind", "source", "amount"),
    [
        (RouteSettings(policy="paper"), "theta", "settings", 0.4),
        (RouteSettings(min_solve=0.72), "min_solve", "settings", 0.72),
        (RouteSettings(max_usd=Decimal("0.40")), "max_usd", "settings", 0.4),
        (RouteSettings(solve_usd=Decimal(3)), "solve_usd", "settings", 3),
        (RouteSettings(), "solve_usd", "calibrated", 9),
        (RouteSettings(dial=0.0), "solve_usd", "dial", 0),
    ],
)
def test_a_goal_says_what_decides_and_who_said_so(
    settings: RouteSettings, kind: str, source: str, amount: float
) -> None:
    goal = goal_of(EVERYONE, settings, theta=0.4, solve_usd=Decimal(9))
    assert (goal.kind, goal.source, float(goal.amount)) == (kind, source, amount)
    assert (goal.dial is not None) == (goal.position is not None) == (source == "dial")
    # To follow it is to do what the settings say.
    assert follow(EVERYONE, goal, "anchor") == choose(EVERYONE, settings, "anchor", theta=0.4, solve_usd=Decimal(9))


def test_nobody_named_a_goal_and_nothing_was_calibrated() -> None:
    goal = goal_of(EVERYONE, RouteSettings())
    assert (goal.kind, goal.source, goal.position) == ("solve_usd", "default", 0.5) and goal.dial is not None
    nothing = goal_of([NEW], RouteSettings())
    assert nothing.dial is None and follow([NEW], nothing, "other").fixer == "other"


def test_a_task_far_from_everything_goes_to_the_anchor() -> None:
    made = choose(EVERYONE, RouteSettings(dial=0.0), "strong", far=True)
    assert (made.fixer, made.fallback, made.abstained) == ("strong", True, True)
    assert "far from every task" in made.reason and "strong" not in made.lost


@pytest.mark.parametrize("settings", [RouteSettings(), RouteSettings(min_solve=0.1), RouteSettings(policy="paper")])
def test_without_a_known_probability_the_anchor_takes_it(settings: RouteSettings) -> None:
    made = choose([NEW, candidate("other", None, None)], settings, "other")
    assert (made.fixer, made.fallback, made.abstained) == ("other", True, False)
    assert made.lost == {"new": "its probability is unknown"}


def test_the_order_follows_the_prices_that_come_in() -> None:
    settings = RouteSettings(min_solve=0.5)
    expensive = MINI.model_copy(update={"expected_cost_usd": Decimal("0.90")})
    assert choose([MINI, STRONG], settings, "strong").fixer == "mini"
    assert choose([expensive, STRONG], settings, "strong").fixer == "strong"


@pytest.mark.parametrize(
    "wrong",
    [
        {"dial": 0.5, "min_solve": 0.5},
        {"solve_usd": 3, "max_usd": 1},
        {"dial": 1.1},
        {"min_solve": -0.1},
        {"policy": "paper", "dial": 0.5},
    ],
)
def test_one_goal_at_most(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RouteSettings.model_validate(wrong)


def test_decisions_stored_before_there_were_policies_still_read() -> None:
    stored = decision("gpt", candidate("gpt", 0.5, "0.42")).model_dump(mode="json")
    new = {"policy", "abstained", "spaces"}
    old = {key: value for key, value in stored.items() if key not in new}
    old["candidates"] = [
        {key: value for key, value in one.items() if key not in ("p_low", "p_high", "evidence")}
        for one in stored["candidates"]
    ]
    read = Decision.model_validate(old)
    assert (read.policy, read.abstained, read.spaces) == ("paper", False, ())
    assert (read.candidates[0].p_low, read.candidates[0].evidence) == (None, "")


# The dial

tables = st.integers(1, 5).flatmap(
    lambda k: st.tuples(
        st.lists(st.lists(st.floats(0, 1), min_size=k, max_size=k), min_size=1, max_size=8),
        st.lists(st.integers(0, 300), min_size=k, max_size=k),
    )
)


def spend(dial: Dial, position: float, probabilities: list[list[float]], cents: list[int]) -> Decimal:
    """What the known tasks would cost at a position, in cents."""
    total = Decimal(0)
    for row in probabilities:
        pool = [candidate(str(at), p, str(Decimal(cents[at]) / 100)) for at, p in enumerate(row)]
        made = worth(pool, dial.solve_usd(position))
        assert made is not None
        total += cents[int(made.fixer)]
    return total


@given(tables)
def test_the_dial_goes_from_cheapest_to_strongest_and_never_back(table: tuple[list[list[float]], list[int]]) -> None:
    probabilities, cents = table
    dial = Dial.fit(np.array(probabilities), np.array(cents) / 100)
    spent = [spend(dial, position, probabilities, cents) for position in (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)]
    assert spent == sorted(spent)
    assert spent[0] == len(probabilities) * min(cents)
    assert spent[-1] == sum(min(cents[at] for at, p in enumerate(row) if p == max(row)) for row in probabilities)


@given(tables, st.floats(0, 0.999))
def test_an_amount_has_its_position_on_the_dial(table: tuple[list[list[float]], list[int]], position: float) -> None:
    probabilities, cents = table
    dial = Dial.fit(np.array(probabilities), np.array(cents) / 100)
    # A little more than the amount, which is rounded and may lie just below a flat part of the dial.
    amount = dial.solve_usd(position) * Decimal("1.000000001") + Decimal("1e-9")
    found = dial.position(amount)
    assert position - 1e-6 <= found <= 1
    assert found == 1 or float(dial.solve_usd(found)) == pytest.approx(float(amount), rel=1e-6, abs=1e-6)
    assert dial.position(INFINITE) == 1


def test_between_its_ends_the_dial_spends_its_share() -> None:
    rng = np.random.default_rng(3)
    probabilities, cents = rng.random((200, 3)).tolist(), [10, 30, 100]
    dial = Dial.fit(np.array(probabilities), np.array(cents) / 100)
    low, high = spend(dial, 0, probabilities, cents), spend(dial, 1, probabilities, cents)
    for position in (0.2, 0.5, 0.8):
        share = (spend(dial, position, probabilities, cents) - low) / (high - low)
        assert abs(float(share) - position) < 0.02


def test_one_task_alone_takes_the_fixer_whose_cost_is_nearest_to_the_position() -> None:
    # The steps reach .07, .92 and 1 of the spending, so .2 is nearer to the second fixer and .6 to the third.
    probabilities, cents = [[0.3, 0.71, 0.77, 0.772]], [1, 5, 55, 60]
    dial = Dial.fit(np.array(probabilities), np.array(cents) / 100)
    assert [spend(dial, position, probabilities, cents) for position in (0, 0.2, 0.6, 0.9, 1)] == [1, 5, 55, 55, 60]


def test_a_dial_is_stored_and_read_again() -> None:
    dial = Dial.fit(np.array([[0.5, 0.6, np.nan], [0.2, 0.9, 0.9]]), np.array([0.1, 0.3, 0.7]))
    # The steps cost 0.2 / 0.7 and 0.2 / 0.1 dollars a further solve, and each adds half of the spending.
    assert dial.positions == pytest.approx((0, 0.25, 0.75, 1)) and dial.solve_usds == pytest.approx(
        (0, 0.2 / 0.7, 2, 4)
    )
    assert Dial.model_validate_json(dial.model_dump_json()) == dial
    assert float(dial.solve_usd(0.5)) == pytest.approx((0.2 / 0.7 + 2) / 2)


def test_a_dial_refuses_what_is_none() -> None:
    dial = Dial(positions=(0, 1), solve_usds=(0, 5))
    with pytest.raises(RouteError, match=r"1\.5"):
        dial.solve_usd(1.5)
    for positions, amounts in (((0, 1), (5, 0)), ((0, 0.5), (0, 1)), ((0, 1), (0, 1, 2)), ((0, 1), (0, float("inf")))):
        with pytest.raises(ValidationError):
            Dial(positions=positions, solve_usds=amounts)
    with pytest.raises(RouteError, match="outcomes with costs"):
        Dial.fit(np.array([[0.5]]), np.array([np.nan]))
