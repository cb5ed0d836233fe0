"""The caps of one attempt: what a call may use, what is held for it, and when the attempt is at its end.

Two rules. `hard`: before a call is forwarded the most that it can cost is held, so that what is spent and held together
never passes the cap, however many calls are under way. Agents ask for far more output than they use, or set no limit,
so a call is given less than it asks for: the larger of half the purse and what nearly every answer of its model has
needed so far, and its output limit is lowered to that. A call that does not fit while others are under way waits for
them. `paper`: a call is forwarded while calls and dollars are below their caps, so the last one may pass them.

The most that a prompt can cost follows from a bound on its tokens by its bytes: a digit or a byte outside of ASCII may
be a token, and so may two bytes of other text. No tokenizer in use is known to be denser; a bound is no count, though.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from scrout.money import MILLION, Component, Price, Purse, PurseEmpty, Record, Usage, Usd

CapRule = Literal["hard", "paper"]
CapStop = Literal["cap_calls", "cap_usd"]

MIN_OUTPUT_TOKENS = 512
"""An answer cut shorter than this is money lost; below it the purse counts as empty."""
UNLIMITED_TOKENS = 32_000
"""The output that a call without a limit of its own is given at most. Endpoints refuse a limit that is more than their
model can write, so it is less than what the largest can."""
FIRST_P99_TOKENS = 8_192
"""What nearly every answer needs, as long as a model's own answers have not shown it."""
ENOUGH_ANSWERS = 50
KEPT_ANSWERS = 1_000
ADDED_TOKENS = 64
"""Slack for what a chat template puts around a new message."""
KEPT_PROMPTS = 3
"""An agent may have a few conversations under way, such as a side task's."""

_DENSE = re.compile(rb"[0-9\x80-\xff]")


class Account(Record):
    """One attempt as the meter knows it. It crosses a socket between two processes of one user, and is never stored."""

    component: Component = "fix"
    fixer: str
    model: str
    """The one that may be asked for."""
    base_url: str
    """The endpoint, up to and with /v1."""
    key: str | None = Field(default=None, repr=False)
    """None: the endpoint wants none."""
    auth: Literal["", "bearer", "x-api-key"] = ""
    """How the key is sent; empty: as the API that is asked for has it."""
    price: Price | None
    """None: a subscription, which has no price a call."""
    cap_usd: Usd | None
    cap_calls: int
    rule: CapRule = "hard"
    trajectory: str
    """File that each call is written to."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Added to the body of each request."""
    outputs: str = ""
    """File with what answers of each model needed so far; empty: it is not kept."""


class Full(Exception):
    """The attempt is at a cap. Control flow of the meter, not an error."""

    def __init__(self, stop: CapStop, detail: str) -> None:
        super().__init__(detail)
        self.stop: CapStop = stop
        self.detail = detail


@dataclass(frozen=True)
class Hold:
    """What was set aside for a call under way."""

    usd: Decimal
    worst: Usage
    """What is booked where the endpoint reports no usage."""
    lowered: bool
    """Whether the call gets less output than it asked for."""


@dataclass
class Outputs:
    """Output tokens of a model's latest answers."""

    tokens: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT_ANSWERS))

    def p99(self) -> int:
        """What 99 of 100 answers needed at most."""
        if len(self.tokens) < ENOUGH_ANSWERS:
            return FIRST_P99_TOKENS
        return max(MIN_OUTPUT_TOKENS, sorted(self.tokens)[int(0.99 * (len(self.tokens) - 1))])


