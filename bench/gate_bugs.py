"""Bugs seeded into published packages, for the gate's benchmark.

A bug is one changed expression or statement of one function, shown by an example of the package's own documentation (or
a call with simple arguments) whose result differs from that of the untouched package.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import json
import keyword
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

# Examples: calls of a package whose result is known


@dataclass(frozen=True)
class Example:
    """An expression over a package, with the statements it needs."""

    owner: str
    """Name of the function or class whose documentation it comes from; empty: the README's."""
    prelude: str
    expression: str


@dataclass(frozen=True)
class Outcome:
    """What an example gave."""

    kind: Literal["value", "object", "raises", "lost"]
    """`object`: a value whose repr is not a literal. `lost`: stopped at its time limit, or nothing came back."""
    text: str = ""
    """The repr, or the exception's message."""
    type: str = ""
    """Name of the exception's type."""
    inside: bool = False
    """True: the exception passed through a frame of the package."""

    @property
    def symptom(self) -> str:
        return f"{self.type}: {self.text}".rstrip(": ") if self.kind == "raises" else self.text


LONGEST_REPR = 160
_UNSUITABLE = re.compile(
    r"\b(open|os|sys|random|time|now|today|socket|subprocess|input|tempfile|locale|shuffle)\b|'''|\"\"\""
)
_EVALUATE = """
import ast, builtins, contextlib, io, json, resource, signal, sys, traceback
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
root, trace = sys.argv[1], sys.argv[2] == "trace"
sys.path.insert(0, root)
sys.dont_write_bytecode = True
class Late(BaseException): pass
def late(*_): raise Late
signal.signal(signal.SIGPROF, late)
for name in sys.argv[3:]:
    # What happens at import is no example's, and neither is the time it takes.
    try: __import__(name)
    except Exception: pass
ran = set()
def line(frame, event, _):
    if not frame.f_code.co_filename.startswith(root): return None
    if event == "line": ran.add((frame.f_code.co_filename[len(root) + 1:], frame.f_lineno))
    return line
def evaluate(prelude, expression):
    space = {"__name__": "__main__"}
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.5)
        exec(prelude, space)
        value = eval(expression, space)
        text = repr(value)
    except Late:
        return {"kind": "lost"}
    except Exception as error:
        inside = any(frame.filename.startswith(root) for frame in traceback.extract_tb(error.__traceback__))
        return {"kind": "raises", "type": type(error).__name__, "text": str(error), "inside": inside}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    try:
        plain = ast.literal_eval(text)
        literal = type(plain) is type(value) and plain == value and repr(plain) == text
    except Exception:
        literal = False
    return {"kind": "value" if literal else "object", "text": text}
found = []
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for prelude, expression in json.load(sys.stdin):
        if found.count({"kind": "lost"}) > 5: sys.exit(1)
        if trace: sys.settrace(line)
        try: found.append(evaluate(prelude, expression))
        except Late: found.append({"kind": "lost"})
        finally: sys.settrace(None)
json.dump({"found": found, "ran": sorted(ran)}, sys.stdout)
"""


