"""Parts of the API by themselves, where a server could not show it in good time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from scrout.base import LedgerError
from scrout.config.settings import ApiSettings, Caller, Fixer, FixSettings, ScoutSettings, SearcherSettings, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.fix.kinds.repair import RepairFixer
from scrout.money import Price
from scrout.server.api import access, jobs
from scrout.server.api.access import Callers, Quota
from scrout.server.api.app import create_app, serve
from scrout.server.api.jobs import Jobs, _Work, max_cost_usd
from scrout.server.api.schemas import FixRequest, GateRequest, Job, RouteRequest, ScoutRequest
from scrout.server.api.store import ApiStore
from scrout.server.service import Service

PRICE = Price(input=Decimal(1), output=Decimal(2))
FREE = Price(input=Decimal(0), output=Decimal(0))


def _fixer(name: str, price: Price | None = PRICE, **more: object) -> Fixer:
    about = {"name": name, "kind": "agent", "model": "m", "base_url": "http://localhost/v1", "price": price, **more}
    return AgentFixer.model_validate(about)


def test_a_quota_lets_a_tenth_of_a_minute_s_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(access.time, "monotonic", lambda: now)
    quota = Quota(60)
    assert [quota.take() for _ in range(6)] == [0.0] * 6 and quota.take() == pytest.approx(1.0)
    now += 0.5
    assert quota.take() == pytest.approx(0.5), "to ask too early costs nothing"
    now += 0.5
    assert quota.take() == 0 and quota.take() > 0
    now += 1_000
    assert sum(not quota.take() for _ in range(99)) == 6
    assert Quota(1).take() == 0, "one a minute is one"


def test_a_caller_by_the_name_of_local_has_its_own_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_AUTH", "0123456789-0123456789-0123456789")
    caller = Caller(name="local", token_env="SOME_AUTH", requests_a_minute=1)
    known = Callers(ApiSettings(callers=(caller,)))
    assert known.wait_s(caller) == 0 and known.wait_s(caller) > 0
    assert known.of({"authorization": "bearer 0123456789-0123456789-0123456789"}) == caller
    assert known.of({}) is None and known.of({"authorization": "Bearer \udcff"}) is None


def test_what_a_request_can_cost() -> None:
    issue, claim = "it is wrong", "<files>\n</files>\nSTOP"
    searcher = SearcherSettings(model="s", base_url="http://localhost/v1", price=PRICE, cap_usd=Decimal("0.5"))
    scouting = ScoutSettings(searcher="model", model=searcher)
    pool = (_fixer("a", cap_usd=3), _fixer("b", cap_usd=4), _fixer("free", FREE), RepairFixer(name="repair"))
    plain = Settings(fixers=pool)
    assert max_cost_usd(plain, FixRequest(issue=issue)) == 4 and max_cost_usd(plain, ScoutRequest(issue=issue)) == 0
    capped = Settings(fixers=pool, fix=FixSettings(escalate=True, cap_usd=Decimal(6)), scout=scouting)
    assert max_cost_usd(capped, FixRequest(issue=issue)) == Decimal("6.5")
    assert (
        max_cost_usd(capped, ScoutRequest(issue=issue))
        == max_cost_usd(capped, GateRequest(issue=issue))
        == Decimal("0.5")
    )
    assert max_cost_usd(capped, GateRequest(issue=issue, handoff=claim)) == 0, "nobody scouts"
    assert max_cost_usd(capped, RouteRequest(issue=issue)) == 0
    wide = Settings(fixers=pool, fix=FixSettings(cap_usd=Decimal(100)))
    assert max_cost_usd(wide, FixRequest(issue=issue)) == 7, "no more than all of them may"
    assert max_cost_usd(Settings(fixers=pool[2:]), FixRequest(issue=issue)) == 0


async def test_of_long_work_the_latest_words_are_kept() -> None:
    at = datetime.now(UTC)
    work = _Work(Job(id="job-1", stage="fix", status="running", created=at), "ci", None)
    for number in range(1, jobs.MAX_SAID + 101):
        await work.report(0, f"words {number}")
    told = work.after(0)
    assert len(told) == jobs.MAX_SAID and told[0] == (101, "words 101") and told[-1] == (600, "words 600")
    assert work.after(598) == [(599, "words 599"), (600, "words 600")] and work.after(600) == []
    assert work.job.said == "words 600"


async def test_a_job_whose_end_cannot_be_written_ends_all_the_same(
    tmp_path: Path, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ApiStore(tmp_path / "api.db")
    held = Jobs(Service(make_repo({"a.py": ""}), Settings()), store)
    caller = Caller(name="ci", token_env="-")

    def full(job: Job) -> None:
        raise LedgerError("the disk is full. Free some space.")

    monkeypatch.setattr(store, "change", full)
    job = await held.start(caller, "route", RouteRequest(issue="it is wrong"), "")
    ended = await held.wait(job, 30)
    assert ended.status == "failed" and "disk is full" in ended.error and not held._at_work
    monkeypatch.undo()
    held.recover()
    assert held.job(caller, job.id).status == "interrupted", "who asks the next server is told to send it again"
    store.close()


async def test_an_answer_to_a_fault_has_the_rules_too(tmp_path: Path, make_repo: Callable[..., Path]) -> None:
    store = ApiStore(tmp_path / "api.db")
    app = create_app(Service(make_repo({"a.py": ""}), Settings()), store, Callers(ApiSettings()))
    store.close()  # what reads it now is a bug
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/v1/budget")
    assert answer.status_code == 500 and "please report it" in answer.json()["detail"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_no_call_passes_a_cap_whatever_the_file_says(make_repo: Callable[..., Path]) -> None:
    """Under `paper` the last call of an attempt may, and a budget would be passed with it."""
    paper = Settings(fixers=(_fixer("a"),), fix=FixSettings(caps="paper", cap_usd=Decimal(1)))
    server = serve(Service(make_repo({"a.py": ""}), paper), "127.0.0.1", 0)
    app = server._server.config.app
    async with app.router.lifespan_context(app):  # which closes what was opened
        service = app.state.service
    server._socket.close()
    assert service.settings.fix == FixSettings(caps="hard", cap_usd=Decimal(1))
    assert service.settings.fixers == paper.fixers