class Meter:
    """Admits calls to one account's purse. Nothing here waits, reads or writes but the learned outputs."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.purse = Purse(account.cap_usd if account.price else None, account.cap_calls)
        self.under_way = 0
        self.ceiling = UNLIMITED_TOKENS
        self.outputs = Outputs(deque(_known_outputs(account), KEPT_ANSWERS))
        self._prompts: deque[tuple[bytes, int]] = deque(maxlen=KEPT_PROMPTS)
        """Bodies whose tokens the endpoint counted, and that count."""

    def admit(self, body: bytes, limit: int | None) -> Hold | None:
        """Hold what a call may cost. None: it does not fit while others are under way; ask again when one ends."""
        try:
            hold = self._hold(body, limit)
        except Full:
            if self.under_way:
                return None
            raise
        self.under_way += 1
        return hold

    def settle(self, hold: Hold, usage: Usage | None, body: bytes) -> Decimal | None:
        """End a call that was answered, or may have been; what it cost, None where there is no price."""
        self.under_way -= 1
        cost_usd = self.account.price.cost(usage or hold.worst) if self.account.price else None
        self.purse.settle(hold.usd, cost_usd or Decimal(0))
        if usage is not None:
            self.outputs.tokens.append(usage.output_tokens + usage.reasoning_tokens)
            self._prompts.append((body, usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens))
        return cost_usd

    def release(self, hold: Hold) -> None:
        """End a call that the endpoint refused: it costs nothing and counts as none."""
        self.under_way -= 1
        self.purse.release(hold.usd)

    def remember(self) -> None:
        """Keep what was learned about the model's answers, for the next attempt."""
        if not self.account.outputs:
            return
        path = Path(self.account.outputs)
        known = _read_outputs(path) | {self.account.model: list(self.outputs.tokens)}
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = path.with_suffix(".new")
        written.write_text(json.dumps(known))
        written.replace(path)

    def prompt_bound(self, body: bytes) -> int:
        """At least as many tokens as the prompt has. What was counted before is not bounded again."""
        known = [tokens + ADDED_TOKENS + most_tokens(_new_part(before, body)) for before, tokens in self._prompts]
        return min([most_tokens(body), *known])

    def _hold(self, body: bytes, limit: int | None) -> Hold:
        price, purse = self.account.price, self.purse
        asked = limit or self.ceiling
        worst = Usage(input_tokens=self.prompt_bound(body), output_tokens=asked)
        if purse.cap_calls is not None and purse.calls >= purse.cap_calls:
            raise Full("cap_calls", f"all {purse.cap_calls} calls used")
        if price is None or purse.cap_usd is None:
            return Hold(purse.reserve(Decimal(0)), worst, lowered=False)
        if self.account.rule == "paper":
            if purse.spent_usd >= purse.cap_usd:
                raise Full("cap_usd", f"${purse.spent_usd:.4f} of ${purse.cap_usd} spent")
            purse.calls += 1
            return Hold(Decimal(0), worst, lowered=False)
        left = purse.cap_usd - purse.spent_usd - purse.held_usd
        dearest = _dearest(price)
        input_usd = dearest.cost(Usage(input_tokens=worst.input_tokens))
        allowed = _affordable(max(left / 2, input_usd + _cost(dearest, self.outputs.p99())), left, input_usd, dearest)
        if allowed < min(MIN_OUTPUT_TOKENS, asked):
            raise Full("cap_usd", f"${left:.4f} of ${purse.cap_usd} left, and the next call may cost more")
        worst = Usage(input_tokens=worst.input_tokens, output_tokens=min(asked, allowed))
        try:
            return Hold(purse.reserve(dearest.cost(worst)), worst, lowered=limit is None or allowed < limit)
        except PurseEmpty as empty:  # rounding up took the last fraction of a cent
            raise Full("cap_usd", str(empty)) from None


def most_tokens(body: bytes) -> int:
    """No fewer tokens than a tokenizer finds in it."""
    dense = len(_DENSE.findall(body))
    return dense + -(-(len(body) - dense) // 2)


def _new_part(before: bytes, body: bytes) -> bytes:
    """What a body has that the one before it did not: conversations grow, and what is around them stays."""
    shorter = min(len(before), len(body))
    start = _common(lambda n: before[:n] == body[:n], shorter)
    end = _common(lambda n: not n or before[-n:] == body[-n:], shorter - start)
    return body[start : len(body) - end]


def _common(same: Callable[[int], bool], most: int) -> int:
    """The largest n up to `most` for which it holds; each smaller one does too."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(middle) else (low, middle - 1)
    return low


def _dearest(price: Price) -> Price:
    """What the tokens cost at most, whichever bucket they will be counted in."""
    return Price(
        input=max(price.input, price.cache_read or Decimal(0), price.cache_write or Decimal(0)),
        output=max(price.output, price.reasoning or Decimal(0)),
    )


def _cost(price: Price, output_tokens: int) -> Decimal:
    return price.cost(Usage(output_tokens=output_tokens))


def _affordable(target_usd: Decimal, left_usd: Decimal, input_usd: Decimal, price: Price) -> int:
    """Output tokens that fit beside the prompt."""
    room_usd = min(target_usd, left_usd) - input_usd
    if room_usd < 0:
        return -1
    if not price.output:
        return 10**9
    return int((room_usd * MILLION / price.output).quantize(Decimal(1), rounding=ROUND_DOWN))


def _known_outputs(account: Account) -> list[int]:
    return _read_outputs(Path(account.outputs)).get(account.model, []) if account.outputs else []


def _read_outputs(path: Path) -> dict[str, list[int]]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {
        model: [tokens for tokens in answers if isinstance(tokens, int) and tokens >= 0]
        for model, answers in known.items()
        if isinstance(answers, list)
    }
