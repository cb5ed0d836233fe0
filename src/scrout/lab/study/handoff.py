"""What the handoff does to each fixer: paired by task, where it seems to help, and how many tasks it takes to know.

The effects are questions asked beforehand. The looks are exploratory, and adjusted as the family that they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.sources.paper import GPT, KIMI, MAX_STEPS, Paper
from scrout.lab.study.sources.source import Source
from scrout.lab.study.stats import (
    MeanDifference,
    Paired,
    bootstrap,
    holm,
    mean_difference,
    mean_of,
    paired,
    permutation,
    power,
    ratio_of,
    tasks_needed,
)
from scrout.records import Arm
from scrout.route.outcome_table import Bools, group_folds
from scrout.route.stats import Floats
from scrout.text import percent

WHOLE = 0.9
"""With a smaller share of the tasks tried both ways, somebody or something has chosen them."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """One fixer on the tasks that it tried both ways."""

    fixer: str
    tasks: Benchmark
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
    if before not in benchmark.arms or after not in benchmark.arms:
        return []
    first, second = benchmark.arm(before), benchmark.arm(after)
    found = []
    for other in second.each():
        if other.name not in first.fixers:
            continue
        one = first.of(other.name)
        both = one.measured & other.measured
        if both.any():
            found.append(
                Pairs(
                    other.name,
                    benchmark.rows(both),
                    bool(both.mean() < WHOLE),
                    *(one.resolved[both], other.resolved[both]),
                    *(one.cost[both], other.cost[both]),
                    *(one.steps[both], other.steps[both]),
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


def pooled_effect(found: Sequence[Pairs]) -> Pooled | None:
    """All fixers together whose tasks no router chose; None: there are not two."""
    found = [pairs for pairs in found if not pairs.selected]
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
        p=permutation(change),
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


POOR = 0.3
"""A recall below it is a poor one."""
REAL = "real_failure"
"""The verdict of a claim that failed because of the repository's behaviour."""
LEAST = 5
"""A group of fewer tasks is not looked at."""


class Side(FrozenModel):
    paired: Paired
    p_holm: float
    """Adjusted over both groups of all looks at the benchmark."""


class SubgroupEffect(FrozenModel):
    """The effect within a group of tasks, and outside of it."""

    benchmark: str
    fixer: str
    group: str
    """Which tasks are in it, in words."""
    yardstick: str
    """The model whose run tells the length; empty: the look is not about length."""
    inside: Side
    outside: Side
    between: MeanDifference
    """The effect inside less that outside."""
    p_holm: float
    """Of that difference, adjusted over the looks at the benchmark."""


@dataclass(frozen=True, eq=False)
class TaskSplit:
    """A division of a fixer's tasks."""

    group: str
    inside: Bools
    known: Bools
    """Tasks of which it is known on which side they are."""
    yardstick: str = ""


def subgroup_effects(found: Sequence[Pairs], most_steps: int | None) -> list[SubgroupEffect]:
    """All looks at a benchmark, at the fixers whose tasks were not chosen."""
    raw = [
        (pairs, split, _paired(pairs, split.inside), _paired(pairs, split.known & ~split.inside))
        for pairs in found
        if not pairs.selected
        for split in splits(pairs, most_steps)
    ]
    within = holm([side.p for _, _, inside, outside in raw for side in (inside, outside)])
    between = [mean_difference(pairs.change[split.known], split.inside[split.known]) for pairs, split, _, _ in raw]
    adjusted = holm([one.p for one in between])
    return [
        SubgroupEffect(
            benchmark=pairs.tasks.name,
            fixer=pairs.fixer,
            group=split.group,
            yardstick=split.yardstick,
            inside=Side(paired=inside, p_holm=within[2 * at]),
            outside=Side(paired=outside, p_holm=within[2 * at + 1]),
            between=between[at],
            p_holm=adjusted[at],
        )
        for at, (pairs, split, inside, outside) in enumerate(raw)
    ]


def splits(pairs: Pairs, most_steps: int | None) -> list[TaskSplit]:
    """Those that leave some tasks on both sides."""
    asked = [*_by_length(pairs, most_steps), *_by_scouting(pairs)]
    return [split for split in asked if min(split.inside.sum(), (split.known & ~split.inside).sum()) >= LEAST]


def _paired(pairs: Pairs, mask: Bools) -> Paired:
    return paired(pairs.before[mask], pairs.after[mask])


def _by_length(pairs: Pairs, most_steps: int | None) -> Iterator[TaskSplit]:
    """By each other model alone: reached the limit of calls, else above its median of calls, else of dollars."""
    alone = pairs.tasks.arm("solo")
    for other in alone.each():
        if other.name == pairs.fixer:
            continue
        steps, cost = (np.where(other.measured, column, np.nan) for column in (other.steps, other.cost))
        asked = np.isfinite(steps)
        if asked.any() and most_steps is not None:
            yield TaskSplit(f"{other.name} alone took all {most_steps} steps", steps >= most_steps, asked, other.name)
        elif asked.any():
            yield TaskSplit(f"{other.name} alone took more steps than its median", _upper(steps), asked, other.name)
        elif np.isfinite(cost).any():
            name = f"{other.name} alone cost more than its median"
            yield TaskSplit(name, _upper(cost), np.isfinite(cost), other.name)


