"""Definitions and imports of a file by its tree-sitter grammar, found by a query in native code.

A grammar also reads parts of a broken file. To limit time, the parser is given a shorter file.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, cast

from scrout.index.definition import Definition, Kind
from scrout.index.languages import GRAMMARS

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Point, Query

MAX_PARSE_S = 1.0
"""Time limit; the rest of the file is left out.

Ordinary code takes at most 40 ms, hostile code could take half a minute.
"""
MAX_DEPTH = 500
"""Maximum nesting of brackets. Time is quadratic if they are not closed: a hundred thousand take 13 s."""
MAX_DEFINITIONS = 5_000
MAX_IMPORTS = 2_000

_CHUNK_BYTES = 16_384
_MAX_NAME_CHARS = 200
_RANKS = {"class": 0, "function": 1, "scope": 2, "attribute": 3, "constant": 4}
_NAME_FIELDS = ("name", "left", "key", "property", "declarator", "type")
_STEPS = {**dict.fromkeys(b"([{", 1), **dict.fromkeys(b")]}", -1)}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEPS)
_WHOLE_NAMES = frozenset(
    {
        "generic_type",
        "member_expression",
        "qualified_identifier",
        "scope_resolution",
        "scoped_type_identifier",
        "setter",
    }
)
_WRAPPERS = frozenset({"parenthesized_declarator", "reference_declarator"})
_PLAIN_MEMBER = re.compile(r"[\w$.#]+")
_GENERIC = re.compile(r"<[^<>]*>")
_NAME_PART = re.compile(r"[\w$#~?!=]+")
# Names that a script uses only to declare visibility.
_SELF = frozenset({"this", "self", "exports", "module", "prototype", "window", "globalThis"})


class _Found(NamedTuple):
    start: int
    end: int
    capture: str
    node: Node


def read_syntax(data: bytes, language: str) -> tuple[tuple[Definition, ...], tuple[str, ...]] | None:
    """Definitions in the order of lines, and imports as in `languages`. None: no grammar can read the file."""
    loaded = _load(language)
    if loaded is None or _depth(data) > MAX_DEPTH:
        return None
    from tree_sitter import Parser, QueryCursor

    grammar, query = loaded
    deadline = time.monotonic() + MAX_PARSE_S

    def chunk(offset: int, point: Point) -> bytes:
        return data[offset : offset + _CHUNK_BYTES] if time.monotonic() < deadline else b""

    # One parser per file: a parser cannot be shared between threads, and creating one takes a microsecond.
    tree = Parser(grammar).parse(chunk)
    definitions: list[_Found] = []
    imports: dict[str, None] = {}
    for capture, nodes in QueryCursor(query).captures(tree.root_node).items():
        kind, _, form = capture.partition(".")
        if kind in _RANKS:
            definitions += [_Found(node.start_byte, node.end_byte, kind, node) for node in nodes[: 4 * MAX_DEFINITIONS]]
        elif kind == "import":
            for node in sorted(nodes, key=_start)[:MAX_IMPORTS]:
                text = data[node.start_byte : node.end_byte].decode("utf-8", errors="replace")
                imports |= dict.fromkeys(GRAMMARS[language].imports(text, form))
    calls = GRAMMARS[language].calls
    for match in calls.finditer(data) if calls else ():
        form = "relative" if match.groupdict().get("form") else ""
        imports |= dict.fromkeys(GRAMMARS[language].imports(match["name"].decode("utf-8", errors="replace"), form))
    usable = (name for name in imports if name and len(name) <= _MAX_NAME_CHARS and name.isprintable())
    return tuple(_definitions(data, definitions))[:MAX_DEFINITIONS], tuple(usable)[:MAX_IMPORTS]


def _depth(data: bytes) -> int:
    return max(accumulate(map(_STEPS.__getitem__, data.translate(None, _NO_BRACKETS))), default=0)


@cache
def _load(language: str) -> tuple[Language, Query] | None:
    if language not in GRAMMARS:
        return None
    module, function, query, *_ = GRAMMARS[language]
    try:
        from tree_sitter import Language, Query

        grammar = Language(getattr(import_module(module), function)())
        return grammar, Query(grammar, query)
    except (ImportError, AttributeError, ValueError):  # missing, or another version than the query was written for
        return None


def _definitions(data: bytes, found: list[_Found]) -> Iterator[Definition]:
    found.sort(key=lambda each: (each.start, -each.end, _RANKS[each.capture]))
    owners: list[tuple[int, str]] = []
    attribute: tuple[int, int] | None = None  # the end of the last definition, and the first row of a run
    span = (-1, -1)
    for start, end, capture, node in found:
        first, last = node.start_point[0], node.end_point[0]
        if attribute is not None and not _only_comments(data[attribute[0] : start]):
            attribute = None
        if capture == "attribute":
            attribute = (end, attribute[1] if attribute else first)
            continue
        name = "" if (start, end) == span else _name(data, node)
        if not name:
            continue
        span = (start, end)
        while owners and owners[-1][0] <= start:
            owners.pop()
        if capture == "scope":
            owners.append((end, name.rpartition(".")[2]))
            continue
        qualified = f"{owners[-1][1]}.{name}" if owners else name
        if node.type != "type_definition":  # a C struct with a name does not also take its variable's name
            owners.append((end, qualified))
        if attribute is not None:
            first, attribute = attribute[1], None
        # Some nodes include their line feed.
        last = last - 1 if node.end_point[1] == 0 and last > first else last
        body = node.child_by_field_name("body") if capture == "function" else None
        opens = body.start_point[0] if body is not None else last + (capture != "function")
        yield Definition(qualified, first + 1, last + 1, opens + 1, cast(Kind, capture))


def _only_comments(between: bytes) -> bool:
    """True also for an empty slice. A slice that is long, or starts before the attribute's end, does not count."""
    lines = between[:2000].split(b"\n")
    return len(between) < 2000 and all(not line.strip() or line.lstrip()[:2] in (b"//", b"/*") for line in lines)


def _name(data: bytes, node: Node) -> str:
    found = node
    for _ in range(8):  # a C declarator is wrapped in pointers, references and parameters
        inner = next((child for field in _NAME_FIELDS if (child := found.child_by_field_name(field))), None)
        if inner is None and found.type in _WRAPPERS:
            inner = found.named_child(0)
        if inner is None or found.type in _WHOLE_NAMES:
            break
        found = inner
    if found is node:
        found = node.named_child(0) or node
    text = _text(data, found)
    if found.type == "member_expression" and not _PLAIN_MEMBER.fullmatch(text):
        text = text.rpartition(".")[2]
    plain = _GENERIC.sub("", _GENERIC.sub("", text))
    return ".".join(part for part in _NAME_PART.findall(plain) if part not in _SELF) or "".join(plain.split())


def _start(node: Node) -> int:
    return node.start_byte


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : min(node.end_byte, node.start_byte + _MAX_NAME_CHARS)].decode("utf-8", "replace")
