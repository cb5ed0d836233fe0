"""Texts that make a pattern backtrack, derived from the pattern itself, and every pattern of the package.

An attack needs a repetition whose end never comes, behind whatever leads up to it. Both can be read off the pattern:
what leads up is the shortest text that its parts match, and what is repeated is each sort of character that it takes.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from types import ModuleType

import scrout

SORTS = " \t\na0Aé_.,:;/-+\\\"'`*<>()[]{}|&=#@$%!?~^\r\0x"
"""A character of each sort that patterns tell apart."""
MANY = 50
"""A repetition of up to as many times costs a constant."""
METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")


@dataclass(frozen=True)
class Used:
    """A pattern and where it is from."""

    where: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    only_at_start: bool
    """It is never searched for, only matched where a text begins."""


def patterns_of_package(skip: Iterable[str] = ()) -> list[Used]:
    """All patterns that modules hold or compile from a constant, without those of modules whose name starts so."""
    found: dict[tuple[str | bytes, int, bool], Used] = {}
    modules = list(_modules(tuple(skip)))
    methods = {module.__name__: _methods(module) for module in modules}
    everywhere: dict[str, set[str]] = {}
    for of_module in methods.values():
        for name, used in of_module.items():
            everywhere.setdefault(name, set()).update(used)
    for module in modules:
        short = module.__name__.removeprefix("scrout.")
        held = [(name, each) for name, value in vars(module).items() for each in _patterns_in(value)]
        for name, pattern in held:
            used = (methods[module.__name__] if name.startswith("_") else everywhere).get(name, {"search"})
            only = used <= {"match", "fullmatch"}
            found.setdefault((pattern.pattern, pattern.flags, only), Used(f"{short}:{name}", pattern, only))
        for line, method, pattern in _inline(module):
            only = method in ("match", "fullmatch")
            found.setdefault((pattern.pattern, pattern.flags, only), Used(f"{short}:{line}", pattern, only))
    return list(found.values())


def _modules(skip: tuple[str, ...]) -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(scrout.__path__, "scrout."):
        if info.name.endswith("__main__") or info.name.removeprefix("scrout.").startswith(skip):
            continue
        try:
            yield importlib.import_module(info.name)
        except ImportError:
            continue  # of an extra that is not installed


def _patterns_in(value: object, depth: int = 3) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _patterns_in(each, depth - 1)
    elif depth and isinstance(value, dict):
        for each in (*value.keys(), *value.values()):
            yield from _patterns_in(each, depth - 1)
    elif depth and hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            yield from _patterns_in(getattr(value, name, None), depth - 1)


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(module.__file__ or "").read_bytes())


def _methods(module: ModuleType) -> dict[str, set[str]]:
    """How each name is used, as far as it is called by name: `_NAME.search(…)`."""
    found: dict[str, set[str]] = {}
    called, names = set(), []
    for node in ast.walk(_tree(module)):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in METHODS:
                found.setdefault(name, set()).add(method)
                called.add(id(node.value))
            case ast.Name(ctx=ast.Load()):
                names.append(node)
    for node in names:
        if id(node) not in called:
            found.setdefault(node.id, set()).add("passed on")
    return found


def _inline(module: ModuleType) -> Iterator[tuple[int, str, re.Pattern[str] | re.Pattern[bytes]]]:
    for node in ast.walk(_tree(module)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str() | bytes() as source), *_],
            ) if method in METHODS:
                named = {
                    sub.attr
                    for part in (*node.args, *node.keywords)
                    for sub in ast.walk(part)
                    if isinstance(sub, ast.Attribute) and hasattr(re.RegexFlag, sub.attr)
                }
                flags = 0
                for name in named:
                    flags |= getattr(re, name)
                yield node.lineno, method, re.compile(source, flags)


def attacks(pattern: re.Pattern[str] | re.Pattern[bytes]) -> list[tuple[str, str, str]]:
    """What leads up to a repetition, what is repeated, and what comes at the end."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = sre_parser.parse(
        source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    points = list(dict.fromkeys(_points(list(tree), "", pattern.flags)))
    # First of all what ends a repetition where the pattern goes on: it has to go back from there.
    ranked = ([(lead, unit, end) for lead, unit, breaks in points for end in pick(breaks)] for pick in _ENDS)
    return list(dict.fromkeys(attack for attacks in ranked for attack in attacks))


_ENDS = (lambda breaks: breaks[:1], lambda breaks: ("",), lambda breaks: ("\n!",), lambda breaks: breaks[1:2])


