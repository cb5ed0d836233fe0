"""The functions that a patch changes, told from each file's syntax before and after."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from scrout.check.patch import FileChange
from scrout.check.weakened_tests import is_test
from scrout.sandbox.suite import belongs_to_tests, python_files
from scrout.sandbox.workspace import Base
from scrout.syntax import parse_python

MAX_FUNCTIONS = 40
"""A patch that changes more is not examined function by function."""
MAX_NUMBERS = 3
MAX_NUMBER = 10_000

Function = ast.FunctionDef | ast.AsyncFunctionDef
_NO_VALUE = ast.Constant(None)
_BLOCKS = ("body", "handlers", "cases")
_HOLDERS = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.ExceptHandler)


@dataclass(frozen=True)
class Span:
    """Where a function stands in one version of its file."""

    first: int
    """With its decorators."""
    last: int
    node: Function


@dataclass(frozen=True)
class ChangedFunction:
    """A function or method whose code the patch changes, or that uses a name whose value the patch changes."""

    path: str
    """Of the file after the patch."""
    old_path: str | None
    name: str
    """Qualified: `Cart.total`."""
    before: Span | None
    """None: the patch adds it."""
    after: Span | None
    """None: the patch removes it."""
    lines: frozenset[int]
    """Changed lines of its body, after the patch; empty: only lines went, or what it uses has changed."""
    old_lines: frozenset[int] = frozenset()
    """The same before the patch; empty: lines were only added."""

    @property
    def label(self) -> str:
        return f"{self.path}::{self.name}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Those that it has in both versions, or in the only one."""
        names = [_parameters(span.node) for span in (self.before, self.after) if span]
        return tuple(name for name in names[0] if all(name in others for others in names))


@dataclass(frozen=True)
class _Version:
    """One version of a file."""

    tree: ast.Module
    functions: dict[str, Function]


def changed_functions(changes: Sequence[FileChange], base: Base | None = None) -> tuple[ChangedFunction, ...]:
    """Of the code, not of tests; empty where the changes are in no function, or in too many.

    With the base also functions of other files that import a name whose value the patch changes.
    """
    found = [one for change in changes if _is_code(change) for one in _of_file(change)]
    if len(found) > MAX_FUNCTIONS:
        return ()
    importing = _importing(changes, base) if base else ()
    return (*found, *islice(importing, MAX_FUNCTIONS - len(found)))


def words_for_tests(functions: Sequence[ChangedFunction]) -> frozenset[str]:
    """Names by which a test may call the changed functions; of a special method, the name of its class."""
    names = set()
    for function in functions:
        *owners, name = function.name.split(".")
        names.add(owners[-1] if owners and name.startswith("__") else name)
    return frozenset(name for name in names if len(name) > 2)


def numbers_in(functions: Sequence[ChangedFunction]) -> tuple[int, ...]:
    """The first whole numbers in changed lines, without those that every function is tried with."""
    found: dict[int, None] = {}
    for function in functions:
        for span, lines in ((function.after, function.lines), (function.before, function.old_lines)):
            for node in ast.walk(span.node) if span else ():
                if isinstance(node, ast.Constant) and type(node.value) is int and node.lineno in lines:
                    found[node.value] = None
    return tuple(number for number in found if 1 < number < MAX_NUMBER)[:MAX_NUMBERS]


