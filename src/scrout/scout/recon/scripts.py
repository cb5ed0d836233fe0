"""Python of an issue's text that uses the repository, made complete where that takes no invention. Nothing runs here.

An output that the text shows proves nothing, since the reporter may show it as wrong. Only what the text plainly calls
expected becomes an assertion.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from operator import itemgetter
from typing import Literal

from scrout.scout.recon.blocks import MAX_BLOCKS, MAX_TEXT_CHARS, Block, find_blocks, is_session, read_session
from scrout.scout.recon.commands import inline_python
from scrout.syntax import is_literal, parse_python

MAX_SCRIPTS = 5
MAX_SCRIPT_CHARS = 65_536

_PYTHON_TAGS = ("", "python", "py", "python3", "pycon", "ipython", "ipython3", "python-console", "pytb", "doctest")
_TRACEBACK = re.compile(r"^.*Traceback \(most recent call last\).*$", re.M)
_EXCEPTION = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt|Warning|Group))(?::.*)?$", re.M)
_ALIASES = {"np": "import numpy as np", "pd": "import pandas as pd"}
"""Names that everybody gives the same module."""
_MOST_ENDS = 8
_MOST_VALUE_CHARS = 300

_VERB = r"(?:be|equal|return|give|print|yield|output|produce|evaluate to|result in)"
_EXPECTED = re.compile(
    rf"\b(?:expect(?:ed)?\b(?: (?:result|output|value|answer))?(?: to {_VERB})?|(?:should|must) {_VERB})"
    r"[ \t]*(?:is|was|:|=|->|=>)?[ \t]*(\S.{0,300})$",
    re.I,
)
_NEGATED = re.compile(r"(?:\b(?:not|never|no|cannot)|n['\u2019]t)\b[^.:;,]*$", re.I)
_ENDS_VALUE = re.compile(r"[.;!]?$|[,;(]|\.\s|\s(?:but|instead|not|and|got|rather|as|#)\b")
_HEADS_EXPECTED = re.compile(
    rf"\bexpect(?:ed)?(?: (?:behaviou?rs?|results?|outputs?|values?|outcome|to (?:see|get|{_VERB})))?[^\w]*$"
    rf"|\b(?:should|must) (?:{_VERB}|look like)[^\w]*$",
    re.I,
)
_CONTRADICTS = re.compile(r"\b(?:but|got|(?:i|we|it) gets?|actual(?:ly)?|instead|however|unexpected|not)\b", re.I)
_IN_PROSE = re.compile(rf"`([^`\n]{{3,200}})`,? (?:should|must|is expected to|ought to) {_VERB} `([^`\n]{{1,100}})`")


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


def find_scripts(
    text: str, top_levels: Mapping[str, str], exports: Mapping[str, str] | None = None
) -> tuple[Script, ...]:
    """Candidates in the order of the text, those with unknown names last.

    `exports` has the import statement for each name that the repository's packages offer.
    """
    earlier: list[_Piece] = []
    complete: dict[str, Script] = {}
    incomplete: dict[str, Script] = {}
    for source, expected in islice(_sources(text[:MAX_TEXT_CHARS]), MAX_BLOCKS):
        piece = _Piece(source)
        whole, unknown = _completed(piece, earlier, exports or {})
        earlier.append(piece)
        tree = _parse(whole)
        root = _root(tree, top_levels)
        if tree is None or root is None or len(whole) > MAX_SCRIPT_CHARS or not _does_something(piece.tree):
            continue
        whole = _with_assertions(whole, tree)
        found = incomplete if unknown else complete
        found.setdefault(whole, Script(whole, root, expected, _runner(tree)))
    return tuple((complete | incomplete).values())[:MAX_SCRIPTS]


def _sources(text: str) -> Iterator[tuple[str, str | None]]:
    """Python in the order of the text, with the exception that the text shows for each."""
    blocks = find_blocks(text)
    for number, block in enumerate(blocks, 1):
        later = blocks[number:]
        yield from ((code, None) for code in inline_python(block))
        if block.tag not in _PYTHON_TAGS or _TRACEBACK.match(block.code):
            continue
        source, error = _from_session(block) if is_session(block.code) else _from_script(block)
        if not source.strip() or _parse(source) is None:
            continue
        if error is None and later and not is_session(later[0].code):
            error = _last_exception(later[0].code)
        yield _with_expectation_beside(source, block, later), error
    for expression, value in _IN_PROSE.findall(text):
        if _value(value) and "(" in expression:
            yield f"{expression}  # should be {value}\n", None


def _from_session(block: Block) -> tuple[str, str | None]:
    """What was typed, and the exception that the session ends in. Lines that are not Python, such as magic, go."""
    stated = _heads_expected(block.above)
    lines = []
    for typed, answer in read_session(block.code):
        if _parse(typed) is not None:
            asked = stated and _is_expression(typed) and _value(answer)
            lines.append(f"{typed}  # should be {answer}" if asked else typed)
    return "\n".join(lines).rstrip() + "\n", _last_exception(block.code)


def _from_script(block: Block) -> tuple[str, str | None]:
    """A script, without the traceback that some paste below it."""
    end = _TRACEBACK.search(block.code)
    return (block.code[: end.start()], _last_exception(block.code)) if end else (block.code, None)


def _last_exception(code: str) -> str | None:
    start = _TRACEBACK.search(code)
    named = _EXCEPTION.findall(code[start.end() :]) if start else []
    return named[-1] if named else None


def _with_expectation_beside(source: str, block: Block, later: Sequence[Block]) -> str:
    """The source, its last line with what the text expects of it: in the next line, or in a block of its own."""
    last = source.rstrip().rpartition("\n")[2]
    if not _is_expression(last) or "#" in last:
        return source
    # Past a block that is no value, a value is about that block.
    values = takewhile(itemgetter(1), ((other, _value(other.code)) for other in later))
    beside = next((value for other, value in values if _heads_expected(other.above)), "")
    value = _expected_value(block.below) or beside
    return f"{source.rstrip()}  # should be {value}\n" if value else source


def _is_expression(line: str) -> bool:
    tree = _parse(line)
    return tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)


def _heads_expected(line: str) -> bool:
    return bool(_HEADS_EXPECTED.search(line)) and not _CONTRADICTS.search(line)


def _expected_value(remark: str) -> str:
    """The literal that a remark calls expected; empty: it calls none so."""
    match = _EXPECTED.search(remark[:500])
    if not match or _NEGATED.search(remark[: match.start()]):
        return ""
    rest = match[1].strip()
    ends = [rest, *(rest[: end.start()] for end in islice(_ENDS_VALUE.finditer(rest), _MOST_ENDS))]
    return next((value for end in ends if (value := _value(end))), "")


def _value(text: str) -> str:
    """A Python literal in one line, as written; empty: it is none."""
    text = text.strip().strip("`").strip()
    # A repr in several lines was laid out by somebody's hand.
    if "\n" in text or len(text) > _MOST_VALUE_CHARS or not _is_expression(text):
        return ""
    return text if is_literal(text) else ""


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
    offered = {**_ALIASES, **exports}
    head = [offered[name] for name in sorted(missing & offered.keys())] + head
    return "\n".join([*dict.fromkeys(head), piece.source]), bool(missing - offered.keys())


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


def _with_assertions(source: str, tree: ast.Module) -> str:
    """The source, with an assertion wherever a comment at or right below a statement says what to expect."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return source
    expected: dict[int, str] = {}
    for token in tokens:
        if token.type == tokenize.COMMENT and (value := _expected_value(token.string)):
            alone = not token.line[: token.start[1]].strip()
            expected[token.start[0] - alone] = value
    asserting = _Asserting(expected)
    changed = asserting.visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed)) + "\n" if asserting.count else source


