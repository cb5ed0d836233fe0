"""The summary of a batch: every cent once, each arm as if it were alone, and nothing counted for what it is not."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.batch.folder import BatchFolder
from scrout.batch.outputs.results import ArmResult, Summary
from scrout.batch.outputs.summary import summarize
from scrout.batch.tasks import TaskRow, UnusableRow
from scrout.handoff import FileRef, Handoff, render
from scrout.intervals import wilson
from scrout.ledger.store import Ledger, Result
from scrout.money import Component, Receipt, Usage, known_usd, total_usd
from scrout.records import (
    KEPT,
    Attempt,
    Candidate,
    Check,
    CheckOutcome,
    Decision,
    Evidence,
    GatedHandoff,
    RunOutcome,
    Scouting,
    ScoutStop,
    Stop,
    Verdict,
)
from scrout.task import Gold, Task

AT = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
Costs = Sequence[str | None]
"""Dollars a call; None: the call has no known price."""


class Made:
    """A batch whose runs a test writes as a runner would."""

    def __init__(self, path: Path, arms: Sequence[str], tasks: int) -> None:
        self.folder = BatchFolder(path)
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.batch = self.folder.begin("settings-digest", "tasks-digest", tasks, tuple(arms), "9.8.7")
        self.ledger = Ledger(self.folder.ledger)

    async def run(
        self,
        task_id: str,
        arm: str,
        tries: Sequence[tuple[Attempt, Check]] = (),
        *,
        scouting: Scouting | None = None,
        gated: GatedHandoff | None = None,
        decision: Decision | None = None,
        repo: str = "/home/me/larder",
        outcome: RunOutcome | None = None,
        close: bool = True,
    ) -> str:
        """One run with these results; its id."""
        task = Task(id=task_id, text=f"Issue {task_id}", repo=Path(repo), base_commit="c" * 40)
        batch = self.batch.id
        run = self.ledger.open(task, "settings-digest", sandbox="none", environment="none", batch=batch, arm=arm)
        for name, result in (("scout", scouting), ("gate", gated), ("route", decision)):
            if result is not None:
                await run.step(name, _gives(result), task)
        for number, (attempt, check) in enumerate(tries):
            await run.step("fix", _gives(attempt), task, str(number))
            await run.step("check", _gives(check), task, str(number))
        if close:
            run.close(outcome)
        return run.id

    def summary(self, problems: Sequence[UnusableRow] = (), rows: Sequence[TaskRow] = (), command: str = "") -> Summary:
        return summarize(self.folder, self.batch, self.ledger, problems, rows, command)

    def grade(self, task_id: str, patch: str, verdict: str) -> None:
        """Add a grade as grading does."""
        digest = hashlib.sha256(patch.encode()).hexdigest()
        with self.folder.grades.open("a") as file:
            file.write(json.dumps({"id": task_id, "verdict": verdict, "patch_digest": digest}) + "\n")

    async def cut_off(self, task_id: str, arm: str, costs: Costs) -> str:
        """A run whose fixer had paid for some calls when it failed; its id."""
        task = Task(id=task_id, text=f"Issue {task_id}", repo=Path("/home/me/larder"), base_commit="c" * 40)
        batch = self.batch.id
        run = self.ledger.open(task, "settings-digest", sandbox="none", environment="none", batch=batch, arm=arm)

        async def fail(*args: object) -> Attempt:
            for receipt in receipts("fix", costs):
                run.book(receipt)
            raise ConnectionError("the network is gone")

        with pytest.raises(ConnectionError):
            # An input of its own: a resumed run would take the stored result of a step that it has done.
            await run.step("fix", fail, task, secrets.token_hex(4))
        return run.id


def receipts(component: Component, costs: Costs) -> tuple[Receipt, ...]:
    return tuple(
        Receipt(
            component=component,
            model="m",
            usage=Usage(input_tokens=10),
            cost_usd=None if cost is None else Decimal(cost),
            at=AT,
            call=number,
        )
        for number, cost in enumerate(costs, 1)
    )


def total(costs: Costs) -> Decimal | None:
    known = [Decimal(cost) for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


def tried(
    outcome: CheckOutcome = "passed",
    *,
    fixer: str = "a",
    patch: str = "diff --git a/x b/x\n",
    stop: Stop = "finished",
    costs: Costs = (),
) -> tuple[Attempt, Check]:
    """An attempt and its check."""
    attempt = Attempt(
        fixer=fixer,
        patch=patch,
        stop=stop,
        detail="",
        seconds=1,
        calls=len(costs),
        cost_usd=total(costs),
        receipts=receipts("fix", costs),
    )
    return attempt, Check(outcome=outcome, applies=True, reproduction="passes", tests="pass")


def scouted(*files: str, stop: ScoutStop = "finished", costs: Sequence[str] = (), paid_by: str = "") -> Scouting:
    handoff = Handoff(files=tuple(FileRef(path=path) for path in files))
    return Scouting(
        handoff=handoff,
        text=render(handoff),
        seconds=2,
        searcher="seven-b",
        stop=stop,
        cost_usd=total(costs),
        receipts=receipts("scout", costs),
        paid_by=paid_by,
    )


def gated(verdict: Verdict, *files: str) -> GatedHandoff:
    handoff = Handoff(files=tuple(FileRef(path=path) for path in files), notes=f"The gate said {verdict}.")
    return GatedHandoff(
        verdict=verdict,
        kept=verdict in KEPT,
        materialized=False,
        reason="",
        evidence=Evidence(),
        handoff=handoff,
        text=render(handoff),
    )


def chose(fixer: str, *others: str) -> Decision:
    candidates = tuple(
        Candidate(fixer=name, p_solve=0.5, expected_cost_usd=Decimal(1), reason="") for name in (fixer, *others)
    )
    return Decision(fixer=fixer, theta=0.3, degraded=False, fallback=False, reason="", candidates=candidates)


def _gives(result: Result) -> Callable[..., Awaitable[Result]]:
    async def stage(*args: object) -> Result:
        return result

    return stage


def row(task_id: str, *files: str, repo: str = "/home/me/larder") -> TaskRow:
    gold = Gold(patch="", files=files) if files else None
    return TaskRow(id=task_id, text="An issue.", repo=repo, base_commit="c" * 40, gold=gold)


NO_SCOUT = Scouting(handoff=Handoff(), text="", seconds=0, searcher="none")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    """make(*arms, tasks=2): an empty batch."""
    opened: list[Made] = []

    def open_one(*arms: str, tasks: int = 2) -> Made:
        opened.append(Made(tmp_path / "out", arms, tasks))
        return opened[-1]

    yield open_one
    for one in opened:
        one.ledger.close()


async def test_an_arm_is_told_by_what_became_of_its_tasks(make: Callable[..., Made]) -> None:
    made = make("solo/a", tasks=7)
    await made.run("t1", "solo/a", [tried("passed", costs=["0.10", "0.20"])])
    await made.run("t2", "solo/a", [tried("failed", costs=["0.50"])])
    await made.run("t3", "solo/a", [tried("unverified", costs=["0.05"])])
    await made.run("t4", "solo/a", [tried("no_patch", patch="", stop="endpoint")])
    await made.run("t5", "solo/a", [tried("passed", costs=["1"])], close=False)
    (arm,) = made.summary().arms
    assert (arm.tasks, arm.done, arm.infrastructure, arm.not_run, arm.begun) == (7, 3, 1, 3, 1)
    assert arm.outcomes == {"infrastructure": 1, "not_solved": 1, "solved": 1, "unverified": 1}
    assert (arm.solved.count, arm.solved.of) == (1, 3)
    assert (arm.solved.low, arm.solved.high) == wilson(1, 3)
    assert arm.graded is None
    assert arm.paid.usd == arm.alone_usd == Decimal("1.85")  # the run in progress has paid, too
    assert arm.usd_a_task == Decimal("0.2833333333") and arm.usd_a_solve == Decimal("0.85")
    assert arm.paid.calls == 5


async def test_it_is_written_and_reads_back_the_same(make: Callable[..., Made]) -> None:
    made = make("handoff/routed", "solo/a")
    await made.run("t1", "handoff/routed", [tried(costs=["0.1234567891"])], scouting=scouted("x.py", costs=["0.01"]))
    await made.run("t1", "solo/a", [tried(costs=["0.3"])])
    problem = UnusableRow("tasks.jsonl:3", "t9", "the commit is missing.")
    key = "sk-proj-A1b2C3d4E5f6G7h8I9j0"
    summary = made.summary(problems=[problem], command=f"scrout batch run tasks.jsonl -c key={key}")
    assert summary.problems == (problem,) and summary.batch == made.batch
    assert key not in made.folder.summary.read_text()
    assert Summary.model_validate(json.loads(made.folder.summary.read_text())) == summary
    before = made.folder.summary.read_bytes()
    made.summary(problems=[problem], command=f"scrout batch run tasks.jsonl -c key={key}")
    assert made.folder.summary.read_bytes() == before


async def test_shared_scouting_is_paid_once_and_counts_for_each_arm_alone(make: Callable[..., Made]) -> None:
    made = make("handoff/a", "passthrough/a", "solo/a")
    for task in ("t1", "t2"):
        first = await made.run(task, "handoff/a", [tried(costs=["0.30"])], scouting=scouted(costs=["0.04", "0.01"]))
        await made.run(task, "passthrough/a", [tried(costs=["0.40"])], scouting=scouted(paid_by=first))
        await made.run(task, "solo/a", [tried(costs=["0.60"])])
    summary = made.summary()
    handoff, passthrough, solo = summary.arms
    assert [arm.paid.usd for arm in summary.arms] == [Decimal("0.70"), Decimal("0.80"), Decimal("1.20")]
    assert [arm.alone_usd for arm in summary.arms] == [Decimal("0.70"), Decimal("0.90"), Decimal("1.20")]
    assert summary.costs.usd == Decimal("2.70") == made.ledger.spent_usd(made.batch.id)
    assert passthrough.shared_usd == Decimal("0.10") and passthrough.usd_a_task == Decimal("0.45")
    assert handoff.paid.by_component["scout"] == Decimal("0.10") == summary.costs.by_component["scout"]
    assert passthrough.paid.by_component["scout"] == 0 and solo.paid.by_component["fix"] == Decimal("1.20")
    assert passthrough.seconds >= 4  # what the scouting took that it used


async def test_a_run_made_again_uses_its_own_arms_scouting_and_pays_for_both_fixes(make: Callable[..., Made]) -> None:
    made = make("handoff/a", tasks=1)
    failed = [tried("no_patch", patch="", stop="endpoint", costs=["0.20"])]
    first = await made.run("t1", "handoff/a", failed, scouting=scouted(costs=["0.05"]))
    await made.run("t1", "handoff/a", [tried(costs=["0.30"])], scouting=scouted(paid_by=first))
    (arm,) = made.summary().arms
    assert (arm.done, arm.infrastructure, arm.solved.count) == (1, 0, 1)
    assert arm.alone_usd == arm.paid.usd == arm.usd_a_task == Decimal("0.55") and arm.shared_usd == 0
    assert arm.paid.lost_usd == Decimal("0.20")


async def test_what_a_cut_off_step_paid_is_counted_and_told(make: Callable[..., Made]) -> None:
    made = make("solo/a", tasks=1)
    await made.cut_off("t1", "solo/a", ["0.15", "0.05"])
    summary = made.summary()
    assert summary.arms[0].begun == 1
    assert summary.costs.usd == summary.costs.lost_usd == Decimal("0.20") == made.ledger.spent_usd(made.batch.id)
    await made.run("t1", "solo/a", [tried(costs=["1"])])
    summary = made.summary()
    assert summary.arms[0].usd_a_task == Decimal("1.20") == made.ledger.spent_usd(made.batch.id)
    assert summary.costs.lost_usd == Decimal("0.20")


async def test_an_unknown_price_makes_unknown_what_it_is_in_and_nothing_else(make: Callable[..., Made]) -> None:
    made = make("solo/a", "solo/b")
    await made.run("t1", "solo/a", [tried(costs=["0.10", None])], repo="/src/one")
    await made.run("t2", "solo/a", [tried(costs=["0.10"])], repo="/src/two")
    await made.run("t1", "solo/b", [tried(costs=["0.10"])])
    summary = made.summary()
    unknown, known = summary.arms
    assert unknown.alone_usd is unknown.usd_a_task is unknown.usd_a_solve is unknown.usd_a_task_interval is None
    assert (unknown.paid.known_usd, unknown.paid.unpriced_calls) == (Decimal("0.20"), 1)
    assert [(place.repository, place.cost_usd) for place in unknown.repositories] == [
        ("one", None),
        ("two", Decimal("0.10")),
    ]
    assert known.alone_usd == Decimal("0.10")
    assert summary.costs.usd is None and summary.costs.known_usd == made.ledger.spent_usd(made.batch.id)


async def test_every_form_of_a_cost_is_the_total_of_receipts(make: Callable[..., Made]) -> None:
    made = make("handoff/a", "passthrough/a", "solo/a", tasks=1)
    first = await made.run("t1", "handoff/a", [tried(costs=["0.30", "0.10"])], scouting=scouted(costs=["0.05"]))
    await made.cut_off("t1", "passthrough/a", ["0.15", "0.02"])
    await made.run("t1", "passthrough/a", [tried(costs=["1"])], scouting=scouted(paid_by=first))
    await made.run("t1", "solo/a", [tried(costs=["0.5", None])])
    ledger, summary = made.ledger, made.summary()
    by_arm: dict[str, list[Decimal | None]] = {}
    for run in ledger.runs(batch=made.batch.id):
        booked = [receipt.cost_usd for receipt in ledger.receipts(run.id)]
        assert run.cost_usd == total_usd(booked) == ledger.derive(run.id).cost_usd
        assert ledger.paid_usd(run.id) == known_usd(booked)
        by_arm.setdefault(run.arm, []).extend(booked)
    for arm in summary.arms:
        assert (arm.paid.usd, arm.paid.known_usd) == (total_usd(by_arm[arm.arm]), known_usd(by_arm[arm.arm]))
    every = [cost for costs in by_arm.values() for cost in costs]
    assert (summary.costs.usd, summary.costs.known_usd) == (None, known_usd(every))
    assert ledger.spent_usd(made.batch.id) == known_usd(every) == Decimal("2.12")


async def test_grades_judge_patches_and_leave_infrastructure_out(make: Callable[..., Made]) -> None:
    made = make("solo/a", "solo/b", tasks=5)
    for number in range(1, 5):
        await made.run(f"t{number}", "solo/a", [tried("unverified", patch=f"patch {number}", costs=["0.5"])])
    await made.run("t5", "solo/a", [tried("no_patch", patch="", stop="endpoint")])
    await made.run("t1", "solo/b", [tried("passed", patch="patch 1")])  # the same patch: the same grade
    made.grade("t1", "patch 1", "unresolved")
    made.grade("t1", "patch 1", "resolved")  # the newest counts
    made.grade("t2", "patch 2", "does_not_apply")
    made.grade("t3", "patch 3", "infrastructure")
    made.grade("t4", "a former patch", "resolved")
    made.grade("t5", "", "empty_patch")
    with made.folder.grades.open("a") as file:
        file.write('not JSON\n\n[1]\n{"id": "t4", "verdict": 3, "arm": "solo/a"}\n{"id": "t9", "verd')
    summary = made.summary()
    assert summary.unreadable_grades == 4
    one, other = summary.arms
    assert one.graded is not None and other.graded is not None
    assert (one.graded.resolved.count, one.graded.resolved.of, one.graded.infrastructure) == (1, 2, 1)
    assert one.graded.verdicts == {"does_not_apply": 1, "infrastructure": 1, "resolved": 1}
    assert one.usd_a_resolve == Decimal(1)
    assert (other.graded.resolved.count, other.graded.resolved.of) == (1, 1)
    assert (one.solved.count, other.solved.count) == (0, 1)


async def test_a_grade_that_names_an_arm_and_no_patch_is_read(make: Callable[..., Made]) -> None:
    made = make("solo/a", "solo/b", tasks=1)
    await made.run("t1", "solo/a", [tried()])
    await made.run("t1", "solo/b", [tried()])
    made.folder.grades.write_text('{"id": "t1", "arm": "solo/b", "verdict": "resolved"}\n')
    one, other = made.summary().arms
    assert one.graded is None and other.graded is not None and other.graded.resolved.count == 1


async def test_a_rescue_is_a_solve_by_the_attempt_that_hit_the_cap(make: Callable[..., Made]) -> None:
    made = make("solo/a", tasks=5)
    await made.run("t1", "solo/a", [tried("passed", stop="cap_calls", patch="1")])
    await made.run("t2", "solo/a", [tried("failed", stop="cap_calls", patch="2")])
    await made.run("t3", "solo/a", [tried("failed", stop="cap_usd", patch="3"), tried("passed", fixer="b", patch="3b")])
    await made.run("t4", "solo/a", [tried("unverified", stop="timeout", patch="4")])
    await made.run("t5", "solo/a", [tried("passed", patch="5")])
    (arm,) = made.summary().arms
    assert {cap.stop: (cap.hit, cap.rescued, cap.rescued_by_grade) for cap in arm.caps} == {
        "cap_calls": (2, 1, None),
        "cap_usd": (1, 0, None),
        "timeout": (1, 0, None),
    }
    assert arm.escalated == 1
    made.grade("t4", "4", "resolved")
    (arm,) = made.summary().arms
    assert [cap.rescued_by_grade for cap in arm.caps] == [0, 0, 1]


async def test_forced_handoffs_are_never_pooled_with_others(make: Callable[..., Made]) -> None:
    made = make("handoff/a", "solo/a", tasks=5)
    for task, stop, verdict in (
        ("t1", "finished", "real_failure"),
        ("t2", "finished", "passed"),
        ("t3", "forced", "passed"),
        ("t4", "malformed", "no_repro"),
        ("t5", "finished", "passed"),
    ):
        named = ("x.py", "y.py") if task != "t2" else ("z.py",)
        await made.run(task, "handoff/a", [tried()], scouting=scouted(*named, stop=stop), gated=gated(verdict))
        await made.run(task, "solo/a", [tried()], scouting=NO_SCOUT, gated=gated("no_repro"))
    rows = [row("t1", "x.py"), row("t2", "x.py"), row("t3", "x.py", "q.py"), row("t4"), row("t5", "x.py", "y.py")]
    handoff, solo = made.summary(rows=rows).arms
    assert [(one.kind, one.handoffs, one.kept, one.verdicts) for one in handoff.census] == [
        ("spontaneous", 3, 1, {"passed": 2, "real_failure": 1}),
        ("forced", 1, 0, {"passed": 1}),
        ("none", 1, 0, {"no_repro": 1}),
    ]
    spontaneous, forced = handoff.localization  # the answer of t4 is not known
    assert (spontaneous.tasks, spontaneous.recall, spontaneous.precision) == (3, pytest.approx(2 / 3), 0.5)
    assert (spontaneous.all_gold.count, spontaneous.files) == (2, pytest.approx(5 / 3))
    assert (forced.tasks, forced.recall, forced.precision, forced.all_gold.count) == (1, 0.5, 0.5, 0)
    assert handoff.scout_stops == {"finished": 3, "forced": 1, "malformed": 1}
    assert solo.census == solo.localization == () and solo.scout_stops == {}


async def test_who_was_chosen_and_a_router_that_is_a_constant(make: Callable[..., Made]) -> None:
    made = make("handoff/routed", "handoff/a")
    for task in ("t1", "t2"):
        await made.run(task, "handoff/routed", [tried(fixer="b")], decision=chose("b", "a"))
        await made.run(task, "handoff/a", [tried("failed")], decision=chose("a"))
    routed, fixed = made.summary().arms
    assert [(use.fixer, use.chosen, use.attempts, use.solved) for use in routed.fixers] == [("b", 2, 2, 2)]
    assert [(use.fixer, use.chosen, use.attempts, use.solved) for use in fixed.fixers] == [("a", 2, 2, 0)]
    assert routed.constant and not fixed.constant
    await made.run("t3", "handoff/routed", [tried(fixer="a")], decision=chose("a", "b"))
    assert not made.summary().arms[0].constant


async def test_a_saving_is_told_beside_the_baselines_that_there_are(make: Callable[..., Made]) -> None:
    made = make("handoff/routed", "handoff/cheap", "solo/cheap", "solo/strong", tasks=5)
    solved = {"handoff/routed": "123", "handoff/cheap": "12", "solo/cheap": "1", "solo/strong": "124"}
    usd = {"handoff/routed": "0.40", "handoff/cheap": "0.15", "solo/cheap": "0.10", "solo/strong": "1.00"}
    for number in "1234":
        for arm in solved:
            await made.run(
                f"t{number}", arm, [tried("passed" if number in solved[arm] else "failed", costs=[usd[arm]])]
            )
    await made.run("t5", "handoff/routed", [tried(costs=["9"])])  # not done by the others: it must not count
    comparisons = made.summary().comparisons
    found = [one for one in comparisons if one.arm == "handoff/routed"]
    assert [(one.baseline, one.baseline_arm, one.tasks, one.judged_by) for one in found] == [
        ("cheapest alone", "solo/cheap", 4, "check"),
        ("strongest alone", "solo/strong", 4, "check"),
        ("cheapest with handoff", "handoff/cheap", 4, "check"),
    ]
    strongest = found[1]
    assert (strongest.usd_a_task, strongest.baseline_usd_a_task) == (Decimal("0.40"), Decimal(1))
    assert strongest.saved == pytest.approx(0.6)
    assert (strongest.solved, strongest.baseline_solved, strongest.only_arm, strongest.only_baseline) == (3, 3, 1, 1)
    # A third of the way from the cheap one (1 of 4) to the strong one (3 of 4).
    assert strongest.mix == pytest.approx(0.25 + 0.5 / 3)
    # A solo arm is a baseline and has none; a routed one is no baseline.
    assert {(one.arm, one.baseline_arm) for one in comparisons if one not in found} == {
        ("handoff/cheap", "solo/cheap"),
        ("handoff/cheap", "solo/strong"),
    }


async def test_without_a_fixer_alone_no_saving_is_claimed(make: Callable[..., Made]) -> None:
    made = make("handoff/routed")
    await made.run("t1", "handoff/routed", [tried()])
    assert made.summary().comparisons == ()


async def test_an_empty_batch_and_runs_of_others(make: Callable[..., Made]) -> None:
    made = make("solo/a", "solo/b")
    stranger = Task(id="t1", text="An issue.", repo=Path("/home/me/larder"), base_commit="c" * 40)
    made.ledger.open(stranger, "settings-digest", sandbox="none", environment="none", batch="another", arm="solo/a")
    summary = made.summary()
    assert [(arm.arm, arm.done, arm.not_run, arm.solved.rate) for arm in summary.arms] == [
        ("solo/a", 0, 2, None),
        ("solo/b", 0, 2, None),
    ]
    assert summary.costs.usd == 0 and summary.comparisons == ()


async def test_repositories_by_the_names_of_the_task_file(make: Callable[..., Made]) -> None:
    made = make("solo/a", tasks=3)
    await made.run("t1", "solo/a", [tried()])
    await made.run("t2", "solo/a", [tried("failed")])
    await made.run("t3", "solo/a", [tried()])
    rows = [row("t1", repo="pallets/click"), row("t2", repo="pallets/click"), row("t3", repo="/src/flask")]
    (arm,) = made.summary(rows=rows).arms
    assert [(place.repository, place.done, place.solved) for place in arm.repositories] == [
        ("flask", 1, 1),
        ("pallets/click", 2, 1),
    ]


CALLS = st.lists(
    st.one_of(st.none(), st.decimals(min_value=0, max_value=2, places=10, allow_nan=False).map(str)), max_size=4
)


@given(data=st.data())
async def test_receipts_sum_to_what_the_ledger_says_was_spent(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arms = ("handoff/a", "passthrough/a", "solo/a")
    made = Made(tmp_path_factory.mktemp("batch") / "out", arms, 3)
    payers: dict[str, str] = {}
    for number in range(data.draw(st.integers(0, 6))):
        task, arm = f"t{number % 3}", data.draw(st.sampled_from(arms))
        if data.draw(st.booleans()):
            await made.cut_off(task, arm, data.draw(CALLS))
        known = [cost for cost in data.draw(CALLS) if cost is not None]
        scouting = scouted(paid_by=payers[task]) if task in payers else scouted(costs=known)
        tries = [tried(fixer=str(at), costs=data.draw(CALLS)) for at in range(data.draw(st.integers(0, 2)))]
        run = await made.run(task, arm, tries, scouting=scouting, close=data.draw(st.booleans()))
        payers.setdefault(task, run)
    summary = made.summary()
    spent = made.ledger.spent_usd(made.batch.id)
    made.ledger.close()
    assert summary.costs.known_usd == spent
    assert sum((arm.paid.known_usd for arm in summary.arms), Decimal(0)) == spent
    assert sum(summary.costs.by_component.values(), Decimal(0)) == spent
    assert all(_alone(arm) >= arm.paid.known_usd for arm in summary.arms)


def _alone(arm: ArmResult) -> Decimal:
    return arm.paid.known_usd + arm.shared_usd
