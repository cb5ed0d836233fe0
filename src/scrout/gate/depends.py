"""Whether a statement of the claim's own Python fails because of what the repository did. Read, never run.

A claim can call the repository and then fail over something else. So the names that hold results of the repository are
followed through assignments, arguments, loops and branches, without regard to order: a name that once held such a
result counts everywhere. That is enough to tell an honest check from `assert False`; it is no proof against an
author who means to deceive, who can compare a result with whatever he likes.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from scrout.syntax import parse_python

MAX_CHARS = 30_000
"""A longer script is not followed: it would take seconds, and no reproduction needs it."""

IsOwn = Callable[[str], bool]
"""Whether a top-level package is the repository's."""

_EXITS = ("sys.exit", "exit", "quit", "os._exit", "SystemExit")
_FAILS = re.compile(r"(^|\.)(fail|skip|skipTest|xfail)$")
_ONE_SUBJECT = re.compile(r"\.assert(True|False|IsNone|IsNotNone)$|\.failUnless$")
_RUNNERS = re.compile(r"^(subprocess|os|runpy|importlib)\.|^(__import__|import_module|run_module|run_path|run|Popen)$")
_PATCHERS = re.compile(r"(^|\.)(patch(\.\w+)?|setattr|delattr|setitem|delitem)$")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.AsyncFor
_With = ast.With | ast.AsyncWith
_LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break


def depends(source: str, line: int, is_own: IsOwn) -> bool:
    """Whether the statement at a line fails, or runs at all, because of a result of the repository."""
    tree = _parse(source)
    flow = _flow(tree, is_own)
    if tree is None or flow is None:
        return False
    paths = _paths_to(tree, line)
    # Where several statements share the line, the one that means to fail is the one that did; each of them, to be sure.
    meant = [path for path in paths if _means_to_fail(path[-1])] or paths[-1:]
    return bool(meant) and all(flow.decides(path) for path in meant)


def raises(source: str, line: int) -> bool:
    """Whether the statement at a line raises on purpose."""
    return any(isinstance(statement, ast.Raise | ast.Assert) for statement in _statements(source, line))


def refuses(source: str, line: int) -> bool:
    """Whether the statement at a line raises an exception of its own making."""
    if _parse(source) is None:  # too long, or for another Python: the line itself must do
        return bool(re.match(r"\s*raise\s+\w", "".join(source.split("\n")[line - 1 : line])))
    return any(isinstance(statement, ast.Raise) and statement.exc for statement in _statements(source, line))


def called(source: str, line: int) -> frozenset[str]:
    """Names of what the statement at a line calls, without what they are attributes of."""
    nodes = (node for statement in _statements(source, line) for node in ast.walk(statement))
    names = (_name(node.func).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call))
    return frozenset(name for name in names if name)


def catches(source: str, line: int, kind: str) -> bool:
    """Whether an exception of a type ends at a line: it is caught there, and nobody raises or exits because of it."""
    tree = _parse(source)
    for path in _paths_to(tree, line) if tree else ():
        for parent, child in pairwise(path):
            if isinstance(parent, ast.Try) and child in parent.body:
                handler = next((handler for handler in parent.handlers if _may_catch(handler.type, kind)), None)
                if handler and not any(
                    isinstance(part, ast.Raise) or (isinstance(part, ast.Call) and _exits(part))
                    for part in ast.walk(handler)
                ):
                    return True
    return False


def _may_catch(caught: ast.expr | None, kind: str) -> bool:
    """False only where it is certain: between built-in types, and for a built-in under a type that somebody defined."""
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_may_catch(part, kind) for part in caught.elts)
    raised, named = (getattr(builtins, name, None) for name in (kind, _name(caught).rpartition(".")[2]))
    if not isinstance(raised, type):
        return True
    return isinstance(named, type) and issubclass(raised, named)


def replaced(source: str, is_own: IsOwn) -> str | None:
    """Something of the repository's that the source puts its own in place of; None: nothing that can be seen."""
    tree = _parse(source)
    if tree is None:
        return None
    imported = set(_imported(tree, is_own))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            targets: Sequence[ast.expr] = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and _PATCHERS.search(_name(node.func)) and node.args:
            subject = node.args[0]
            if isinstance(subject, ast.Constant) and isinstance(subject.value, str):
                if is_own(subject.value.partition(".")[0]):
                    return subject.value
                continue
            targets = [subject]
            if isinstance(subject, ast.Name) and subject.id in imported:
                return ast.unparse(subject)
        else:
            continue
        for target in targets:
            if not isinstance(target, ast.Name) and _root(target) in imported:
                return ast.unparse(target)
    return None