def evaluate(
    root: Path, examples: Sequence[Example], *, trace: bool = False, hash_seed: int = 0
) -> tuple[list[Outcome], frozenset[tuple[str, int]]]:
    """What each example gives with the packages under `root`, and with `trace` which of their lines ran."""
    with tempfile.TemporaryDirectory() as elsewhere:
        try:
            done = subprocess.run(
                [sys.executable, "-s", "-c", _EVALUATE, str(root), "trace" if trace else "", *_tops(root)],
                input=json.dumps([(example.prelude, example.expression) for example in examples]),
                env={"PYTHONHASHSEED": str(hash_seed), "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                check=False,
                timeout=90,
                cwd=elsewhere,
            )
        except subprocess.TimeoutExpired:
            return [Outcome("lost")] * len(examples), frozenset()
    if done.returncode != 0 or not done.stdout:
        return [Outcome("lost")] * len(examples), frozenset()
    told = json.loads(done.stdout)
    return [Outcome(**row) for row in told["found"]], frozenset((path, line) for path, line in told["ran"])


def find_examples(root: Path, readme: str, rng: random.Random, limit: int = 250) -> list[tuple[Example, Outcome]]:
    """Examples with a short result that is the same in every process."""
    found: dict[str, list[Example]] = {}
    for example in _documented(root, readme):
        if not _UNSUITABLE.search(f"{example.prelude}\n{example.expression}"):
            found.setdefault(example.expression, []).append(example)
    documented = list(found.values())
    rng.shuffle(documented)
    simple = [[example] for example in _simple_calls(root)]
    rng.shuffle(simple)
    # Calls with simple arguments fill up what the documentation leaves open.
    choices = [*documented[:limit], *simple[: max(60, limit - len(documented))]]
    flat = [example for alternatives in choices for example in alternatives]
    outcomes = dict(zip(flat, evaluate(root, flat)[0], strict=True))
    picked = []
    for alternatives in choices:
        for example in alternatives:
            outcome = outcomes[example]
            if outcome.kind == "object":
                picked.append(replace(example, expression=f"repr({example.expression})"))
            if outcome.kind in ("value", "object") or (outcome.kind == "raises" and _is_answer(outcome)):
                if outcome.kind != "object":
                    picked.append(example)
                break
    once, again = (evaluate(root, picked, hash_seed=seed)[0] for seed in (1, 2))
    return [
        (example, first)
        for example, first, second in zip(picked, once, again, strict=True)
        if first == second and first.kind in ("value", "raises") and len(first.text) <= LONGEST_REPR
        if " at 0x" not in first.text
    ]


def _is_answer(outcome: Outcome) -> bool:
    """Whether an exception is how a package says no, rather than a call that makes no sense."""
    return outcome.inside and outcome.type in ("ValueError", "KeyError", "IndexError", "OverflowError")


def _documented(root: Path, readme: str) -> Iterator[Example]:
    texts = [("", _tops(root)[0], readme)]
    for path in sorted(root.rglob("*.py")):
        if "test" in path.relative_to(root).as_posix():
            continue
        module = _module(path.relative_to(root))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                texts.append((getattr(node, "name", ""), module, ast.get_docstring(node) or ""))
    for owner, module, text in texts:
        yield from _examples_in(text, owner, module)


def _examples_in(text: str, owner: str, module: str) -> Iterator[Example]:
    try:
        shown = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return
    before: list[ast.stmt] = []
    for example in shown:
        try:
            body = ast.parse(example.source).body
        except SyntaxError:
            continue
        if len(body) == 1 and isinstance(body[0], ast.Expr) and example.want:
            expression = body[0].value
            if isinstance(expression, ast.Call) and ast.unparse(expression.func) == "print":
                expression = ast.Call(ast.Name("str", ast.Load()), expression.args[:1], [])
            needed, names = _slice(before, expression)
            written = ast.unparse(expression)
            if "\n" not in written and len(written) <= LONGEST_REPR:
                top = module.partition(".")[0]
                for source in dict.fromkeys((top, module)):
                    imports = [f"from {source} import {', '.join(sorted(names - {top}))}"] if names - {top} else []
                    imports += [f"import {top}"] if top in names else []
                    yield Example(owner, "\n".join(imports + needed), written)
        before += body


def _slice(before: Sequence[ast.stmt], expression: ast.expr) -> tuple[list[str], set[str]]:
    """The earlier statements that an expression depends on, and the names that are left to import."""
    wanted = _names(expression)
    kept: list[str] = []
    for statement in reversed(before):
        bound = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            bound = {statement.name}
        acts = (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and _receiver(statement.value) in wanted
        )
        if bound & wanted or acts:
            kept.insert(0, ast.unparse(statement))
            wanted = (wanted - bound) | _names(statement)
            if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                wanted -= bound
    return kept, {name for name in wanted if not hasattr(builtins, name) and not keyword.iskeyword(name)}


def _names(node: ast.AST) -> set[str]:
    loaded = {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)}
    local = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    local |= {
        child.id
        for comprehension in ast.walk(node)
        if isinstance(comprehension, ast.comprehension)
        for child in ast.walk(comprehension.target)
        if isinstance(child, ast.Name)
    }
    return loaded - local


