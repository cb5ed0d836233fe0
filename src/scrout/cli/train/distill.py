"""`scrout train distill`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render
from scrout.cli.run_async import run_async

if TYPE_CHECKING:
    from scrout.lab.train.distill import DistillResult

MOST_SHOWN = 10
"""Failures that are told; --json has all."""


@click.command(name="distill")
@click.argument("tasks", metavar="TASKS", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="JSONL file of the episodes; one that lies there goes on.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first so many tasks.")
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Tasks at once.")
@options.tasks_repositories
@options.sandbox
@options.configuration
@options.as_json
def command(
    tasks: Path,
    out: Path,
    limit: int | None,
    jobs: int,
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Let recon search tasks whose fix is known, and write its searches as episodes for `scrout train corpus`.

    TASKS is a task file with gold patches or files, as `scrout run` takes it, or rows of `scrout.lab.train.history`.
    Calls are run in the sandbox. The same command goes on where it was interrupted. Exit code 1: some task failed.
    """
    from scrout.batch.tasks import Repositories, read_tasks
    from scrout.lab.train.distill import distill

    settings = options.read_settings(repo or Path(), config, overrides)
    found = read_tasks(tasks, repo)
    for problem in found.problems[:MOST_SHOWN]:
        render.say(f"warning: {problem.source} ({problem.id or 'no id'}): {problem.words}")
    with render.working() as progress:
        done = run_async(
            distill(found.rows[:limit], Repositories(repos, repo_url), out, settings, jobs=jobs, progress=progress)
        )
    if as_json:
        render.print_json(done)
    else:
        render.print_view(_view(done))
    for task, why in list(done.failed.items())[:MOST_SHOWN]:
        render.say(f"failed: {why if task in why else f'{task}: {why}'}")
    return 1 if done.failed or found.problems else 0


def _view(done: DistillResult) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in (
        ("tasks", f"{done.tasks:,}"),
        ("taught before", f"{done.before:,}"),
        ("taught now", f"{done.taught:,}"),
        ("steps each", "-" if done.steps is None else f"{done.steps:.1f}"),
        ("failed", f"{len(done.failed):,}"),
    ):
        table.add_row(Text(name), Text(value))
    return table