def _by_scouting(pairs: Pairs) -> Iterator[TaskSplit]:
    """By what the scout handed over, and how well it fits the answer."""
    told = [pairs.tasks.scouted.get(task) for task in pairs.tasks.ids]
    if all(one is None for one in told):
        return
    has = np.array([one is not None for one in told])
    answered = np.array([one is not None and one.gold is not None for one in told])

    def which(asked: Sequence[bool]) -> Bools:
        return np.array(asked, dtype=bool)

    yield TaskSplit(
        "the handoff names every gold file",
        which([one is not None and one.gold is not None and one.all_gold for one in told]),
        answered,
    )
    poor = which([one is not None and one.recall < POOR for one in told])
    yield TaskSplit(f"its recall is below {POOR}", poor & answered, answered)
    yield TaskSplit("its claim failed for real", which([one is not None and one.verdict == REAL for one in told]), has)
    yield TaskSplit("its claim was kept by the gate", which([one is not None and one.kept for one in told]), has)
    yield TaskSplit("it was forced", which([one is not None and one.kind == "forced" for one in told]), has)


def _upper(values: Floats) -> Bools:
    """Above the median of what is known."""
    above: Bools = np.nan_to_num(values, nan=-np.inf) > np.nanmedian(values)
    return above


QUARTERS = (0.25, 0.5, 0.75)


class Injection(FrozenModel):
    """A rule that says which tasks get the handoff, simulated on tasks that were tried both ways."""

    benchmark: str
    fixer: str
    known: str
    """What the rule may know, in words."""
    possible: bool
    """Whether that is known before the fixer starts."""
    rules: tuple[str, ...]
    """That it chose among, `always` and `never` included."""
    chosen: tuple[str, ...]
    """By fold."""
    given: float
    """Share of the tasks that got the handoff."""
    over_never: Paired
    over_always: Paired
    usd: float | None
    """Mean dollars a task, scouting left out; None: unknown."""


def injections(pairs: Pairs, most_steps: int | None) -> list[Injection]:
    """By what is known before the fixer starts, and by what could only be known later; none for one repository."""
    if len(set(pairs.tasks.repositories)) < 2:
        return []
    found = []
    before = dict(_before(pairs))
    if before:
        found.append(_simulated(pairs, "scout and issue", before, possible=True))
    # Rules that look ahead: would it help at all to know that much?
    if after := {split.group: split.inside for split in splits(pairs, most_steps)}:
        found.append(_simulated(pairs, "also another's run and the answer", before | after, possible=False))
    return found


def _simulated(pairs: Pairs, known: str, rules: Mapping[str, Bools], *, possible: bool) -> Injection:
    """Each fold by the rule that solves most in the others; of equal ones the first."""
    n = len(pairs.tasks.ids)
    tried = {"always": np.ones(n, dtype=bool), "never": np.zeros(n, dtype=bool), **rules}
    folds = group_folds(pairs.tasks.repositories)
    given, chosen = np.zeros(n, dtype=bool), []
    for fold in np.unique(folds):
        test = folds == fold
        solved = {name: int(_solved(pairs, mask)[~test].sum()) for name, mask in tried.items()}
        best = max(solved, key=solved.__getitem__)
        given[test] = tried[best][test]
        chosen.append(best)
    solved_so = _solved(pairs, given)
    usd = np.where(given, pairs.after_usd, pairs.before_usd)
    return Injection(
        benchmark=pairs.tasks.name,
        fixer=pairs.fixer,
        known=known,
        possible=possible,
        rules=tuple(tried),
        chosen=tuple(chosen),
        given=float(given.mean()),
        over_never=paired(pairs.before, solved_so),
        over_always=paired(pairs.after, solved_so),
        usd=float(np.nanmean(usd)) if np.isfinite(usd).any() else None,
    )


def _solved(pairs: Pairs, given: Bools) -> Bools:
    solved: Bools = np.where(given, pairs.after, pairs.before)
    return solved


def _before(pairs: Pairs) -> Iterator[tuple[str, Bools]]:
    """Rules that could be followed."""
    told = [pairs.tasks.scouted.get(task) for task in pairs.tasks.ids]
    if any(one is not None for one in told):
        yield "spontaneous handoffs", np.array([one is not None and one.kind == "spontaneous" for one in told])
        yield "kept claims", np.array([one is not None and one.kept for one in told])
        for least in (2, 3):
            yield f"{least} files named or more", np.array([one is not None and one.named >= least for one in told])
    lengths = np.array([float(len(pairs.tasks.texts.get(task, ""))) for task in pairs.tasks.ids])
    if lengths.any():
        for share in QUARTERS:
            yield f"issues longer than {percent(share, 0)} of them", lengths > np.quantile(lengths, share)


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
        arms = "; ".join(f"{name} has {', '.join(one.arms)}" for name, one in benchmarks.items())
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
        pooled=tuple(one for pairs in found.values() if (one := pooled_effect(pairs)) is not None),
        gates=tuple(effect for pairs in gates for effect in effects_of(pairs)),
        efforts=efforts,
        looks=tuple(look for name, pairs in found.items() for look in subgroup_effects(pairs, most_steps.get(name))),
        claimed=(KIMI, GPT) if isinstance(source, Paper) else None,
        injections=tuple(one for name, pairs in whole for one in injections(pairs, most_steps.get(name))),
        powers=tuple(_power(pairs) for _, pairs in whole),
        notes=_notes(source, benchmarks),
    )


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
        if "passthrough" not in benchmark.arms:
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
