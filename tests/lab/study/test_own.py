"""One's own runs as studies see them: counted as a batch's summary counts them, and refused with a reason."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from scrout.base import StudyError
from scrout.batch.folder import BatchFolder
from scrout.batch.session import open_session
from scrout.batch.tasks import read_tasks
from scrout.config.loading import load
from scrout.fix.pool import completed
from scrout.handoff import FileRef, Handoff, Reproduction, render
from scrout.lab.study import handoff, handoff_report, localize, localize_report
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.source import Own, open_source, read_batch, read_ledger
from scrout.ledger.store import Ledger, Result
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Receipt, Usage
from scrout.records import Attempt, Check, CheckOutcome, Scouting, ScoutStop, Stop
from scrout.sandbox.tier import Tier
from scrout.task import Task

AT = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
PATCH = "diff --git a/x b/x\n"
MakeRepo = Callable[..., Path]


class Made:
    """A batch whose runs a test writes as a runner would."""

    def __init__(self, path: Path, *arms: str, ledger: Path | None = None) -> None:
        self.folder = BatchFolder(path)
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.batch = self.folder.begin("settings", "tasks", 2, arms, "9.8.7")
        self.ledger = ledger or self.folder.ledger

    def run(
        self,
        task_id: str,
        arm: str,
        *,
        outcome: CheckOutcome = "passed",
        usd: Sequence[str | None] = ("0.1",),
        stop: Stop = "finished",
        scouting: Scouting | None = None,
        batch: str | None = None,
        fixer: str = "a",
    ) -> str:
        """One closed run; its id. `batch`: another than this one, or empty for a run of its own."""
        return asyncio.run(self._run(task_id, arm, outcome, usd, stop, scouting, batch, fixer))

    async def _run(
        self,
        task_id: str,
        arm: str,
        outcome: CheckOutcome,
        usd: Sequence[str | None],
        stop: Stop,
        scouting: Scouting | None,
        batch: str | None,
        fixer: str,
    ) -> str:
        task = Task(id=task_id, text=f"Issue {task_id}", repo=Path("/home/me/larder"), base_commit="c" * 40)
        named = self.batch.id if batch is None else batch
        with Ledger(self.ledger) as ledger:
            run = ledger.open(task, "settings", sandbox="none", environment="none", batch=named, arm=arm)
            if scouting is not None:
                await run.step("scout", _gives(scouting), task)
            patch = "" if stop == "endpoint" else PATCH
            attempt = Attempt(
                **{"fixer": fixer, "patch": patch, "stop": stop, "detail": "", "seconds": 1, "calls": len(usd)},
                cost_usd=None if None in usd else sum((Decimal(one) for one in usd if one), Decimal(0)),
                receipts=_receipts("fix", usd),
            )
            await run.step("fix", _gives(attempt), task)
            checked = Check(outcome=outcome, applies=True, reproduction="passes", tests="pass")
            await run.step("check", _gives(checked), task)
            run.close()
            return run.id

    def grade(self, task_id: str, verdict: str, patch: str = PATCH) -> None:
        digest = hashlib.sha256(patch.encode()).hexdigest()
        with self.folder.grades.open("a") as file:
            file.write(json.dumps({"id": task_id, "verdict": verdict, "patch_digest": digest}) + "\n")

    def read(self, tasks: Path | None = None) -> Own:
        return read_batch(self.folder.path, tasks)


def _gives(result: Result) -> Callable[..., object]:
    async def stage(*args: object) -> Result:
        return result

    return stage


def _receipts(component: str, usd: Sequence[str | None]) -> tuple[Receipt, ...]:
    return tuple(
        Receipt.model_validate(
            {
                **{"component": component, "model": "m", "usage": Usage(input_tokens=10), "at": AT, "call": number},
                "cost_usd": None if one is None else Decimal(one),
            }
        )
        for number, one in enumerate(usd, 1)
    )


def scouted(*files: str, usd: str = "0", stop: ScoutStop = "finished", paid_by: str = "") -> Scouting:
    claim = Reproduction(command="python x.py", claim=True)
    handoff = Handoff(files=tuple(FileRef(path=path) for path in files), reproduction=claim)
    paid = _receipts("scout", [usd]) if Decimal(usd) else ()
    return Scouting(
        **{"handoff": handoff, "text": render(handoff), "seconds": 1, "searcher": "seven-b", "stop": stop},
        **{"cost_usd": Decimal(usd), "receipts": paid, "paid_by": paid_by},
    )


def task_file(path: Path, *rows: tuple[str, Sequence[str]]) -> Path:
    """Tasks with the files of their answers."""
    path.write_text(
        "".join(
            json.dumps(
                {
                    **{"id": name, "text": "An issue.", "repo": "pallets/click", "base_commit": "c" * 40},
                    "gold": {"patch": "diff", "files": list(files)},
                }
            )
            + "\n"
            for name, files in rows
        )
    )
    return path


def test_arms_and_fixers_become_columns(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "handoff/routed", "solo/a", "solo/b")
    made.run("t1", "handoff/routed", usd=("0.2", "0.3"), scouting=scouted("x.py", usd="0.05"), fixer="b")
    made.run("t1", "solo/a", outcome="failed")
    made.run("t2", "solo/b", usd=("0.4",))
    own = made.read()
    handed, solo = own.benchmark.arm("handoff"), own.benchmark.arm("solo")
    assert (handed.fixers, solo.fixers) == (("routed",), ("a", "b"))
    assert own.benchmark.ids == ("t1", "t2") and own.benchmark.repositories == ("larder", "larder")
    assert handed.measured.tolist() == [[True], [False]]
    assert handed.cost[0, 0] == pytest.approx(0.55) and handed.steps[0, 0] == 2
    assert solo.measured.tolist() == [[True, False], [False, True]]
    assert not solo.resolved[0, 0] and solo.resolved[1, 1]
    assert own.benchmark.paid["scout"] == Decimal("0.05") and own.benchmark.paid["fix"] == Decimal("1.0")
    assert own.costs["handoff/routed"].calls == 3
    assert own.judged_by == "check" and "no grade" in str(own)
    assert own.benchmark.texts == {"t1": "Issue t1", "t2": "Issue t2"}


def test_shared_scouting_counts_for_each_arm_that_used_it(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "handoff/a", "passthrough/a")
    first = made.run("t1", "handoff/a", scouting=scouted("x.py", usd="0.05"))
    made.run("t1", "passthrough/a", scouting=scouted("x.py", paid_by=first))
    own = made.read()
    assert own.benchmark.arm("passthrough").cost[0, 0] == pytest.approx(0.15)
    assert sum(own.benchmark.paid.values()) == Decimal("0.25")  # paid once


def test_what_infrastructure_failed_is_not_measured(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "solo/a")
    made.run("t1", "solo/a", outcome="no_patch", stop="endpoint")
    made.run("t2", "solo/a", usd=("0.1", None))
    solo = made.read().benchmark.arm("solo")
    assert solo.measured.tolist() == [[False], [True]]
    assert np.isnan(solo.cost[1, 0])  # a call without a known price


def test_the_last_closed_run_of_a_task_counts(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "solo/a")
    made.run("t1", "solo/a", outcome="no_patch", stop="endpoint", usd=("0.3",))
    made.run("t1", "solo/a", usd=("0.1", "0.1"))
    solo = made.read().benchmark.arm("solo")
    assert solo.resolved[0, 0] and solo.steps[0, 0] == 2
    assert solo.cost[0, 0] == pytest.approx(0.5)  # as the summary has it: both were paid for this task


def test_grades_judge_only_where_every_run_has_one(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "solo/a")
    made.run("t1", "solo/a", outcome="passed")
    made.run("t2", "solo/a", outcome="failed")
    made.grade("t1", "unresolved")
    assert made.read().judged_by == "check"
    made.grade("t2", "resolved")
    own = made.read()
    assert own.judged_by == "grade" and str(own).endswith("graded")
    assert own.benchmark.arm("solo").resolved.tolist() == [[False], [True]]
    made.grade("t2", "infrastructure")
    assert made.read().benchmark.arm("solo").measured.tolist() == [[True], [False]]


def test_answers_say_what_was_found_in_which_order_and_language(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "handoff/a")
    made.run("t1", "handoff/a", scouting=scouted("b.go", "a.go", "b.go", "c.go", stop="forced"))
    made.run("t2", "handoff/a", scouting=scouted())
    tasks = task_file(tmp_path / "tasks.jsonl", ("t1", ("a.go", "z.go")), ("t3", ("x.py",)))
    own = made.read(tasks)
    found = own.benchmark.scouted["t1"]
    assert (found.kind, found.claimed, found.named, found.gold) == ("forced", True, 3, 2)
    assert found.hits == (False, True, False)
    assert (found.recall, found.precision, found.f1) == pytest.approx((1 / 2, 1 / 3, 0.4))
    assert own.benchmark.scouted["t2"].gold is None and np.isnan(own.benchmark.scouted["t2"].recall)
    assert own.benchmark.languages == {"t1": "Go"}
    assert own.benchmark.repositories == ("pallets/click", "larder")
    with pytest.raises(StudyError, match="Name the file that was run"):
        made.read(task_file(tmp_path / "others.jsonl", ("t9", ("x.py",))))


def test_several_batches_of_a_ledger_and_one_of_them(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", "solo/a", ledger=tmp_path / "book.db")
    made.run("t1", "solo/a", outcome="failed", usd=("0.1",), batch="20260101-000000-aaaaaa")
    made.run("t2", "solo/b", usd=("0.2",), batch="20260101-000000-aaaaaa")
    made.run("t1", "solo/a", outcome="passed", usd=("0.4",), batch="20260202-000000-bbbbbb")
    made.run("t5", "", usd=("9",), batch="")
    place = str(tmp_path / "book.db")
    own = read_ledger(place, "", None)
    solo = own.benchmark.arm("solo")
    assert own.benchmark.ids == ("t1", "t2") and "2 batches" in own.benchmark.source
    assert solo.resolved[0, 0] and solo.cost[0, 0] == pytest.approx(0.4)  # what the last batch paid for it
    assert own.benchmark.paid["fix"] == Decimal("0.7")
    first = read_ledger(place, "20260101-000000-aaaaaa", None)
    assert not first.benchmark.arm("solo").resolved[0, 0] and "aaaaaa" in str(first)
    with pytest.raises(StudyError, match="no batch nothing"):
        read_ledger(place, "nothing", None)


def test_runs_made_one_by_one_are_of_the_fixer_that_tried_last(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", ledger=tmp_path / "book.db")
    made.run("t1", "", batch="", scouting=scouted("x.py", usd="0.05"))
    made.run("t2", "", batch="", outcome="failed", fixer="b")
    own = read_ledger(str(tmp_path / "book.db"), "", None)
    handed = own.benchmark.arm("handoff")
    assert handed.fixers == ("a", "b") and handed.measured.tolist() == [[True, False], [False, True]]
    assert handed.cost[0, 0] == pytest.approx(0.15) and "one by one" in str(own)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such file"):
        read_ledger(str(tmp_path / "book.db"), "", None)
    assert not (tmp_path / "book.db").exists()
    with Ledger(tmp_path / "empty.db") as ledger:
        ledger.run_ids()
    with pytest.raises(StudyError, match="has no run"):
        read_ledger(str(tmp_path / "empty.db"), "", None)
    with pytest.raises(StudyError, match=r"no batch's folder"):
        read_batch(tmp_path, None)
    made = Made(tmp_path / "out", "solo/a")
    with pytest.raises(StudyError, match=f"--batch {made.batch.id}"):
        made.read()
    with Ledger(made.ledger) as ledger:
        ledger.run_ids()
    with pytest.raises(StudyError, match="has no run of batch"):
        made.read()
    made.run("t1", "solo/a", outcome="no_patch", stop="endpoint")
    with pytest.raises(StudyError, match="no run has come to an end"):
        made.read()
    with pytest.raises(StudyError, match="name what to study"):
        open_source(None, None, "", None)


def test_a_password_is_in_no_message() -> None:
    with pytest.raises(Exception) as raised:
        read_ledger("postgresql://me:geheim@127.0.0.1:1/books", "", None)
    assert "geheim" not in str(raised.value)


def answer(request: ScriptedRequest) -> ScriptedReply:
    """A model that mends, and says so."""
    messages = request.content["messages"]
    assert isinstance(messages, list)
    usage = Usage(input_tokens=900, output_tokens=50)
    if any(isinstance(one, dict) and one.get("role") == "tool" for one in messages):
        return ScriptedReply("Mended.", usage=usage)
    # One task stays as it was.
    command = "true" if re.search(r"task-1 is this", request.body) else r"sed -i 's/prices\[1:\]/prices/' cart.py"
    return ScriptedReply(calls=(ToolCall("call", "bash", json.dumps({"command": command})),), usage=usage)


def test_a_real_batch_is_counted_as_its_summary_counts_it(make_repo: MakeRepo, tmp_path: Path, tier: Tier) -> None:
    repo = make_repo({"cart.py": "def total(prices):\n    return sum(prices[1:])\n"})
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    tasks = tmp_path / "tasks.jsonl"
    with tasks.open("w") as file:
        for number in range(2):
            text = f"task-{number} is this: total([1, 2]) of cart.py gives 2 and should give 3."
            gold = {"patch": "diff", "files": ["cart.py"]}
            row = {"id": f"task-{number}", "text": text, "repo": str(repo), "base_commit": head.strip(), "gold": gold}
            file.write(json.dumps(row) + "\n")
    out = tmp_path / "out"
    with ScriptedEndpoint(answer, keep=False) as endpoint:
        config = tmp_path / "batch.toml"
        config.write_text(
            f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "{endpoint.base_url}"\n'
            "price = { input = 3.0, output = 15.0 }\n"
        )
        arms = ("solo", "handoff", "passthrough")
        settings = completed(load(config))
        with open_session(read_tasks(tasks), out, settings, arms=arms, fixers=("toy",)) as session:
            asyncio.run(session.runner(2).run())
            summary = session.write()
    own = read_batch(out, tasks)
    for arm in summary.arms:
        kind = next(one for one in own.benchmark.arms if arm.arm == f"{one}/toy")
        played = own.benchmark.arm(kind)
        assert int(played.measured.sum()) == arm.done == 2
        assert int(played.resolved.sum()) == arm.solved.count
        assert arm.usd_a_task is not None
        assert played.cost.mean() == pytest.approx(float(arm.usd_a_task))
        assert (played.steps == 2).all()
        assert own.costs[arm.arm] == arm.paid
    assert own.benchmark.paid == summary.costs.by_component
    assert own.benchmark.languages == dict.fromkeys(own.benchmark.ids, "Python")
    (place,) = (arm.localization[0] for arm in summary.arms if arm.arm == "handoff/toy")
    recalls = [own.benchmark.scouted[name].recall for name in own.benchmark.ids]
    assert np.mean(recalls) == pytest.approx(place.recall)
    for module, shown in ((handoff, handoff_report), (localize, localize_report)):
        assert shown.report(module.study(own)).findings
    page = tmp_path / "page.html"
    options = ["--data", str(out), "--tasks", str(tasks), "--json", "--html", str(page)]
    command = [sys.executable, "-m", "scrout", "study", "spend", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout, parse_constant=pytest.fail)["booked"]) == 3
    assert "toy" in page.read_text()


def test_by_the_check_only_handoffs_are_compared_and_what_was_routed_is_no_fixer() -> None:
    played = ArmOutcomes(
        ("toy", "routed"), np.ones((2, 2), bool), np.ones((2, 2), bool), np.ones((2, 2)), np.full((2, 2), np.nan)
    )
    benchmark = Benchmark("mine", "here", ("a", "b"), ("r", "r"), {"solo": played, "handoff": played})
    graded, checked = Own(benchmark, "grade"), Own(benchmark, "check")
    assert {arm: one.fixers for arm, one in graded.comparable.arms.items()} == {"solo": ("toy",), "handoff": ("toy",)}
    assert list(checked.comparable.arms) == ["handoff"] and list(checked.fixers.arms) == ["solo", "handoff"]
    assert checked.alike(benchmark).arm("handoff").fixers == ("toy", "routed")


def test_a_table_of_outcomes_is_a_source_and_a_pool_narrows_it(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    rows = [f"{model},o__n-{task},{(task + at) % 2}" for at, model in enumerate("ABC") for task in range(4)]
    table.write_text("model,instance_id,resolved\n" + "\n".join(rows) + "\n")
    whole = open_source(table, None, "", None)
    assert isinstance(whole, Own) and len(whole.benchmark.ids) == 4
    assert whole.benchmark.arm("solo").fixers == ("A", "B", "C")
    some = open_source(table, None, "", None, ["C", "A"])
    assert isinstance(some, Own) and some.benchmark.arm("solo").fixers == ("C", "A")
    with pytest.raises(StudyError, match="no arm has all of D"):
        open_source(table, None, "", None, ["D"])
    with pytest.raises(StudyError, match="--pool"):
        open_source(tmp_path, None, "", None, ["A"])
