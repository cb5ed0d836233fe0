"""One name that a file defines."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["class", "function", "constant"]
"""A class is any type, and a module that holds others; a function has a body or a signature; the rest is a constant."""


class Definition(NamedTuple):
    """A function, method, class, type or constant."""

    name: str
    """Qualified within its file, by dots in every language: `Stock.put`."""
    first: int
    last: int
    """Lines from 1, both included, decorators too, comments before it not."""
    body: int
    """What stands before this line runs on import; for a class or a constant that is all of it."""
    kind: Kind
