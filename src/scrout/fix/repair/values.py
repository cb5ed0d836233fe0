"""Templates for values: None and what is merely empty, constants of another kind, strings, and one more condition."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import TypeGuard

from scrout.fix.repair.place import ATOMS, Edit, Place

LIKE = 0.6
"""How much a string must be like another one to be tried in its place."""
MOST_LIKE = 4
MOST_NUMBERS = 4
LONGEST_STATEMENT = 120
"""In expressions; a longer one is a table."""
MOST_CLAUSES = 6
MOST_ASKED = 30
_PLAIN = (*ATOMS, ast.Compare, ast.UnaryOp)
"""What `and` and `or` need no parentheses around."""
_OTHER_KINDS = {
    "None": ("0", "1", '""', "False", "True", "[]", "{}", "()"),
    "True": ("None",),
    "False": ("None",),
    "0": ("None", '""', "False"),
    "1": ("None", "True"),
    '""': ("None", "0", "1", '" "', "()"),
}


def _truth(place: Place, node: ast.expr) -> Iterator[Edit]:
    """None and what is empty are both false, and not the same."""
    if id(node) in place.tests and isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        yield place.replace("none", node, f"{place.text.of(node)} is not None")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ATOMS):
        yield place.replace("none", node, f"{place.text.of(node.operand)} is None")
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
        right = node.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            left = place.text.of(node.left)
            yield place.replace("none", node, f"not {left}" if isinstance(node.ops[0], ast.Is) else left, 0.8)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        left, right_text = place.text.of(node.values[0]), place.text.of(node.values[1])
        if isinstance(node.values[0], ATOMS) and id(node) not in place.tests:
            yield place.replace("none", node, f"({left} if {left} is not None else {right_text})", 0.8)


def _maybe_none(place: Place, node: ast.expr) -> Iterator[Edit]:
    """Something in the place of None, where a value is handed on; and None where there is nothing to look into."""
    if id(node) not in place.handed_on or not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return
    said = place.text.of(node)
    for rank, empty in enumerate(('""', "[]", "0", "{}", "()")):
        yield place.replace("instead of none", node, f"({said} or {empty})", 1 - 0.15 * rank)
    for rank, name in enumerate(place.names()[:3]):
        if name != said:
            yield place.replace("instead of none", node, f"({said} or {name})", 0.7 - 0.15 * rank)
    if isinstance(node, ast.Attribute | ast.Call):
        inner = node.value if isinstance(node, ast.Attribute) else getattr(node.func, "value", None)
        if isinstance(inner, ast.Name):
            yield place.replace("instead of none", node, f"({said} if {inner.id} is not None else None)", 0.8)


def _kind(place: Place, node: ast.expr) -> Iterator[Edit]:
    """A constant of another type, or another number that the code around it knows."""
    if not isinstance(node, ast.Constant):
        return
    said = '""' if node.value == "" and isinstance(node.value, str) else place.text.of(node)
    for rank, other in enumerate(_OTHER_KINDS.get(said, ())):
        yield place.replace("kind of constant", node, other, 1 - 0.1 * rank)
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        for rank, other in enumerate(place.around(_numbers)[:MOST_NUMBERS]):
            yield place.replace("known number", node, other, 1 - 0.15 * rank)
        yield place.replace("known number", node, f"-{place.text.of(node)}", 0.8)


def _numbers(place: Place) -> list[str]:
    found: dict[str, None] = {}
    for scope in (place.statement.function, place.statement.owner, place.text.tree):
        for node in ast.walk(scope) if scope is not None else ():
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
                found[ast.unparse(node)] = None
    return list(found)


def _string(place: Place, node: ast.expr) -> Iterator[Edit]:
    """A string that is like this one and is written elsewhere in the file, or in the reproduction."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or len(place.nodes) > LONGEST_STATEMENT:
        return
    value = node.value
    quote = place.text.of(node)[-1]
    if place.text.of(node)[:1] != quote or "\n" in value:
        return
    known = dict.fromkeys((*place.hints.strings, *place.in_file(_strings)))
    scored = [(_likeness(value, other), other) for other in known if other != value]
    best = sorted((one for one in scored if one[0] >= LIKE), key=lambda one: (-one[0], one[1]))[:MOST_LIKE]
    for likeness, other in best:
        yield place.replace("string", node, _quoted(other, quote), likeness)
    if len(value) <= 2:
        for character in (" ", ",", "-", "_", ".", ":", "\\n"):
            if character not in value:
                yield place.replace("string", node, f"{quote}{_quoted(value + character, quote)[1:-1]}{quote}", 0.4)


def _likeness(one: str, other: str) -> float:
    """From 0 to 1. Most pairs are told apart by their length and their ends."""
    if abs(len(one) - len(other)) > 1 + min(len(one), len(other)) / 3:
        return 0.0
    if one[:1] != other[:1] and one[-1:] != other[-1:] and one.lower() != other.lower():
        return 0.0
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= LIKE else 0.0


