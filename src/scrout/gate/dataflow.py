"""Whether a statement of the claim's own Python fails because of what the repository did. Read, never run.

A claim can call the repository and then fail over something else. So the names that hold results of the repository are
followed through assignments, arguments, loops and branches. Where the witness saw the script run, only what ran counts,
and an argument that the repository did not change stays the claim's own. That is enough to tell an honest check from
`assert False`; it is no proof against an author who means to deceive, who can compare a result with whatever he likes.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from scrout.gate.versions import drop_what_did_not_run, plain_name, rename_versions, versions
from scrout.syntax import parse_python

MAX_CHARS = 30_000
"""A longer script is not followed: it would take seconds, and no reproduction needs it."""

NO_FIXTURES: Mapping[str, bool] = MappingProxyType({})
NO_HELPERS: Mapping[str, frozenset[str]] = MappingProxyType({})

IsOwn = Callable[[str], bool]
"""Whether a top-level package is the repository's."""

_EXITS = ("sys.exit", "exit", "quit", "os._exit", "SystemExit")
_FAILS = re.compile(r"(^|\.)(fail|skip|skipTest|xfail)$")
_PRINTS = re.compile(r"^p?print$|^pprint\.pprint$|^sys\.(stdout|stderr)\.write$")
_ONE_SUBJECT = re.compile(r"\.assert(True|False|IsNone|IsNotNone)$|\.failUnless$")
_RUNNERS = re.compile(
    r"^(subprocess|os|runpy|importlib)\.|^(__import__|import_module|run_module|run_path|run|Popen|eval|exec|check_output)$"
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.AsyncFor
_With = ast.With | ast.AsyncWith
_COMPARES = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__len__", "__contains__")
_LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break


@dataclass(frozen=True)
class ExecutedLines:
    """What the witness saw of a script."""

    ran: frozenset[int] = frozenset()
    """Lines that were run; empty: not known."""
    begun: frozenset[tuple[int, int]] = frozenset()
    """Lines that an exception of the script's own passed, each with the line where it began."""
    fixed: frozenset[str] = frozenset()
    """Names of values that the repository cannot have changed, or was seen not to."""


def depends(
    source: str,
    line: int,
    is_own: IsOwn,
    seen: ExecutedLines = ExecutedLines(),
    fixtures: Mapping[str, bool] = NO_FIXTURES,
    helpers: Mapping[str, frozenset[str]] = NO_HELPERS,
) -> bool:
    """Whether the statement at a line fails, or runs at all, because of a result of the repository.

    `fixtures` and `helpers` are those of the claim's other files.
    """
    tree = _parse(source)
    flow = _flow(tree, is_own, seen, fixtures, helpers)
    if tree is None or flow is None:
        return False
    paths = _paths_to(tree, line)
    # Where several statements share the line, the one that means to fail is the one that did; each of them, to be sure.
    meant = [path for path in paths if _means_to_fail(path[-1])] or paths[-1:]
    try:
        return bool(meant) and all(flow.decides(path) for path in meant)
    except RecursionError:
        return False


def fixtures(source: str, is_own: IsOwn) -> dict[str, bool]:
    """The fixtures that a file defines, and whether what each gives depends on the repository."""
    tree = _parse(source)
    flow = _flow(tree, is_own, ExecutedLines())
    known = flow.fixtures.items() if flow else ()
    return {name: fixture.name in flow.yields for name, fixture in known if flow and not flow.hands_on(fixture)}


def exports(source: str, is_own: IsOwn) -> frozenset[str]:
    """What another script can import of one that holds something of the repository's, or gives it back."""
    tree = _parse(source)
    flow = _flow(tree, is_own, ExecutedLines())
    if tree is None or flow is None:
        return frozenset()
    own = {plain_name(name) for name in flow.functions}
    held = {plain_name(name) for name in flow.held if "." not in name}
    return frozenset(plain_name(name) for name in flow.yields) | (held - own)


def prints(source: str, is_own: IsOwn) -> bool:
    """Whether a script prints something of the repository's."""
    tree = _parse(source)
    flow = _flow(tree, is_own, ExecutedLines())
    if tree is None or flow is None:
        return False
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _PRINTS.search(_name(node.func))]
    return any(flow.touches(argument) for call in calls for argument in call.args)


