"""The caps of one attempt: what a call may use, what is reserved for it, and when the attempt must end.

Two rules. `hard`: before a call is forwarded, its maximum cost by its output limit is reserved, and reservations and
spending together stay within the cap, with any number of concurrent calls. Agents ask for far more output than they
use, or set no limit, so a call gets less than it asks for: the larger of half the budget and what nearly every answer
of its model has needed so far, and its output limit is lowered to that. A call that does not fit waits for the calls in
progress. `paper`: a call is forwarded while calls and dollars are below their caps, so the last one may exceed them.

The most that a prompt can cost follows from a bound on its tokens by its bytes: no tokenizer makes more than one token
of a byte, and text of an agent's own choice can come close to that. What the endpoint has counted is not bounded again:
a request that goes on where a counted one ended has that count, and the bytes of what is new. One that shares a part of
it has that count, the bytes of what is new, and those of what a model wrote in that part: endpoints leave thoughts out
of a prompt, depending on what follows them. Where an endpoint may cut a prompt by itself, no count says anything of the
next one. Pictures have no bytes to go by, and count as the largest do.

Not covered, because the meter cannot prevent it: an endpoint that writes more than its limit, or adds a long prompt of
its own to the first call. Such a call is booked in full, at more than its reservation. After the cap is exceeded, no
further call is forwarded.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from scrout.base import FrozenModel
from scrout.files import write_atomic
from scrout.models.proxy.apis import is_models_own
from scrout.money import MILLION, Budget, BudgetExceeded, Component, Price, Usage, Usd
from scrout.text import usd

CapRule = Literal["hard", "paper"]
CapStop = Literal["cap_calls", "cap_usd"]

MIN_OUTPUT_TOKENS = 512
"""A shorter answer is wasted money; with less budget than this, the cap counts as reached."""
UNLIMITED_TOKENS = 32_000
"""Maximum output of a call without a limit of its own.

Endpoints refuse a limit that is more than their model can write, so this is less than the largest models can.
"""
FIRST_P99_TOKENS = 8_192
"""Output that nearly every answer needs, until the model's own answers are known."""
ENOUGH_ANSWERS = 50
KEPT_ANSWERS = 1_000
ADDED_TOKENS = 64
"""Allowance for what a chat template adds around a new message."""
AROUND_TOKENS = 512
"""Allowance for what an endpoint adds to a whole prompt, such as instructions for tools."""
PICTURE_TOKENS = 50_000
"""More than any current model counts for a picture."""
BUILT_IN_TOKENS = 2_000
"""More than an endpoint tells a model about one of its built-in tools, which a request only names."""
KEPT_PROMPTS = 3
"""An agent may have several conversations in progress, such as a side task's."""


class Account(FrozenModel):
    """The meter's data about one attempt.

    It crosses a socket between two processes of one user, and is never stored.
    """

    component: Component = "fix"
    fixer: str
    """Empty: it does not belong to a fixer."""
    model: str
    """The only model that may be requested."""
    base_url: str
    """The endpoint, up to and including /v1."""
    key: str | None = Field(default=None, repr=False)
    """None: the endpoint needs none."""
    auth: Literal["", "bearer", "x-api-key"] = ""
    """How the key is sent; empty: as the requested API does it."""
    price: Price | None
    """None: a subscription, which has no price per call."""
    cap_usd: Usd | None
    cap_calls: int
    rule: CapRule = "hard"
    trajectory: str
    """File that records each call."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Added to the body of each request."""
    silent: bool = True
    """At a cap, a call is left unanswered. False: it is refused with the reason, for callers inside of scrout."""
    outputs: str = ""
    """File with the output that each model's answers needed so far; empty: not stored."""


class CapReached(Exception):
    """The attempt is at a cap. Handled within the meter; not an error."""

    def __init__(self, stop: CapStop, detail: str) -> None:
        super().__init__(detail)
        self.stop: CapStop = stop
        self.detail = detail


@dataclass(frozen=True)
class Prompt:
    """The parts of a request that determine its prompt's maximum number of tokens."""

    size: int
    """Bytes."""
    turns: list[JsonValue] = field(default_factory=list)
    """The conversation."""
    words: list[JsonValue] = field(default_factory=list)
    """System prompt parts; some agents change one of them from call to call."""
    rest: dict[str, JsonValue] = field(default_factory=dict)
    """Everything else that an endpoint may count, or that may change its count."""
    pictures: tuple[int, ...] = ()
    """Number of pictures in each entry of the conversation; empty: no entry has any."""
    loaded: tuple[int, ...] = ()
    """Bytes that the endpoint may add to each entry, by rewriting it or expanding names; empty: none."""
    cut: bool = False
    """Whether the endpoint may cut some of it."""
    hour: bool = False
    """Whether it requests a cache entry for an hour."""

    @cached_property
    def texts(self) -> list[str]:
        """The conversation as it is sent, because 1e308 equals a number of 309 digits, which has a hundred times
        the tokens.
        """
        return list(map(_text, self.turns))

    @cached_property
    def rest_text(self) -> str:
        return _text(self.rest)


