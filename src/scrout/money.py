"""The only money arithmetic: token usage in disjoint buckets, prices, a budget, the receipt of one billed call, totals.

Amounts are Decimal, in US dollars. None means unknown, never zero. A run's cost is the total of its receipts from all
stages, interrupted steps included. Scouting that another run paid for has no receipt in this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_UP, Decimal
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from scrout.base import FrozenModel
from scrout.text import usd

# JSON carries amounts as numbers. At ten decimals an amount below $99,999 has at most 15 significant digits, which a
# double's shortest form gives back exactly.
Usd = Annotated[Decimal, PlainSerializer(float, return_type=float, when_used="json")]

CENT_FRACTION = Decimal("0.0000000001")
MILLION = Decimal(1_000_000)

Component = Literal["scout", "gate", "route", "fix", "check"]


class Usage(FrozenModel):
    """Tokens of one call. The buckets are disjoint: a cached input token is not also counted as an input token, nor a
    reasoning token as an output token.
    """

    input_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int = Field(default=0, ge=0)
    cache_write_tokens: int = Field(default=0, ge=0)
    cache_write_1h_tokens: int = Field(default=0, ge=0)
    """Cache writes kept for an hour, if the endpoint sells those and reports them separately."""
    output_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)
    """Zero if an endpoint does not report reasoning separately; then these tokens are in the output."""

    @property
    def prompt_tokens(self) -> int:
        """All input tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.cache_write_1h_tokens


class Rates(FrozenModel):
    """Dollars per million tokens, one for each bucket of Usage."""

    input: Usd = Field(ge=0)
    output: Usd = Field(ge=0)
    cache_read: Usd | None = Field(default=None, ge=0)
    """None: same as input."""
    cache_write: Usd | None = Field(default=None, ge=0)
    """None: same as input."""
    cache_write_1h: Usd | None = Field(default=None, ge=0)
    """None: twice the input price if cache writes have their own price, as sellers ask; otherwise the input price."""
    reasoning: Usd | None = Field(default=None, ge=0)
    """None: same as output."""

    def of(self, usage: Usage) -> Decimal:
        """The cost of this usage, rounded up so that a sum of receipts never understates."""
        cache_read = self.input if self.cache_read is None else self.cache_read
        cache_write = self.input if self.cache_write is None else self.cache_write
        hour = cache_write if self.cache_write is None else max(cache_write, 2 * self.input)
        cache_write_1h = hour if self.cache_write_1h is None else self.cache_write_1h
        reasoning = self.output if self.reasoning is None else self.reasoning
        total = (
            usage.input_tokens * self.input
            + usage.cache_read_tokens * cache_read
            + usage.cache_write_tokens * cache_write
            + usage.cache_write_1h_tokens * cache_write_1h
            + usage.output_tokens * self.output
            + usage.reasoning_tokens * reasoning
        ) / MILLION
        return total.quantize(CENT_FRACTION, rounding=ROUND_UP)


class LongRates(Rates):
    """The rates of calls with a long prompt."""

    above_tokens: int = Field(gt=0)
    """They apply to the whole call if its prompt has more tokens than this."""


class Price(Rates):
    """What a model costs."""

    long: LongRates | None = None
    """None: long prompts cost the same per token."""

    @property
    def is_free(self) -> bool:
        """Whether no call costs anything, as with a self-hosted model."""
        return not any(self.model_dump(exclude={"long"}).values()) and self.long is None

    def cost(self, usage: Usage) -> Decimal:
        """The cost of a call with this usage."""
        long = self.long is not None and usage.prompt_tokens > self.long.above_tokens
        return (self.long if long and self.long else self).of(usage)


class Receipt(FrozenModel):
    """One billed call, at any stage."""

    component: Component
    fixer: str | None = None
    """The fixer whose attempt made the call; None outside of fixing."""
    model: str
    usage: Usage
    cost_usd: Usd | None
    """None: the model's price is unknown."""
    estimated: bool = False
    """True: the provider reported no usage, so the reserved amount was booked."""
    at: datetime
    call: int = 0
    """The call's number in the attempt's trajectory; 0 if it is in none."""


def total_usd(costs: Iterable[Decimal | None]) -> Decimal | None:
    """The sum; None if any part is unknown."""
    parts = list(costs)
    return None if None in parts else known_usd(parts)


def known_usd(costs: Iterable[Decimal | None]) -> Decimal:
    """The sum of the known parts. Dollar caps count this, because a call without a known price cannot be capped in
    dollars.
    """
    return sum((cost for cost in costs if cost is not None), Decimal(0))


class BudgetExceeded(Exception):
    """The next call does not fit. The turn loop catches this; users never see it."""


class Budget:
    """A hard cap in dollars and calls: reserve before a call, settle after it. Spent plus reserved never exceeds the
    cap.
    """

    def __init__(self, cap_usd: Decimal | None, cap_calls: int | None) -> None:
        self.cap_usd = cap_usd
        self.cap_calls = cap_calls
        self.spent_usd = Decimal(0)
        self.held_usd = Decimal(0)
        self.calls = 0

    @property
    def remaining_usd(self) -> Decimal | None:
        """None: no dollar cap."""
        return None if self.cap_usd is None else self.cap_usd - self.spent_usd - self.held_usd

    def reserve(self, worst_usd: Decimal) -> Decimal:
        """Reserve the worst case of one call; raises BudgetExceeded and reserves nothing if it does not fit."""
        if self.cap_calls is not None and self.calls >= self.cap_calls:
            raise BudgetExceeded(f"{self.calls} of {self.cap_calls} calls used")
        if self.remaining_usd is not None and worst_usd > self.remaining_usd:
            left, worst = usd(self.remaining_usd, exact=True), usd(worst_usd, exact=True)
            raise BudgetExceeded(f"{left} left, the next call may cost {worst}")
        self.calls += 1
        self.held_usd += worst_usd
        return worst_usd

    def settle(self, held: Decimal, cost_usd: Decimal) -> None:
        """Replace a reservation by the call's actual cost."""
        self.held_usd -= held
        self.spent_usd += cost_usd

    def release(self, held: Decimal) -> None:
        """Return a reservation, including its call: the endpoint refused, so nothing was generated."""
        self.held_usd -= held
        self.calls -= 1
