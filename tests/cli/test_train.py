"""`scrout train`: every command's help fits a screen and starts with an example; recipes are read by name."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scrout.base import ConfigError
from scrout.cli.train import COMMANDS, command
from scrout.lab.train.grpo.run_folder import PRESETS as GRPO
from scrout.lab.train.recipe import read_recipe
from scrout.lab.train.sft import PAPER, PRESETS


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_screen_and_starts_with_an_example(name: str) -> None:
    shown = CliRunner().invoke(command, [*name.split(), "--help"], terminal_width=80, prog_name="scrout train").output
    lines = shown.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, shown
    _, _, example, *rest = lines
    words = shlex.split(" ".join([example, *(line for line in rest[: rest.index("")])]))
    assert words[:3] == ["Example:", "scrout", "train"] and words[3] == (name or "corpus")
    found = command.get_command(click.Context(command), words[3])
    assert found is not None
    # Parsed, and not run.
    found.make_context(name, words[4:], resilient_parsing=True)
    known = {flag for option in found.params for flag in option.opts}
    assert {word for word in words[4:] if word.startswith("-")} <= known


def test_a_recipe_is_a_preset_or_a_file_with_single_keys_changed(tmp_path: Path) -> None:
    assert read_recipe("", (), PRESETS) == PRESETS["small"]
    assert read_recipe("paper", ["rank=8", "precision=float32"], PRESETS) == PAPER.model_copy(
        update={"rank": 8, "precision": "float32"}
    )
    file = tmp_path / "recipe.toml"
    file.write_text("group_size = 4\n[weights]\nfiles = 0.6\n")
    found = read_recipe(str(file), ["weights.beta=1"], GRPO)
    assert (found.group_size, found.weights.files, found.weights.beta, found.seed) == (4, 0.6, 1, 0)


@pytest.mark.parametrize(
    ("source", "change", "words"),
    [
        ("no.toml", "rank=1", "no.toml cannot be read"),
        ("paper", "rank", "write key=value"),
        ("paper", "speed=1", r"recipe's speed: .*It may have rank, alpha"),
        ("paper", "rank=0", "recipe's rank: "),
        ("paper", "rank.a=1", "'rank' is not a table"),
    ],
)
def test_a_recipe_that_cannot_be_used_is_named(source: str, change: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_recipe(source, [change], PRESETS)
