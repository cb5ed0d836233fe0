"""Small edits by template: what one statement might have been meant to say.

An edit replaces one exact span of the source; every other character stays as it was, comments and line endings
included. Nothing is run here. The templates know the syntax and nothing of types, so most edits are wrong by design: it
takes a reproduction and the project's tests to tell.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

PRIORS: dict[str, float] = {
    "boundary": 1.0,
    "sibling": 0.8,
    "boolean": 0.75,
    "comparison": 0.7,
    "off by one": 0.65,
    "constant": 0.6,
    "arithmetic": 0.6,
    "negation": 0.55,
    "arguments": 0.5,
    "operands": 0.5,
    "variable": 0.5,
    "attribute": 0.45,
    "guard": 0.4,
    "condition": 0.35,
    "default": 0.35,
    "returned": 0.25,
    "deleted": 0.2,
}
"""How likely a fix of each kind is, relative to the others; a guess until outcomes can be counted."""

MAX_PER_STATEMENT = 60
"""A table of a thousand numbers is one statement too."""
SIMILAR_NAMES = 3
"""How many other names are tried in the place of one."""

_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">", ">=", "!=")),
    ast.LtE: ("<=", ("<", ">=", ">", "==")),
    ast.Gt: (">", (">=", "<", "<=", "!=")),
    ast.GtE: (">=", (">", "<=", "<", "==")),
    ast.Eq: ("==", ("!=", ">=", "<=")),
    ast.NotEq: ("!=", ("==", "<", ">")),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
    ast.Is: (r"\bis\b", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
}
_BOUNDARIES = {("<", "<="), ("<=", "<"), (">", ">="), (">=", ">")}
_ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
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

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_PLAIN = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Pass, ast.Global, ast.Nonlocal, ast.Try)
_DELETABLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Return, ast.Assert)
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Dict, ast.Set)


@dataclass(frozen=True)
class Edit:
    """One span to replace, and what with."""

    line: int
    """Where the span starts, counted from 1."""
    kind: str
    """A key of PRIORS."""
    prior: float
    start: int
    """First character of the span in the source, counted from 0."""
    end: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.after + source[self.end :]


@dataclass(frozen=True)
class Statement:
    """A statement without the statements inside it: of an `if` or a `def`, the header alone."""

    node: ast.stmt
    first_line: int
    last_line: int
    function: _Function | None
    """The function around it; None: module or class level."""
    owner: ast.ClassDef | None
    top: ast.stmt
    """The statement at module level that holds it, or itself."""
    alone: bool
    """True: the only one of its block."""
    in_loop: bool


def statements(source: str) -> tuple[Statement, ...]:
    """The statements in which an edit can be made, in order; none for what is not Python."""
    return _parse(source).statements


def edits(source: str, lines: Collection[int], priors: Mapping[str, float] = PRIORS) -> Iterator[Edit]:
    """Edits of the statements on these lines, likeliest first. Each of them compiles; no two give the same source."""
    text = _parse(source)
    wanted = set(lines)
    drafts: list[tuple[Edit, ast.stmt]] = []
    for statement in text.statements:
        if not wanted.isdisjoint(range(statement.first_line, statement.last_line + 1)):
            place = _Place(text, statement, priors)
            ranked = sorted(place.drafts(), key=lambda edit: -edit.prior)
            drafts += [(edit, statement.top) for edit in ranked[:MAX_PER_STATEMENT]]
    seen = {hash(source)}
    for edit, top in sorted(drafts, key=lambda pair: (-pair[0].prior, pair[0].start)):
        result = hash(edit.apply(source))
        if result not in seen and text.compiles(edit, top):
            seen.add(result)
            yield edit


@dataclass(frozen=True)
class _Text:
    """Source with its statements, and the way from the parser's positions (lines, UTF-8 columns) to characters."""

    source: str
    lines: Sequence[str]
    starts: Sequence[int]
    statements: tuple[Statement, ...] = ()
    newline: str = "\n"

    def offset(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        characters = column if text.isascii() else len(text.encode()[:column].decode())
        return self.starts[line - 1] + characters

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def line_at(self, offset: int) -> int:
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle)
        return low + 1

    def compiles(self, edit: Edit, top: ast.stmt) -> bool:
        """Whether the edited source does. Its module-level statement is enough to tell, and much faster."""
        start, end = self.span(top)
        if start <= edit.start and edit.end <= end:
            return _compiles(self.source[start : edit.start] + edit.after + self.source[edit.end : end])
        return _compiles(edit.apply(self.source))


