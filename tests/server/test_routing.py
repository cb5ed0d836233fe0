"""One router for many calls: what is kept, and what is read again."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.base import RouteError
from scrout.config.settings import Fixer, FixerKey, RouteSettings, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.money import Price
from scrout.pipeline import router
from scrout.records import State
from scrout.route import resume
from scrout.route.outcomes import join_texts
from scrout.route.router import Router
from scrout.server import service as routing
from scrout.server.service import SharedRouter

ISSUE = "the parser drops a trailing comma"


def _agent(name: str, dollars: int) -> Fixer:
    price = Price(input=Decimal(dollars), output=Decimal(dollars))
    return AgentFixer(name=name, model=f"{name}-of-nobody", base_url="http://localhost/v1", price=price)


def _pool(folder: Path) -> Settings:
    pool = (_agent("small", 1), _agent("big", 20))
    return Settings(fixers=pool, route=RouteSettings(resumes=str(folder), min_solve=0.5))


def _learn(folder: Path, fixer: str, solved: int) -> None:
    """Write down that a fixer has solved so many of a hundred tasks."""
    key = FixerKey(agent="agent", model=f"{fixer}-of-nobody")
    outcomes = [join_texts(f"task-{at}", f"{ISSUE} {at}", at < solved, Decimal("0.1"), "solo") for at in range(100)]
    folder.mkdir(exist_ok=True)
    resume.save(resume.build_resume(key, outcomes), folder)


def _seen(kept: SharedRouter) -> None:
    """The time after which résumés are looked at again has passed."""
    kept._looked = float("-inf")


def test_it_decides_as_the_router_does(tmp_path: Path) -> None:
    settings = _pool(tmp_path / "resumes")
    _learn(tmp_path / "resumes", "big", 90)
    _learn(tmp_path / "resumes", "small", 10)
    state = State(space="of-nobody", vector=(0.5, 2.0))
    kept = SharedRouter(settings)
    for text, about in ((ISSUE, None), (ISSUE, state), ("", None), ("\ud800", None)):
        assert kept.route(text, about) == kept.route(text, about) == router(settings).route(text, about)


def test_resumes_that_change_on_disk_are_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "resumes"
    kept = SharedRouter(_pool(folder))
    before = kept.route(ISSUE)
    assert all(candidate.p_solve is None for candidate in before.candidates), "nothing is known of either"
    probabilities = []
    for solved in (80, 5):
        _learn(folder, "small", solved)
        _seen(kept)
        decision = kept.route(ISSUE)
        assert decision == router(_pool(folder)).route(ISSUE, None)
        probabilities.append(decision.candidates[0].p_solve)
    assert probabilities[0] and probabilities[1] and probabilities[0] > probabilities[1]
    for path in folder.iterdir():
        path.unlink()
    _seen(kept)
    assert kept.route(ISSUE) == before


def test_they_are_looked_at_once_a_second_not_for_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "LOOK_S", 1e9)
    kept = SharedRouter(_pool(tmp_path / "resumes"))
    before = kept.route(ISSUE)
    _learn(tmp_path / "resumes", "small", 80)
    assert kept.route(ISSUE) is before and kept.route(f"{ISSUE}!").candidates == before.candidates
    monkeypatch.setattr(routing, "LOOK_S", 0.01)
    time.sleep(0.02)
    assert kept.route(ISSUE) != before


def test_a_broken_resume_is_told_until_it_is_mended(tmp_path: Path) -> None:
    folder = tmp_path / "resumes"
    _learn(folder, "small", 80)
    (path,) = (path for path in folder.iterdir() if path.suffix == ".json")
    whole = path.read_bytes()
    kept = SharedRouter(_pool(folder))
    path.write_bytes(whole[:-20])
    for _ in range(2):
        with pytest.raises(RouteError):
            kept.route(ISSUE)
    path.write_bytes(whole)
    _seen(kept)
    assert kept.route(ISSUE).candidates


def test_what_is_kept_is_bounded_and_the_least_recent_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MAX_KEPT", 3)
    kept = SharedRouter(_pool(tmp_path / "resumes"))
    first = kept.route("0")
    for text in ("1", "2", "0", "3"):
        kept.route(text)
    assert len(kept._kept) == 3 and kept.route("0") is first, "it was asked for again, so another one went"


def test_the_router_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Settings] = []

    def counted(settings: Settings) -> Router:
        made.append(settings)
        return router(settings)

    monkeypatch.setattr(routing, "router", counted)
    _learn(tmp_path / "resumes", "small", 80)
    kept = SharedRouter(_pool(tmp_path / "resumes"))
    for _ in range(3):
        kept.route(ISSUE)
        _seen(kept)
    assert len(made) == 1, "nothing has changed"


def test_many_threads_get_the_same_decisions(tmp_path: Path) -> None:
    _learn(tmp_path / "resumes", "small", 80)
    kept = SharedRouter(_pool(tmp_path / "resumes"))
    texts = [f"{ISSUE} {number % 7}" for number in range(200)]
    with ThreadPoolExecutor(8) as threads:
        decisions = list(threads.map(kept.route, texts))
    assert all(decisions[at] is decisions[at % 7] for at in range(200)) and len(kept._kept) == 7
