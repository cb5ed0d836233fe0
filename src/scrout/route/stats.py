"""Statistics for routing: logistic regression, resampled intervals, the hull of random mixes of fixers, and climbs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from scrout.base import RouteError
from scrout.intervals import Estimate
from scrout.text import usd

Floats = npt.NDArray[np.float64]

DRAWS = 2000
SEED = 0
MIN_GAIN = 1e-9
"""A smaller gain of probability is not a step worth a price."""


@lru_cache(maxsize=4)
def resamples(n: int, draws: int = DRAWS, seed: int = SEED) -> Floats:
    """A row per draw: the share of each of n tasks among n drawn with replacement. Read-only."""
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws)
    shares = counts.astype(np.float64) / n
    shares.flags.writeable = False
    return shares


def estimate(value: float, drawn: Floats) -> Estimate:
    """The estimate with the interval of 95% of its draws; draws without a value (nan) are left out."""
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    # Rounding removes the sign of a sum of floats that is nearly zero.
    value, low, high = (round(float(number), 12) + 0.0 for number in (value, low, high))
    return Estimate(value=value, low=low, high=high)


def hull(points: Floats) -> Floats:
    """The corners of the best random mixes of single fixers: rows (cost, solve rate), both ascending.

    It starts at the cheapest fixer, because no strategy that always tries costs less, and ends at the strongest.
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows) or not np.isfinite(rows).all():
        raise RouteError(
            f"a hull needs rows of (cost, solve rate), not {rows.tolist()!r:.100}. Leave unknown ones out."
        )
    corners: list[tuple[float, float]] = []
    for cost, solve in sorted(map(tuple, rows.tolist()), key=lambda point: (point[0], -point[1])):
        if corners and solve <= corners[-1][1]:
            continue  # at least as expensive, and not better
        while len(corners) > 1 and _below(corners[-2], corners[-1], (cost, solve)):
            corners.pop()
        corners.append((cost, solve))
    return np.array(corners)


def hull_at(costs: Floats, solves: Floats, at: npt.ArrayLike) -> Floats:
    """The hull's solve rate at a cost, one for each row of fixers; nan left of the cheapest, flat right of the best.

    The best mix never needs more than two fixers, so this tries every pair: no sorting, and all rows at once.
    """
    c, s = np.asarray(costs, dtype=np.float64), np.asarray(solves, dtype=np.float64)
    # Costs that are equal up to rounding count as equal.
    x = np.asarray(at, dtype=np.float64)[..., None] * (1 + 1e-12)
    alone = np.where(c <= x, s, -np.inf).max(axis=-1)
    left, right = c[..., :, None], c[..., None, :]
    between = (left <= x[..., None]) & (x[..., None] <= right) & (left < right)
    share = np.divide(x[..., None] - left, right - left, out=np.zeros(between.shape), where=between)
    mixed = s[..., :, None] + share * (s[..., None, :] - s[..., :, None])
    best = np.maximum(alone, np.where(between, mixed, -np.inf).max(axis=(-1, -2)))
    return np.where(np.isfinite(best), best, np.nan)


def mix(costs: Floats, solves: Floats, at: float) -> Floats:
    """How often to use each fixer, so that the mean cost is at most `at` and the solve rate is the hull's."""
    corners = hull(np.column_stack([costs, solves]))
    if at < corners[0][0]:
        least = usd(corners[0][0], 4)
        raise RouteError(f"no mixture of these fixers costs {usd(at, 4)} per task; the cheapest costs {least}.")
    shares = np.zeros(len(costs))
    places = [int(np.flatnonzero((costs == cost) & (solves == solve))[0]) for cost, solve in corners]
    above = int(np.searchsorted(corners[:, 0], at, side="right"))
    if above == len(corners):
        shares[places[-1]] = 1.0
        return shares
    (low, _), (high, _) = corners[above - 1 : above + 1]
    share = (at - low) / (high - low)
    shares[places[above]] = share
    shares[places[above - 1]] = 1.0 - share
    return shares


def climbs(probabilities: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Every step that a task would take as the worth of a solve rises: the price per additional solve, and the added
    cost.

    A task starts at its cheapest fixer and ends at its likeliest; a fixer with nan as probability or cost is left out.
    """
    c = np.asarray(costs, dtype=np.float64)
    p = np.where(np.isfinite(c), np.asarray(probabilities, dtype=np.float64), np.nan)
    p = p[np.isfinite(p).any(axis=1)]
    if not p.size:
        raise RouteError("no fixer's probability and cost are both known. Add outcomes with costs.")
    open_to = np.isfinite(p)
    p, c = np.where(open_to, p, -np.inf), np.where(np.isfinite(c), c, np.inf)
    rows = np.arange(len(p))
    # The cheapest, and of equally cheap ones the likeliest.
    least = np.where(open_to, c, np.inf).min(axis=1)
    now = np.where(open_to & (c == least[:, None]), p, -np.inf).argmax(axis=1)
    prices, added = [], []
    for _ in range(p.shape[1]):
        gain = p - p[rows, now][:, None]
        up = open_to & (gain > MIN_GAIN)
        price = np.divide(c - c[now][:, None], gain, out=np.full(p.shape, np.inf), where=up)
        lowest = price.min(axis=1)
        climbing = np.isfinite(lowest)
        if not climbing.any():
            break
        following = np.where(up & (price == lowest[:, None]), p, -np.inf).argmax(axis=1)
        prices.append(lowest[climbing])
        added.append((c[following] - c[now])[climbing])
        now = np.where(climbing, following, now)
    if not prices:
        return np.zeros(0), np.zeros(0)
    return np.concatenate(prices), np.concatenate(added)


def _below(one: tuple[float, float], middle: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether the middle point is on or under the line between the others."""
    rise = (middle[1] - one[1]) * (other[0] - one[0])
    return rise <= (other[1] - one[1]) * (middle[0] - one[0])


MAX_STEPS = 100
TOLERANCE = 1e-9
"""A gradient per row below this counts as the optimum."""


def fit_logistic(
    x: Floats, y: Floats, precision: Floats, *, offsets: Floats | float = 0.0, centre: Floats | float = 0.0
) -> Floats:
    """The minimum of log loss plus half the squared distance from `centre`, weighted by `precision`; y may be shares.

    The objective is convex; a Newton step that overshoots is halved until the objective no longer rises.
    """
    w = np.zeros(x.shape[1]) + centre

    def objective(at: Floats) -> float:
        t = x @ at + offsets
        return float((np.logaddexp(0.0, t) - y * t).sum() + 0.5 * (precision * (at - centre) ** 2).sum())

    for _ in range(MAX_STEPS):
        p = sigmoid(x @ w + offsets)
        gradient = x.T @ (p - y) + precision * (w - centre)
        if np.abs(gradient).max() <= TOLERANCE * len(y):
            break
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + np.diag(precision + 1e-9), gradient)
        now = objective(w)
        while objective(w - step) > now + 1e-12 * abs(now) and np.abs(step).max() > 1e-12:
            step /= 2
        w = w - step
    return w


def sigmoid(t: Floats | np.float64) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * t)), dtype=np.float64)
