"""How the jobs of a batch are scheduled. The worker is a stand-in; what real ones do is in test_session.py."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.batch.jobs import BatchJob, JobResult, jobs_of
from scrout.batch.runner import MOST_IN_A_ROW, Runner
from scrout.batch.tasks import TaskRow
from scrout.money import Budget

Play = Callable[[BatchJob], JobResult]


class Worker:
    """Plays what it is told to, and keeps the order of what happened."""

    def __init__(self, play: Play, seed: int = 0) -> None:
        self.play = play
        self.random = random.Random(seed)
        self.events: list[tuple[str, tuple[str, str], str]] = []
        self.running = self.most = 0

    async def run(self, job: BatchJob, known: str, say: Callable[[str], None]) -> JobResult:
        self.events.append(("began", job.key, known))
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(self.random.randint(1, 5)):
            await asyncio.sleep(0)
        self.running -= 1
        ended = self.play(job)
        self.events.append(("ended", job.key, ended.outcome))
        return ended

    @property
    def began(self) -> list[tuple[str, str]]:
        return [key for what, key, _ in self.events if what == "began"]


def rows(number: int) -> list[TaskRow]:
    return [TaskRow(id=f"t{n}", text="something is wrong", repo="repo", base_commit="0" * 40) for n in range(number)]


def solved(job: BatchJob) -> JobResult:
    return JobResult("solved", run=f"run of {job.row.id} {job.label}", paid_usd=Decimal("0.10"), scouted=job.scouts)


def runner(
    jobs: Iterable[BatchJob],
    worker: Worker,
    *,
    cap_usd: Decimal | None = None,
    worst: str = "0.50",
    at_once: int = 4,
    ended: dict[tuple[str, str], str] | None = None,
    known: dict[str, str] | None = None,
) -> Runner:
    budget = Budget(cap_usd, None)
    return Runner(
        list(jobs),
        worker,
        budget,
        lambda job: Decimal(worst),
        at_once=at_once,
        ended=ended,
        known=known,
        pauses_s=(0.0, 0.0),
    )


async def test_every_job_is_run_once() -> None:
    jobs = jobs_of(rows(20), ("solo", "handoff", "passthrough"), ("a", "b"))
    worker = Worker(solved)
    progress = await runner(jobs, worker, at_once=7).run()
    assert Counter(worker.began) == Counter(job.key for job in jobs) and len(jobs) == 120
    assert progress.done == progress.total == 120 and progress.outcomes == {"solved": 120} and not progress.stopped
    assert worker.most == 7


async def test_one_job_scouts_and_the_others_of_its_task_take_over() -> None:
    worker = Worker(solved)
    await runner(jobs_of(rows(5), ("solo", "handoff", "passthrough"), ("a", "b")), worker, at_once=16).run()
    for task in ("t0", "t3"):
        of_task = [(what, key[1], known) for what, key, known in worker.events if key[0] == task and what == "began"]
        assert of_task[0] == ("began", "handoff/a", "")
        scouting_ended = worker.events.index(("ended", (task, "handoff/a"), "solved"))
        for _, label, known in of_task[1:]:
            assert known == f"run of {task} handoff/a"
            (began,) = [n for n, event in enumerate(worker.events) if event[:2] == ("began", (task, label))]
            assert began > scouting_ended


async def test_when_the_first_could_not_scout_the_next_one_does() -> None:
    def play(job: BatchJob) -> JobResult:
        return JobResult("failed", detail="no such commit") if job.label == "handoff/a" else solved(job)

    worker = Worker(play)
    progress = await runner(jobs_of(rows(1), ("handoff",), ("a", "b", "c")), worker).run()
    knowns = {key[1]: known for what, key, known in worker.events if what == "began"}
    assert knowns == {"handoff/a": "", "handoff/b": "", "handoff/c": "run of t0 handoff/b"}
    assert progress.failures == {("t0", "handoff/a"): "no such commit"} and progress.retried == 2


async def test_what_is_done_is_not_done_again() -> None:
    jobs = jobs_of(rows(3), ("handoff", "solo"), ("a",))
    worker = Worker(solved)
    done = {("t0", "handoff/a"): "solved", ("t0", "solo/a"): "not_solved", ("t1", "handoff/a"): "solved"}
    progress = await runner(jobs, worker, ended=done, known={"t1": "an old run"}).run()
    assert sorted(worker.began) == [("t1", "solo/a"), ("t2", "handoff/a"), ("t2", "solo/a")]
    assert progress.done == 6 and progress.before == 3 and progress.outcomes == {"solved": 5, "not_solved": 1}
    assert ("began", ("t1", "solo/a"), "an old run") in worker.events


async def test_infrastructure_is_tried_again_with_bounds() -> None:
    tries: Counter[str] = Counter()

    def play(job: BatchJob) -> JobResult:
        tries[job.row.id] += 1
        if job.row.id == "t0" or tries[job.row.id] < 2:
            return JobResult("infrastructure", detail="the endpoint is down", paid_usd=Decimal("0.01"))
        return solved(job)

    made = runner(jobs_of(rows(3), ("solo",), ("a",)), Worker(play))
    progress = await made.run()
    assert tries == {"t0": 3, "t1": 2, "t2": 2}
    assert progress.outcomes == {"solved": 2, "infrastructure": 1} and progress.retried == 4
    assert made.budget.spent_usd == Decimal("0.25") and made.budget.held_usd == 0


async def test_where_everything_fails_it_stops() -> None:
    worker = Worker(lambda job: JobResult("infrastructure", detail="connection refused"))
    progress = await runner(jobs_of(rows(500), ("solo",), ("a",)), worker).run()
    assert "connection refused" in progress.stopped and MOST_IN_A_ROW <= len(worker.began) < MOST_IN_A_ROW + 10


async def test_rows_that_no_second_try_can_mend_are_tried_once_and_stop_nothing() -> None:
    worker = Worker(lambda job: JobResult("failed", detail="no such commit", lasting=True))
    progress = await runner(jobs_of(rows(3 * MOST_IN_A_ROW), ("solo",), ("a",)), worker).run()
    assert len(worker.began) == len(progress.failures) == 3 * MOST_IN_A_ROW
    assert not progress.retried and not progress.stopped


async def test_failures_that_are_not_in_a_row_do_not_stop_it() -> None:
    turn = iter(range(10_000))

    def play(job: BatchJob) -> JobResult:
        return solved(job) if next(turn) % 5 == 0 else JobResult("infrastructure")

    progress = await runner(jobs_of(rows(100), ("solo",), ("a",)), Worker(play), at_once=1).run()
    assert not progress.stopped and progress.done == 100


@given(st.integers(0, 2**32), st.integers(1, 64), st.integers(0, 500), st.integers(1, 50))
def test_the_total_is_never_passed(seed: int, at_once: int, cap_cents: int, worst_cents: int) -> None:
    """Whatever a job costs up to its own cap, and however many run at once."""
    draw = random.Random(seed)
    cap_usd, worst = Decimal(cap_cents) / 100, Decimal(worst_cents) / 100
    committed: list[Decimal] = []

    def play(job: BatchJob) -> JobResult:
        paid = worst * Decimal(draw.randint(0, 100)) / 100
        # Half of those that die cannot say what they paid, and may have paid all of it.
        outcome, unknown = draw.choice((("solved", False), ("failed", True), ("infrastructure", False)))
        assert made.budget.spent_usd + made.budget.held_usd <= cap_usd
        committed.append(worst if unknown else paid)
        return JobResult(outcome, paid_usd=None if unknown else paid)  # type: ignore[arg-type]

    worker = Worker(play, seed)
    made = runner(jobs_of(rows(40), ("solo",), ("a",)), worker, cap_usd=cap_usd, worst=str(worst), at_once=at_once)
    progress = asyncio.run(made.run())
    assert made.budget.spent_usd == sum(committed, Decimal(0)) <= cap_usd and made.budget.held_usd == 0
    assert progress.done == 40 or progress.stopped


async def test_a_job_waits_until_the_budget_has_room() -> None:
    made = runner(jobs_of(rows(10), ("solo",), ("a",)), Worker(solved), cap_usd=Decimal("1.45"), at_once=10)
    progress = await made.run()
    # Each holds 50 cents and pays 10: two run at a time, until 50 cents are no longer left.
    assert progress.done == 10 and made.budget.spent_usd == Decimal("1.00")
    progress = await (
        made := runner(jobs_of(rows(10), ("solo",), ("a",)), Worker(solved), cap_usd=Decimal("0.95"))
    ).run()
    assert progress.done == 5 and "$0.45 are left" in progress.stopped


async def test_to_finish_starts_nothing_more() -> None:
    def play(job: BatchJob) -> JobResult:
        made.finish("interrupted")
        return solved(job)

    made = runner(jobs_of(rows(50), ("solo",), ("a",)), Worker(play), at_once=3)
    progress = await made.run()
    assert progress.done == 3 and progress.stopped == "interrupted" and not progress.running


def test_a_name_that_is_given_twice_counts_once() -> None:
    assert len(jobs_of(rows(2), ("solo", "solo"), ("a", "a", "b"))) == 4


async def test_a_bug_is_raised() -> None:
    def play(job: BatchJob) -> JobResult:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await runner(jobs_of(rows(5), ("solo",), ("a",)), Worker(play)).run()
    assert caught.group_contains(ZeroDivisionError)
