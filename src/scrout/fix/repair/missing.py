"""Templates for something missing around a statement: an order, a passed-on argument, a conversion, a twin."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from scrout.fix.repair.edit_site import Edit, EditSite
from scrout.fix.repair.source import Function

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
_PASSED_ON = ("kwargs", "kw", "options", "opts")
"""Usual names of a mapping that functions pass on."""
_CONVERSIONS = ("list({})", "str({})", "tuple({})", "int({})", "dict({})", "{}.strip()", "{}.lower()", "{}.copy()")
MOST_TWINS = 4
MOST_CONVERSIONS = 4


def _order(place: EditSite) -> Iterator[Edit]:
    """Swap a statement with the one before it, if both are about the same thing."""
    statement = place.statement
    block = statement.block
    at = block.index(statement.node)
    if at + 1 == len(block) or not isinstance(statement.node, _SIMPLE) or not isinstance(block[at + 1], _SIMPLE):
        return
    other = block[at + 1]
    if not place.starts_line() or not place.text.starts_line(other) or not _about(statement.node) & _about(other):
        return
    start, end = place.text.span(statement.node)
    next_start, next_end = place.text.span(other)
    between = place.text.source[end:next_start]
    if "#" not in between:
        yield place.edit("order", start, next_end, place.text.of(other) + between + place.text.of(statement.node))


def _about(node: ast.stmt) -> set[str]:
    """The names in a statement; of `self`, its attributes."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {"self", "cls"}
    return found | {f".{one.attr}" for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def _outdented(place: EditSite) -> Iterator[Edit]:
    """Move the last statement of a block out of the block."""
    statement = place.statement
    parent = place.in_file(_parents).get(id(statement.node))
    if not isinstance(parent, ast.If | ast.For | ast.While | ast.With) or parent.body is not statement.block:
        return
    if statement.alone or not place.is_last() or getattr(parent, "orelse", None) or hasattr(statement.node, "body"):
        return
    if not place.starts_line() or not place.text.starts_line(parent) or statement.first_line != statement.last_line:
        return
    start = place.text.span(statement.node)[0]
    first, outer = place.text.starts[statement.first_line - 1], place.text.starts[parent.lineno - 1]
    indent = place.text.source[outer : place.text.span(parent)[0]]
    yield place.edit("order", first, start, indent, 0.7)


def _parents(place: EditSite) -> dict[int, ast.AST]:
    return {
        id(child): node
        for node in ast.walk(place.text.tree)
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.stmt)
    }


def _passed_on(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Pass `*args` and `**kwargs` of the function to a call that lacks them."""
    function = place.statement.function
    if not isinstance(node, ast.Call) or function is None or not isinstance(node.func, ast.Name | ast.Attribute):
        return
    end = place.text.span(node)[1] - 1
    before = place.text.source[:end].rstrip()
    separator = "" if before.endswith("(") else " " if before.endswith(",") else ", "
    if all(keyword.arg is not None for keyword in node.keywords):
        names = dict.fromkeys([function.args.kwarg.arg] if function.args.kwarg else [])
        names |= dict.fromkeys(name for name in place.names() if name in _PASSED_ON)
        for rank, name in enumerate(names):
            yield place.edit("passed on", len(before), len(before), f"{separator}**{name}", 1 - 0.3 * rank)
    if function.args.vararg and not node.keywords and not any(isinstance(one, ast.Starred) for one in node.args):
        yield place.edit("passed on", len(before), len(before), f"{separator}*{function.args.vararg.arg}", 0.8)


def _twin(place: EditSite) -> Iterator[Edit]:
    """Repeat the statement for another attribute that the class sets in the same way."""
    node, owner = place.statement.node, place.statement.owner
    if owner is None or not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) or not place.starts_line():
        return
    own = [one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and _is_own(one)]
    if not own or (not place.is_last() and not isinstance(node, ast.Assign)):
        return
    said, name = place.text.of(node), own[0]
    others = [other for other in place.around(_own_attributes) if other not in own]
    others.sort(key=lambda other: -SequenceMatcher(None, name, other).ratio())
    for rank, other in enumerate(others[:MOST_TWINS]):
        twin = re.sub(rf"\bself\.{re.escape(name)}\b", f"self.{other}", said)
        if f"self.{other}" not in "".join(place.text.of(one) for one in place.statement.block):
            yield place.behind("twin", twin, 1 - 0.1 * rank)


def _is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _own_attributes(place: EditSite) -> list[str]:
    """Attributes that the class assigns."""
    found: Counter[str] = Counter()
    for node in ast.walk(place.statement.owner) if place.statement.owner else ():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node):
            found[node.attr] += 1
    return [name for name, _ in found.most_common()]


def _converted(place: EditSite) -> Iterator[Edit]:
    """Convert a parameter before its first use."""
    function = place.statement.function
    if function is None or _first(function) is not place.statement.node or not place.starts_line():
        return
    used = Counter(one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    names = [one.arg for one in arguments if one.arg not in ("self", "cls") and used[one.arg]]
    for place_of, name in enumerate(names[:4]):
        forms = dict.fromkeys((*place.in_file(_calls_on).get(name, ()), *_CONVERSIONS))
        for rank, form in enumerate(list(forms)[: MOST_CONVERSIONS + len(_CONVERSIONS)]):
            weight = (1 - 0.1 * place_of) * (1 - 0.05 * rank)
            yield place.before("converted", f"{name} = {form.format(name)}", weight)
        for rank, empty in enumerate(("[]", "{}", '""', "()", "0")):
            yield place.before("converted", f"if {name} is None:\n    {name} = {empty}", 0.9 - 0.1 * rank)


def _first(function: Function) -> ast.stmt:
    """The first statement that is not a docstring."""
    body = function.body
    return body[1] if len(body) > 1 and ast.get_docstring(function, clean=False) is not None else body[0]


def _calls_on(place: EditSite) -> dict[str, list[str]]:
    """Calls that the file makes with names, with the name left open."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(place.text.tree):
        if not isinstance(node, ast.Call) or node.keywords:
            continue
        if len(node.args) == 1 and isinstance(node.args[0], ast.Name) and isinstance(node.func, ast.Name):
            found.setdefault(node.args[0].id, {})[f"{node.func.id}({{}})"] = None
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and not node.args:
            found.setdefault(node.func.value.id, {})[f"{{}}.{node.func.attr}()"] = None
    return {name: list(forms)[:MOST_CONVERSIONS] for name, forms in found.items()}


MISSING_EXPRESSIONS: tuple[Callable[[EditSite, ast.expr], Iterator[Edit]], ...] = (_passed_on,)
MISSING_STATEMENTS: tuple[Callable[[EditSite], Iterator[Edit]], ...] = (
    _order,
    _outdented,
    _twin,
    _converted,
)
