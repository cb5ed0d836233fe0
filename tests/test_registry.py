"""Searchers and embedders by name, and those of other packages. Fixers have theirs in fix/test_kinds.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scrout.base import ConfigError
from scrout.config.loading import load
from scrout.config.settings import EMBEDDERS, SEARCHERS, EmbedderSettings
from scrout.pipeline import open_kit, open_task, scout
from scrout.route.embed import open_embedder
from scrout.sandbox.tier import Tier

PACKAGE = """
from scrout.handoff import FileRef, Handoff
from scrout.records import Scouting
from scrout.route.embed import HashedEmbedder


class FirstFile:
    has_model = False

    async def search(self, job):
        path = min(path.name for path in job.task_sandbox.base.tree.glob("*.py"))
        return Scouting(handoff=Handoff(files=(FileRef(path=path),)), text="", seconds=0, searcher="first")


def shouted(settings):
    return HashedEmbedder()


FIRST = FirstFile()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that offers a searcher and an embedder, as pip would install it."""
    folder = tmp_path / "site"
    about = folder / "scrout_first-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "scrout_first.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scrout-first\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[scrout.searchers]\nfirst = scrout_first:FIRST\n[scrout.embedders]\nshouted = scrout_first:shouted\n"
    )
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop("scrout_first", None)


def test_scrouts_own() -> None:
    assert SEARCHERS.names() == ("model", "recon")
    assert EMBEDDERS.names() == ("endpoint", "gguf", "hashed", "minilm", "qwen3")


async def test_a_searcher_of_another_package(
    package: None, make_repo: Callable[..., Path], tier: Tier, tmp_path: Path
) -> None:
    config = tmp_path / "scrout.toml"
    config.write_text('scout.searcher = "first"\n')
    task = open_task(make_repo({"a.py": "", "b.py": ""}), "b is wrong")
    with open_kit(task, load(config)) as kit:
        found = await scout(kit, task)
    assert (found.searcher, [file.path for file in found.handoff.files]) == ("first", ["a.py"])


def test_an_embedder_of_another_package(package: None) -> None:
    assert open_embedder(EmbedderSettings(kind="shouted")).name.startswith("hashed-")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('scout.searcher = "first"', "'first' is no searcher; there are model, recon"),
        ('route.embedder.kind = "x"', "'x' is no embedder; there are auto, endpoint, gguf, hashed, minilm, qwen3"),
    ],
)
def test_an_unknown_name_is_told_with_those_that_there_are(tmp_path: Path, line: str, told: str) -> None:
    config = tmp_path / "scrout.toml"
    config.write_text(line + "\n")
    with pytest.raises(ConfigError, match=told):
        load(config)
