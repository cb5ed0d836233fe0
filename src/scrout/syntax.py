"""Python's own parser, behind a lock.

CPython 3.11 counts the depth of syntax trees in one variable for all threads. Two threads that parse at once can
disturb each other's count and raise a SystemError for a valid file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_LINE_ENDS = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
"""As Python counts lines: a form feed begins none."""
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


class SourceText:
    """The text of nodes of one file. Unlike ast.get_source_segment it splits the file into lines only once."""

    def __init__(self, source: str) -> None:
        self._lines = [line.encode() for line in _LINE_ENDS.split(source)]

    def of(self, node: ast.expr | ast.stmt) -> str:
        """As it is written; empty: the node has no place."""
        if node.end_lineno is None or node.end_col_offset is None:
            return ""
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"".join(lines).decode()


@contextmanager
def _quiet() -> Iterator[None]:
    # Warning filters are global, so only the holder of the lock may change them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
