"""Templates for single expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from scrout.fix.repair.edit_site import ATOMS, Edit, EditSite

"""A table of a thousand numbers is also one statement."""
SIMILAR_NAMES = 3

_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">", ">=", "!=")),
    ast.LtE: ("<=", ("<", ">=", ">", "==")),
    ast.Gt: (">", (">=", "<", "<=", "!=")),
    ast.GtE: (">=", (">", "<=", "<", "==")),
    ast.Eq: ("==", ("!=", ">=", "<=", "is")),
    ast.NotEq: ("!=", ("==", "<", ">")),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
    ast.Is: (r"\bis\b", ("is not", "==")),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
}
_BOUNDARIES = {("<", "<="), ("<=", "<"), (">", ">="), (">=", ">")}
ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("/", "//")),
    ast.Div: ("/", ("//", "*")),
    ast.FloorDiv: ("//", ("/", "%")),
    ast.Mod: ("%", ("//",)),
    ast.Pow: ("**", ("*",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
}
_FAMILIES = (
    ("min", "max"),
    ("any", "all"),
    ("int", "round"),
    ("floor", "ceil"),
    ("append", "extend"),
    ("add", "update"),
    ("pop", "popleft"),
    ("startswith", "endswith"),
    ("lower", "upper"),
    ("strip", "rstrip", "lstrip"),
    ("ljust", "rjust"),
    ("split", "rsplit"),
    ("partition", "rpartition"),
    ("find", "rfind"),
    ("keys", "values", "items"),
    ("union", "intersection", "difference"),
    ("issubset", "issuperset"),
    ("bisect_left", "bisect_right"),
    ("match", "fullmatch", "search"),
)
_SIBLINGS = {name: [other for other in family if other != name] for family in _FAMILIES for name in family}
_OVER_SEQUENCES = ("len", "list", "tuple", "set", "sum", "sorted")


def _comparison(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for (left, right), operator in zip(pairwise(operands), node.ops, strict=True):
        pattern, others = _COMPARISONS[type(operator)]
        for rank, other in enumerate(others):
            kind = "boundary" if (pattern, other) in _BOUNDARIES else "comparison"
            yield from place.between(kind, left, right, pattern, other, 1 - 0.2 * rank)


def _boolean(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in pairwise(node.values):
        yield from place.between("boolean", left, right, rf"\b{word}\b", other)


def _arithmetic(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return
    if any(isinstance(side, ast.Constant) and isinstance(side.value, str | bytes) for side in (node.left, node.right)):
        return
    symbol, others = ARITHMETIC[type(node.op)]
    for rank, other in enumerate(others):
        yield from place.between("arithmetic", node.left, node.right, re.escape(symbol), other, 1 - 0.2 * rank)
    if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod):
        first, second = place.outer(node.left, node), place.outer(node.right, node)
        yield place.edit("operands", first[0], second[1], _swapped(place, node.left, first, second))
    if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant) and node.right.value == 1:
        end = place.outer(node.left, node)[1]
        yield place.edit("off by one", end, place.text.span(node)[1], "")


def _swapped(place: EditSite, left: ast.expr, first: tuple[int, int], second: tuple[int, int]) -> str:
    source = place.text.source
    moved = source[slice(*first)]
    if not isinstance(left, ATOMS) and not moved.startswith("("):
        moved = f"({moved})"
    return source[slice(*second)] + source[first[1] : second[0]] + moved


def _constant(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield place.replace("constant", node, str(not node.value))
    elif isinstance(node.value, int) and place.text.of(node) == str(node.value):
        for rank, other in enumerate(dict.fromkeys((node.value + 1, node.value - 1, 0, 1))):
            if other != node.value:
                yield place.replace("constant", node, str(other), 1 - 0.15 * rank)


def _off_by_one(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add or subtract one in a position or a count."""
    positions: list[ast.expr | None] = []
    weight = 1.0
    if isinstance(node, ast.Subscript):
        inner = node.slice
        positions = [inner.lower, inner.upper] if isinstance(inner, ast.Slice) else [inner]
        # A plain name in brackets is as often a key as a position.
        weight = 1.0 if isinstance(inner, ast.Slice | ast.BinOp) else 0.6
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        positions = [*node.args[:2]]
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        positions, weight = [node.comparators[0]], 0.6
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        positions, weight = [node], 0.6
    for position in positions:
        if isinstance(position, ast.BinOp) and isinstance(position.right, ast.Constant):
            continue  # its constant has its own edits
        if isinstance(position, ast.Name | ast.Attribute | ast.Call | ast.BinOp | ast.Subscript):
            for change in ("+ 1", "- 1"):
                yield place.replace("off by one", position, f"{place.text.of(position)} {change}", weight)


