"""Does the fault still stand somewhere else?

A bug often has several places, and a fix of one of them satisfies the reproduction. Two things can show the others:
code that the patch replaces in one function and leaves in another, and examples that the report only names, such as
"`del b["x.y"]` is the same".
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from scrout.base import SandboxError
from scrout.check.changed import ChangedFunction, Function, Statement, functions_in, head, statements
from scrout.check.patch import FileChange
from scrout.check.patched import patched_workspace
from scrout.handoff import Reproduction
from scrout.sandbox.replay import Raised, Replay, replay
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.syntax import parse_python
from scrout.text import clip

MIN_SAME_PARTS = 15
"""Parts of the syntax tree. Short statements are alike by chance."""
MIN_ALIKE = 1 / 2
"""Of a function with such code: what is as in the changed one."""
MAX_EXAMPLES = 4
MAX_SCRIPTS = 6
"""For each example: ways to put it into the reproduction."""
MAX_SCRIPT_CHARS = 20_000
RUN_TIMEOUT_S = 20.0

_BLOCK = re.compile(r"^```.*?^```[^\n]*$|^(?: {4}|\t|>>>|\|)[^\n]*$", re.MULTILINE | re.DOTALL)
_CLAUSE = re.compile(r"(?<=[.!?;,])\s+|\n")
_ALSO = re.compile(r"\b(?:same|too|also|as well|another|likewise)\b", re.IGNORECASE)
_EXAMPLE = re.compile(r"`([^`\n]{1,100})`|(?<![\w.`])([A-Za-z_][\w.]{0,60}\([^()\n]{0,60}\))")
_OPERATORS: dict[str, ast.operator] = {
    **{"|": ast.BitOr(), "&": ast.BitAnd(), "^": ast.BitXor(), "+": ast.Add(), "-": ast.Sub(), "*": ast.Mult()},
    **{"/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod(), "**": ast.Pow(), "<<": ast.LShift(), ">>": ast.RShift()},
}


def same_code_elsewhere(changes: Sequence[FileChange], functions: Sequence[ChangedFunction]) -> str:
    """A sentence about a function that is much like a changed one, and has code that the patch replaces there; empty:
    there is none."""
    changed = {function.label for function in functions}
    texts = {change.path: change.after for change in changes}
    for function in functions:
        if function.before and function.after and function.old_lines:
            gone = _by_code(function.before.node).keys() - _by_code(function.after.node).keys()
            for name, other in functions_in(texts.get(function.path)).items():
                left = f"{function.path}::{name}" not in changed and _is_like(other, function.before.node)
                same = [one for code, one in _by_code(other).items() if left and code in gone]
                if _total(same) >= MIN_SAME_PARTS:
                    first = max(same, key=_size)
                    place = f"{name} ({function.path}:{first.lineno})"
                    line = clip(ast.unparse(first).split("\n")[0], 80)
                    return f"Code that the patch replaces in {function.name} still stands in {place}: `{line}`."
    return ""


def _is_like(function: Function, other: Function) -> bool:
    """Whether it takes the same parameters, or has much of the same code."""
    code, of_other = _by_code(function), _by_code(other)
    alike = _total(one for key, one in code.items() if key in of_other)
    return ast.dump(function.args) == ast.dump(other.args) or alike >= MIN_ALIKE * _total(code.values())


def _by_code(function: Function) -> dict[str, Statement]:
    return {head(one): one for one in statements(function)}


def _total(found: Iterable[Statement]) -> int:
    return sum(map(_size, found))


def _size(statement: Statement) -> int:
    """How many parts its syntax has, without the statements in it."""
    own = (child for child in ast.iter_child_nodes(statement) if not isinstance(child, Statement))
    return sum(1 for child in own for _ in ast.walk(child))


@dataclass(frozen=True)
class _Ending:
    """How a failing script ended in the repository."""

    type: str
    message: str


async def named_example_fails(text: str, reproduction: Reproduction, patch: str, task_sandbox: TaskSandbox) -> str:
    """A sentence about an example that the report names, and that fails with the patch as it did before; empty: none.

    What an example stands for is guessed: it is put into the reproduction in several ways. It counts if it fails on the
    base with the reproduction's exception, in code of the repository, and if whatever does so still does.
    """
    scripts = [path for path in reproduction.files if path.endswith(".py")]
    examples = named_examples(text)
    if not examples or len(scripts) != 1 or len(reproduction.files[scripts[0]]) > MAX_SCRIPT_CHARS:
        return ""
    trial = _Trial(reproduction, scripts[0], patch, task_sandbox)
    try:
        shown = await trial.ending(reproduction.files[scripts[0]], patched=False)
        for example in examples if shown else ():
            tried = list(islice(with_example(reproduction.files[scripts[0]], example), MAX_SCRIPTS))
            before = {script: await trial.ending(script, patched=False) for script in tried}
            failing = {
                script: ending for script, ending in before.items() if ending and shown and ending.type == shown.type
            }
            if failing and all([await trial.ending(one, patched=True) == ending for one, ending in failing.items()]):
                ending = next(iter(failing.values()))
                told = clip(f"{ending.type}: {ending.message}", 120)
                return f"The report names `{example}` too, which still fails as before the patch: {told}."
    except SandboxError:
        return ""
    return ""


@dataclass(frozen=True)
class _Trial:
    reproduction: Reproduction
    path: str
    """Of the script."""
    patch: str
    task_sandbox: TaskSandbox

    async def ending(self, script: str, *, patched: bool) -> _Ending | None:
        """None: it passes, or fails in no code of the repository."""
        patch, files = self.patch if patched else "", {**self.reproduction.files, self.path: script}
        async with patched_workspace(self.task_sandbox, patch, files) as workspace:
            command = self.reproduction.command or "false"
            done = await replay(self.task_sandbox, workspace, command, timeout_s=RUN_TIMEOUT_S, watch=True)
        last = _last_raised(done, self.path)
        return _Ending(last.type, last.message) if last and done.exit_code else None


def _last_raised(done: Replay, script: str) -> Raised | None:
    raised = done.execution_trace.raised if done.execution_trace else ()
    return next((one for one in reversed(raised) if one.path != script), None)


def named_examples(text: str) -> tuple[str, ...]:
    """Code that the report's prose says to fail as well."""
    found: dict[str, None] = {}
    for clause in _CLAUSE.split(_BLOCK.sub("\n", text)):
        if _ALSO.search(clause):
            found.update(dict.fromkeys(quoted or call for quoted, call in _EXAMPLE.findall(clause)))
    return tuple(found)[:MAX_EXAMPLES]


