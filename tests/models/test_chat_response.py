"""Answers of chat completions that servers write in their own ways."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from scrout.models.chat_response import Completion


def read(message: JsonValue) -> Completion:
    return Completion.model_validate_json(json.dumps({"choices": [{"message": message}]}))


@pytest.mark.parametrize(
    ("arguments", "text"), [(None, ""), ("{}", "{}"), ('{"a', '{"a'), ({"command": "ls"}, '{"command": "ls"}')]
)
def test_arguments_of_a_call(arguments: JsonValue, text: str) -> None:
    calls = read({"tool_calls": [{"function": {"name": "bash", "arguments": arguments}}]}).choices[0].message.tool_calls
    assert calls is not None and [call.function.arguments for call in calls] == [text]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, None),
        ("hi", "hi"),
        ([], ""),
        ([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}], "one two"),
        ([{"type": "image_url"}, 7, {"type": "text", "text": "seen"}, {"type": "text", "text": None}], "seen"),
    ],
)
def test_content_whole_or_in_parts(content: JsonValue, text: str | None) -> None:
    assert read({"content": content}).choices[0].message.content == text
