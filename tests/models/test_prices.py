"""Where a price comes from, and that it is never lower than what is billed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, StartDateConstraint, TieredPrices, TimeOfDateConstraint
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import ConfigError
from scrout.config.folders import user_folder
from scrout.models import prices
from scrout.models.prices import KnownPrice, price_of, seller_of
from scrout.money import CENT_FRACTION, Price, Usage

HOSTS = {seller: host for host, seller in prices.SELLERS.items()}


def priced(text: str, tmp_path: Path, model: str, base_url: str = "") -> KnownPrice | None:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return price_of(model, base_url, path)


def sold() -> Iterator[tuple[Provider, ModelInfo]]:
    """Every model of a seller whose address is known, which costs something per token and nothing beside."""
    for provider in get_snapshot().providers:
        for entry in provider.models if provider.id in HOSTS else ():
            price = entry.get_prices(datetime.now(UTC))
            found = provider.find_model(entry.id, all_providers=get_snapshot().providers)
            if found is entry and price.input_mtok and price.output_mtok and not price.requests_kcount:
                yield provider, entry


def is_flat(entry: ModelInfo) -> bool:
    """Whether neither the prompt's length nor the hour changes the price."""
    hours = not isinstance(entry.prices, ModelPrice) and any(
        isinstance(conditional.constraint, TimeOfDateConstraint) for conditional in entry.prices
    )
    return not hours and not any(
        isinstance(amount, TieredPrices) for amount in vars(entry.get_prices(datetime.now(UTC))).values()
    )


@cache
def all_sold() -> list[tuple[Provider, ModelInfo]]:
    """Found when the first test asks: there are more than a thousand models to look at."""
    return list(sold())


def sold_at(*, flat: bool) -> st.SearchStrategy[tuple[Provider, ModelInfo]]:
    return st.deferred(lambda: st.sampled_from([pair for pair in all_sold() if is_flat(pair[1]) == flat]))


TOKENS = st.integers(min_value=0, max_value=3_000_000)
USAGES = st.builds(
    Usage,
    input_tokens=TOKENS,
    cache_read_tokens=TOKENS,
    cache_write_tokens=TOKENS,
    output_tokens=TOKENS,
    reasoning_tokens=TOKENS,
)


def their_cost(usage: Usage, provider: Provider, entry: ModelInfo, at: datetime | None = None) -> Decimal:
    """By the package's own calculation, whose counts are not disjoint."""
    written = usage.cache_write_tokens + usage.cache_write_1h_tokens
    theirs = TheirUsage(
        input_tokens=usage.input_tokens + usage.cache_read_tokens + written,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=written,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens + usage.reasoning_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
    )
    return entry.calc_price(theirs, provider, genai_request_timestamp=at).total_price


def known(provider: Provider, entry: ModelInfo) -> KnownPrice:
    found = price_of(entry.id, f"https://{HOSTS[provider.id]}/v1")
    assert found is not None, (provider.id, entry.id)
    return found


@given(sold_at(flat=True), USAGES)
def test_a_flat_price_costs_what_the_package_calculates(pair: tuple[Provider, ModelInfo], usage: Usage) -> None:
    over = known(*pair).price.cost(usage) - their_cost(usage, *pair)
    assert 0 <= over < CENT_FRACTION


@given(sold_at(flat=False), USAGES, st.times().map(lambda time: time.hour))
def test_a_price_that_varies_is_never_below_what_is_billed(
    pair: tuple[Provider, ModelInfo], usage: Usage, hour: int
) -> None:
    at = datetime.now(UTC).replace(hour=hour)
    assert known(*pair).price.cost(usage) >= their_cost(usage, *pair, at=at)


def test_most_models_that_are_sold_have_a_price() -> None:
    assert len(all_sold()) > 500


def standing(entry: ModelInfo) -> ModelPrice:
    return entry.get_prices(datetime.now(UTC))


def test_a_long_prompt_has_the_rates_of_long_prompts_and_a_short_one_does_not() -> None:
    tiered = [pair for pair in all_sold() if isinstance(standing(pair[1]).input_mtok, TieredPrices)]
    assert tiered
    for pair in tiered:
        price = known(*pair).price
        assert price.long is not None
        for prompt in (1000, price.long.above_tokens, price.long.above_tokens + 1):
            usage = Usage(input_tokens=prompt - 500, cache_read_tokens=500, output_tokens=700)
            assert price.cost(usage) >= their_cost(usage, *pair)
        short = Usage(input_tokens=1000, output_tokens=700)
        assert 0 <= price.cost(short) - their_cost(short, *pair) < CENT_FRACTION


