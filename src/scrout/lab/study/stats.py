"""The tests and intervals behind every study, on scipy. Tasks are what is resampled, permuted and paired."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from scrout import intervals
from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.route.outcome_table import Bools
from scrout.route.stats import Floats, resamples

DRAWS = 10_000
SEED = 0
LEVEL = 0.95
"""Of intervals."""
ALPHA = 0.05
"""A p below it, after correction, is a finding."""

Statistic = Callable[[Floats], Floats]
"""From shares of the tasks, a row a draw, to one figure a draw; nan: that draw has none."""
Method = Literal["percentile", "bca"]


class Paired(FrozenModel):
    """Two ways on the same tasks."""

    tasks: int
    first: float
    """Share solved the first way."""
    second: float
    gained: int
    """Tasks that only the second way solves."""
    lost: int
    """Tasks that only the first way solves."""
    change: Estimate
    """The second's share less the first's."""
    p: float
    """Exact two-sided McNemar."""


def paired(first: Bools, second: Bools, draws: int = DRAWS) -> Paired:
    """The second way beside the first, task by task."""
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if one.shape != other.shape or one.ndim != 1 or not one.size:
        raise StudyError(f"{one.shape} and {other.shape} outcomes are no pairs. Give both ways the same tasks.")
    gained, lost = int((other & ~one).sum()), int((one & ~other).sum())
    return Paired(
        tasks=one.size,
        first=float(one.mean()),
        second=float(other.mean()),
        gained=gained,
        lost=lost,
        change=bootstrap(one.size, mean_of(other.astype(float) - one), draws=draws),
        p=mcnemar(gained, lost),
    )


def mcnemar(gained: int, lost: int) -> float:
    """Exact and two-sided: how often a fair coin falls as unevenly over the tasks on which the two ways differ."""
    if gained < 0 or lost < 0:
        raise StudyError(f"counts of tasks are not negative: {gained}, {lost}.")
    return float(stats.binomtest(gained, gained + lost, 0.5).pvalue) if gained + lost else 1.0


def wilson(solved: int, tasks: int) -> Estimate:
    """A share with Wilson's 95% interval."""
    if not 0 <= solved <= tasks or not tasks:
        raise StudyError(f"{solved} of {tasks} is no share.")
    low, high = intervals.wilson(solved, tasks)
    return Estimate(value=solved / tasks, low=low, high=high)


def mean_of(values: npt.ArrayLike) -> Statistic:
    """The mean of one value a task."""
    column = np.asarray(values, dtype=np.float64)
    return lambda shares: shares @ column


def ratio_of(above: npt.ArrayLike, below: npt.ArrayLike) -> Statistic:
    """One sum over another, such as dollars a solve."""
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)

    def ratio(shares: Floats) -> Floats:
        under: Floats = shares @ bottom
        found: Floats = np.divide(shares @ top, under, out=np.full(under.shape, np.nan), where=under != 0)
        return found

    return ratio


def bootstrap(tasks: int, statistic: Statistic, *, method: Method = "percentile", draws: int = DRAWS) -> Estimate:
    """A figure with its 95% interval over resampled tasks."""
    return bootstraps(tasks, {"": statistic}, method=method, draws=draws)[""]


def bootstraps(
    tasks: int,
    statistics: dict[str, Statistic],
    *,
    method: Method = "percentile",
    draws: int = DRAWS,
) -> dict[str, Estimate]:
    """Several figures over the same draws."""
    if tasks < 1:
        raise StudyError("no task to resample. Name data with outcomes.")
    shares = resamples(tasks, draws, SEED)
    everything = np.full((1, tasks), 1 / tasks)
    found = {}
    for name, statistic in statistics.items():
        value, drawn = float(statistic(everything)[0]), statistic(shares)
        ends = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
        if method == "bca":
            ends = _corrected(ends, value, drawn, statistic(_leave_one_out(tasks)))
        known = drawn[np.isfinite(drawn)]
        low, high = np.quantile(known, ends) if known.size else (np.nan, np.nan)
        found[name] = Estimate(value=value, low=float(low), high=float(high))
    return found


