"""One edit, and one statement with the context that templates need."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from scrout.fix.repair.hints import Hints
from scrout.fix.repair.source import Statement, Text, header

ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Dict, ast.Set)
"""Expressions that never need parentheses."""

_Known = TypeVar("_Known")


@dataclass(frozen=True)
class Edit:
    """A span to replace, and the replacement."""

    line: int
    """Line of the span's start, from 1."""
    kind: str
    """A key of PRIORS."""
    prior: float
    start: int
    """First character of the span in the source, from 0."""
    end: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.after + source[self.end :]


NO_HINTS = Hints()


class EditSite:
    """One statement with the templates that apply to it."""

    def __init__(self, text: Text, statement: Statement, priors: Mapping[str, float], hints: Hints = NO_HINTS) -> None:
        self.text = text
        self.statement = statement
        self.priors = priors
        self.hints = hints
        self.nodes = list(_expressions(statement.node))
        self.called = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        self.tests = {id(node) for node in _tests(statement.node, self.nodes)}
        """Expressions that are only tested for truth."""
        self.handed_on = {id(node) for node in _handed_on(statement.node, self.nodes)} - self.tests
        """Expressions whose value is assigned, returned, passed or iterated over."""
        self.loaded = {
            id(node) for node in self.nodes if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        }
        """Expressions that are read."""
        self._names: list[str] | None = None

    def around(self, what: Callable[[EditSite], _Known]) -> _Known:
        """A property of the surrounding code, computed once per function."""
        key = (what, id(self.statement.function))
        if key not in self.text.known:
            self.text.known[key] = what(self)
        found: _Known = self.text.known[key]
        return found

    def in_file(self, what: Callable[[EditSite], _Known]) -> _Known:
        """A property of the file, computed once."""
        if what not in self.text.known:
            self.text.known[what] = what(self)
        found: _Known = self.text.known[what]
        return found

    def starts_line(self) -> bool:
        """Whether the statement is the first on its line, so that another fits before it."""
        return self.text.starts_line(self.statement.node)

    def is_last(self) -> bool:
        """Whether the statement is the last of its block."""
        return self.statement.block[-1] is self.statement.node

    def indents(self) -> tuple[str, str]:
        """Indentation of the statement, and of a block inside it."""
        start = self.text.span(self.statement.node)[0]
        indent = self.text.source[self.text.starts[self.statement.node.lineno - 1] : start]
        return indent, indent + ("\t" if indent.endswith("\t") else "    ")

    def before(self, kind: str, other: str, weight: float = 1.0) -> Edit:
        """Insert a statement before this one."""
        start, (indent, inside) = self.text.span(self.statement.node)[0], self.indents()
        lines = other.replace("\n    ", "\n" + inside[len(indent) :]).splitlines()
        return self.edit(kind, start, start, "".join(f"{line}{self.text.newline}{indent}" for line in lines), weight)

    def behind(self, kind: str, other: str, weight: float = 1.0) -> Edit:
        """Insert a statement after this one."""
        end, (indent, _) = self.text.span(self.statement.node)[1], self.indents()
        # Keep the rest of the line there.
        last = self.text.starts[self.text.line_at(end) - 1] + len(self.text.lines[self.text.line_at(end) - 1])
        end = last - len(self.text.source[end:last]) + len(self.text.source[end:last].rstrip("\r\n"))
        lines = other.splitlines()
        return self.edit(kind, end, end, "".join(f"{self.text.newline}{indent}{line}" for line in lines), weight)

    def enclosed(self, node: ast.expr) -> bool:
        """Whether the expression is in brackets, so that it may span several lines."""
        start, end = self.text.span(node)
        return self.text.source[:start].rstrip().endswith("(") and self.text.source[end:].lstrip().startswith(")")

    def edit(self, kind: str, start: int, end: int, after: str, weight: float = 1.0) -> Edit:
        before = self.text.source[start:end]
        return Edit(self.text.line_at(start), kind, self.priors[kind] * weight, start, end, before, after)

    def replace(self, kind: str, node: ast.expr | ast.stmt, after: str, weight: float = 1.0) -> Edit:
        return self.edit(kind, *self.text.span(node), after, weight)

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, pattern: str, after: str, weight: float = 1.0
    ) -> Iterator[Edit]:
        """Replace the operator between two operands, which may be next to parentheses and comments."""
        start, end = self.text.span(left)[1], self.text.span(right)[0]
        for found in re.finditer(rf"#[^\r\n]*|(?P<operator>{pattern})", self.text.source[start:end]):
            if found["operator"]:
                yield self.edit(kind, start + found.start(), start + found.end(), after, weight)
                return

    def outer(self, node: ast.expr, parent: ast.expr) -> tuple[int, int]:
        """An operand's span including the parentheses around it, which the parser leaves out."""
        start, end = self.text.span(node)
        first, last = self.text.span(parent)
        source = self.text.source
        while True:
            before, after = source[first:start].rstrip(), source[end:last].lstrip()
            if not (before.endswith("(") and after.startswith(")")):
                return start, end
            start, end = first + len(before) - 1, last - len(after) + 1

    def names(self) -> list[str]:
        """Local names that have a value when the statement runs, parameters first."""
        if self._names is None:
            self._names = self._find_names()
        return self._names

    def _find_names(self) -> list[str]:
        known = [name for name, line in self.around(_given) if line < self.statement.first_line]
        return [name for name in dict.fromkeys(known) if name not in ("self", "cls", "_")]


def _given(place: EditSite) -> list[tuple[str, int]]:
    """Names of the function that get a value, and in which line; parameters first."""
    function = place.statement.function
    if function is None:
        return []
    arguments = function.args
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more)
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [*((one.arg, 0) for one in parameters), *((node.id, node.lineno) for node in names)]


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    todo = list(header(statement))[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr):
            yield node
        todo += list(header(node))[::-1]


def _tests(statement: ast.stmt, nodes: list[ast.expr]) -> Iterator[ast.expr]:
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        yield statement.test
    for node in nodes:
        if isinstance(node, ast.IfExp):
            yield node.test
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for generator in node.generators:
                yield from generator.ifs
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("any", "all"):
            yield from (one.elt for one in node.args if isinstance(one, ast.GeneratorExp | ast.ListComp))
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Return | ast.Assign) and isinstance(value, ast.Compare):
        yield value


def _handed_on(statement: ast.stmt, nodes: list[ast.expr]) -> Iterator[ast.expr]:
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.AnnAssign) and statement.value is not None:
        yield statement.value
    elif isinstance(statement, ast.For):
        yield statement.iter
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from (one for one in node.args if not isinstance(one, ast.Starred))
            yield from (keyword.value for keyword in node.keywords)
        elif isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.Yield) and node.value is not None:
            yield node.value
        elif isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            yield node.elt
            yield from (generator.iter for generator in node.generators)
