"""Examples in documentation that a claim has doctest or pytest run."""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from dataclasses import dataclass

from scrout.gate.dataflow import acted_on, bound, depends, names
from scrout.gate.observation import reported
from scrout.gate.replay_context import Classification, ReplayContext, together
from scrout.sandbox.replay import Replay
from scrout.sandbox.reports import Traceback, read_tracebacks
from scrout.syntax import parse_python

_FAILED = re.compile(
    r'^File "([^"\n]+)", line ([0-9]{1,9}), in (\S+)\nFailed example:\n((?:    .*\n|\n)+)(\w[^\n]*)\n', re.M
)
_PYTEST_FAILED = re.compile(r"^(\S{1,500}):([0-9]{1,9}): (DocTestFailure|UnexpectedException)$", re.M)
_UNBOUND = re.compile(r"name '(\w+)' is not defined")
_NEXT = re.compile(r"^(?:\*{70}|-{70})$", re.M)
"""What doctest puts between failures, and in a suite of unittest."""


@dataclass(frozen=True)
class Example:
    """One that failed."""

    path: str
    line: int
    name: str
    """Of the text that it stands in; empty: not told."""
    raised: Traceback | None
    """What it raised in place of an answer."""


def read_examples(output: str) -> list[Example]:
    """The examples that a runner says have failed."""
    found = []
    for match in _FAILED.finditer(output):
        end = _NEXT.search(output, match.end())
        block = output[match.end() : end.start() if end else len(output)]
        tracebacks = read_tracebacks(textwrap.dedent(block)) if match[5].startswith("Exception raised") else ()
        found.append(Example(match[1], int(match[2]), match[3], tracebacks[-1] if tracebacks else None))
    return found or [
        Example(match[1], int(match[2]), "", None)
        for match in _PYTEST_FAILED.finditer(output)
        if match[3] == "DocTestFailure"
    ]


def judge_examples(
    examples: list[Example], exercised: bool, run: Replay, replay_context: ReplayContext
) -> Classification:
    """A failed example counts like a failed assertion: if a result of the repository decided it. All of them must."""
    first = [example for at, example in enumerate(examples) if not _follows(example, examples[:at], replay_context)]
    return together([_judge(example, exercised, run, replay_context) for example in first])


def _follows(example: Example, before: list[Example], replay_context: ReplayContext) -> bool:
    """Whether an example fails for want of what an earlier one would have done, had it not raised: a name, a change."""
    earlier = [other for other in before if other.raised is not None and other.path == example.path]
    if not earlier or example.raised is None:
        return False
    script = _script(example, replay_context)
    if example.raised.type == "NameError" and (missing := _UNBOUND.match(example.raised.message)):
        return any(missing[1] in bound(script, other.line) for other in earlier)
    return any(not acted_on(script, other.line).isdisjoint(names(script, example.line)) for other in earlier)


def _judge(example: Example, exercised: bool, run: Replay, replay_context: ReplayContext) -> Classification:
    what = f"the example in {replay_context.relative(example.path)}:{example.line}"
    ran = run.execution_trace.lines if run.execution_trace else {}
    if not any(path.startswith(f"<doctest {example.name}") for path in ran):
        return Classification("nonzero_other", f"{what} is said to fail, but was not seen to run")
    if not exercised:
        return Classification("unrelated_failure", f"{what} fails, but no function of the repository ran")
    if replay_context.is_repository_code(example.path):
        return Classification("real_failure", f"{what} of the repository's own fails")
    if not depends(_script(example, replay_context), example.line, replay_context.belongs):
        reason = f"{what} fails, which does not depend on a result of the repository"
        return Classification("unrelated_failure", reason, trial="may pass")
    if example.raised is not None:
        frame = replay_context.locus(example.raised)
        if frame is None or not replay_context.is_repository_code(frame.path):
            return Classification("own_error", f"{what} raises {example.raised.type} by itself")
        if reported(example.raised.type, example.raised.message, replay_context.issue):
            return Classification("real_failure", f"{what} raises {example.raised.type} in the repository")
    return Classification("real_failure", f"{what} fails, about a result of repository code", trial="must pass")


def _script(example: Example, replay_context: ReplayContext) -> str:
    place = replay_context.place(example.path)
    return as_script(replay_context.own.get(place, "") if place else "", is_module=example.path.endswith(".py"))


def as_script(text: str, *, is_module: bool) -> str:
    """The examples of a text in the lines where they stand, with the imports of the module around them."""
    lines = [""] * (text.count("\n") + 2)
    try:
        imports = [node for node in parse_python(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
        examples = doctest.DocTestParser().get_examples(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        imports, examples = [], []
        if not is_module:
            try:
                examples = doctest.DocTestParser().get_examples(text)
            except ValueError:
                return ""
    for node in imports if is_module else ():
        lines[node.lineno - 1] = ast.unparse(node)
    for example in examples:
        for number, line in enumerate(example.source.rstrip("\n").split("\n"), example.lineno):
            lines[number] = line
    return "\n".join(lines)
