"""Hints from the reproduction: its words, and the exception that left the repository's code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scrout.sandbox.replay import Raised
from scrout.syntax import parse_python

MOST_WORDS = 200
_UNBOUND = re.compile(r"(?:local variable|free variable|name) '(\w+)'")
_NO_ATTRIBUTE = re.compile(r"'\w+' object has no attribute '(\w+)'")


@dataclass(frozen=True)
class Hints:
    """Hints are untrusted text: they suggest edits and prove nothing."""

    strings: tuple[str, ...] = ()
    """String constants of the reproduction."""
    exceptions: tuple[str, ...] = ()
    """Names of exception types in it."""
    unbound: str = ""
    """A name without a value."""
    attribute: str = ""
    """An attribute that an object lacked."""


def hints(sources: Iterable[str], frames: tuple[Raised, ...]) -> Hints:
    """Extract hints from the reproduction's source, if it is Python, and the frames that the exception passed."""
    strings: dict[str, None] = {}
    exceptions: dict[str, None] = {}
    for source in sources:
        try:
            tree = parse_python(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= 80:
                strings[node.value] = None
            elif isinstance(node, ast.Name) and node.id.endswith(("Error", "Exception", "Warning")):
                exceptions[node.id] = None
    message = frames[0].message if frames else ""
    unbound, missing = _UNBOUND.search(message), _NO_ATTRIBUTE.search(message)
    return Hints(
        tuple(strings)[:MOST_WORDS],
        tuple(exceptions)[:MOST_WORDS],
        unbound[1] if unbound else "",
        missing[1] if missing else "",
    )


def functions_named(source: str, name: str) -> Iterator[str]:
    """The sources of the functions of that name; none if the file is not Python."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            yield ast.unparse(node)
