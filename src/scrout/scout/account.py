"""The searcher's account with the meter. An episode, its canary and its hidden state share one, and so one cap."""

from __future__ import annotations

from pathlib import Path

from scrout.config.folders import data_folder
from scrout.config.settings import SearcherSettings
from scrout.models.chat import TRIES
from scrout.models.proxy.caps import Account

CANARY_CALLS = 16
"""The most that a canary makes, its hidden states included."""


def account_of(searcher: SearcherSettings, trajectory: Path) -> Account:
    """A ConfigError if the searcher's key is named and not set."""
    return Account(
        component="scout",
        fixer="",
        model=searcher.model,
        base_url=searcher.base_url,
        key=searcher.key(),
        price=searcher.price,
        cap_usd=searcher.cap_usd,
        # Turns are what bounds them; what goes wrong on the way may be asked again.
        cap_calls=TRIES * (searcher.turns + 1 + CANARY_CALLS),
        trajectory=str(trajectory),
        outputs=str(data_folder() / "outputs.json"),
        silent=False,
    )
