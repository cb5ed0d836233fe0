"""A benchmark as studies see it: tasks, what each fixer did on them in each arm, and what the scout said of them.

The paper's files (paper.py) and a ledger (own.py) are both read into this form, so a study need not know which it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from scrout.base import StudyError
from scrout.records import Arm
from scrout.route.outcome_table import Bools, OutcomeTable
from scrout.route.stats import Floats

Kind = Literal["spontaneous", "forced", "none"]
"""Whether the searcher handed over by itself, when it was told to, or not at all. Never pooled without saying so."""


@dataclass(frozen=True, eq=False)
class FixerOutcomes:
    """What one fixer, or one way to choose a fixer for each task, did on a benchmark's tasks."""

    name: str
    measured: Bools
    resolved: Bools
    cost: Floats
    steps: Floats


@dataclass(frozen=True, eq=False)
class ArmOutcomes:
    """What fixers did on a benchmark's tasks in one arm: a row a task, a column a fixer."""

    fixers: tuple[str, ...]
    measured: Bools
    """Whether the pair has an outcome at all; where not, the other arrays say nothing."""
    resolved: Bools
    cost: Floats
    """Dollars; nan: unknown."""
    steps: Floats
    """Calls of the model; nan: unknown."""

    def column(self, fixer: str) -> int:
        if fixer not in self.fixers:
            raise StudyError(f"no outcome of {fixer}. These have some: {', '.join(self.fixers)}")
        return self.fixers.index(fixer)

    def of(self, fixer: str) -> FixerOutcomes:
        return self._taken(fixer, (slice(None), self.column(fixer)))

    def each(self) -> Iterator[FixerOutcomes]:
        return map(self.of, self.fixers)

    def chosen(self, name: str, fixers: Sequence[str]) -> FixerOutcomes:
        """For each task that of one fixer."""
        return self._taken(name, (np.arange(len(fixers)), [self.column(fixer) for fixer in fixers]))

    def _taken(self, name: str, at: Any) -> FixerOutcomes:
        return FixerOutcomes(name, self.measured[at], self.resolved[at], self.cost[at], self.steps[at])

    def only(self, fixers: Sequence[str]) -> ArmOutcomes:
        """These fixers, in this order."""
        return self._part((slice(None), [self.column(fixer) for fixer in fixers]), tuple(fixers))

    def rows(self, mask: Bools) -> ArmOutcomes:
        """The tasks of the mask alone."""
        return self._part(np.flatnonzero(mask), self.fixers)

    def _part(self, at: Any, fixers: tuple[str, ...]) -> ArmOutcomes:
        return ArmOutcomes(fixers, self.measured[at], self.resolved[at], self.cost[at], self.steps[at])


@dataclass(frozen=True)
class ScoutRecord:
    """What a scout handed over on one task, and what the gate made of it."""

    kind: Kind
    verdict: str
    """Of the gate, in the words of the source; empty: no gate."""
    claimed: bool
    """Whether it said that it had reproduced the issue."""
    kept: bool
    """Whether the claim survived the gate."""
    named: int
    """Files it named."""
    gold: int | None = None
    """Files of the true patch; None: the answer is not known, and neither are the next three."""
    recall: float = float("nan")
    precision: float = float("nan")
    f1: float = float("nan")
    hits: tuple[bool, ...] | None = None
    """For each file named, the likeliest first, whether it is gold; None: unknown."""

    @property
    def all_gold(self) -> bool:
        """Whether every file of the true patch was named."""
        return self.recall == 1.0


@dataclass(frozen=True, eq=False)
class Benchmark:
    name: str
    source: str
    """Where it comes from, in words for a reader who wants to check."""
    ids: tuple[str, ...]
    repositories: tuple[str, ...]
    arms: Mapping[Arm, ArmOutcomes]
    """Only the arms that were run."""
    scouted: Mapping[str, ScoutRecord] = field(default_factory=dict)
    """By task; the tasks that were not scouted are not in it."""
    languages: Mapping[str, str] = field(default_factory=dict)
    """By task, where known."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By task, where known."""
    paid: Mapping[str, Decimal] = field(default_factory=dict)
    """Dollars by component (scout, gate, route, fix, check); empty: unknown."""

    def arm(self, arm: Arm) -> ArmOutcomes:
        if arm not in self.arms:
            raise StudyError(
                f"{self.name} has no outcome of the arm {arm}; it has {', '.join(self.arms) or 'none'}. "
                f"Run a batch with --arms {arm}, or name other data."
            )
        return self.arms[arm]

    def rows(self, mask: Bools) -> Benchmark:
        """The tasks of the mask alone."""
        at = np.flatnonzero(mask)
        ids = tuple(self.ids[i] for i in at)
        return replace(
            self,
            ids=ids,
            repositories=tuple(self.repositories[i] for i in at),
            arms={arm: one.rows(mask) for arm, one in self.arms.items()},
            scouted={task: self.scouted[task] for task in ids if task in self.scouted},
        )

    def pool(self, fixers: Sequence[str], arm: Arm = "solo") -> ArmOutcomes:
        """These fixers on the tasks that all of them tried."""
        outcomes = self.arm(arm).only(fixers)
        common: Bools = np.all(outcomes.measured, axis=1)
        if not common.any():
            raise StudyError(f"{self.name}: no task was tried by all of {', '.join(fixers)}. Leave one of them out.")
        # Rows before columns: the layout of an array decides the last digits of its sums.
        return self.arm(arm).rows(common).only(fixers)

    def table(self, arm: Arm = "solo", fixers: Sequence[str] | None = None) -> OutcomeTable:
        """The arm as the router's functions take it; `fixers`: these alone."""
        outcomes = self.arm(arm) if fixers is None else self.arm(arm).only(fixers)
        return OutcomeTable(
            self.ids, self.repositories, outcomes.fixers, outcomes.resolved, outcomes.cost, outcomes.measured
        )


MAX_AMOUNT = 1_000_000
"""Dollars, steps or files of one attempt: what is more is no count of them."""


@dataclass(frozen=True)
class FixerEpisode:
    """One fixer on one task."""

    resolved: bool
    cost: float
    """Dollars; nan: unknown."""
    steps: float
    """Calls of the model; nan: unknown."""


def arm_outcomes(
    ids: Sequence[str], fixers: Sequence[str], found: Mapping[tuple[str, str], FixerEpisode]
) -> ArmOutcomes:
    """Outcomes by task and fixer, as arrays."""
    shape = len(ids), len(fixers)
    measured, resolved = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    cost, steps = np.full(shape, np.nan), np.full(shape, np.nan)
    row, column = ({name: at for at, name in enumerate(names)} for names in (ids, fixers))
    for (task, fixer), one in found.items():
        if fixer not in column:
            raise StudyError(f"an outcome of {fixer!r}, which is none of {', '.join(fixers)}. Leave its rows out.")
        at = row[task], column[fixer]
        measured[at], resolved[at], cost[at], steps[at] = True, one.resolved, one.cost, one.steps
    return ArmOutcomes(tuple(fixers), measured, resolved, cost, steps)


def add(found: dict[tuple[str, str], FixerEpisode], key: tuple[str, str], episode: FixerEpisode, where: str) -> None:
    if key in found:
        raise StudyError(f"{where}: a second outcome of {key[1]} on {key[0]}. Keep one.")
    found[key] = episode
