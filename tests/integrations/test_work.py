"""`work`: caps that hold, tokens that are not there, and results of every ending."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrout.base import ConfigError, ModelError
from scrout.config.settings import Settings
from scrout.integrations import markdown
from scrout.integrations.admission import Admission
from scrout.integrations.ci_environment import WRITERS, CiEnvironment
from scrout.integrations.event import Event, read_event
from scrout.integrations.forge import ForgeError
from scrout.integrations.result import WorkResult, read_result, result_of, rows_of
from scrout.integrations.work import capped, refuse_tokens, work
from scrout.money import Receipt, Usage
from scrout.records import Run
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source

from .conftest import github_payload
from .test_markdown import EVIL, assert_inert

ENDPOINT = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "price": {"input": 1, "output": 1}}
MODEL = {"name": "m", "kind": "agent", **ENDPOINT}
SEARCHER = {"searcher": "model", "model": {**ENDPOINT, "cap_usd": "0.30"}}


def settings(**tables: Any) -> Settings:
    return Settings.model_validate(tables)


def worked(event: Event, admission: Admission, repo: Path, commit: str, given: Settings | None = None) -> WorkResult:
    return asyncio.run(work(event, admission, repo, commit, given or Settings(), lambda words: None))


# Caps


def test_a_run_that_may_cost_nothing_takes_nobody_who_costs() -> None:
    free = settings()
    assert capped(free, "fix", Decimal(0)) == free
    with pytest.raises(ConfigError, match="fixer 'm'"):
        capped(settings(fixers=[MODEL]), "fix", Decimal(0))
    # Scouting asks no fixer.
    assert capped(settings(fixers=[MODEL]), "scout", Decimal(0)).fixers
    with pytest.raises(ConfigError, match="searcher"):
        capped(settings(scout=SEARCHER), "scout", Decimal(0))


def test_scout_and_fixer_together_stay_within_the_cap() -> None:
    both = capped(settings(fixers=[MODEL], scout=SEARCHER), "fix", Decimal(1))
    assert (both.scout.model.cap_usd, both.fix.cap_usd, both.fix.caps) == (Decimal("0.30"), Decimal("0.70"), "hard")
    low = capped(settings(fixers=[MODEL], fix={"cap_usd": "0.10", "caps": "paper"}), "fix", Decimal(1))
    assert (low.fix.cap_usd, low.fix.caps) == (Decimal("0.10"), "hard")
    with pytest.raises(ConfigError, match="use all of it"):
        capped(settings(fixers=[MODEL], scout=SEARCHER), "fix", Decimal("0.20"))
    assert capped(settings(scout=SEARCHER), "scout", Decimal("0.20")).scout.model.cap_usd == Decimal("0.20")


def test_an_embedder_that_bills_by_itself_is_refused() -> None:
    bills = {"kind": "endpoint", "model": "e", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(ConfigError, match="embedder"):
        capped(settings(route={"embedder": bills}), "scout", Decimal(1))


# Tokens


@pytest.mark.parametrize("name", WRITERS)
def test_a_token_that_may_write_stops_the_work(name: str) -> None:
    refuse_tokens({"MY_API_KEY": "k", name: " "})
    with pytest.raises(ForgeError, match=name) as refused:
        refuse_tokens({name: "ghs_0123456789012345678901234567890"})
    assert "ghs_" not in str(refused.value)


# Results


def test_what_was_not_admitted_is_not_worked_on(
    event: Event, admission: Admission, place: CiEnvironment, larder: Path
) -> None:
    for change in ({"go": "say"}, {"go": "nothing"}, {"verb": None}, {"issue": 8}, {"digest": "0" * 64}):
        with pytest.raises(ForgeError):
            worked(event, admission.model_copy(update=change), larder, place.commit)


def test_another_commit_or_a_bad_pool_is_a_result_too(
    event: Event, admission: Admission, place: CiEnvironment, larder: Path, tmp_path: Path
) -> None:
    elsewhere = worked(event, admission, larder, "0" * 40)
    assert (elsewhere.outcome, elsewhere.cost_usd) == ("failed", 0)
    assert "this run is for 0000000000" in elsewhere.error
    free = admission.model_copy(update={"held_usd": Decimal(0)})
    expensive = worked(event, free, larder, place.commit, settings(fixers=[MODEL]))
    assert (expensive.outcome, expensive.cost_usd) == ("failed", 0) and "may cost nothing" in expensive.error
    file = tmp_path / "result.json"
    file.write_text(expensive.model_dump_json())
    assert read_result(file, event, free, place.commit) == expensive


def test_a_hostile_issue_in_a_hostile_repository_is_told_and_does_nothing(
    tier: Tier,
    make_repo: Callable[..., Path],
    admission: Admission,
    place: CiEnvironment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scouted in the real sandbox; what it prints, names and says stays in code."""
    monkeypatch.setenv("MY_API_KEY", "value-of-the-key-123")
    repo = make_repo(
        {
            "shop/@everyone #1 !2.py": "def total():\n    return 1\n",
            "shop/cart.py": f'"""{EVIL[:300]}"""\n\n\ndef total(prices):\n    return sum(prices[1:])\n'.replace(
                "\0", ""
            ),
        }
    )
    script = (
        "import os\nfrom shop.cart import total\nprint(dict(os.environ))\n"
        "assert total([1, 2]) == 3, '@everyone ``` <img src=x> /merge '"
    )
    body = f"{EVIL}\n\nshop/cart.py and `shop/@everyone #1 !2.py` are wrong\n\n```python\n{script}\n```\n".replace(
        "\0", ""
    )
    payload = github_payload(issue__title="@admin <b>total</b> `is` wrong", issue__body=body)
    event = read_event("github", json.dumps(payload).encode())
    asked = admission.model_copy(update={"verb": "scout", "digest": event.digest, "held_usd": Decimal(0)})
    head = find_source(repo).head
    result = worked(event, asked, repo, head)
    assert result.outcome == "scouted" and result.scouted and "shop/cart.py" in result.scouted.text
    assert result.chosen and result.chosen.fixer == "repair" and not result.patch
    written = result.model_dump_json()
    assert "value-of-the-key" not in written
    assert_inert(markdown.comment(WorkResult.model_validate_json(written), asked, place))