def with_example(script: str, example: str) -> Iterator[str]:
    """The script with the example in the place of one of its expressions, the last of them first."""
    try:
        tree = parse_python(script)
        operator = _OPERATORS.get(example)
        put = _with_operator(tree, operator) if operator else _with_code(tree, parse_python(example).body)
        known = {ast.unparse(tree)}
        for text in (ast.unparse(ast.fix_missing_locations(_cut_off(one, tree))) for one in put):
            if text not in known:
                known.add(text)
                yield text
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # not valid code


def _cut_off(changed: ast.Module, tree: ast.Module) -> ast.Module:
    """Without what follows the changed statement: that may fail by itself."""
    for number, (one, before) in enumerate(zip(changed.body, tree.body, strict=False)):
        if not isinstance(one, ast.ImportFrom) and ast.dump(one) != ast.dump(before):
            changed.body = changed.body[: number + 1]
            break
    return changed


def _with_operator(tree: ast.Module, operator: ast.operator) -> Iterator[ast.Module]:
    for number, node in _from_the_end(tree):
        if isinstance(node, ast.BinOp):
            changed, place = _copy(tree, number)
            assert isinstance(place, ast.BinOp)
            place.op = operator
            yield changed


def _with_code(tree: ast.Module, body: Sequence[ast.stmt]) -> Iterator[ast.Module]:
    if len(body) != 1:
        return
    (example,) = body
    names = {node.id for node in ast.walk(example) if isinstance(node, ast.Name)}
    bound = _bound(tree)
    if isinstance(example, ast.Expr) and not names <= bound:
        yield from _with_another_name(tree, example.value)
    elif names & bound - set(dir(builtins)) and names <= bound:
        yield from _in_place_of_what_it_is_about(tree, example, names)


def _bound(tree: ast.Module) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imported = (
        alias for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    )
    return {*names, *((alias.asname or alias.name).partition(".")[0] for alias in imported), *dir(builtins)}


def _with_another_name(tree: ast.Module, example: ast.expr) -> Iterator[ast.Module]:
    """`other` or `other()` in the place of a function, a method or an attribute that the script uses."""
    called = example.func if isinstance(example, ast.Call) else example
    if not isinstance(called, ast.Name):
        return
    arguments = example.args if isinstance(example, ast.Call) else []
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for number, node in _from_the_end(tree):
        if not isinstance(node, ast.Call | ast.Attribute):
            continue
        changed, place = _copy(tree, number)
        if isinstance(place, ast.Call) and isinstance(place.func, ast.Name):
            known, place.func, place.args = place.func.id, called, arguments or place.args
            yield _importing_beside(changed, known, called.id)
        elif isinstance(place, ast.Call) and isinstance(place.func, ast.Attribute):
            place.func.attr, place.args = called.id, arguments or place.args
            yield changed
        elif isinstance(place, ast.Attribute) and isinstance(place.ctx, ast.Load) and node not in calls:
            place.attr = called.id
            if isinstance(example, ast.Call):
                _Put(place, ast.Call(place, arguments, [])).visit(changed)
            yield changed


def _importing_beside(tree: ast.Module, known: str, name: str) -> ast.Module:
    """With one name more imported from where another one comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(known == (alias.asname or alias.name) for alias in node.names):
            node.names = [*node.names, ast.alias(name)]
    return tree


def _in_place_of_what_it_is_about(tree: ast.Module, example: ast.stmt, names: set[str]) -> Iterator[ast.Module]:
    """In the place of statements with its names, and of these names."""
    for statement in (node for _, node in _from_the_end(tree) if isinstance(node, ast.Expr | ast.Assign)):
        parts = [part for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
        about = [part for part in parts if part.id in names and part.id not in dir(builtins)]
        if not about:
            continue
        if isinstance(example, ast.Expr):
            for part in (statement.value, *reversed(about)):
                yield _replaced(tree, part, example.value)
        elif isinstance(statement, ast.Expr):
            yield _replaced(tree, statement, example)


def _replaced(tree: ast.Module, node: ast.AST, other: ast.AST) -> ast.Module:
    number = next(number for number, one in enumerate(ast.walk(tree)) if one is node)
    changed, place = _copy(tree, number)
    _Put(place, copy.deepcopy(other)).visit(changed)
    return changed


def _from_the_end(tree: ast.Module) -> Iterator[tuple[int, ast.AST]]:
    """The last and innermost first: what fails is mostly at the end."""
    yield from reversed(list(enumerate(ast.walk(tree))))


def _copy(tree: ast.Module, number: int) -> tuple[ast.Module, ast.AST]:
    """A copy of a tree, and the node in it that has this number in `ast.walk`."""
    changed = copy.deepcopy(tree)
    return changed, next(islice(ast.walk(changed), number, None))


class _Put(ast.NodeTransformer):
    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self.node, self.other = node, other

    def visit(self, node: ast.AST) -> ast.AST:
        return self.other if node is self.node else self.generic_visit(node)