@dataclass(frozen=True)
class Reservation:
    """The reserved budget of a call in progress."""

    usd: Decimal
    worst: Usage
    """The cost to book if the endpoint reports no usage."""
    lowered: bool
    """Whether the call gets less output than it asked for."""
    limit: int | None = None
    """Its limit in output tokens for each answer; None: as requested."""


@dataclass
class Outputs:
    """Output tokens of a model's latest answers."""

    tokens: deque[int] = field(default_factory=deque)
    """In order of arrival."""
    _ordered: list[int] = field(default_factory=list)
    """By size, because every call needs the largest."""

    def add(self, tokens: int) -> None:
        if len(self.tokens) == KEPT_ANSWERS:
            del self._ordered[bisect_left(self._ordered, self.tokens.popleft())]
        self.tokens.append(tokens)
        insort(self._ordered, tokens)

    def p99(self) -> int:
        """The number of tokens that is enough for 99 of 100 answers."""
        if len(self.tokens) < ENOUGH_ANSWERS:
            return FIRST_P99_TOKENS
        return max(MIN_OUTPUT_TOKENS, self._ordered[int(0.99 * (len(self._ordered) - 1))])


class CallCaps:
    """Admits calls to one account's budget. Nothing here waits or does I/O, except for the learned outputs."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.budget = Budget(account.cap_usd if account.price else None, account.cap_calls)
        self.under_way = 0
        self._most_expensive = {
            (hour, long): _most_expensive(account.price, hour, long) for hour in (False, True) for long in (False, True)
        }
        self.ceiling = UNLIMITED_TOKENS
        self.outputs = Outputs()
        for tokens in _known_outputs(account):
            self.outputs.add(tokens)
        self._prompts: deque[tuple[Prompt, int]] = deque(maxlen=KEPT_PROMPTS)
        """Prompts with the endpoint's token count."""
        self._hidden = 0
        """The largest excess of a count over its bound: some endpoints add a prompt of their own."""

    @property
    def holds(self) -> bool:
        """Whether a call's maximum cost must be known in advance."""
        return self.account.rule == "hard" and self.budget.cap_usd is not None

    def admit(self, prompt: Prompt, limit: int | None, answers: int = 1) -> Reservation | None:
        """Reserve a call's maximum cost. None: it does not fit while others are in progress; retry when one ends."""
        try:
            hold = self._hold(prompt, limit, answers)
        except CapReached:
            if self.under_way:
                return None
            raise
        self.under_way += 1
        return hold

    def settle(self, hold: Reservation, usage: Usage | None, prompt: Prompt) -> Decimal | None:
        """End a call that was or may have been answered; returns its cost, None without a price."""
        self.under_way -= 1
        cost_usd = self.account.price.cost(usage or hold.worst) if self.account.price else None
        self.budget.settle(hold.usd, cost_usd or Decimal(0))
        if usage is not None:
            self.outputs.add(usage.output_tokens + usage.reasoning_tokens)
            counted = usage.prompt_tokens
            self._hidden = max(self._hidden, counted - self._by_bytes(prompt))
            self._prompts.append((prompt, counted))
        return cost_usd

    def release(self, hold: Reservation) -> None:
        """End a call that the endpoint refused: it costs nothing and does not count."""
        self.under_way -= 1
        self.budget.release(hold.usd)

    def remember(self) -> None:
        """Store the learned output sizes for the next attempt."""
        if not self.account.outputs:
            return
        path = Path(self.account.outputs)
        known = _read_outputs(path) | {self.account.model: list(self.outputs.tokens)}
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, json.dumps(known))

    def prompt_bound(self, prompt: Prompt) -> int:
        """An upper bound of the prompt's tokens."""
        by_bytes = self._by_bytes(prompt) + self._hidden
        if prompt.cut:
            return by_bytes
        # Only the messages may differ: a key that was ignored, or that cut the prompt short, could hide a lot.
        counted = [(before, tokens) for before, tokens in self._prompts if before.rest_text == prompt.rest_text]
        if not counted:
            return by_bytes
        nearest = max(counted, key=lambda one: (_same(one[0].texts, prompt.texts), -one[1]))
        return min(by_bytes, _going_on(*nearest, prompt))

    def _by_bytes(self, prompt: Prompt) -> int:
        return prompt.size + AROUND_TOKENS + PICTURE_TOKENS * sum(prompt.pictures) + sum(prompt.loaded)

    def _hold(self, prompt: Prompt, limit: int | None, answers: int) -> Reservation:
        price, budget = self.account.price, self.budget
        asked = self.ceiling if limit is None else limit
        bound = self.prompt_bound(prompt)
        worst = self._worst(bound, asked * answers, prompt.hour)
        if budget.cap_calls is not None and budget.calls >= budget.cap_calls:
            raise CapReached("cap_calls", f"all {budget.cap_calls} calls used")
        if price is None or budget.cap_usd is None:
            return Reservation(budget.reserve(Decimal(0)), worst, lowered=False)
        if self.account.rule == "paper":
            if budget.spent_usd >= budget.cap_usd:
                raise CapReached("cap_usd", f"{usd(budget.spent_usd, 4)} of {usd(budget.cap_usd)} spent")
            budget.calls += 1
            return Reservation(Decimal(0), worst, lowered=False)
        left = budget.cap_usd - budget.spent_usd - budget.held_usd
        if left < 0:
            spent = f"{usd(budget.spent_usd, 4)} of {usd(budget.cap_usd)} spent"
            raise CapReached("cap_usd", f"{spent}: a call used more tokens than its endpoint was asked for")
        allowed = self._allowed(price, bound, prompt.hour, left) // answers
        if allowed < min(MIN_OUTPUT_TOKENS, asked):
            raise CapReached(
                "cap_usd", f"{usd(left, 4)} of {usd(budget.cap_usd)} left, and the next call may cost more"
            )
        worst = self._worst(bound, min(asked, allowed) * answers, prompt.hour)
        lowered = limit is None or allowed < limit
        try:
            return Reservation(
                budget.reserve(price.cost(worst)), worst, lowered, min(asked, allowed) if lowered else None
            )
        except BudgetExceeded as empty:  # rounding up used the last fraction of a cent
            raise CapReached("cap_usd", str(empty)) from None

    def _allowed(self, price: Price, prompt_tokens: int, hour: bool, remaining_usd: Decimal) -> int:
        """Output tokens that a call may have besides its prompt."""
        prompt_usd = price.cost(self._worst(prompt_tokens, 0, hour))
        # With this prompt: with a long one, output may cost more too.
        token_usd = (price.cost(self._worst(prompt_tokens, 1_000_000, hour)) - prompt_usd) / MILLION
        usual_usd = self.outputs.p99() * token_usd
        return _affordable(max(remaining_usd / 2, prompt_usd + usual_usd), remaining_usd, prompt_usd, token_usd)

    def _worst(self, prompt_tokens: int, output_tokens: int, hour: bool = False) -> Usage:
        """Usage in the most expensive buckets, because the actual buckets are unknown."""
        price = self.account.price
        if price is None or price.long is None or prompt_tokens <= price.long.above_tokens:
            return _usage(self._most_expensive[hour, False], prompt_tokens, output_tokens)
        # The prompt may turn out to be short, and a short prompt's tokens may cost more.
        long = _usage(self._most_expensive[hour, True], prompt_tokens, output_tokens)
        short = _usage(self._most_expensive[hour, False], price.long.above_tokens, output_tokens)
        return max(long, short, key=price.cost)


