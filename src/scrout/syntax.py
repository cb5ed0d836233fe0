"""Python's own parser, for one caller at a time.

CPython 3.11 counts the depth of the trees that it builds in one place for all threads. Two that parse at once can find
it changed by the other, and raise a SystemError for a file that is in order.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

ALONE = Lock()
"""Held by whoever parses: also by readers of numpy's files, whose headers are Python literals."""


def parse_python(source: str | bytes) -> ast.Module:
    """As ast.parse, without warnings of what others wrote; safe in threads."""
    with ALONE, _quiet():
        return ast.parse(source)


def is_literal(text: str) -> bool:
    """Whether a text is a value by itself: a number, a string, a list of such."""
    try:
        with ALONE, _quiet():
            ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    # What is filtered is one for all threads, too, so only who is alone may change it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
