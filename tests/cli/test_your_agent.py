"""docs/your-agent.md: each line of it, with a stand-in for Claude Code and for the models."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.fix import discovery
from scrout.fix.presets import HOMES
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Usage

from ..conftest import SHOP, SHOP_ISSUE, run_git

if TYPE_CHECKING:
    from conftest import Cli, Ended, Forge

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-agent.md").read_text(encoding="utf-8")
OLLAMA = "11434"


def answer(request: ScriptedRequest) -> ScriptedReply:
    """The local model's edit."""
    edit = (
        "shop/cart.py\n<<<<<<< SEARCH\n    for price in prices[1:]:\n=======\n    for price in prices:\n>>>>>>> REPLACE"
    )
    return ScriptedReply(edit, usage=Usage(input_tokens=900, output_tokens=50))


@pytest.fixture
def home(tmp_path: Path, make_repo: Callable[..., Path], forge: Forge, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with the project, an issue, five more, and an agent."""
    repo = make_repo(SHOP)
    run_git(repo, "remote", "add", "origin", "https://github.com/ada/shop.git")
    title, _, body = SHOP_ISSUE.partition("\n\n")
    monkeypatch.setattr(forge, "answer", {"/repos/ada/shop/issues/123": {"title": title, "body": body}}.get)
    folder = tmp_path / "home"
    (folder / "bin").mkdir(parents=True)
    shop = repo.rename(folder / "shop")
    (shop / "issue.md").write_text(SHOP_ISSUE)
    (shop / "issues").mkdir()
    for number in range(5):
        (shop / "issues" / f"{number}.md").write_text(f"Report {number}: {SHOP_ISSUE}")
    (folder / "bin" / "claude").write_text("#!/bin/sh\n")
    (folder / "bin" / "claude").chmod(0o755)
    monkeypatch.setenv("HOME", str(folder))
    for name in discovery.KEYS:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEndpoint]:
    """Ollama, and Anthropic's API."""
    with ScriptedEndpoint(answer, models=("coder", "claude-haiku-4-5", "claude-opus-4-6")) as running:
        monkeypatch.setattr(discovery, "LOCAL_SERVERS", {"Ollama": int(port(running))})
        monkeypatch.setitem(HOMES, "claude-code", {**HOMES["claude-code"], "base_url": running.base_url})
        yield running


def port(endpoint: ScriptedEndpoint) -> str:
    return endpoint.base_url.removesuffix("/v1").rpartition(":")[2]


def lines() -> list[str]:
    return [line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]


@pytest.mark.slow
def test_every_line_of_the_page_works(
    cli: Cli, home: Path, endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = replace(cli, env={**cli.env, "PATH": f"{home / 'bin'}{os.pathsep}{cli.env['PATH']}"})
    ended: dict[str, Ended] = {}
    for line in lines():
        if line == "make install":
            subprocess.run(["make", "--dry-run", "install"], cwd=ROOT, check=True, capture_output=True)
        elif line == ". .venv/bin/activate":
            assert "VENV := .venv\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
        elif line.startswith("export "):
            monkeypatch.setenv(*line.removeprefix("export ").split("="))
        elif line.startswith("cd "):
            cli = replace(cli, cwd=Path(line.removeprefix("cd ")).expanduser())
        else:
            ended[line] = run(cli, line.replace(OLLAMA, port(endpoint)))
            assert ended[line].code == 0, f"{line}\n{ended[line].err}"
    shop = home / "shop"
    assert (
        "local-" in ended["scrout init --user"].err
        and "claude-code-claude-opus-4-6" in ended["scrout doctor"].out.decode()
    )
    assert "prices[1:]" not in (shop / "shop" / "cart.py").read_text()
    assert (shop / "fix.patch").read_text() and (shop / "local.patch").read_text()
    batch = json.loads((shop / "batch" / "summary.json").read_text())
    assert batch and (shop / "batch" / "report.html").exists()
    models = {json.loads(request.body)["model"] for request in endpoint.requests}
    assert models == {"coder"}, "only the named model was asked: repair, which is free, solved the others"


def run(cli: Cli, line: str) -> Ended:
    """One line that starts with scrout. RUN stands for the last run."""
    if "RUN" in line:
        (last,) = json.loads(cli("runs", "--limit", "1", "--json").out)
        line = line.replace("RUN", last["id"])
    command, _, file = line.partition(" > ")
    command, _, program = command.partition(" | ")
    words = shlex.split(command)
    assert words[0] == "scrout", line
    ended = cli(*words[1:])
    if file:
        (cli.cwd / file).write_bytes(ended.out)
    if program:
        subprocess.run(shlex.split(program), cwd=cli.cwd, input=ended.out, check=True)
    return ended
