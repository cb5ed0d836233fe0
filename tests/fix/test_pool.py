"""The pool as it is used: entries of scrout.toml and of a LiteLLM list, each with a price or none."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scrout.base import ConfigError
from scrout.config.loading import load
from scrout.config.settings import Fixer, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.fix.kinds.repair import RepairFixer
from scrout.fix.pool import completed, refuse_unpriced
from scrout.money import Price

HERE = "http://127.0.0.1:9/v1"


def agent(name: str = "toy", **fields: object) -> Fixer:
    return AgentFixer.model_validate({"name": name, "kind": "agent", "model": "toy-1", "base_url": HERE} | fields)


def test_a_price_of_the_entry_counts_and_is_not_looked_up() -> None:
    settings = Settings(fixers=(agent(price={"input": 1, "output": 2}),))
    assert completed(settings) is settings


def test_a_price_of_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('[models."toy-1"]\ninput = 1.5\noutput = 6\ndate = "2026-11-01"\n')
    file = tmp_path / "scrout.toml"
    file.write_text(
        f'[fix]\nprices = "prices.toml"\n[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\n'
        f'base_url = "{HERE}"\n'
    )
    (fixer,) = completed(load(file)).fixers
    assert (fixer.price, fixer.price_date) == (Price(input=Decimal("1.5"), output=Decimal(6)), "2026-11-01")


def test_a_price_from_the_list_of_public_models() -> None:
    entry = agent(model="claude-sonnet-4-5", base_url="https://api.anthropic.com/v1")
    (fixer,) = completed(Settings(fixers=(entry,))).fixers
    assert fixer.price is not None and fixer.price.cache_read is not None
    assert fixer.price.output > fixer.price.input > fixer.price.cache_read > 0


def test_an_unknown_price_is_refused_before_anything_is_paid() -> None:
    settings = completed(Settings(fixers=(agent(model="nobody-sells-this"),)))
    with pytest.raises(ConfigError, match=r"no price is known for 'nobody-sells-this'.*cap of \$2.00.*subscription"):
        refuse_unpriced(settings)


def test_a_subscription_and_the_free_fixer_need_no_price() -> None:
    refuse_unpriced(completed(Settings(fixers=(RepairFixer(name="repair"), agent(subscription=True)))))


LIST = """
model_list:
  - model_name: cheap
    litellm_params:
      model: openai/toy-small
      api_base: http://127.0.0.1:9/v1
      api_key: os.environ/TOY_KEY
      input_cost_per_token: 0.000001
      output_cost_per_token: 0.000004
"""


def test_litellms_list_joins_the_pool(tmp_path: Path) -> None:
    (tmp_path / "litellm.yaml").write_text(LIST)
    file = tmp_path / "scrout.toml"
    file.write_text('[fix]\nmodel_list = "litellm.yaml"\n[[fixers]]\nname = "repair"\nkind = "repair"\n')
    repair, cheap = completed(load(file)).fixers
    assert (repair.kind, cheap.kind, cheap.name, cheap.model) == ("repair", "agent", "cheap", "toy-small")
    assert (cheap.base_url, cheap.key_env) == (HERE, "TOY_KEY")
    assert cheap.price == Price(input=Decimal(1), output=Decimal(4))


def test_a_name_in_both_is_said(tmp_path: Path) -> None:
    (tmp_path / "litellm.yaml").write_text(LIST)
    file = tmp_path / "scrout.toml"
    file.write_text('[fix]\nmodel_list = "litellm.yaml"\n[[fixers]]\nname = "cheap"\nkind = "repair"\n')
    with pytest.raises(ConfigError, match=r"both define a fixer 'cheap'. Rename"):
        completed(load(file))
