"""How long food stays good.

A best-before date of None means that the thing keeps for ever: salt, sugar, honey.
"""

from __future__ import annotations

from datetime import date, timedelta
from enum import Enum

from larder.dates import days_between

WARN_DAYS = 3
FOREVER = date.max


class Freshness(Enum):
    """How a batch is doing, in the order in which one should worry less."""

    EXPIRED = "expired"
    SOON = "use soon"
    FRESH = "fresh"


def days_left(best_before: date | None, today: date) -> int | None:
    """Days until the best-before date, negative after it; None: it keeps for ever."""
    if best_before is None:
        return None
    return days_between(today, best_before)


def freshness(best_before: date | None, today: date, warn_days: int = WARN_DAYS) -> Freshness:
    """How something with this best-before date is doing today."""
    left = days_left(best_before, today)
    if left is None:
        return Freshness.FRESH
    if left <= 0:
        return Freshness.EXPIRED
    if left <= warn_days:
        return Freshness.SOON
    return Freshness.FRESH


def once_opened(best_before: date | None, opened: date, keeps_days: int) -> date:
    """The best-before date of an opened package: it keeps some days, but never beyond the printed date."""
    after_opening = opened + timedelta(days=keeps_days)
    if best_before is None or after_opening < best_before:
        return after_opening
    return best_before


def urgency(best_before: date | None) -> date:
    """Sorts what has to go first to the front, and what keeps for ever to the back."""
    return FOREVER if best_before is None else best_before
