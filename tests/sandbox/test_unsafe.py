"""The tier without isolation is only taken when it is named, and says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrout.base import ConfigError
from scrout.config.loading import discover, load
from scrout.config.settings import SandboxSettings
from scrout.sandbox.probe import probe, probe_all, require_tier


def test_it_is_never_chosen_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "unsafe" not in {found.name for found in probe_all()}
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # no other tier works then
    assert probe().tier is None


def test_named_it_is_taken_and_warns() -> None:
    settings = SandboxSettings(tier="unsafe")
    assert require_tier(settings).name == "unsafe"
    assert "NO ISOLATION" in probe(settings).detail


@pytest.mark.parametrize("line", ['tier = "unsafe"', 'image = "stranger/image"'])
def test_a_file_that_came_with_a_clone_cannot_ask_for_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "scrout.toml"
    path.write_text(f"[sandbox]\n{line}\n")
    with pytest.raises(ConfigError, match=r"sandbox\.(tier|image).*--config"):
        discover(tmp_path)
    assert load(path).sandbox != SandboxSettings()