def test_the_most_expensive_hour_sets_the_price_and_the_source_says_so() -> None:
    hourly = [
        pair
        for pair in all_sold()
        if not isinstance(pair[1].prices, ModelPrice)
        and any(isinstance(conditional.constraint, TimeOfDateConstraint) for conditional in pair[1].prices)
    ]
    assert hourly
    million_each = [Usage.model_validate({bucket: 1_000_000}) for bucket in Usage.model_fields]
    day = [datetime.now(UTC).replace(hour=hour, minute=45) for hour in range(24)]
    for pair in hourly:
        found = known(*pair)
        assert "the most expensive hour" in found.source
        for usage in million_each:
            assert found.price.cost(usage) == max(their_cost(usage, *pair, at=at) for at in day)


def test_a_price_that_changed_has_the_day_of_its_change() -> None:
    today = datetime.now(UTC).date()
    changed = [
        (pair, pair[1].prices[-1].constraint)
        for pair in all_sold()
        if not isinstance(pair[1].prices, ModelPrice)
        and isinstance(pair[1].prices[-1].constraint, StartDateConstraint)
        and pair[1].prices[-1].constraint.start_date <= today
    ]
    assert changed
    for pair, constraint in changed:
        assert isinstance(constraint, StartDateConstraint)
        assert known(*pair).date == constraint.start_date.isoformat()


def test_reasoning_that_has_a_price_of_its_own_keeps_it() -> None:
    apart = [pair for pair in all_sold() if standing(pair[1]).output_reasoning_mtok is not None]
    assert apart
    for pair in apart:
        assert known(*pair).price.reasoning == standing(pair[1]).output_reasoning_mtok


def test_what_is_written_to_the_cache_for_an_hour_has_its_own_price() -> None:
    found = price_of("claude-opus-4-6", "https://api.anthropic.com/v1")
    assert found is not None and found.price.cache_write_1h is not None and found.price.cache_write is not None
    assert found.price.cache_write_1h > found.price.cache_write
    without = price_of("gpt-5")
    assert without is not None
    assert without.price.cache_write_1h is None


@pytest.mark.parametrize(
    ("model", "base_url", "entry"),
    [
        ("gpt-5", "", "openai gpt-5"),
        ("gpt-5", "https://api.openai.com/v1", "openai gpt-5"),
        ("openai/gpt-5", "https://openrouter.ai/api/v1", "openrouter openai/gpt-5"),
        ("openrouter/openai/gpt-5", "", "openrouter openai/gpt-5"),
        ("openrouter/openai/gpt-5", "https://openrouter.ai/api/v1", "openrouter openai/gpt-5"),
        ("anthropic/claude-opus-4-6", "", "anthropic claude-opus-4-6"),
        ("gpt-5", "https://mine.openai.azure.com/openai/v1", "azure gpt-5"),
        ("azure/gpt-5", "https://mine.openai.azure.com/openai/v1", "azure gpt-5"),
        ("accounts/fireworks/models/kimi-k2p5", "https://api.fireworks.ai/inference/v1", "fireworks kimi-k2p5"),
        ("gpt-5-2025-08-07", "", "openai gpt-5"),
    ],
)
def test_the_seller_is_known_by_the_address_or_the_name(model: str, base_url: str, entry: str) -> None:
    found = price_of(model, base_url)
    assert found is not None
    assert found.source.partition(": ")[2] == entry


@pytest.mark.parametrize("base_url", ["http://localhost:4000/v1", "https://api.openai.com.example/v1", "http://["])
def test_at_an_unknown_address_the_name_decides_and_the_source_says_so(base_url: str) -> None:
    found = price_of("gpt-5", base_url)
    assert found is not None
    assert "by its name" in found.source


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("a-model-of-mine", ""),
        ("", ""),
        ("gpt-5", "https://api.anthropic.com/v1"),  # another seller's model
        ("openai/gpt-5", "https://api.anthropic.com/v1"),
        ("openai/gpt-5:nitro", "https://openrouter.ai/api/v1"),  # may cost more than without :nitro
        ("gpt-5-ultra-x", "https://api.openai.com/v1"),
        ("text-embedding-3-small", ""),  # generates nothing
        ("sonar", "https://api.perplexity.ai"),  # costs something for each call beside its tokens
        ("gpt-4.1", "https://api.githubcopilot.com"),  # in the list without a price
    ],
)
def test_unknown_is_none_and_never_zero(model: str, base_url: str) -> None:
    assert price_of(model, base_url) is None


@pytest.mark.parametrize("host", sorted(prices.SELLERS.keys() - {"api.together.ai"}))  # which the list has not learned
def test_the_list_knows_the_address_too(host: str) -> None:
    assert get_snapshot().find_provider(None, None, f"https://{host}/v1").id == prices.SELLERS[host]