def _receiver(call: ast.Call) -> str:
    target: ast.expr = call.func
    if not isinstance(target, ast.Attribute):
        return ""
    while isinstance(target, ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


_SIMPLE = (
    "'Hello World'",
    "'foo_bar-2 baz'",
    "'12:30'",
    "'XIV'",
    "'a1 a10 a2'",
    "0",
    "1",
    "12",
    "1994",
    "[3, 1, 2]",
    "2.5",
)


def _simple_calls(root: Path) -> Iterator[Example]:
    for path in sorted(root.rglob("*.py")):
        module = _module(path.relative_to(root))
        if "test" in module or any(part.startswith("_") for part in module.split(".")):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            required = len(node.args.posonlyargs + node.args.args) - len(node.args.defaults)
            for values in product(_SIMPLE, repeat=required) if 1 <= required <= 2 else ():
                yield Example(node.name, f"from {module} import {node.name}", f"{node.name}({', '.join(values)})")


def _tops(root: Path) -> list[str]:
    """What can be imported from a folder."""
    return sorted({path.relative_to(root).parts[0].removesuffix(".py") for path in root.rglob("*.py")})


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


# Bugs: one change to one function, and an example that shows it


@dataclass(frozen=True)
class Mutation:
    """One edit of one file."""

    path: str
    function: str
    """Qualified name of the function that holds it."""
    line: int
    start: int
    """Where in the line the old text starts, in bytes."""
    end: int
    new: str
    what: str

    def apply(self, source: str) -> str:
        """The file's text with the edit made."""
        lines = source.encode().splitlines(keepends=True)
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.new.encode() + line[self.end :]
        return b"".join(lines).decode()


@dataclass(frozen=True)
class Bug:
    """A mutation with an example that it breaks and one that it leaves alone."""

    mutation: Mutation
    example: Example
    right: Outcome
    wrong: Outcome
    healthy: Example
    healthy_value: str
    distribution: str
    """Name of the published package."""
    module: str
    """What is imported to reach the function's file."""
    path: str
    """Of the mutated file, relative to the repository's root."""

    @property
    def raises(self) -> bool:
        return self.wrong.kind == "raises"

    @property
    def name(self) -> str:
        """The function that users call."""
        called = re.findall(r"([A-Za-z_][\w.]*)\(", self.example.expression.removeprefix("repr("))
        own = [name for name in called if not hasattr(builtins, name)]
        return str((own or called or [self.mutation.function])[0])


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip


def mutations(path: str, source: str) -> Iterator[Mutation]:
    """Every small change this benchmark makes to the functions of a file."""

    def visit(node: ast.AST, function: str, inside: bool) -> Iterator[tuple[str, ast.expr | ast.stmt, str, str]]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            name = f"{function}.{child.name}".lstrip(".") if named else function  # type: ignore[attr-defined]
            within = inside or isinstance(child, ast.FunctionDef)
            if within and not named and isinstance(child, ast.expr | ast.stmt):
                for new, what in _edits(child):
                    yield function, child, new, what
            # Default values, annotations and parts of f-strings are left as they are.
            if not isinstance(child, ast.JoinedStr | ast.arguments):
                yield from visit(child, name, within)

    for function, node, new, what in visit(ast.parse(source), "", False):
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            yield Mutation(path, function, node.lineno, node.col_offset, node.end_col_offset, new, what)


def _edits(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield f"({ast.unparse(ast.Compare(node.left, [_COMPARISONS[type(op)]()], node.comparators))})", "comparison"
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            yield f"({ast.unparse(ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right))})", "arithmetic"
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other, node.values))})", "boolean"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})", "boolean"
        case ast.Constant(value=bool() as value):
            yield repr(not value), "constant"
        case ast.Constant(value=int() as value):
            yield repr(value + 1), "constant"
        case ast.Call(args=[ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript() as only], keywords=[]):
            yield ast.unparse(only), "missing call"
        case ast.Return(value=ast.expr()):
            yield "return None", "return"
        case ast.Expr(value=ast.Call()):
            yield "pass", "missing statement"
        case ast.Raise():
            yield "pass", "missing guard"
        case ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            yield ast.unparse(ast.AugAssign(node.target, _ARITHMETIC[type(op)](), node.value)), "arithmetic"
        case _:
            return


