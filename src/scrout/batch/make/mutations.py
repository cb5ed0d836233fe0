"""Wrong versions of one function: an operator removes something that a developer had to think of, such as a branch, an
order, a keyword, or the start of a loop.

A mutation may not compile, and may not break anything.
"""

from __future__ import annotations

import ast
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scrout.syntax import parse_python


@dataclass(frozen=True)
class Mutation:
    operator: str
    function: str
    line: int
    start: int
    """In characters from the start of the file."""
    end: int
    new: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.new + source[self.end :]


class _Source:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.stmt | ast.expr | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.stmt | ast.expr) -> str:
        start, end = self.span(node)
        return self.text[start:end]


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign)
Made = Iterator[tuple[int, int, str]]


def mutations(source: str, lines: Collection[int], rng: random.Random) -> list[Mutation]:
    """Every mutation of these lines in random order, the operators taking turns; some do not compile."""
    tree, text = parse_python(source), _Source(source)
    by_operator: dict[str, list[Mutation]] = {name: [] for name in OPERATORS}
    for function in (node for node in ast.walk(tree) if isinstance(node, _Function)):
        nodes = list(_own(function))
        for name, operator in OPERATORS.items():
            for node in nodes:
                line = getattr(node, "lineno", 0)
                if line not in lines:
                    continue
                for start, end, new in operator(text, node, function):
                    mutation = Mutation(name, function.name, line, start, end, new)
                    if new != source[start:end]:
                        by_operator[name].append(mutation)
    for made in by_operator.values():
        rng.shuffle(made)
    turns: list[Mutation] = []
    while any(by_operator.values()):
        names = [name for name, made in by_operator.items() if made]
        rng.shuffle(names)
        turns += [by_operator[name].pop() for name in names]
    return turns


def _own(function: _Function) -> Iterator[ast.AST]:
    """The function's nodes without nested functions, docstrings and annotations."""
    todo: list[ast.AST] = list(function.body)
    if ast.get_docstring(function) is not None:
        todo = todo[1:]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda | ast.JoinedStr):
            todo += ast.iter_child_nodes(node)


def compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<mutation>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def _blocks(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def _without(text: _Source, node: ast.stmt, function: _Function) -> tuple[int, int, str]:
    """Remove a statement with its lines; leaves `pass` if the block would be empty."""
    blocks = [block for one in (function, *ast.walk(function)) for block in _blocks(one) if node in block]
    start, end = text.span(node)
    first = text.text.rfind("\n", 0, start) + 1
    last = text.text.find("\n", end) + 1
    if len(blocks[0]) > 1 and last and not text.text[first:start].strip() and not text.text[end:last].strip():
        return first, last, ""
    return start, end, "pass"


def _lost_branch(text: _Source, node: ast.AST, function: _Function) -> Made:
    """Remove an `if` with its block, or an `else` with its block."""
    if not isinstance(node, ast.If):
        return
    if text.of(node).startswith("elif"):
        return
    if not node.orelse:
        yield _without(text, node, function)
    elif not isinstance(node.orelse[0], ast.If):
        yield text.span(node.body[-1])[1], text.span(node.orelse[-1])[1], ""


def _swapped(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Swap two consecutive statements."""
    for block in _blocks(node):
        for one, other in pairwise(block):
            if isinstance(one, _SIMPLE) and isinstance(other, _SIMPLE):
                first, second = text.span(one), text.span(other)
                between = text.text[first[1] : second[0]]
                if "#" not in between:
                    yield first[0], second[1], text.of(other) + between + text.of(one)


def _lost_start(text: _Source, node: ast.AST, function: _Function) -> Made:
    """Remove a name's initial value before a loop or branch that sets it again."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = ast.unparse(node.targets[0])
        again = sum(
            isinstance(other, ast.Assign | ast.AugAssign)
            and any(ast.unparse(one) == target for one in getattr(other, "targets", [getattr(other, "target", None)]))
            for other in _own(function)
        )
        if again > 1 or isinstance(node.targets[0], ast.Attribute):
            yield _without(text, node, function)


def _part(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Replace an expression by one of its parts."""
    parts: list[ast.expr] = []
    if not isinstance(node, ast.expr):
        return
    if isinstance(node, ast.Call):
        parts = [*node.args[:1]] + ([node.func.value] if isinstance(node.func, ast.Attribute) else [])
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        parts = [node.value]
    for part in parts:
        if not isinstance(part, ast.Starred):
            yield (*text.span(node), f"({text.of(part)})" if isinstance(part, ast.BinOp) else text.of(part))


def _other_kind(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Change a constant's type."""
    if not isinstance(node, ast.Constant):
        return
    others: tuple[str, ...] = ()
    if node.value is None:
        others = ("0", '""')
    elif isinstance(node.value, bool):
        others = ("None",)
    elif isinstance(node.value, int):
        others = ("None", '""')
    elif isinstance(node.value, str):
        others = ("None",)
    for other in others:
        yield (*text.span(node), other)


def _lost_keyword(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Remove a keyword argument."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            start, end = text.span(keyword)
            rest = text.text[end:].lstrip()
            before = text.text[:start].rstrip()
            if before.endswith(","):
                yield len(before) - 1, end, ""
            elif rest.startswith(","):
                yield start, len(text.text) - len(rest) + 1, ""


def _lost_exit(text: _Source, node: ast.AST, function: _Function) -> Made:
    """Remove a return, break or continue inside a branch."""
    if isinstance(node, ast.If | ast.For | ast.While | ast.Try | ast.With):
        for block in _blocks(node):
            if isinstance(block[-1], ast.Break | ast.Continue):
                yield _without(text, block[-1], function)
            elif isinstance(block[-1], ast.Return) and block[-1].value is not None:
                start, end = text.span(block[-1])
                yield start, end, text.of(block[-1].value)


def _lost_element(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Remove the first or last element of a loop's iterable or of a display."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Name | ast.Attribute):
        for part in ("[1:]", "[:-1]"):
            yield (*text.span(node.iter), text.of(node.iter) + part)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 2 and isinstance(node, ast.expr):
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return
        yield text.span(node.elts[-2])[1], text.span(node.elts[-1])[1], ""


def _lost_clause(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Remove one of several conditions."""
    if isinstance(node, ast.BoolOp):
        yield text.span(node.values[-2])[1], text.span(node.values[-1])[1], ""
        yield text.span(node.values[0])[0], text.span(node.values[1])[0], ""


def _wrong_text(text: _Source, node: ast.AST, _: _Function) -> Made:
    """Remove a character from a string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        said = text.of(node)
        if len(said) == len(node.value) + 2:
            yield (*text.span(node), said[:-2] + said[-1])
            if len(node.value) > 1:
                yield (*text.span(node), said[0] + said[2:])


OPERATORS: dict[str, Callable[[_Source, ast.AST, _Function], Made]] = {
    "lost branch": _lost_branch,
    "swapped statements": _swapped,
    "lost start value": _lost_start,
    "part of an expression": _part,
    "constant of another type": _other_kind,
    "lost keyword argument": _lost_keyword,
    "lost exit": _lost_exit,
    "lost element": _lost_element,
    "lost clause": _lost_clause,
    "string with a character missing": _wrong_text,
}
