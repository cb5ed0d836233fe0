"""A second try where a verifier holds the first patch to be wrong: what that is worth, by how good the verifier is.

Simulated, and these are the assumptions: the verifier catches a wrong patch with one probability (its recall) and
suspects a right one with another (its false alarms), whatever the task; the second fixer does as it did alone, and its
patch is taken without a further look; looking costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.policies import Policy, over_mix
from scrout.lab.study.stats import Statistic, bootstraps, mean_of
from scrout.route.calibrate import Worth
from scrout.text import percent

RECALLS = tuple(at / 10 for at in range(11))
FALSE_ALARMS = (0.0, 0.05, 0.1, 0.2, 0.4)
FIRST_USD = 3.0
"""What a solve is worth in the first try: little, since a second one may follow."""
DRAWS = 2000

GATE_RECALL = 228 / 231
"""True claims that the gate keeps (docs/how-it-works.md, bench/results/gate.json): the most that a reproduction can
catch, reached if every wrong patch fails it."""
GATE_FALSE = 0.0035
"""False claims that it keeps, at most (95%)."""
COVERAGES = (0.5, 1.0)
"""Shares of tasks with a reproduction, beside what was measured."""


class Second(FrozenModel):
    """A second try under one verifier."""

    verifier: str
    """Its name; empty: a place of the grid."""
    recall: float
    """Wrong patches that it catches."""
    false_alarms: float
    """Right patches that it suspects."""
    precision: float | None
    """Of what it suspects, the share that is wrong; None: it suspects nothing."""
    again: float
    """How often the second fixer gets a task."""
    solve: Estimate
    usd: Estimate
    over_mix: Estimate
    """Solve rate less that of the best random mix of fixers at the same cost, one try each."""


class Escalation(FrozenModel):
    """First one fixer, then another."""

    benchmark: str
    first: str
    second: str
    coverage: float | None
    """Share of scouted tasks whose reproduction the gate kept; None: none was scouted."""
    grid: tuple[Second, ...]
    named: tuple[Second, ...]
    """Under the gate as it was measured, by how many tasks have a reproduction."""
    break_even: dict[str, float | None]
    """By false alarms, the least recall of the grid from which the gain's interval lies above 0; None: none."""


def escalation(benchmark: str, alone: Sequence[Policy], coverage: float | None) -> Escalation:
    """The fixer that a low worth takes, then the strongest of the others."""
    solves, costs = (np.array([getattr(way, name).mean() for way in alone]) for name in ("solved", "cost"))
    first = int(Worth().choices(solves[None, :], costs, np.array([FIRST_USD]))[0, 0])
    others = [at for at in range(len(alone)) if at != first]
    second = max(others, key=lambda at: (solves[at], -costs[at]))
    places = [("", recall, false) for false in FALSE_ALARMS for recall in RECALLS]
    grid = _tried(alone, alone[first], alone[second], places)
    shares = [*([coverage] if coverage is not None else []), *COVERAGES]
    gates = [
        (f"the gate, {percent(share, 0)} of tasks with a reproduction", share * GATE_RECALL, share * GATE_FALSE)
        for share in shares
    ]
    return Escalation(
        benchmark=benchmark,
        first=alone[first].name,
        second=alone[second].name,
        coverage=coverage,
        grid=grid,
        named=_tried(alone, alone[first], alone[second], gates),
        break_even={f"{false:g}": _break_even(grid, false) for false in FALSE_ALARMS},
    )


def tried_again(first: Policy, second: Policy, recall: float, false_alarms: float) -> Policy:
    """What comes of both, over many runs of the verifier."""
    again = np.where(first.solved > 0, false_alarms, recall)
    return Policy(
        f"{first.name}, then {second.name}",
        "escalation",
        (1 - again) * first.solved + again * second.solved,
        first.cost + again * second.cost,
    )


def _tried(
    alone: Sequence[Policy], first: Policy, second: Policy, places: Sequence[tuple[str, float, float]]
) -> tuple[Second, ...]:
    wanted: dict[str, Statistic] = {}
    for at, (_, recall, false) in enumerate(places):
        way = tried_again(first, second, recall, false)
        wanted |= {f"{at} s": mean_of(way.solved), f"{at} $": mean_of(way.cost), f"{at} mix": over_mix(way, alone)}
    found = bootstraps(len(first.solved), wanted, draws=DRAWS)
    right = float(first.solved.mean())
    made = []
    for at, (name, recall, false) in enumerate(places):
        caught, suspected = recall * (1 - right), false * right
        made.append(
            Second(
                verifier=name,
                recall=recall,
                false_alarms=false,
                precision=caught / (caught + suspected) if caught + suspected > 0 else None,
                again=caught + suspected,
                solve=found[f"{at} s"],
                usd=found[f"{at} $"],
                over_mix=found[f"{at} mix"],
            )
        )
    return tuple(made)


def _break_even(grid: Sequence[Second], false_alarms: float) -> float | None:
    """From there on to full recall the interval stays above 0."""
    least = None
    for one in sorted((one for one in grid if one.false_alarms == false_alarms), key=lambda one: -one.recall):
        if one.over_mix.low <= 0:
            break
        least = one.recall
    return least
