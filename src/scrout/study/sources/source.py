"""What a study looks at: the paper's files, or one's own runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrout.study.sources.benchmark import Benchmark
from scrout.study.sources.paper import Paper

if TYPE_CHECKING:
    from scrout.batch.outputs.results import Costs


@dataclass(frozen=True, eq=False)
class Own:
    """One's own runs, as a ledger has them."""

    benchmark: Benchmark
    judged_by: str
    """`grade` where grades were given, else `check`, which is no grade."""
    costs: Mapping[str, Costs] = field(default_factory=dict)
    """What was paid by arm and fixer, `solo/NAME`, runs that do not count included; empty: unknown."""

    def __str__(self) -> str:
        by = "graded" if self.judged_by == "grade" else "judged by the check alone, which is no grade"
        return f"{self.benchmark.source}, {by}"


Source = Paper | Own
