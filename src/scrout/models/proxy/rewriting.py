"""What the structured parts of a prompt may grow by where an endpoint writes them down anew for its model.

Templates and gateways indent them, escape what is not ASCII or could be HTML, write numbers out, and put what a
schema's reference names in its place. All of that is tokens beyond the bytes that were sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from pydantic import JsonValue

from scrout.models.proxy.apis import MAX_NUMBER, Json, parse, parts
from scrout.models.proxy.json_checks import REFERENCES

_HTML = "<>&'"
_ESCAPE_BYTES = 6
_FLOAT_BYTES = 24
_LEVELS_A_TOKEN = 8
"""Levels of indentation, of which tokenizers have tokens for runs of blanks."""
_MOST_NAMES = 500
"""Of what references name in one schema. More of them take long to look at, and no tool has as many."""
_MOST_LOOKS = 20
"""How often a byte of a schema is looked at, in definitions that lie within others."""
_STRUCTURED = ("input", "arguments", "action", "operation", "tools")


def added(value: JsonValue) -> int:
    """At least the tokens that a value may have beyond the bytes of its canonical form."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escaped = len(json.dumps(value)) - len(text.encode("utf-8", "replace"))
    html = (_ESCAPE_BYTES - 1) * sum(map(text.count, _HTML))
    return escaped + html + _laid_out(value) + (_put_in(value, len(text)) if '"$' in text else 0)


def structured(turn: JsonValue) -> Iterator[JsonValue]:
    """The parts of an entry of a conversation that are no text, or the text of an object."""
    if not isinstance(turn, dict):
        return
    for part in (turn, *parts(turn), *_functions(turn.get("tool_calls"))):
        for key in _STRUCTURED:
            found = part.get(key)
            # Of a call's arguments, which are text here, templates are given what they say.
            read = parse(found.encode("utf-8", "replace")) if isinstance(found, str) else found
            if isinstance(read, dict | list):
                yield read


def _functions(calls: JsonValue) -> Iterator[Json]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
            yield function


def _laid_out(value: JsonValue) -> int:
    """With each value on a line of its own."""
    tokens, depth, level = 0, 0, [value]
    while level:
        containers = [found for found in level if isinstance(found, dict | list)]
        indented = depth // _LEVELS_A_TOKEN
        # The bracket that closes a container, and the first thing in it, have no comma with a blank otherwise.
        tokens += len(level) * (1 + indented) + len(containers) * (3 + indented)
        tokens += _FLOAT_BYTES * sum(isinstance(found, float) for found in level)
        level = [inner for found in containers for _, inner in _items(found)]
        depth += 1
    return tokens


def _put_in(value: JsonValue, length: int) -> int:
    """With what references name in their places. Where one leads back to itself, it stays."""
    wanted, places = set(_references(value)), dict[str, list[tuple[JsonValue, int]]]()
    room = _MOST_LOOKS * length if len(wanted) <= _MOST_NAMES else 0
    for found in _containers(value):
        for name, inner in _items(found):
            if str(name) in wanted and isinstance(inner, dict | list):
                places.setdefault(str(name), []).append((inner, len(json.dumps(inner))))
                room -= places[str(name)][-1][1]
                if room < 0:  # names within themselves, again and again
                    return MAX_NUMBER
    known: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in known:
            known[name] = 0
            known[name] = max((own + follow(place) for place, own in places.get(name, ())), default=0)
        return known[name]

    def follow(found: JsonValue) -> int:
        return min(sum(map(size, _references(found))), MAX_NUMBER)

    try:
        return follow(value)
    except RecursionError:
        return MAX_NUMBER


def _references(value: JsonValue) -> Iterator[str]:
    """The last part of each, by which it is found."""
    for found in _containers(value):
        for key in REFERENCES:
            if isinstance(found, dict) and isinstance(name := found.get(key), str):
                yield unquote(name.rpartition("/")[2]).replace("~1", "/").replace("~0", "~")


def _containers(value: JsonValue) -> Iterator[Json | list[JsonValue]]:
    inner = [value]
    while inner:
        found = inner.pop()
        if isinstance(found, dict | list):
            yield found
            inner += [item for _, item in _items(found)]


def _items(found: Json | list[JsonValue]) -> Iterable[tuple[str | int, JsonValue]]:
    return found.items() if isinstance(found, dict) else enumerate(found)
