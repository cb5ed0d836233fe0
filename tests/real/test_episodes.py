"""Whole episodes of a model that is far too small for them: it finds nothing, and everything still ends in order.

What it says differs between machines, so no test counts on one reply. What must hold of each episode: its end is named,
records and trace agree, no request was too long, and a replay gives the same.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import pytest
from pydantic import JsonValue

import scrout
from scrout.config.settings import ScoutSettings, Settings
from scrout.models.chat import Chat, Message
from scrout.money import Price, Receipt
from scrout.pipeline import open_task
from scrout.records import Scouting
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.scout.episode import episode, replay
from scrout.scout.trace import Exchange, Recorded, TraceOver

EXAMPLE = Path(scrout.__file__).parent / "example"
ISSUE = (EXAMPLE / "issue.md").read_text(encoding="utf-8")
FREE = Price(input=Decimal(0), output=Decimal(0))
SHORT = {
    "system": "You search a repository for the cause of a problem.\n\n$tools\n\nWhen you know it, reply with files:\n\n"
    "<files>\npath/to/file.py\n</files>\nSTOP",
    "issue": "The repository is at $root. The problem: $issue",
    "forced": "Stop here. Reply with the <files> block now.",
    "malformed": "That call could not be read: $problem",
    "thought": "Go on with a call, or reply with the files.",
}
WORDY = {"system": "You search a repository.\n\n$tools", "malformed": "Once more. " * 50, "thought": "Go on. " * 50}
PROMPTS = {
    # On two cores our own take longer to read than all that follows.
    "short": SHORT,
    # Keeps the model from an early handoff, and fills a small context whatever it says.
    "wordy": SHORT | WORDY,
}

BASH: dict[str, JsonValue] = {"tools": ["bash"], "shortlist": False, "turns": 4, "max_tokens": 48, "prompts": "short"}
STEADY: dict[str, dict[str, JsonValue]] = {
    "json": BASH | {"dialect": "json", "turns": 3},
    "json, cut short": BASH | {"dialect": "json", "max_tokens": 16},
    "json, our prompts": {"dialect": "json", "tools": ["bash", "search"], "turns": 1, "max_tokens": 48},
    "fenced": BASH | {"dialect": "fenced", "turns": 2},
    "xml": BASH | {"dialect": "xml", "turns": 2, "cache_salt": True},
}
ONE_TURN: dict[str, JsonValue] = BASH | {"dialect": "json", "turns": 1, "max_tokens": 160}
WORDY_XML: dict[str, JsonValue] = BASH | {"dialect": "xml", "prompts": "wordy"}
TROUBLES = ("the server dies", "the server restarts", "hardly any context")
NAMES = [*STEADY, "json, forced", *TROUBLES]


class Server(Protocol):
    """conftest's LlamaServer."""

    base_url: str
    context_tokens: int

    def start(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True)
class Searched:
    """An episode, and what its trace says."""

    scouting: Scouting
    receipts: tuple[Receipt, ...]
    """As they were booked."""
    exchanges: tuple[Exchange, ...]

    @property
    def completions(self) -> list[Exchange]:
        return [exchange for exchange in self.exchanges if exchange.path.endswith("/chat/completions")]


Search = Callable[..., Searched]
StartLlama = Callable[[int], Server]


@pytest.fixture(scope="module")
def search(tier: Tier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Search]:
    """search(server, booked=..., **settings): one episode on the bundled example, to its end."""
    folder = tmp_path_factory.mktemp("real")
    repo = shutil.copytree(EXAMPLE / "larder", folder / "larder", ignore=shutil.ignore_patterns("__pycache__"))
    for arguments in (["init", "-q"], ["add", "--all"], ["commit", "-q", "-m", "larder"]):
        identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
        subprocess.run(["git", *identity, *arguments], cwd=repo, check=True)
    for kind, texts in PROMPTS.items():
        (folder / kind).mkdir()
        for name, text in texts.items():
            (folder / kind / f"{name}.md").write_text(text, encoding="utf-8")
    issue = ISSUE.partition("\n")[0]

    def run(
        server: Server, booked: Callable[[int], object] = lambda count: None, *, prompts: str = "", **model: JsonValue
    ) -> Searched:
        settings = {
            "model": "smollm2",
            "base_url": server.base_url,
            "price": FREE,
            "context_tokens": server.context_tokens,
            "margin_tokens": 0,
            "observation_chars": 400,
            "command_s": 5,
            "sampling": {"temperature": 0.9, "seed": 7},
            **model,
            "prompts": str(folder / prompts) if prompts else "",
        }
        receipts: list[Receipt] = []

        def book(receipt: Receipt) -> None:
            receipts.append(receipt)
            booked(len(receipts))

        task = open_task(repo, issue)
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            scout = ScoutSettings.model_validate({"searcher": "model", "model": settings})
            scouting = asyncio.run(episode(task, task_sandbox, scout, book=book))
        return Searched(scouting, tuple(receipts), tuple(exchanges(Path(scouting.trace))))

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOME", str(folder))
        for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            environment.setenv(variable, str(folder / variable.lower()))
        yield run


def exchanges(trace: Path) -> Iterator[Exchange]:
    recorded = Recorded(trace)
    while True:
        try:
            event = recorded.take()
        except TraceOver:
            return
        if isinstance(event, Exchange):
            yield event


