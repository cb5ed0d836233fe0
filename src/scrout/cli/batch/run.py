"""`scrout batch run`: many tasks, in one or more arms, resumable and accounted for."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import click

from scrout.batch.jobs import ARMS, BatchJob, JobResult
from scrout.batch.runner import BatchProgress, Runner
from scrout.batch.session import BatchSession, open_session
from scrout.batch.tasks import Repositories, read_tasks
from scrout.cli import options, render
from scrout.cli.run_async import run_async
from scrout.fix.pool import completed
from scrout.money import Budget
from scrout.records import Arm
from scrout.text import duration, usd

INTERRUPTED = 130
SHOW_EVERY_S = 0.5
MOST_SHOWN = 6
"""Maximum number of running jobs to show on a terminal."""


@click.command(name="run")
@click.argument("tasks", metavar="TASKS", type=options.PATH)
@click.option("--out", type=options.PATH, required=True, help="Folder of the batch, new or to continue.")
@click.option("--jobs", "at_once", type=click.IntRange(1, 4096), default=4, show_default=True, help="Tasks at once.")
@click.option("--arms", "arm_names", default="handoff", show_default=True, help=f"Of {', '.join(ARMS)}.")
@click.option("--fixers", "fixer_names", default="", help="Run each arm with each of these fixers.")
@click.option("--cap-usd", type=options.dollars, metavar="USD", help="Budget of the whole batch.")
@click.option("--start-over", is_flag=True, help="Start over, and pay for everything again.")
@options.tasks_repositories
@click.option("--ray", default="", metavar="ADDRESS", help="Run on this Ray cluster; local starts one.")
@options.sandbox
@options.goal
@options.configuration
@options.as_json
def command(
    tasks: Path,
    out: Path,
    at_once: int,
    arm_names: str,
    fixer_names: str,
    cap_usd: Decimal | None,
    start_over: bool,
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    ray: str,
    as_json: bool,
) -> int:
    """Example: scrout batch run tasks.jsonl --out batch --repos clones/ --cap-usd 20

    Run a batch of tasks: scout, gate, route, fix and check each.

    TASKS is a file of tasks (JSONL of scrout's own, SWE-bench or SWE-bench Pro rows as JSON, JSONL or Parquet) or a
    folder of issues on one repository. The same command continues an interrupted batch. Ctrl-C lets the
    running tasks end; a second Ctrl-C abandons them until the next run.
    Exit code 0: every task was run. 1: some could not be run.
    """
    settings = completed(options.read_settings(repo or Path()), render.say)
    found = read_tasks(tasks, repo)
    options.report_unusable(found.problems)
    with open_session(
        found,
        out,
        settings,
        arms=_arms(arm_names),
        fixers=options.names(fixer_names),
        cap_usd=cap_usd,
        repositories=Repositories(repos, repo_url),
        ray=ray,
        start_over=start_over,
    ) as session:
        far = run_async(_drive(session, at_once))
        summary = session.write(" ".join(["scrout", *sys.argv[1:]]))
        # Not the budget's amount, which counts the whole reservation of abandoned jobs.
        spent_usd = session.ledger.spent_usd(session.batch.id)
    _tell_end(far, session, spent_usd)
    if as_json:
        render.print_json(summary)
    if far.done < far.total and "interrupted" in far.stopped:
        return INTERRUPTED
    return 0 if far.done == far.total and not far.failures and not found.problems else 1


async def _drive(session: BatchSession, at_once: int) -> BatchProgress:
    runner = session.runner(at_once, watch=_line)
    if runner.progress.before:
        done = f"{runner.progress.before} of {runner.progress.total} are done"
        render.say(f"note: going on with batch {session.batch.id}: {done}.")
    work = asyncio.ensure_future(runner.run())
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if runner.progress.stopped or not runner.progress.running:
            work.cancel()
        else:
            runner.finish("interrupted")
            render.say(f"finishing {len(runner.progress.running)} running tasks; Ctrl-C again abandons them")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        with _live(runner, session.budget):
            return await work
    except asyncio.CancelledError:
        runner.finish("interrupted")
        return runner.progress
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _line(job: BatchJob, ended: JobResult) -> None:
    """One finished job, printed if there is no live display."""
    if not render.talk.is_terminal:
        words = "" if ended.outcome in ("solved", "unverified") or not ended.detail else f" ({ended.detail})"
        render.say(f"{job.row.id}  {job.label}  {ended.outcome}  {usd(ended.paid_usd or 0)}{words}")


@contextmanager
def _live(runner: Runner, budget: Budget) -> Iterator[None]:
    if not render.talk.is_terminal:
        yield
        return
    from rich.live import Live
    from rich.text import Text

    with Live(
        get_renderable=lambda: Text(render.inert(shown(runner.progress, budget))),
        console=render.talk,
        refresh_per_second=1 / SHOW_EVERY_S,
        transient=True,
    ):
        yield


def shown(far: BatchProgress, budget: Budget) -> str:
    """The progress: done, running, solved, spend, rate, time left."""
    cap = f" of {usd(budget.cap_usd)}" if budget.cap_usd is not None else ""
    left = "" if far.left_s is None else f", about {duration(far.left_s)} left"
    solved, unverified = far.outcomes["solved"], far.outcomes["unverified"]
    lines = [
        f"{far.done} of {far.total} done, {len(far.running)} running, {solved} solved, {unverified} unverified, "
        f"{usd(budget.spent_usd)}{cap} spent, {far.per_minute:.1f} a minute{left}"
    ]
    lines += [f"  {task}  {arm}  {words}" for (task, arm), words in list(far.running.items())[:MOST_SHOWN]]
    return "\n".join(lines)


def _tell_end(far: BatchProgress, session: BatchSession, spent_usd: Decimal) -> None:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(far.outcomes.items()))
    render.say(f"{far.done} of {far.total} done: {counts or 'nothing'}; {usd(spent_usd)} spent in all")
    for (task, arm), why in list(far.failures.items())[:10]:
        render.say(f"not run: {task} {arm}: {why}")
    if far.stopped:
        render.say(f"stopped: {far.stopped}. Run the same command again to go on.")
    render.say(f"report: {session.folder.report}")


def _arms(names: str) -> tuple[Arm, ...]:
    asked = options.names(names)
    if not asked or not set(asked) <= set(ARMS):
        raise click.BadParameter(f"{names!r}: name one or more of {', '.join(ARMS)}, separated by commas.")
    return tuple(arm for arm in ARMS if arm in asked)