def texts(lead: str, unit: str, end: str, size: int) -> list[str]:
    """Texts of about that size: one long run, the whole again and again, line by line, and all that leads up first."""
    both = lead + unit
    if not both:
        return []
    shapes = [both * (size // len(both)), f"\n{both}" * (size // (len(both) + 1))]
    if unit:
        shapes.append(lead + unit * (size // len(unit)))
        shapes.append(lead * (size // 2 // max(1, len(lead))) + unit * (size // 2 // len(unit)))
    return [shape + end for shape in shapes]


def _points(nodes: list[tuple[object, object]], lead: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """Every repetition with what leads up to it."""
    for at, (op, value) in enumerate(nodes):
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            low, high, body = value  # type: ignore[misc]
            if high > MANY:
                behind = _shortest(nodes[at + 1 :], flags)[:3]
                units = _units(list(body), flags)
                breaks = "".join(sort for sort in "x!,.\0" if sort not in units)
                for unit in units:
                    yield lead, unit, breaks
                    if behind:
                        yield lead, unit + behind, breaks
                        yield lead, behind[0], breaks
            yield from _points(list(body), lead, flags)
            if low == 0:
                # With what may be left out, too.
                more = _shortest(list(body), flags)
                if more and len(more) < MANY and high <= MANY:
                    yield from _points(nodes[at + 1 :], lead + more, flags)
        elif op is sre.BRANCH:
            for branch in value[1]:  # type: ignore[index]
                yield from _points(list(branch), lead, flags)
                if at + 1 < len(nodes):
                    yield from _points(nodes[at + 1 :], lead + _shortest(list(branch), flags), flags)
            return
        elif op is sre.SUBPATTERN:
            yield from _points(list(value[-1]), lead, flags)  # type: ignore[index]
        elif op is sre.ATOMIC_GROUP:
            yield from _points(list(value), lead, flags)  # type: ignore[call-overload]
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _points(list(value[1]), lead, flags)  # type: ignore[index]
        lead += _shortest([(op, value)], flags)
    yield lead, "", "x"


def _shortest(nodes: Iterable[tuple[object, object]], flags: int) -> str:
    text = ""
    for op, value in nodes:
        if op is sre.LITERAL:
            text += chr(value)  # type: ignore[arg-type]
        elif op in (sre.NOT_LITERAL, sre.IN, sre.ANY):
            text += _of_sort(op, value, flags)[:1]
        elif op is sre.BRANCH:
            text += _shortest(list(value[1][0]), flags)  # type: ignore[index]
        elif op is sre.SUBPATTERN:
            text += _shortest(list(value[-1]), flags)  # type: ignore[index]
        elif op is sre.ATOMIC_GROUP:
            text += _shortest(list(value), flags)  # type: ignore[call-overload]
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            text += _shortest(list(value[2]), flags) * value[0]  # type: ignore[index]
        elif op is sre.ASSERT and value[0] < 0:  # type: ignore[index]
            text += _shortest(list(value[1]), flags)  # type: ignore[index]
        elif op is sre.AT and value is sre.AT_BEGINNING and flags & re.M and text and not text.endswith("\n"):
            text += "\n"
    return text


def _units(body: list[tuple[object, object]], flags: int) -> list[str]:
    """What a repetition may take, one of each sort."""
    if len(body) == 1:
        op, value = body[0]
        if op in (sre.NOT_LITERAL, sre.IN, sre.ANY):
            sorts = _of_sort(op, value, flags)
            words = [sort for sort in sorts if sort.isalnum()][:2]
            # A word ends and begins again within the run, which `\b` and its like tell apart.
            return [*sorts, *(word + sort for word in words for sort in sorts if not sort.isalnum())]
        if op is sre.SUBPATTERN:
            return _units(list(value[-1]), flags)  # type: ignore[index]
        if op is sre.BRANCH:
            return [unit for branch in value[1] for unit in _units(list(branch), flags)]  # type: ignore[index]
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            return _units(list(value[2]), flags)  # type: ignore[index]
    whole = _shortest(body, flags)
    fuller = "".join(_shortest([part] if part[0] not in _REPEATS else list(part[1][2]), flags) for part in body)  # type: ignore[index]
    return [unit for unit in dict.fromkeys((whole, fuller)) if unit]


_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def _of_sort(op: object, value: object, flags: int) -> str:
    if op is sre.ANY:
        return " a0.*" + ("\n" if flags & re.S else "")
    if op is sre.NOT_LITERAL:
        return "".join(sort for sort in SORTS if ord(sort) != value)
    return _members(tuple(value))  # type: ignore[arg-type]


@cache
def _members(items: tuple[tuple[object, object], ...]) -> str:
    return "".join(sort for sort in SORTS if _holds(items, sort)) or _first(items)


def _holds(items: tuple[tuple[object, object], ...], char: str) -> bool:
    inside, negated = False, False
    for op, value in items:
        if op is sre.NEGATE:
            negated = True
        elif op is sre.LITERAL:
            inside |= ord(char) == value
        elif op is sre.RANGE:
            inside |= value[0] <= ord(char) <= value[1]  # type: ignore[index]
        elif op is sre.CATEGORY:
            shape = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[str(value).rpartition("_")[2]]
            inside |= (re.match(shape, char) is not None) != ("_NOT_" in str(value))
    return inside != negated


def _first(items: tuple[tuple[object, object], ...]) -> str:
    op, value = items[0]
    return chr(value if op is sre.LITERAL else value[0]) if op in (sre.LITERAL, sre.RANGE) else ""  # type: ignore[index,arg-type]
