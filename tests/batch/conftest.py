"""What tests of batches share: a broken repository, a file of tasks on it, and a model that fixes it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scrout.config.loading import load
from scrout.config.settings import Settings
from scrout.fix.pool import completed
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Usage

USAGE = Usage(input_tokens=900, cache_read_tokens=100, output_tokens=50)
FILES = {
    "cart.py": "def total(prices):\n    s = 0\n    for price in prices[1:]:\n        s += price\n    return s\n",
    "test_cart.py": "import unittest\nfrom cart import total\n\n\nclass CartTest(unittest.TestCase):\n"
    "    def test_of_nothing(self):\n        self.assertEqual(total([]), 0)\n",
}


def nothing(request: ScriptedRequest, turn: int) -> ScriptedReply | None:
    return None


@dataclass
class Model:
    """The endpoint's mind: it looks, mends and says so, whichever conversation it is in."""

    pause_s: float = 0.0
    """Before each answer."""
    tasks: list[str] = field(default_factory=list)
    """The tasks that were asked about, a call each."""
    fault: Callable[[ScriptedRequest, int], ScriptedReply | None] = nothing
    """What it says instead, given the request and its turn."""

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        messages = request.content["messages"]
        assert isinstance(messages, list)
        turn = sum(isinstance(one, dict) and one.get("role") == "tool" for one in messages)
        self.tasks.append(re.findall(r"task-\d+", request.body)[0])
        time.sleep(self.pause_s)
        if (fault := self.fault(request, turn)) is not None:
            return fault
        commands = ("cat cart.py", r"sed -i 's/prices\[1:\]/prices/' cart.py")
        if turn < len(commands):
            call = ToolCall(f"call_{turn}", "bash", json.dumps({"command": commands[turn]}))
            return ScriptedReply(calls=(call,), usage=USAGE)
        return ScriptedReply("The first price was skipped.", usage=USAGE)


@dataclass
class Scene:
    """A file of tasks, and settings with a fixer that works."""

    folder: Path
    tasks: Path
    config: Path
    endpoint: ScriptedEndpoint
    model: Model

    def keep(self, count: int) -> None:
        """Leave only the first tasks."""
        self.tasks.write_text("".join(self.tasks.read_text().splitlines(keepends=True)[:count]))

    @property
    def settings(self) -> Settings:
        return completed(load(self.config))


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def scene(
    make_repo: Callable[..., Path], tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """Three tasks on one repository."""
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
    repo = make_repo(FILES)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    tasks = tmp_path / "tasks.jsonl"
    lines = (
        json.dumps(
            {
                "id": f"task-{number}",
                "text": f"task-{number} is this: total([1, 2]) of cart.py gives 2 and should give 3.",
                "repo": str(repo),
                "base_commit": head.strip(),
            }
        )
        for number in range(3)
    )
    tasks.write_text("\n".join(lines) + "\n")
    with ScriptedEndpoint(model, keep=False) as endpoint:
        config = tmp_path / "batch.toml"
        config.write_text(
            f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "{endpoint.base_url}"\n'
            "price = { input = 3.0, output = 15.0, cache_read = 0.3 }\n"
            '[[fixers]]\nname = "repair"\nkind = "repair"\n'
        )
        yield Scene(tmp_path, tasks, config, endpoint, model)