def _corrected(ends: tuple[float, float], value: float, drawn: Floats, jackknife: Floats) -> tuple[float, float]:
    """Efron's BCa: where the quantiles must be taken to make up for bias and skew. Ties count half."""
    below = (np.nanmean(drawn < value) + np.nanmean(drawn <= value)) / 2
    if not 0 < below < 1:
        return ends
    bias = stats.norm.ppf(below)
    away = np.nanmean(jackknife) - jackknife
    spread = np.nansum(away**2) ** 1.5
    skew = np.nansum(away**3) / (6 * spread) if spread else 0.0
    z = bias + stats.norm.ppf(np.asarray(ends))
    low, high = stats.norm.cdf(bias + z / (1 - skew * z))
    return float(low), float(high)


def _leave_one_out(tasks: int) -> Floats:
    return (np.ones((tasks, tasks)) - np.eye(tasks)) / max(1, tasks - 1)


def permutation(differences: npt.ArrayLike) -> float:
    """Two-sided p of paired differences, each as likely to have the other sign; exact where there are few."""
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if values.size < 2:  # with either sign as likely, one alone says nothing
        return 1.0
    found = stats.permutation_test(
        (values,),
        lambda drawn, axis: np.sum(drawn, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=DRAWS - 1,
        batch=max(1, 5_000_000 // values.size),
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted for having looked as often, so that each can be read against the usual level."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def power(tasks: int, gain: float, loss: float, level: float = ALPHA) -> float:
    """How often exact McNemar finds a change, where a task is gained and lost with these probabilities."""
    if not (loss >= 0 and gain >= 0 and 0 < gain + loss <= 1):
        raise StudyError(f"probabilities to gain {gain} and to lose {loss} do not fit together.")
    differ = np.arange(tasks + 1)
    weights = stats.binom.pmf(differ, tasks, gain + loss)
    # Of d tasks that differ, the largest lower tail that is rejected; -1: none is.
    most = stats.binom.ppf(level / 2, differ, 0.5)
    most = np.where(stats.binom.cdf(most, differ, 0.5) > level / 2, most - 1, most)
    up = gain / (gain + loss)
    found = stats.binom.cdf(most, differ, up) + stats.binom.cdf(most, differ, 1 - up)
    return float(np.sum(weights * np.where(most >= 0, found, 0.0)))


def tasks_needed(
    gain: float, loss: float, wanted: float = 0.8, level: float = ALPHA, most: int = 100_000
) -> int | None:
    """The fewest tasks with which a change is found as often as wanted; None: more than `most`."""
    low, high = 1, 64
    while power(high, gain, loss, level) < wanted:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle, gain, loss, level) >= wanted else (middle, high)
    return high


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


def mean_difference(values: npt.ArrayLike, inside: Bools) -> MeanDifference:
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
        change=bootstrap(column.size, lambda shares: own(shares) - others(shares)),
        p=_exact_p(column, mask) if np.unique(column).size <= FEW else _drawn_p(column, mask),
    )


def _exact_p(column: Floats, mask: Bools) -> float:
    """Over every way to choose the group: how many of each value it holds is all that matters."""
    values, counts = np.unique(column, return_counts=True)
    ways = np.array(list(itertools.product(*(range(count + 1) for count in counts[:-1]))), dtype=np.int64)
    last = mask.sum() - ways.sum(axis=1)
    ways = np.column_stack([ways, last])[(last >= 0) & (last <= counts[-1])]
    probabilities = stats.multivariate_hypergeom.pmf(ways, counts, int(mask.sum()))
    sums, found = ways @ values, column[mask].sum()
    # Sums of floats come near to being equal.
    low, high = (float(probabilities[side].sum()) for side in (sums <= found + NEAR, sums >= found - NEAR))
    return min(1.0, 2 * min(low, high))


def _drawn_p(column: Floats, mask: Bools) -> float:
    found = stats.permutation_test(
        (column[mask], column[~mask]),
        lambda one, other, axis: np.mean(one, axis=axis) - np.mean(other, axis=axis),
        permutation_type="independent",
        vectorized=True,
        n_resamples=DRAWS - 1,
        batch=max(1, 5_000_000 // column.size),
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue)