@lru_cache(maxsize=16)
def _parse(source: str) -> _Text:
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line)
    tree = _tree(source)
    if tree is None:
        return _Text(source, lines, starts)
    newline = re.search(r"\r\n|\n|\r", source)
    return _Text(source, lines, starts, _statements(tree), newline.group() if newline else "\n")


def _tree(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
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


def _statements(tree: ast.Module) -> tuple[Statement, ...]:
    """In source order."""
    todo: list[tuple[ast.AST, _Function | None, ast.ClassDef | None, ast.stmt | None, bool]]
    todo = [(tree, None, None, None, False)]
    found: list[Statement] = []
    while todo:
        parent, function, owner, top, in_loop = todo.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(parent, name, None)
            if not isinstance(block, list):
                continue
            for node in block:
                above = top or node
                if isinstance(node, ast.stmt) and _editable(node):
                    first, last = _own_lines(node)
                    alone = len(block) == 1
                    found.append(Statement(node, first, last, function, owner, above, alone, in_loop))
                if isinstance(node, _Function):
                    todo.append((node, node, owner, above, False))
                elif isinstance(node, ast.ClassDef):
                    todo.append((node, None, node, above, False))
                else:
                    todo.append((node, function, owner, above, in_loop or isinstance(node, _LOOPS)))
    return tuple(sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset)))


def _editable(node: ast.stmt) -> bool:
    """Imports, docstrings, class headers and `def` headers without defaults have nothing to edit."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, _Function):
        return bool(node.args.defaults or node.args.kw_defaults)
    return not isinstance(node, _PLAIN)


def _own_lines(node: ast.stmt) -> tuple[int, int]:
    ends = [getattr(inner, "end_lineno", 0) for child in _header(node) for inner in ast.walk(child)]
    if not hasattr(node, "body"):
        ends.append(node.end_lineno or node.lineno)
    return node.lineno, max([node.lineno, *ends])


def _header(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which to edit: no statements inside it, no annotations, and no f-strings, whose insides
    have wrong positions before Python 3.12."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(
                child, ast.stmt | ast.excepthandler | ast.match_case | ast.JoinedStr
            ):
                yield child


class _Place:
    """One statement with the templates that apply to it."""

    def __init__(self, text: _Text, statement: Statement, priors: Mapping[str, float]) -> None:
        self.text = text
        self.statement = statement
        self.priors = priors
        self.nodes = list(_expressions(statement.node))
        self.called = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}

    def drafts(self) -> Iterator[Edit]:
        for node in self.nodes:
            for template in _EXPRESSION_TEMPLATES:
                yield from template(self, node)
        for statement_template in _STATEMENT_TEMPLATES:
            yield from statement_template(self)

    def edit(self, kind: str, start: int, end: int, after: str, weight: float = 1.0) -> Edit:
        before = self.text.source[start:end]
        return Edit(self.text.line_at(start), kind, self.priors[kind] * weight, start, end, before, after)

    def replace(self, kind: str, node: ast.expr | ast.stmt, after: str, weight: float = 1.0) -> Edit:
        return self.edit(kind, *self.text.span(node), after, weight)

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, pattern: str, after: str, weight: float = 1.0
    ) -> Iterator[Edit]:
        """Replace the operator between two operands, where parentheses and comments may stand too."""
        start, end = self.text.span(left)[1], self.text.span(right)[0]
        for found in re.finditer(rf"#[^\r\n]*|(?P<operator>{pattern})", self.text.source[start:end]):
            if found["operator"]:
                yield self.edit(kind, start + found.start(), start + found.end(), after, weight)
                return

    def outer(self, node: ast.expr, parent: ast.expr) -> tuple[int, int]:
        """An operand's span with the parentheses around it, which the parser does not count."""
        start, end = self.text.span(node)
        first, last = self.text.span(parent)
        source = self.text.source
        while True:
            before, after = source[first:start].rstrip(), source[end:last].lstrip()
            if not (before.endswith("(") and after.startswith(")")):
                return start, end
            start, end = first + len(before) - 1, last - len(after) + 1

    def names(self) -> list[str]:
        """Local names that have a value by the time the statement runs, parameters first."""
        function = self.statement.function
        if function is None:
            return []
        arguments = function.args
        known = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        known += [
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and node.lineno < self.statement.first_line
        ]
        return [name for name in dict.fromkeys(known) if name not in ("self", "cls", "_")]

    def returns(self) -> list[str]:
        """What a guard may return: what the function itself returns elsewhere in simple cases, then None."""
        function = self.statement.function
        assert function is not None
        values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        if all(value is None for value in values):
            return [""]
        simple = [self.text.of(value) for value in values if value is not None and _is_simple(value)]
        return list(dict.fromkeys([*simple, "None"]))[:4]


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    todo = list(_header(statement))[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr):
            yield node
        todo += list(_header(node))[::-1]


