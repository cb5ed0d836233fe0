"""Templates for calls: missing or unneeded calls, their arguments and keywords, and types in their arguments."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scrout.fix.repair.edit_site import Edit, EditSite
from scrout.fix.repair.source import Function

MOST_LARGER = 8
LONGEST_LARGER = 80
COMMON_CALLS = 6
"""Maximum number of functions from the surrounding code to try around an expression,"""
COMMON_METHODS = 4
"""and maximum number of methods to append to it."""
_PLAIN_CALLS = ("list", "str", "tuple", "int", "set", "sorted", "dict", "iter", "bool")
_PLAIN_METHODS = ("copy", "strip", "lower")
_HELD = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def _missing_call(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add a call that similar expressions elsewhere have, where a value is passed on."""
    if id(node) not in place.handed_on or not isinstance(node, _HELD):
        return
    said = place.text.of(node)
    functions, methods = place.around(_common_calls)
    for rank, name in enumerate(functions):
        yield place.replace("missing call", node, f"{name}({said})", 1 - 0.08 * rank)
    for rank, name in enumerate(methods):
        yield place.replace("missing call", node, f"{said}.{name}()", 0.9 - 0.08 * rank)
    yield place.replace("missing call", node, f"[{said}]", 0.6)


def _display(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Swap `[x]` and `list(x)`."""
    if isinstance(node, ast.List) and len(node.elts) == 1 and id(node) in place.loaded:
        said = place.text.of(node.elts[0])
        if not isinstance(node.elts[0], ast.Starred):
            yield place.replace("display", node, f"list({said})")
            yield place.replace("display", node, said, 0.8)
    elif isinstance(node, ast.Call) and _called(node) in ("list", "tuple", "set") and len(node.args) == 1:
        said = place.text.of(node.args[0])
        yield place.replace("display", node, f"[{said}]" if _called(node) == "list" else f"({said},)", 0.7)


def _larger(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """A larger expression of the same file that contains this one, or a call there with another such constant."""
    if id(node) not in place.handed_on | place.tests:
        return
    said = place.text.of(node)
    known = set(place.names()) | {"self", "cls"}
    function = place.statement.function
    found: dict[str, float] = {}
    start, end = place.text.span(node)
    for part in place.in_file(_parts).get(said, ()):
        around_itself = part.start <= start and end <= part.end
        if part.reads - place.in_file(_module_level) <= known and part.text != said and not around_itself:
            found[part.text] = max(found.get(part.text, 0.0), 1.0 if part.home is function else 0.6)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for part in place.around(_string_calls):
            if part.reads - place.in_file(_module_level) <= known:
                found.setdefault(part.text.format(said), 0.6)
    for text, weight in sorted(found.items(), key=lambda one: -one[1])[:MOST_LARGER]:
        yield place.replace("larger expression", node, text, weight)


@dataclass(frozen=True)
class _Part:
    text: str
    home: Function | None
    reads: frozenset[str]
    start: int = -1
    end: int = -1


def _parts(place: EditSite) -> dict[str, list[_Part]]:
    """Expressions of the file by the text of each direct part."""
    found: dict[str, list[_Part]] = {}
    for home in [node for node in ast.walk(place.text.tree) if isinstance(node, Function)]:
        for node in ast.walk(home):
            if not isinstance(node, ast.Call | ast.BinOp | ast.Subscript | ast.IfExp | ast.BoolOp | ast.Compare):
                continue
            text = place.text.of(node)
            if len(text) > LONGEST_LARGER or not isinstance(getattr(node, "ctx", None), ast.Load | None):
                continue
            part = _Part(text if isinstance(node, _HELD) else f"({text})", home, _reads(node), *place.text.span(node))
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    found.setdefault(place.text.of(child), []).append(part)
    return found


def _string_calls(place: EditSite) -> list[_Part]:
    """Calls of the function with a string as the first argument, with that string left open."""
    found: list[_Part] = []
    for node in ast.walk(place.statement.function) if place.statement.function else ():
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            start, end = place.text.span(node)
            first, last = place.text.span(node.args[0])
            text = place.text.source[start:first] + "\0" + place.text.source[last:end]
            if isinstance(node.args[0].value, str) and len(text) < LONGEST_LARGER:
                shape = text.replace("{", "{{").replace("}", "}}").replace("\0", "{}")
                found.append(_Part(shape, place.statement.function, _reads(node)))
    return found[:MOST_LARGER]


def _reads(node: ast.AST) -> frozenset[str]:
    return frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _module_level(place: EditSite) -> frozenset[str]:
    """Names that are defined everywhere in the file."""
    names = set(dir(builtins))
    for node in ast.walk(place.text.tree):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names}
    for node in place.text.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return frozenset(names)


def _common_calls(place: EditSite) -> tuple[list[str], list[str]]:
    functions: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    for scope, weight in ((place.statement.function, 4), (place.statement.owner, 2), (place.text.tree, 1)):
        for node in ast.walk(scope) if scope is not None else ():
            if not isinstance(node, ast.Call) or node.keywords:
                continue
            if len(node.args) == 1 and isinstance(node.func, ast.Name | ast.Attribute):
                name = place.text.of(node.func)
                if name.isprintable() and len(name) < 40 and name.replace(".", "").isidentifier():
                    functions[name] += weight
            elif not node.args and isinstance(node.func, ast.Attribute):
                methods[node.func.attr] += weight
    called = [name for name, _ in functions.most_common(COMMON_CALLS) if name not in ("isinstance", "print")]
    plain = [name for name in _PLAIN_CALLS if name not in called]
    own = [name for name, _ in methods.most_common(COMMON_METHODS)]
    return called + plain, own + [name for name in _PLAIN_METHODS if name not in own]


def _unneeded_call(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """The expression without an unneeded call or index."""
    if isinstance(node, ast.Call):
        if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
            yield place.replace("unneeded call", node, place.text.of(node.args[0]))
        if isinstance(node.func, ast.Attribute) and len(node.args) <= 1:
            yield place.replace("unneeded call", node, place.text.of(node.func.value), 0.8)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield place.replace("unneeded call", node, place.text.of(node.value), 0.8)


def _keyword(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add a keyword that other calls of this name pass, or that the called function accepts."""
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        return
    name = _called(node)
    given = {keyword.arg for keyword in node.keywords}
    offered: dict[str, float] = {}
    known = place.names()
    for other in place.in_file(_calls).get(name, ()):
        for keyword in other.keywords:
            if other is not node and keyword.arg and keyword.arg not in given and len(offered) < 10:
                own = [keyword.arg] if keyword.arg in known else []
                for value in (*own, place.text.of(keyword.value)):
                    offered.setdefault(f"{keyword.arg}={value}", 1.2 if value == keyword.arg else 1.0)
    for definition in place.in_file(_definitions).get(name, ()):
        arguments = definition.args
        for one in (*arguments.args[len(node.args) + (arguments.args[:1] != []) :], *arguments.kwonlyargs):
            if one.arg not in given and one.arg in known:
                offered.setdefault(f"{one.arg}={one.arg}", 1.2)
    # Most lost keywords passed on a variable of the same name.
    for one_name in known[:8]:
        if not offered and name not in place.in_file(_definitions) and one_name not in given and node.keywords:
            offered[f"{one_name}={one_name}"] = 0.5
    for text, weight in offered.items():
        yield _with_argument(place, node, "keyword", text, weight)
    for keyword in node.keywords[: 4 if len(node.keywords) + len(node.args) > 1 else 0]:
        yield from _without(place, node, keyword)


def _with_argument(place: EditSite, node: ast.Call, kind: str, text: str, weight: float) -> Edit:
    """Insert an argument before the closing parenthesis, with a comma if needed."""
    end = place.text.span(node)[1] - 1
    before = place.text.source[:end].rstrip()
    separator = "" if before.endswith("(") else " " if before.endswith(",") else ", "
    return place.edit(kind, len(before), len(before), separator + text, weight)


def _without(place: EditSite, node: ast.Call, keyword: ast.keyword) -> Iterator[Edit]:
    start, end = place.text.span(keyword)
    before = place.text.source[:start].rstrip()
    if before.endswith(","):
        yield place.edit("keyword", len(before) - 1, end, "", 0.5)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _calls(place: EditSite) -> dict[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for node in ast.walk(place.text.tree):
        if isinstance(node, ast.Call):
            found.setdefault(_called(node), []).append(node)
    return found


def _definitions(place: EditSite) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for node in ast.walk(place.text.tree):
        if isinstance(node, Function):
            found.setdefault(node.name, []).append(node)
    return found


def _argument(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add or remove a positional argument."""
    if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args) or node.keywords:
        return
    name = _called(node)
    if name in ("get", "pop", "getattr", "next", "setdefault") and 1 <= len(node.args) <= 2:
        for value in ("None", '""', "()", "0"):
            yield _with_argument(place, node, "argument", value, 0.8)
    takes = [len(one.args.args) for one in place.in_file(_definitions).get(name, ())]
    others = [len(one.args) for one in place.in_file(_calls).get(name, ())]
    for definition in place.in_file(_definitions).get(name, ()):
        takes_next = [one.arg for one in definition.args.args if one.arg not in ("self", "cls")][len(node.args) :][:1]
        for wanted in takes_next:
            if wanted in place.names():
                yield _with_argument(place, node, "argument", wanted, 1.4)
    if any(count > len(node.args) for count in (*takes, *others)):
        for rank, known in enumerate(place.names()[::-1][:4]):
            yield _with_argument(place, node, "argument", known, 1 - 0.15 * rank)
    if len(node.args) > 1:
        first, last = place.text.span(node.args[-2])[1], place.text.span(node.args[-1])[1]
        yield place.edit("argument", first, last, "", 0.5)


def _types(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Add a type to an isinstance check."""
    if not (isinstance(node, ast.Call) and _called(node) in ("isinstance", "issubclass") and len(node.args) == 2):
        return
    asked = node.args[1]
    said = place.text.of(asked)
    for rank, other in enumerate(place.in_file(_types_asked)):
        if other not in said:
            if isinstance(asked, ast.Tuple) and asked.elts:
                end = place.text.span(asked.elts[-1])[1]
                yield place.edit("types", end, end, f", {other}", 1 - 0.1 * rank)
            elif not isinstance(asked, ast.Tuple):
                yield place.replace("types", asked, f"({said}, {other})", 1 - 0.1 * rank)
                yield place.replace("types", asked, other, 0.7 - 0.1 * rank)


def _types_asked(place: EditSite) -> list[str]:
    counts: Counter[str] = Counter()
    for calls in (place.in_file(_calls).get(name, ()) for name in ("isinstance", "issubclass")):
        for call in calls:
            asked = call.args[1] if len(call.args) == 2 else None
            for one in asked.elts if isinstance(asked, ast.Tuple) else [asked]:
                if isinstance(one, ast.Name | ast.Attribute):
                    counts[place.text.of(one)] += 1
    names = [name for name, _ in counts.most_common(6)]
    return list(dict.fromkeys([*names, "str", "int", "list", "tuple", "dict"]))[:8]


def _looked_up(place: EditSite, node: ast.expr) -> Iterator[Edit]:
    """Swap `d[k]` and `d.get(k)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Slice):
        yield place.replace("looked up", node, f"{place.text.of(node.value)}.get({place.text.of(node.slice)})")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return
    if node.func.attr == "get" and len(node.args) == 1:
        value, key = place.text.of(node.func.value), place.text.of(node.args[0])
        yield place.replace("looked up", node, f"{value}[{key}]", 0.7)


CALL_TEMPLATES: tuple[Callable[[EditSite, ast.expr], Iterator[Edit]], ...] = (
    _missing_call,
    _unneeded_call,
    _display,
    _larger,
    _keyword,
    _argument,
    _types,
    _looked_up,
)
