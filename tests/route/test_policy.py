from __future__ import annotations

from decimal import Decimal

import pytest

from scrout.config import Fixer
from scrout.money import Price
from scrout.records import Candidate, Check, CheckOutcome, Decision
from scrout.route.policy import anchor_of, order, proven_wrong, walk


def candidate(fixer: str, p: float | None, cost: str | None) -> Candidate:
    cost_usd = None if cost is None else Decimal(cost)
    return Candidate(fixer=fixer, p_solve=p, expected_cost_usd=cost_usd, reason="")


def agent(name: str, output_usd: str) -> Fixer:
    price = Price(input=Decimal(1), output=Decimal(output_usd))
    return Fixer(name=name, kind="agent", model="m", base_url="http://localhost/v1", price=price)


REPAIR = Fixer(name="repair", kind="repair")
KIMI, GPT, OPUS = agent("kimi", "2.5"), agent("gpt", "14"), agent("opus", "25")
POOL = (OPUS, KIMI, REPAIR, GPT)


def decision(fixer: str, *candidates: Candidate) -> Decision:
    return Decision(fixer=fixer, theta=0.3, degraded=False, fallback=False, reason="", candidates=candidates)


@pytest.mark.parametrize(
    ("chances", "chosen"),
    [
        ((0.9, 0.9, 0.9), "kimi"),
        ((0.29, 0.30, 0.9), "gpt"),
        ((0.1, 0.1, 0.9), "opus"),
        ((0.1, 0.2, 0.29), "anchor"),
        ((None, None, 0.4), "opus"),
        ((None, None, None), "anchor"),
    ],
)
def test_walk_takes_the_cheapest_that_reaches_theta(chances: tuple[float | None, ...], chosen: str) -> None:
    kimi, gpt, opus = chances
    candidates = [candidate("opus", opus, "0.78"), candidate("kimi", kimi, "0.21"), candidate("gpt", gpt, "0.42")]
    assert walk(candidates, 0.30, "anchor") == chosen


def test_walk_takes_an_unknown_cost_last_and_an_unknown_chance_never() -> None:
    candidates = [candidate("secret", 0.9, None), candidate("new", None, "0.01"), candidate("opus", 0.4, "0.78")]
    assert walk(candidates, 0.30, "anchor") == "opus"
    assert walk(candidates, 0.50, "anchor") == "secret"
    # Even a theta of 0 is not reached by a chance that nobody knows.
    assert walk([candidate("new", None, "0.01")], 0.0, "anchor") == "anchor"


def test_the_anchor_is_the_named_one_else_the_most_expensive_agent() -> None:
    costs = [candidate("kimi", 0.5, "0.90"), candidate("gpt", 0.5, "0.42"), candidate("opus", 0.5, "0.78")]
    assert anchor_of(POOL, costs, "repair") == "repair"
    assert anchor_of(POOL, costs) == "kimi"


def test_the_anchor_goes_by_price_when_a_cost_is_unknown() -> None:
    costs = [candidate("kimi", None, None), candidate("gpt", 0.5, "0.99"), candidate("opus", 0.5, "0.78")]
    assert anchor_of(POOL, costs) == "opus"
    assert anchor_of((KIMI, GPT), []) == "gpt"


def test_a_free_fixer_is_the_anchor_only_without_agents() -> None:
    assert anchor_of((REPAIR,), [candidate("repair", None, "0")]) == "repair"
    assert anchor_of((REPAIR, KIMI), [candidate("kimi", None, None)]) == "kimi"


def test_order_is_the_chosen_one_alone_without_escalation() -> None:
    assert order(decision("gpt", candidate("kimi", 0.9, "0.1")), POOL, escalate=False) == ["gpt"]


def test_order_with_escalation() -> None:
    weighed = [
        candidate("opus", None, None),
        candidate("gpt", 0.5, "0.42"),
        candidate("kimi", 0.1, "0.21"),
        candidate("repair", None, "0"),
        candidate("new", None, None),
    ]
    pool = (*POOL, agent("new", "3"))
    assert order(decision("gpt", *weighed), pool, escalate=True) == ["repair", "gpt", "kimi", "opus"]
    assert order(decision("gpt", *weighed), pool, escalate=True, anchor="kimi") == ["repair", "gpt", "kimi"]
    assert order(decision("opus", *weighed), pool, escalate=True) == ["repair", "opus", "kimi", "gpt"]
    assert order(decision("repair", *weighed), pool, escalate=True) == ["repair", "kimi", "gpt", "opus"]


@pytest.mark.parametrize(
    ("outcome", "wrong"), [("passed", False), ("unverified", False), ("failed", True), ("no_patch", True)]
)
def test_only_a_proof_sends_the_task_on(outcome: CheckOutcome, wrong: bool) -> None:
    check = Check(outcome=outcome, applies=True, reproduction="none", tests="none")
    assert proven_wrong(check) is wrong