def _negation(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start, end = place.text.span(node)
        yield place.edit("negation", start, end, place.text.source[start + len("not") : end].lstrip())
    elif isinstance(node, ast.IfExp):
        yield from negated(place, node.test)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for generator in node.generators:
            for test in generator.ifs:
                yield from negated(place, test)


def negated(place: EditSite, test: ast.expr, weight: float = 1.0) -> Iterator[Edit]:
    """Comparisons and `not` have their own edits."""
    if isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        return
    said = place.text.of(test)
    yield place.replace("negation", test, f"not {said}" if isinstance(test, ATOMS) else f"not ({said})", weight)


def _sibling(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    start, end = place.text.span(node.func)
    if isinstance(node.func, ast.Attribute):
        name, start = node.func.attr, end - len(node.func.attr)
    elif isinstance(node.func, ast.Name):
        name = node.func.id
    else:
        return
    if place.text.source[start:end] == name:
        for rank, other in enumerate(_SIBLINGS.get(name, ())):
            yield place.edit("sibling", start, end, other, 1 - 0.02 * rank)


def _arguments(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    for left, right in pairwise(node.args):
        if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
            first, second = place.text.span(left), place.text.span(right)
            source = place.text.source
            after = source[slice(*second)] + source[first[1] : second[0]] + source[slice(*first)]
            yield place.edit("arguments", first[0], second[1], after)


def _variable(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in place.called:
        known = place.names()
        # Only local names are likely to be mistaken for one; for others, similarity says nothing.
        for other, likeness in _most_similar(node.id, known):
            yield place.replace("variable", node, other, 0.5 + 0.5 * likeness if node.id in known else 0.6)


def _attribute(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Another attribute that the surrounding class or function uses on the same object, in the same way."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return
    known = place.around(_attributes_used).get((node.value.id, id(node) in place.called), ())
    start, end = place.text.span(node)
    start = end - len(node.attr)
    if place.text.source[start:end] == node.attr:
        for other, likeness in _most_similar(node.attr, known):
            yield place.edit("attribute", start, end, other, 0.5 + 0.5 * likeness)


def _attributes_used(place: EditSite) -> dict[tuple[str, bool], list[str]]:
    """Attributes by object, and whether they are called."""
    around = place.statement.owner or place.statement.function
    nodes = list(ast.walk(around)) if around is not None else []
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found: dict[tuple[str, bool], list[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault((node.value.id, id(node) in called), []).append(node.attr)
    return found


def _most_similar(name: str, known: Sequence[str]) -> list[tuple[str, float]]:
    others = [other for other in dict.fromkeys(known) if other != name]
    scored = [(other, SequenceMatcher(None, name, other).ratio()) for other in others]
    return sorted(scored, key=lambda pair: -pair[1])[:SIMILAR_NAMES]


def _default(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add a default to a value that may be None where a sequence or a string is needed."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        argument = node.args[0]
        if node.func.id in _OVER_SEQUENCES and isinstance(argument, ast.Name | ast.Attribute | ast.Call):
            yield place.replace("default", argument, f"{place.text.of(argument)} or ()")
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and hasattr(str, node.attr):
        yield place.replace("default", node.value, f'({node.value.id} or "")', 0.8)


EXPRESSION_TEMPLATES: tuple[Callable[[EditSite, ast.expr], Iterator[Edit]], ...] = (
    _comparison,
    _boolean,
    _arithmetic,
    _constant,
    _off_by_one,
    _negation,
    _sibling,
    _arguments,
    _variable,
    _attribute,
    _default,
)
