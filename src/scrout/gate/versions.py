"""Gives a name another version each time it is bound anew, so that what it held before no longer counts.

A version is the place where the name is bound: `x = f()` in line 3 becomes `x:3.0 = f()`. Behind a branch or a loop a
name may have several: `x:3.0|x:7.4`. Variables of a function bear its name in front: `check.x:3.4`. Names of imports,
functions, classes and arguments have no place, and `self` and `cls` stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from copy import deepcopy

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign
_Loop = ast.For | ast.AsyncFor | ast.While
_KEPT = ("self", "cls")
_LOOPED = "ran"
MAX_LOOPS = 3
"""Nested ones that are gone through twice each; a name that is bound further inside keeps all of its versions."""
Bound = dict[str, str]
"""The versions that each name may have at a point."""


def versions(name: str) -> list[str]:
    """The versions that a name may have."""
    return name.split("|")


def plain_name(name: str) -> str:
    """The name as it was written."""
    return versions(name)[0].partition(":")[0].rpartition(".")[2]


def rename_versions(tree: ast.Module) -> ast.Module:
    """The same tree, changed in place."""
    _Scope("", {}, frozenset()).run(tree.body, {})
    return tree


def drop_what_did_not_run(tree: ast.AST, ran: frozenset[int]) -> None:
    """Take assignments out of a tree, in place. The rest stays: what could have run may be why something else did.

    A loop whose body ran has bound its name anew, and is marked.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor) and _ran(node.body[0], ran):
            node.type_comment = _LOOPED
        for name, block in ast.iter_fields(node):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                kept = [part for part in block if not isinstance(part, _Assignment) or _ran(part, ran)]
                setattr(node, name, kept or [ast.copy_location(ast.Pass(), block[0])])


def _ran(node: ast.stmt, ran: frozenset[int]) -> bool:
    return not ran.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1))


class _Scope:
    """A module or a function; what it defines is gone through when all of its own names are known."""

    def __init__(self, prefix: str, outer: Bound, local: frozenset[str]) -> None:
        self.prefix = prefix
        self.outer = outer
        self.local = local
        self.loops = 0
        self.later: list[_Function] = []

    def run(self, body: Sequence[ast.stmt], bound: Bound) -> None:
        self.block(body, bound)
        seen = {**self.outer, **bound}
        for function in self.later:
            _in_function(function, seen)

    def block(self, body: Iterable[ast.stmt], bound: Bound) -> None:
        for statement in body:
            self.statement(statement, bound)

    def statement(self, node: ast.stmt, bound: Bound) -> None:
        if isinstance(node, _Function):
            for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.expression(part, bound)
            bound[node.name] = node.name
            self.later.append(node)
        elif isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases):
                self.expression(part, bound)
            bound[node.name] = node.name
            self.block(node.body, dict(bound))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            bound.update(zip(names, names, strict=True))
        elif isinstance(node, ast.If):
            self.expression(node.test, bound)
            self.branches([node.body, node.orelse], bound)
        elif isinstance(node, ast.Match):
            self.expression(node.subject, bound)
            self.branches([[], *(case.body for case in node.cases)], bound)
        elif isinstance(node, _Loop):
            self.loop(node, bound)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.expression(item, bound)
            self.block(node.body, bound)
        elif isinstance(node, ast.Try | ast.TryStar):
            before = dict(bound)
            self.block(node.body, bound)
            bound.update(_merged([before, bound]))
            for handler in node.handlers:
                if handler.name:
                    handler.name = bound[handler.name] = self.base(handler.name)
            self.branches([node.orelse, *(handler.body for handler in node.handlers)], bound)
            self.block(node.finalbody, bound)
        elif isinstance(node, _Assignment):
            if node.value:
                self.expression(node.value, bound)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self.expression(target, bound, adds=isinstance(node, ast.AugAssign))
        else:
            self.expression(node, bound)

    def loop(self, node: _Loop, bound: Bound) -> None:
        """What a name holds at the start of a loop may come from its end."""
        self.expression(node.test if isinstance(node, ast.While) else node.iter, bound)
        self.loops += 1
        if self.loops <= MAX_LOOPS:
            rehearsed, later = dict(bound), list(self.later)
            self.round(deepcopy(node), rehearsed)
            self.later = later
            bound.update(_merged([bound, rehearsed]))
        start = dict(bound)
        self.round(node, bound)
        end = dict(bound)
        bound.update(_merged([start, bound]))
        if not isinstance(node, ast.While) and node.type_comment == _LOOPED:
            targets = [plain_name(part.id) for part in ast.walk(node.target) if isinstance(part, ast.Name)]
            bound.update({name: end[name] for name in targets if name in end})
        self.loops -= 1

    def round(self, node: _Loop, bound: Bound) -> None:
        if not isinstance(node, ast.While):
            self.expression(node.target, bound)
        self.block([*node.body, *node.orelse], bound)

    def branches(self, bodies: Iterable[Sequence[ast.stmt]], bound: Bound) -> None:
        ends = []
        for body in bodies:
            inside = dict(bound)
            self.block(body, inside)
            ends.append(inside)
        bound.update(_merged(ends))

    def expression(self, node: ast.AST, bound: Bound, *, adds: bool = False) -> None:
        """Also a simple statement. What `adds` to a name leaves it what it held."""
        hidden = _hidden(node)
        for part in ast.walk(node):
            if not isinstance(part, ast.Name) or part.id in _KEPT or part.id in hidden:
                continue
            known = bound.get(part.id) or self.outer.get(part.id)
            if isinstance(part.ctx, ast.Load):
                part.id = known or self.base(part.id)
            else:
                version = f"{self.base(part.id)}:{part.lineno}.{part.col_offset}"
                keeps = known and (adds or self.loops > MAX_LOOPS)
                bound[part.id] = "|".join(dict.fromkeys([*versions(known), version])) if known and keeps else version
                part.id = version

    def base(self, name: str) -> str:
        return f"{self.prefix}{name}" if name in self.local else name


def _in_function(function: _Function, outer: Bound) -> None:
    stored = {
        part.id for part in ast.walk(function) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    }
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    arguments += [each for each in (function.args.vararg, function.args.kwarg) if each]
    shared = {name for part in ast.walk(function) if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names}
    local = frozenset(stored | {argument.arg for argument in arguments}) - shared - set(_KEPT)
    scope = _Scope(f"{function.name}.", {k: v for k, v in outer.items() if k not in local}, local)
    bound: Bound = {}
    for argument in arguments:
        if argument.arg not in _KEPT:
            bound[argument.arg] = f"{function.name}.{argument.arg}"
            argument.arg = bound[argument.arg]
    scope.run(function.body, bound)


def _hidden(node: ast.AST) -> frozenset[str]:
    """Names that belong to a lambda or a comprehension alone."""
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Lambda):
            names.update(argument.arg for argument in part.args.args)
        elif isinstance(part, ast.comprehension):
            names.update(name.id for name in ast.walk(part.target) if isinstance(name, ast.Name))
    return frozenset(names)


def _merged(ends: Sequence[Bound]) -> Bound:
    names = dict.fromkeys(name for end in ends for name in end)
    return {
        name: "|".join(dict.fromkeys(one for end in ends if name in end for one in versions(end[name])))
        for name in names
    }
