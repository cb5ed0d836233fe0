"""Dollars of a day, on a branch of a real repository, under runs that race for them."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.integrations.admission import Admission, LabelRules, admit, decode
from scrout.integrations.budget import BRANCH, AlreadyWorked, BudgetEntry, DailyBudget, Spent, spent
from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.event import Event
from scrout.integrations.forge import ForgeError
from scrout.integrations.github import GitHub
from scrout.integrations.remote import Remote, open_remote

from .conftest import AT, TOKEN, Server

OpenBudget = Callable[[], AbstractContextManager[DailyBudget]]
ONE = Decimal("1.00")


def file_of(bare: Path, day: str = "2026-11-17") -> list[dict[str, object]]:
    shown = subprocess.run(["git", "show", f"scrout-budget:{day}.jsonl"], cwd=bare, capture_output=True, check=True)
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_dollars_are_held_then_settled_then_free_again(budget: OpenBudget, bare: Path) -> None:
    with budget() as book:
        assert book.hold("1-1", ONE, Decimal("1.50"), 7) == "2026-11-17"
        with pytest.raises(Spent) as none_left:
            book.hold("2-1", ONE, Decimal("1.50"), 8)
        assert none_left.value.remaining_usd == Decimal("0.50")
        book.settle("1-1", Decimal("0.25"), "2026-11-17", 7)
        book.hold("2-1", ONE, Decimal("1.50"), 8)
        assert spent(book.day("2026-11-17")) == Decimal("1.25")
    assert [(one["kind"], one["key"], one["usd"]) for one in file_of(bare)] == [
        ("hold", "1-1", 1.0),
        ("settle", "1-1", 0.25),
        ("hold", "2-1", 1.0),
    ]


def test_what_was_never_settled_counts_in_full_until_the_day_is_over(remote: Remote) -> None:
    DailyBudget(remote, now=lambda: AT).hold("1-1", ONE, ONE, 7)
    with pytest.raises(Spent):
        DailyBudget(remote, now=lambda: AT + timedelta(hours=14)).hold("2-1", ONE, ONE, 7)
    midnight = DailyBudget(remote, now=lambda: AT + timedelta(hours=14, minutes=30))
    assert midnight.hold("2-1", ONE, ONE, 7) == "2026-11-18"
    # A run that went on over midnight is settled on the day that held its dollars.
    midnight.settle("1-1", Decimal("0.10"), "2026-11-17", 7)
    assert spent(midnight.day("2026-11-17")) == Decimal("0.10") and spent(midnight.day("2026-11-18")) == ONE


def test_days_are_those_of_utc(remote: Remote) -> None:
    east = datetime.fromisoformat("2026-11-18T01:00:00+09:00")
    assert DailyBudget(remote, now=lambda: east).hold("1-1", ONE, ONE, 7) == "2026-11-17"


def test_a_repeated_step_holds_and_settles_once(budget: OpenBudget) -> None:
    with budget() as book:
        for _ in range(3):
            book.hold("1-1", ONE, ONE, 7)
        for _ in range(3):
            book.settle("1-1", Decimal("0.20"), "2026-11-17", 7)
        assert len(book.day("2026-11-17")) == 2


def test_a_run_that_was_settled_is_not_worked_on_again(budget: OpenBudget) -> None:
    with budget() as book:
        book.hold("1-1", ONE, Decimal(9), 7)
        # A second attempt while nothing came of the first one: both hold.
        book.hold("1-2", ONE, Decimal(9), 7)
        assert spent(book.day("2026-11-17")) == 2
        book.settle("1-2", Decimal(0), "2026-11-17", 7)
        for key in ("1-1", "1-2", "1-3"):
            with pytest.raises(AlreadyWorked):
                book.hold(key, ONE, Decimal(9), 7)
        book.hold("11-1", ONE, Decimal(9), 7)


def test_nothing_is_settled_that_was_not_held(budget: OpenBudget) -> None:
    with budget() as book, pytest.raises(ForgeError, match="has no entry"):
        book.settle("1-1", ONE, "2026-11-17", 7)


def test_runs_at_the_same_time_never_pass_the_day(place: CiEnvironment) -> None:
    """Each with a clone of its own, as jobs on different machines have."""
    held, refused, odd = [], [], []

    def run(number: int) -> None:
        with open_remote(place.remote, "github", "") as remote:
            try:
                DailyBudget(remote, now=lambda: AT).hold(f"{number}-1", ONE, Decimal(3), 7)
                held.append(number)
            except Spent:
                refused.append(number)
            except Exception as error:
                odd.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not odd and (len(held), len(refused)) == (3, 2)


@pytest.mark.parametrize(
    "line",
    ["not json", '{"kind": "hold"}', '{"kind":"hold","key":"1-1","usd":-5,"at":"2026-11-17T00:00:00Z","issue":1}'],
)
def test_a_branch_that_cannot_be_read_lets_nothing_through(remote: Remote, line: str, tmp_path: Path) -> None:
    book = DailyBudget(remote, now=lambda: AT)
    blob = remote.git("hash-object", "-w", "--stdin", stdin=f"{line}\n".encode()).decode().strip()
    tree = remote.git("mktree", stdin=f"100644 blob {blob}\t2026-11-17.jsonl\n".encode()).decode().strip()
    remote.push(remote.commit(tree, (), "by hand", AT), BRANCH)
    with pytest.raises(ForgeError, match="not an entry"):
        book.hold("1-1", ONE, Decimal(9), 7)


def test_a_link_in_the_place_of_the_file_is_not_followed(remote: Remote) -> None:
    blob = remote.git("hash-object", "-w", "--stdin", stdin=b"/etc/passwd").decode().strip()
    tree = remote.git("mktree", stdin=f"120000 blob {blob}\t2026-11-17.jsonl\n".encode()).decode().strip()
    remote.push(remote.commit(tree, (), "by hand", AT), BRANCH)
    with pytest.raises(ForgeError):
        DailyBudget(remote, now=lambda: AT).hold("1-1", ONE, Decimal(9), 7)


def test_a_remote_that_refuses_is_an_error_and_not_a_retry(
    place: CiEnvironment, bare: Path, budget: OpenBudget
) -> None:
    hook = bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho protected >&2\nexit 1\n")
    hook.chmod(0o755)
    with budget() as book, pytest.raises(ForgeError, match="protected"):
        book.hold("1-1", ONE, Decimal(9), 7)


@given(
    st.lists(
        st.tuples(st.sampled_from(["hold", "settle"]), st.integers(1, 4), st.decimals("0", "10", places=2)), max_size=12
    )
)
def test_what_counts_is_the_settled_amount_where_there_is_one(rows: list[tuple[str, int, Decimal]]) -> None:
    entries = [
        BudgetEntry.model_validate({"kind": kind, "key": f"{run}-1", "usd": usd, "at": datetime.now(UTC), "issue": 1})
        for kind, run, usd in rows
    ]
    expected = Decimal(0)
    for run in {run for _, run, _ in rows}:
        settled = [usd for kind, other, usd in rows if other == run and kind == "settle"]
        held = [usd for kind, other, usd in rows if other == run and kind == "hold"]
        expected += settled[-1] if settled else held[-1]
    assert spent(entries) == expected


# As `admit` uses it


def admitted(server: Server, event: Event, budget: OpenBudget, key: str, run_usd: str = "1.00") -> Admission:
    forge = GitHub(server.url, "ada/larder", TOKEN)
    return admit(event, forge, LabelRules(), budget, key=key, run_usd=Decimal(run_usd), day_usd=Decimal("1.50"))


def test_an_admission_holds_what_the_run_may_cost(github: Server, event: Event, budget: OpenBudget, bare: Path) -> None:
    first = admitted(github, event, budget, "1-1")
    assert (first.go, first.verb, first.held_usd, first.day, first.by) == ("work", "fix", 1, "2026-11-17", "ada")
    assert decode(first.encode()) == first and first.encode().replace("-", "").replace("_", "").isalnum()
    second = admitted(github, event, budget, "2-1")
    assert (second.go, second.held_usd, second.day) == ("say", 0, None)
    assert "$0.50 of $1.50" in second.reason and "midnight UTC" in second.reason
    with budget() as book:
        book.settle("1-1", Decimal("0.20"), "2026-11-17", 7)
    assert admitted(github, event, budget, "1-2").go == "nothing"
    assert admitted(github, event, budget, "3-1").go == "work"


def test_a_label_that_does_not_count_holds_nothing(
    github: Server, event: Event, budget: OpenBudget, bare: Path
) -> None:
    github.rights["ada"] = ("read", 1)
    assert admitted(github, event, budget, "1-1").go == "nothing"
    assert b"scrout-budget" not in subprocess.run(["git", "branch"], cwd=bare, capture_output=True).stdout


def test_a_run_that_may_cost_nothing_needs_no_branch(
    github: Server, event: Event, budget: OpenBudget, bare: Path
) -> None:
    free = admitted(github, event, budget, "1-1", run_usd="0")
    assert (free.go, free.held_usd, free.day) == ("work", 0, None)
    assert b"scrout-budget" not in subprocess.run(["git", "branch"], cwd=bare, capture_output=True).stdout


@pytest.mark.parametrize("word", ["", "%%%", "e30", "bnVsbA", "x" * 5000])
def test_an_admission_that_is_none(word: str) -> None:
    with pytest.raises(ForgeError, match="admission"):
        decode(word)
