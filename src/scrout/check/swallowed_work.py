"""What a patch does to a function that rarely fixes a bug and often hides one, told from its syntax."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from scrout.check.changed import ChangedFunction, Function
from scrout.check.patch import FileChange
from scrout.syntax import parse_python

_BROAD = frozenset(("Exception", "BaseException"))
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SAME = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_NOTHING = ast.Module([], [])
_PLAIN_NUMBERS = frozenset((-1, 0, 1, 2))


def swallowed_work(functions: Sequence[ChangedFunction]) -> tuple[str, ...]:
    """Statements that can no longer be reached, and handlers that hide every error; a sentence each."""
    return tuple(sentence for function in functions for sentence in _of_function(function))


def reported_literals(
    functions: Sequence[ChangedFunction], script: str, changes: Sequence[FileChange] = ()
) -> tuple[str, ...]:
    """Values of the reproduction's script that the patch compares with, and that the files did not have before."""
    in_files = {value for change in changes for value in _literals(change.before or "")}
    shown = Counter(_literals(script))
    found = []
    for function in functions:
        if function.before and function.after:
            known = {*_all_literals(function.before.node), *in_files}
            added = [value for value in _compared(function.after.node) if value not in known and value in shown]
            words = "compares with a value of the reproduction"
            found += [f"{function.name} {words}: {value}." for value in dict.fromkeys(added)]
    return tuple(found)


def _of_function(function: ChangedFunction) -> Iterator[str]:
    if not function.after:
        return
    old, new = function.before.node if function.before else _NOTHING, function.after.node
    cut = [line for line in _unreachable(new) if line not in set(_unreachable(old))]
    if cut:
        yield f"{function.name} ends before the rest of its code: {cut[0]!r} can no longer be reached."
    if len(list(_silent(new))) > len(list(_silent(old))):
        yield f"{function.name} catches every exception and goes on without it."


def _unreachable(function: ast.AST) -> list[str]:
    """The first statement behind one that always leaves the block, in each block."""
    found = []
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                ends = [index for index, part in enumerate(block) if isinstance(part, _ENDS)]
                found += [ast.unparse(block[index + 1])[:80] for index in ends[:1] if index + 1 < len(block)]
    return found


def _silent(function: ast.AST) -> Iterator[ast.ExceptHandler]:
    """Handlers of every exception that neither raise nor look at it."""
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type):
            parts = [part for statement in node.body for part in ast.walk(statement)]
            uses = any(isinstance(part, ast.Name) and part.id == node.name for part in parts)
            if not uses and not any(isinstance(part, ast.Raise | ast.Call) for part in parts):
                yield node


def _is_broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(isinstance(one, ast.Name) and one.id in _BROAD for one in kinds)


def _literals(script: str) -> Iterator[str]:
    try:
        tree = parse_python(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from _all_literals(tree)


def _all_literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and _is_telling(node.value):
            yield repr(node.value)


def _compared(function: Function) -> Iterator[str]:
    """Literals that are compared by equality or containment."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and all(isinstance(one, _SAME) for one in node.ops):
            for side in (node.left, *node.comparators):
                parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
                values = (one.value for one in parts if isinstance(one, ast.Constant))
                yield from (repr(value) for value in values if _is_telling(value))


def _is_telling(value: object) -> bool:
    if isinstance(value, bool) or value is None or value is Ellipsis:
        return False
    if isinstance(value, str | bytes):
        return len(value) > 1
    return value not in _PLAIN_NUMBERS
