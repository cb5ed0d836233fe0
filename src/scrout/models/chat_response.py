"""The JSON of chat completions, parsed leniently: unknown fields are ignored."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pydantic import BaseModel, JsonValue, field_validator

MAX_WAIT_S = 60.0


class _Function(BaseModel):
    name: str
    arguments: str = ""

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, given: JsonValue) -> JsonValue:
        """Some servers send null instead of an empty list, or an object instead of its JSON."""
        if given is None:
            return ""
        return json.dumps(given) if isinstance(given, dict) else given


class _Call(BaseModel):
    id: str | None = None
    function: _Function


class _AssistantMessage(BaseModel):
    content: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None

    @field_validator("content", mode="before")
    @classmethod
    def _as_text(cls, given: JsonValue) -> JsonValue:
        """Some servers send text in parts."""
        if not isinstance(given, list):
            return given
        texts = (part.get("text") for part in given if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))


class _Choice(BaseModel):
    message: _AssistantMessage
    finish_reason: str | None = None


class Completion(BaseModel):
    object: JsonValue = None
    error: JsonValue = None
    choices: list[_Choice] = []
    usage: JsonValue = None
    model: str | None = None


def code_of(error: JsonValue) -> int | None:
    """The HTTP status in an error's code; None: it has none."""
    code = error.get("code") if isinstance(error, dict) else None
    return int(code) if re.fullmatch("[45][0-9][0-9]", str(code)) and isinstance(code, int | str) else None


def retry_after_s(value: str) -> float | None:
    """The seconds of a Retry-After header, capped; None: missing or not readable."""
    try:
        if value.isdecimal():
            seconds = float(value)
        else:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_WAIT_S)
