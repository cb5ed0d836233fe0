"""Intervals of 95%, without scipy: the base install has none."""

from __future__ import annotations

import math

from scrout.base import FrozenModel

Z95 = 1.959963984540054
"""How many standard deviations from the mean a normal distribution has 95%."""


class Estimate(FrozenModel):
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def wilson(count: int, of: int) -> tuple[float, float]:
    """The interval of a share by Wilson's score, which holds for few trials and at both ends. Of nothing: 0 to 1."""
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of} is no share")
    if not of:
        return 0.0, 1.0
    share, z2 = count / of, Z95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    # The ends are exact at 0 and at all, and rounding must not put the share outside.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
