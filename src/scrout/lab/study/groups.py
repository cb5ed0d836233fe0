"""Two groups of tasks that are no pairs: how far apart their means lie."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
from scipy import stats as scipy_stats

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.stats import DRAWS, SEED, bootstrap, ratio_of
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats

FEW = 3
"""With no more different values than that, as of gained, lost and unchanged tasks, every permutation is counted."""
NEAR = 1e-9


class MeanDifference(FrozenModel):
    """A figure in two groups of tasks."""

    tasks: int
    """Of the group."""
    others: int
    """Tasks outside of it."""
    mean: float
    """Within the group."""
    mean_of_others: float
    change: Estimate
    """The group's mean less the others'."""
    p: float
    """Two-sided, by permuting which task is in the group."""


def mean_difference(values: npt.ArrayLike, inside: Bools, draws: int = DRAWS, seed: int = SEED) -> MeanDifference:
    """The group beside the others. Both must have two tasks."""
    column, mask = np.asarray(values, dtype=np.float64), np.asarray(inside, dtype=bool)
    if column.shape != mask.shape or min(mask.sum(), (~mask).sum()) < 2:
        raise StudyError(f"{int(mask.sum())} of {column.size} tasks make no two groups. Leave this look out.")
    own, others = ratio_of(column * mask, mask), ratio_of(column * ~mask, ~mask)
    return MeanDifference(
        tasks=int(mask.sum()),
        others=int((~mask).sum()),
        mean=float(column[mask].mean()),
        mean_of_others=float(column[~mask].mean()),
        change=bootstrap(column.size, lambda shares: own(shares) - others(shares), draws=draws, seed=seed),
        p=_exact(column, mask) if np.unique(column).size <= FEW else _drawn(column, mask, draws, seed),
    )


def _exact(column: Floats, mask: Bools) -> float:
    """Over every way to choose the group: how many of each value it holds is all that matters."""
    values, counts = np.unique(column, return_counts=True)
    ways = np.array(list(itertools.product(*(range(count + 1) for count in counts[:-1]))), dtype=np.int64)
    last = mask.sum() - ways.sum(axis=1)
    ways = np.column_stack([ways, last])[(last >= 0) & (last <= counts[-1])]
    probabilities = scipy_stats.multivariate_hypergeom.pmf(ways, counts, int(mask.sum()))
    sums, found = ways @ values, column[mask].sum()
    # Sums of floats come near to being equal.
    low, high = (float(probabilities[side].sum()) for side in (sums <= found + NEAR, sums >= found - NEAR))
    return min(1.0, 2 * min(low, high))


def _drawn(column: Floats, mask: Bools, draws: int, seed: int) -> float:
    found = scipy_stats.permutation_test(
        (column[mask], column[~mask]),
        _difference,
        permutation_type="independent",
        vectorized=True,
        n_resamples=draws - 1,
        batch=max(1, 5_000_000 // column.size),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _difference(one: Floats, other: Floats, axis: int) -> Floats:
    difference: Floats = np.mean(one, axis=axis) - np.mean(other, axis=axis)
    return difference
