"""Turns what a report expects into checks that a run has confirmed.

A script is first run with its statements told apart. A check is made of a statement only if the run gave the value that
the report complains of, and not the one that it expects. What the run does not confirm is dropped and told.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scrout.handoff import Basis
from scrout.scout.recon.expectations import EXCEPTION, Told
from scrout.scout.recon.scripts import Ask, Script
from scrout.syntax import is_literal, parse_python
from scrout.text import clip

Form = Literal["value", "repr", "text", "raises"]
"""How a result is compared with what was expected: as a value, by its repr, as it is printed, or as an exception."""

MARK = "scrout-tells:"
_TELLING = f"""\
def _scrout_tell(line, ask):
    import json
    try:
        value = ask()
        told = {{"repr": repr(value)[:3000], "text": str(value)[:3000]}}
    except Exception as error:
        told = {{"error": type(error).__name__, "message": str(error)[:500]}}
    print("\\n{MARK}" + json.dumps([line, told]), flush=True)
"""
_SHOWN_CHARS = 60


@dataclass(frozen=True)
class Result:
    """What a statement gave."""

    repr: str = ""
    text: str = ""
    error: str = ""
    message: str = ""

    def __str__(self) -> str:
        return f"raises {self.error}" if self.error else f"gives {clip(self.repr, _SHOWN_CHARS)}"


@dataclass(frozen=True)
class Check:
    """A statement, and what it has to give."""

    line: int
    expected: str
    form: Form
    basis: Basis


@dataclass(frozen=True)
class Confirmed:
    """What a run said about a report's expectations."""

    checks: tuple[Check, ...] = ()
    dropped: tuple[str, ...] = ()
    """Expectations that no check was made of, and why, in words."""

    @property
    def basis(self) -> Basis:
        return self.checks[0].basis if self.checks else "assumed"


def probe(script: Script) -> str:
    """The script with each statement that shows a value told apart."""
    tree = parse_python(script.source)
    changed = _Telling({ask.line for ask in script.asks}).visit(tree)
    return _TELLING + ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def read_results(output: str) -> dict[int, Result]:
    """What each statement gave; one that was reached several times says nothing."""
    found: dict[int, Result] = {}
    again: set[int] = set()
    for line in output.splitlines():
        if line.startswith(MARK):
            try:
                number, told = json.loads(line.removeprefix(MARK))
                result = Result(**{str(key): str(value) for key, value in told.items()})
            except (ValueError, TypeError, AttributeError):
                continue
            if found.setdefault(int(number), result) != result:
                again.add(int(number))
    return {number: result for number, result in found.items() if number not in again}


def confirm(script: Script, results: Mapping[int, Result], text: str) -> Confirmed:
    """The checks that the results confirm: those whose actual value the report tells, else the others."""
    checks: list[Check] = []
    dropped = left_over(script)
    asked = [ask for ask in script.asks if ask.told.expected]
    for pair in script.pairs:
        matching = [ask for ask in script.asks if ask.line in results and _form(pair.actual, results[ask.line])]
        if len(matching) == 1:
            asked.append(Ask(matching[0].line, pair))
        else:
            which = "no statement gives" if not matching else "several statements give"
            dropped.append(f"{which} {_short(pair.actual)}, so {_short(pair.expected)} belongs to none")
    for ask in asked:
        made = _check(ask.line, ask.told, results.get(ask.line), text)
        if isinstance(made, Check):
            checks.append(made)
        else:
            dropped.append(made)
    certain = [check for check in checks if check.basis == "confirmed"]
    lines = {check.line: check for check in certain or checks}
    return Confirmed(tuple(lines[line] for line in sorted(lines)), tuple(dropped))


def left_over(script: Script) -> list[str]:
    """Expected values that the report gives to no statement for certain, in words."""
    return [f"{_short(value)} is expected of no certain statement" for value in script.unpaired]


