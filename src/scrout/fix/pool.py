"""Completes the pool: entries of scrout.toml, entries of a LiteLLM list, and prices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scrout.base import ConfigError
from scrout.config.folders import user_folder
from scrout.config.settings import Fixer, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.money import Price
from scrout.text import usd

PRICES = "prices.toml"


def completed(settings: Settings, say: Callable[[str], None] = lambda words: None) -> Settings:
    """The settings with all fixers that they name, and known prices.

    `say` receives the entries of the list that were left out, with reasons.
    """
    pool = (*settings.fixers, *_listed(settings, say))
    names = [fixer.name for fixer in pool]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"{settings.fix.model_list} and scrout.toml both define a fixer {twice!r}. Rename one of them."
        )
    priced = tuple(_priced(fixer, settings) for fixer in pool)
    whole = settings if priced == settings.fixers else settings.model_copy(update={"fixers": priced})
    if whole.route.anchor:
        whole.fixer(whole.route.anchor)
    return whole


def refuse_unpriced(settings: Settings) -> None:
    """Refuse, before any payment, a fixer whose dollar cap could not hold."""
    for fixer in settings.fixers:
        if fixer.has_model and fixer.price is None and not fixer.subscription:
            raise ConfigError(unpriced(fixer))


def unpriced(fixer: Fixer) -> str:
    """Why a fixer without a price makes no call, and what to do."""
    return (
        f"no price is known for {fixer.model!r}, so the cap of {usd(fixer.cap_usd)} on fixer {fixer.name!r} cannot "
        "hold. Add `price = { input = ..., output = ... }` in dollars per million tokens (zeros for a model of your "
        "own), or `subscription = true` where no call has a price."
    )


def _listed(settings: Settings, say: Callable[[str], None]) -> tuple[Fixer, ...]:
    if not settings.fix.model_list:
        return ()
    from scrout.models.model_list import read

    entries, left_out = read(Path(settings.fix.model_list).expanduser())
    for one in left_out:
        say(f"note: {one.name} of {settings.fix.model_list} is left out: {one.reason}")
    return tuple(
        AgentFixer(
            name=entry.name,
            model=entry.model,
            effort=entry.effort,
            base_url=entry.base_url,
            key_env=entry.key_env,
            max_tokens=entry.max_tokens or AgentFixer.model_fields["max_tokens"].default,
            price=entry.price or _known_price(entry.priced_as, entry.base_url, settings)[0],
        )
        for entry in entries
    )


def _priced(fixer: Fixer, settings: Settings) -> Fixer:
    if not fixer.has_model or fixer.price is not None or fixer.subscription:
        return fixer
    price, date = _known_price(fixer.model, fixer.base_url, settings)
    return fixer if price is None else fixer.model_copy(update={"price": price, "price_date": date})


def _known_price(model: str, base_url: str, settings: Settings) -> tuple[Price | None, str]:
    from scrout.models.prices import price_of

    named = settings.fix.prices
    known = price_of(model, base_url, Path(named).expanduser() if named else _own_prices())
    return (known.price, known.date or known.source) if known else (None, "")


def _own_prices() -> Path | None:
    path = user_folder("XDG_CONFIG_HOME", ".config") / PRICES
    return path if path.is_file() else None
