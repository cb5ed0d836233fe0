"""Runs the jobs of a batch, many at once, within one budget. || All results are in the ledger, so a killed batch
continues from there.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Protocol

from scrout.batch.jobs import BatchJob, JobResult
from scrout.money import Budget, BudgetExceeded
from scrout.text import usd

PAUSES_S = (5.0, 30.0)
"""Wait before each retry of a job that infrastructure failed."""
MOST_IN_A_ROW = 20
"""After this many consecutive infrastructure failures, stop: it is down, and the remaining jobs would fail too."""


class Worker(Protocol):
    """Runs jobs: in this process, or on a cluster."""

    async def run(self, job: BatchJob, known: str, say: Callable[[str], None]) -> JobResult:
        """Try a job once. `known` is a run that has scouted the task; empty: none. Raises only for a bug."""


@dataclass
class BatchProgress:
    total: int
    """All jobs, those of earlier sessions included."""
    before: int = 0
    """Jobs that earlier sessions finished."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Duration of finished jobs, in all sessions."""
    retried: int = 0
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why a job could not run or finish, by task and arm; never the fixer's fault."""
    running: dict[tuple[str, str], str] = field(default_factory=dict)
    """Each job's current status, by task and arm."""
    stopped: str = ""
    began: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())

    @property
    def per_minute(self) -> float:
        seconds = time.monotonic() - self.began
        return 60 * (self.done - self.before) / seconds if seconds > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """None: unknown yet."""
        rate = self.per_minute
        return None if rate == 0 else 60 * (self.total - self.done) / rate


class Runner:
    """One session of a batch: call `run` once. `finish` lets running jobs end; cancelling abandons them."""

    def __init__(
        self,
        jobs: Sequence[BatchJob],
        worker: Worker,
        budget: Budget,
        worst_usd: Callable[[BatchJob], Decimal],
        *,
        at_once: int,
        ended: Mapping[tuple[str, str], str] | None = None,
        known: Mapping[str, str] | None = None,
        watch: Callable[[BatchJob, JobResult], None] = lambda job, ended: None,
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        ended = ended or {}
        self.progress = BatchProgress(len(jobs), len(ended), Counter(ended.values()))
        self.budget = budget
        self._worker = worker
        self._worst_usd = worst_usd
        self._at_once = at_once
        self._watch = watch
        self._pauses_s = pauses_s
        self._known = dict(known or {})
        """By task, a run that has scouted it."""
        pending = [job for job in jobs if job.key not in ended]
        self._waiting = {task: deque(group) for task, group in groupby(pending, key=lambda job: job.row.id)}
        """Each task's waiting jobs: one job scouts, and the others wait for its result."""
        self._tasks = iter(list(self._waiting))
        self._ready: deque[BatchJob] = deque()
        self._tries: Counter[tuple[str, str]] = Counter()
        self._in_a_row = 0
        self._changed = asyncio.Condition()
        self._finishing = False

    def finish(self, why: str) -> None:
        self._finishing = True
        self.progress.stopped = self.progress.stopped or why

    async def run(self) -> BatchProgress:
        """Run until no job is left, or none may start."""
        async with asyncio.TaskGroup() as slots:
            for _ in range(min(self._at_once, self.progress.total)):
                slots.create_task(self._slot())
        return self.progress

    async def _slot(self) -> None:
        while (taken := await self._take()) is not None:
            job, held = taken
            ended = JobResult("interrupted", paid_usd=None)
            try:
                ended = await self._worker.run(job, self._known.get(job.row.id, ""), partial(self._hear, job))
            finally:
                self.budget.settle(held, held if ended.paid_usd is None else ended.paid_usd)
            if ended.scouted:  # also from a try that failed later: the next one need not scout, nor pay, again
                self._known.setdefault(job.row.id, ended.run)
            if self._may_try_again(job, ended):
                self._hear(job, f"to be tried again: {ended.detail}")
                await asyncio.sleep(self._pauses_s[self._tries[job.key] - 1])
                self._ready.append(job)
            else:
                self._count(job, ended)
            async with self._changed:
                # Not earlier: a slot ends if it sees nothing running and nothing ready.
                del self.progress.running[job.key]
                self._changed.notify_all()

    async def _take(self) -> tuple[BatchJob, Decimal] | None:
        """The next job, with its worst case reserved; None: none is left, or none fits into the budget."""
        async with self._changed:
            while not self._finishing:
                job = self._next()
                if job is not None:
                    try:
                        held = self.budget.reserve(self._worst_usd(job))
                    except BudgetExceeded:
                        self._ready.appendleft(job)
                        if not self.progress.running:
                            self.finish(
                                f"{usd(self.budget.remaining_usd)} are left of the total, and a job may cost more"
                            )
                    else:
                        self.progress.running[job.key] = ""
                        return job, held
                if not self.progress.running:
                    break
                await self._changed.wait()
            self._changed.notify_all()
            return None

    def _next(self) -> BatchJob | None:
        while not self._ready:
            task = next(self._tasks, None)
            if task is None:
                return None
            self._release(task)
        return self._ready.popleft()

    def _release(self, task: str) -> None:
        """Let a task's jobs start: all, or only the first if the others may still share its scouting."""
        waiting = self._waiting[task]
        while waiting:
            job = waiting.popleft()
            self._ready.append(job)
            if job.scouts and task not in self._known:
                break

    def _may_try_again(self, job: BatchJob, ended: JobResult) -> bool:
        if ended.lasting:  # this says nothing about the infrastructure
            return False
        self._in_a_row = self._in_a_row + 1 if ended.is_infrastructure else 0
        if self._in_a_row >= MOST_IN_A_ROW:
            self.finish(f"{self._in_a_row} tries in a row failed for reasons outside of the fixers: {ended.detail}")
        again = ended.is_infrastructure and self._tries[job.key] < len(self._pauses_s) and not self._finishing
        if again:
            self._tries[job.key] += 1
            self.progress.retried += 1
        return again

    def _count(self, job: BatchJob, ended: JobResult) -> None:
        self.progress.outcomes[ended.outcome] += 1
        if ended.is_infrastructure:
            self.progress.failures[job.key] = ended.detail
        self._release(job.row.id)
        self._watch(job, ended)

    def _hear(self, job: BatchJob, words: str) -> None:
        self.progress.running[job.key] = words
