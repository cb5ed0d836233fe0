"""A small project, an issue of it, and a scripted searcher whose luck is decided by the seed that it is sent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from scrout.batch.task_formats import TaskRow
from scrout.config.settings import Settings
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Usage
from scrout.task import Gold

FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": '"""A cart."""\n\n\ndef total(prices):\n    """The sum."""\n    return sum(prices[1:])\n',
    "shop/stock.py": "def count(items):\n    return len(items)\n",
}
ISSUE = "total() leaves out the first price\n\n`shop.cart.total([1, 2])` gives 2, and should give 3.\n"
LOOK = "I look at it.\n<function=bash>\n<parameter=command>cat shop/cart.py</parameter>\n</function>"
FOUND = (
    "<files>\nshop/cart.py:4-6\n</files>\n<repro>\ncommand: python -c "
    '"from shop.cart import total; assert total([1, 2]) == 3"\nreproduced: true\nobserved: AssertionError\n</repro>\n'
    "<notes>\nThe slice drops the first price.\n</notes>\nSTOP"
)
MISSED = "<files>\nshop/stock.py\n</files>\n<notes>\nIt counts wrong.\n</notes>\nSTOP"
PROMPTS = {
    "system": "Search. $tools",
    "issue": "$issue",
    "forced": "Hand over now.",
    "malformed": "What? $problem",
    "thought": "Go on.",
}
"""Short ones: a tiny model's tokens are hardly more than bytes."""
USAGE = Usage(input_tokens=500, output_tokens=40)


@dataclass
class Script:
    """What the searcher says: it looks first, then hands over the right file or another."""

    hang_at: int = -1
    """The request, counted from 0, that gets no answer for a long while."""
    asked: int = 0

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        at, self.asked = self.asked, self.asked + 1
        messages, seed = request.content["messages"], request.content["seed"]
        assert isinstance(messages, list) and isinstance(seed, int)
        text = LOOK if len(messages) == 2 else FOUND if seed % 2 else MISSED
        return ScriptedReply(text, usage=USAGE, fault=Hang(60) if at == self.hang_at else None)


@dataclass
class Shop:
    """One task and the server that plays on it."""

    repo: Path
    prompts: Path
    script: Script
    server: ScriptedEndpoint

    @property
    def overrides(self) -> list[str]:
        return [
            "scout.searcher=model",
            "scout.model.model=policy",
            f"scout.model.base_url={self.server.base_url}",
            "scout.model.price.input=0",
            "scout.model.price.output=0",
            "scout.model.dialect=xml",
            f"scout.model.prompts={self.prompts}",
            "scout.model.shortlist=false",
            'scout.model.tools=["bash"]',
            "scout.model.turns=4",
            "scout.model.sampling.temperature=1.0",
        ]

    @property
    def settings(self) -> Settings:
        from scrout.config.loading import load

        return load(None, self.overrides)

    def row(self, name: str = "shop-1") -> TaskRow:
        return TaskRow(name, ISSUE, str(self.repo), "HEAD", Gold(patch="", files=("shop/cart.py",)))


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads that wait for each other make a tiny model slow wherever something else runs too."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def shop_task(tmp_path: Path, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    for name, text in PROMPTS.items():
        (prompts / f"{name}.md").write_text(text)
    script = Script()
    with ScriptedEndpoint(script, models=("policy",)) as server:
        yield Shop(make_repo(FILES), prompts, script, server)
