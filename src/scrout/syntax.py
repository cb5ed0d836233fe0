"""Python's own parser, for one caller at a time.

CPython 3.11 counts the depth of the trees that it builds in one place for all threads. Two that parse at once can find
it changed by the other, and raise a SystemError for a file that is in order.
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
    # What is filtered is one for all threads, too, so only who is alone may change it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
