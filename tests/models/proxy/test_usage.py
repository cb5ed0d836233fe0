"""Reported usage as disjoint buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.models.proxy.usage import of_chat, of_messages, of_responses
from scrout.money import Usage

TOKENS = st.integers(0, 10**6)


def chat(prompt: int, completion: int, **details: JsonValue) -> JsonValue:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


def test_chat_takes_what_was_cached_and_thought_out_of_the_rest() -> None:
    found = of_chat(
        chat(
            100,
            30,
            prompt_tokens_details={"cached_tokens": 60, "cache_write_tokens": 25},
            completion_tokens_details={"reasoning_tokens": 20},
        )
    )
    assert found == Usage(
        input_tokens=15, cache_read_tokens=60, cache_write_tokens=25, output_tokens=10, reasoning_tokens=20
    )


def test_what_only_the_total_counts_is_billed_as_output() -> None:
    assert of_chat(chat(100, 10, total_tokens=150)) == Usage(input_tokens=100, output_tokens=50)
    thought: JsonValue = {"reasoning_tokens": 40}
    apart = of_chat(chat(100, 10, total_tokens=150, completion_tokens_details=thought))
    assert apart == Usage(input_tokens=100, output_tokens=10, reasoning_tokens=40)


def test_a_total_that_is_too_small_changes_nothing() -> None:
    assert of_chat(chat(100, 10, total_tokens=3)) == Usage(input_tokens=100, output_tokens=10)


@given(TOKENS.filter(bool), TOKENS, TOKENS, TOKENS, TOKENS)
def test_the_buckets_sum_to_the_whole(prompt: int, completion: int, read: int, written: int, thought: int) -> None:
    cached: JsonValue = {"cached_tokens": read, "cache_write_tokens": written}
    thoughts: JsonValue = {"reasoning_tokens": thought}
    a = of_chat(chat(prompt, completion, prompt_tokens_details=cached, completion_tokens_details=thoughts))
    b = of_responses(
        {
            "input_tokens": prompt,
            "output_tokens": completion,
            "input_tokens_details": cached,
            "output_tokens_details": thoughts,
        }
    )
    assert a == b and a is not None
    assert a.input_tokens + a.cache_read_tokens + a.cache_write_tokens == prompt
    assert a.output_tokens + a.reasoning_tokens == completion


def test_messages_has_its_buckets_apart() -> None:
    report: JsonValue = {
        "input_tokens": 3,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": None,
        "output_tokens": 7,
    }
    assert of_messages(report) == Usage(input_tokens=3, cache_read_tokens=5, output_tokens=7)


IMPOSSIBLE: list[JsonValue] = [
    None,
    [],
    "many",
    {},
    {"prompt_tokens": 0, "completion_tokens": 5, "input_tokens": 0, "output_tokens": 5},
    {"prompt_tokens": -1, "completion_tokens": 5, "input_tokens": -1, "output_tokens": 5},
    {"prompt_tokens": 5, "completion_tokens": -5, "input_tokens": 5, "output_tokens": -5},
    {"prompt_tokens": 10**10, "completion_tokens": 5, "input_tokens": 10**10, "output_tokens": 5},
    {"prompt_tokens": 5, "input_tokens": 5},
]


@pytest.mark.parametrize("report", IMPOSSIBLE)
def test_a_report_that_cannot_be_true_counts_as_none(report: JsonValue) -> None:
    assert (of_chat(report), of_responses(report), of_messages(report)) == (None, None, None)


def test_a_pass_that_sums_up_the_conversation_is_billed_beside_the_totals() -> None:
    passes = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
    ]
    counted = of_messages({"input_tokens": 23_000, "output_tokens": 1_000, "iterations": passes})
    assert counted == Usage(input_tokens=203_000, output_tokens=4_500)


@pytest.mark.parametrize("whole", [None, 0, 50, 120])
def test_what_was_kept_is_counted_by_its_parts_where_they_are_more(whole: int | None) -> None:
    kept: JsonValue = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 100}
    raw: JsonValue = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_creation_input_tokens": whole,
        "cache_creation": kept,
    }
    found = of_messages(raw)
    assert found is not None and (found.cache_write_tokens, found.cache_write_1h_tokens) == (20, 100)
