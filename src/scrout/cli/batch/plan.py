"""`scrout batch plan`: estimates a batch's cost and solves before anything is spent."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from scrout.batch.estimate import BatchEstimate, estimate
from scrout.batch.jobs import BatchJob
from scrout.batch.tasks import Repositories, TaskRow, read_tasks
from scrout.cli import options, render
from scrout.cli.run_async import run_async
from scrout.config.settings import Settings
from scrout.fix.pool import completed
from scrout.pipeline import open_kit, router, scout
from scrout.records import State
from scrout.text import percent, usd

MOST_SHOWN = 20


@click.command(name="plan")
@click.argument("tasks", metavar="TASKS", type=options.PATH)
@click.option("--fixer", help="Plan as if this fixer tried every task.")
@click.option(
    "--scout", "scouts", is_flag=True, help="Scout each repository first: slower, with sharper probabilities."
)
@options.tasks_repositories
@options.sandbox
@options.goal
@options.configuration
@options.as_json
def command(
    tasks: Path,
    fixer: str | None,
    scouts: bool,
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    as_json: bool,
) -> int:
    """Example: scrout batch plan tasks.jsonl --repos clones/

    Estimate what many tasks would cost and which to skip, before spending.

    It pays nothing. The router takes probabilities and costs from the tasks' texts, and with --scout also from
    recon's search.
    """
    settings = completed(options.read_settings(repo or Path()), render.say)
    if fixer:
        settings = settings.only(fixer)
    found = read_tasks(tasks, repo)
    repositories = Repositories(repos, repo_url)
    with render.working() as say:

        def state_of(row: TaskRow) -> State | None:
            if not scouts:
                return None
            say(f"scouting {row.id}")
            return _scouted(row, repositories, settings)

        judge = router(settings)
        plan = estimate(
            found.rows,
            found.problems,
            settings,
            judge,
            lambda row: BatchJob(row, "handoff").worst_usd(settings),
            state_of,
        )
    render.show(plan, _table(plan), as_json=as_json)
    if not as_json:
        _tell(plan)
    return 0


def _scouted(row: TaskRow, repositories: Repositories, settings: Settings) -> State | None:
    task = repositories.task(row)
    free = settings.scout.model_copy(update={"searcher": "recon"})
    with open_kit(task, settings.model_copy(update={"scout": free})) as kit:
        return run_async(scout(kit, task)).state


def _table(plan: BatchEstimate) -> Table:
    table = render.table("task", "fixer", "probability", "cost", "", right=("probability", "cost"))
    # Skipped tasks first, because a reader may disagree with those.
    shown = sorted(plan.tasks, key=lambda task: not task.skip)[:MOST_SHOWN]
    for task in shown:
        probability, cost = percent(task.p_solve, 0), usd(task.expected_cost_usd, 3)
        render.row(table, task.id, task.fixer, probability, cost, f"skip: {task.skip}" if task.skip else "")
    if len(plan.tasks) > len(shown):
        render.row(table, f"and {len(plan.tasks) - len(shown)} more")
    return table


def _tell(plan: BatchEstimate) -> None:
    run, cost, solves = len(plan.tasks) - plan.skipped, plan.cost_usd, plan.solves
    spend = gain = "unknown"
    if plan.unknown_cost < run:
        spend = f"about {usd(cost.expected)} ({usd(cost.low)} to {usd(cost.high)})"
    if plan.unknown_probability < run:
        gain = f"{solves.expected:.1f} expected ({solves.low:.0f} to {solves.high:.0f})"
    render.say(f"{run} tasks, one run each. Cost: {spend}; {usd(plan.worst_usd)} if each reaches its cap")
    render.say(f"Solves: {gain}. A run that infrastructure failed and that is tried again is not in these figures.")
    if plan.skipped:
        render.say(f"{plan.skipped} tasks are not worth it, which saves about {usd(plan.saved_usd)}")
    if plan.unknown_cost:
        render.say(f"the cost of {plan.unknown_cost} tasks is unknown; they count in the last of the amounts alone")
    if plan.unknown_probability:
        render.say(
            f"{plan.unknown_probability} tasks have no known probability; `scrout calibrate` tells how to measure it"
        )
    for words in plan.unusable[:10]:
        render.say(f"not a task: {words}")
