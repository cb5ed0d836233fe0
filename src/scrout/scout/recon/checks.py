"""Turns what a report expects into checks that a run has confirmed.

A script is first run with its statements told apart. A check is made of a statement only if the run gave the value that
the report complains of, and not the one that it expects. What the run does not confirm is dropped and told.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from scrout.handoff import Basis
from scrout.scout.recon.expectations import EXCEPTION, StatedValue
from scrout.scout.recon.scripts import Ask, Script, bound_names
from scrout.syntax import is_literal, parse_python
from scrout.text import clip

Form = Literal["value", "expression", "repr", "text", "raises"]
"""How a result is compared with what was expected: as a value, with what an expression gives, by its repr, as it is
printed, or as an exception."""

MARK = "scrout-tells:"
_TELLING = f"""\
def _scrout_tell(line, ask, expressions, files):
    import json
    import os
    told = {{"equal": [], "comparable": [], "missing": [name for name in files if not os.path.exists(name)]}}
    value = object()
    try:
        value = ask()
        told["repr"], told["text"] = repr(value)[:3000], str(value)[:3000]
    except Exception as error:
        told["error"], told["message"] = type(error).__name__, str(error)[:500]
    for source, expression in expressions.items():
        try:
            one, other = expression(), expression()
            if one == other:
                told["comparable"].append(source)
                if type(one) is type(value) and one == value:
                    told["equal"].append(source)
        except Exception:
            pass
    print("\\n{MARK}" + json.dumps([line, told]), flush=True)
"""
_SHOWN_CHARS = 60
_PLACE = re.compile(r'^[ \t]*File "[^"\n]*", line \d+|^ *[~^][ ~^]*$', re.M)
"""In a traceback: where something lies differs between machines, and how it is marked between versions."""
_FILE = re.compile(
    r"(?!/)[\w./-]*\.(?:txt|csv|tsv|json|ya?ml|toml|ini|cfg|conf|env|xml|html?|md|rst|py|sql|log|dat|gexf|gml|graphml|net|pkl"
    r"|pickle|np[yz]|png|jpe?g|pdf|xlsx?|od[st]|db|sqlite|dcm|ics|zip|gz|tar)"
)
_NOTHING_RAISED = re.compile(
    r"\b(?:should|must|ought to)(?:n['\u2019]t| not| never) (?:be )?(?:raise|fail|throw|crash)"
    r"|\bno (?:exception|error)s?\b",
    re.I,
)
_LEADING_NAME = re.compile(r"`?(?:\w+\.)*+(\w++)(?!\.)")
_REPR = re.compile(r"<[A-Z]\w*(?! object at)[ (][^\n]*>")
"""How an object shows itself: no Python, and no markup."""
_SHARED = 0.2
_NUMBERS = {"nan": "got != got", "inf": "got == float('inf')", "-inf": "got == float('-inf')"}
"""Tests of numbers that have no literal."""


@dataclass(frozen=True)
class ProbeResult:
    """What a statement gave."""

    repr: str = ""
    text: str = ""
    error: str = ""
    message: str = ""
    equal: tuple[str, ...] = ()
    """Expressions of the report that give the same."""
    comparable: tuple[str, ...] = ()
    """Expressions of the report that give an equal value each time."""
    missing: tuple[str, ...] = ()
    """Files that the script names and that were not there."""

    def __str__(self) -> str:
        return f"raises {self.error}" if self.error else f"gives {clip(self.repr, _SHOWN_CHARS)}"


@dataclass(frozen=True)
class ReportCheck:
    """A statement, and what it has to give."""

    line: int
    expected: str
    form: Form
    basis: Basis
    exact: bool = False
    """Whether white space counts in a text."""
    is_unseen: bool = False
    """Whether the run gave no value that would show if the report means one or how it is printed."""


@dataclass(frozen=True)
class ConfirmedChecks:
    """What a run said about a report's expectations."""

    checks: tuple[ReportCheck, ...] = ()
    dropped: tuple[str, ...] = ()
    """Expectations that no check was made of, and why, in words."""
    failed: frozenset[int] = frozenset()
    """Where other statements end that raised an exception."""

    @property
    def basis(self) -> Basis:
        return self.checks[0].basis if self.checks else "assumed"


