"""What the API keeps: a budget holds under any interleaving, and a file of another kind is refused."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import ConfigError, LedgerError
from scrout.records import Decision
from scrout.server.api import store as module
from scrout.server.api.schemas import Job, Stage
from scrout.server.api.store import ApiStore, BudgetTooSmall, Spend

PURSE = Decimal(5)
AMOUNTS = st.decimals(min_value=0, max_value=4, places=4)
DECISION = Decision(fixer="small", theta=0.3, degraded=False, fallback=False, reason="it is cheap", candidates=())

Steps = list[tuple[str, Decimal, int]]


def _job(number: int, stage: Stage = "route", ended: bool = True, age_days: float = 0) -> Job:
    at = datetime.now(UTC) - timedelta(days=age_days) + timedelta(microseconds=number)
    return Job(id=f"job-{number}", stage=stage, status="done", created=at, ended=at if ended else None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "hold_less", "belongs", "settle", "kill", "midnight"]), AMOUNTS, st.integers(0, 9)
        ),
        max_size=40,
    )
)
def test_spent_and_held_never_pass_the_budget(tmp_path_factory: pytest.TempPathFactory, steps: Steps) -> None:
    """Whatever is held, settled, killed and recovered in whatever order, also across days: a day's own never passes it,
    and what is spent is what was paid."""
    path = tmp_path_factory.mktemp("store") / "api.db"
    with pytest.MonkeyPatch.context() as clock:
        day, store = 0, ApiStore(path)
        clock.setattr(module, "_day", lambda: f"day-{day}")
        open_holds: dict[int, tuple[Decimal, int]] = {}
        runs: dict[str, Decimal] = {}
        paid: dict[int, Decimal] = {}
        for what, amount, pick in steps:
            holds = list(open_holds)
            one = holds[pick % len(holds)] if holds else None
            if what.startswith("hold"):
                spent, held = store.today("ci")
                try:
                    least = min(amount, Decimal("0.01")) if what == "hold_less" else None
                    number = store.hold("ci", PURSE, amount, least_usd=least)
                    open_holds[number] = (store.held_usd(number), day)
                    assert store.held_usd(number) <= amount
                except BudgetTooSmall as small:
                    assert small.remaining_usd == PURSE - spent - held < amount
            elif what == "belongs" and one is not None:
                # A run that had cost a dollar before, and has paid as much as it was allowed to by now.
                runs[f"run-{one}"] = 1 + min(amount, open_holds[one][0])
                store.belongs(one, f"run-{one}", Decimal(1))
            elif what == "settle" and one is not None:
                held, then = open_holds.pop(one)
                store.settle(one, Spend(min(amount, held)))
                store.settle(one, Spend(Decimal(1000)))  # once is enough
                paid[then] = paid.get(then, Decimal(0)) + min(amount, held)
            elif what == "kill":
                store.close()
                store = ApiStore(path)
                store.recover(lambda run: Spend(runs[run]))
                for number, (_, then) in open_holds.items():
                    paid[then] = paid.get(then, Decimal(0)) + runs.get(f"run-{number}", Decimal(1)) - 1
                open_holds.clear()
            elif what == "midnight":
                day += 1
            spent, held = store.today("ci")
            assert spent == paid.get(day, Decimal(0)) and held == sum((h for h, _ in open_holds.values()), Decimal(0))
            assert spent + held <= PURSE
        assert all(amount <= PURSE for amount in paid.values())
        store.close()


@given(st.lists(st.lists(AMOUNTS, max_size=12), min_size=2, max_size=4))
def test_threads_together_never_pass_it_either(
    tmp_path_factory: pytest.TempPathFactory, threads: list[list[Decimal]]
) -> None:
    store = ApiStore(tmp_path_factory.mktemp("store") / "api.db")
    begin, over = threading.Barrier(len(threads)), threading.Event()
    seen: list[Decimal] = []

    def watch() -> None:
        while not over.is_set():
            seen.append(sum(store.today("ci"), Decimal(0)))

    def spend(amounts: list[Decimal]) -> Decimal:
        begin.wait()
        spent = Decimal(0)
        for amount in amounts:
            try:
                number = store.hold("ci", PURSE, amount)
            except BudgetTooSmall:
                continue
            store.settle(number, Spend(amount / 2))
            spent += amount / 2
        return spent

    with ThreadPoolExecutor(len(threads) + 1) as pool:
        watching = pool.submit(watch)
        spent = sum(pool.map(spend, threads), Decimal(0))
        over.set()
        watching.result()
    assert store.today("ci") == (spent, 0) and store.today("other") == (0, 0)
    assert max(seen, default=Decimal(0)) <= PURSE
    store.close()


def test_a_run_that_the_ledger_does_not_have_counts_as_all_that_was_held(tmp_path: Path) -> None:
    store = ApiStore(tmp_path / "api.db")
    lost, never_opened = store.hold("ci", PURSE, Decimal(2)), store.hold("ci", PURSE, Decimal(1))
    store.belongs(lost, "run-of-another-ledger", Decimal(0))
    store.recover(lambda run: None)
    assert store.today("ci") == (2, 0) and never_opened
    store.close()


def test_a_lowered_budget_refuses_what_costs_and_nothing_else(tmp_path: Path) -> None:
    store = ApiStore(tmp_path / "api.db")
    store.settle(store.hold("ci", PURSE, Decimal(4)), Spend(Decimal(4)))
    assert store.hold("ci", Decimal(1), Decimal(0), least_usd=Decimal(0))
    with pytest.raises(BudgetTooSmall, match=r"^0$"):
        store.hold("ci", Decimal(1), Decimal("0.01"))
    store.close()


def test_what_a_conversation_used_counts_until_it_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ApiStore(tmp_path / "api.db")
    assert store.choice("ci", "talk") is None
    store.choose("ci", "talk", DECISION)
    for calls in (2, 3):
        store.settle(store.hold("ci", PURSE, Decimal(1), conversation="talk"), Spend(Decimal("0.5"), calls))
    store.settle(store.hold("ci", PURSE, Decimal(1), conversation="another"), Spend(Decimal(1), 9))
    store.hold("ci", PURSE, Decimal(1), conversation="talk")
    store.choose("ci", "talk", DECISION.model_copy(update={"fixer": "big"}))
    known = store.choice("ci", "talk")
    assert known and known.decision.fixer == "big" and known.used == Spend(Decimal("1.0"), 5)
    assert store.choice("other", "talk") is None
    store.prune(7)
    assert store.choice("ci", "talk")
    monkeypatch.setattr(module, "_now", lambda: "2020-01-01T00:00:00+00:00")
    store.choose("ci", "talk", DECISION)
    store.prune(7)
    assert store.choice("ci", "talk") is None
    store.choose("ci", "talk", DECISION)
    begun = store.choice("ci", "talk")
    assert begun and begun.used == Spend(Decimal(0), 0) and store.today("ci") == (2, 1), "the budget forgets nothing"
    store.close()


def test_old_jobs_are_forgotten_and_those_under_way_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROUTES", 3)
    store = ApiStore(tmp_path / "api.db")
    store.add(_job(1, "fix", age_days=8), "ci", "old", "")
    store.add(_job(2, "fix", ended=False, age_days=8), "ci", "", "")
    store.add(_job(3, "scout"), "ci", "", "")
    for number in range(10, 16):
        store.add(_job(number), "ci", "", "")
    store.prune(7)
    assert [job.id for job in store.jobs("ci", 99)] == ["job-15", "job-14", "job-13", "job-3", "job-2"]
    assert store.by_key("ci", "fix", "old") is None and store.by_key("ci", "fix", "") is None
    store.close()


def test_results_are_kept_beside_their_jobs(tmp_path: Path) -> None:
    store = ApiStore(tmp_path / "api.db")
    job = _job(1).model_copy(update={"result": {"notes": ["é\u2028", None, 1.5]}})
    store.add(job.model_copy(update={"result": None, "ended": None}), "ci", "key", "asked")
    store.change(job)
    assert store.job("ci", "job-1") == job and store.by_key("ci", "route", "key") == (job, "asked")
    assert store.job("other", "job-1") is None and store.jobs("ci", 9)[0].result is None
    store.close()


def test_one_server_at_a_time_and_no_other_file(tmp_path: Path) -> None:
    store = ApiStore(tmp_path / "api.db")
    assert stat.S_IMODE((tmp_path / "api.db").stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="another `scrout api`"):
        ApiStore(tmp_path / "api.db")
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(LedgerError, match="another version"):
        ApiStore(tmp_path / "api.db")
    (tmp_path / "other.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(LedgerError, match="damaged"):
        ApiStore(tmp_path / "other.db")
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="Check its folder"):
        ApiStore(tmp_path / "file" / "api.db")
