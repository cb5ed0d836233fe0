"""Rewrites test files: removes some of their tests, and turns a failing test into a script as a person would write it.

Only tests that state their call and expectation directly become a script: no fixtures, no helpers of the test suite.
The caller runs the script to see whether it shows the bug.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from scrout.syntax import is_literal, parse_python

Function = ast.FunctionDef | ast.AsyncFunctionDef
Block = ast.Module | ast.ClassDef


def function_of(name: str) -> tuple[str, ...]:
    """The classes and the function of a pytest test name, without its file and parameters."""
    return tuple(name.partition("[")[0].split("::")[1:])


def find_test(tree: ast.Module, name: str) -> Function | None:
    """A test's function if it is written out in its file; None: it is inherited or generated."""
    wanted = function_of(name)
    return next((node for owner, node, _ in _functions(tree) if (*owner, node.name) == wanted), None)


def without_tests(text: str, names: Collection[str]) -> str | None:
    """The file without the functions of these tests; None: not all of them are written out in it."""
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
        # Also remove the lines up to the next statement, except comments that may belong to that one.
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


PLUGIN = "scrout_failures"
PLUGIN_SOURCE = '''"""Notes where and how tests fail, for pytest -p."""
import json


def pytest_runtest_makereport(item, call):
    if call.excinfo is None or call.when != "call":
        return
    params = getattr(getattr(item, "callspec", None), "params", {})
    frames = [[str(entry.path), entry.lineno + 1] for entry in call.excinfo.traceback]
    told = {
        "test": item.nodeid,
        "params": {name: repr(value) for name, value in params.items()},
        "frames": frames,
        "type": call.excinfo.typename,
        "message": str(call.excinfo.value),
    }
    with open("scrout_failures.jsonl", "a", encoding="utf-8", errors="replace") as file:
        file.write(json.dumps(told) + "\\n")
'''
NOTES = "scrout_failures.jsonl"
MOST_LINES = 30
"""Maximum length of a script. Longer ones are tests, not examples."""
MOST_INLINED = 60
"""Maximum length of an inlined parameter, in characters."""
MOST_SKETCHED = 12
_CONSTANT = (ast.Constant, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.Tuple, ast.Load)
_COMPARED: dict[str, type[ast.cmpop]] = {
    "assertEqual": ast.Eq,
    "assertEquals": ast.Eq,
    "assertListEqual": ast.Eq,
    "assertDictEqual": ast.Eq,
    "assertSequenceEqual": ast.Eq,
    "assertNotEqual": ast.NotEq,
    "assertIs": ast.Is,
    "assertIsNot": ast.IsNot,
    "assertIn": ast.In,
    "assertNotIn": ast.NotIn,
}


@dataclass(frozen=True)
class NotedFailure:
    """How one test failed, as the plugin noted it inside the sandbox: a hint, not proof."""

    test: str
    params: Mapping[str, str]
    """Source texts by name."""
    lines: tuple[int, ...]
    """Lines of the test's own file, outermost first."""
    type: str
    message: str


@dataclass(frozen=True)
class FailingScript:
    """Statements whose last one fails with the bug and passes without it."""

    setup: str
    """Imports and earlier statements; may be empty."""
    check: str
    """The last statement, with its own assertion."""
    call: str
    """The called name: `slugify`, `Version.parse`. Empty: none."""
    left: str = ""
    """Both sides of a last statement `assert left == right`; otherwise empty."""
    right: str = ""
    raises: str = ""
    """The expected exception that is not raised; empty: none is expected."""

    @property
    def text(self) -> str:
        return f"{self.setup}\n\n{self.check}\n" if self.setup else f"{self.check}\n"


