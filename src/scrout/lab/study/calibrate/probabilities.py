"""How good probabilities are: as an order of tasks, as numbers, and group by group. A row a task, a column a fixer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.stats import Statistic, wilson
from scrout.route.outcome_table import Bools, Ints
from scrout.route.stats import Floats

GROUPS = 6
"""Of a picture of reliability: fewer hide a bend, more are noise."""


class ReliabilityGroup(FrozenModel):
    """Attempts with similar probabilities."""

    attempts: int
    predicted: float
    """The mean of their probabilities."""
    solved: Estimate
    """The share that was solved, with Wilson's interval."""


def auc_of(probabilities: Floats, solved: Bools) -> Statistic:
    """The share of pairs of a solved and a failed attempt that the probabilities put in the right order; ties count
    half.

    Both have a row a task. With several columns all attempts are one crowd, and a task is drawn with all of its own;
    an attempt whose probability is nan takes no part.
    """
    return _share_in_order([_in_order(probabilities, solved, np.ones(len(probabilities), dtype=bool))])


def auc_within(probabilities: Floats, solved: Bools, folds: Ints) -> Statistic:
    """The same over pairs of one fixer and one fold alone: what is left when strength and luck of the fold are equal.

    Over folds together, a fold that is harder than the rest gets too high a probability, so even base rates fall below
    .5.
    """
    return _share_in_order(
        [
            _in_order(probabilities[:, [at]], solved[:, [at]], folds == fold)
            for at in range(probabilities.shape[1])
            for fold in np.unique(folds)
        ]
    )


def squared_error(probabilities: Floats, solved: Bools) -> Floats:
    """Of each task, the mean over its attempts: what Brier's score is the mean of."""
    known = np.isfinite(probabilities)
    errors = np.where(known, (np.where(known, probabilities, 0.0) - solved) ** 2, 0.0)
    return np.asarray(errors.sum(axis=1) / np.maximum(1, known.sum(axis=1)))


def reliability(probabilities: Floats, solved: Bools, groups: int = GROUPS) -> tuple[ReliabilityGroup, ...]:
    """What was predicted and what came, in groups of equal size from the lowest probability to the highest."""
    known = np.isfinite(probabilities)
    p, y = probabilities[known], solved[known]
    parts = np.array_split(np.argsort(p, kind="stable"), min(groups, p.size) or 1)
    return tuple(
        ReliabilityGroup(
            attempts=part.size, predicted=float(p[part].mean()), solved=wilson(int(y[part].sum()), part.size)
        )
        for part in parts
        if part.size
    )


_Pairs = Callable[[Floats], tuple[Floats, Floats]]
"""From shares of the tasks to the weight of pairs in the right order, and of all pairs."""


def _share_in_order(crowds: Sequence[_Pairs]) -> Statistic:
    def statistic(shares: Floats) -> Floats:
        found = [crowd(shares) for crowd in crowds]
        ordered, pairs = (np.sum([one[at] for one in found], axis=0) for at in (0, 1))
        in_order: Floats = np.divide(ordered, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)
        return in_order

    return statistic


def _in_order(probabilities: Floats, solved: Bools, rows: Bools) -> _Pairs:
    p, y = probabilities.reshape(len(probabilities), -1), solved.reshape(len(solved), -1)
    task, column = np.nonzero(np.isfinite(p) & rows[:, None])
    if not task.size:
        return lambda shares: (np.zeros(len(shares)), np.zeros(len(shares)))
    order = np.argsort(p[task, column], kind="stable")
    task, column = task[order], column[order]
    _, starts = np.unique(p[task, column], return_index=True)
    right = y[task, column]

    def pairs(shares: Floats) -> tuple[Floats, Floats]:
        weights = shares[:, task]
        won, failed = (np.add.reduceat(weights * kind, starts, axis=1) for kind in (right, ~right))
        ordered = (won * (np.cumsum(failed, axis=1) - failed / 2)).sum(axis=1)
        return ordered, won.sum(axis=1) * failed.sum(axis=1)

    return pairs
