"""What `scrout init` finds on a machine, what it writes of it, and what it says one issue costs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.config.loading import load
from scrout.fix import discovery
from scrout.models import listing
from scrout.models.scripted import ScriptedEndpoint

if TYPE_CHECKING:
    from conftest import Cli

KEY = "sk-ant-loopback-0123456789"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """machine("claude", KEY="..."): one with these programs, keys, and no server unless its port is named."""

    def make(*programs: str, ports: dict[str, int] | None = None, **keys: str) -> dict[str, str]:
        monkeypatch.setattr(discovery, "LOCAL_SERVERS", ports or {"nothing": 9})
        for name in discovery.KEYS:
            monkeypatch.delenv(name, raising=False)
        folder = tmp_path / "programs"
        folder.mkdir()
        for name in programs:
            (folder / name).write_text("#!/bin/sh\nexit 0\n")
            (folder / name).chmod(0o755)
        return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **keys}

    return make


def test_an_agent_with_its_key_becomes_two_rungs(cli: Cli, machine) -> None:  # type: ignore[no-untyped-def]
    ended = cli("init", env=machine("claude", ANTHROPIC_API_KEY=KEY))
    assert ended.code == 0, ended.err
    written = (cli.cwd / "scrout.toml").read_text()
    pool = tomllib.loads(written)["fixers"]
    assert [fixer["name"] for fixer in pool] == [
        "repair",
        "claude-code-claude-haiku-4-5",
        "claude-code-claude-opus-4-6",
    ]
    assert KEY not in written + ended.err
    lines = [line.strip() for line in ended.err.splitlines() if line.startswith("  ")]
    assert [line.partition(":")[0] for line in lines] == [fixer["name"] for fixer in pool], "cheapest first"
    assert all("$2.00 at most" in line for line in lines[1:]) and "One issue costs $2.00 at most" in ended.err
    assert load(cli.cwd / "scrout.toml").fixers[2].base_url == "https://api.anthropic.com/v1"


def test_a_server_on_this_machine_costs_nothing(cli: Cli, machine) -> None:  # type: ignore[no-untyped-def]
    with ScriptedEndpoint([], models=("coder", "other")) as endpoint:
        port = int(endpoint.base_url.removesuffix("/v1").rpartition(":")[2])
        ended = cli("init", env=machine(ports={"llama.cpp": port}))
        doctor = cli("doctor", "--strict", "--json")
    (local,) = (fixer for fixer in load(cli.cwd / "scrout.toml").fixers if fixer.has_model)
    assert (local.model, local.base_url) == ("coder", endpoint.base_url) and local.price and not local.price.input
    assert "it also has other" in (cli.cwd / "scrout.toml").read_text()
    assert f"  local-{port}: $0.00\n" in ended.err and "One issue costs $0.00 at most" in ended.err
    assert ended.code == doctor.code == 0, doctor.err


def test_what_is_missing_is_told_with_the_next_step(cli: Cli, machine) -> None:  # type: ignore[no-untyped-def]
    ended = cli("init", env=machine("codex", "gemini", ANTHROPIC_API_KEY=KEY, DEEPSEEK_API_KEY="x"))
    said = " ".join(ended.err.split())
    for words in (
        "codex is installed and OPENAI_API_KEY is not set",
        "claude-code is not installed: npm install",
        "gemini-cli is installed, and scrout has no preset",
        "DEEPSEEK_API_KEY is set: add a [[fixers]] entry",
        "The pool is repair alone",
    ):
        assert words in said, words
    assert load(cli.cwd / "scrout.toml").fixers[0].name == "repair"


def test_bare_looks_for_nothing(cli: Cli, machine) -> None:  # type: ignore[no-untyped-def]
    ended = cli("init", "--bare", env=machine("claude", ANTHROPIC_API_KEY=KEY))
    assert ended.code == 0 and "note:" not in ended.err
    assert len(load(cli.cwd / "scrout.toml").fixers) == 1


def test_a_program_of_the_repository_is_no_agent(cli: Cli, shop_repo: Path, machine) -> None:  # type: ignore[no-untyped-def]
    (shop_repo / "bin").mkdir()
    (shop_repo / "bin" / "claude").write_text("#!/bin/sh\nexit 0\n")
    (shop_repo / "bin" / "claude").chmod(0o755)
    env = machine(ANTHROPIC_API_KEY=KEY)
    in_repository = replace(cli, cwd=shop_repo)
    ended = in_repository("init", env=env | {"PATH": f"{shop_repo / 'bin'}{os.pathsep}{env['PATH']}"})
    assert "claude-code is not installed" in ended.err


def test_a_server_on_this_machine_sets_nothing_but_its_model(cli: Cli, machine) -> None:  # type: ignore[no-untyped-def]
    """Any user of the machine can listen there, and its names go into a file that is trusted from then on."""
    table = 'x\n[[fixers]]\nname = "theirs"\nkind = "command"\ncommand = ["/tmp/x"]\nmodel = "m"\nbase_url = "http://x/v1"\n#'
    with ScriptedEndpoint([], models=("coder", table, "bell\x07", "del\x7f", 'quo"te', "other")) as endpoint:
        port = int(endpoint.base_url.removesuffix("/v1").rpartition(":")[2])
        ended = cli("init", env=machine(ports={"llama.cpp": port}))
    assert ended.code == 0, ended.err
    written = (cli.cwd / "scrout.toml").read_text()
    assert [fixer.name for fixer in load(cli.cwd / "scrout.toml").fixers] == ["repair", f"local-{port}"]
    assert "it also has other" in written and "theirs" not in written


def test_a_server_that_answers_a_byte_at_a_time_is_not_waited_for(cli: Cli, machine, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for part in (*(b" " * 20), *b'{"data":[{"id":"coder"}]}'):
                    self.wfile.write(bytes([part]))
                    self.wfile.flush()
                    time.sleep(0.1)

        def log_message(self, *args: object) -> None:
            pass

    monkeypatch.setattr(listing, "TIMEOUT_S", 0.5)
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ended = cli("init", env=machine(ports={"vLLM": server.server_port}))
        server.shutdown()
    assert ended.code == 0 and "The pool is repair alone" in ended.err