def printed_results(source: str, is_own: IsOwn, lines: Sequence[str]) -> Iterator[str]:
    """Results of the repository in lines that a script printed, read by how its code words them."""
    tree = _parse(source)
    flow = _flow(tree, is_own, ExecutedLines())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree and flow else []
    for call in calls:
        if flow and _name(call.func) == "print" and not call.keywords:
            shape: list[str | bool] = []
            for part in _parts_of_line(call):
                if isinstance(part, str) and shape and isinstance(shape[-1], str):
                    shape[-1] += part
                else:
                    shape.append(part if isinstance(part, str) else flow.touches(part))
            if any(part is True for part in shape) and any(isinstance(part, str) for part in shape):
                for line in lines:
                    yield from _fill(shape, line)


def _fill(shape: Sequence[str | bool], line: str) -> list[str]:
    """What stands in a line where a shape has True; none: it has another shape.

    The first place where a text stands is taken for its place, so that the time grows as the length.
    """
    found: list[str] = []
    rest, open_hole = line, False
    for number, part in enumerate(shape):
        if not isinstance(part, str):
            if number and not isinstance(shape[number - 1], str):
                return []  # nobody knows where one value ends
            open_hole = True
            continue
        value, text, after = rest.partition(part)
        if not text or bool(value) != open_hole:
            return []
        if shape[number - 1] is True and number:
            found.append(value)
        rest, open_hole = after, False
    if bool(rest) != open_hole:
        return []
    return [*found, rest] if shape[-1] is True else found


def _parts_of_line(call: ast.Call) -> Iterator[str | ast.expr]:
    """Text as it is printed, and expressions that are put between."""
    for number, argument in enumerate(call.args):
        if number:
            yield " "
        for part in argument.values if isinstance(argument, ast.JoinedStr) else [argument]:
            yield part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else part


def has_statement(source: str, line: int) -> bool:
    return bool(_statements(source, line))


def raises(source: str, line: int, kind: str = "AssertionError") -> bool:
    """Whether the statement at a line raises an exception of a type on purpose; an assertion raises only its own."""
    statements = _statements(source, line)
    if any(isinstance(statement, ast.Raise) for statement in statements):
        return True
    return kind in ("AssertionError", "Failed") and any(isinstance(statement, ast.Assert) for statement in statements)


def asks_for_truth(source: str, line: int) -> bool:
    """Whether the statement at a line raises because a name is true, which says nothing about what is wrong with it."""
    tree = _parse(source)
    for path in _paths_to(tree, line) if tree else ():
        tests = [parent.test for parent, child in pairwise(path) if isinstance(parent, ast.If) and child in parent.body]
        if isinstance(path[-1], ast.Raise) and tests and all(isinstance(test, ast.Name) for test in tests):
            return True
    return False


def repository_calls(source: str, is_own: IsOwn) -> frozenset[str]:
    """Names of the functions of the repository that a script calls."""
    tree = _parse(source)
    flow = _flow(tree, is_own, ExecutedLines())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree and flow else []
    names = [_name(call.func).rpartition(".")[2] for call in calls if flow and flow.touches(call.func)]
    return frozenset(plain_name(name) for name in names if name)


def refuses(source: str, line: int) -> bool:
    """Whether the statement at a line raises an exception of its own making."""
    if _parse(source) is None:  # too long, or for another Python: the line itself must do
        return bool(re.match(r"\s*raise\s+\w", "".join(source.split("\n")[line - 1 : line])))
    return any(isinstance(statement, ast.Raise) and statement.exc for statement in _statements(source, line))


def called(source: str, line: int) -> frozenset[str]:
    """Names of what the statement at a line calls, without what they are attributes of."""
    nodes = (node for statement in _statements(source, line) for node in ast.walk(statement))
    names = (_name(node.func).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call))
    return frozenset(name for name in names if name)


def bound(source: str, line: int) -> frozenset[str]:
    """Names that the statement at a line binds."""
    nodes = [node for statement in _statements(source, line) for node in ast.walk(statement)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    aliases = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    return frozenset(stored | {alias.asname or alias.name.partition(".")[0] for alias in aliases})


def acted_on(source: str, line: int) -> frozenset[str]:
    """Names of the objects of which the statement at a line calls a method and leaves what it gives."""
    calls = [part.value for part in _statements(source, line) if isinstance(part, ast.Expr)]
    owners = [_root(call.func) for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    return frozenset(name for name in owners if name)


def names(source: str, line: int) -> frozenset[str]:
    """Names that the statement at a line has."""
    nodes = (node for statement in _statements(source, line) for node in ast.walk(statement))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


def classes(source: str) -> frozenset[str]:
    """Names of the classes that a script defines."""
    tree = _parse(source)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)) if tree else frozenset()