def _quoted(value: str, quote: str) -> str:
    said = repr(value)
    if said[0] != quote and quote not in value and "\\" not in said:
        said = f"{quote}{value}{quote}"
    return said


def _strings(place: Place) -> list[str]:
    found: dict[str, None] = {}
    for node in ast.walk(place.text.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= 60:
            found[node.value] = None
    return list(found)[:400]


def _clause(place: Place, node: ast.expr) -> Iterator[Edit]:
    """One more condition: one that the code around asks elsewhere, or whether a name is None or empty."""
    if id(node) not in place.tests:
        return
    said = place.text.of(node)
    plain = said if isinstance(node, _PLAIN) else f"({said})"
    for rank, clause in enumerate(_clauses(place, node)):
        for joiner, weight in (("and", 1.0), ("or", 0.8)):
            # In front, because what is asked first may keep the rest from being asked.
            body = f"{clause} {joiner} {said if isinstance(node, ast.BoolOp) and _joins(node, joiner) else plain}"
            yield place.replace("clause", node, body, weight * (1 - 0.04 * rank))


def _joins(node: ast.BoolOp, joiner: str) -> bool:
    return isinstance(node.op, ast.And) == (joiner == "and")


def _clauses(place: Place, node: ast.expr) -> list[str]:
    known = set(place.names()) | {"self", "cls"}
    said = place.text.of(node)
    asked: dict[str, None] = {}
    for scope in (place.statement.function, place.statement.owner):
        for other in ast.walk(scope) if scope is not None else ():
            test = getattr(other, "test", None)
            for part in test.values if isinstance(test, ast.BoolOp) else [test]:
                if not isinstance(part, ast.expr):
                    continue
                text = place.text.of(part)
                if text not in said and len(text) < 80 and "\n" not in text and _names(part) <= known:
                    asked[text if isinstance(part, _PLAIN) else f"({text})"] = None
    asked = dict.fromkeys(list(asked)[:MOST_CLAUSES])
    asked |= dict.fromkeys(_about_attributes(place, node))
    for name in [*dict.fromkeys(_ordered_names(node)), *place.names()][:5]:
        if name in known and name not in ("self", "cls"):
            asked |= dict.fromkeys((f"{name} is not None", name, f"not {name}", f"{name} is None"))
    return list(asked)[:MOST_ASKED]


def _about_attributes(place: Place, node: ast.expr) -> Iterator[str]:
    """Whether another attribute of an object that the condition is about is true."""
    objects = {one.value.id for one in ast.walk(node) if _is_attribute(one) and isinstance(one.value, ast.Name)}
    scope = place.statement.owner or place.text.tree
    found: dict[str, None] = {}
    for one in ast.walk(scope):
        if _is_attribute(one) and isinstance(one.value, ast.Name) and one.value.id in objects:
            found[f"{one.value.id}.{one.attr}"] = None
    for text in list(found)[: 2 * MOST_CLAUSES]:
        yield from (text, f"not {text}")


def _is_attribute(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)


def _element(place: Place, node: ast.expr) -> Iterator[Edit]:
    """One more element: what displays with the same elements hold elsewhere, then what the reproduction speaks of."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or len(node.elts) < 2 or id(node) not in place.loaded:
        return
    own = {place.text.of(one) for one in node.elts}
    offered: dict[str, None] = {}
    for other in place.in_file(_displays):
        if other & own and len(offered) < MOST_LIKE:
            offered |= dict.fromkeys(sorted(other - own))
    if all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in node.elts):
        offered |= dict.fromkeys(repr(one) for one in place.hints.strings[:MOST_LIKE] if one.isprintable())
    end = place.text.span(node.elts[-1])[1]
    for rank, text in enumerate(list(offered)[: 2 * MOST_LIKE]):
        yield place.edit("element", end, end, f", {text}", 1 - 0.08 * rank)


def _displays(place: Place) -> list[frozenset[str]]:
    nodes = (one for one in ast.walk(place.text.tree) if isinstance(one, ast.List | ast.Tuple | ast.Set))
    plain = (one.elts for one in nodes if 1 < len(one.elts) < 30)
    return [
        frozenset(place.text.of(one) for one in elements)
        for elements in plain
        if all(isinstance(one, ast.Constant | ast.Name | ast.Attribute) for one in elements)
    ]


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id.islower()} - {
        *("isinstance", "len", "hasattr", "callable", "any", "all", "type", "str", "int", "list", "tuple", "dict"),
        *("getattr", "issubclass", "set", "bool", "min", "max", "sum", "abs", "bytes", "float"),
    }


def _ordered_names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


VALUE_TEMPLATES: tuple[Callable[[Place, ast.expr], Iterator[Edit]], ...] = (
    _truth,
    _maybe_none,
    _kind,
    _string,
    _clause,
    _element,
)
