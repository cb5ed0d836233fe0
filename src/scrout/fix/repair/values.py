"""Templates for values: None and empty values, constants of another kind, strings, and one more element."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from scrout.fix.repair.edit_site import ATOMS, Edit, EditSite

LIKE = 0.6
"""Minimum similarity of a string to be tried in place of another."""
MOST_LIKE = 4
MOST_NUMBERS = 4
LONGEST_STATEMENT = 120
"""Maximum number of expressions; a longer display is a table."""
_OTHER_KINDS = {
    "None": ("0", "1", '""', "False", "True", "[]", "{}", "()"),
    "True": ("None",),
    "False": ("None",),
    "0": ("None", '""', "False"),
    "1": ("None", "True"),
    '""': ("None", "0", "1", '" "', "()"),
}


def _truth(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Swap tests for None and for emptiness, which are both false but not the same."""
    if id(node) in place.tests and isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        if _last_name(node) not in place.in_file(_flags):
            yield place.replace("none", node, f"{place.text.of(node)} is not None")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ATOMS):
        if _last_name(node.operand) not in place.in_file(_flags):
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


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _flags(place: EditSite) -> frozenset[str]:
    """Names that the file sets to True or False, as a default or a value, and never to None."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(place.text.tree):
        if isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            pairs = [*zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True)]
            pairs += [(one, value) for one, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if value]
            for argument, value in pairs:
                given.setdefault(argument.arg, []).append(value)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                given.setdefault(_last_name(target), []).append(node.value)
    constants = {name: [one.value for one in ones if isinstance(one, ast.Constant)] for name, ones in given.items()}
    return frozenset(
        name
        for name, values in constants.items()
        if any(isinstance(value, bool) for value in values) and None not in values
    )


def _kind(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """A constant of another type, or another number from the surrounding code."""
    if not isinstance(node, ast.Constant):
        return
    said = '""' if node.value == "" and isinstance(node.value, str) else place.text.of(node)
    for rank, other in enumerate(_OTHER_KINDS.get(said, ())):
        yield place.replace("kind of constant", node, other, 1 - 0.1 * rank)
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        for rank, other in enumerate(place.around(_numbers)[:MOST_NUMBERS]):
            yield place.replace("known number", node, other, 1 - 0.15 * rank)
        yield place.replace("known number", node, f"-{place.text.of(node)}", 0.8)


def _numbers(place: EditSite) -> list[str]:
    found: dict[str, None] = {}
    for scope in (place.statement.function, place.statement.owner, place.text.tree):
        for node in ast.walk(scope) if scope is not None else ():
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
                found[ast.unparse(node)] = None
    return list(found)


def _string(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """A similar string from elsewhere in the file."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or len(place.nodes) > LONGEST_STATEMENT:
        return
    value = node.value
    quote = place.text.of(node)[-1]
    if place.text.of(node)[:1] != quote or "\n" in value:
        return
    scored = [(_likeness(value, other), other) for other in place.in_file(_strings) if other != value]
    best = sorted((one for one in scored if one[0] >= LIKE), key=lambda one: (-one[0], one[1]))[:MOST_LIKE]
    for likeness, other in best:
        yield place.replace("string", node, _quoted(other, quote), likeness)
    for opening, closing in ("[]", "()", "{}"):
        if value.count(closing) == value.count(opening) + 1:
            yield place.replace("string", node, _quoted(opening + value, quote), 0.9)
        elif value.count(opening) == value.count(closing) + 1:
            yield place.replace("string", node, _quoted(value + closing, quote), 0.9)
    if len(value) <= 2:
        for character in (" ", ",", "-", "_", ".", ":", "\\n"):
            if character not in value:
                yield place.replace("string", node, f"{quote}{_quoted(value + character, quote)[1:-1]}{quote}", 0.4)


def _likeness(one: str, other: str) -> float:
    """From 0 to 1. Length and ends rule out most pairs quickly."""
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


def _strings(place: EditSite) -> list[str]:
    found: dict[str, None] = {}
    for node in ast.walk(place.text.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= 60:
            found[node.value] = None
    return list(found)[:400]


def _element(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add an element that displays with the same elements have elsewhere."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or len(node.elts) < 2 or id(node) not in place.loaded:
        return
    own = {place.text.of(one) for one in node.elts}
    offered: dict[str, None] = {}
    for other in place.in_file(_displays):
        if other & own and len(offered) < MOST_LIKE:
            offered |= dict.fromkeys(sorted(other - own))
    end = place.text.span(node.elts[-1])[1]
    for rank, text in enumerate(list(offered)[: 2 * MOST_LIKE]):
        yield place.edit("element", end, end, f", {text}", 1 - 0.08 * rank)


def _displays(place: EditSite) -> list[frozenset[str]]:
    nodes = (one for one in ast.walk(place.text.tree) if isinstance(one, ast.List | ast.Tuple | ast.Set))
    plain = (one.elts for one in nodes if 1 < len(one.elts) < 30)
    return [
        frozenset(place.text.of(one) for one in elements)
        for elements in plain
        if all(isinstance(one, ast.Constant | ast.Name | ast.Attribute) for one in elements)
    ]


VALUE_TEMPLATES: tuple[Callable[[EditSite, ast.expr], Iterator[Edit]], ...] = (
    _truth,
    _kind,
    _string,
    _element,
)