def probe(script: Script) -> str:
    """The script with each statement that shows a value told apart, and the others that may fail on their own."""
    tree = parse_python(script.source)
    imports, body = _imports_first(tree.body)
    lines = {ask.line for ask in script.asks} | _bare_lines(tree)
    telling = _Telling(lines, script.expressions, _file_names(tree))
    changed = telling.visit(ast.Module(body, []))
    head = ast.unparse(ast.Module(imports, []))  # one of `__future__` has to be first
    return f"{head}\n{_TELLING}{ast.unparse(ast.fix_missing_locations(changed))}\n"


def _file_names(tree: ast.Module) -> list[str]:
    """Texts in a script that look like the name of a file which it does not write itself."""
    made = {id(part) for node in ast.walk(tree) if _writes(node) for part in ast.walk(node)}
    texts: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _FILE.fullmatch(node.value):
            texts[node.value] = texts.get(node.value, False) or id(node) in made
    return sorted(text for text, is_made in texts.items() if not is_made)


def _writes(node: ast.AST) -> bool:
    """Whether a call opens a file to write it."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func).rpartition(".")[2]
    modes = [
        part.value
        for part in (*node.args[1:2], *(word.value for word in node.keywords))
        if isinstance(part, ast.Constant)
    ]
    return called in ("write_text", "write_bytes") or (
        called == "open" and any(isinstance(mode, str) and mode[:1] in ("w", "x") for mode in modes)
    )


def _bare_lines(tree: ast.Module) -> set[int]:
    """Where statements end that only call something: those that follow do not need them."""
    return {node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Expr)}


def read_results(output: str) -> dict[int, ProbeResult]:
    """What each statement gave; one that was reached several times says nothing."""
    found: dict[int, ProbeResult] = {}
    again: set[int] = set()
    for line in output.splitlines():
        if line.startswith(MARK):
            try:
                number, told = json.loads(line.removeprefix(MARK))
                result = ProbeResult(**{str(key): _plain(value) for key, value in told.items()})
            except (ValueError, TypeError, AttributeError):
                continue
            if found.setdefault(int(number), result) != result:
                again.add(int(number))
    return {number: result for number, result in found.items() if number not in again}


def _plain(value: object) -> Any:
    return tuple(map(str, value)) if isinstance(value, list) else str(value)


def confirm(script: Script, results: Mapping[int, ProbeResult], text: str) -> ConfirmedChecks:
    """The checks that the results confirm: those whose actual value the report tells, else the others."""
    checks: list[ReportCheck] = []
    dropped = left_over(script)
    asked = [ask for ask in script.asks if ask.told.expected]
    for pair in script.pairs:
        giving = [line for line, result in results.items() if _form(pair.actual, result)]
        if not giving and pair.actual.startswith("`"):
            pair = StatedValue(pair.actual.strip("`"), pair.expected.strip("`"))
            giving = [line for line, result in results.items() if _form(pair.actual, result)]
        matching = [line for line in giving if line in {ask.line for ask in script.asks}] or giving
        if len(matching) == 1:
            asked.append(Ask(matching[0], pair))
        else:
            which = "no statement gives" if not matching else "several statements give"
            dropped.append(f"{which} {_short(pair.actual)}, so {_short(pair.expected)} belongs to none")
    failed = _failed(script, results)
    for ask in asked:
        # Past a failure that the report may be about, only what it tells of the result counts.
        earlier = [results[line] for line in failed if line < ask.line]
        reached = not earlier or (ask.told.actual and not any(_form(ask.told.actual, one) for one in earlier))
        made = _check(ask.line, ask.told, results.get(ask.line) if reached else None, text, script.expressions)
        if isinstance(made, ReportCheck):
            checks.append(made)
        else:
            dropped.append(made)
    certain = [check for check in checks if check.basis == "confirmed"]
    lines = {check.line: check for check in certain or checks}
    if trapped := _trapped(script, lines):
        return ConfirmedChecks(dropped=(*dropped, trapped))
    raised = {line for line, result in results.items() if result.error and line not in lines}
    return ConfirmedChecks(tuple(lines[line] for line in sorted(lines)), tuple(dropped), frozenset(raised))


def _trapped(script: Script, checks: Mapping[int, ReportCheck]) -> str:
    """Why a right fix could raise an expected exception outside of the `try` of its check; empty: it cannot."""
    body = parse_python(script.source).body
    imported = bound_names(ast.Module([node for node in body if isinstance(node, ast.Import | ast.ImportFrom)], []))
    outside: set[str] = set()
    for before, node in _steps(body, checks):
        here = [check for line, check in checks.items() if node.lineno <= line <= (node.end_lineno or 0)]
        leading = _names(*before) - imported
        raised = next((check for check in here if check.form == "raises"), None)
        if raised is None:
            outside |= leading - _names(node)  # what the value is made of has to work
        elif not isinstance(node, ast.Expr | ast.Assign) or outside & (leading | _names(node)):
            return f"{raised.expected} could rightly be raised before the statement that is to raise it"
    return ""


def _steps(body: Sequence[ast.stmt], lines: Collection[int]) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """Each statement that ends on one of some lines, or has it inside, with those between it and the one before."""
    before: list[ast.stmt] = []
    for node in body:
        if any(node.lineno <= line <= (node.end_lineno or 0) for line in lines):
            yield before, node
            before = []
        else:
            before.append(node)


def _names(*nodes: ast.AST) -> set[str]:
    """The names that statements use or set."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def _failed(script: Script, results: Mapping[int, ProbeResult]) -> set[int]:
    """Where statements end that raised, and of which the report tells nothing."""
    asked = {ask.line for ask in script.asks if ask.told}
    return {line for line, result in results.items() if result.error and line not in asked}


