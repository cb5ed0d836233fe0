"""A kind of fixer from another package: CONTRIBUTING's example, taken from its page and run."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import scrout
from scrout.base import ConfigError
from scrout.config.loading import load
from scrout.config.settings import FIXERS, Settings
from scrout.sandbox.tier import Tier

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
MODULE, ENTRY_POINT, ENTRY = (
    next(block for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.S) if word in block)
    for language, word in (("python", "SpellingFixer"), ("toml", "entry-points"), ("toml", 'kind = "spelling"'))
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as pip would install it."""
    folder = tmp_path / "site"
    about = folder / "scrout_spelling-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "scrout_spelling.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scrout-spelling\nVersion: 1.0\n")
    points = tomllib.loads(ENTRY_POINT)["project"]["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in named.items()) for group, named in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("scrout_spelling", None)


def test_a_fixer_of_another_package_solves_an_issue(
    package: Path, make_repo: Callable[..., Path], tier: Tier, tmp_path: Path
) -> None:
    repo = make_repo(
        {
            "shop/cart.py": (
                "def discount(total):\n    return discuont_of(total)\n\n\n"
                "def discount_of(total):\n    return total // 10\n"
            ),
            "shop/__init__.py": "",
            "tests/test_cart.py": (
                "import unittest\n\nfrom shop import cart\n\n\nclass CartTest(unittest.TestCase):\n"
                "    def test_tenth(self):\n        self.assertEqual(cart.discount_of(50), 5)\n"
            ),
        }
    )
    config = tmp_path / "scrout.toml"
    config.write_text(ENTRY)
    issue = (
        "discount raises\n\n```python\nfrom shop.cart import discount\n\ndiscount(50)\n```\n\n"
        "NameError: name 'discuont_of' is not defined\n"
    )
    run = scrout.solve_issue(repo, issue, load(config))
    assert [attempt.fixer for attempt in run.attempts] == ["spelling"] and run.cost_usd == 0
    assert "+    return discount_of(total)" in run.patch and run.gated and run.gated.kept
    assert run.checks[-1].outcome in ("passed", "unverified")


def test_its_settings_are_part_of_the_digest(package: Path) -> None:
    one = {"name": "s", "kind": "spelling", "wrong": "a", "right": "b"}
    pools = (Settings.model_validate({"fixers": [one | {"right": right}]}) for right in ("b", "c"))
    assert len({settings.digest() for settings in pools}) == 2


def test_an_unknown_key_is_told_with_those_of_its_kind(package: Path, tmp_path: Path) -> None:
    config = tmp_path / "scrout.toml"
    config.write_text(ENTRY + "rihgt = 1\n")
    with pytest.raises(ConfigError, match=r"unknown key `fixers\.0\.rihgt`; known here: .*\bwrong, right$"):
        load(config)


def test_a_package_that_cannot_be_imported_is_named(package: Path, tmp_path: Path) -> None:
    (package / "scrout_spelling.py").write_text("import no_such_module\n")
    config = tmp_path / "scrout.toml"
    config.write_text(ENTRY)
    with pytest.raises(ConfigError, match="'spelling' of the package scrout-spelling cannot be imported"):
        load(config)


def test_without_the_package_the_kind_is_unknown(tmp_path: Path) -> None:
    config = tmp_path / "scrout.toml"
    config.write_text(ENTRY)
    assert "spelling" not in FIXERS.names()
    with pytest.raises(
        ConfigError,
        match=r"`fixers\.0\.kind` is 'spelling'; it may be 'agent', 'command', 'mini', 'repair' or 'single'",
    ):
        load(config)
