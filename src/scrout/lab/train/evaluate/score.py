"""The figures of an evaluation: per arm with intervals over tasks, why sampling beats greedy, and two compared.

A task's draws share its weight, so a find rate is exactly emission times recall per handoff. Forced handoffs have
figures of their own and are pooled with the others in one row alone, which says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from scrout.base import FrozenModel, TaskError
from scrout.handoff import Kind
from scrout.intervals import Estimate
from scrout.lab.train.evaluate.episode import Arm, EvaluationEpisode
from scrout.money import Usd, total_usd
from scrout.route.stats import Floats, estimate, resamples

DRAWS = 10_000

Measure = Literal[
    "find_rate",
    "find_rate_with_forced",
    "emission",
    "emission_forced",
    "recall_per_handoff",
    "precision_per_handoff",
    "files_per_handoff",
    "all_gold_per_handoff",
    "recall_per_forced",
    "precision_per_forced",
    "files_per_forced",
    "all_gold_per_forced",
    "well_formed",
    "well_formed_forced",
    "valid_calls",
    "malformed_turns",
    "malformed_episodes",
    "timeouts",
]
MEASURES: tuple[Measure, ...] = get_args(Measure)
COMPARED: tuple[Measure, ...] = (
    "find_rate",
    "find_rate_with_forced",
    "emission",
    "emission_forced",
    "recall_per_handoff",
    "well_formed",
    "well_formed_forced",
    "valid_calls",
    "malformed_episodes",
    "timeouts",
)


class ArmScore(FrozenModel):
    arm: Arm
    tasks: int
    episodes: int
    handoffs: int
    """Spontaneous ones."""
    all_gold: int
    """Of those, with every gold file."""
    forced: int
    all_gold_forced: int
    stops: dict[str, int]
    measures: dict[Measure, Estimate | None]
    """None: there is nothing that it could be of."""
    output_tokens: int
    cost_usd: Usd | None
    """None: a call had no known price."""


class FindRateSplit(FrozenModel):
    """Why one arm finds more: sampled over greedy, find rate = emission times recall per handoff."""

    tasks: int
    greedy: float
    """Find rate."""
    sampled: float
    ratio: Estimate | None
    """None: one of the arms found nothing."""
    emission_ratio: Estimate | None
    recall_ratio: Estimate | None
    emission_share: float | None
    """Of the ratio's logarithm; what is left is recall's. None: there is no ratio, or it is 1."""


class Decoding(FrozenModel):
    """The finding about decoding, on all tasks that both arms have, and where no episode of either timed out."""

    every: FindRateSplit
    matched: FindRateSplit | None
    """None: there is no such task."""


class ScoreChange(FrozenModel):
    """One figure of one arm, in two evaluations of the same tasks."""

    arm: Arm
    measure: Measure
    tasks: int
    before: float
    after: float
    change: Estimate


class Score(FrozenModel):
    model: str
    expected: int
    """Episodes that the evaluation has."""
    arms: tuple[ArmScore, ...]
    decoding: Decoding | None
    """None: the evaluation has one arm."""
    not_scored: dict[str, str]
    """Episodes that infrastructure failed, and why. The next call tries them again."""
    changes: tuple[ScoreChange, ...] = ()
    """Against another evaluation."""

    @property
    def episodes(self) -> int:
        return sum(arm.episodes for arm in self.arms)


Part = Callable[[EvaluationEpisode], tuple[float, float]]
"""What an episode adds to a measure's amount, and to what that is a share of."""


class _Columns:
    """Of one arm, what each task has of each measure: an amount, and what it is a share of."""

    def __init__(self, episodes: Iterable[EvaluationEpisode]) -> None:
        self.by_task: dict[str, list[EvaluationEpisode]] = {}
        for episode in episodes:
            self.by_task.setdefault(episode.task, []).append(episode)

    @property
    def tasks(self) -> list[str]:
        return sorted(self.by_task)

    def figure(self, measure: Measure, tasks: Sequence[str]) -> Callable[[Floats], Floats]:
        """From shares of these tasks, a row a draw, to the figure of each; nan where there is none."""
        parts = [[_PARTS[measure](episode) for episode in self.by_task[task]] for task in tasks]
        columns = np.array([np.mean(pairs, axis=0) for pairs in parts], dtype=np.float64).reshape(-1, 2)
        return lambda shares: _ratio(shares @ columns[:, 0], shares @ columns[:, 1])


def _of_handoffs(kind: Kind, amount: Callable[[EvaluationEpisode], float]) -> Part:
    """The mean over the episodes with a handoff of that kind."""
    return lambda one: (amount(one) * (one.kind == kind), float(one.kind == kind))


def _of_turns(turns: Callable[[EvaluationEpisode], int]) -> Part:
    return lambda one: (turns(one), one.calls + one.malformed + one.thoughts)


_PER_HANDOFF: Mapping[str, Callable[[EvaluationEpisode], float]] = {
    "recall": lambda one: one.recall,
    "precision": lambda one: one.precision,
    "files": lambda one: float(len(set(one.files))),
    "all_gold": lambda one: float(one.recall == 1),
}
_PARTS: Mapping[str, Part] = {
    "find_rate": lambda one: (one.recall * (one.kind == "spontaneous"), 1),
    "find_rate_with_forced": lambda one: (one.recall, 1),
    "emission": lambda one: (one.kind == "spontaneous", 1),
    "emission_forced": lambda one: (one.kind == "forced", 1),
    **{f"{name}_per_handoff": _of_handoffs("spontaneous", amount) for name, amount in _PER_HANDOFF.items()},
    **{f"{name}_per_forced": _of_handoffs("forced", amount) for name, amount in _PER_HANDOFF.items()},
    "well_formed": lambda one: (one.well_formed and one.kind == "spontaneous", 1),
    "well_formed_forced": lambda one: (one.well_formed and one.kind == "forced", 1),
    "valid_calls": _of_turns(lambda one: one.calls),
    "malformed_turns": _of_turns(lambda one: one.malformed),
    "malformed_episodes": lambda one: (one.malformed > 0, 1),
    "timeouts": lambda one: (one.stop == "timeout", 1),
}
"""Of each measure."""


