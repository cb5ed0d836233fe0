"""Templates for statements: conditions, steps of a sum, return values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from scrout.fix.repair.edit_site import Edit, EditSite
from scrout.fix.repair.expressions import ARITHMETIC, negated


def _condition(place: EditSite) -> Iterator[Edit]:
    node = place.statement.node
    if isinstance(node, ast.If | ast.While | ast.Assert):
        yield from negated(place, node.test)
    elif isinstance(node, ast.For) and isinstance(node.iter, ast.Name | ast.Attribute | ast.Call):
        yield place.replace("default", node.iter, f"{place.text.of(node.iter)} or ()")
    elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        symbol, others = ARITHMETIC[type(node.op)]
        for other in (*(f"{one}=" for one in others), "="):
            yield from place.between("arithmetic", node.target, node.value, re.escape(symbol + "="), other)


def _returned(place: EditSite) -> Iterator[Edit]:
    node = place.statement.node
    if not isinstance(node, ast.Return) or node.value is None:
        return
    if isinstance(node.value, ast.BoolOp | ast.Call):
        yield from negated(place, node.value, 0.4)


STATEMENT_TEMPLATES: tuple[Callable[[EditSite], Iterator[Edit]], ...] = (_condition, _returned)
