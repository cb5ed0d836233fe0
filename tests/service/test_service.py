"""What a call leaves behind that came to nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from scrout.config import ScoutSettings, SearcherSettings, Settings
from scrout.errors import ModelError
from scrout.ledger.opening import open_ledger
from scrout.money import Price
from scrout.sandbox.tier import Tier
from scrout.service.service import Service

ISSUE = "total() leaves out the first price"


@pytest.mark.parametrize("stage", ["scout", "gate"])
async def test_a_scouting_that_failed_is_not_gone_on_with(
    stage: str, make_repo: Callable[..., Path], tier: Tier
) -> None:
    """Its run is closed, so that the next call searches anew instead of hearing of the same failure."""
    dead = SearcherSettings(model="m", base_url="http://127.0.0.1:9/v1", price=Price(input=0, output=0))
    settings = Settings(scout=ScoutSettings(searcher="model", model=dead))
    service = Service(make_repo({"shop.py": "def total(prices):\n    return sum(prices[1:])\n"}), settings)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "scout": lambda: service.scout(ISSUE, "", dirty=False, say=lambda words: None),
        "gate": lambda: service.gate(ISSUE, "", "", dirty=False, say=lambda words: None),
    }
    for _ in range(2):
        with pytest.raises(ModelError, match="gave no handoff"):
            await calls[stage]()
    with open_ledger(settings) as book:
        assert [run.outcome for run in book.runs()] == ["infrastructure", "infrastructure"]