def left_over(script: Script) -> list[str]:
    """Expected values that the report gives to no statement for certain, in words."""
    return [f"{_short(value)} is expected of no certain statement" for value in script.unpaired]


def _check(
    line: int, told: StatedValue, result: ProbeResult | None, text: str, expressions: Collection[str]
) -> ReportCheck | str:
    """A check, or why there is none."""
    wanted = _short(told.expected)
    if result is None:
        return f"the statement that should give {wanted} was not reached"
    if not (told.actual and _form(told.actual, result)):
        told = StatedValue(told.actual.strip("`"), told.expected.strip("`"))  # unless they belong to the value
    told = _quoted(told, result)
    if _form(told.expected, result, exact=_differ_in_space(told)):
        return f"it gives {wanted} as expected"
    if result.missing:
        return f"it {result} here, where {result.missing[0]} does not exist"
    form = _form(told.actual, result) if told.actual else None
    if told.actual and form is None:
        return f"it {result} here, where the report has {_short(told.actual)}"
    raised = EXCEPTION.fullmatch(told.expected.partition(":")[0].strip())
    if raised and _NOTHING_RAISED.search(text):
        return f"{wanted} may be meant as a value: nothing should be raised, the report says"
    if raised:
        told_so = told.actual or (result.error and result.error in text)
        return ReportCheck(line, raised[1], "raises", "confirmed" if told_so else "assumed")
    if result.error and not told.actual:  # its own failure says enough, if the report tells of it
        return f"it {result}, and the report does not say that this belongs to {wanted}"
    if _is_cut(told):
        return f"{wanted} is not told as a whole"
    basis: Basis = "confirmed" if told.actual else "assumed"
    if is_literal(told.expected) or told.expected in _NUMBERS:
        return ReportCheck(line, told.expected, "value", basis, is_unseen=bool(result.error))
    if told.expected.isidentifier() and told.expected in expressions and form == "text":
        return f"{wanted} may be a word or what has that name"
    if told.expected in result.comparable:
        return ReportCheck(line, told.expected, "expression", basis)
    if _REPR.fullmatch(told.expected):
        return ReportCheck(line, told.expected, "repr", basis)
    if told.expected in expressions or (form == "repr" and is_literal(told.actual)):
        return f"{wanted} is no value that can be compared"
    if "\n" in told.expected.strip() and not _alike(told):
        return f"{wanted} has nothing in common with what came out"
    if form in ("repr", "text"):  # in the same words as what came out
        return ReportCheck(line, told.expected, form, basis, exact=_differ_in_space(told))
    return f"{wanted} is no value that can be compared"