def seed_bugs(
    root: Path, prefix: str, distribution: str, readme: str, rng: random.Random, wanted: int, most_tries: int = 48
) -> list[Bug]:
    """Up to `wanted` bugs in different functions, about a third of which raise. `prefix`: of root in the repository."""
    known = find_examples(root, readme, rng)
    if not known:
        return []
    examples = [example for example, _ in known]
    _, ran = evaluate(root, examples, trace=True)
    candidates = [
        mutation
        for path in sorted({path for path, _ in ran})
        for mutation in mutations(path, (root / path).read_text(encoding="utf-8"))
        if (path, mutation.line) in ran
    ]
    rng.shuffle(candidates)
    # Bugs that let bad input through are rare among random ones, and common in issues.
    guards = [mutation for mutation in candidates if mutation.what == "missing guard"][:6]
    candidates = guards + [mutation for mutation in candidates if mutation not in guards]
    chosen: dict[tuple[str, str], Bug] = {}
    tried: dict[tuple[str, str], int] = {}
    queue = iter(candidates)

    def enough() -> bool:
        raising = sum(bug.raises and bug.right.kind == "value" for bug in chosen.values())
        silent = sum(not bug.raises and bug.right.kind == "value" for bug in chosen.values())
        return len(chosen) >= wanted and raising >= wanted // 3 and silent >= wanted // 3

    def next_batch() -> list[Mutation]:
        batch: list[Mutation] = []
        for mutation in queue:
            key = (mutation.path, mutation.function)
            # A few tries in each function, so that a long one does not use up all of them.
            if key not in chosen and tried.get(key, 0) < 3 and key not in {(m.path, m.function) for m in batch}:
                tried[key] = tried.get(key, 0) + 1
                batch.append(mutation)
                if len(batch) == 4:
                    break
        return batch

    def seeded(mutation: Mutation) -> Bug | None:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder).resolve() / "tree"
            subprocess.run(["cp", "-r", str(root), str(tree)], check=True)
            file = tree / mutation.path
            file.write_text(mutation.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
            after, _ = evaluate(tree, examples, hash_seed=3)
            bug = _shown(mutation, known, after, distribution, prefix, random.Random(repr(mutation)))
            return bug if bug is not None and _is_confirmed(bug, root, tree) else None

    with ThreadPoolExecutor(2) as pool:
        while not enough() and sum(tried.values()) < most_tries and (batch := next_batch()):
            for mutation, bug in zip(batch, pool.map(seeded, batch), strict=True):
                if bug is not None:
                    chosen[mutation.path, mutation.function] = bug
    bugs = list(chosen.values())
    unguarded = [bug for bug in bugs if bug.right.kind == "raises"][:2]
    raising = [bug for bug in bugs if bug.raises and bug.right.kind == "value"][: wanted // 3]
    picked = unguarded + raising
    silent = [bug for bug in bugs if not bug.raises and bug not in picked]
    rest = [bug for bug in bugs if bug not in picked and bug not in silent]
    return [*picked, *silent, *rest][:wanted]


def _is_confirmed(bug: Bug, good: Path, bad: Path) -> bool:
    """Whether both examples behave as recorded in processes of their own, where no other one ran before."""
    healthy = Outcome("value", bug.healthy_value)
    return (
        evaluate(bad, [bug.example])[0] == [bug.wrong]
        and evaluate(bad, [bug.healthy])[0] == [healthy]
        and evaluate(good, [bug.example])[0] == [bug.right]
        and evaluate(good, [bug.healthy])[0] == [healthy]
    )


def _shown(
    mutation: Mutation,
    known: Sequence[tuple[Example, Outcome]],
    after: Sequence[Outcome],
    distribution: str,
    prefix: str,
    rng: random.Random,
) -> Bug | None:
    """The bug, unless the mutation changes nothing that is seen, or breaks everything."""
    broken, whole = [], []
    for (example, right), wrong in zip(known, after, strict=True):
        if right == wrong:
            if right.kind == "value":
                whole.append((example, right))
        elif _differs(right, wrong):
            broken.append((example, right, wrong))
    own = [row for row in broken if row[0].owner == mutation.function.rpartition(".")[2]] or broken
    if not own or len(whole) < len(known) / 3:
        return None
    example, right, wrong = rng.choice(own)
    healthy, value = rng.choice(whole)
    path = f"{prefix}{mutation.path}"
    module = _module(Path(mutation.path))
    return Bug(mutation, example, right, wrong, healthy, value.text, distribution, module, path)


def _differs(right: Outcome, wrong: Outcome) -> bool:
    """A difference that a script can see, in words that fit into an issue."""
    if len(wrong.text) > LONGEST_REPR or " at 0x" in wrong.text or "\n" in wrong.text:
        return False
    if wrong.kind == "raises":
        return wrong.inside and wrong.type != right.type and isinstance(getattr(builtins, wrong.type, None), type)
    if wrong.kind != "value":
        return False
    return right.kind == "raises" or bool(ast.literal_eval(right.text) != ast.literal_eval(wrong.text))
