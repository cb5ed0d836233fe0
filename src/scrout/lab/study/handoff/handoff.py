"""What the handoff does to each fixer: paired by task, where it seems to help, and how many tasks it takes to know.

The effects are questions asked beforehand. The looks are exploratory, and adjusted as the family that they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.lab.study.handoff import report as handoff_report
from scrout.lab.study.handoff.effects import (
    Effort,
    HandoffEffect,
    Pairs,
    Pooled,
    effect_of,
    effects_of,
    effort_of,
    pairs_of,
    pooled,
)
from scrout.lab.study.handoff.injection import Injection, injections
from scrout.lab.study.handoff.looks import SubgroupEffect, subgroup_effects
from scrout.lab.study.report import StudyReport
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.sources.paper import GPT, KIMI, MAX_STEPS, Paper
from scrout.lab.study.sources.source import Source
from scrout.lab.study.stats import power, tasks_needed

EFFECT = 0.04
"""The change of the solve rate that one would like to see."""
WANTED = (0.8, 0.9)
CURVE = 40
"""Points of a curve."""


class Power(FrozenModel):
    """How many tasks it takes to see an effect, where the two arms differ as often as was measured."""

    measured_on: str
    tasks: int
    differ: float
    """Share of the tasks on which the two arms differ."""
    effect: float
    power: float
    """With the tasks there are."""
    visible: float | None
    """The smallest effect that these tasks show with a power of 80%; None: not even the largest possible."""
    needed: dict[float, int | None]
    """Tasks by power; None: too many to count."""
    curve: tuple[tuple[int, float], ...]
    """Power by tasks."""


class HandoffStudy(FrozenModel):
    """All of it."""

    comparable: bool
    """False: outcomes are the check's, which passes no patch without a reproduction, and only handoffs bring one; so
    there are no effects, looks and powers."""
    effects: tuple[HandoffEffect, ...]
    """Solo to handoff."""
    pooled: tuple[Pooled, ...]
    gates: tuple[HandoffEffect, ...]
    """Pass-through (every claim left in) to handoff; empty: no such arm was run."""
    efforts: tuple[Effort, ...]
    looks: tuple[SubgroupEffect, ...]
    claimed: tuple[str, str] | None
    """Fixer and yardstick of the look that the receipts suggested and the label run is to confirm."""
    injections: tuple[Injection, ...]
    powers: tuple[Power, ...]
    notes: tuple[str, ...]


def study(source: Source) -> HandoffStudy:
    """Solo against handoff on the paper's receipts and its label run, or on one's own runs."""
    if isinstance(source, Paper):
        benchmarks, most_steps = {source.label_run.name: source.label_run}, {source.evaluation.name: MAX_STEPS}
        benchmarks[source.evaluation.name] = source.evaluation
    else:
        benchmarks, most_steps = {source.benchmark.name: source.fixers}, {}
    found = {name: pairs_of(benchmark) for name, benchmark in benchmarks.items()}
    gates = [pairs_of(benchmark, "passthrough", "handoff") for benchmark in benchmarks.values()]
    if not any(found.values()) and not any(gates):
        arms = "; ".join(f"{name} has {', '.join(one.played)}" for name, one in benchmarks.items())
        raise StudyError(
            f"no fixer tried a task both alone and with a handoff ({arms}). "
            "Run a batch with --arms solo,handoff,passthrough and --fixers NAME."
        )
    efforts = tuple(_efforts(found, most_steps))
    comparable = isinstance(source, Paper) or source.judged_by == "grade"
    if not comparable:
        found, gates = {}, []
    whole = [(name, pairs) for name, fixers in found.items() for pairs in fixers if not pairs.selected]
    return HandoffStudy(
        comparable=comparable,
        effects=tuple(effect for pairs in found.values() for effect in effects_of(pairs)) + _routed(source),
        pooled=tuple(one for pairs in found.values() if (one := pooled(_whole(pairs))) is not None),
        gates=tuple(effect for pairs in gates for effect in effects_of(pairs)),
        efforts=efforts,
        looks=tuple(look for name, pairs in found.items() for look in subgroup_effects(pairs, most_steps.get(name))),
        claimed=(KIMI, GPT) if isinstance(source, Paper) else None,
        injections=tuple(one for name, pairs in whole for one in injections(pairs, most_steps.get(name))),
        powers=tuple(_power(pairs) for _, pairs in whole),
        notes=_notes(source, benchmarks),
    )


def report(result: HandoffStudy) -> StudyReport:
    """The study for people."""
    return handoff_report.report(result)


def _whole(found: Sequence[Pairs]) -> list[Pairs]:
    """Those that no router chose the tasks of."""
    return [pairs for pairs in found if not pairs.selected]


def _routed(source: Source) -> tuple[HandoffEffect, ...]:
    """The paper's own figure: its main fixer on the tasks that its router gave to it."""
    if not isinstance(source, Paper):
        return ()
    routed = source.evaluation.rows(np.array(source.routing.decisions) == KIMI)
    return tuple(effect_of(pairs, "routed to it") for pairs in pairs_of(routed) if pairs.fixer == KIMI)


def _efforts(found: dict[str, list[Pairs]], most_steps: dict[str, int]) -> list[Effort]:
    asked = (effort_of(each, most_steps.get(name)) for name, pairs in found.items() for each in pairs)
    return [effort for effort in asked if effort is not None]


def _power(pairs: Pairs) -> Power:
    """For an effect of `EFFECT`, at the rate at which the arms of this fixer differ."""
    tasks, differ = len(pairs.change), float(np.mean(pairs.change != 0))
    # Arms that differ on fewer tasks than the effect could not show it: then every difference is a gain.
    least = max(differ, EFFECT)
    needed = {wanted: tasks_needed(*_probabilities(least, EFFECT), wanted) for wanted in WANTED}
    most = max([tasks, *(count for count in needed.values() if count is not None)])
    at = np.unique(np.linspace(20, max(1.1 * most, 100), CURVE).astype(int))
    return Power(
        measured_on=f"{pairs.tasks.name}, {pairs.fixer}",
        tasks=tasks,
        differ=differ,
        effect=EFFECT,
        power=power(tasks, *_probabilities(least, EFFECT)),
        visible=_visible(tasks, least),
        needed=needed,
        curve=tuple((int(count), power(int(count), *_probabilities(least, EFFECT))) for count in at),
    )


def _probabilities(differ: float, effect: float) -> tuple[float, float]:
    """To gain a task and to lose one."""
    return (differ + effect) / 2, max(0.0, (differ - effect) / 2)


def _visible(tasks: int, differ: float) -> float | None:
    """The smallest effect with enough power, to a tenth of a point."""
    for effect in np.arange(0.001, differ, 0.001):
        if power(tasks, *_probabilities(differ, float(effect))) >= WANTED[0]:
            return round(float(effect), 3)
    return None


def _notes(source: Source, benchmarks: dict[str, Benchmark]) -> tuple[str, ...]:
    notes = []
    for name, benchmark in benchmarks.items():
        if not benchmark.scouted:
            notes.append(f"{name}: nothing is told of its handoffs, so looks go by length alone, and kinds are pooled.")
        if "passthrough" not in benchmark.played:
            notes.append(
                f"{name}: no pass-through arm (claims left in) was run, so nothing is said of the gate. "
                "`scrout tasks draw` draws the tasks and gives the command of a batch that has one."
            )
    if isinstance(source, Paper):
        notes.append(
            "The label run tells no steps; another model's dollars alone stand for the length of a task there. "
            "In the receipts a router chose the pairs of all fixers but the main one, so they are shown, not tested."
        )
    return tuple(notes)
