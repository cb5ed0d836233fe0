"""Examples in documentation that a claim has doctest or pytest run."""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from dataclasses import dataclass

from scrout.gate.depends import depends
from scrout.gate.scene import Finding, Scene
from scrout.sandbox.replay import Replay
from scrout.sandbox.reports import Traceback, read_tracebacks
from scrout.syntax import parse_python

_FAILED = re.compile(
    r'^File "([^"\n]+)", line ([0-9]{1,9}), in (\S+)\nFailed example:\n((?:    .*\n|\n)+)(\w[^\n]*)\n', re.M
)
_PYTEST_FAILED = re.compile(r"^(\S{1,500}):([0-9]{1,9}): (DocTestFailure|UnexpectedException)$", re.M)
_NEXT = re.compile(r"^\*{70}$", re.M)


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


def judge_examples(examples: list[Example], exercised: bool, run: Replay, scene: Scene) -> Finding:
    """A failed example counts like a failed assertion: if a result of the repository decided it. All of them must."""
    findings = [_judge(example, exercised, run, scene) for example in examples]
    return next((finding for finding in findings if finding.verdict != "real_failure"), findings[0])


def _judge(example: Example, exercised: bool, run: Replay, scene: Scene) -> Finding:
    what = f"the example in {scene.relative(example.path)}:{example.line}"
    ran = run.witness.lines if run.witness else {}
    if not any(path.startswith(f"<doctest {example.name}") for path in ran):
        return Finding("nonzero_other", f"{what} is said to fail, but was not seen to run")
    if not exercised:
        return Finding("unrelated_failure", f"{what} fails, but no function of the repository ran")
    if scene.is_repository_code(example.path):
        return Finding("real_failure", f"{what} of the repository's own fails")
    place = scene.place(example.path)
    script = as_script(scene.own.get(place, "") if place else "", is_module=example.path.endswith(".py"))
    if not depends(script, example.line, scene.belongs):
        return Finding("unrelated_failure", f"{what} fails, which does not depend on a result of the repository")
    if example.raised is not None:
        frame = scene.locus(example.raised)
        if frame is None or not scene.is_repository_code(frame.path):
            return Finding("own_error", f"{what} raises {example.raised.type} by itself")
    return Finding("real_failure", f"{what} fails, about a result of repository code")


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
