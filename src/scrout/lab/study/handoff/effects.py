"""What a fixer does with a handoff that it did not do without, on the tasks that it tried both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.stats import Paired, bootstrap, holm, mean_of, paired, permutation, ratio_of
from scrout.records import Arm
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats

WHOLE = 0.9
"""With a smaller share of the tasks tried both ways, somebody or something has chosen them."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """One fixer on the tasks that it tried both ways."""

    fixer: str
    tasks: Benchmark
    """These alone."""
    selected: bool
    """True: they are so few of the benchmark's tasks that they were not drawn by chance."""
    before: Bools
    after: Bools
    before_usd: Floats
    after_usd: Floats
    before_steps: Floats
    after_steps: Floats

    @property
    def change(self) -> Floats:
        """Of each task: 1 gained, -1 lost."""
        return self.after.astype(np.float64) - self.before


class HandoffEffect(FrozenModel):
    """One fixer in two arms."""

    benchmark: str
    fixer: str
    tasks: str
    """Which they are, in words; empty: all that it tried both ways."""
    kinds: str
    """Of the handoffs: how many came by themselves, and how many when told to."""
    selected: bool
    """True: the tasks were not drawn by chance."""
    paired: Paired
    p_holm: float | None = None
    """Adjusted over the fixers of the benchmark; None: it is not of that family."""
    usd: float | None
    """Mean dollars a task in the first arm; None: unknown."""
    usd_change: Estimate | None


class Pooled(FrozenModel):
    """All fixers of a benchmark together. A task's fixers are resampled, and change signs, together."""

    benchmark: str
    fixers: tuple[str, ...]
    tasks: int
    pairs: int
    first: float
    second: float
    gained: int
    lost: int
    change: Estimate
    p: float
    """By permuting, for each task, which arm is which."""


class Effort(FrozenModel):
    """What a fixer's attempts took."""

    benchmark: str
    fixer: str
    tasks: int
    steps: float
    """Mean calls in the first arm."""
    steps_change: Estimate
    capped: Paired | None
    """Attempts that reached the most calls allowed; None: the limit is not known."""


def pairs_of(benchmark: Benchmark, before: Arm = "solo", after: Arm = "handoff") -> list[Pairs]:
    """Every fixer that some tasks were given to both ways."""
    if before not in benchmark.played or after not in benchmark.played:
        return []
    first, second = benchmark.arm(before), benchmark.arm(after)
    found = []
    for fixer in second.fixers:
        if fixer not in first.fixers:
            continue
        one, other = first.column(fixer), second.column(fixer)
        both = first.measured[:, one] & second.measured[:, other]
        if both.any():
            found.append(
                Pairs(
                    fixer,
                    benchmark.rows(both),
                    bool(both.mean() < WHOLE),
                    *(first.resolved[both, one], second.resolved[both, other]),
                    *(first.cost[both, one], second.cost[both, other]),
                    *(first.steps[both, one], second.steps[both, other]),
                )
            )
    return found


def effects_of(found: Sequence[Pairs]) -> list[HandoffEffect]:
    """Of each fixer, adjusted for their number; those on chosen tasks are not of that family."""
    effects = [effect_of(pairs) for pairs in found]
    family = [at for at, effect in enumerate(effects) if not effect.selected]
    for at, p in zip(family, holm([effects[at].paired.p for at in family]), strict=True):
        effects[at] = effects[at].model_copy(update={"p_holm": p})
    return effects


def effect_of(pairs: Pairs, tasks: str = "") -> HandoffEffect:
    """Of one fixer, not adjusted for anything."""
    known = np.isfinite(pairs.before_usd) & np.isfinite(pairs.after_usd)
    before, after = pairs.before_usd[known], pairs.after_usd[known]
    return HandoffEffect(
        benchmark=pairs.tasks.name,
        fixer=pairs.fixer,
        tasks=tasks,
        kinds=kinds_of(pairs.tasks),
        selected=pairs.selected,
        paired=paired(pairs.before, pairs.after),
        usd=float(before.mean()) if known.any() else None,
        usd_change=bootstrap(int(known.sum()), mean_of(after - before)) if known.any() else None,
    )


def kinds_of(tasks: Benchmark) -> str:
    """Of a benchmark's handoffs, in words."""
    if not tasks.scouted:
        return "unknown"
    kinds = [scouted.kind for scouted in tasks.scouted.values()]
    told = [f"{kinds.count(kind)} {kind}" for kind in ("spontaneous", "forced", "none") if kind in kinds]
    return ", ".join(told)


def pooled(found: Sequence[Pairs]) -> Pooled | None:
    """All fixers together; None: there are not two."""
    if len(found) < 2:
        return None
    ids = {task: at for at, task in enumerate(dict.fromkeys(task for pairs in found for task in pairs.tasks.ids))}
    change, count = np.zeros(len(ids)), np.zeros(len(ids))
    for pairs in found:
        at = [ids[task] for task in pairs.tasks.ids]
        change[at] += pairs.change
        count[at] += 1
    before, after = (np.concatenate([getattr(pairs, way) for pairs in found]) for way in ("before", "after"))
    return Pooled(
        benchmark=found[0].tasks.name,
        fixers=tuple(pairs.fixer for pairs in found),
        tasks=len(ids),
        pairs=len(before),
        first=float(before.mean()),
        second=float(after.mean()),
        gained=int((after & ~before).sum()),
        lost=int((before & ~after).sum()),
        change=bootstrap(len(ids), ratio_of(change, count)),
        # One task alone that differs can have either sign.
        p=permutation(change) if np.count_nonzero(change) > 1 else 1.0,
    )


def effort_of(pairs: Pairs, most_steps: int | None) -> Effort | None:
    """Calls in both arms; None: they are not known."""
    known = np.isfinite(pairs.before_steps) & np.isfinite(pairs.after_steps)
    if not known.any():
        return None
    before, after = pairs.before_steps[known], pairs.after_steps[known]
    return Effort(
        benchmark=pairs.tasks.name,
        fixer=pairs.fixer,
        tasks=int(known.sum()),
        steps=float(before.mean()),
        steps_change=bootstrap(int(known.sum()), mean_of(after - before)),
        capped=None if most_steps is None else paired(before >= most_steps, after >= most_steps),
    )
