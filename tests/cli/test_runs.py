"""`scrout runs`, its filters and `scrout runs prune`, and the audit of batches."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from scrout.cli.render import FittedTable
from scrout.ledger.store import Ledger
from scrout.money import Receipt, Usage
from scrout.records import Attempt
from scrout.task import Task

if TYPE_CHECKING:
    from conftest import Cli

TASK = Task(id="larder-1", text="The larder is empty.", repo=Path("/home/me/larder"), base_commit="c" * 40)


def data() -> Path:
    return Path(os.environ["XDG_DATA_HOME"], "scrout")


def made(ledger: Ledger, batch: str, arm: str, *, solved: bool = True, estimated: bool = False) -> str:
    run = ledger.open(TASK, "settings", sandbox="none", environment="none", batch=batch, arm=arm, resume=False)
    paid = Receipt(
        component="fix",
        fixer="a",
        model="m",
        usage=Usage(),
        cost_usd=Decimal("0.25"),
        at=datetime.now(UTC),
        call=1,
        estimated=estimated,
    )

    async def fix(task: Task) -> Attempt:
        trajectory = data() / "attempts" / run.place
        trajectory.mkdir(parents=True)
        (trajectory / "agent.log").write_text("much to tell")
        run.book(paid)
        if not solved:
            raise KeyboardInterrupt
        return Attempt(
            fixer="a", patch="p", stop="finished", detail="", seconds=1, cost_usd=paid.cost_usd, receipts=(paid,)
        )

    if solved:
        asyncio.run(run.step("fix", fix, TASK))
        run.close("solved")
    else:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(run.step("fix", fix, TASK))
    return run.id


@pytest.fixture
def ids() -> list[str]:
    with Ledger(data() / "ledger.db") as ledger:
        return [
            made(ledger, "b-1", "solo/a"),
            made(ledger, "b-1", "handoff/a"),
            made(ledger, "b-2", "solo/a", solved=False, estimated=True),
        ]


def listed(cli: Cli, *arguments: str) -> list[str]:
    ended = cli("runs", "--json", *arguments)
    assert ended.code == 0, ended.err
    found: list[dict[str, Any]] = json.loads(ended.out)
    return [run["id"] for run in found]


def test_runs_lists_and_filters(cli: Cli, ids: list[str]) -> None:
    assert listed(cli) == ids[::-1]
    assert listed(cli, "--limit", "1") == ids[2:]
    assert listed(cli, "--batch", "b-1") == [ids[1], ids[0]]
    assert listed(cli, "--arm", "solo/a") == [ids[2], ids[0]]
    assert listed(cli, "--outcome", "interrupted") == ids[2:]
    assert listed(cli, "--batch", "b-1", "--arm", "solo/a", "--outcome", "solved") == ids[:1]
    assert ids[0] in cli("runs").out.decode()
    none = cli("runs", "--batch", "absent")
    assert (none.code, none.out) == (0, b"") and "no run matches" in none.err


def test_prune_honours_the_settings_and_the_audit_still_passes(cli: Cli, ids: list[str]) -> None:
    folder = data() / "attempts"
    told = cli("runs", "prune")
    assert (told.code, told.out) == (0, b"") and "no limit is set" in told.err
    dry = cli("runs", "prune", "-c", "retention.days=0", "--dry-run", "--json").json()
    assert [one["run"] for one in dry["pruned"]] == ids and dry["dry_run"] is True
    assert {path.name for path in folder.iterdir()} == set(ids)
    done = cli("runs", "prune", "-c", "retention.days=0")
    assert done.code == 0 and all(run_id in done.out.decode() for run_id in ids)
    assert list(folder.iterdir()) == []
    report = cli("ledger", "audit", "--json").json()
    assert (report["runs"], report["receipts"], report["problems"]) == (3, 3, [])
    assert listed(cli) == ids[::-1]


@pytest.mark.parametrize("given", [("--limit", "3"), ("-c", "retention.days=0")])
def test_options_before_prune_are_refused(cli: Cli, given: tuple[str, str]) -> None:
    ended = cli("runs", *given, "prune")
    assert ended.code == 2 and "Write options after `prune`" in ended.err


def test_the_audit_tells_of_batches_and_of_calls_whose_end_nobody_saw(cli: Cli, ids: list[str]) -> None:
    ended = cli("ledger", "audit")
    assert ended.code == 0
    out = ended.out.decode()
    assert "batch b-1: 2 runs, 2 receipts, $0.50" in out
    assert "batch b-2: 1 run, 1 receipt, 1 of them estimated, $0.25" in out
    assert f"run {ids[2]}" in out and "settled at the $0.25 that was reserved" in out
    report = cli("ledger", "audit", "--json").json()
    assert [total["batch"] for total in report["batches"]] == ["b-1", "b-2"]
    assert (report["estimated"], len(report["flags"])) == (1, 1)


def test_a_committed_file_may_not_name_a_ledger_or_let_traces_be_removed(cli: Cli, shop_repo: Path) -> None:
    from subprocess import run

    for text in ('[ledger]\nurl = "postgresql://me:hunter2hunter2@localhost/x"\n', "[retention]\ndays = 0\n"):
        (shop_repo / "scrout.toml").write_text(text)
        run(["git", "add", "scrout.toml"], cwd=shop_repo, check=True)
        ended = cli("runs", "prune", "--repo", shop_repo)
        assert ended.code == 2 and "may have come with the repository" in ended.err
        assert "hunter2" not in ended.err


@pytest.mark.postgres
def test_the_address_of_the_environment_is_used_unless_a_file_is_named(cli: Cli, ids: list[str]) -> None:
    away = {"SCROUT_LEDGER_URL": "postgresql://me:hunter2hunter2@localhost:1/x"}
    ended = cli("runs", env=away)
    assert ended.code == 2 and "postgresql://localhost:1/x" in ended.err and "hunter2" not in ended.err
    assert cli("runs", "-c", f"ledger.path={data() / 'ledger.db'}", env=away).code == 0


def test_an_address_that_makes_no_sense_is_refused_without_its_password(cli: Cli) -> None:
    both = cli("runs", "-c", "ledger.path=x.db", "-c", "ledger.url=postgresql://me:hunter2hunter2@localhost/x")
    assert both.code == 2 and "keep one of them" in both.err and "hunter2" not in both.err
    odd = cli("runs", "-c", "ledger.url=mysql://me:hunter2hunter2@localhost/x")
    assert odd.code == 2 and "postgresql://" in odd.err and "hunter2" not in odd.err


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (120, ["run", "repository", "outcome", "fixer", "cost", "issue"]),
        (80, ["run", "outcome", "fixer", "cost", "issue"]),
        (60, ["run", "outcome", "cost", "issue"]),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns_and_whole_words(width: int, columns: list[str]) -> None:
    names = ("run", "repository", "outcome", "fixer", "cost", "issue")
    row = ("20261119-120000-abc123", "a-repository-of-some-length", "not_solved", "repair", "$0.00", "A title " * 30)
    table = FittedTable(names, [row], dispensable=("repository", "fixer"), right=("cost",))
    console = Console(width=width, file=StringIO())
    console.print(table)
    head, _, line, *rest = [line for line in console.file.getvalue().splitlines() if line.strip()]  # type: ignore[attr-defined]
    assert head.split() == columns and not rest, "one line a run"
    assert len(line) <= width and line.rstrip().endswith("…")
    assert all(cell in line for name, cell in zip(names, row, strict=True) if name in columns and name != "issue")