def _quoted(told: StatedValue, result: ProbeResult) -> StatedValue:
    """The values with quotes, where the report leaves them out: `\\n# a` is what the result has, by its escapes."""
    values = [f"'{value}'" for value in (told.actual, told.expected)]
    escaped = (
        "\\" in told.actual and all(map(is_literal, values)) and not any(map(is_literal, (told.actual, told.expected)))
    )
    return StatedValue(*values) if escaped and ast.literal_eval(values[0]) == result.text else told


def _form(told: str, result: ProbeResult, *, exact: bool = False) -> Form | None:
    """How a value that is told agrees with a result, whatever the white space if not `exact`; None: it does not."""
    if result.error:
        named = _LEADING_NAME.match(told.strip())
        return "raises" if named and named[1] == result.error else None
    if _same(told, result.repr, exact=exact):
        return "repr"
    if _same(told, result.text, exact=exact):
        return "text"
    if is_literal(told) and ast.literal_eval(told) == result.text:
        return "text"
    if is_literal(told) and is_literal(result.repr):
        one, other = ast.literal_eval(told), ast.literal_eval(result.repr)
        return "value" if (type(one) is type(other) and one == other) or _rounds(told, other) else None
    return "expression" if told in result.equal else None


def _rounds(told: str, value: object) -> bool:
    """People write as many decimals as they care about."""
    decimals = re.fullmatch(r"-?\d+\.(\d+)", told.strip())
    return decimals is not None and isinstance(value, float) and round(value, len(decimals[1])) == float(told)


def _same(told: str, shown: str, *, exact: bool) -> bool:
    if exact:
        return told.strip() == shown.strip()
    one, other = " ".join(told.split()), " ".join(shown.split())
    if "..." in one and one.strip(". ") and "..." not in other:
        head, _, tail = one.partition("...")
        return len(head) + len(tail) >= 8 and other.startswith(head.rstrip()) and other.endswith(tail.lstrip())
    return one == other


def _short(value: str) -> str:
    return clip(" ".join(value.split()), _SHOWN_CHARS)


def compose(script: Script, checks: Sequence[ReportCheck], failed: Collection[int] = ()) -> str:
    """The script with its checks: an assertion for one, a list of what is wrong for several.

    Statements that `failed` before a check must not keep it from being made. The script ends with the last check. An
    expected exception may come from any statement since the check before.
    """
    tree = parse_python(script.source)
    by_line = {check.line: check for check in checks}
    several = len(checks) > 1
    last = max(by_line, default=0)
    checking = _Checking(by_line, several, {line for line in failed if line < last})
    body: list[ast.stmt] = []
    guarded: set[str] = set()
    for before, node in _steps(tree.body, by_line):  # what comes behind is about something else
        imports, before = _imports_first(before)
        body += imports
        check = by_line.get(node.end_lineno or 0)
        checking.may_be_unset = not guarded.isdisjoint(_names(*before, node))
        made = [*map(checking.visit, before), *checking.visit_all(node)]
        if check is not None and check.form == "raises":
            guard = made.pop()
            assert isinstance(guard, ast.Try)
            guard.body[:0] = made
            guarded |= bound_names(ast.Module(made, []))
            made = [guard]
        body += made
    tree.body = body
    source = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    if several:
        source = f"failures = []\n{source}assert not failures, '\\n'.join(failures)\n"
    return source


