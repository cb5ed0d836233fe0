"""Would anything notice if a changed line were another one?

A reproduction and tests can leave a change open: they pass with it, and with something else in its place. Then nothing
shows that it is right. So conditions and numbers that the patch brings are altered, one at a time, and everything that
can notice runs on each alteration: the reproduction, the tests that call the changed functions, their doctests.

An alteration that nothing notices may still be one that changes nothing, or nothing but what the patch rightly leaves
as it was. So the inputs of the guard run on it too. It speaks against the patch if one of them shows a difference that
nothing decides, or if too few come to its place.
"""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from scrout.base import SandboxError
from scrout.check.changed import ChangedFunction
from scrout.check.doctests import doctests_pass
from scrout.check.guard import AlterationEffect, GuardComparison, effect_of, observe_altered
from scrout.check.patch import FileChange
from scrout.check.patched import patched_workspace
from scrout.check.regression import arguments_of
from scrout.handoff import Reproduction
from scrout.sandbox.replay import replay
from scrout.sandbox.suite import Suite, run_suite
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace
from scrout.text import clip

MAX_ALTERATIONS = 10
MAX_TESTS = 40
RUN_TIMEOUT_S = 20.0
"""For a run on an alteration, or `SLOWER` times what it takes without one: an endless loop is noticed, and a busy
machine is not."""
CONTROL_TIMEOUT_S = 60.0
SLOWER = 3
AT_ONCE = 2
MIN_UNCHANGED = 5
"""Inputs that come to an altered place and give the same: then it is another way to write what the patch has."""

_OTHERS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}


@dataclass(frozen=True)
class Alteration:
    """A file of the patched tree with one expression or statement in the place of another."""

    path: str
    source: str
    line: int
    before: str
    after: str
    undecided: str = ""
    """An input for which it gives another result, and nothing says which one is right."""

    def sentence(self) -> str:
        place = f"{self.path}:{self.line}"
        before, after = (clip(" ".join(text.split()), 60) for text in (self.before, self.after))
        shown = f"{self.undecided}, and " if self.undecided else ""
        unnoticed = "neither the reproduction nor a test would fail"
        return f"With `{after}` in the place of `{before}` ({place}), {shown}{unnoticed}."


async def open_change(
    changes: Sequence[FileChange],
    functions: Sequence[ChangedFunction],
    reproduction: Reproduction,
    patch: str,
    suite: Suite | None,
    tests: Sequence[str],
    doctests: Sequence[str],
    compared: GuardComparison | None,
    task_sandbox: TaskSandbox,
) -> Alteration | None:
    """The first alteration that reproduction, tests and doctests do not notice, and that may matter; None: there is
    none.

    The first of the `tests` are run. `compared` is what the guard has seen.
    """
    waiting = list(alterations(changes, functions))
    if not waiting:
        return None
    names = arguments_of(suite, tests)[:MAX_TESTS] if suite else ()
    trial = await _Trial(reproduction, patch, suite, names, frozenset(), tuple(doctests), task_sandbox).with_control()
    while waiting:
        some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        unnoticed = await asyncio.gather(*(trial.passes(one) for one in some))
        for one, passes in zip(some, unnoticed, strict=True):
            effect = await trial.effect(one, functions, compared) if passes else None
            if effect and (effect.undecided or effect.unchanged < MIN_UNCHANGED):
                return replace(one, undecided=effect.undecided)
    return None


def alterations(changes: Sequence[FileChange], functions: Sequence[ChangedFunction]) -> list[Alteration]:
    """Of changed lines, one of each line before a second of any."""
    texts = {change.path: change.after or "" for change in changes}
    by_line: dict[tuple[str, int], list[Alteration]] = {}
    for function in functions:
        if function.after is None or not function.lines:
            continue
        known = _expressions(function)
        ends = _ends(function.after.node)
        for node in ast.walk(function.after.node):
            if getattr(node, "lineno", None) in function.lines:
                for before, after in _altered(node):
                    if ast.dump(before) in known or before in ends or not known.isdisjoint(_frames(before)):
                        continue  # the patch has left it as it was, or it is no number that could be another one
                    source = _put(texts[function.path], before, after)
                    old = ast.get_source_segment(texts[function.path], before) or ""
                    one = Alteration(function.path, source, before.lineno, old, after)
                    by_line.setdefault((function.path, before.lineno), []).append(one)
    most = max(map(len, by_line.values()), default=0)
    in_turn = [row[turn] for turn in range(most) for row in by_line.values() if turn < len(row)]
    return in_turn[:MAX_ALTERATIONS]


