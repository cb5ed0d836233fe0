"""A ledger with runs in it, and the dashboard over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the dashboard needs scrout[web]")

import httpx
from starlette.applications import Starlette

from scrout.config.loading import load
from scrout.config.settings import Settings
from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.ledger.store import Ledger
from scrout.money import Receipt, Usage
from scrout.records import (
    Attempt,
    Candidate,
    Check,
    CheckOutcome,
    Decision,
    Evidence,
    GatedHandoff,
    RunOutcome,
    Scouting,
)
from scrout.server.dashboard.app import create_app
from scrout.task import Task

PATCH = """diff --git a/larder/shelf.py b/larder/shelf.py
index 111..222 100644
--- a/larder/shelf.py
+++ b/larder/shelf.py
@@ -7,3 +7,3 @@ def expired(item):
 context line
-removed line
+added line
 last line
"""

AddRun = Callable[..., str]
Writer = Callable[[Path, Path], AddRun]


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    return tmp_path / "books" / "ledger.db"


@pytest.fixture
def add_run(ledger_path: Path, tmp_path: Path) -> AddRun:
    """add_run(text=..., ...): a whole run in the ledger; its id.

    `close=False` leaves it after its attempt; `choice=False`: there was one candidate alone.
    """
    return _writer(ledger_path, tmp_path)


@pytest.fixture(scope="session")
def writer() -> Writer:
    """writer(ledger_path, folder): an add_run for another ledger."""
    return _writer


def _writer(ledger_path: Path, folder: Path) -> AddRun:

    def add(
        text: str = "The larder is empty",
        *,
        task_id: str = "larder-1",
        repo: Path | None = None,
        commit: str = "c" * 40,
        path: str = "larder/shelf.py",
        fixer: str = "agent-a",
        model: str = "some-model",
        notes: str = "look at the shelf",
        patch: str = PATCH,
        batch: str = "",
        arm: str = "",
        cost: str | None = "0.25",
        check: CheckOutcome = "passed",
        output: str = "1 failed",
        close: bool = True,
        outcome: RunOutcome | None = None,
        choice: bool = True,
    ) -> str:
        task = Task(id=task_id, text=text, repo=repo or folder / "larder", base_commit=commit)
        usage = Usage(input_tokens=1000, cache_read_tokens=200, output_tokens=30)
        cost_usd = None if cost is None else Decimal(cost)
        paid = Receipt(
            component="fix", fixer=fixer, model=model, usage=usage, cost_usd=cost_usd, at=datetime.now(UTC), call=1
        )
        files = (FileRef(path=path, regions=((2, 3),), confidence=0.8, why=f"named by {notes}"),)
        claim = Reproduction(command=f"python -c '{notes}'", claim=True, observed=output)
        handoff = Handoff(files=files, reproduction=claim, dead_ends=(notes,), notes=notes)
        seen = Evidence(command="python t.py", exit_code=1, runs=2, output_tail=output, seconds=0.5)
        candidates = (
            Candidate(fixer=fixer, p_solve=0.42, p_low=0.3, p_high=0.6, expected_cost_usd=Decimal("0.2"), reason=notes),
            Candidate(fixer="agent-z", p_solve=None, expected_cost_usd=None, reason="no résumé"),
        )[: 2 if choice else 1]
        steps: dict[str, Scouting | GatedHandoff | Decision | Attempt | Check] = {
            "scout": Scouting(handoff=handoff, text="x", seconds=0.25),
            "gate": GatedHandoff(
                verdict="real_failure",
                kept=True,
                materialized=True,
                reason=f"it fails: {notes}",
                evidence=seen,
                handoff=handoff,
                text=notes,
                flags=(notes,),
            ),
            "route": Decision(
                fixer=fixer, theta=0.3, degraded=False, fallback=False, reason=notes, candidates=candidates
            ),
            "fix": Attempt(
                fixer=fixer,
                patch=patch,
                stop="finished",
                detail=notes,
                seconds=1.5,
                calls=1,
                cost_usd=cost_usd,
                receipts=(paid,),
            ),
            "check": Check(
                outcome=check,
                applies=True,
                reproduction="passes",
                tests="pass",
                detail=notes,
                flags=(notes,),
                evidence=(seen,),
            ),
        }

        async def work(ledger: Ledger) -> str:
            run = ledger.open(
                task, "settings", sandbox="bubblewrap", environment="none", batch=batch, arm=arm, resume=False
            )
            for name, result in steps.items():

                async def stage(task: Task, given: object = result) -> object:
                    return given

                if close or name != "check":
                    await run.step(name, stage, task)  # type: ignore[type-var, arg-type]
            return run.close(outcome).id if close else run.id

        def in_a_loop() -> str:
            with Ledger(ledger_path) as ledger:
                return asyncio.run(work(ledger))

        # A test may be in a loop of its own.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(in_a_loop).result()

    return add


@pytest.fixture
def web_settings(ledger_path: Path) -> Settings:
    return load(None, [f"ledger.path={ledger_path}"])


@pytest.fixture
def app(web_settings: Settings) -> Starlette:
    return create_app(web_settings)


@pytest.fixture
async def web(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """Asks the dashboard as a browser of this machine would."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
        yield client
