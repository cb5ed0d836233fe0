"""A Python source as text and as statements, and the conversion of parser positions to characters."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from scrout.syntax import parse_python

Function = ast.FunctionDef | ast.AsyncFunctionDef
_PLAIN = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Pass, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Statement:
    """A statement without the statements inside it: of an `if` or a `def`, only the header."""

    node: ast.stmt
    first_line: int
    last_line: int
    function: Function | None
    """The function around it; None: module or class level."""
    owner: ast.ClassDef | None
    top: ast.stmt
    """The statement at module level that contains it, or itself."""
    block: Sequence[ast.stmt]
    """The statements of its block, including itself."""
    outermost: Function | None
    """The outermost function around it."""

    @property
    def alone(self) -> bool:
        """Whether it is the only statement of its block."""
        return len(self.block) == 1


def statements(source: str) -> tuple[Statement, ...]:
    """The statements that can be edited, in order; none if it is not Python."""
    return parse(source).statements


@dataclass(frozen=True)
class Text:
    """Source with its statements, and the conversion of parser positions (lines, UTF-8 columns) to characters."""

    source: str
    lines: Sequence[str]
    starts: Sequence[int]
    statements: tuple[Statement, ...] = ()
    newline: str = "\n"
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    known: dict[object, Any] = field(default_factory=dict, compare=False)
    """Cache of templates' findings."""

    def offset(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        characters = column if text.isascii() else len(text.encode()[:column].decode())
        return self.starts[line - 1] + characters

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def starts_line(self, node: ast.stmt) -> bool:
        """Whether a statement is the first on its line; an `elif` counts as something before it."""
        start = self.span(node)[0]
        return not self.source[self.starts[node.lineno - 1] : start].strip() and not self.source.startswith(
            "elif", start
        )

    def indented(self, node: ast.stmt) -> str:
        """The statement with the spaces before its first line."""
        return self.source[self.starts[node.lineno - 1] : self.span(node)[1]]

    def whole(self, node: ast.stmt) -> tuple[int, int]:
        """The span with decorators."""
        start, end = self.span(node)
        decorators = getattr(node, "decorator_list", ())
        return min([start, *(self.starts[one.lineno - 1] for one in decorators)]), end

    def line_at(self, offset: int) -> int:
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle)
        return low + 1

    def compiles(self, start: int, end: int, after: str, statement: Statement) -> bool:
        """Whether the source compiles with that span replaced.

        Compiling the surrounding function is enough, and faster.
        """
        owner, first, last = self.unit(statement)
        if not first <= start <= end <= last:
            return _compiles(self.source[:start] + after + self.source[end:])
        return _compiles(owner + self.source[first:start] + after + self.source[end:last])

    def unit(self, statement: Statement) -> tuple[str, int, int]:
        """The smallest part that can be compiled alone: a class line to prepend or nothing, and a span of whole
        lines.
        """
        outermost, top = statement.outermost, statement.top
        if outermost is not None and isinstance(top, ast.ClassDef) and outermost in top.body:
            first, last = self.whole(outermost)
            return f"class {top.name}:\n", self.starts[self.line_at(first) - 1], last
        first, last = self.whole(top)
        return "", self.starts[self.line_at(first) - 1], last


@lru_cache(maxsize=16)
def parse(source: str) -> Text:
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line)
    tree = _tree(source)
    if tree is None:
        return Text(source, lines, starts)
    newline = re.search(r"\r\n|\n|\r", source)
    return Text(source, lines, starts, _statements(tree), newline.group() if newline else "\n", tree)


def _tree(source: str) -> ast.Module | None:
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<edit>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


@dataclass(frozen=True)
class _Around:
    """The context of a block."""

    function: Function | None = None
    owner: ast.ClassDef | None = None
    top: ast.stmt | None = None
    outermost: Function | None = None

    def inside(self, node: ast.AST, top: ast.stmt) -> _Around:
        if isinstance(node, Function):
            return _Around(node, self.owner, top, self.outermost or node)
        if isinstance(node, ast.ClassDef):
            return _Around(None, node, top, self.outermost)
        return replace(self, top=top)


def _statements(tree: ast.Module) -> tuple[Statement, ...]:
    """In source order."""
    todo: list[tuple[ast.AST, _Around]] = [(tree, _Around())]
    found: list[Statement] = []
    while todo:
        parent, around = todo.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(parent, name, None)
            if not isinstance(block, list):
                continue
            for node in block:
                top = around.top or node
                if isinstance(node, ast.stmt) and _editable(node):
                    first, last = _own_lines(node)
                    around_it = (around.function, around.owner, top, block, around.outermost)
                    found.append(Statement(node, first, last, *around_it))
                todo.append((node, around.inside(node, top)))
    return tuple(sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset)))


def _editable(node: ast.stmt) -> bool:
    """Imports, docstrings, class headers and `def` headers without defaults cannot be edited."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, Function):
        return bool(node.args.defaults or node.args.kw_defaults)
    return not isinstance(node, _PLAIN)


def _own_lines(node: ast.stmt) -> tuple[int, int]:
    ends = [getattr(inner, "end_lineno", 0) for child in header(node) for inner in ast.walk(child)]
    if not hasattr(node, "body"):
        ends.append(node.end_lineno or node.lineno)
    return node.lineno, max([node.lineno, *ends])


def header(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that can be edited.

    No statements inside it, no annotations, and no f-strings, whose parts have wrong positions before Python 3.12.
    """
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(
                child, ast.stmt | ast.excepthandler | ast.match_case | ast.JoinedStr
            ):
                yield child