def _is_simple(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return not value.elts
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Dict) and not value.keys)


def _comparison(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for (left, right), operator in zip(pairwise(operands), node.ops, strict=True):
        pattern, others = _COMPARISONS[type(operator)]
        for rank, other in enumerate(others):
            kind = "boundary" if (pattern, other) in _BOUNDARIES else "comparison"
            yield from place.between(kind, left, right, pattern, other, 1 - 0.2 * rank)


def _boolean(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    spans = [place.outer(value, node) for value in node.values]
    for left, right in pairwise(node.values):
        yield from place.between("boolean", left, right, rf"\b{word}\b", other)
    for (start, end), (next_start, next_end) in pairwise(spans):
        yield place.edit("condition", end, next_end, "")
        yield place.edit("condition", start, next_start, "")


def _arithmetic(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.BinOp) or type(node.op) not in _ARITHMETIC:
        return
    if any(isinstance(side, ast.Constant) and isinstance(side.value, str | bytes) for side in (node.left, node.right)):
        return
    symbol, others = _ARITHMETIC[type(node.op)]
    for rank, other in enumerate(others):
        yield from place.between("arithmetic", node.left, node.right, re.escape(symbol), other, 1 - 0.2 * rank)
    if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod):
        first, second = place.outer(node.left, node), place.outer(node.right, node)
        yield place.edit("operands", first[0], second[1], _swapped(place, node.left, first, second))
    if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant) and node.right.value == 1:
        end = place.outer(node.left, node)[1]
        yield place.edit("off by one", end, place.text.span(node)[1], "")


def _swapped(place: _Place, left: ast.expr, first: tuple[int, int], second: tuple[int, int]) -> str:
    source = place.text.source
    moved = source[slice(*first)]
    if not isinstance(left, _ATOMS) and not moved.startswith("("):
        moved = f"({moved})"
    return source[slice(*second)] + source[first[1] : second[0]] + moved