def touched_modules(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """Python files of the code that the patch changes and leaves in place."""
    return tuple(change.new for change in changes if _is_code(change) and change.old and change.new)


def _is_code(change: FileChange) -> bool:
    path = change.path
    return path.endswith(".py") and not change.is_symlink and not (is_test(path) or belongs_to_tests(path))


def _importing(changes: Sequence[FileChange], base: Base) -> Iterator[ChangedFunction]:
    """Functions of files that the patch leaves as they are, which use a changed name of a module that it changes."""
    values = {path: names for path, names in map(_changed_values, changes) if names}
    touched = {path for change in changes for path in (change.old, change.new)}
    for path in python_files(base) if values else ():
        text = (base.read(path) or b"").decode("utf-8", errors="replace") if path not in touched else ""
        named = [name for names in values.values() for name in names if name in text]
        version = _read(text) if named and not (is_test(path) or belongs_to_tests(path)) else None
        if version:
            names = frozenset(_imported(version.tree, values))
            names |= _named_after(version.tree, names)
            users = ((name, one) for name, one in version.functions.items() if _uses(one, names))
            yield from (ChangedFunction(path, path, name, _span(one), _span(one), frozenset()) for name, one in users)


def _changed_values(change: FileChange) -> tuple[str, frozenset[str]]:
    """A module by its last name, and the names in it whose value the patch changes."""
    before, after = _read(change.before), _read(change.after)
    if before is None or after is None or not _is_code(change):
        return "", frozenset()
    path = PurePosixPath(change.path)
    module = path.parent.name if path.stem == "__init__" else path.stem
    return module, frozenset(name for name in _changed_names(before.tree, after.tree) if len(name) > 2)


def _imported(tree: ast.Module, values: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Names under which a module has them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            known = values.get((node.module or "").rpartition(".")[2], ())
            yield from (alias.asname or alias.name for alias in node.names if alias.name in known)


def _of_file(change: FileChange) -> Iterator[ChangedFunction]:
    before, after = _read(change.before), _read(change.after)
    if before is None or after is None:
        return
    names = _changed_names(before.tree, after.tree)
    for name in dict.fromkeys((*after.functions, *before.functions)):
        old, new = before.functions.get(name), after.functions.get(name)
        if old and new and _code(old) == _code(new) and not _uses(new, names):
            continue
        lines = _changed_lines(new, old) if new else frozenset[int]()
        old_lines = _changed_lines(old, new) if old else frozenset[int]()
        spans = (_span(old) if old else None, _span(new) if new else None)
        yield ChangedFunction(change.path, change.old, name, *spans, lines, old_lines)


def functions_in(text: str | None) -> Mapping[str, Function]:
    """Functions and methods of a file by their qualified names; none of what cannot be read."""
    version = _read(text)
    return version.functions if version else {}


def _read(text: str | None) -> _Version | None:
    if text is None:
        return None
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _Version(tree, dict(_functions(tree, "")))


def _functions(scope: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Functions and methods, outermost only: a nested one is a part of the one around it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, _HOLDERS):
            yield from _functions(node, prefix)


def _code(function: Function) -> str:
    """What it does, without its docstring and annotations."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    defaults = [ast.dump(one) for one in (*arguments.defaults, *arguments.kw_defaults) if one is not None]
    star = [one.arg for one in (arguments.vararg, arguments.kwarg) if one]
    decorators = [ast.dump(one) for one in function.decorator_list]
    return repr((type(function).__name__, names, defaults, star, decorators, [ast.dump(node) for node in body]))


def _span(function: Function) -> Span:
    first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    return Span(first, function.end_lineno or function.lineno, function)


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    named = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [*named, *(one.arg for one in (arguments.vararg, arguments.kwarg) if one)]


def _changed_names(before: ast.Module, after: ast.Module) -> frozenset[str]:
    """Names of a module or class whose assigned value differs, or that are made of such a one."""
    old, new = ({place: ast.dump(value) for place, value in _assigned(tree)} for tree in (before, after))
    places = {place for place in old.keys() | new.keys() if old.get(place) != new.get(place)}
    names = frozenset(place.rpartition(".")[2] for place in places)
    return names | _named_after(after, names)


def _named_after(tree: ast.Module, names: frozenset[str]) -> frozenset[str]:
    """Names of a module whose value is made of these, or of one that is."""
    found = names
    values = [
        (place, {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}) for place, value in _assigned(tree)
    ]
    while more := {place for place, parts in values if "." not in place and found & parts} - found:
        found |= more
    return found - names


def _names(node: ast.AST) -> Iterator[str]:
    yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _assigned(scope: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = node.value or _NO_VALUE
            for target in targets:
                yield from ((prefix + name, value) for name in _names(target))
        elif isinstance(node, ast.ClassDef):
            yield from _assigned(node, f"{prefix}{node.name}.")
        elif isinstance(node, _HOLDERS):
            yield from _assigned(node, prefix)


def _uses(function: Function, names: Collection[str]) -> bool:
    for node in ast.walk(function):
        if (isinstance(node, ast.Name) and node.id in names) or (
            isinstance(node, ast.Attribute) and node.attr in names
        ):
            return True
    return False


def _changed_lines(function: Function, other: Function | None) -> frozenset[int]:
    """The lines of each statement that the other version does not have; of one with a body, its head."""
    known = Counter(head(node) for node in statements(other)) if other else Counter[str]()
    lines: set[int] = set()
    for node in statements(function):
        text = head(node)
        if known[text] > 0:
            known[text] -= 1
            continue
        inner = [part.lineno for name in _BLOCKS for part in getattr(node, name, ()) if hasattr(part, "lineno")]
        last = min(inner) - 1 if inner else node.end_lineno or node.lineno
        lines.update(range(node.lineno, max(last, node.lineno) + 1))
    return frozenset(lines)


Statement = ast.stmt | ast.ExceptHandler


def statements(function: Function) -> Iterator[Statement]:
    """All in a function, those in blocks too."""
    for node in ast.walk(function):
        if isinstance(node, ast.stmt | ast.ExceptHandler) and node is not function and not _is_text(node):
            yield node


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def head(node: Statement) -> str:
    """A statement without the statements in it."""
    parts = [(name, value) for name, value in ast.iter_fields(node) if name not in (*_BLOCKS, "orelse", "finalbody")]
    told = [
        (name, [ast.dump(one) if isinstance(one, ast.AST) else one for one in _listed(value)]) for name, value in parts
    ]
    return f"{type(node).__name__} {told!r}"


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def unchanged_spans(changes: Sequence[FileChange]) -> dict[str, list[tuple[Span, Span]]]:
    """By path: functions that the patch leaves as they are, where they stood and where they stand."""
    found: dict[str, list[tuple[Span, Span]]] = {}
    for change in changes:
        before, after = _read(change.before), _read(change.after)
        if before is None or after is None or not change.path.endswith(".py"):
            continue
        for name, new in after.functions.items():
            old = before.functions.get(name)
            if old and _code(old) == _code(new):
                found.setdefault(change.path, []).append((_span(old), _span(new)))
    return found