def _expressions(function: ChangedFunction) -> frozenset[str]:
    """Those in the lines that the patch replaces, and their frames."""
    if function.before is None:
        return frozenset()
    nodes = [node for node in ast.walk(function.before.node) if isinstance(node, ast.expr)]
    nodes = [node for node in nodes if node.lineno in function.old_lines]
    frames = (frame for node in nodes for frame in _frames(node))
    return frozenset((*(ast.dump(node) for node in nodes), *frames))


def _frames(node: ast.expr) -> Iterator[str]:
    """An operator with one of its operands at its place: the patch that changes another one has not brought it."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield f"{ast.dump(left)} {ast.dump(op)}"
            yield f"{ast.dump(op)} {ast.dump(right)}"
        case ast.BoolOp(op=op, values=values):
            yield from (
                f"{number} of {len(values)} {ast.dump(op)} {ast.dump(one)}" for number, one in enumerate(values)
            )


def _ends(function: ast.AST) -> frozenset[ast.AST]:
    """The numbers in `x[0]` and `x[-1]`, which are words for the first and the last."""
    indexes = [node.slice for node in ast.walk(function) if isinstance(node, ast.Subscript)]
    first = [one for one in indexes if isinstance(one, ast.Constant) and one.value == 0]
    last = [one.operand for one in indexes if ast.unparse(one) == "-1" and isinstance(one, ast.UnaryOp)]
    return frozenset((*first, *last))


def _altered(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, f"(not ({ast.unparse(node.test)}))"
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHERS:
        ops: list[ast.cmpop] = [_OTHERS[type(node.ops[0])](), *node.ops[1:]]
        yield node, f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield node, str(node.value + 1)
        yield node, str(node.value - 1)


def _put(source: str, node: ast.expr, text: str) -> str:
    """The source with other text in the place of a node, and as many lines, so that all below stays where it is."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset or 0 :]
    if last > first:
        text = f"{text[:-1]}{chr(10) * (last - first)}{text[-1]}"
    return b"".join([*lines[:first], head + text.encode() + tail, *lines[last + 1 :]]).decode()


@dataclass(frozen=True)
class _Trial:
    reproduction: Reproduction
    patch: str
    suite: Suite | None
    tests: tuple[str, ...]
    """As the suite takes them."""
    passed: frozenset[str]
    """Those that pass without an alteration, run by themselves."""
    doctests: tuple[str, ...]
    task_sandbox: TaskSandbox
    timeout_s: float = RUN_TIMEOUT_S

    async def with_control(self) -> _Trial:
        """With the tests that pass on the patched tree, and the time that they take. One that fails here by itself
        notices nothing."""
        started = time.monotonic()
        try:
            async with patched_workspace(self.task_sandbox, self.patch) as workspace:
                passed = await replace(self, timeout_s=CONTROL_TIMEOUT_S)._passed(workspace) or frozenset()
        except SandboxError:
            return self
        return replace(self, passed=passed, timeout_s=max(RUN_TIMEOUT_S, SLOWER * (time.monotonic() - started)))

    async def passes(self, one: Alteration) -> bool:
        """Whether everything passes with an alteration of the patched tree."""
        try:
            return (
                await self._in_workspace(one, self._reproduction_passes)
                and await self._in_workspace(one, self._tests_pass)
                and await self._in_workspace(one, self._doctests_pass)
            )
        except SandboxError:
            return False

    async def effect(
        self, one: Alteration, functions: Sequence[ChangedFunction], compared: GuardComparison | None
    ) -> AlterationEffect:
        """What an alteration changes, of what the guard has seen."""
        if compared is None:
            return AlterationEffect()
        altered = await observe_altered(compared, functions, self.patch, {one.path: one.source}, self.task_sandbox)
        return effect_of(functions, compared, altered, one.path, one.line)

    async def _in_workspace(self, one: Alteration, run: Callable[[Workspace], Awaitable[bool]]) -> bool:
        async with patched_workspace(self.task_sandbox, self.patch, {one.path: one.source}) as workspace:
            return await run(workspace)

    async def _reproduction_passes(self, workspace: Workspace) -> bool:
        for path, content in self.reproduction.files.items():
            workspace.write(path, content.encode())
        command = self.reproduction.command or "false"
        return (await replay(self.task_sandbox, workspace, command, timeout_s=self.timeout_s)).exit_code == 0

    async def _tests_pass(self, workspace: Workspace) -> bool:
        passed = await self._passed(workspace) if self.passed else self.passed
        return passed is not None and passed >= self.passed

    async def _passed(self, workspace: Workspace) -> frozenset[str] | None:
        """None: they do not finish."""
        if self.suite is None or not self.tests:
            return frozenset()
        run = await run_suite(self.task_sandbox, workspace, self.suite, self.tests, timeout_s=self.timeout_s)
        return run.passed if run.finished else None

    async def _doctests_pass(self, workspace: Workspace) -> bool:
        return not self.doctests or await doctests_pass(self.task_sandbox, workspace, self.doctests)
