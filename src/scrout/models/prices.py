"""The price of a model's tokens: from the user's prices.toml first, then from the list in `genai-prices`.

It makes no network request, so the list is as old as the installed package. If a price depends on the hour, the highest
is used, because a cap must hold. A model in neither source has no price: None, never zero. A price does not include
services that are not billed by the token, such as a provider's web search, or a more expensive service tier that a
request selects.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from scrout.base import ConfigError, FrozenModel
from scrout.config.folders import user_folder
from scrout.money import Price
from scrout.text import usd

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Tier, TieredPrices

FILE = "prices.toml"

DEAREST = Decimal(100_000)
"""A dollar for ten tokens. No model costs this much, but a misplaced decimal point does."""
CHEAPEST = Decimal("0.001")
"""No model's output costs this little per million tokens, and none costs this much per token, so this separates the
two units.
"""

SELLERS = {
    "api.anthropic.com": "anthropic",
    "api.arcee.ai": "arcee",
    "api.avian.io": "avian",
    "api.cerebras.ai": "cerebras",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.doubleword.ai": "doubleword",
    "api.fireworks.ai": "fireworks",
    "api.githubcopilot.com": "github-copilot",
    "api.groq.com": "groq",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax",
    "api.mistral.ai": "mistral",
    "api.moonshot.ai": "moonshotai",
    "api.moonshot.cn": "moonshotai",
    "api.novita.ai": "novita",
    "api.openai.com": "openai",
    "api.perplexity.ai": "perplexity",
    "api.together.ai": "together",
    "api.together.xyz": "together",
    "api.x.ai": "x-ai",
    "api.z.ai": "zai",
    "cognitiveservices.azure.com": "azure",
    "generativelanguage.googleapis.com": "google",
    "inference.baseten.co": "baseten",
    "oai.endpoints.kepler.ai.cloud.ovh.net": "ovhcloud",
    "open.bigmodel.cn": "zhipuai",
    "openai.azure.com": "azure",
    "openrouter.ai": "openrouter",
    "services.ai.azure.com": "azure",
}
"""The seller at a host or its subdomains, as genai-prices names it."""

_ALSO_CALLED = {
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "moonshot": "moonshotai",
    "together_ai": "together",
    "xai": "x-ai",
}
"""Sellers by LiteLLM's names for them."""


class KnownPrice(FrozenModel):
    """A price and its source."""

    price: Price
    source: str
    """In words: the file, or the list with its version and the entry."""
    date: str
    """Its start date, or the date when the user looked it up, as year-month-day; empty: the source has no date."""


class _Own(Price):
    """A model's table in the user's file."""

    date: str = ""

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_day(cls, given: object) -> str:
        text = given.isoformat() if isinstance(given, date) else str(given)
        try:
            return date.fromisoformat(text).isoformat() if text else ""
        except ValueError:
            raise ValueError("write a day as year-month-day, such as 2026-11-01") from None

    @model_validator(mode="after")
    def _is_per_million(self) -> _Own:
        named = (self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h, self.reasoning)
        if max(amount for amount in named if amount is not None) > DEAREST:
            raise ValueError(f"more than {usd(DEAREST)} per million tokens; check the decimal point")
        if 0 < self.output < CHEAPEST:
            price = usd(self.output, exact=True)
            raise ValueError(
                f"an output price of {price} looks like dollars per token; write dollars per million tokens"
            )
        return self

    @property
    def price(self) -> Price:
        return Price.model_validate(self.model_dump(include=set(Price.model_fields)))


class _File(FrozenModel):
    models: dict[str, _Own] = Field(default_factory=dict)


def price_of(model: str, base_url: str = "", user_file: Path | None = None) -> KnownPrice | None:
    """The price of this model at this endpoint; None: unknown.

    `user_file` must exist if it is given; otherwise, prices.toml in scrout's configuration folder is read if it exists.
    If the endpoint's seller is unknown, the model's name alone decides.
    """
    seller = seller_of(base_url)
    return _own_price(model, seller, user_file) or _listed_price(model, seller, by_address=bool(base_url))


