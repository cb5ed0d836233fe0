"""Whole batches: the real sandbox, real repositories, a real ledger, and a model that is scripted over real HTTP."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.base import ConfigError, TaskError
from scrout.batch.jobs import BatchJob
from scrout.batch.session import BatchSession, open_session
from scrout.batch.tasks import read_tasks
from scrout.config.settings import ScoutSettings
from scrout.ledger.audit import audit
from scrout.models.scripted import ScriptedReply, ScriptedRequest, Status
from scrout.records import Run
from scrout.sandbox.tier import Tier

if TYPE_CHECKING:
    from conftest import Model, Scene

CALL_USD = Decimal("0.00348")
CALLS = 3
"""Of one attempt."""


def go(session: BatchSession, at_once: int = 4) -> Counter[str]:
    async def drive() -> Counter[str]:
        runner = session.runner(at_once)
        runner._pauses_s = (0.0, 0.0)
        return (await runner.run()).outcomes

    return asyncio.run(drive())


def runs_of(session: BatchSession) -> dict[tuple[str, str], Run]:
    return {(run.task.id, run.arm): session.ledger.run(run.id) for run in session.ledger.runs_of(session.batch.id)}


def test_arms_are_paired_and_scouting_is_paid_once(scene: Scene, tier: Tier) -> None:
    scene.keep(2)
    tasks = read_tasks(scene.tasks)
    arms = ("solo", "handoff", "passthrough")
    with open_session(tasks, scene.folder / "out", scene.settings, arms=arms, fixers=("toy",)) as session:
        outcomes = go(session)
        runs = runs_of(session)
        assert audit(session.ledger).problems == ()
        assert session.ledger.spent_usd(session.batch.id) == session.budget.spent_usd == 6 * CALLS * CALL_USD
    assert sum(outcomes.values()) == len(runs) == 6
    assert Counter(scene.model.tasks) == {f"task-{number}": 3 * CALLS for number in range(2)}
    for number in range(2):
        solo, handoff, passed = (runs[f"task-{number}", f"{arm}/toy"] for arm in arms)
        assert solo.scouting and solo.scouting.searcher == "none" and not solo.scouting.handoff.files
        assert handoff.scouting and not handoff.scouting.paid_by and handoff.scouting.handoff.files
        assert passed.scouting and passed.scouting.paid_by == handoff.id
        assert passed.scouting.handoff == handoff.scouting.handoff
        assert passed.gated and passed.gated.verdict == "not_replayed"
        assert handoff.gated and handoff.gated.verdict != "not_replayed"
        assert "prices[1:]" in solo.patch and solo.patch == handoff.patch == passed.patch


def test_a_session_goes_on_where_another_ended(scene: Scene, tier: Tier) -> None:
    scene.keep(2)
    tasks = read_tasks(scene.tasks)
    out = scene.folder / "out"
    with open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)) as session:
        runner = session.runner(1, watch=lambda job, ended: runner.finish("enough"))
        assert asyncio.run(runner.run()).done == 1
    asked = len(scene.model.tasks)
    assert asked == CALLS
    with open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)) as session:
        assert session.budget.spent_usd == CALLS * CALL_USD
        assert sum(go(session).values()) == 2
        assert len(runs_of(session)) == 2
    with open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)) as session:
        assert sum(go(session).values()) == 2
    assert Counter(scene.model.tasks) == {f"task-{number}": CALLS for number in range(2)}


@pytest.mark.parametrize("lost", ["all", "one run"])
def test_what_the_ledger_lost_is_not_paid_again_unless_that_is_meant(scene: Scene, tier: Tier, lost: str) -> None:
    scene.keep(2)
    tasks, out = read_tasks(scene.tasks), scene.folder / "out"
    with open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)) as session:
        assert sum(go(session).values()) == 2
        first = session.batch
    if lost == "all":
        (out / "ledger.db").unlink()
    else:
        with closing(sqlite3.connect(out / "ledger.db")) as books, books:
            for (name,) in books.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                books.execute(f"DROP TRIGGER {name}")
            books.execute("DELETE FROM run WHERE rowid = 1")
    shutil.rmtree(out / "attempts", ignore_errors=True)
    with pytest.raises(TaskError, match=rf"of the 2 runs of batch {first.id} are not in the ledger.*--start-over"):
        open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)).__enter__()
    assert len(scene.model.tasks) == 2 * CALLS
    with open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",), start_over=True) as session:
        assert session.batch.id != first.id and sum(go(session).values()) == 2
    assert len(scene.model.tasks) == 4 * CALLS
    assert (out / f"before-{first.id}" / "batch.json").is_file()


def test_a_folder_from_elsewhere_leads_out_of_itself_nowhere(scene: Scene, tier: Tier) -> None:
    scene.keep(1)
    tasks, out = read_tasks(scene.tasks), scene.folder / "out"
    with open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)) as session:
        assert sum(go(session).values()) == 1
    whole = (out / "batch.json").read_text()
    (out / "before-x").mkdir()
    (out / "batch.json").write_text(json.dumps({**json.loads(whole), "id": "x/../../elsewhere"}))
    with pytest.raises(TaskError, match=r"batch\.json cannot be read"):
        open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",), start_over=True).__enter__()
    assert not (scene.folder / "elsewhere").exists()
    (out / "batch.json").write_text(whole)
    for name in ("grades.jsonl", "runs.txt", "attempts", ".lock"):
        if was_there := (out / name).exists():
            (out / name).rename(scene.folder / "kept")
        (out / name).symlink_to(scene.folder / "victim")
        with pytest.raises(TaskError, match=r"symlink|symbolic link"):
            open_session(tasks, out, scene.settings, arms=("solo",), fixers=("toy",)).__enter__()
        (out / name).unlink()
        if was_there:
            (scene.folder / "kept").rename(out / name)
        assert not (scene.folder / "victim").exists()


def test_the_total_holds_against_a_real_meter(scene: Scene, tier: Tier) -> None:
    settings = scene.settings
    fixers = tuple(
        one.model_copy(update={"cap_usd": Decimal("0.02")}) if one.name == "toy" else one for one in settings.fixers
    )
    settings = settings.model_copy(update={"fixers": fixers})
    cap = Decimal("0.035")
    with open_session(
        read_tasks(scene.tasks),
        scene.folder / "out",
        settings,
        arms=("solo",),
        fixers=("toy",),
        cap_usd=cap,
    ) as session:
        outcomes = go(session, at_once=4)
        assert session.ledger.spent_usd(session.batch.id) <= cap
    # Each may cost 2 cents and does cost 1.044: after two of them less than 2 cents are left.
    assert sum(outcomes.values()) == 2


@pytest.mark.slow
def test_what_the_endpoint_failed_is_tried_again_and_told_apart(scene: Scene, model: Model, tier: Tier) -> None:
    seen: Counter[str] = Counter()

    def fault(request: ScriptedRequest, turn: int) -> ScriptedReply | None:
        task = model.tasks[-1]
        if turn == 0 and task in ("task-0", "task-1"):
            seen[task] += 1
            if task == "task-1" or seen[task] == 1:
                return ScriptedReply(fault=Status(401))
        return None

    model.fault = fault
    with open_session(
        read_tasks(scene.tasks),
        scene.folder / "out",
        scene.settings,
        arms=("solo",),
        fixers=("toy",),
    ) as session:
        outcomes = go(session)
        heads = session.ledger.runs_of(session.batch.id)
        assert audit(session.ledger).problems == ()
    assert outcomes["infrastructure"] == 1 and sum(outcomes.values()) == 3
    by_task = Counter(run.task.id for run in heads)
    assert by_task == {"task-0": 2, "task-1": 3, "task-2": 1}
    model.fault = lambda request, turn: None
    with open_session(
        read_tasks(scene.tasks),
        scene.folder / "out",
        scene.settings,
        arms=("solo",),
        fixers=("toy",),
    ) as session:
        assert go(session)["infrastructure"] == 0  # a later session tries once more


@pytest.mark.slow
def test_a_row_that_cannot_be_run_stops_no_other(scene: Scene, tier: Tier) -> None:
    lines = scene.tasks.read_text().splitlines()
    broken = json.loads(lines[1]) | {"base_commit": "f" * 40}
    scene.tasks.write_text("\n".join([lines[0], json.dumps(broken), "{", lines[2]]) + "\n")
    tasks = read_tasks(scene.tasks)
    assert len(tasks.rows) == 3 and len(tasks.problems) == 1
    with open_session(tasks, scene.folder / "out", scene.settings, arms=("solo",), fixers=("toy",)) as session:
        runner = session.runner(2)
        runner._pauses_s = ()
        progress = asyncio.run(runner.run())
    assert progress.outcomes["failed"] == 1 and progress.done == 3
    ((key, why),) = progress.failures.items()
    assert key == ("task-1", "solo/toy") and "ffff" in why


def test_a_folder_of_another_making_is_refused(scene: Scene, tier: Tier, tmp_path: Path) -> None:
    tasks, out = read_tasks(scene.tasks), scene.folder / "out"
    with (
        open_session(tasks, out, scene.settings, arms=("solo",), fixers=("repair",)),
        pytest.raises(TaskError, match="another process"),
    ):
        open_session(tasks, out, scene.settings).__enter__()
    other = scene.settings.model_copy(update={"gate": scene.settings.gate.model_copy(update={"runs": 3})})
    with pytest.raises(TaskError, match="other settings"):
        open_session(tasks, out, other, arms=("solo",), fixers=("repair",)).__enter__()
    with pytest.raises(TaskError, match="other arms"):
        open_session(tasks, out, scene.settings, fixers=("repair",)).__enter__()
    scene.tasks.write_text(scene.tasks.read_text().splitlines()[0] + "\n")
    with pytest.raises(TaskError, match="other tasks"):
        open_session(read_tasks(scene.tasks), out, scene.settings, arms=("solo",), fixers=("repair",)).__enter__()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(TaskError, match="not a batch"):
        open_session(tasks, tmp_path / "full", scene.settings).__enter__()
    (tmp_path / "file").touch()
    with pytest.raises(TaskError, match="may write to"):
        open_session(tasks, tmp_path / "file" / "out", scene.settings).__enter__()


def test_a_total_that_cannot_hold_is_refused(scene: Scene, tier: Tier) -> None:
    loose = scene.settings.model_copy(update={"fix": scene.settings.fix.model_copy(update={"caps": "paper"})})
    with pytest.raises(ConfigError, match="cannot limit the batch"):
        open_session(read_tasks(scene.tasks), scene.folder / "out", loose, cap_usd=Decimal(1)).__enter__()
    with pytest.raises(ConfigError, match="nobody"):
        open_session(read_tasks(scene.tasks), scene.folder / "out", scene.settings, fixers=("nobody",)).__enter__()


def test_what_a_job_may_cost_is_what_its_attempts_may(scene: Scene) -> None:
    """Free ones first, under escalation: the budget of all attempts is that of the dearest, and that is held."""
    (toy, repair) = scene.settings.fixers
    pool = (repair, *(toy.model_copy(update={"name": name, "cap_usd": Decimal("0.50")}) for name in ("a", "b")))
    settings = scene.settings.model_copy(
        update={"fixers": pool, "fix": scene.settings.fix.model_copy(update={"escalate": True})}
    )
    row = read_tasks(scene.tasks).rows[0]
    assert BatchJob(row, "handoff").worst_usd(settings) == Decimal("0.50")
    assert BatchJob(row, "handoff", "repair").worst_usd(settings) == 0
    capped = settings.model_copy(update={"fix": settings.fix.model_copy(update={"cap_usd": Decimal("0.70")})})
    assert BatchJob(row, "handoff").worst_usd(capped) == Decimal("0.70")


def test_a_key_that_is_not_set_is_said_before_anything_runs(scene: Scene, tier: Tier) -> None:
    text = scene.config.read_text().replace('model = "toy-1"', 'model = "toy-1"\nkey_env = "NOBODY_SET_THIS"')
    scene.config.write_text(text)
    with pytest.raises(ConfigError, match="NOBODY_SET_THIS"):
        open_session(read_tasks(scene.tasks), scene.folder / "out", scene.settings, fixers=("toy",)).__enter__()
    with open_session(read_tasks(scene.tasks), scene.folder / "out", scene.settings, fixers=("repair",)):
        pass


def test_a_total_holds_with_a_canary_since_an_episodes_cap_is_for_that_too(scene: Scene, tier: Tier) -> None:
    model = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "price": {"input": 1, "output": 2}, "canary": True}
    scout = ScoutSettings.model_validate({"searcher": "model", "model": model})
    settings = scene.settings.model_copy(update={"scout": scout})
    with open_session(read_tasks(scene.tasks), scene.folder / "out", settings, cap_usd=Decimal(1)) as session:
        assert session.budget.cap_usd == Decimal(1)