def _check(line: int, told: Told, result: Result | None, text: str) -> Check | str:
    """A check, or why there is none."""
    wanted = _short(told.expected)
    if result is None:
        return f"the statement that should give {wanted} was not reached"
    if _form(told.expected, result):
        return f"it gives {wanted} as expected"
    form = _form(told.actual, result) if told.actual else None
    if told.actual and form is None:
        return f"it {result} here, where the report has {_short(told.actual)}"
    raised = EXCEPTION.fullmatch(told.expected.partition(":")[0].strip())
    if raised:
        told_so = told.actual or (result.error and result.error in text)
        return Check(line, raised[1], "raises", "confirmed" if told_so else "assumed")
    if result.error and not told.actual and result.error not in text:
        return f"it {result}, which the report does not tell"
    basis: Basis = "confirmed" if told.actual or result.error else "assumed"
    if is_literal(told.expected):
        return Check(line, told.expected, "value", basis)
    if form in ("repr", "text"):  # in the same words as what came out
        return Check(line, told.expected, form, basis)
    return f"{wanted} is no value that can be compared"


def _form(told: str, result: Result) -> Form | None:
    """How a value that is told agrees with a result; None: it does not."""
    raised = EXCEPTION.match(told.strip())
    if result.error:
        return "raises" if raised and raised[1] == result.error else None
    if _same(told, result.repr):
        return "repr"
    if _same(told, result.text):
        return "text"
    if is_literal(told) and ast.literal_eval(told) == result.text:
        return "text"
    if is_literal(told) and is_literal(result.repr):
        one, other = ast.literal_eval(told), ast.literal_eval(result.repr)
        return "value" if (type(one) is type(other) and one == other) or _rounds(told, other) else None
    return None


def _rounds(told: str, value: object) -> bool:
    """People write as many decimals as they care about."""
    decimals = re.fullmatch(r"-?\d+\.(\d+)", told.strip())
    return decimals is not None and isinstance(value, float) and round(value, len(decimals[1])) == float(told)


def _same(told: str, shown: str) -> bool:
    one, other = " ".join(told.split()), " ".join(shown.split())
    if "..." in one and one.strip(". ") and "..." not in other:
        head, _, tail = one.partition("...")
        return len(head) + len(tail) >= 8 and other.startswith(head.rstrip()) and other.endswith(tail.lstrip())
    return one == other


def _short(value: str) -> str:
    return clip(" ".join(value.split()), _SHOWN_CHARS)


def compose(script: Script, checks: Sequence[Check]) -> str:
    """The script with its checks: an assertion for one, a list of what is wrong for several."""
    tree = parse_python(script.source)
    by_line = {check.line: check for check in checks}
    several = len(checks) > 1
    changed = _Checking(by_line, several).visit(tree)
    source = ast.unparse(ast.fix_missing_locations(changed)) + "\n"
    if several:
        source = f"failures = []\n{source}assert not failures, '\\n'.join(failures)\n"
    return source


def compose_output(script: Script) -> str:
    """The script with a check of all that it prints, whatever the white space."""
    tree = parse_python(script.source)
    expected = script.output.expected.split()
    frame = parse_python(
        "import contextlib\nimport io\noutput = io.StringIO()\nwith contextlib.redirect_stdout(output):\n    pass\n"
        f"assert output.getvalue().split() == {expected!r}, 'printed:\\n' + output.getvalue()\n"
    )
    inside = frame.body[3]
    assert isinstance(inside, ast.With)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    inside.body = [node for node in tree.body if node not in future] or inside.body
    frame.body[:0] = future
    return ast.unparse(ast.fix_missing_locations(frame)) + "\n"


def confirms_output(script: Script, output: str) -> bool:
    """Whether a script printed what the report says that it prints, and not what is expected."""
    return output.split() == script.output.actual.split() != script.output.expected.split()


