"""Formats amounts, shares, counts, durations and long texts. All of scrout uses these."""

from __future__ import annotations

from decimal import Decimal

CENT = Decimal("0.01")


def usd(
    amount: Decimal | float | None,
    digits: int = 2,
    *,
    sign: bool = False,
    exact: bool = False,
    unknown: str = "unknown",
) -> str:
    """Dollars to the cent: $0.00, $0.05, -$1,234.50. Only zero reads as zero.

    Below one cent four decimals, six where four would show zeros, then `<$0.000001`. `digits` shows more than cents,
    `exact` every digit there is, `sign` a plus on amounts above zero. None and NaN are `unknown`.
    """
    if amount is None or amount != amount:
        return unknown
    if amount == 0:
        return "$0.00"
    size, before = (-amount, "-") if amount < 0 else (amount, "+" if sign else "")
    if exact:
        whole, _, cents = f"{Decimal(str(size)):,f}".partition(".")
        return f"{before}${whole}.{cents.rstrip('0'):0<2}"
    for decimals in (digits if size >= CENT else max(digits, 4), 6):
        shown = f"{size:,.{decimals}f}"
        if shown.strip("0.,"):
            return f"{before}${shown}"
    return ">-$0.000001" if amount < 0 else f"<{before}$0.000001"


def percent(share: Decimal | float | None, digits: int = 1, *, unknown: str = "unknown") -> str:
    """A share as a percentage: 59.8%. None and NaN are `unknown`."""
    # `z`: a share that rounds to zero has no sign.
    return unknown if share is None or share != share else f"{share:z.{digits}%}"


# Control characters except newline and tab, and characters that reverse the direction of text.
_CONTROL = dict.fromkeys({*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A)} - {9, 10})


def inert(text: str) -> str:
    """Text without terminal control characters. Bytes of a name that is not UTF-8 become question marks."""
    return text.translate(_CONTROL).encode(errors="replace").decode()


def clip(text: str, limit: int) -> str:
    """At most `limit` characters; `…` marks a cut."""
    return text if len(text) <= limit else f"{text[: max(limit - 1, 0)]}…"


def excerpt(text: str, limit: int = 20_000) -> str:
    """The start of a block of text, and a line that says how much is missing."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """1 task, 2,000 tasks. `nouns` is for irregular plurals."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def duration(seconds: float | None, *, unknown: str = "unknown") -> str:
    """0.41 s, 12.3 s, 4.5 min, 1.5 h."""
    if seconds is None:
        return unknown
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:,.1f} h"


def without_comments(text: str) -> str:
    """Markdown without HTML comments that begin a line: what an issue template tells the reporter is no word of his.

    In blocks they are code.
    """
    lines = text.splitlines(keepends=True)
    last = max((number for number, line in enumerate(lines) if "-->" in line), default=-1)
    kept: list[str] = []
    fence, hidden = "", False
    for number, line in enumerate(lines):
        bare = line.lstrip(" \t")
        if not hidden and bare.startswith(("```", "~~~")):
            fence = "" if fence and bare.startswith(fence) else fence or bare[:3]
        hidden = hidden or (not fence and number <= last and bare.startswith("<!--"))
        if hidden:
            _, end, line = line.partition("-->")
            hidden = not end
        kept.append(line)
    return "".join(kept)
