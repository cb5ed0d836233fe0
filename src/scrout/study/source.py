"""What a study looks at: the paper's files, or one's own runs."""

from __future__ import annotations

from dataclasses import dataclass

from scrout.study.benchmark import Benchmark
from scrout.study.paper import Paper


@dataclass(frozen=True, eq=False)
class Own:
    """One's own runs, as a ledger has them."""

    benchmark: Benchmark
    judged_by: str
    """`grade` where grades were given, else `check`, which is no grade."""

    def __str__(self) -> str:
        by = "graded" if self.judged_by == "grade" else "judged by the check alone, which is no grade"
        return f"{self.benchmark.source}, {by}"


Source = Paper | Own
