"""Test files without some of their tests: what a task's base commit has, and its test patch brings back."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from scrout.syntax import parse_python

Function = ast.FunctionDef | ast.AsyncFunctionDef
Block = ast.Module | ast.ClassDef


def function_of(name: str) -> tuple[str, ...]:
    """The classes and the function of a test as pytest names it, without its file and parameters."""
    return tuple(name.partition("[")[0].split("::")[1:])


def find_test(tree: ast.Module, name: str) -> Function | None:
    """A test's function where its file spells it out; None: it is inherited, or made in some other way."""
    wanted = function_of(name)
    return next((node for owner, node, _ in _functions(tree) if (*owner, node.name) == wanted), None)


def without_tests(text: str, names: Collection[str]) -> str | None:
    """The file without the functions of these tests; None: not all of them are spelled out in it."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError):
        return None
    gone = {function_of(name) for name in names}
    found = [(owner, node, block) for owner, node, block in _functions(tree) if (*owner, node.name) in gone]
    if {(*owner, node.name) for owner, node, _ in found} != gone:
        return None
    lines = text.splitlines(keepends=True)
    doomed = {id(node) for _, node, _ in found}
    for _, node, block in sorted(found, key=lambda one: one[1].lineno, reverse=True):
        first, last = _first(node), node.end_lineno or node.lineno
        empty = isinstance(block, ast.ClassDef) and all(id(one) in doomed for one in block.body)
        stays = empty and block.body[0] is node
        # The lines between it and the next statement go with it, but no comment that may belong to that one.
        while not stays and last < len(lines) and not lines[last].strip():
            last += 1
        lines[first - 1 : last] = [" " * node.col_offset + "pass\n"] if stays else []
    return "".join(lines)


def _first(node: Function) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _functions(block: Block, owner: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Function, Block]]:
    body: Sequence[ast.stmt] = block.body
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, (*owner, node.name))
        elif isinstance(node, Function):
            yield owner, node, block