def test_a_host_below_a_sellers_is_the_sellers_and_one_that_ends_alike_is_not() -> None:
    assert seller_of("https://eu.openrouter.ai/api/v1") == "openrouter"
    assert seller_of("https://notopenrouter.ai/api/v1") == ""
    assert seller_of("https://openrouter.ai:8443/api/v1") == "openrouter"


def test_the_users_price_comes_first(tmp_path: Path) -> None:
    text = '[models."gpt-5"]\ninput = 0.1\noutput = 0.70000000000000000001\ncache_read = 0.01\ndate = "2026-11-01"\n'
    found = priced(text, tmp_path, "gpt-5", "https://api.openai.com/v1")
    assert found is not None
    # Equal to what was written, not to the nearest double.
    assert found.price == Price(
        input=Decimal("0.1"), output=Decimal("0.70000000000000000001"), cache_read=Decimal("0.01")
    )
    assert (found.source, found.date) == ("prices.toml", "2026-11-01")


def test_a_price_for_one_seller_goes_before_one_for_all(tmp_path: Path) -> None:
    text = (
        '[models."x/y"]\ninput = 1\noutput = 1\n[models."openrouter/x/y"]\ninput = 2\noutput = 2\ndate = 2026-11-01\n'
    )
    at_openrouter = priced(text, tmp_path, "x/y", "https://openrouter.ai/api/v1")
    elsewhere = priced(text, tmp_path, "x/y", "https://models.example/v1")
    assert at_openrouter is not None and at_openrouter.price.input == 2 and at_openrouter.date == "2026-11-01"
    assert elsewhere is not None and elsewhere.price.input == 1 and elsewhere.date == ""


def test_what_the_users_file_does_not_name_is_in_the_list(tmp_path: Path) -> None:
    found = priced('[models."other"]\ninput = 1\noutput = 1\n', tmp_path, "gpt-5")
    assert found is not None
    assert found.source.startswith("genai-prices ")


def test_the_file_in_the_configuration_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert price_of("mine") is None
    path = user_folder("XDG_CONFIG_HOME", ".config") / "prices.toml"
    path.parent.mkdir()
    path.write_text("[models.mine]\ninput = 0\noutput = 0\n", encoding="utf-8")
    found = price_of("mine")
    assert found is not None
    assert found.price == Price(input=Decimal(0), output=Decimal(0))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[models.x]\ninput = 1\noutput = 1\ncached = 1\n",
            'unknown key `models."x".cached`; known here: input, output',
        ),
        ("[model.x]\ninput = 1\noutput = 1\n", "unknown key `model`; known here: models"),
        ("[models.x]\ninput = 1\n", '`models."x".output`: Field required'),
        ("[models.x]\ninput = -1\noutput = 1\n", '`models."x".input`'),
        ("[models.x]\ninput = nan\noutput = 1\n", '`models."x".input`'),
        ("[models.x]\ninput = inf\noutput = 1\n", '`models."x".input`'),
        ("[models.x]\ninput = 1\noutput = 1e30\n", "check the decimal point"),
        ("[models.x]\ninput = 0.00000125\noutput = 0.00001\n", "looks like dollars per token"),
        ('[models.x]\ninput = 1\noutput = 1\ndate = "yesterday"\n', "year-month-day"),
        ("models = 3\n", "`models`"),
        ("[models.x\n", "is not valid TOML"),
        ("x = 1" + "0" * 5000, "is not valid TOML"),
        ("x = " + "[" * 5000, "is not valid TOML"),
    ],
)
def test_a_file_that_is_wrong_is_an_error_that_names_the_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        priced(text, tmp_path, "gpt-5")
    assert said in str(error.value)
    assert "prices.toml" in str(error.value)


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        price_of("gpt-5", user_file=tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        price_of("gpt-5", user_file=tmp_path)


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_whatever_is_in_the_file_there_is_a_price_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        found = price_of("gpt-5", user_file=path)
    except ConfigError:
        return
    assert found is not None


def test_the_list_is_imported_when_it_is_needed_and_starts_no_update(tmp_path: Path) -> None:
    code = """
import socket, sys, threading
def refuse(*_): raise AssertionError("network")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from scrout.models.prices import price_of
assert "genai_prices" not in sys.modules
assert price_of("gpt-5") is not None
assert threading.active_count() == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_the_example_in_the_guide_is_a_file_of_prices(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "metering.md").read_text(encoding="utf-8")
    section = guide.partition("### Your own file")[2].partition("\n### ")[0]
    example = section.split("```\n")[1]
    found = priced(example, tmp_path, "moonshotai/kimi-k2", "https://openrouter.ai/api/v1")
    assert found is not None
    assert found.price.output == Decimal("2.20")
    told = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert {*told} == {*Price.model_fields, "date"}