def _statements(source: str, line: int) -> list[ast.AST]:
    tree = _parse(source)
    return [path[-1] for path in _paths_to(tree, line)] if tree else []


def _parse(source: str) -> ast.Module | None:
    if len(source) > MAX_CHARS:
        return None
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _flow(tree: ast.Module | None, is_own: IsOwn) -> _Flow | None:
    try:
        return _Flow(tree, is_own) if tree else None
    except RecursionError:  # nested deeper than anybody writes by hand
        return None


class _Flow:
    """The names that hold something of the repository's."""

    def __init__(self, tree: ast.Module, is_own: IsOwn) -> None:
        self.is_own = is_own
        self.held = set(_imported(tree, is_own))
        self.constant = _constants(tree)
        self.functions = _functions(tree)
        self.yields: set[str] = set()
        """Own functions whose result depends on the repository or on what they are given of it."""
        before = -1
        while before < len(self.held) + len(self.yields):
            before = len(self.held) + len(self.yields)
            self._spread(tree, guarded=False)

    def touches(self, node: ast.AST | None) -> bool:
        """Whether an expression or block uses something of the repository's."""
        open_parts = [node] if node else []
        while open_parts:
            part = open_parts.pop()
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in self.functions:
                # A stub that is given a result and returns a constant has nothing of the repository's any more.
                if part.func.id in self.yields:
                    return True
                continue
            if isinstance(part, ast.Name) and part.id in self.held:
                return True
            if isinstance(part, ast.Attribute) and _name(part) in self.held:
                return True
            if isinstance(part, ast.Call) and _RUNNERS.search(_name(part.func)) and self._names_repository(part):
                return True
            open_parts += ast.iter_child_nodes(part)
        return False

    def decides(self, path: Sequence[ast.AST]) -> bool:
        """Whether a result of the repository decides that the last statement of the path fails."""
        return self._subject(path[-1]) or any(self._guards(parent, child) for parent, child in pairwise(path))

    def _subject(self, node: ast.AST) -> bool:
        """What the statement itself judges. A message is no judgement, and `raise` judges nothing."""
        if isinstance(node, ast.Assert):
            return self.touches(node.test)
        if isinstance(node, ast.Raise):
            return False
        if isinstance(node, _With):
            return self.touches(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            name = _name(call.func)
            if _FAILS.search(name):
                return False
            if name in _EXITS:
                return any(self.touches(argument) for argument in call.args)
            if ".assert" in name:
                count = 1 if _ONE_SUBJECT.search(name) else len(call.args)
                judged = [argument for argument in call.args[:count] if not isinstance(argument, ast.JoinedStr)]
                return any(self.touches(argument) for argument in (judged[:2] if "Raises" not in name else judged))
        return isinstance(node, ast.stmt) and not isinstance(node, _Function | ast.ClassDef) and self.touches(node)

    def _guards(self, parent: ast.AST, child: ast.AST) -> bool:
        """Whether the parent runs the child only for some results, or an earlier statement may have left before it."""
        if isinstance(parent, ast.If | ast.While) and self.touches(parent.test):
            return True
        if isinstance(parent, _Loop) and self.touches(parent.iter):
            return True
        if isinstance(parent, ast.Try) and child not in parent.finalbody:
            return any(self.touches(part) for part in parent.body if part is not child)
        for _, block in ast.iter_fields(parent):
            if isinstance(block, list) and child in block:
                return any(self._may_leave(earlier) for earlier in block[: block.index(child)])
        return False

    def _may_leave(self, node: ast.AST) -> bool:
        if isinstance(node, ast.If):
            decided = self.touches(node.test)
        elif isinstance(node, _Loop):
            decided = self.touches(node)
        else:
            decided = isinstance(node, ast.Try) and any(self.touches(part) for part in node.body)
        return decided and any(
            isinstance(part, _LEAVES) or (isinstance(part, ast.Call) and _name(part.func) in _EXITS)
            for part in ast.walk(node)
        )

    def _spread(self, node: ast.AST, *, guarded: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inside = guarded or (isinstance(child, ast.stmt | ast.excepthandler) and self._guards(node, child))
            self._visit(child, inside)
            self._spread(child, guarded=inside)

    def _visit(self, node: ast.AST, guarded: bool) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if self.touches(node.value.body):
                self.yields.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            if guarded or self.touches(node.value):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._hold(target)
        elif isinstance(node, _Loop | ast.comprehension):
            if self.touches(node.iter):
                self._hold(node.target)
        elif isinstance(node, _With):
            if self.touches(node):
                for item in node.items:
                    if item.optional_vars:
                        self._hold(item.optional_vars)
                    if isinstance(item.context_expr, ast.Call):
                        for argument in item.context_expr.args:  # a stream that output is redirected to
                            self._hold(argument)
        elif isinstance(node, ast.ExceptHandler):
            if guarded and node.name:
                self.held.add(node.name)
        elif isinstance(node, _Function):
            if self._gives_back(node):
                self.yields.add(node.name)
            if any(self.touches(part) for part in node.body):
                self.held.add(node.name)
                if node.name.startswith("test"):
                    # Fixtures: captured output, a folder that the repository writes to.
                    self.held.update(argument.arg for argument in node.args.args if argument.arg not in ("self", "cls"))
        elif isinstance(node, ast.Call):
            self._visit_call(node, guarded)

    def _gives_back(self, function: _Function) -> bool:
        """Whether what a function returns, or that it returns there, depends on something of the repository's."""
        for node in ast.walk(function):
            if isinstance(node, ast.Yield | ast.YieldFrom) and self.touches(node.value):
                return True
            if isinstance(node, ast.Return) and node.value is not None:
                path = next((path for path in _paths_to(function, node.lineno) if path[-1] is node), [])
                if self.touches(node.value) or any(self._guards(*pair) for pair in pairwise(path)):
                    return True
        return False

    def _visit_call(self, call: ast.Call, guarded: bool) -> None:
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        given = any(self.touches(argument) for argument in arguments)
        if (
            isinstance(call.func, ast.Attribute)
            and (given or guarded)
            and not _name(call.func).startswith("self.assert")
        ):
            self._hold(call.func.value)  # results.append(...)
        if isinstance(call.func, ast.Name) and call.func.id in self.functions:
            names = [argument.arg for argument in self.functions[call.func.id].args.args]
            self.held.update(name for name, value in zip(names, call.args, strict=False) if self.touches(value))
            self.held.update(word.arg for word in call.keywords if word.arg and self.touches(word.value))
        elif self.touches(call.func) and _name(call.func).partition(".")[0] != "self":
            for argument in arguments:  # may have been changed by the repository
                self._hold(argument)

    def _hold(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._hold(part)
        elif isinstance(target, ast.Starred | ast.Subscript):
            self._hold(target.value)
        elif isinstance(target, ast.Name) and target.id not in ("self", "cls"):
            if target.id not in self.constant or isinstance(target.ctx, ast.Store):
                self.held.add(target.id)
        elif isinstance(target, ast.Attribute):
            if _root(target) in ("self", "cls"):
                self.held.add(_name(target))
            else:
                self._hold(target.value)

    def _names_repository(self, call: ast.Call) -> bool:
        words = (
            word
            for part in ast.walk(call)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            for word in re.findall(r"\w+", part.value)
        )
        return any(self.is_own(word) for word in words)


def _functions(tree: ast.Module) -> dict[str, _Function | ast.Lambda]:
    """The claim's own functions by name, those of classes left out: a method is called on something."""
    found: dict[str, _Function | ast.Lambda] = {}
    methods = {part for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node not in methods:
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found.update({target.id: node.value for target in node.targets if isinstance(target, ast.Name)})
    return found


def _imported(tree: ast.Module, is_own: IsOwn) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_own(alias.name.partition(".")[0]):
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and (node.level or is_own((node.module or "").partition(".")[0])):
            yield from (alias.asname or alias.name for alias in node.names)


def _constants(tree: ast.Module) -> frozenset[str]:
    """Names that only ever hold numbers, strings and the like: calling something with them cannot change them."""
    fixed: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
                (fixed if isinstance(node.value, ast.Constant) else other).update(names)
    return frozenset(fixed - other)


def _paths_to(tree: ast.AST, line: int) -> list[list[ast.AST]]:
    """The statements around a line, outermost first, the module included; one path a statement that ends there."""
    paths: list[list[ast.AST]] = []
    open_paths = [[tree]]
    while open_paths:
        path = open_paths.pop(0)
        inner = [
            child
            for child in ast.iter_child_nodes(path[-1])
            if isinstance(child, ast.stmt | ast.excepthandler) and child.lineno <= line <= (child.end_lineno or 0)
        ]
        open_paths += [[*path, child] for child in inner]
        if not inner and len(path) > 1:
            paths.append(path)
    return paths


def _means_to_fail(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _exits(node.value) or ".assert" in _name(node.value.func) or bool(_FAILS.search(_name(node.value.func)))
    return isinstance(node, ast.Assert | ast.Raise)


def _exits(call: ast.Call) -> bool:
    """Whether it exits with a failure; `exit()`, `exit(0)` and `exit(None)` say success."""
    if _name(call.func) not in _EXITS or not call.args:
        return False
    return not (isinstance(call.args[0], ast.Constant) and not call.args[0].value)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