def catches(source: str, line: int, kind: str) -> bool:
    """Whether an exception of a type ends at a line: it is caught there, and nobody raises or exits because of it."""
    tree = _parse(source)
    for path in _paths_to(tree, line) if tree else ():
        for parent, child in pairwise(path):
            if isinstance(parent, ast.Try) and child in parent.body:
                handler = next((handler for handler in parent.handlers if _may_catch(handler.type, kind)), None)
                if handler and not _fails(handler):
                    return True
    return False


def _may_catch(caught: ast.expr | None, kind: str) -> bool:
    """False only where it is certain: between built-in types, and for a built-in under a type that somebody defined."""
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_may_catch(part, kind) for part in caught.elts)
    raised, named = (getattr(builtins, name, None) for name in (kind, _name(caught).rpartition(".")[2]))
    if not isinstance(raised, type):
        return True
    return isinstance(named, type) and issubclass(raised, named)


def _statements(source: str, line: int) -> list[ast.AST]:
    tree = _parse(source)
    return [path[-1] for path in _paths_to(tree, line)] if tree else []


def _parse(source: str) -> ast.Module | None:
    if len(source) > MAX_CHARS:
        return None
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _flow(
    tree: ast.Module | None,
    is_own: IsOwn,
    seen: ExecutedLines,
    given: Mapping[str, bool] = NO_FIXTURES,
    helpers: Mapping[str, frozenset[str]] = NO_HELPERS,
) -> _Flow | None:
    try:
        either_way = frozenset(_either_way(tree)) if tree else frozenset()
        if tree and seen.ran:
            drop_what_did_not_run(tree, seen.ran)
        return _Flow(rename_versions(tree), is_own, seen, given, helpers, either_way) if tree else None
    except RecursionError:  # nested deeper than anybody writes by hand
        return None


