"""What templates and gateways make of the structured parts of a prompt, at a token for each byte, is held for."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
from pydantic import JsonValue

from scrout.models.proxy.apis import MAX_NUMBER, canonical
from scrout.models.proxy.rewriting import added, structured

TOOL: JsonValue = {
    "name": "edit",
    "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "Which file."}}},
}


def nested(levels: int) -> JsonValue:
    value: JsonValue = [1] * 50
    for _ in range(levels):
        value = [value]
    return value


def tokens(text: str) -> int:
    """With one for each byte, and one for a run of blanks."""
    return len(re.sub(r" {1,32}", " ", text).encode())


@pytest.mark.parametrize(
    "value", [TOOL, nested(1), nested(200), {"x": "é<b>'&" * 50}, {"x": ["\U0001f600"] * 50}, [1e20, 1e-6] * 50, {}]
)
def test_what_is_written_anew_has_no_more_tokens_than_are_held_for(value: JsonValue) -> None:
    bound = len(canonical({"": value})) - len('{"":}') + added(value)
    html = re.sub("[<>&']", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value))
    digits = re.sub(r"\d+e[+-]\d+", lambda found: f"{Decimal(found[0]):f}", json.dumps(value))
    for text in (json.dumps(value), json.dumps(value, indent=4), html, digits):
        assert tokens(text) <= bound


def test_little_is_held_for_beyond_an_ordinary_tool() -> None:
    assert added(TOOL) < len(json.dumps(TOOL)) / 3


def doubling(levels: int) -> JsonValue:
    both = {level: [{"$ref": f"#/$defs/{level - 1}"}] * 2 for level in range(1, levels)}
    return {"$defs": {"0": {"type": "x" * 100}} | {str(level): {"anyOf": two} for level, two in both.items()}}


def test_what_references_name_is_held_for_in_their_places() -> None:
    assert added(doubling(11)) > 100 * 2**10
    assert added(doubling(200)) >= MAX_NUMBER


def test_a_reference_within_what_it_names_is_held_for_once() -> None:
    tree: JsonValue = {"$defs": {"Tree": {"properties": {"parts": {"items": {"$ref": "#/$defs/Tree"}}}}}}
    assert added(tree) < 3 * len(json.dumps(tree))


def test_definitions_within_each_other_are_not_looked_at_again_and_again() -> None:
    value: JsonValue = {"$ref": "#/a"}
    for _ in range(100):
        value = {"a": value}
    assert added(value) >= MAX_NUMBER


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {"x": [1]}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "b", "arguments": '{"x": [1]}'}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "b", "arguments": {"x": [1]}}}]},
        {"type": "function_call", "call_id": "a", "name": "b", "arguments": '{"x": [1]}'},
        {"type": "tool_search_call", "arguments": {"x": [1]}},
    ],
)
def test_the_arguments_of_a_call_are_structured_in_every_api(turn: JsonValue) -> None:
    assert list(structured(turn)) == [{"x": [1]}]


@pytest.mark.parametrize("turn", ["a", {"role": "user", "content": "a"}, {"type": "custom_tool_call", "input": "a"}])
def test_text_is_not(turn: JsonValue) -> None:
    assert not list(structured(turn))
