"""`scrout train reward`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType

from scrout.cli import options, render
from scrout.cli.run_async import run_async
from scrout.cli.train import shared

if TYPE_CHECKING:
    from scrout.lab.train.grpo.reward_report import RewardReport


@click.command(name="reward")
@click.argument("sources", nargs=-1, required=True, type=shared.PATH, metavar="TRACES...")
@click.option("--tasks", required=True, type=shared.PATH, metavar="FILE", help="Task file with the true patches.")
@click.option("--gate", "gated", is_flag=True, help="Replay the reproductions, in the sandbox.")
@shared.recipe
@shared.tasks()
@options.as_json
def command(
    sources: tuple[Path, ...],
    tasks: Path,
    gated: bool,
    recipe: str,
    changes: tuple[str, ...],
    as_json: bool,
    read: Callable[[Path], shared.TaskInputs],
) -> int:
    """Example: scrout train reward evaluation/ --tasks tasks.jsonl --gate

    Compute what saved episodes earn, before you train on it. TRACES are traces, folders of them, and
    lists of episodes. Exit code 1: a policy that does not search would earn as much.
    """
    from scrout.lab.train.grpo.reward_report import read_saved, replay_gate, report
    from scrout.lab.train.grpo.run_folder import PRESETS
    from scrout.lab.train.recipe import read_recipe

    weights = read_recipe(recipe, changes, PRESETS).weights
    inputs = read(tasks)
    rows = {row.id: row for row in inputs.rows}
    gold = {row.id: row.gold.files for row in inputs.rows if row.gold}
    saved, left_out = read_saved(sources)
    if gated:
        known = [episode for episode in saved if gold.get(episode.task)]
        with render.working() as progress:
            judged, lost = run_async(replay_gate(known, rows, inputs.repositories, inputs.settings, progress))
        saved = [*judged, *(episode for episode in saved if not gold.get(episode.task))]
        left_out += lost
    result = report(saved, gold, weights, left_out)
    shared.show(result, lambda: _view(result), as_json=as_json)
    return 1 if any(policy.pays for policy in result.degenerate) else 0


def _view(result: RewardReport) -> RenderableType:
    columns = ("part", "mean", "deviation", "low", "quarter", "median", "three quarters", "high")
    spreads = [
        (name, *(f"{value:.3f}" for value in spread.model_dump().values())) for name, spread in result.parts.items()
    ]
    rows = [
        ("episodes", f"{result.episodes:,} of {result.tasks:,} tasks"),
        ("groups without a signal", f"{result.flat:,} of {result.groups:,}"),
        ("correlation with recall", "-" if result.with_recall is None else f"{result.with_recall:.3f}"),
        *((f"without a reward: {why}", f"{count:,}") for why, count in result.unscored.items()),
        *(
            (f"policy: {one.policy}", f"{one.reward:.3f} against {one.honest:.3f}{', PAYS' if one.pays else ''}")
            for one in result.degenerate
        ),
    ]
    return Group(shared.facts(spreads, columns), shared.facts(rows))
