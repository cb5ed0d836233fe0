"""One session of a batch: opens its folder and ledger, finds the finished jobs, runs the rest, and writes the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from scrout import __version__, telemetry
from scrout.base import ConfigError, TaskError
from scrout.batch.folder import Batch, BatchFolder
from scrout.batch.jobs import BatchJob, JobResult, jobs_of, refuse_unbounded
from scrout.batch.runner import Runner, Worker
from scrout.batch.tasks import Repositories, TaskFile
from scrout.config.settings import Settings, read_key
from scrout.files import lock_folder
from scrout.fix.pool import refuse_unpriced
from scrout.ledger.opening import open_ledger
from scrout.ledger.store import Ledger
from scrout.money import Budget
from scrout.records import Arm
from scrout.sandbox.probe import require_tier

if TYPE_CHECKING:
    from scrout.batch.outputs.summary import Summary


@dataclass(frozen=True)
class BatchSession:
    batch: Batch
    folder: BatchFolder
    settings: Settings
    ledger: Ledger
    tasks: TaskFile
    jobs: tuple[BatchJob, ...]
    budget: Budget
    worker: Worker

    def runner(self, at_once: int, watch: Callable[[BatchJob, JobResult], None] = lambda job, ended: None) -> Runner:
        """A runner for the unfinished jobs. Jobs that infrastructure failed are retried."""
        ended: dict[tuple[str, str], str] = {}
        scouting: dict[str, list[str]] = {}
        for run in self.ledger.runs_of(self.batch.id):
            if run.finished is not None and run.outcome != "infrastructure":
                ended[run.task.id, run.arm] = run.outcome
            if not run.arm.startswith("solo/"):
                scouting.setdefault(run.task.id, []).append(run.id)

        def ended_aloud(job: BatchJob, end: JobResult) -> None:
            if end.run:
                self.folder.note(end.run)
            watch(job, end)

        left = {job.row.id for job in self.jobs if job.key not in ended}
        known = {task: found for task in left & scouting.keys() if (found := self._scouted(scouting[task]))}
        return Runner(
            self.jobs,
            self.worker,
            self.budget,
            lambda job: job.worst_usd(self.settings),
            at_once=at_once,
            ended=ended,
            known=known,
            watch=ended_aloud,
        )

    def write(self, command: str = "") -> Summary:
        """Write the current predictions, handoffs, summary and report."""
        from scrout.batch.outputs.predictions import write_predictions
        from scrout.batch.outputs.report import write_report
        from scrout.batch.outputs.summary import summarize

        rows = self.tasks.rows
        write_predictions(self.folder, self.batch, self.ledger, [row.id for row in rows])
        summary = summarize(self.folder, self.batch, self.ledger, self.tasks.problems, rows, command)
        write_report(self.folder, summary)
        return summary

    def _scouted(self, runs: Sequence[str]) -> str:
        """The first of a task's runs whose scouting others can reuse; empty: none."""
        for run_id in runs:
            found = self.ledger.run(run_id).scouting
            if found is not None and found.stop != "endpoint":
                return run_id
        return ""


@contextmanager
def open_session(
    tasks: TaskFile,
    out: Path,
    settings: Settings,
    *,
    arms: Sequence[Arm] = ("handoff",),
    fixers: Sequence[str] = (),
    cap_usd: Decimal | None = None,
    repositories: Repositories | None = None,
    ray: str = "",
    start_over: bool = False,
) -> Iterator[BatchSession]:
    """Start a batch in `out`, or continue the existing one, unless it should start over."""
    if not tasks.rows:
        raise TaskError(
            f"none of the {len(tasks.problems)} rows is a valid task. The first problem: {tasks.problems[0].words}"
        )
    for fixer in [settings.fixer(name) for name in fixers] or settings.fixers:
        if read_key(fixer.key_env) == "":
            raise ConfigError(f"fixer {fixer.name!r} needs a key: the variable {fixer.key_env} is not set. Export it.")
    refuse_unpriced(settings)
    refuse_unbounded(settings, cap_usd)
    telemetry.require(settings)
    tier = require_tier(settings.sandbox)
    folder = BatchFolder(out)
    with lock_folder(folder.path):
        jobs = tuple(jobs_of(tasks.rows, arms, fixers))
        labels = tuple(dict.fromkeys(job.label for job in jobs))
        if start_over:
            folder.set_aside()
        batch = folder.begin(settings.digest(), tasks.digest, len(tasks.rows), labels, __version__)
        settings = kept_in(settings, folder)
        with open_ledger(settings, folder.attempts) as book:
            folder.must_be_in(book, batch)
            budget = Budget(cap_usd, None)
            budget.spent_usd = book.spent_usd(batch.id)
            where = repositories or Repositories(())
            if ray:
                from scrout.batch.ray_worker import RayWorker

                with RayWorker(ray, batch, folder, settings, where) as cluster:
                    yield BatchSession(batch, folder, settings, book, tasks, jobs, budget, cluster)
            else:
                from scrout.batch.local_worker import LocalWorker

                worker = LocalWorker(batch, folder, settings, book, where, tier)
                yield BatchSession(batch, folder, settings, book, tasks, jobs, budget, worker)


def kept_in(settings: Settings, folder: BatchFolder) -> Settings:
    """A batch's ledger is in its folder unless the settings name one."""
    named = settings.ledger
    if named.path:
        return settings
    # Copy an address from this machine's environment into the settings: other machines of a cluster have another
    # environment.
    place = {"url": SecretStr(named.address)} if named.address else {"path": str(folder.ledger)}
    own = named.model_copy(update=place)
    return settings.model_copy(update={"ledger": own})
