"""Checks of JSON values, which the allow-lists are made of: what no check names does not pass."""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic import JsonValue

Check = Callable[[JsonValue], bool]
"""Whether a value that is not null may pass."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def anything(value: JsonValue) -> bool:
    return True


def scalar(value: JsonValue) -> bool:
    return not isinstance(value, dict | list)


def text(value: JsonValue) -> bool:
    return isinstance(value, str)


def empty(value: JsonValue) -> bool:
    """What clients repeat of an answer that had nothing there."""
    return value in ("", [], {})


def texts(value: JsonValue) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def labels(value: JsonValue) -> bool:
    """Texts by name. Some gateways route by lists and objects here."""
    return isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values())


def schema(value: JsonValue) -> bool:
    """A JSON schema that needs nothing from elsewhere: some servers load what a reference names."""
    inner = [value]
    while inner:
        match inner.pop():
            case dict() as found:
                named = [found.get(key) for key in REFERENCES]
                if any(isinstance(name, str) and not name.startswith("#") for name in named):
                    return False
                if isinstance(base := found.get("$id"), str) and ":" in base:
                    return False
                inner += found.values()
            case list() as found:
                inner += found
    return True


def one_of(*values: str | bool) -> Check:
    return lambda value: any(value is one if isinstance(one, bool) else value == one for one in values)


def an_object(*required: str, **keys: Check) -> Check:
    def check(value: JsonValue) -> bool:
        if not isinstance(value, dict) or any(value.get(key) is None for key in required):
            return False
        return all(key in keys and (item is None or keys[key](item)) for key, item in value.items())

    return check


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def by_type(default: str = "", /, **kinds: Check) -> Check:
    """An object of one of these types; `default` is what one without a type is."""

    def check(value: JsonValue) -> bool:
        kind = value.get("type", default) if isinstance(value, dict) else None
        return isinstance(kind, str) and kind in kinds and kinds[kind](value)

    return check


def like(pattern: str, flags: int = 0) -> Check:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value, flags))


def each_of(check: Check, *keys: str) -> dict[str, Check]:
    return dict.fromkeys(keys, check)
