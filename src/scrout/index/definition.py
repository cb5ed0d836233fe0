"""A definition in a file."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["class", "function", "constant"]
"""A class is any type, or a module that contains others; a function has a body or a signature; everything else is a
constant.
"""


class Definition(NamedTuple):
    """A function, method, class, type or constant."""

    name: str
    """Qualified within its file, with dots in every language: `Stock.put`."""
    first: int
    last: int
    """First and last line, from 1, with decorators but not the comments before."""
    body: int
    """The lines before this one run on import; for a class or a constant, that is all of it."""
    kind: Kind
