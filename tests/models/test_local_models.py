"""Model files that fixers name: one server for all who use a file, gone when idle, and refused where it cannot fit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from scrout.base import ModelError
from scrout.config.settings import Settings
from scrout.models import local_models, local_server
from scrout.models.local_server import LocalServer, ServedModel


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LocalServer]]:
    """Servers that run and serve nothing."""
    servers: list[LocalServer] = []

    def start(model: ServedModel, log: Path) -> LocalServer:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
        servers.append(LocalServer(f"http://127.0.0.1:{1000 + len(servers)}/v1", process))
        return servers[-1]

    monkeypatch.setattr(local_server, "start", start)
    yield servers
    for server in servers:
        local_server.stop(server.process)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


async def test_attempts_share_one_server(started: list[LocalServer], model: str) -> None:
    async with (
        local_models.serve(model, 4096) as (first, key),
        local_models.serve(model, 4096) as (second, other),
        local_models.serve(model, 8192) as (longer, _),
    ):
        assert (first, key) == (second, other)
        assert longer != first
    assert len(started) == 2
    async with local_models.serve(model, 4096) as (again, _):
        assert again == first


async def test_an_idle_server_ends(started: list[LocalServer], model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "IDLE_S", 0.01)
    async with local_models.serve(model, 4096) as (first, _):
        pass
    started[0].process.wait(timeout=60)
    async with local_models.serve(model, 4096) as (again, _):
        assert again != first


async def test_a_server_that_died_is_started_again(started: list[LocalServer], model: str) -> None:
    async with local_models.serve(model, 4096):
        pass
    local_server.stop(started[0].process)
    async with local_models.serve(model, 4096) as (_, _):
        assert started[1].process.poll() is None


async def test_a_file_that_memory_cannot_hold_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.gguf"
    with huge.open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(ModelError, match=r"huge\.gguf needs about 4398\.\d GB of memory, and .* are free"):
        async with local_models.serve(str(huge), 4096):
            pass


def test_a_model_file_stands_in_for_model_address_and_price() -> None:
    entry = {"name": "local", "kind": "single", "model_file": "~/models/coder-7b.gguf"}
    fixer = Settings.model_validate({"fixers": [entry]}).fixers[0]
    assert fixer.model == "coder-7b" and fixer.price is not None and fixer.price.is_free
    assert fixer.max_cost_usd == 0
    with pytest.raises(ValidationError, match="both a `model_file` and a `base_url`"):
        Settings.model_validate({"fixers": [entry | {"base_url": "http://127.0.0.1:1/v1"}]})