def score(
    episodes: Sequence[EvaluationEpisode],
    model: str = "",
    expected: int = 0,
    not_scored: Mapping[str, str] | None = None,
) -> Score:
    """The figures of an evaluation, as far as it is."""
    found = {arm: [one for one in episodes if one.arm == arm] for arm in get_args(Arm)}
    arms = tuple(_arm(arm, some) for arm, some in found.items() if some)
    return Score(
        model=model,
        expected=expected or len(episodes),
        arms=arms,
        decoding=_decoding(found["greedy"], found["sampled"]),
        not_scored=dict(not_scored or {}),
    )


def _arm(arm: Arm, episodes: Sequence[EvaluationEpisode]) -> ArmScore:
    columns = _Columns(episodes)
    tasks = columns.tasks
    handed = [one for one in episodes if one.kind == "spontaneous"]
    forced = [one for one in episodes if one.kind == "forced"]
    return ArmScore(
        arm=arm,
        tasks=len(tasks),
        episodes=len(episodes),
        handoffs=len(handed),
        all_gold=sum(one.recall == 1 for one in handed),
        forced=len(forced),
        all_gold_forced=sum(one.recall == 1 for one in forced),
        stops=dict(Counter(one.stop for one in episodes).most_common()),
        measures={measure: _resampled(len(tasks), columns.figure(measure, tasks)) for measure in MEASURES},
        output_tokens=sum(one.output_tokens for one in episodes),
        cost_usd=total_usd(one.cost_usd for one in episodes),
    )


def _decoding(greedy: Sequence[EvaluationEpisode], sampled: Sequence[EvaluationEpisode]) -> Decoding | None:
    both = {one.task for one in greedy} & {one.task for one in sampled}
    if not both:
        return None
    late = {one.task for one in (*greedy, *sampled) if one.stop == "timeout"}
    columns = _Columns(greedy), _Columns(sampled)
    matched = sorted(both - late)
    return Decoding(every=_split(*columns, sorted(both)), matched=_split(*columns, matched) if matched else None)


def _split(greedy: _Columns, sampled: _Columns, tasks: Sequence[str]) -> FindRateSplit:
    everything = np.full((1, len(tasks)), 1 / len(tasks))

    def over(measure: Measure) -> Callable[[Floats], Floats]:
        above, below = sampled.figure(measure, tasks), greedy.figure(measure, tasks)
        return lambda shares: _ratio(above(shares), below(shares))

    names: tuple[Measure, ...] = ("find_rate", "emission", "recall_per_handoff")
    ratio, emission, recall = (_resampled(len(tasks), over(name)) for name in names)
    known = ratio and emission and ratio.value > 0 and not math.isclose(ratio.value, 1)
    return FindRateSplit(
        tasks=len(tasks),
        greedy=float(greedy.figure("find_rate", tasks)(everything)[0]),
        sampled=float(sampled.figure("find_rate", tasks)(everything)[0]),
        ratio=ratio,
        emission_ratio=emission,
        recall_ratio=recall,
        emission_share=math.log(emission.value) / math.log(ratio.value) if known and ratio and emission else None,
    )


def compare(before: Sequence[EvaluationEpisode], after: Sequence[EvaluationEpisode]) -> tuple[ScoreChange, ...]:
    """The second evaluation beside the first, task by task; a TaskError where they have no task in common."""
    changes = []
    for arm in get_args(Arm):
        first, second = (_Columns(one for one in some if one.arm == arm) for some in (before, after))
        both = first.by_task.keys() & second.by_task.keys()
        # A task whose gold files are others is another task.
        tasks = sorted(task for task in both if first.by_task[task][0].gold == second.by_task[task][0].gold)
        if not tasks:
            continue
        everything = np.full((1, len(tasks)), 1 / len(tasks))
        for measure in COMPARED:
            old, new = first.figure(measure, tasks), second.figure(measure, tasks)
            change = _resampled(len(tasks), _difference(old, new))
            if change is not None:
                was, now = (float(figure(everything)[0]) for figure in (old, new))
                changes.append(
                    ScoreChange(arm=arm, measure=measure, tasks=len(tasks), before=was, after=now, change=change)
                )
    if not changes:
        raise TaskError("the two evaluations have no task and arm in common. Name one of the same tasks.")
    return tuple(changes)


def _difference(old: Callable[[Floats], Floats], new: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    return lambda shares: new(shares) - old(shares)


def _resampled(tasks: int, figure: Callable[[Floats], Floats]) -> Estimate | None:
    value = float(figure(np.full((1, tasks), 1 / tasks))[0])
    if not math.isfinite(value):
        return None
    return estimate(value, figure(resamples(tasks, DRAWS)))


def _ratio(above: Floats, below: Floats) -> Floats:
    found: Floats = np.divide(above, below, out=np.full(below.shape, np.nan), where=below != 0)
    return found
