"""A whole run with a model: scripted replies over real HTTP, commands in the real sandbox, receipts in the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, Status
from scrout.money import Price, Usage

if TYPE_CHECKING:
    from conftest import Cli

KEY = "sk-very-secret-0123456789abcdef"
USAGE = Usage(input_tokens=900, cache_read_tokens=100, output_tokens=50)
PRICE = Price(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"))


def bash(command: str) -> ScriptedReply:
    return ScriptedReply(calls=(ToolCall("c", "bash", json.dumps({"command": command})),), usage=USAGE)


def settings(folder: Path, base_url: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(
        f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "{base_url}"\nkey_env = "TOY_KEY"\n'
        "price = { input = 3.0, output = 15.0, cache_read = 0.3 }\n"
    )
    return path


def test_a_model_fixes_the_bug(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    script = [
        bash("python scrout_repro.py"),
        bash(r"printf '\033[31mred\033[0m'; env; sed -i 's/prices\[1:\]/prices/' shop/cart.py"),
        bash("python scrout_repro.py"),
        ScriptedReply("The first price was \x1b[31mskipped\x1b[0m.", usage=USAGE),
    ]
    with ScriptedEndpoint(script) as endpoint:
        args = ("fix", "--repo", shop_repo, "--issue", issue, "--config", settings(tmp_path, endpoint.base_url))
        done = cli(*args, "--json", env={"TOY_KEY": KEY})
    assert done.code == 0, done.err
    run = done.json()
    (attempt,) = run["attempts"]
    assert (run["outcome"], attempt["stop"], attempt["calls"]) == ("solved", "finished", 4)
    assert "scrout_repro.py" not in attempt["patch"] and "+    return sum(prices)" in attempt["patch"]

    cost = PRICE.cost(USAGE)
    assert [receipt["cost_usd"] for receipt in attempt["receipts"]] == [float(cost)] * 4
    assert run["cost_usd"] == attempt["cost_usd"] == float(4 * cost)
    assert cli("ledger", "audit", "--json").json()["receipts"] == 4

    seen = [m["content"] for m in json.loads(endpoint.requests[-1].body)["messages"] if m["role"] == "tool"]
    assert seen[0].startswith("[exit code 1]") and seen[2].startswith("[exit code 0]")
    assert {request.headers["authorization"] for request in endpoint.requests} == {f"Bearer {KEY}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    # The sandbox's shell is a program that not even its owner may read.
    written = [path.read_bytes() for path in files if path.parent.name != "shells"]
    assert len(written) > 10
    for place in (done.out, done.err.encode(), *(request.body.encode() for request in endpoint.requests), *written):
        assert KEY.encode() not in place


@pytest.mark.parametrize("closed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_dead_endpoint_is_infrastructure(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path, closed: bool
) -> None:
    """One that takes no key, or that nobody answers at, which is tried several times."""
    with ScriptedEndpoint([ScriptedReply(fault=Status(401))]) as endpoint:
        config = settings(tmp_path, endpoint.base_url)
        args = ("fix", "--repo", shop_repo, "--issue", issue, "--config", config)
        if not closed:
            done = cli(*args, env={"TOY_KEY": KEY})
    if closed:
        done = cli(*args, env={"TOY_KEY": KEY})
    assert (done.code, done.out) == (1, b"")
    assert "infrastructure" in done.err and "The endpoint failed" in done.err and "127.0.0.1" in done.err
    assert KEY not in done.err


def test_a_missing_key_is_named(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, "http://127.0.0.1:9/v1")
    done = cli("fix", "--repo", shop_repo, "--issue", issue, "--config", config, "--json", env={"TOY_KEY": ""})
    assert (done.code, done.json()["outcome"]) == (1, "infrastructure")
    assert "TOY_KEY" in done.json()["attempts"][0]["detail"]


@pytest.mark.parametrize(("tests", "calls"), [(True, 0), (False, 1)], ids=["repair is enough", "repair proves nothing"])
def test_the_free_repair_tries_before_the_model_and_wins_only_if_its_patch_passed(
    cli: Cli, make_repo: Callable[..., Path], issue: Path, tmp_path: Path, tests: bool, calls: int
) -> None:
    files = {"shop/__init__.py": "", "shop/cart.py": "def total(prices):\n    return sum(prices[1:])\n"}
    if tests:
        files["test_cart.py"] = (
            "import unittest\n\nfrom shop.cart import total\n\n\nclass CartTest(unittest.TestCase):\n"
            "    def test_empty(self):\n        self.assertEqual(total([]), 0)\n"
        )
    with ScriptedEndpoint([ScriptedReply("I found nothing.", usage=USAGE)]) as endpoint:
        config = settings(tmp_path, endpoint.base_url)
        config.write_text(config.read_text() + '\n[[fixers]]\nname = "repair"\nkind = "repair"\n')
        done = cli(
            "fix", "--repo", make_repo(files), "--issue", issue, "--config", config, "--json", env={"TOY_KEY": KEY}
        )
    run = done.json()
    assert len(endpoint.requests) == calls
    assert [attempt["fixer"] for attempt in run["attempts"]] == ["repair", "toy"][: 1 + calls]
    assert (run["outcome"] == "solved") is tests
