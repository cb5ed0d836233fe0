"""The caps of one attempt, without a network: what is held and lowered, and that no order of events passes them."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.models.proxy.caps import (
    ADDED_TOKENS,
    AROUND_TOKENS,
    ENOUGH_ANSWERS,
    FIRST_P99_TOKENS,
    KEPT_ANSWERS,
    PICTURE_TOKENS,
    UNLIMITED_TOKENS,
    Account,
    CallCaps,
    CapReached,
    CapRule,
    Outputs,
    Prompt,
    Reservation,
)
from scrout.money import Price, Usage

PRICE = Price(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"), cache_write=Decimal("3.75"))
SMALL = Prompt(size=1000)


def meter(
    cap_usd: str | None = "2",
    cap_calls: int = 50,
    rule: CapRule = "hard",
    price: Price | None = PRICE,
    outputs: Path | None = None,
) -> CallCaps:
    return CallCaps(
        Account(
            fixer="f",
            model="m",
            base_url="http://127.0.0.1:1/v1",
            price=price,
            cap_usd=None if cap_usd is None else Decimal(cap_usd),
            cap_calls=cap_calls,
            rule=rule,
            trajectory="unused",
            outputs=str(outputs or ""),
        )
    )


def admitted(metering: CallCaps, prompt: Prompt = SMALL, limit: int | None = 1000, answers: int = 1) -> Reservation:
    hold = metering.admit(prompt, limit, answers)
    assert hold is not None
    return hold


def talk(*texts: str, **rest: JsonValue) -> Prompt:
    turns: list[JsonValue] = [{"role": "user", "content": text} for text in texts]
    return Prompt(size=len(json.dumps({"messages": turns, **rest}).encode()), turns=turns, rest=rest)


# Caps


PRICES = st.builds(
    Price,
    input=st.decimals(0, 100, places=3),
    output=st.decimals(0, 500, places=3),
    cache_read=st.none() | st.decimals(0, 100, places=3),
    cache_write=st.none() | st.decimals(0, 100, places=3),
    reasoning=st.none() | st.decimals(0, 500, places=3),
)


@given(st.data(), PRICES, st.decimals("0.001", 3, places=4), st.integers(1, 12))
def test_whatever_the_order_of_events_no_cap_is_passed(
    data: st.DataObject, price: Price, cap_usd: Decimal, cap_calls: int
) -> None:
    """Usage stays within what was held, in whichever buckets; some calls are refused, some report nothing."""
    metering = meter(str(cap_usd), cap_calls, price=price)
    under_way: list[tuple[Reservation, Prompt]] = []
    paid = Decimal(0)
    done = 0
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["admit", "admit", "settle", "silent", "release"]))
        if action == "admit":
            prompt = Prompt(size=data.draw(st.integers(1, 200_000)))
            limit, answers = data.draw(st.none() | st.integers(1, 100_000)), data.draw(st.integers(1, 4))
            try:
                hold = metering.admit(prompt, limit, answers)
            except CapReached:
                assert not under_way, "an attempt is stopped only when nothing can give anything back"
                continue
            if hold is None:
                assert under_way, "a call waits only for one that is under way"
                continue
            under_way.append((hold, prompt))
        elif under_way:
            hold, prompt = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            if action == "release":
                metering.release(hold)
                continue
            done += 1
            cost_usd = metering.settle(hold, _within(data, hold) if action == "settle" else None, prompt)
            assert cost_usd is not None and cost_usd <= hold.usd
            paid += cost_usd
        budget = metering.budget
        assert budget.spent_usd == paid
        assert budget.spent_usd + budget.held_usd <= cap_usd
        assert budget.held_usd == sum(hold.usd for hold, _ in under_way)
        assert budget.calls == done + len(under_way) <= cap_calls
    assert paid <= cap_usd


def _within(data: st.DataObject, hold: Reservation) -> Usage:
    worst = hold.worst
    given = worst.input_tokens + worst.cache_read_tokens + worst.cache_write_tokens
    written = worst.output_tokens + worst.reasoning_tokens
    read, made = data.draw(st.integers(0, given)), data.draw(st.integers(0, given))
    thought = data.draw(st.integers(0, written))
    return Usage(
        cache_read_tokens=min(read, given - min(made, given)),
        cache_write_tokens=min(made, given),
        input_tokens=given - min(made, given) - min(read, given - min(made, given)),
        reasoning_tokens=thought,
        output_tokens=written - thought,
    )


def test_a_call_that_reports_nothing_costs_what_was_held() -> None:
    metering = meter()
    hold = admitted(metering)
    assert metering.settle(hold, None, SMALL) == hold.usd == metering.budget.spent_usd
    assert hold.worst.cache_write_tokens, "the dearest that a prompt may be counted as"


def test_a_refused_call_costs_nothing_and_counts_as_none() -> None:
    metering = meter(cap_calls=1)
    for _ in range(5):
        metering.release(admitted(metering))
    assert (metering.budget.calls, metering.budget.spent_usd, metering.budget.held_usd) == (0, 0, 0)


def test_the_call_cap_is_reached_by_calls_and_waits_for_those_under_way() -> None:
    metering = meter(cap_calls=2)
    first = admitted(metering)
    second = admitted(metering)
    assert metering.admit(SMALL, 1000) is None
    metering.release(first)
    third = admitted(metering)
    for hold in (second, third):
        metering.settle(hold, Usage(input_tokens=1), SMALL)
    with pytest.raises(CapReached) as full:
        metering.admit(SMALL, 1000)
    assert full.value.stop == "cap_calls"


def test_paper_passes_the_cap_by_one_serial_call_and_never_by_two() -> None:
    metering = meter("0.10", rule="paper")
    costs: list[Decimal] = []
    with pytest.raises(CapReached) as full:
        while True:
            hold = admitted(metering, limit=64_000)
            assert not hold.lowered and not hold.usd
            costs.append(metering.settle(hold, Usage(input_tokens=1000, output_tokens=2000), SMALL) or Decimal(0))
    assert full.value.stop == "cap_usd"
    assert sum(costs[:-1]) < Decimal("0.10") <= sum(costs)


def test_without_a_price_calls_alone_are_capped() -> None:
    metering = meter("0.0001", cap_calls=3, price=None)
    for _ in range(3):
        hold = admitted(metering, limit=10**6)
        assert not hold.lowered
        assert metering.settle(hold, Usage(input_tokens=10**6, output_tokens=10**6), SMALL) is None
    with pytest.raises(CapReached, match="all 3 calls"):
        metering.admit(SMALL, None)


# Lowering


def test_a_limit_that_fits_stays() -> None:
    hold = admitted(meter(), limit=4096)
    assert (hold.lowered, hold.limit) == (False, None)


def test_a_limit_beyond_half_the_budget_is_lowered_to_it() -> None:
    hold = admitted(meter("1"), limit=64_000)
    assert hold.lowered and hold.limit is not None
    assert Decimal("0.49") < hold.usd <= Decimal("0.50")


def test_a_call_without_a_limit_is_given_one() -> None:
    assert admitted(meter("100"), limit=None).limit == UNLIMITED_TOKENS


def test_near_the_end_of_the_budget_a_call_is_given_what_answers_usually_need() -> None:
    metering = meter("0.15")
    assert admitted(metering, limit=64_000).limit == FIRST_P99_TOKENS
    learned = meter("0.15")
    for _ in range(ENOUGH_ANSWERS):
        learned.outputs.add(600)
    half_usd = admitted(learned, limit=64_000).usd
    assert half_usd <= Decimal("0.075"), "answers need less than half the budget, which then is enough"


def test_a_budget_that_buys_no_answer_is_empty_unless_a_short_one_was_asked_for() -> None:
    prompt_usd = Decimal("0.00567")
    with pytest.raises(CapReached):
        meter(str(prompt_usd + Decimal("0.001"))).admit(SMALL, 4096)
    assert admitted(meter(str(prompt_usd + Decimal("0.001"))), limit=20).limit is None


def test_several_answers_share_what_one_would_be_given() -> None:
    one, four = admitted(meter("1"), limit=64_000), admitted(meter("1"), limit=64_000, answers=4)
    assert one.limit and four.limit and four.limit == one.limit // 4
    assert four.worst.output_tokens == 4 * four.limit
    assert four.usd <= Decimal("0.50")


def test_answers_are_remembered_for_the_next_attempt(tmp_path: Path) -> None:
    path = tmp_path / "data" / "outputs.json"
    first = meter(outputs=path)
    for _ in range(ENOUGH_ANSWERS):
        first.settle(admitted(first), Usage(input_tokens=1, output_tokens=700, reasoning_tokens=200), SMALL)
        first.budget.spent_usd, first.budget.calls = Decimal(0), 0
    first.remember()
    assert meter(outputs=path).outputs.p99() == 900


def test_what_nearly_all_of_the_latest_answers_needed() -> None:
    probability, outputs = random.Random(5), Outputs()
    needed = [probability.randrange(20_000) for _ in range(KEPT_ANSWERS + 500)]
    for tokens in needed:
        outputs.add(tokens)
    latest = needed[-KEPT_ANSWERS:]
    assert list(outputs.tokens) == latest
    assert sum(tokens <= outputs.p99() for tokens in latest) in range(989, 992)


@pytest.mark.parametrize("content", ["", "[]", '{"m": 3}', '{"m": [null, "x", -5]}', '{"other": [1]}'])
def test_a_file_of_answers_that_cannot_be_read_is_no_answers(tmp_path: Path, content: str) -> None:
    path = tmp_path / "outputs.json"
    path.write_text(content)
    assert meter(outputs=path).outputs.p99() == FIRST_P99_TOKENS


# Prompts


def test_a_prompt_has_at_most_as_many_tokens_as_bytes() -> None:
    assert meter().prompt_bound(SMALL) == SMALL.size + AROUND_TOKENS


def test_what_was_counted_is_not_bounded_again() -> None:
    metering = meter()
    first = talk("long " * 2000, tools=["t"])
    metering.settle(admitted(metering, first), Usage(input_tokens=2100, output_tokens=5), first)
    grown = talk("long " * 2000, "and?", tools=["t"])
    assert metering.prompt_bound(grown) < 2100 + ADDED_TOKENS + 60
    assert metering.prompt_bound(grown) >= 2100 + len("and?")


def test_a_few_conversations_may_take_turns() -> None:
    metering = meter("100")
    prompts = [talk(f"{number} " * 4000) for number in range(3)]
    for prompt in prompts:
        metering.settle(admitted(metering, prompt), Usage(input_tokens=8000, output_tokens=5), prompt)
    for prompt in prompts:
        assert 8000 <= metering.prompt_bound(prompt) < 8010


HIDING: list[tuple[dict[str, JsonValue], dict[str, JsonValue]]] = [
    ({"ignored": ["tool"] * 5000}, {"tools": ["tool"] * 5000}),
    ({"truncate_prompt_tokens": 1}, {"truncate_prompt_tokens": None}),
    ({"tool_choice": "none", "tools": ["tool"] * 5000}, {"tool_choice": "auto", "tools": ["tool"] * 5000}),
]


@pytest.mark.parametrize(("before", "after"), HIDING)
def test_a_count_holds_for_no_request_that_may_show_what_was_hidden(
    before: dict[str, JsonValue], after: dict[str, JsonValue]
) -> None:
    """One small change of a key, and what the endpoint did not count before is counted."""
    metering = meter("100")
    hidden, shown = talk("x" * 30_000, **before), talk("x" * 30_000, **after)
    metering.settle(admitted(metering, hidden), Usage(input_tokens=10, output_tokens=5), hidden)
    assert metering.prompt_bound(shown) >= shown.size


def test_what_an_endpoint_adds_of_its_own_is_learned() -> None:
    metering = meter("100")
    metering.settle(admitted(metering), Usage(input_tokens=SMALL.size + 9000, output_tokens=1), SMALL)
    assert metering.prompt_bound(Prompt(size=1000, rest={"other": 1})) >= SMALL.size + 9000


def test_pictures_count_by_their_number() -> None:
    with_two = Prompt(size=1000, turns=["a", "b"], pictures=(0, 2))
    metering = meter("100")
    assert metering.prompt_bound(with_two) == 1000 + AROUND_TOKENS + 2 * PICTURE_TOKENS
    before = Prompt(size=500, turns=["a"])
    metering.settle(admitted(metering, before), Usage(input_tokens=400, output_tokens=1), before)
    assert metering.prompt_bound(with_two) > 2 * PICTURE_TOKENS


def test_what_an_endpoint_puts_in_place_of_names_is_counted() -> None:
    metering = meter("100")
    named = Prompt(size=1000, turns=["a", "b"], loaded=(0, 70_000))
    assert metering.prompt_bound(named) == 1000 + AROUND_TOKENS + 70_000
    before = Prompt(size=500, turns=["a"])
    metering.settle(admitted(metering, before), Usage(input_tokens=400, output_tokens=1), before)
    assert metering.prompt_bound(named) > 70_000


@pytest.mark.parametrize(
    "usage",
    [
        Usage(cache_write_1h_tokens=9_000, output_tokens=1),
        Usage(cache_write_tokens=9_000, output_tokens=1),
        Usage(cache_read_tokens=9_000, output_tokens=1),
        Usage(input_tokens=2_000, cache_read_tokens=3_000, cache_write_tokens=3_000, cache_write_1h_tokens=1_000),
    ],
)
def test_a_prompt_is_counted_in_whatever_buckets_its_tokens_are(usage: Usage) -> None:
    metering = meter("100")
    first = talk("long " * 8000)
    metering.settle(admitted(metering, first), usage, first)
    assert metering.prompt_bound(talk("long " * 8000, "and?")) >= 9_000


THOUGHT: JsonValue = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm " * 9_000}]}
REASONED: JsonValue = {"type": "reasoning", "encrypted_content": "x" * 27_000}


@pytest.mark.parametrize("thought", [THOUGHT, REASONED], ids=["messages", "responses"])
def test_thoughts_that_were_left_out_of_a_count_are_held_for_where_they_may_come_back(thought: JsonValue) -> None:
    """An endpoint reads thoughts until the next words of a user, and forgets them then."""
    metering = meter("100")
    asked: list[JsonValue] = [{"role": "user", "content": "a"}, thought]
    result: JsonValue = {"role": "user", "content": "a result"}
    longer = Prompt(size=40_000, turns=[*asked, result, {"role": "user", "content": "next"}])
    metering.settle(admitted(metering, longer), Usage(input_tokens=50, output_tokens=5), longer)
    assert metering.prompt_bound(Prompt(size=40_000, turns=[*asked, result])) >= 27_000
    going_on = Prompt(size=41_000, turns=[*longer.turns, {"role": "user", "content": "more"}])
    assert metering.prompt_bound(going_on) < 300


@pytest.mark.parametrize("part", ["turns", "rest"])
def test_a_long_number_is_not_the_short_one_that_it_equals(part: str) -> None:
    """1e308 has 6 characters here, and as digits 309."""

    def asking(number: JsonValue) -> Prompt:
        entry: JsonValue = {"input": [number] * 100}
        size = len(json.dumps(entry))
        return Prompt(size=size, turns=[entry]) if part == "turns" else Prompt(size=size, rest={"tools": entry})

    metering = meter("100")
    short, long = asking(1e308), asking(int(1e308))
    metering.settle(admitted(metering, short), Usage(input_tokens=500, output_tokens=5), short)
    assert metering.prompt_bound(long) >= 30_000
    assert metering.prompt_bound(short) <= 502


def test_no_count_holds_where_the_endpoint_may_cut_the_prompt() -> None:
    metering = meter("100")
    long = Prompt(size=90_000, turns=["a" * 80_000, "b"], cut=True)
    metering.settle(admitted(metering, long), Usage(input_tokens=5, output_tokens=5), long)
    assert metering.prompt_bound(Prompt(size=85_000, turns=["a" * 80_000], cut=True)) >= 85_000


LONG_PRICES = [
    Price(input=3, output=15, cache_write=4, long={"input": 6, "output": 22, "cache_write": 5, "above_tokens": 900}),
    Price(input=3, output=15, cache_write=9, long={"input": 2, "output": 10, "above_tokens": 900}),
    Price(input=3, output=15, reasoning=40, long={"input": 6, "output": 50, "reasoning": 20, "above_tokens": 900}),
    Price(
        input=3, output=15, cache_write_1h=9, long={"input": 6, "output": 9, "cache_write_1h": 30, "above_tokens": 900}
    ),
]
BUCKETS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens")


@pytest.mark.parametrize("price", LONG_PRICES, ids=str)
@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("tokens", [1, 800, 900, 901, 1500])
@pytest.mark.parametrize("written", ["output_tokens", "reasoning_tokens"])
def test_no_length_or_bucket_of_a_prompt_costs_more_than_was_held(
    price: Price, bucket: str, tokens: int, written: str
) -> None:
    metering = meter("100", price=price)
    hold = admitted(metering, Prompt(size=1000, hour=True), limit=1000)
    assert price.cost(Usage.model_validate({bucket: tokens, written: 1000})) <= hold.usd == price.cost(hold.worst)


def test_words_before_a_conversation_that_change_a_little_are_counted_alone() -> None:
    metering = meter("100")
    turns: list[JsonValue] = ["turn " * 4000]
    before = Prompt(size=60_000, turns=turns, words=["stamp 1", "told " * 8000], rest={"tools": 1})
    metering.settle(admitted(metering, before), Usage(input_tokens=12_000, output_tokens=5), before)
    after = Prompt(size=60_000, turns=turns, words=["stamp 2", "told " * 8000], rest={"tools": 1})
    assert 12_000 < metering.prompt_bound(after) < 12_200
    longer = Prompt(size=60_000, turns=turns, words=["stamp 2", "told " * 8000, "more " * 1000], rest={"tools": 1})
    assert metering.prompt_bound(longer) >= 12_000 + 5000