def read_failures(notes: str, root: str) -> dict[str, NotedFailure]:
    """Read the plugin's notes; invalid lines are skipped."""
    found: dict[str, NotedFailure] = {}
    for line in notes.splitlines():
        try:
            told = json.loads(line)
            own = f"{root.rstrip('/')}/{told['test'].partition('::')[0]}"
            lines = tuple(int(number) for path, number in told["frames"] if path == own)
            params = {str(name): str(value) for name, value in told["params"].items()}
            failure = NotedFailure(str(told["test"]), params, lines, str(told["type"]), str(told["message"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        found[failure.test] = failure
    return found


def make_script(test_file: str, failure: NotedFailure) -> FailingScript | None:
    """The test as a script; None: it needs other code of the test suite."""
    found = _find(test_file, failure)
    if found is None or isinstance(found[1], ast.AsyncFunctionDef):
        return None
    tree, function, body = found
    arguments = [one.arg for one in function.args.args if one.arg != "self"]
    if not all(is_literal(failure.params.get(name, "")) for name in arguments):
        return None
    given = _Given({name: failure.params[name] for name in arguments}, body)
    statements = [one for statement in body for one in _taken(given.visit(_Plain().visit(statement)))]
    if not statements:
        return None
    *before, last = [*given.assignments(), *statements]
    before = _shorter([one for one in before if not isinstance(one, ast.Assert)], last)
    used = {node.id for one in (*before, last) for node in ast.walk(one) if isinstance(node, ast.Name)}
    if "self" in used or "pytest" in used:
        return None
    outside = _outside(tree, used, failure.test.partition("::")[0])
    if outside is None:
        return None
    setup = "\n\n".join(part for part in (_unparse(outside), _unparse(before)) if part)
    script = FailingScript(setup, _unparse([last]), _called(last, outside, before))
    if isinstance(last, ast.Assert) and _is_equality(last.test):
        assert isinstance(last.test, ast.Compare)
        left, right = last.test.left, last.test.comparators[0]
        if _is_value(left) and not _is_value(right):
            left, right = right, left
        script = replace(script, left=ast.unparse(left), right=ast.unparse(right))
        script = replace(script, check=f"assert {script.left} == {script.right}")
    elif isinstance(last, ast.Try):
        caught = last.handlers[0].type
        script = replace(script, raises=ast.unparse(caught) if caught else "")
    return script if script.text.count("\n") <= MOST_LINES else None


def sketch(test_file: str, failure: NotedFailure) -> tuple[str, str]:
    """The test's statements up to its failure, unchanged, and its last call; both may be empty."""
    found = _find(test_file, failure)
    if found is None:
        return "", ""
    tree, _, body = found
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    shown: list[ast.stmt] = []
    for one in reversed(body):
        shown.insert(0, _Plain().visit(one))
        if _unparse(shown).count("\n") >= MOST_SKETCHED:
            shown = shown[1:] or shown
            break
    return _unparse(shown), _called(body[-1], list(imports), body[:-1])


def _find(test_file: str, failure: NotedFailure) -> tuple[ast.Module, Function, list[ast.stmt]] | None:
    """The file, the test in it, and its statements up to the failure; None: not found."""
    try:
        tree = parse_python(test_file)
    except (SyntaxError, ValueError):
        return None
    function = find_test(tree, failure.test)
    body = _until(function.body, failure.lines[0]) if function is not None and failure.lines else []
    return (tree, function, body) if function is not None and body else None


def _until(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    """The statements up to and including the one at a line, without a docstring."""
    for number, one in enumerate(body):
        if one.lineno <= line <= (one.end_lineno or one.lineno):
            kept = body[: number + 1]
            return kept[1:] if isinstance(kept[0], ast.Expr) and isinstance(kept[0].value, ast.Constant) else kept
    return []


class _Given(ast.NodeTransformer):
    """Replaces a test's parameters: short ones are inlined, others are assigned first."""

    def __init__(self, params: Mapping[str, str], body: list[ast.stmt]) -> None:
        nodes = [node for one in body for node in ast.walk(one)]
        written = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
        self.params = params
        self.inlined = {name for name, value in params.items() if len(value) <= MOST_INLINED and name not in written}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.params[node.id], mode="eval").body if node.id in self.inlined else node

    def assignments(self) -> list[ast.stmt]:
        left = [name for name in self.params if name not in self.inlined]
        return [parse_python(f"{name} = {self.params[name]}").body[0] for name in left]


class _Plain(ast.NodeTransformer):
    """Rewrites assertions of unittest and pytest in plain Python."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _is_self(call.func.value)):
            return node
        name, arguments = call.func.attr, call.args
        test: ast.expr | None = None
        if name in _COMPARED and len(arguments) >= 2:
            test = ast.Compare(arguments[0], [_COMPARED[name]()], [arguments[1]])
        elif name == "assertTrue" and arguments:
            test = arguments[0]
        elif name == "assertFalse" and arguments:
            test = ast.UnaryOp(ast.Not(), arguments[0])
        elif name in ("assertIsNone", "assertIsNotNone") and arguments:
            is_none: ast.cmpop = ast.Is() if name == "assertIsNone" else ast.IsNot()
            test = ast.Compare(arguments[0], [is_none], [ast.Constant(None)])
        elif name == "assertRaises" and len(arguments) >= 2:
            called = ast.Expr(ast.Call(arguments[1], arguments[2:], call.keywords))
            return _expecting(arguments[0], [called])
        return ast.Assert(test, None) if test is not None else node

    def visit_With(self, node: ast.With) -> ast.stmt:
        call = node.items[0].context_expr
        if len(node.items) != 1 or not isinstance(call, ast.Call) or len(call.args) != 1:
            return node
        expects = ast.unparse(call.func) in ("pytest.raises", "self.assertRaises")
        return _expecting(call.args[0], node.body) if expects and node.items[0].optional_vars is None else node


def _expecting(kind: ast.expr, body: list[ast.stmt]) -> ast.Try:
    said = f"{ast.unparse(kind)} was not raised"
    error = ast.Call(ast.Name("AssertionError", ast.Load()), [ast.Constant(said)], [])
    handler = ast.ExceptHandler(kind, None, [ast.Pass()])
    return ast.Try(body, [handler], [ast.Raise(error, None)], [])


def _taken(statement: ast.stmt) -> list[ast.stmt]:
    """A statement, or the branch of it that the parameters select."""
    if not isinstance(statement, ast.If) or not all(isinstance(node, _CONSTANT) for node in ast.walk(statement.test)):
        return [statement]
    # Only constants and comparisons: nothing in it can be called.
    try:
        decided = eval(ast.unparse(statement.test), {"__builtins__": {}})
    except TypeError:
        return [statement]
    branch = statement.body if decided else statement.orelse
    return [one for part in branch for one in _taken(part)]


def _outside(tree: ast.Module, used: set[str], path: str) -> list[ast.stmt] | None:
    """Imports and plain assignments of the test module that these names need; None: they need more."""
    needed: list[ast.stmt] = []
    wanted = set(used)
    for node in reversed(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [one for one in node.names if (one.asname or one.name).partition(".")[0] in wanted]
            if not names:
                continue
            if isinstance(node, ast.ImportFrom):
                module = _absolute(node, path)
                if not module or not {"tests", "test", "__future__"}.isdisjoint(module.split(".")):
                    return None
                needed.append(ast.ImportFrom(module, names, 0))
            else:
                needed.append(ast.Import(names))
        elif isinstance(node, ast.Assign) and all(isinstance(one, ast.Name) for one in node.targets):
            if {one.id for one in node.targets if isinstance(one, ast.Name)} & wanted:
                needed.append(node)
                wanted |= _read(node.value)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name in wanted:
            return None
    return needed[::-1]


def _absolute(node: ast.ImportFrom, path: str) -> str:
    """The module of an import, as an absolute name; empty: unknown."""
    if not node.level:
        return node.module or ""
    folders = PurePosixPath(path).parent.parts
    folders = folders[1:] if folders[:1] == ("src",) else folders
    kept = folders[: len(folders) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])]) if kept else ""


def _shorter(before: list[ast.stmt], last: ast.stmt) -> list[ast.stmt]:
    """Without assignments of plain names that are assigned again before they are read."""
    kept: list[ast.stmt] = []
    read = _read(last)
    for one in reversed(before):
        target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
        if isinstance(target, ast.Name):
            if target.id not in read:
                continue
            read.discard(target.id)
        read |= _read(one)
        kept.append(one)
    return kept[::-1]


def _read(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _called(last: ast.stmt, outside: list[ast.stmt], before: list[ast.stmt]) -> str:
    """The outermost call of the last statement, of the package or of a value, otherwise the last call before it."""
    imported = {
        (name.asname or name.name).partition(".")[0]
        for one in outside
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in one.names
    }
    for one in (last, *reversed(before)):
        for node in _calls(one):
            written = ast.unparse(node)
            if written.partition(".")[0] in imported and "(" not in written:
                return written
            if isinstance(node, ast.Attribute):
                return node.attr
    return ""


def _calls(statement: ast.stmt) -> Iterator[ast.expr]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            yield node.func


def _is_equality(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_value(node: ast.expr) -> bool:
    return is_literal(ast.unparse(node))


def _unparse(statements: list[ast.stmt]) -> str:
    return "\n".join(ast.unparse(ast.fix_missing_locations(one)) for one in statements)