def _shown_value(node: ast.Expr) -> ast.expr | None:
    """What a statement shows; None: nothing that can be asked for twice."""
    if any(isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) for part in ast.walk(node)):
        return None
    match node.value:
        case (
            ast.Call(func=ast.Name(id="print"), args=[ast.Starred(), *_]) | ast.Call(func=ast.Name(id="print"), args=[])
        ):
            return None
        case ast.Call(func=ast.Name(id="print"), args=[shown], keywords=[]):
            return shown
        case ast.Call(func=ast.Name(id="print"), args=shown, keywords=[]):
            joined = parse_python("' '.join(map(str, []))").body[0]
            assert isinstance(joined, ast.Expr) and isinstance(joined.value, ast.Call)
            several = joined.value.args[0]
            assert isinstance(several, ast.Call)
            several.args[1] = ast.List(shown, ast.Load())
            return joined.value
        case ast.Call(func=ast.Name(id="print")):
            return None
    return node.value


class _Telling(ast.NodeTransformer):
    def __init__(self, lines: set[int]) -> None:
        self.lines = lines

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        value = _shown_value(node) if (node.end_lineno or 0) in self.lines else None
        return node if value is None else self._tell(node.end_lineno or 0, value)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        line = node.end_lineno or 0
        if line not in self.lines or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        return [node, self._tell(line, ast.Name(node.targets[0].id, ast.Load()))]

    def _tell(self, line: int, value: ast.expr) -> ast.stmt:
        statement = parse_python(f"_scrout_tell({line}, lambda: 0)").body[0]
        for part in ast.walk(statement):
            if isinstance(part, ast.Lambda):
                part.body = value
        return statement


class _Checking(ast.NodeTransformer):
    """Puts a check in place of a statement that shows a value, and behind an assignment."""

    def __init__(self, checks: Mapping[int, Check], several: bool) -> None:
        self.checks = checks
        self.several = several

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.AST]:
        check = self.checks.get(node.end_lineno or 0)
        value = _shown_value(node) if check else None
        if check is None or value is None:
            return node
        return list(self._statements(check, value, printed=value is not node.value))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        check = self.checks.get(node.end_lineno or 0)
        if check is None or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        name = ast.Name(node.targets[0].id, ast.Load())
        return [node, *self._statements(check, name, printed=False)]

    def _statements(self, check: Check, value: ast.expr, *, printed: bool) -> list[ast.stmt]:
        asked = ast.unparse(value)
        words = f"{asked}: expected {check.expected}, got "
        instead = f"{asked}: expected {check.expected}, raised "
        if check.form == "raises":
            # By its name: the class may be one that the script does not import.
            source = (
                f"try:\n    got = {asked}\nexcept Exception as error:\n"
                f"    if {check.expected!r} not in [kind.__name__ for kind in type(error).__mro__]:\n"
                f"        {self._fail(instead, 'error')}\nelse:\n    {self._fail(words)}"
            )
        elif self.several:
            source = (
                f"try:\n    got = {asked}\n    if not ({_test(check, printed=printed)}):\n        {self._fail(words)}\n"
                f"except Exception as error:\n    {self._fail(instead, 'error')}"
            )
        else:
            source = f"got = {asked}\nassert {_test(check, printed=printed)}, {words!r} + repr(got)"
        return parse_python(source).body

    def _fail(self, words: str, what: str = "got") -> str:
        said = f"{words!r} + repr({what})"
        return f"failures.append({said})" if self.several else f"raise AssertionError({said})"


def _test(check: Check, *, printed: bool) -> str:
    """An expression over `got`."""
    told = " ".join(check.expected.split())
    if check.form in ("repr", "text"):
        function = "repr" if check.form == "repr" else "str"
        return f"' '.join({function}(got).split()) == {told!r}"
    literal = ast.literal_eval(check.expected)
    decimals = re.fullmatch(r"-?\d+\.(\d+)", told)
    if isinstance(literal, float) and decimals:
        test = f"round(got, {len(decimals[1])}) == {literal!r}"
    else:
        test = f"got {'is' if literal is None else '=='} {literal!r}"
    return f"{test} or str(got) in {(told, str(literal))!r}" if printed else test
