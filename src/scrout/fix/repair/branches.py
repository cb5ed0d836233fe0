"""Templates for statements: conditions, early exits, what is returned."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from scrout.fix.repair.expressions import ARITHMETIC, SIMILAR_NAMES, negated
from scrout.fix.repair.place import Edit, Place


def _condition(place: Place) -> Iterator[Edit]:
    node = place.statement.node
    if isinstance(node, ast.If | ast.While | ast.Assert):
        yield from negated(place, node.test)
    elif isinstance(node, ast.For) and isinstance(node.iter, ast.Name | ast.Attribute | ast.Call):
        yield place.replace("default", node.iter, f"{place.text.of(node.iter)} or ()")
    elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        symbol, others = ARITHMETIC[type(node.op)]
        for other in (*(f"{one}=" for one in others), "="):
            yield from place.between("arithmetic", node.target, node.value, re.escape(symbol + "="), other)


def _returned(place: Place) -> Iterator[Edit]:
    node = place.statement.node
    if not isinstance(node, ast.Return) or node.value is None:
        return
    if isinstance(node.value, ast.BoolOp | ast.Call):
        yield from negated(place, node.value, 0.4)
    if not isinstance(node.value, ast.Name):
        for rank, name in enumerate(place.names()[-1 : -1 - SIMILAR_NAMES : -1]):
            yield place.replace("returned", node.value, name, 1 - 0.2 * rank)


def _guard(place: Place) -> Iterator[Edit]:
    """Leave early when something that the statement looks into is None or empty."""
    statement, source = place.statement, place.text.source
    start = place.text.span(statement.node)[0]
    line_start = place.text.starts[statement.node.lineno - 1]
    indent = source[line_start:start]
    if statement.function is None or indent.strip() or source.startswith("elif", start):
        return
    exits = [f"return {value}".rstrip() for value in place.returns()] + ["continue"] * statement.in_loop
    inside, newline = indent + ("\t" if indent.endswith("\t") else "    "), place.text.newline
    for subject, test in dict.fromkeys(_subjects(place)):
        for rank, leave in enumerate(exits):
            after = f"if {test.format(subject)}:{newline}{inside}{leave}{newline}{indent}"
            yield place.edit("guard", start, start, after, 1 - 0.1 * rank)


def _subjects(place: Place) -> Iterator[tuple[str, str]]:
    known = place.names()
    for node in place.nodes:
        looked_into: ast.expr | None = None
        empty_matters = False
        if isinstance(node, ast.Attribute):
            looked_into = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            looked_into, empty_matters = node.value, True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            looked_into, empty_matters = node.args[0], node.func.id in ("len", "min", "max", "sum", "next")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
            looked_into, empty_matters = node.right, True
        elif isinstance(node, ast.BinOp | ast.Compare):
            looked_into = node.left
        if isinstance(looked_into, ast.Name) and looked_into.id in known:
            yield looked_into.id, "{} is None"
            if empty_matters:
                yield looked_into.id, "not {}"


STATEMENT_TEMPLATES: tuple[Callable[[Place], Iterator[Edit]], ...] = (_condition, _returned, _guard)