def _constant(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield place.replace("constant", node, str(not node.value))
    elif isinstance(node.value, int) and place.text.of(node) == str(node.value):
        for rank, other in enumerate(dict.fromkeys((node.value + 1, node.value - 1, 0, 1))):
            if other != node.value:
                yield place.replace("constant", node, str(other), 1 - 0.15 * rank)


def _off_by_one(place: _Place, node: ast.expr) -> Iterator[Edit]:
    """One more or less where a position or a count is meant."""
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
            continue  # its constant has edits of its own
        if isinstance(position, ast.Name | ast.Attribute | ast.Call | ast.BinOp | ast.Subscript):
            for change in ("+ 1", "- 1"):
                yield place.replace("off by one", position, f"{place.text.of(position)} {change}", weight)


def _negation(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start, end = place.text.span(node)
        yield place.edit("negation", start, end, place.text.source[start + len("not") : end].lstrip())
    elif isinstance(node, ast.IfExp):
        yield from _negated(place, node.test)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for generator in node.generators:
            for test in generator.ifs:
                yield from _negated(place, test)


def _negated(place: _Place, test: ast.expr, weight: float = 1.0) -> Iterator[Edit]:
    """Comparisons and `not` have edits of their own."""
    if isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        return
    said = place.text.of(test)
    yield place.replace("negation", test, f"not {said}" if isinstance(test, _ATOMS) else f"not ({said})", weight)


def _sibling(place: _Place, node: ast.expr) -> Iterator[Edit]:
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
        for other in _SIBLINGS.get(name, ()):
            yield place.edit("sibling", start, end, other)


def _arguments(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    for left, right in pairwise(node.args):
        if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
            first, second = place.text.span(left), place.text.span(right)
            source = place.text.source
            after = source[slice(*second)] + source[first[1] : second[0]] + source[slice(*first)]
            yield place.edit("arguments", first[0], second[1], after)


def _variable(place: _Place, node: ast.expr) -> Iterator[Edit]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in place.called:
        known = place.names()
        if node.id in known:
            for other, likeness in _most_similar(node.id, known):
                yield place.replace("variable", node, other, 0.5 + 0.5 * likeness)


def _attribute(place: _Place, node: ast.expr) -> Iterator[Edit]:
    """Another attribute that the surrounding class or function uses on the same object, in the same way."""
    around = place.statement.owner or place.statement.function
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or around is None:
        return
    called = {id(inner.func) for inner in ast.walk(around) if isinstance(inner, ast.Call)}
    known = [
        inner.attr
        for inner in ast.walk(around)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == node.value.id
        and (id(inner) in called) == (id(node) in called)
    ]
    start, end = place.text.span(node)
    start = end - len(node.attr)
    if place.text.source[start:end] == node.attr:
        for other, likeness in _most_similar(node.attr, known):
            yield place.edit("attribute", start, end, other, 0.5 + 0.5 * likeness)


def _most_similar(name: str, known: Sequence[str]) -> list[tuple[str, float]]:
    others = [other for other in dict.fromkeys(known) if other != name]
    scored = [(other, SequenceMatcher(None, name, other).ratio()) for other in others]
    return sorted(scored, key=lambda pair: -pair[1])[:SIMILAR_NAMES]


def _default(place: _Place, node: ast.expr) -> Iterator[Edit]:
    """Something that may be None where a sequence or a string is needed."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        argument = node.args[0]
        if node.func.id in _OVER_SEQUENCES and isinstance(argument, ast.Name | ast.Attribute | ast.Call):
            yield place.replace("default", argument, f"{place.text.of(argument)} or ()")
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and hasattr(str, node.attr):
        yield place.replace("default", node.value, f'({node.value.id} or "")', 0.8)


def _condition(place: _Place) -> Iterator[Edit]:
    node = place.statement.node
    if isinstance(node, ast.If | ast.While | ast.Assert):
        yield from _negated(place, node.test)
    elif isinstance(node, ast.For) and isinstance(node.iter, ast.Name | ast.Attribute | ast.Call):
        yield place.replace("default", node.iter, f"{place.text.of(node.iter)} or ()")
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        symbol, others = _ARITHMETIC[type(node.op)]
        for other in (*(f"{one}=" for one in others), "="):
            yield from place.between("arithmetic", node.target, node.value, re.escape(symbol + "="), other)


def _returned(place: _Place) -> Iterator[Edit]:
    node = place.statement.node
    if not isinstance(node, ast.Return) or node.value is None:
        return
    if isinstance(node.value, ast.BoolOp | ast.Call):
        yield from _negated(place, node.value, 0.4)
    if not isinstance(node.value, ast.Name):
        for rank, name in enumerate(place.names()[-1 : -1 - SIMILAR_NAMES : -1]):
            yield place.replace("returned", node.value, name, 1 - 0.2 * rank)


def _guard(place: _Place) -> Iterator[Edit]:
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


def _subjects(place: _Place) -> Iterator[tuple[str, str]]:
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


def _deleted(place: _Place) -> Iterator[Edit]:
    statement, text = place.statement, place.text
    if not isinstance(statement.node, _DELETABLE):
        return
    start, end = text.span(statement.node)
    first, last = text.starts[statement.first_line - 1], text.starts[statement.last_line - 1]
    last += len(text.lines[statement.last_line - 1])
    whole_lines = not text.source[first:start].strip() and not text.source[end:last].strip()
    if statement.alone or not whole_lines:
        yield place.edit("deleted", start, end, "pass")
    else:
        yield place.edit("deleted", first, last, "")


_EXPRESSION_TEMPLATES: tuple[Callable[[_Place, ast.expr], Iterator[Edit]], ...] = (
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
_STATEMENT_TEMPLATES: tuple[Callable[[_Place], Iterator[Edit]], ...] = (_condition, _returned, _guard, _deleted)
