"""Python's own parser, behind a lock.

CPython 3.11 counts the depth of syntax trees in one variable for all threads. Two threads that parse at once can
disturb each other's count and raise a SystemError for a valid file.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

ALONE = Lock()
"""Held while parsing. Readers of numpy files need it too, because their headers are Python literals."""


def parse_python(source: str | bytes) -> ast.Module:
    """ast.parse without warnings, safe in threads."""
    with ALONE, _quiet():
        return ast.parse(source)


def is_literal(text: str) -> bool:
    """Whether a text is a literal: a number, a string, a list of such."""
    try:
        with ALONE, _quiet():
            ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    # Warning filters are global, so only the holder of the lock may change them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
