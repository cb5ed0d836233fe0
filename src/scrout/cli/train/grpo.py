"""`scrout train grpo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scrout.base import ConfigError
from scrout.cli import options, render
from scrout.cli.run_async import run_async

if TYPE_CHECKING:
    from scrout.lab.train.grpo.grpo import GrpoResult, Sync

MOST_SHOWN = 20
"""Steps that are told on a terminal; steps.jsonl has all."""


@click.command(name="grpo")
@click.argument("checkpoint", type=click.Path(path_type=Path), metavar="CHECKPOINT")
@click.argument("tasks", type=click.Path(path_type=Path), metavar="TASKS")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="RUN", help="Folder; a run goes on.")
@click.option("--adapter", type=click.Path(path_type=Path), metavar="DIR", help="Start from this LoRA adapter.")
@click.option("--group", type=click.IntRange(2), default=8, show_default=True, help="Episodes a task.")
@click.option("--tasks-per-step", type=click.IntRange(1), default=4, show_default=True, help="Tasks a step.")
@click.option("--steps", type=click.IntRange(1), default=100, show_default=True, help="Until this many are done.")
@click.option("--updates", type=click.IntRange(1), default=1, show_default=True, help="Of the optimizer, a step.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), default=1e-5, show_default=True, help="Learning rate.")
@click.option(
    "--clip",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    help="How far a token may move before its gain stops.",
)
@click.option(
    "--kl", type=click.FloatRange(0), default=0.0, show_default=True, help="Weight of the distance to CHECKPOINT."
)
@click.option("--rank", type=click.IntRange(1), default=16, show_default=True, help="Of a new adapter.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of tasks' order, episodes and a new adapter.")
@click.option(
    "--sync",
    type=click.Choice(("vllm", "none")),
    default="vllm",
    show_default=True,
    help="How the server gets the new adapter.",
)
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True, help="Episodes at once.")
@click.option("--device", default="auto", show_default=True, help="Where to learn: cpu, cuda, cuda:1.")
@click.option("--chunk", type=click.IntRange(1), default=1024, show_default=True, help="Tokens with logits at once.")
@click.option("--weight", "weights", multiple=True, metavar="PART=VALUE", help="Of a part of the reward.")
@options.tasks_repositories
@options.sandbox
@options.configuration
@options.as_json
def command(
    checkpoint: Path,
    tasks: Path,
    out: Path,
    adapter: Path | None,
    group: int,
    tasks_per_step: int,
    steps: int,
    updates: int,
    lr: float,
    clip: float,
    kl: float,
    rank: int,
    seed: int,
    sync: Sync,
    parallel: int,
    device: str,
    chunk: int,
    weights: tuple[str, ...],
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Train on episodes of the model's own, by their reward.

    Episodes are drawn from the server under [scout.model], in the sandbox, and the LoRA adapter of CHECKPOINT learns
    from those that did better or worse than others of the same task. The same command goes on with a run that was
    interrupted. Exit code 1: no group taught anything.
    """
    from scrout.batch.tasks import Repositories, read_tasks
    from scrout.lab.train.grpo.grpo import train
    from scrout.lab.train.grpo.reward import read_weights
    from scrout.lab.train.grpo.run_folder import GrpoSettings

    if not checkpoint.exists():
        raise ConfigError(f"there is no {checkpoint}. Name a folder as transformers saves it, or a GGUF file.")
    settings = options.read_settings(repo or Path(), config, ("scout.searcher=model", *overrides))
    found = read_tasks(tasks, repo)
    for problem in found.problems:
        render.say(f"left out: {problem.source} {problem.id} {problem.words}")
    terms = GrpoSettings(
        group=group,
        tasks_per_step=tasks_per_step,
        updates=updates,
        lr=lr,
        clip=clip,
        kl=kl,
        rank=rank,
        seed=seed,
        weights=read_weights(weights),
    )
    with render.working() as progress:
        outcome = run_async(
            train(
                checkpoint,
                found.rows,
                out,
                settings,
                Repositories(repos, repo_url),
                terms,
                steps=steps,
                adapter=adapter,
                server=sync,
                device=device,
                parallel=parallel,
                chunk=chunk,
                progress=progress,
            )
        )
    if as_json:
        render.print_json(outcome)
    else:
        render.print_view(_view(outcome))
    return 0 if any(step.groups_used for step in outcome.steps) else 1


def _view(outcome: GrpoResult) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("step", "reward", "found", "verified", "committed", "groups", "flat", "tokens", "loss", "seconds"):
        table.add_column(column, justify="right")
    for step in outcome.steps[-MOST_SHOWN:]:
        parts = (
            f"{step.parts[name]:.3f}" if name in step.parts else "-" for name in ("found", "verified", "committed")
        )
        table.add_row(
            str(step.step),
            "-" if step.reward is None else f"{step.reward:.3f}",
            *parts,
            str(step.groups_used),
            str(step.groups_flat),
            f"{step.tokens:,}",
            f"{step.loss:+.4f}",
            f"{step.rollout_seconds + step.learning_seconds:.0f}",
        )
    return Group(table, Text(render.inert(f"adapter {outcome.adapter}"), "dim"))
