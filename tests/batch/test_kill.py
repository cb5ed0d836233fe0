"""Kill -9 in the middle of a batch: nothing is lost, no step that was done is done again, and each call is in the
ledger once. The parts are those of bench/kill.py, which does the same a hundred times."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.sandbox.tier import Tier

BENCH = Path(__file__).parents[2] / "bench"
PATIENCE_S = 120.0
CALLS = 3
"""Of an attempt that nobody disturbs: two edits and a word."""


@dataclass
class Scene:
    """Batches over one counting stand-in."""

    kill: ModuleType
    place: Any
    model: Any
    expected: dict[str, bytes]
    """Predictions of a batch that nobody disturbed."""
    held: int | None = None
    """The turn whose next answer is kept back, so that it is surely under way."""

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        reply: ScriptedReply = self.model(request)
        turn = max((turns[-1] for turns in self.model.answered.values()), key=lambda call: int(call[1]))[0]
        if turn == self.held:
            self.held = None
            return replace(reply, fault=Hang(600))
        return reply

    def batch(self, name: str, at_once: int = 3) -> Any:
        self.model.afresh()
        return self.kill.Batch(self.place, self.place.folder / name, at_once=at_once)

    def books(self, batch: Any) -> Any:
        return self.kill.examine(batch, self.model.answered, self.expected)

    def killed(self, batch: Any, kind: str, *, turn: int | None = None) -> None:
        """Start it, and kill something of that kind: while the answer of that turn is awaited, or as soon as can be."""
        self.held = turn
        batch.start()
        until(lambda: self.held is None, batch)
        killer = self.kill.Killer(batch, self.model.mark, random.Random(0))
        until(lambda: killer.kill(kind), batch)


def until(happened: Callable[[], bool], batch: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert batch.running and time.monotonic() < deadline, batch.log.read_text()
        time.sleep(0.01)


@pytest.fixture(scope="module")
def kill() -> Iterator[ModuleType]:
    """bench/kill.py as a module."""
    with pytest.MonkeyPatch.context() as environment:
        environment.syspath_prepend(str(BENCH))
        import kill as module

        yield module
    for name in ("kill", "postgres", "record"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def scene(kill: ModuleType, tier: Tier) -> Iterator[Scene]:
    """One task in two arms, and what comes of it when nobody disturbs."""
    # A name that is short enough for the meter's sockets: its process must be these tests' own.
    with tempfile.TemporaryDirectory(prefix="kill-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        scene = Scene(kill, None, kill.Counting(mark=f"of-{folder.name}"), {})
        with ScriptedEndpoint(scene, keep=False) as endpoint:
            scene.place = kill.make_place(folder, endpoint.base_url, tasks=1)
            calm = scene.batch("calm")
            calm.finish()
            scene.expected = calm.predictions()
            assert sorted(scene.expected) == ["handoff-toy.jsonl", "solo-toy.jsonl"]
            assert all(b"/ len(prices)" in rows for rows in scene.expected.values())
            yield scene


@pytest.fixture
def batch(scene: Scene, request: pytest.FixtureRequest) -> Iterator[Any]:
    """One that is gone when the test is, however that ends."""
    batch = scene.batch(request.node.name, at_once=1)
    yield batch
    if batch.running:
        batch.process.kill()
        batch.process.wait()


@pytest.mark.slow
def test_a_killed_runner_repeats_the_step_in_flight_and_no_other(scene: Scene, batch: Any) -> None:
    kills = 2
    for _ in range(kills):
        scene.killed(batch, "runner", turn=1)
    batch.finish()
    books = scene.books(batch)
    assert books.problems == ()
    assert (books.runs, books.infrastructure, books.repeated_steps) == (2, 0, kills)
    # Each kill has cost a call that was answered and one that was cut off.
    counted = (books.answered, books.numbered, books.cut_off, books.unsent)
    assert counted == (2 * CALLS + 2 * kills, 2 * CALLS + kills, kills, 0)


@pytest.mark.slow
def test_half_a_patch_of_an_attempt_whose_meter_died_is_not_submitted(scene: Scene, batch: Any) -> None:
    scene.killed(batch, "proxy", turn=1)
    batch.finish()
    books = scene.books(batch)
    assert books.problems == ()
    assert (books.runs, books.infrastructure, books.repeated_steps, batch.starts) == (3, 1, 0, 1)
    assert (books.answered, books.numbered, books.cut_off, books.unsent) == (2 * CALLS + 2, 2 * CALLS + 1, 1, 0)
    with batch.ledger() as ledger:
        failed, again, _ = (ledger.run(run.id) for run in batch.runs())
    assert failed.arm == again.arm == "handoff/toy"
    assert again.scouting.paid_by == failed.id  # what was found before is not looked for again


@pytest.mark.slow
def test_a_sandbox_that_dies_ends_a_command_and_no_attempt(scene: Scene, batch: Any) -> None:
    scene.killed(batch, "agent")
    batch.finish()
    books = scene.books(batch)
    assert books.problems == ()
    assert (books.runs, books.infrastructure, books.repeated_steps, batch.starts) == (2, 0, 0, 1)
    # Asked again, unless the command had said its last word already.
    assert books.answered == books.numbered in (2 * CALLS, 2 * CALLS + 1)


@pytest.mark.slow
def test_kills_at_random(scene: Scene, batch: Any) -> None:
    batch.at_once = 2
    scene.kill.disturb(batch, scene.model, scene.kill.SCENES["here"], 6, random.Random(7))
    assert scene.books(batch).problems == ()


@pytest.mark.postgres
def test_connections_to_the_ledger_that_the_server_ends(scene: Scene, batch: Any) -> None:
    pytest.importorskip("psycopg")
    with scene.kill.postgres(scene.place.folder / "pg") as address:
        batch.address = address
        killed = scene.kill.disturb(batch, scene.model, {"connection": 2, "runner": 1}, 6, random.Random(7))
        assert killed["connection"]
        assert scene.books(batch).problems == ()
