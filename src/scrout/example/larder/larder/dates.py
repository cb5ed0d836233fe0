"""Dates as people type them on a phone, and the arithmetic that shelf lives need."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta

from larder.errors import DateError

_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_AHEAD = re.compile(r"\+(\d+)([dwm])")


def parse_date(text: str, today: date) -> date:
    """Read 2024-05-14, 14.5.2024, today, tomorrow, or a time ahead such as +10d, +2w, +6m."""
    word = text.strip().lower()
    if word == "today":
        return today
    if word == "tomorrow":
        return today + timedelta(days=1)
    if match := _AHEAD.fullmatch(word):
        return _ahead(today, int(match[1]), match[2])
    if match := _ISO.fullmatch(word):
        return _date(text, match[1], match[2], match[3])
    if match := _DOTTED.fullmatch(word):
        return _date(text, match[3], match[2], match[1])
    raise DateError(f"cannot read {text!r} as a date; write 2024-05-14 or +10d")


def days_between(first: date, second: date) -> int:
    """Days from the first date to the second; negative when the second lies before it."""
    return (second - first).days


def add_months(day: date, months: int) -> date:
    """The same day some months later, or that month's last day where it is shorter."""
    years, month_index = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month_index + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))


def describe_days(days: int) -> str:
    """A number of days from now, in words."""
    if days == 0:
        return "today"
    if days == 1:
        return "tomorrow"
    if days == -1:
        return "yesterday"
    if days < 0:
        return f"{-days} days ago"
    if days < 14:
        return f"in {days} days"
    return f"in {days // 7} weeks"


def _ahead(today: date, count: int, unit: str) -> date:
    if unit == "m":
        return add_months(today, count)
    return today + timedelta(days=count * (7 if unit == "w" else 1))


def _date(text: str, year: str, month: str, day: str) -> date:
    try:
        return date(int(year), int(month), int(day))
    except ValueError as error:
        raise DateError(f"{text!r} is no date: {error}") from None