def _going_on(before: Prompt, tokens: int, now: Prompt) -> int:
    """The bound of a prompt from the count of another."""
    same = _same(before.texts, now.texts)
    again = [turn for turn in now.turns[:same] if is_models_own(turn)] if same < len(before.turns) else []
    told = itertools.zip_longest(now.words, before.words[: len(now.words)])
    new = [*(word for word, known in told if word != known), *again, *now.turns[same:]]
    beside = PICTURE_TOKENS * sum(now.pictures[same:]) + sum(now.loaded[same:])
    return tokens + ADDED_TOKENS * len(new) + _size(new) + beside


def _same(before: list[str], now: list[str]) -> int:
    """Number of common entries at the start."""
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _size(entries: list[JsonValue]) -> int:
    return len(_text(entries).encode("utf-8", "replace"))


def _text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _usage(buckets: tuple[str, str], prompt_tokens: int, output_tokens: int) -> Usage:
    given, written = buckets
    return Usage.model_validate({given: prompt_tokens, written: output_tokens})


def _most_expensive(price: Price | None, hour: bool, long: bool) -> tuple[str, str]:
    """The most expensive buckets of a prompt and of an answer."""
    given, written = ["input_tokens", "cache_read_tokens", "cache_write_tokens"], ["output_tokens", "reasoning_tokens"]
    given += ["cache_write_1h_tokens"] if hour else []
    rates = price.long if price and long else price
    if rates is None:
        return given[0], written[0]
    million = {bucket: rates.of(Usage.model_validate({bucket: 1_000_000})) for bucket in (*given, *written)}
    return max(given, key=million.__getitem__), max(written, key=million.__getitem__)


def _affordable(target_usd: Decimal, remaining_usd: Decimal, prompt_usd: Decimal, token_usd: Decimal) -> int:
    """Output tokens that are affordable besides the prompt."""
    room_usd = min(target_usd, remaining_usd) - prompt_usd
    if room_usd < 0:
        return -1
    if not token_usd:
        return 10**9
    return int((room_usd / token_usd).quantize(Decimal(1), rounding=ROUND_DOWN))


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
