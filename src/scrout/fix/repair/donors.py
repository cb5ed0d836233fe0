"""Templates that add statements: a copy from elsewhere in the file, or an initial value. None of them leaves early."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scrout.fix.repair.edit_site import Edit, EditSite
from scrout.fix.repair.source import Function

MOST_DONORS = 24
"""Maximum number of statements of the same file to try in one place."""
LONGEST_DONOR = 4
"""Maximum length in lines."""
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_EMPTY = ("None", "0", "[]", "{}", '""', "False", "True", "set()")
_BUILTINS = frozenset(dir(builtins))


def _reused(place: EditSite) -> Iterator[Edit]:
    """Insert a statement of the same function, class or file before this one, or after the last one of its block."""
    if place.statement.function is None or not place.starts_line():
        return
    for rank, (donor, weight) in enumerate(_donors(place)):
        weight *= 1 - 0.02 * rank
        yield place.before("reused", donor, weight)
        if place.is_last() and not isinstance(place.statement.node, _LEAVES):
            yield place.behind("reused", donor, 0.9 * weight)


@dataclass(frozen=True)
class _Donor:
    node: ast.stmt
    home: Function
    text: str
    reads: frozenset[str]
    """Names that must have a value."""


def _donors(place: EditSite) -> list[tuple[str, float]]:
    """Likeliest first. All their names must be defined here."""
    assert place.statement.function is not None
    known = set(place.names()) | place.in_file(_module_names) | _BUILTINS | {"self", "cls"}
    at = place.statement.block.index(place.statement.node)
    near = place.statement.block[max(0, at - 1) : at + 1]
    neighbours = {textwrap.dedent(place.text.indented(one)) for one in near}
    found: dict[str, float] = {}
    for donor in place.in_file(_all_donors):
        if donor.text in neighbours or not donor.reads <= known:
            continue
        if donor.home is place.statement.function:
            weight = 0.6 + 0.4 / (1 + abs(donor.node.lineno - place.statement.first_line) / 40)
        else:
            weight = 0.3
        found[donor.text] = max(found.get(donor.text, 0.0), weight)
    return sorted(found.items(), key=lambda one: -one[1])[:MOST_DONORS]


def _all_donors(place: EditSite) -> list[_Donor]:
    found: list[_Donor] = []
    for function in [node for node in ast.walk(place.text.tree) if isinstance(node, Function)]:
        for node in _inside(function):
            if isinstance(node, _SIMPLE) and _is_donor(node) and place.text.starts_line(node):
                names = (one for one in ast.walk(node) if isinstance(one, ast.Name))
                reads = frozenset(one.id for one in names if isinstance(one.ctx, ast.Load))
                found.append(_Donor(node, function, textwrap.dedent(place.text.indented(node)), reads))
    return found


def _is_donor(node: ast.stmt) -> bool:
    if (node.end_lineno or node.lineno) - node.lineno >= LONGEST_DONOR:
        return False
    return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _inside(function: Function) -> Iterator[ast.stmt]:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, Function | ast.ClassDef | ast.expr):
            todo += ast.iter_child_nodes(node)


def _module_names(place: EditSite) -> set[str]:
    names: set[str] = set()
    for node in place.text.tree.body:
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        else:
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return names


def _first_value(place: EditSite) -> Iterator[Edit]:
    """Insert an initial value for a name without one, before the function's first statements."""
    function = place.statement.function
    if function is None or not place.starts_line():
        return
    name, attribute = place.hints.unbound, place.hints.attribute
    if name and any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(function)):
        for rank, value in enumerate(_values(place, name)):
            yield place.before("first value", f"{name} = {value}", 1 - 0.05 * rank)
    elif attribute and function.name == "__init__" and place.is_last():
        for rank, value in enumerate(_values(place, f"self.{attribute}", attribute)):
            yield place.behind("first value", f"self.{attribute} = {value}", 1 - 0.05 * rank)


def _values(place: EditSite, target: str, own_name: str = "") -> list[str]:
    """Other values of the same target, a parameter of that name, and the usual empty values."""
    given: dict[str, None] = {}
    if own_name and own_name in place.names():
        given[own_name] = None
    known = set(place.names()) | place.in_file(_module_names) | _BUILTINS | {"self"}
    for node in ast.walk(place.text.tree):
        if isinstance(node, ast.Assign) and any(place.text.of(one) == target for one in node.targets):
            reads = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
            if reads <= known and target not in reads:
                given[place.text.of(node.value)] = None
    names = [name for name in place.names() if name not in given and name != target][:3]
    return [*list(given)[:6], *(value for value in _EMPTY if value not in given), *names]


def _exception_type(place: EditSite) -> Iterator[Edit]:
    """Raise another exception type."""
    node = place.statement.node
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(raised, ast.Name):
            others = [*place.hints.exceptions, *place.in_file(_exceptions)]
            for rank, other in enumerate(list(dict.fromkeys(one for one in others if one != raised.id))[:6]):
                yield place.replace("exception type", raised, other, 1 - 0.12 * rank)


def _exceptions(place: EditSite) -> list[str]:
    names = [one.id for one in ast.walk(place.text.tree) if isinstance(one, ast.Name)]
    usual = ("ValueError", "TypeError", "KeyError", "IndexError", "AttributeError")
    return list(dict.fromkeys([*(name for name in names if name.endswith(("Error", "Exception"))), *usual]))


DONOR_TEMPLATES: tuple[Callable[[EditSite], Iterator[Edit]], ...] = (
    _reused,
    _first_value,
    _exception_type,
)