class _Asserting(ast.NodeTransformer):
    """Puts an assertion in place of an expression or a print, and behind an assignment, that ends on a given line."""

    def __init__(self, expected: Mapping[int, str]) -> None:
        self.expected = expected
        self.count = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        value = self.expected.get(node.end_lineno or 0)
        if value is None or isinstance(node.value, ast.Await | ast.Yield | ast.YieldFrom):
            return node
        self.count += 1
        match node.value:
            case ast.Call(func=ast.Name(id="print"), args=[shown], keywords=[]) if not isinstance(shown, ast.Starred):
                return _assertion(shown, value, printed=True)
        return _assertion(node.value, value)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        value = self.expected.get(node.end_lineno or 0)
        if value is None or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        self.count += 1
        return [node, _assertion(ast.Name(node.targets[0].id, ast.Load()), value)]


def _assertion(seen: ast.expr, value: str, *, printed: bool = False) -> ast.Assert:
    literal = ast.literal_eval(value)
    if isinstance(literal, float) and "e" not in value.lower():
        # People write as many decimals as they care about.
        test = f"round((_seen := 0), {len(value.partition('.')[2])}) == {literal!r}"
    else:
        test = f"(_seen := 0) {'is' if literal is None else '=='} {literal!r}"
    if printed:
        test += f" or str(_seen) in {(value, str(literal))!r}"
    parsed = parse_python(f"assert {test}, {f'expected {value}, got '!r} + repr(_seen)").body[0]
    assert isinstance(parsed, ast.Assert)
    for node in ast.walk(parsed.test):
        if isinstance(node, ast.NamedExpr):
            node.value = seen
    return parsed


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
