"""Prices, budgets and receipts: the arithmetic that every figure rests on."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scrout.base import FrozenModel
from scrout.money import CENT_FRACTION, Budget, BudgetExceeded, Price, Receipt, Usage, Usd

tokens = st.integers(min_value=0, max_value=10_000_000)
usages = st.builds(
    Usage, input_tokens=tokens, cache_read_tokens=tokens, cache_write_tokens=tokens, output_tokens=tokens
)
rates = st.decimals(min_value=0, max_value=1000, places=4)
amounts = st.decimals(min_value=0, max_value=99_999, places=10)


def test_buckets_are_priced_apart() -> None:
    price = Price(input=Decimal("3"), output=Decimal("15"), cache_read=Decimal("0.30"), cache_write=Decimal("3.75"))
    usage = Usage(input_tokens=1000, cache_read_tokens=2000, cache_write_tokens=400, output_tokens=100)
    assert price.cost(usage) == Decimal("0.0030") + Decimal("0.0006") + Decimal("0.0015") + Decimal("0.0015")


def test_an_unpriced_cache_costs_as_much_as_input() -> None:
    price = Price(input=Decimal("2"), output=Decimal("0"))
    assert price.cost(Usage(cache_read_tokens=500_000)) == Decimal("1")
    assert price.cost(Usage(cache_write_tokens=500_000)) == Decimal("1")


def test_what_is_kept_for_an_hour_costs_twice_the_input_unless_its_price_is_known() -> None:
    usage = Usage(cache_write_1h_tokens=1_000_000)
    for named, usd in (({}, 3), ({"cache_write": 4}, 6), ({"cache_write": 7}, 7), ({"cache_write_1h": 5}, 5)):
        assert Price.model_validate({"input": 3, "output": 9, **named}).cost(usage) == usd


@given(usages, rates, rates, rates, rates)
def test_cost_is_never_understated_and_off_by_less_than_the_last_decimal(
    usage: Usage, input_rate: Decimal, output_rate: Decimal, read_rate: Decimal, write_rate: Decimal
) -> None:
    price = Price(input=input_rate, output=output_rate, cache_read=read_rate, cache_write=write_rate)
    exact = (
        usage.input_tokens * input_rate
        + usage.output_tokens * output_rate
        + usage.cache_read_tokens * read_rate
        + usage.cache_write_tokens * write_rate
    ) / Decimal(1_000_000)
    assert exact <= price.cost(usage) < exact + CENT_FRACTION


def test_negative_prices_and_tokens_are_refused() -> None:
    with pytest.raises(ValidationError):
        Price(input=Decimal("-1"), output=Decimal("1"))
    with pytest.raises(ValidationError):
        Usage(output_tokens=-1)


class Amount(FrozenModel):
    usd: Usd


@given(amounts)
def test_an_amount_survives_json_exactly(amount: Decimal) -> None:
    assert Amount.model_validate_json(Amount(usd=amount).model_dump_json()).usd == amount


@given(
    st.decimals(min_value="0.01", max_value=10, places=4),
    st.lists(st.tuples(st.decimals(min_value=0, max_value=3, places=6), st.floats(min_value=0, max_value=1))),
    st.integers(min_value=1, max_value=20),
)
def test_a_budget_never_holds_or_spends_more_than_its_cap(
    cap: Decimal, calls: list[tuple[Decimal, float]], most: int
) -> None:
    budget = Budget(cap, most)
    open_reserves: list[tuple[Decimal, Decimal]] = []
    for worst, share in calls:
        try:
            held = budget.reserve(worst)
        except BudgetExceeded:
            continue
        open_reserves.append((held, (worst * Decimal(share)).quantize(CENT_FRACTION)))
        assert budget.spent_usd + budget.held_usd <= cap
        if len(open_reserves) > 2:  # several calls may be in flight at once
            budget.settle(*open_reserves.pop(0))
    for reserve in open_reserves:
        budget.settle(*reserve)
    assert budget.held_usd == 0
    assert budget.spent_usd <= cap
    assert budget.calls <= most


def test_an_empty_budget_holds_nothing_more() -> None:
    budget = Budget(Decimal("1.00"), None)
    budget.settle(budget.reserve(Decimal("0.80")), Decimal("0.75"))
    with pytest.raises(BudgetExceeded):
        budget.reserve(Decimal("0.26"))
    assert (budget.held_usd, budget.calls) == (Decimal(0), 1)
    assert budget.remaining_usd == Decimal("0.25")


def test_records_are_frozen_and_refuse_unknown_fields() -> None:
    usage = Usage(input_tokens=1)
    with pytest.raises(ValidationError):
        usage.input_tokens = 2  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Receipt.model_validate({"component": "fix", "model": "m", "usage": {}, "cost_usd": 1, "at": 0, "tip": 5})
