"""Python of an issue's text that uses the repository, made complete where that takes no invention. Nothing runs here.

A script comes with what the report says about its statements: what each gave, and what was expected. A pair counts only
where the report fixes it: on the same line, in the same sentence, or as many values as statements, in order. Two values
that belong together and to no statement are left to a run: one statement may give the value that is complained of.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from typing import Literal

from scrout.scout.recon.blocks import MAX_BLOCKS, MAX_TEXT_CHARS, Block, is_session, read_session, segments
from scrout.scout.recon.commands import inline_python
from scrout.scout.recon.expectations import (
    EXCEPTION,
    NOTHING,
    Told,
    find_expression,
    leading_value,
    read_table,
    read_told,
    sentences,
)
from scrout.syntax import is_literal, parse_python

MAX_SCRIPTS = 5
MAX_SCRIPT_CHARS = 65_536
MAX_ASKS = 20
"""Statements of a script that a report says something about."""
MAX_OUTPUT_CHARS = 3_000

_PYTHON_TAGS = ("", "python", "py", "python3", "pycon", "ipython", "ipython3", "python-console", "pytb", "doctest")
_TRACEBACK = re.compile(r"^.*Traceback \(most recent call last\).*$", re.M)
_FRAME = re.compile(r'^  File "[^"\n]+", line \d+', re.M)
_EXCEPTION = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt|Warning|Group))(?::.*)?$", re.M)
_ALIASES = {"np": "import numpy as np", "pd": "import pandas as pd"}
"""Names that everybody gives the same module."""
_HOMES = (
    "typing",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "collections",
    "pathlib",
    "fractions",
    "functools",
    "io",
)
"""Modules whose names are used without telling where they come from, best known first."""

_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*|__|[-*]\s+\*\*)|:\**\s*$|^\s*[A-Z][\w ]{2,40}\??$")
_EXPECTED_HEAD = re.compile(
    r"\bexpect(?:ed|ation)?\b|\b(?:should|must|would)\s+(?:be|have|return|give|print|look|happen|output|see)\b"
    r"|\bcorrect (?:output|result|behaviou?r)\b|\bdesired\b|\bwant(?:ed)?\b",
    re.I,
)
_ACTUAL_HEAD = re.compile(
    r"\bactual(?:ly)?\b|\bcurrent(?:ly)?\b|\bobserved\b|\bgot\b|\bi (?:get|see)\b|\b(?:we|it) gets?\b|\boutputs?\b"
    r"|\bresults?\b|\bprints?\b|\bwhat happen(?:s|ed)\b|\binstead\b|\breturns?\b|\bgives?\b",
    re.I,
)
_NOT_EXPECTED = re.compile(r"\b(?:un|not (?:as |what i )?)expected\b|\bunexpected\b", re.I)


@dataclass(frozen=True)
class Ask:
    """A statement of a script that shows a value, with what the report says about it."""

    line: int
    """The last one of the statement."""
    told: Told = NOTHING


@dataclass(frozen=True)
class Script:
    """Python from an issue that uses something of the repository."""

    source: str
    root: str
    """Folder that has to be on Python's path; empty: the repository's root is enough."""
    expected: str | None = None
    """The exception that the issue shows for it; None: it shows none."""
    runner: Literal["pytest", "unittest"] | None = None
    """What has to call the tests that it defines; None: it defines none."""
    asks: tuple[Ask, ...] = ()
    pairs: tuple[Told, ...] = ()
    """Values that the report pairs with each other and with no statement."""
    output: Told = NOTHING
    """All that it prints, if the report tells that as a whole."""
    unpaired: tuple[str, ...] = ()
    """Expected values that belong to no statement for certain."""

    @property
    def says_what_is_right(self) -> bool:
        return any(ask.told.expected for ask in self.asks) or any(pair.expected for pair in (*self.pairs, self.output))


def find_scripts(
    text: str, top_levels: Mapping[str, str], exports: Mapping[str, str] | None = None
) -> tuple[Script, ...]:
    """Candidates in the order of the text, those with unknown names last.

    `exports` has the import statement for each name that the repository's packages offer.
    """
    earlier: list[_Piece] = []
    complete: dict[str, Script] = {}
    incomplete: dict[str, Script] = {}
    for shown in islice(_shown(text[:MAX_TEXT_CHARS]), MAX_BLOCKS):
        piece = _Piece(shown.source)
        whole, unknown = _completed(piece, earlier, exports or {})
        earlier.append(piece)
        tree = _parse(whole)
        root = _root(tree, top_levels)
        if tree is None or root is None or len(whole) > MAX_SCRIPT_CHARS or not _does_something(piece.tree):
            continue
        above = whole.count("\n") - shown.source.count("\n")
        asks, pairs, output, unpaired = shown.settled()
        asks = tuple(replace(ask, line=ask.line + above) for ask in asks)
        found = incomplete if unknown else complete
        script = Script(whole, root, shown.error, _runner(tree), asks, pairs, output, unpaired)
        if whole not in found or not found[whole].says_what_is_right:
            found[whole] = script
    return tuple((complete | incomplete).values())[:MAX_SCRIPTS]


@dataclass
class _Shown:
    """A piece of code as the report shows it, while what is said about it is being collected."""

    source: str
    error: str | None = None
    asks: list[Ask] = field(default_factory=list)
    loose: list[Told] = field(default_factory=list)
    """What lines near it say, each by itself."""
    outputs: dict[str, str] = field(default_factory=dict)
    """Blocks that are headed as expected or actual."""

    def settled(self) -> tuple[tuple[Ask, ...], tuple[Told, ...], Told, tuple[str, ...]]:
        """Statements with their values, pairs without a statement, the output as a whole, and what is left over."""
        for role in ("actual", "expected"):
            block = self.outputs.get(role, "").strip()
            lines = block.splitlines()
            if block and (len(lines) == 1 or len(lines) == sum(not ask.told.expected for ask in self.asks)):
                self.loose += [Told(**{role: line.strip()}) for line in lines]
                del self.outputs[role]
        output = Told(self.outputs.get("actual", ""), self.outputs.get("expected", ""))
        both = [told for told in self.loose if told.actual and told.expected]
        expected = [told.expected for told in self.loose if told.expected and not told.actual]
        actual = [told.actual for told in self.loose if told.actual and not told.expected]
        free = [number for number, ask in enumerate(self.asks) if not ask.told.expected]
        if both and len(both) == len(free) and not expected:
            for number, told in zip(free, both, strict=True):
                known = self.asks[number].told
                self.asks[number] = replace(self.asks[number], told=Told(known.actual or told.actual, told.expected))
            both = []
        elif expected and len(expected) == len(free) and not both:
            given = actual if len(actual) == len(free) else [""] * len(free)
            for number, value, came in zip(free, expected, given, strict=True):
                known = self.asks[number].told
                self.asks[number] = replace(self.asks[number], told=Told(known.actual or came, value))
            expected = []
        elif expected and len(expected) == len(actual):
            both += [Told(came, value) for came, value in zip(actual, expected, strict=True)]
            expected = []
        return tuple(self.asks[:MAX_ASKS]), tuple(both[:MAX_ASKS]), output, tuple(expected[:MAX_ASKS])


def _shown(text: str) -> Iterator[_Shown]:
    """Python in the order of the text, with what the text says about each piece."""
    found: list[_Shown] = []
    before: list[Told] = []
    """What is said before there is any code."""
    section = ""
    table: list[str] = []
    for part in segments(text):
        if isinstance(part, Block):
            found += _in_block(part, section or _role_of(part.above), found)
            if found and before:
                found[-1].loose += before
                before = []
            if not _is_heading(part.above):
                section = ""
            continue
        if part.lstrip().startswith("|"):
            table.append(part)
            continue
        found += [_Shown(f"{code}\n", asks=[Ask(1, told)]) for code, told in _rows(table)]
        table = []
        if _is_heading(part):
            section = _role_of(part)
        for sentence in sentences(part):
            code, rest = find_expression(sentence)
            told = read_told(rest) if code else read_told(sentence)
            if code and not rest.strip(" .:,") and sentence.strip().startswith("`") and _is_expression(code):
                found.append(_Shown(f"{code}\n", asks=[Ask(1)]))  # a line of its own
                if before:
                    found[-1].loose, before = before, []
                continue
            raised = EXCEPTION.match(told.actual)
            if code and (told.expected or raised) and _is_expression(code):
                found.append(_Shown(f"{code}\n", raised[1] if raised else None, asks=[Ask(1, told)]))
            elif not told and section and (value := _whole_value(sentence)):
                told = Told(**{section: value})
            if told and not code:
                (found[-1].loose if found else before).append(told)
    found += [_Shown(f"{code}\n", asks=[Ask(1, told)]) for code, told in _rows(table)]
    yield from found


def _rows(table: Sequence[str]) -> Iterator[tuple[str, Told]]:
    return ((code, told) for code, told in read_table(table) if _is_expression(code) and not is_literal(code))


def _in_block(block: Block, role: str, known: Sequence[_Shown]) -> Iterator[_Shown]:
    """The code in a block; or nothing, where it is a value or an output of the code before."""
    yield from (_Shown(code) for code in inline_python(block))
    if is_session(block.code):
        yield _from_session(block, role)
        return
    if _TRACEBACK.match(block.code) or (_FRAME.search(block.code) and _parse(block.code) is None):
        if known and known[-1].error is None:
            known[-1].error = _last_exception(block.code)
        return
    is_code = block.tag in _PYTHON_TAGS and _does_something(_parse(block.code) or ast.Module([], []))
    value = _value(block.code)
    if role and known and (value or not is_code):
        if len(block.code) <= MAX_OUTPUT_CHARS:
            known[-1].outputs.setdefault(role, block.code)
        if role == "actual" and known[-1].error is None:
            known[-1].error = _last_exception(block.code)
        return
    if block.tag in _PYTHON_TAGS and not value:
        source, error = _from_script(block)
        if source.strip() and _parse(source) is not None:
            yield _Shown(source, error, _asks(source))


def _is_heading(line: str) -> bool:
    return bool(_HEADING.search(line)) and len(line) < 120


def _role_of(line: str) -> str:
    """What a heading, or the line above a block, says of the values below it; empty: nothing."""
    if _NOT_EXPECTED.search(line):
        return "actual"
    expected, actual = _EXPECTED_HEAD.search(line), _ACTUAL_HEAD.search(line)
    if expected and actual:
        # "Expected output:" is expected, "expected X but got:" is not.
        return "actual" if re.search(r"\b(?:but|instead|however)\b", line, re.I) else "expected"
    return "expected" if expected else "actual" if actual else ""


def _whole_value(sentence: str) -> str:
    """The value that a line consists of; empty: it says more, or none."""
    plain = sentence.strip().lstrip("-*> \t")
    value = leading_value(plain)
    rest = plain.partition(value)[2].lstrip("`* \t") if value else ""
    return value if not rest or rest[0] in ".,;(" else ""


def _from_session(block: Block, role: str) -> _Shown:
    """What was typed and answered. Lines that are not Python, such as magic, go."""
    lines: list[str] = []
    asks: list[Ask] = []
    for typed, answer in read_session(block.code):
        if _parse(typed) is None:
            continue
        lines += typed.split("\n")
        told = read_told(_comment(typed))
        if _is_expression(typed) and not _TRACEBACK.search(answer) and answer:
            given = Told(expected=answer) if role == "expected" else Told(answer, told.expected)
            asks.append(Ask(len(lines), given))
        elif _is_expression(typed):
            raised = _last_exception(answer) or ""
            asks.append(Ask(len(lines), Told(raised or told.actual, told.expected)))
    return _Shown("\n".join(lines).rstrip() + "\n", _last_exception(block.code), asks)


def _comment(source: str) -> str:
    found = [text for _, text in _comments(source)]
    return found[-1] if found else ""


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments with the line that each is about: its own, or the one above where it stands alone."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            yield token.start[0] - alone, token.string


def _asks(source: str) -> list[Ask]:
    """The statements of a script that show a value: what is printed, what a comment tells of, and its last line."""
    tree = _parse(source)
    if tree is None:
        return []
    comments: dict[int, str] = {}
    for line, text in _comments(source):
        comments[line] = f"{comments[line]} {text}" if line in comments else text
    found: dict[int, Ask] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr | ast.Assign) or isinstance(getattr(node, "value", None), ast.Constant):
            continue
        line = node.end_lineno or node.lineno
        told = read_told(comments.get(line, ""))
        printed = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        printed = printed and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"
        is_last = isinstance(node, ast.Expr) and bool(tree.body) and node is tree.body[-1]
        if told or (isinstance(node, ast.Expr) and (printed or is_last)):
            found[line] = Ask(line, told)
    return [found[line] for line in sorted(found)]


def _from_script(block: Block) -> tuple[str, str | None]:
    """A script, without the traceback that some paste below it."""
    end = _TRACEBACK.search(block.code)
    return (block.code[: end.start()], _last_exception(block.code)) if end else (block.code, None)


def _last_exception(code: str) -> str | None:
    start = _TRACEBACK.search(code)
    start = start or _FRAME.search(code)  # some paste its end alone
    named = _EXCEPTION.findall(code[start.end() :]) if start else []
    if not named and (alone := EXCEPTION.match(code.strip())) and code.strip().count("\n") < 2:
        return alone[1]
    return named[-1] if named else None


def _is_expression(line: str) -> bool:
    tree = _parse(line)
    return tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)


def _value(text: str) -> str:
    """A Python literal, as written; empty: it is none."""
    text = text.strip()
    return text if len(text) <= MAX_OUTPUT_CHARS and is_literal(text) else ""


def _parse(source: str) -> ast.Module | None:
    """None: not Python, or nested too deeply to be."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Piece:
    """Source, the names that it binds, and those that it uses and does not bind."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = _parse(source) or ast.Module([], [])
        self.bound = _bound(self.tree)
        self.imports = _imports(self.tree)
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.missing = used - self.bound - set(dir(builtins)) - {"__file__", "__name__"}


def _completed(piece: _Piece, earlier: Sequence[_Piece], exports: Mapping[str, str]) -> tuple[str, bool]:
    """The source with what it needs of earlier blocks and of imports; and whether a name is still unknown."""
    missing = set(piece.missing)
    head: list[str] = []
    for other in reversed(earlier):
        wanted = missing & other.bound
        imports = [other.imports.get(name) for name in sorted(wanted)]
        if all(imports):
            head = [statement for statement in imports if statement] + head
            missing -= wanted
        else:
            head.insert(0, other.source.rstrip())
            missing = (missing - other.bound) | other.missing
    offered = {name: statement for name in sorted(missing) if (statement := exports.get(name) or _standard(name))}
    head = [*offered.values(), *head]
    return "\n".join([*dict.fromkeys(head), piece.source]), bool(missing - offered.keys())


def _standard(name: str) -> str | None:
    """The import that everybody means by a name: an alias, a module of the standard library, or something in one."""
    if name in _ALIASES:
        return _ALIASES[name]
    if name in sys.stdlib_module_names and not name.startswith("_"):
        return f"import {name}"
    home = next((home for home in _HOMES if name in dir(import_module(home)) and not name.startswith("_")), None)
    return f"from {home} import {name}" if home else None


def _bound(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
    return names


def _imports(tree: ast.Module) -> dict[str, str]:
    """The statement that binds a name, for each that an import and nothing else binds."""
    found: dict[str, str] = {}
    others: set[str] = set()
    for node in tree.body:
        names = _bound(node)
        others |= names & found.keys()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= dict.fromkeys(names, ast.unparse(node))
        else:
            others |= names
    return {name: statement for name, statement in found.items() if name not in others}


def _root(tree: ast.Module | None, top_levels: Mapping[str, str]) -> str | None:
    """Where what the script imports of the repository lies; None: it imports nothing of it."""
    roots = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            roots += [top_levels.get(alias.name.partition(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.append(top_levels.get(node.module.partition(".")[0]))
    return max((root for root in roots if root is not None), default=None)


def _does_something(tree: ast.Module) -> bool:
    """A bare word in an indented paragraph is Python too. Importing may be what fails."""
    return any(isinstance(node, ast.Call | ast.Import | ast.ImportFrom | ast.Assert) for node in ast.walk(tree))


def _runner(tree: ast.Module) -> Literal["pytest", "unittest"] | None:
    cases = [node for node in tree.body if isinstance(node, ast.ClassDef) and any(map(_is_test, node.body))]
    if any(map(_is_test, tree.body)):
        return "pytest"
    for_unittest = all(any("TestCase" in ast.unparse(base) for base in case.bases) for case in cases)
    return ("unittest" if for_unittest else "pytest") if cases else None


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def find_imports(sources: Iterable[str]) -> dict[str, str]:
    """The import statement that most of some files have for each name."""
    counted: dict[str, Counter[str]] = {}
    for source in sources:
        tree = _parse(source)
        for node in ast.walk(tree) if tree else ():
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                name = alias.asname or alias.name
                if isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
                    said = f"from {node.module} import {alias.name}"
                elif isinstance(node, ast.Import) and (alias.asname or "." not in alias.name):
                    said = f"import {alias.name}"
                else:
                    continue
                if name.isidentifier():
                    said += f" as {alias.asname}" if alias.asname else ""
                    counted.setdefault(name, Counter())[said] += 1
    return {name: statements.most_common(1)[0][0] for name, statements in counted.items()}


def find_exports(sources: Mapping[str, str]) -> dict[str, str]:
    """The import statement for each public name of the repository's packages; `sources` has their top modules."""
    found: dict[str, str] = {}
    for package, source in sources.items():
        tree = _parse(source)
        for node in tree.body if tree else ():
            match node:
                case ast.ImportFrom(level=level, module=module) if level or f"{module}.".startswith(f"{package}."):
                    names = _bound(node)  # what it imports of others it does not offer
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names = {name}
                case ast.Assign() | ast.AnnAssign():
                    names = _bound(node)
                case _:
                    continue
            for name in sorted(names):
                if name.isidentifier() and not name.startswith("_"):
                    found.setdefault(name, f"from {package} import {name}")
    return found | {package: f"import {package}" for package in sources}
