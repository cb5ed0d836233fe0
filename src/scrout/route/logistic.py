"""Logistic regression with a normal prior on its coefficients: how heads and the difficulty model are fitted."""

from __future__ import annotations

import numpy as np

from scrout.route.stats import Floats

MAX_STEPS = 100
TOLERANCE = 1e-9
"""A gradient per row below this is the optimum."""


def fit_logistic(
    x: Floats, y: Floats, precision: Floats, *, offsets: Floats | float = 0.0, centre: Floats | float = 0.0
) -> Floats:
    """The minimum of log loss plus half the squared distance from `centre`, weighted by `precision`; y may be shares.

    The objective is convex; a Newton step that would overshoot is halved until it no longer climbs.
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
