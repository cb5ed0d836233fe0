"""Whether a claim's own code draws on chance: then it is replayed until an even coin would have given itself away."""

from __future__ import annotations

import re
from collections.abc import Iterable

CHANCE_RUNS = 9
"""A coin falls the same way this often once in 256 times."""

_PYTHON = re.compile(
    r"\b(random|secrets|uuid|urandom|getpid|getppid|time_ns|monotonic|perf_counter|time\.time|getrandbits|shuffle"
    r"|datetime\.now|utcnow|today\(\)|hash\()"
)
_SHELL = re.compile(r"\$RANDOM|\$\$|\$\(date|`date|\bshuf\b|/dev/u?random")


def runs_needed(texts: Iterable[str], command: str, runs: int) -> int:
    """How often to replay: as often as was asked for, or more where chance may decide."""
    chance = _SHELL.search(command) or any(_PYTHON.search(text) for text in (command, *texts))
    return max(runs, CHANCE_RUNS) if chance else runs