def seller_of(base_url: str) -> str:
    """The seller at this address; empty: unknown, such as a self-hosted server."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return ""
    labels = host.split(".")
    above = (".".join(labels[start:]) for start in range(len(labels)))
    return next((SELLERS[name] for name in above if name in SELLERS), "")


def _own_price(model: str, seller: str, user_file: Path | None) -> KnownPrice | None:
    path = user_file or user_folder("XDG_CONFIG_HOME", ".config") / FILE
    if user_file is None and not path.exists():
        return None
    models = _read(path).models
    own = models.get(f"{seller}/{model}") or models.get(model)
    if own is None:
        return None
    return KnownPrice(price=own.price, source=path.name, date=own.date)


def _read(path: Path) -> _File:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        return _File.model_validate(table)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Name a file of prices that can be read.") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error)}") from None
    except (ValueError, ArithmeticError, RecursionError) as error:  # not TOML, not text, or an invalid number
        raise ConfigError(f"{path} is not valid TOML: {error or type(error).__name__}") from None


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        place = ".".join(f'"{part}"' if at == 1 else str(part) for at, part in enumerate(problem["loc"]))
        if problem["type"] == "extra_forbidden":
            known = _Own.model_fields if len(problem["loc"]) > 1 else _File.model_fields
            lines.append(f"unknown key `{place}`; known here: {', '.join(known)}")
        else:
            lines.append(f"`{place}`: {problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(lines)


def _listed_price(model: str, seller: str, *, by_address: bool) -> KnownPrice | None:
    found = _entry(model, seller)
    if found is None:
        return None
    listed_by, entry = found
    standing, since = _standing(entry, datetime.now(UTC))
    prices = [_price(price) for price in standing]
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    remarks = [
        *(["the most expensive hour"] if len(standing) > 1 else []),
        *(["by its name, for the endpoint is no known seller's"] if by_address and not seller else []),
    ]
    source = ", ".join([f"genai-prices {version('genai-prices')}: {listed_by} {entry.id}", *remarks])
    return KnownPrice(price=_most_expensive(known), source=source, date=since)


def _entry(model: str, seller: str) -> tuple[str, ModelInfo] | None:
    """The list's entry and its seller. For a known seller, another seller's price is never used."""
    # The list takes a quarter of a second to import, and most commands need no price.
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    head, _, rest = model.partition("/")
    qualifier = _ALSO_CALLED.get(head, head)
    ids = {provider.id for provider in snapshot.providers}
    asked: list[tuple[str, str | None]] = [(model, seller or None)]
    if rest and qualifier in ids and seller in ("", qualifier):
        asked.append((rest, qualifier))
    for name, provider_id in asked:
        try:
            provider, entry = snapshot.find_provider_model(name, None, provider_id, None)
        except LookupError:
            continue
        return provider.id, entry
    return None


def _standing(entry: ModelInfo, now: datetime) -> tuple[Sequence[ModelPrice], str]:
    """Every price that applies at some hour of today, and its start date; empty: the list does not say."""
    from genai_prices.types import ModelPrice, TimeOfDateConstraint

    if isinstance(entry.prices, ModelPrice):
        return [entry.prices], ""
    found: list[ModelPrice] = []
    # The last one that applies counts.
    for conditional in reversed(entry.prices):
        condition = conditional.constraint
        if isinstance(condition, TimeOfDateConstraint):
            found.append(conditional.prices)
        elif condition is None:
            return [*found, conditional.prices], ""
        elif condition.active(now):
            return [*found, conditional.prices], condition.start_date.isoformat()
    return [*found, *(first.prices for first in entry.prices[:1])], ""


def _price(listed: ModelPrice) -> Price | None:
    """None: it has no price for generated text, or a call has costs besides its tokens."""
    short = _rates(listed, 0)
    if short is None or listed.requests_kcount:
        return None
    starts = sorted({tier.start for amount in vars(listed).values() for tier in _tiers(amount)})
    if not starts:
        return Price.model_validate(short)
    # If there are several steps, use the last one's rates beyond the first; they are the highest.
    long = _rates(listed, starts[-1])
    return Price.model_validate({**short, "long": {**(long or short), "above_tokens": starts[0]}})


def _rates(listed: ModelPrice, prompt_tokens: int) -> dict[str, Decimal | None] | None:
    """The rate of each bucket for a prompt of that length; None: text has no price."""

    def at(amount: Decimal | TieredPrices | None) -> Decimal | None:
        if amount is None or isinstance(amount, Decimal):
            return amount
        passed = [tier.price for tier in amount.tiers if tier.start <= prompt_tokens]
        return passed[-1] if passed else amount.base

    rates = {
        "input": at(listed.input_mtok),
        "output": at(listed.output_mtok),
        "cache_read": at(listed.cache_read_mtok),
        "cache_write": at(listed.cache_write_mtok),
        "cache_write_1h": at(listed.cache_write_1h_mtok),
        "reasoning": at(listed.output_reasoning_mtok),
    }
    return None if rates["input"] is None or rates["output"] is None else rates


def _tiers(amount: object) -> Sequence[Tier]:
    from genai_prices.types import TieredPrices

    return amount.tiers if isinstance(amount, TieredPrices) else ()


def _most_expensive(prices: Sequence[Price]) -> Price:
    """The highest price among several hours: they differ by one factor, the same in every bucket."""
    return max(prices, key=lambda price: (price.output, price.input))