def test_a_patch_with_the_key_in_it_stays_here(
    admission: Admission, larder: Path, place: CiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only `work` knows the key's value, so only it can see that it is there."""
    monkeypatch.setenv("MY_API_KEY", "value-of-the-key-123")
    document = {
        "id": "20261117-093000-abcdef",
        "task": {"id": "t", "text": "x", "repo": str(larder), "base_commit": place.commit},
        "settings_digest": "d",
        "started": "2026-11-17T09:30:00Z",
        "sandbox": "bubblewrap",
        "environment": "e",
        "outcome": "solved",
        "attempts": [{"fixer": "m", "patch": "", "stop": "finished", "detail": "value-of-the-key-123", "seconds": 1}],
    }
    for patch, why in (
        ("+x = 'value-of-the-key-123'\n", "secret"),
        ("+" + "x" * 500_001, "500,002 characters"),
        ("+\udcff\n", "not UTF-8"),
    ):
        run = Run.model_validate(document)
        run = run.model_copy(update={"attempts": (run.attempts[0].model_copy(update={"patch": patch}),)})
        result = result_of(run, (), admission, "fix")
        assert result.patch == "" and why in result.withheld and "value-of" not in result.model_dump_json()


NOW = datetime.now(UTC)


def test_the_rows_of_a_receipt_add_up_to_what_the_run_cost() -> None:
    paid = [
        Receipt(
            component="fix", fixer="m", model=model, usage=Usage(input_tokens=5), cost_usd=cost, at=datetime.now(UTC)
        )
        for model, cost in (("a", Decimal("0.10")), ("a", Decimal("0.30")), ("b", None))
    ]
    assert [(row.model, row.calls, row.prompt_tokens, row.cost_usd) for row in rows_of(paid)] == [
        ("a", 2, 10, Decimal("0.40")),
        ("b", 1, 5, None),
    ]


def test_what_a_failure_cost_is_unknown_only_once_a_run_has_begun(
    tier: Tier, event: Event, admission: Admission, place: CiEnvironment, larder: Path
) -> None:
    unpriced = {"name": "m", "kind": "agent", "model": "nobody-knows-this-one", "base_url": "http://127.0.0.1:9/v1"}
    early = worked(event, admission, larder, place.commit, settings(fixers=[unpriced]))
    assert (early.outcome, early.cost_usd) == ("failed", 0) and "price" in early.error

    def break_off(words: str) -> None:
        if "scouting" in words:
            raise ModelError("the machine was unplugged")

    late = asyncio.run(work(event, admission, larder, place.commit, Settings(), break_off))
    assert (late.outcome, late.cost_usd) == ("failed", None) and "unplugged" in late.error
