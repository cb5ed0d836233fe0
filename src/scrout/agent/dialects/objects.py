"""Parses JSON objects as models write them: with raw newlines in strings, cut off, nested without end."""

from __future__ import annotations

import json
import math

from pydantic import JsonValue

MAX_DEPTH = 50
"""Deeper objects are refused, so that no later code exhausts the stack."""


def whole_object(text: str) -> dict[str, JsonValue]:
    """Parse a text as one object; raises a ValueError that says why it is not one."""
    start = len(text) - len(text.lstrip())
    found, end = leading_object(text, start)
    if text[end:].strip():
        raise ValueError(f"there is more text behind the object, at character {end}")
    return found


def leading_object(text: str, start: int = 0) -> tuple[dict[str, JsonValue], int]:
    """Parse the object at `start`; returns it and its end, or raises like `whole_object`."""
    try:
        found, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    if _deeper_than(found, MAX_DEPTH):
        raise ValueError("it is nested too deeply")
    return found, end


def write(value: JsonValue) -> str:
    """Non-ASCII characters are written unescaped: escaped, two halves of a surrogate pair would be read back as one."""
    return json.dumps(value, ensure_ascii=False)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is no number that can be used")
    return number


_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)


def _deeper_than(value: JsonValue, depth: int) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(depth):
        level = [child for parent in level for child in _children(parent)]
    return bool(level)


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