def _imports_first(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The imports that statements begin with, behind a docstring if there is one, and the rest."""
    imports = list(takewhile(_is_import_or_text, body))
    return imports, body[len(imports) :]


def _is_import_or_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def accept_exceptions(source: str, shown: str, others: Collection[str]) -> str:
    """A script that fails with the exception that a report shows, and passes with others that it calls right."""
    tree = parse_python(source)
    head, body = _imports_first(tree.body)
    frame = parse_python(
        "try:\n    pass\nexcept BaseException as error:\n"
        f"    if type(error).__name__ == {shown!r} or {{{', '.join(map(repr, others))}}}.isdisjoint("
        "kind.__name__ for kind in type(error).__mro__):\n        raise\n"
    )
    guard = frame.body[0]
    assert isinstance(guard, ast.Try)
    guard.body = body or guard.body
    frame.body[:0] = head
    return ast.unparse(ast.fix_missing_locations(frame)) + "\n"


def compose_output(script: Script) -> str:
    """The script with a check of all that it prints, whatever the white space if that is not what is wrong."""
    tree = parse_python(script.source)
    exact = _differ_in_space(script.output)
    expected = _printed(script.output.expected, exact=exact)
    got = (
        "[line.rstrip() for line in output.getvalue().strip('\\n').splitlines()]"
        if exact
        else "output.getvalue().split()"
    )
    # A traceback in a message would be read as one more.
    shown = "repr(output.getvalue())" if "Traceback" in script.output.actual else "output.getvalue()"
    frame = parse_python(
        "import contextlib\nimport io\noutput = io.StringIO()\nwith contextlib.redirect_stdout(output):\n    pass\n"
        f"assert {got} == {expected!r}, 'printed:\\n' + {shown}\n"
    )
    inside = frame.body[3]
    assert isinstance(inside, ast.With)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    inside.body = [node for node in tree.body if node not in future] or inside.body
    frame.body[:0] = future
    return ast.unparse(ast.fix_missing_locations(frame)) + "\n"


def confirms_output(script: Script, output: str) -> bool:
    """Whether a script printed what the report says that it prints, and not what is expected."""
    exact = _differ_in_space(script.output)
    actual, expected = (_printed(text, exact=exact) for text in (script.output.actual, script.output.expected))
    whole = not _is_cut(script.output) and _alike(script.output)
    return whole and _printed(output, exact=exact) == actual != expected


def _is_cut(told: StatedValue) -> bool:
    """Whether a part of what is expected is left out, so that nothing equals it. In a string dots are dots."""
    if is_literal(told.expected) and isinstance(ast.literal_eval(told.expected), str):
        return False
    return any(dots in told.expected and dots not in told.actual for dots in ("...", "\u2026"))


def _alike(output: StatedValue) -> bool:
    """Whether what is expected may be an output of the same script: it shares some words with what came out."""
    actual, expected = (set(re.findall(r"\w+", text)) for text in (output.actual, output.expected))
    return len(actual & expected) >= max(1, _SHARED * min(len(actual), len(expected)))


def _differ_in_space(output: StatedValue) -> bool:
    return output.actual.split() == output.expected.split()


def without_later_failures(source: str, line: int) -> str:
    """A script that fails at a line, without calls further down of which a comment says that they fail too: they may
    still do so once it is mended."""
    lines = source.splitlines()
    later = [node for node in parse_python(source).body if node.lineno > line and isinstance(node, ast.Expr)]
    for node in later:
        end = node.end_lineno or node.lineno
        if EXCEPTION.search(lines[end - 1].encode()[node.end_col_offset or 0 :].decode()):
            lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    return "\n".join(lines) + "\n"


def _printed(text: str, *, exact: bool) -> list[str]:
    """What is compared of an output: its words, or its lines without the space behind them."""
    text = _PLACE.sub("", text)
    return [line.rstrip() for line in text.strip("\n").splitlines()] if exact else text.split()


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
    def __init__(self, lines: set[int], expressions: Sequence[str], files: Sequence[str]) -> None:
        self.lines = lines
        self.files = files
        self.expressions = "".join(f"{source!r}: lambda: {source}, " for source in expressions)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        value = _shown_value(node) if (node.end_lineno or 0) in self.lines else None
        return node if value is None else self._tell(node.end_lineno or 0, value)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        line = node.end_lineno or 0
        if line not in self.lines or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        return [node, self._tell(line, ast.Name(node.targets[0].id, ast.Load()))]

    def _tell(self, line: int, value: ast.expr) -> ast.stmt:
        statement = parse_python(f"_scrout_tell({line}, lambda: 0, {{{self.expressions}}}, {self.files!r})").body[0]
        first = next(part for part in ast.walk(statement) if isinstance(part, ast.Lambda))
        first.body = value
        return statement


class _Checking(ast.NodeTransformer):
    """Puts a check in place of a statement that shows a value, and behind an assignment."""

    def __init__(self, checks: Mapping[int, ReportCheck], several: bool, failed: Collection[int]) -> None:
        self.checks = checks
        self.several = several
        self.failed = failed
        self.may_be_unset = False
        """Whether names that a check needs are set only where no expected exception came first."""

    def visit_all(self, node: ast.stmt) -> list[ast.stmt]:
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.AST]:
        check = self.checks.get(node.end_lineno or 0)
        if node.end_lineno in self.failed:
            guard = parse_python("try:\n    pass\nexcept Exception:\n    pass\n").body[0]
            assert isinstance(guard, ast.Try)
            guard.body = [node]
            return guard
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

    def _statements(self, check: ReportCheck, value: ast.expr, *, printed: bool) -> list[ast.stmt]:
        asked = ast.unparse(value)
        words = f"{asked}: expected {check.expected}, got "
        shown = "' '.join(str(got).split())" if check.form == "text" and not check.exact else "repr(got)"
        instead = f"{asked}: expected {check.expected}, raised "
        if check.form == "raises":
            # By its name: the class may be one that the script does not import.
            unset = "type(error) is not NameError and " if self.may_be_unset else ""
            source = (
                f"try:\n    got = {asked}\n    print({shown})\nexcept Exception as error:\n"
                f"    if {unset}{check.expected!r} not in [kind.__name__ for kind in type(error).__mro__]:\n"
                f"        {self._fail(instead, 'repr(error)')}\nelse:\n    {self._fail(words, shown)}"
            )
        elif self.several:
            test = _test(check, printed=printed)
            source = (
                f"try:\n    got = {asked}\n    print({shown})\n"
                f"    if not ({test}):\n        {self._fail(words, shown)}\n"
                f"except Exception as error:\n    {self._fail(instead, 'repr(error)')}"
            )
        else:
            source = f"got = {asked}\nprint({shown})\nassert {_test(check, printed=printed)}, {words!r} + {shown}"
        return parse_python(source).body

    def _fail(self, words: str, shown: str) -> str:
        said = f"{words!r} + {shown}"
        return f"failures.append({said})" if self.several else f"raise AssertionError({said})"


def _test(check: ReportCheck, *, printed: bool) -> str:
    """An expression over `got`."""
    told = " ".join(check.expected.split())
    if check.form in ("repr", "text"):
        function = "repr" if check.form == "repr" else "str"
        if check.exact:
            return f"{function}(got).strip() == {check.expected.strip()!r}"
        return f"' '.join({function}(got).split()) == {told!r}"
    if check.form == "expression":
        return f"got == ({check.expected})"
    if told in _NUMBERS:
        return _NUMBERS[told]
    literal = ast.literal_eval(check.expected)
    decimals = re.fullmatch(r"-?\d+\.(\d+)", told)
    if isinstance(literal, float) and decimals:
        test = f"round(got, {len(decimals[1])}) == {literal!r}"
    else:
        test = f"got {'is' if literal is None else '=='} {literal!r}"
    if isinstance(literal, list | tuple | set | dict):
        # An object of another type may be shown like this: an interval as `[0,2]`.
        test = f"{test} or repr(got) in {(told, repr(literal))!r}"
    return f"{test} or str(got) in {(told, str(literal))!r}" if printed or check.is_unseen else test
