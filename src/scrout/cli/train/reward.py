"""`scrout train reward`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render
from scrout.cli.run_async import run_async

if TYPE_CHECKING:
    from scrout.lab.train.grpo.reward_report import RewardReport


@click.command(name="reward")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACES...")
@click.option(
    "--tasks", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Task file with the true patches."
)
@click.option("--gate", "gated", is_flag=True, help="Replay the reproductions, in the sandbox.")
@click.option("--weight", "weights", multiple=True, metavar="PART=VALUE", help="Of a part of the reward.")
@options.tasks_repositories
@options.sandbox
@options.configuration
@options.as_json
def command(
    sources: tuple[Path, ...],
    tasks: Path,
    gated: bool,
    weights: tuple[str, ...],
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say what saved episodes are worth, before anything is trained on it.

    TRACES are traces, folders with traces, and lists of episodes such as an evaluation's. Exit code 1: a policy that does not
    search would earn as much as searching.
    """
    from scrout.batch.tasks import Repositories, read_tasks
    from scrout.lab.train.grpo.reward import read_weights
    from scrout.lab.train.grpo.reward_report import read_saved, replay_gate, report

    rows = {row.id: row for row in read_tasks(tasks, repo).rows}
    gold = {row.id: row.gold.files for row in rows.values() if row.gold}
    saved, left_out = read_saved(sources)
    if gated:
        settings = options.read_settings(repo or Path(), config, overrides)
        known = [episode for episode in saved if gold.get(episode.task)]
        with render.working() as progress:
            judged, lost = run_async(replay_gate(known, rows, Repositories(repos, repo_url), settings, progress))
        saved = [*judged, *(episode for episode in saved if not gold.get(episode.task))]
        left_out += lost
    told = report(saved, gold, read_weights(weights), left_out)
    if as_json:
        render.print_json(told)
    else:
        render.print_view(_view(told))
    return 1 if any(policy.pays for policy in told.degenerate) else 0


def _view(told: RewardReport) -> RenderableType:
    parts = Table(box=SIMPLE_HEAD, pad_edge=False)
    parts.add_column("part")
    for column in ("mean", "deviation", "low", "quarter", "median", "three quarters", "high"):
        parts.add_column(column, justify="right")
    for name, spread in told.parts.items():
        parts.add_row(name, *(f"{value:.3f}" for value in spread.model_dump().values()))
    rest = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    rest.add_column()
    rest.add_column(justify="right")
    rows = [
        ("episodes", f"{told.episodes:,} of {told.tasks:,} tasks"),
        ("groups that teach nothing", f"{told.flat:,} of {told.groups:,}"),
        ("correlation with recall", "-" if told.with_recall is None else f"{told.with_recall:.3f}"),
        *((f"without a reward: {why}", f"{count:,}") for why, count in told.unscored.items()),
        *(
            (f"policy: {game.policy}", f"{game.reward:.3f} against {game.honest:.3f}{', PAYS' if game.pays else ''}")
            for game in told.degenerate
        ),
    ]
    for row in rows:
        rest.add_row(*(Text(render.inert(cell)) for cell in row))
    return Group(parts, rest)
