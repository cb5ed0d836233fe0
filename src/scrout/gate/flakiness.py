"""Whether a claim's own code draws on chance: then it is replayed until an even coin would have given itself away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from scrout.syntax import parse_python

CHANCE_RUNS = 16
"""What fails two times in three fails this often in a row once in 440 times."""

_PYTHON = re.compile(
    r"\b(random|secrets|uuid|urandom|getpid|getppid|time_ns|monotonic|perf_counter|time\.time|getrandbits|shuffle"
    r"|datetime\.now|utcnow|today\(\)|hash\(|set\(|frozenset\()"
)
_SHELL = re.compile(r"\$RANDOM|\$\$|\$\(date|`date|\bshuf\b|/dev/u?random")


def runs_needed(texts: Iterable[str], command: str, runs: int) -> int:
    """How often to replay: as often as was asked for, or more where chance may decide."""
    probability = _SHELL.search(command) or any(_PYTHON.search(text) or _has_sets(text) for text in (command, *texts))
    return max(runs, CHANCE_RUNS) if probability else runs


def _has_sets(text: str) -> bool:
    """The order of a set of strings is another in every process."""
    try:
        return any(isinstance(node, ast.Set | ast.SetComp) for node in ast.walk(parse_python(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
