"""What a study looks at: the paper's files, or one's own runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scrout.batch.jobs import ROUTED
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import Paper

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

    @property
    def fixers(self) -> Benchmark:
        """Fixers alone: what was routed is none of its own."""
        played = {arm: _fixers(one) for arm, one in self.benchmark.played.items()}
        return replace(self.benchmark, played={arm: one for arm, one in played.items() if one.fixers})

    @property
    def comparable(self) -> Benchmark:
        """Fixers that were judged alike."""
        return self.alike(self.fixers)

    def alike(self, benchmark: Benchmark) -> Benchmark:
        """Only arms that were judged alike: the check passes no patch without a verified reproduction, which only
        handoffs bring."""
        if self.judged_by == "grade":
            return benchmark
        return replace(benchmark, played={arm: one for arm, one in benchmark.played.items() if arm == "handoff"})

    def __str__(self) -> str:
        by = "graded" if self.judged_by == "grade" else "judged by the check alone, which is no grade"
        return f"{self.benchmark.source}, {by}"


def _fixers(played: ArmOutcomes) -> ArmOutcomes:
    return played.only([fixer for fixer in played.fixers if fixer != ROUTED])


Source = Paper | Own