class _Flow:
    """The names that hold something of the repository's."""

    def __init__(
        self,
        tree: ast.Module,
        is_own: IsOwn,
        seen: ExecutedLines,
        given: Mapping[str, bool],
        helpers: Mapping[str, frozenset[str]],
        either_way: frozenset[ast.stmt],
    ) -> None:
        self.tree = tree
        self.is_own = is_own
        self.seen = seen
        self.held = {*_imported(tree, is_own), *_helped(tree, helpers)}
        self.constant = _constants(tree)
        self.texts = _texts(tree)
        self.functions = _functions(tree)
        self.methods = {part for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body} & {
            node for node in ast.walk(tree) if isinstance(node, _Function)
        }
        self.yields: set[str] = set()
        """Own functions whose result depends on the repository or on what they are given of it."""
        self.gives: set[str] = set()
        """Own methods of which the same is true."""
        self.fixtures = _fixtures(tree)
        self.parameters = _parameters(tree)
        self.given = given
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.instances: dict[str, str] = {}
        """Names of objects of own classes, with the class."""
        self.fields: set[str] = set()
        """Attributes of such objects that hold something of the repository's."""
        self.either_way = either_way
        before = -1
        while before < (known := sum(map(len, (self.held, self.yields, self.gives, self.instances, self.fields)))):
            before = known
            self._spread(tree, guarded=False)

    def touches(self, node: ast.AST | None) -> bool:
        """Whether an expression or block uses something of the repository's."""
        open_parts = [node] if node else []
        while open_parts:
            part = open_parts.pop()
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in self.functions:
                # A stub that is given a result and returns a constant has nothing of the repository's any more.
                if part.func.id in self.yields:
                    return True
                continue
            if isinstance(part, ast.Attribute) and self._class_of(part.value) is not None:
                if part.attr in self.fields or part.attr in self.gives:
                    return True
                continue  # an object of the claim's own is more than the result in it
            if isinstance(part, ast.Call) and _name(part.func) == "eval" and _is_closed(part):
                continue
            if isinstance(part, ast.Name) and not self.held.isdisjoint(versions(part.id)):
                return True
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in self.gives:
                return True
            if isinstance(part, ast.Attribute) and _name(part) in self.held:
                return True
            if isinstance(part, ast.Call) and _RUNNERS.search(_name(part.func)) and self._names_repository(part):
                return True
            open_parts += ast.iter_child_nodes(part)
        return False

    def decides(self, path: Sequence[ast.AST]) -> bool:
        """Whether a result of the repository decides that the last statement of the path fails."""
        if self._subject(path[-1]):
            return True
        # Where every way through the code fails, a result only decides with which words.
        starts = [number for number, node in enumerate(path) if isinstance(node, _Function | ast.Module)]
        anyway = bool(starts) and _always_fails(getattr(path[starts[-1]], "body", []))
        return any(
            self._guards(parent, child)
            for parent, child in pairwise(path)
            if not anyway or isinstance(child, ast.ExceptHandler)
        )

    def _subject(self, node: ast.AST) -> bool:
        """What the statement itself judges. A message is no judgement, and `raise` judges nothing."""
        if isinstance(node, ast.Assert):
            return self.touches(node.test) and not any(self._compares_itself(part) for part in ast.walk(node.test))
        if isinstance(node, ast.Raise):
            code = node.exc.args if isinstance(node.exc, ast.Call) and _name(node.exc.func) in _EXITS else []
            return any(self.touches(argument) for argument in code if not isinstance(argument, ast.JoinedStr))
        if isinstance(node, _With):
            return self.touches(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            name = _name(call.func)
            if _FAILS.search(name):
                return False
            if name in _EXITS:
                return any(self.touches(argument) for argument in call.args)
            if ".assert" in name:
                count = 1 if _ONE_SUBJECT.search(name) else len(call.args)
                judged = [argument for argument in call.args[:count] if not isinstance(argument, ast.JoinedStr)]
                return any(self.touches(argument) for argument in (judged[:2] if "Raises" not in name else judged))
        return isinstance(node, ast.stmt) and not isinstance(node, _Function | ast.ClassDef) and self.touches(node)

    def _class_of(self, node: ast.expr) -> ast.ClassDef | None:
        """The claim's own class that a name is an object of; None: it is none, or may be something else too."""
        names = {self.instances.get(name, "") for name in versions(node.id)} if isinstance(node, ast.Name) else {""}
        return self.classes.get(next(iter(names))) if len(names) == 1 else None

    def _compares_itself(self, node: ast.AST) -> bool:
        """Whether a value decides by the claim's own code what it is equal to."""
        made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self.classes.get(node.func.id)
        kind = made or (self._class_of(node) if isinstance(node, ast.expr) else None)
        return any(isinstance(part, _Function) and part.name in _COMPARES for part in (kind.body if kind else ()))

    def _construct(self, target: ast.expr, call: ast.expr | None) -> bool:
        """Note an object of an own class, and which of its attributes hold something of the repository's."""
        made = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        kind = self.classes.get(made)
        if kind is None or not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
            return False
        names = _fields_of(kind)
        if any(self.touches(base) for base in kind.bases) or len(names) < len(call.args) or kind.keywords:
            return False
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return False
        given = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
        for name, value in given:
            if name is None:
                return False
            if self.touches(value):
                self.fields.add(name)
                self.held.add(f"self.{name}")
        self.instances[target.id] = made
        return True

    def _guards(self, parent: ast.AST, child: ast.AST) -> bool:
        """Whether the parent runs the child only for some results, or an earlier statement may have left before it."""
        if isinstance(parent, ast.If | ast.While) and self.touches(parent.test):
            return True
        if isinstance(parent, _Loop) and self.touches(parent.iter):
            return True
        if isinstance(parent, ast.Try) and child not in parent.finalbody:
            return self._tries(parent, child)
        for _, block in ast.iter_fields(parent):
            if isinstance(block, list) and child in block:
                return any(self._may_leave(earlier) for earlier in block[: block.index(child)])
        return False

    def _tries(self, parent: ast.Try, child: ast.AST) -> bool:
        """Whether an exception of the repository leads to the child, or would have led past it without a failure."""
        if child in parent.body:
            before = parent.body[: parent.body.index(child)]
            swallows = any(not _fails(handler) for handler in parent.handlers)
            if isinstance(child, ast.Assign) and not isinstance(child.value, ast.Constant):
                return False  # no flag that says how far it came
            return swallows and any(self.touches(part) for part in before)
        if child in parent.orelse:
            return any(self.touches(part) for part in parent.body)
        own = {
            start for line, start in self.seen.begun if any(path[1] in parent.body for path in _paths_to(parent, line))
        }
        if own:  # the claim's own code raised what is handled here
            return all(self.decides(path) for start in own for path in _paths_to(self.tree, start))
        raised = [part for part in parent.body if isinstance(part, ast.Raise) and not self.seen.ran]
        return not raised and any(self.touches(part) for part in parent.body)

    def _may_leave(self, node: ast.AST) -> bool:
        if isinstance(node, ast.If):
            decided = self.touches(node.test)
        elif isinstance(node, _Loop):
            decided = self.touches(node)
        else:
            decided = isinstance(node, ast.Try) and any(self.touches(part) for part in node.body)
        return decided and any(
            isinstance(part, _LEAVES) or (isinstance(part, ast.Call) and _name(part.func) in _EXITS)
            for part in ast.walk(node)
        )

    def _spread(self, node: ast.AST, *, guarded: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inside = guarded or (isinstance(child, ast.stmt | ast.excepthandler) and self._guards(node, child))
            self._visit(child, inside)
            self._spread(child, guarded=inside)

    def _visit(self, node: ast.AST, guarded: bool) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if self.touches(node.value.body):
                self.yields.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            if node in self.either_way:
                return
            single = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            if single is not None and not guarded and self._construct(single, node.value):
                return
            if guarded or self.touches(node.value):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._hold(target)
        elif isinstance(node, _Loop | ast.comprehension):
            if self.touches(node.iter):
                self._hold(node.target)
        elif isinstance(node, _With):
            if self.touches(node):
                for item in node.items:
                    if item.optional_vars:
                        self._hold(item.optional_vars)
                    if isinstance(item.context_expr, ast.Call):
                        for argument in item.context_expr.args:  # a stream that output is redirected to
                            self._hold(argument)
        elif isinstance(node, ast.ExceptHandler):
            if guarded and node.name:
                self.held.add(node.name)
        elif isinstance(node, ast.ClassDef):
            if any(self.touches(part) for part in (*node.bases, *node.decorator_list)):
                self.held.add(node.name)
        elif isinstance(node, _Function):
            if any(self.touches(decorator) for decorator in node.decorator_list) or self._gives_back(node):
                (self.gives if node in self.methods else self.yields).add(node.name)
            uses = any(self.touches(part) for part in node.body)
            if uses:
                self.held.add(node.name)
            if node.name.startswith("test") or node in self.fixtures.values():
                # An argument with a default gets no fixture.
                given = node.args.args[: len(node.args.args) - len(node.args.defaults)]
                self.held.update(each.arg for each in given if self._fixture_holds(plain_name(each.arg), uses))
        elif isinstance(node, ast.Call):
            self._visit_call(node, guarded)

    def _fixture_holds(self, name: str, uses: bool) -> bool:
        """Whether an argument of a test holds something of the repository's. `uses`: the test itself calls it.

        A fixture of a library's may: captured output, a folder that the repository writes to.
        """
        if name in ("self", "cls"):
            return False
        if name in self.parameters:
            return any(self.touches(values) for values in self.parameters[name])
        if fixture := self.fixtures.get(name):
            return fixture.name in self.yields or (uses and self.hands_on(fixture))
        return self.given.get(name, uses)

    def hands_on(self, fixture: _Function) -> bool:
        """Whether a fixture gives something that it got from a library's fixture."""
        own = {"request", *self.fixtures, *self.parameters}
        got = {each.arg for each in fixture.args.args if plain_name(each.arg) not in own}
        results = [node.value for node in ast.walk(fixture) if isinstance(node, ast.Return | ast.Yield) and node.value]
        return any(isinstance(part, ast.Name) and part.id in got for result in results for part in ast.walk(result))

    def _gives_back(self, function: _Function) -> bool:
        """Whether what a function returns, or that it returns there, depends on something of the repository's."""
        for node in ast.walk(function):
            if isinstance(node, ast.Yield | ast.YieldFrom) and self.touches(node.value):
                return True
            if isinstance(node, ast.Return) and node.value is not None:
                path = next((path for path in _paths_to(function, node.lineno) if path[-1] is node), [])
                if self.touches(node.value) or any(self._guards(*pair) for pair in pairwise(path)):
                    return True
        return False

    def _visit_call(self, call: ast.Call, guarded: bool) -> None:
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        given = any(self.touches(argument) for argument in arguments)
        if (
            isinstance(call.func, ast.Attribute)
            and (given or guarded)
            and not _name(call.func).startswith("self.assert")
        ):
            self._hold(call.func.value)  # results.append(...)
        if isinstance(call.func, ast.Name) and call.func.id in self.functions:
            names = [argument.arg for argument in self.functions[call.func.id].args.args]
            self.held.update(name for name, value in zip(names, call.args, strict=False) if self.touches(value))
            given_by_name = {word.arg for word in call.keywords if word.arg and self.touches(word.value)}
            self.held.update(name for name in names if plain_name(name) in given_by_name)
        elif self.touches(call.func) and _name(call.func).partition(".")[0] != "self":
            for argument in arguments:  # may have been changed by the repository
                self._hold(argument, self.seen.fixed)

    def _hold(self, target: ast.expr, fixed: frozenset[str] = frozenset()) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._hold(part, fixed)
        elif isinstance(target, ast.Starred | ast.Subscript):
            self._hold(target.value, fixed)
        elif isinstance(target, ast.Name) and target.id not in ("self", "cls") and plain_name(target.id) not in fixed:
            if isinstance(target.ctx, ast.Store) or not self.constant.issuperset(versions(target.id)):
                self.held.update(versions(target.id))
        elif isinstance(target, ast.Attribute):
            if _root(target) in ("self", "cls"):
                self.held.add(_name(target))
                self.fields.add(target.attr)
            elif self._class_of(target.value) is not None:
                self.fields.add(target.attr)
            else:
                self._hold(target.value, fixed)

    def _names_repository(self, call: ast.Call) -> bool:
        texts = [
            part.value for part in ast.walk(call) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        names = [part.id for part in ast.walk(call) if isinstance(part, ast.Name)]
        texts += [text for name in names for version in versions(name) for text in self.texts.get(version, ())]
        return any(self.is_own(word) for text in texts for word in re.findall(r"\w+", text))


def _either_way(tree: ast.Module) -> Iterator[ast.stmt]:
    """Assignments that are the same whether an exception was raised or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and node.handlers:
            ways = [[*node.body, *node.orelse], *(handler.body for handler in node.handlers)]
            assigned = [[part for part in way if isinstance(part, ast.Assign | ast.AugAssign)] for way in ways]
            same = set.intersection(*({ast.dump(part) for part in way} for way in assigned))
            yield from (part for way in assigned for part in way if ast.dump(part) in same)


def _fields_of(kind: ast.ClassDef) -> list[str]:
    """What positional arguments of a class are called: those of its `__init__`, or the fields of a data class."""
    for part in kind.body:
        if isinstance(part, _Function) and part.name == "__init__":
            return [plain_name(argument.arg) for argument in part.args.args[1:]]
    return [plain_name(_name(part.target)) for part in kind.body if isinstance(part, ast.AnnAssign)]


def _is_closed(call: ast.Call) -> bool:
    """Whether what is evaluated is a text that names nothing."""
    text = call.args[0] if call.args else None
    tree = _parse(text.value) if isinstance(text, ast.Constant) and isinstance(text.value, str) else None
    return tree is not None and not any(isinstance(part, ast.Name) for part in ast.walk(tree))


def _functions(tree: ast.Module) -> dict[str, _Function | ast.Lambda]:
    """The claim's own functions by name, those of classes left out: a method is called on something."""
    found: dict[str, _Function | ast.Lambda] = {}
    methods = {part for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node not in methods:
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found.update({target.id: node.value for target in node.targets if isinstance(target, ast.Name)})
    return found


def _fixtures(tree: ast.Module) -> dict[str, _Function]:
    """Functions that pytest gives the results of to arguments of a name."""
    found: dict[str, _Function] = {}
    for node in ast.walk(tree):
        if not isinstance(node, _Function):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if _name(call.func if call else decorator).rpartition(".")[2] == "fixture":
                names = [word.value for word in call.keywords if word.arg == "name"] if call else []
                name = names[0].value if names and isinstance(names[0], ast.Constant) else node.name
                found[str(name)] = node
    return found


def _parameters(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """What `parametrize` gives to arguments, by their names."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith("parametrize") and not _is_indirect(node):
            names, *rest = [*node.args, *(word.value for word in node.keywords), ast.Constant(None)]
            for part in ast.walk(names):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    for name in re.findall(r"\w+", part.value):
                        found.setdefault(name, []).extend(rest)
    return found


def _is_indirect(call: ast.Call) -> bool:
    """Whether a fixture stands between the values and the argument."""
    return any(word.arg == "indirect" for word in call.keywords)


def _imported(tree: ast.Module, is_own: IsOwn) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_own(alias.name.partition(".")[0]):
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and (node.level or is_own((node.module or "").partition(".")[0])):
            yield from (alias.asname or alias.name for alias in node.names)


def _helped(tree: ast.Module, helpers: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Names of what a script imports from the claim's other files and that holds something of the repository's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from (f"{alias.asname or alias.name}.{name}" for name in helpers.get(alias.name, ()))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            known = helpers.get(node.module or "", frozenset())
            yield from (alias.asname or alias.name for alias in node.names if alias.name in known)


def _texts(tree: ast.Module) -> dict[str, list[str]]:
    """Strings by the names that they are given."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value.value)
    return found


def _fails(handler: ast.ExceptHandler) -> bool:
    """Whether what is caught ends in another failure."""
    return any(
        isinstance(part, ast.Raise)
        or (isinstance(part, ast.Call) and (_exits(part) or _FAILS.search(_name(part.func))))
        for part in ast.walk(handler)
    )


def _always_fails(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end in a failure whatever happens, short of an exception that somebody handles."""
    for node in body:
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value.func) in _EXITS:
            given = node.value.args[0] if node.value.args else None
            return isinstance(given, ast.Constant | ast.JoinedStr) and _exits(node.value)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _FAILS.search(_name(node.value.func)):
            return _name(node.value.func).endswith("fail")
        if isinstance(node, ast.If) and _always_fails(node.body) and _always_fails(node.orelse):
            return True
        if isinstance(node, ast.Try):
            ways = [[*node.body, *node.orelse], *(handler.body for handler in node.handlers)]
            if all(_always_fails(way) for way in ways):
                return True
        if not isinstance(node, _Function | ast.ClassDef) and _may_succeed(node):
            return False
    return False


def _may_succeed(node: ast.stmt) -> bool:
    """Whether a statement may end the code around it without a failure."""
    return any(
        isinstance(part, ast.Return | ast.Continue | ast.Break)
        or (isinstance(part, ast.Call) and _name(part.func) in _EXITS and not _exits(part))
        for part in ast.walk(node)
    )


def _constants(tree: ast.Module) -> frozenset[str]:
    """Names that only ever hold numbers, strings and the like: calling something with them cannot change them."""
    fixed: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
                (fixed if isinstance(node.value, ast.Constant) else other).update(names)
    return frozenset(fixed - other)


def _paths_to(tree: ast.AST, line: int) -> list[list[ast.AST]]:
    """The statements around a line, outermost first, the module included; one path a statement that ends there."""
    paths: list[list[ast.AST]] = []
    open_paths = [[tree]]
    while open_paths:
        path = open_paths.pop(0)
        inner = [
            child
            for child in ast.iter_child_nodes(path[-1])
            if isinstance(child, ast.stmt | ast.excepthandler) and child.lineno <= line <= (child.end_lineno or 0)
        ]
        open_paths += [[*path, child] for child in inner]
        if not inner and len(path) > 1:
            paths.append(path)
    return paths


def _means_to_fail(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _exits(node.value) or ".assert" in _name(node.value.func) or bool(_FAILS.search(_name(node.value.func)))
    return isinstance(node, ast.Assert | ast.Raise)


def _exits(call: ast.Call) -> bool:
    """Whether it exits with a failure; `exit()`, `exit(0)` and `exit(None)` say success."""
    if _name(call.func) not in _EXITS or not call.args:
        return False
    return not (isinstance(call.args[0], ast.Constant) and not call.args[0].value)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
