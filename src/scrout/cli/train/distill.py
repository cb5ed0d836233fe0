"""`scrout train distill`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from scrout.cli import options, render
from scrout.cli.run_async import run_async
from scrout.cli.train import shared

MAX_SHOWN = 10
"""Maximum number of failures to show; --json has all."""


@click.command(name="distill")
@click.argument("tasks", metavar="TASKS", type=shared.PATH)
@click.option(
    "--out", required=True, type=shared.PATH, metavar="FILE", help="JSONL file; an existing one is continued."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N tasks.")
@shared.parallel
@shared.tasks()
@options.as_json
def command(
    tasks: Path,
    out: Path,
    limit: int | None,
    parallel: int,
    as_json: bool,
    read: Callable[[Path], shared.TaskInputs],
) -> int:
    """Example: scrout train distill tasks.jsonl --repos clones/ --out distilled.jsonl

    Let recon search tasks whose fix is known, and write its searches as episodes for `scrout train corpus`. Calls run
    in the sandbox. Exit code 1: a task failed; the same command tries it again.
    """
    from scrout.lab.train.distill import distill

    inputs = read(tasks)
    for row in inputs.unusable[:MAX_SHOWN]:
        render.say(f"warning: {row.source} ({row.id or 'no id'}): {row.words}")
    with render.working() as progress:
        work = distill(
            inputs.rows[:limit], inputs.repositories, out, inputs.settings, parallel=parallel, progress=progress
        )
        done = run_async(work)
    rows = [
        ("tasks", f"{done.tasks:,}"),
        ("done before", f"{done.before:,}"),
        ("done now", f"{done.distilled:,}"),
        ("steps per episode", "-" if done.steps is None else f"{done.steps:.1f}"),
        ("failed", f"{len(done.failed):,}"),
    ]
    shared.show(done, lambda: shared.facts(rows), as_json=as_json)
    for task, why in list(done.failed.items())[:MAX_SHOWN]:
        render.say(f"failed: {why if task in why else f'{task}: {why}'}")
    return 1 if done.failed or inputs.unusable else 0