@pytest.fixture(scope="module")
def searched(search: Search, start_llama: StartLlama) -> dict[str, Searched]:
    """All episodes, in two lanes at once: much of the time of those with trouble is waiting."""

    def steady() -> Iterator[tuple[str, Searched]]:
        llama = start_llama(4096)
        for name, settings in STEADY.items():
            yield name, search(llama, **settings)
        for seed in range(8):
            done = search(llama, **ONE_TURN, sampling={"temperature": 0.9, "seed": seed})
            if done.scouting.stop == "forced":
                break
        yield "json, forced", done

    def troubled() -> Iterator[tuple[str, Searched]]:
        llama = start_llama(1024)

        def restart() -> None:
            llama.kill()
            llama.start()

        def in_the_second_request(trouble: Callable[[], None]) -> Callable[[int], object]:
            return lambda count: count == 1 and asyncio.get_running_loop().call_later(0.2, trouble)

        yield "the server dies", search(llama, in_the_second_request(llama.kill), **WORDY_XML)
        llama.start()
        yield "the server restarts", search(llama, in_the_second_request(restart), **WORDY_XML | {"turns": 2})
        yield "hardly any context", search(llama, **WORDY_XML | {"turns": 5})

    with ThreadPoolExecutor() as pool:
        lanes = [pool.submit(dict, steady()), pool.submit(dict, troubled())]
        return {name: done for lane in lanes for name, done in lane.result().items()}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "the server dies"])
def test_an_episode_ends_as_its_record_says(name: str, searched: dict[str, Searched]) -> None:
    done, scouting = searched[name], searched[name].scouting
    assert scouting.stop in ("finished", "forced", "malformed"), scouting.detail
    assert scouting.handoff.kind == ("spontaneous" if scouting.stop == "finished" else "forced")
    assert scouting.stop == "finished" or f"all {scouting.turns} turns used" in scouting.detail
    assert done.receipts == scouting.receipts
    answered = [exchange for exchange in done.completions if exchange.status == 200]
    counted = [receipt for receipt in scouting.receipts if not receipt.estimated]
    assert len(answered) == len(counted) == scouting.turns + (scouting.stop != "finished")
    if scouting.stop == "malformed":
        assert not scouting.handoff.files and "no handoff" in scouting.detail


def test_forced_handoffs_malformed_turns_and_thoughts_are_among_them(searched: dict[str, Searched]) -> None:
    ends = {name: (done.scouting.stop, done.scouting.detail) for name, done in searched.items()}
    assert ends["json, forced"][0] == "forced"
    assert ends["json, cut short"][0] == "malformed"
    assert "malformed turns: 4" in ends["json, cut short"][1]
    assert any("thoughts: " in detail for _, detail in ends.values()), ends


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_gives_the_same(name: str, searched: dict[str, Searched]) -> None:
    recorded = searched[name].scouting
    replayed = asyncio.run(replay(Path(recorded.trace)))
    for field in ("handoff", "text", "stop", "detail", "turns", "cost_usd"):
        assert getattr(replayed, field) == getattr(recorded, field)
    assert [receipt.usage for receipt in replayed.receipts] == [receipt.usage for receipt in recorded.receipts]


@pytest.mark.parametrize("name", NAMES)
def test_no_request_passes_the_context(name: str, searched: dict[str, Searched]) -> None:
    context_tokens = 1024 if name in TROUBLES else 4096
    for exchange in searched[name].completions:
        if exchange.status not in (502, 503):  # else the server was away, as the meter says
            assert exchange.status == 200, exchange.response
            prompt_tokens = json.loads(exchange.response)["usage"]["prompt_tokens"]
            assert prompt_tokens + json.loads(exchange.request)["max_tokens"] <= context_tokens


def test_old_turns_go_where_there_is_hardly_any_context(searched: dict[str, Searched]) -> None:
    sent = [len(json.loads(exchange.request)["messages"]) for exchange in searched["hardly any context"].completions]
    assert len(sent) == 6
    assert 2 < max(sent) < 2 + 2 * 5, sent  # some of what was said, but not two messages of each turn


def test_a_server_that_dies_is_named_and_not_the_model(searched: dict[str, Searched]) -> None:
    done = searched["the server dies"]
    assert done.scouting.stop == "endpoint" and not done.scouting.handoff.files
    assert "http://127.0.0.1:" in done.scouting.detail
    assert done.scouting.turns == 1
    assert "the endpoint did not answer" in done.completions[-1].response


def test_a_request_that_a_restart_cut_off_is_sent_again(searched: dict[str, Searched]) -> None:
    done = searched["the server restarts"]
    lost = [number for number, exchange in enumerate(done.completions) if exchange.status != 200]
    assert lost
    after = next(exchange for exchange in done.completions[lost[0] :] if exchange.status == 200)
    assert after.request == done.completions[lost[0]].request


async def test_a_count_is_what_the_server_counts(start_llama: StartLlama) -> None:
    messages = [Message("system", "Be brief."), Message("user", "What is in `src`?\n" * 9), Message("assistant", "...")]
    messages.append(Message("user", "naïve <|im_end|> 東京"))
    async with Chat(start_llama(1024).base_url, "smollm2", None) as chat:
        counted = await chat.count(messages, ())
        reply = await chat.complete(messages, (), 16)
    assert reply.usage is not None
    assert counted == reply.usage.input_tokens + reply.usage.cache_read_tokens
