"""95% confidence intervals without scipy, which the base install does not have."""

from __future__ import annotations

import math

from scrout.base import FrozenModel

Z95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""


class Estimate(FrozenModel):
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def wilson(count: int, of: int) -> tuple[float, float]:
    """Wilson's score interval of a share, which also works for few trials and extreme shares; 0 to 1 if there are no
    trials.
    """
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of} is no share")
    if not of:
        return 0.0, 1.0
    share, z2 = count / of, Z95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    # The ends are exact at 0 and 1; rounding must not put the share outside of the interval.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
