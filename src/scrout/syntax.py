"""Python's own parser, for one caller at a time.

CPython 3.11 counts the depth of the trees that it builds in one place for all threads. Two that parse at once can find
it changed by the other, and raise a SystemError for a file that is in order.
"""

from __future__ import annotations

import ast
from threading import Lock

_ALONE = Lock()


def parse_python(source: str | bytes) -> ast.Module:
    """As ast.parse; safe in threads."""
    with _ALONE:
        return ast.parse(source)
