"""`scrout train grpo`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.text import Text

from scrout.base import ConfigError
from scrout.cli import options, render
from scrout.cli.run_async import run_async
from scrout.cli.train import shared

if TYPE_CHECKING:
    from scrout.lab.train.grpo.grpo import GrpoResult, Sync

MAX_SHOWN = 20
"""Maximum number of steps to show on a terminal; steps.jsonl has all."""


@click.command(name="grpo")
@click.argument("checkpoint", type=shared.PATH, metavar="CHECKPOINT")
@click.argument("tasks", type=shared.PATH, metavar="TASKS")
@click.option(
    "--out", required=True, type=shared.PATH, metavar="DIR", help="Folder of the run; an existing run continues."
)
@click.option("--adapter", type=shared.PATH, metavar="DIR", help="Start from this LoRA adapter.")
@click.option("--steps", type=click.IntRange(1), default=100, show_default=True, help="Stop after this many steps.")
@shared.recipe
@click.option(
    "--sync",
    type=click.Choice(("vllm", "none")),
    default="vllm",
    help="vllm tells the server to load each new adapter.",
)
@shared.parallel
@click.option("--device", default="auto", help="Where to train: cpu, cuda, cuda:1.")
@shared.tasks(searcher="model")
@options.as_json
def command(
    checkpoint: Path,
    tasks: Path,
    out: Path,
    adapter: Path | None,
    steps: int,
    recipe: str,
    changes: tuple[str, ...],
    sync: Sync,
    parallel: int,
    device: str,
    as_json: bool,
    read: Callable[[Path], shared.TaskInputs],
) -> int:
    """Example: scrout train grpo base tasks.jsonl --adapter sft/adapter --out run

    Train the LoRA adapter of CHECKPOINT on episodes of its own: the server under [scout.model] runs them, in the
    sandbox. The same command continues a run. Exit code 1: no group had a signal.
    """
    from scrout.lab.train.grpo.grpo import train
    from scrout.lab.train.grpo.run_folder import PRESETS
    from scrout.lab.train.recipe import read_recipe

    if not checkpoint.exists():
        raise ConfigError(f"{checkpoint} does not exist. Name a folder that transformers saved, or a GGUF file.")
    settings = read_recipe(recipe, changes, PRESETS)
    inputs = read(tasks)
    for row in inputs.unusable:
        render.say(f"left out: {row.source} {row.id} {row.words}")
    with render.working() as progress:
        work = train(
            checkpoint,
            inputs.rows,
            out,
            inputs.settings,
            inputs.repositories,
            settings,
            steps=steps,
            adapter=adapter,
            server=sync,
            device=device,
            parallel=parallel,
            progress=progress,
        )
        result = run_async(work)
    shared.show(result, lambda: _view(result), as_json=as_json)
    return 0 if any(step.groups_used for step in result.steps) else 1


def _view(result: GrpoResult) -> RenderableType:
    columns = ("step", "reward", "found", "verified", "committed", "groups", "flat", "tokens", "loss", "seconds")
    rows = [
        (
            str(step.step),
            *(
                "-" if mean is None else f"{mean:.3f}"
                for mean in (step.reward, *map(step.parts.get, ("found", "verified", "committed")))
            ),
            str(step.groups_used),
            str(step.groups_flat),
            f"{step.tokens:,}",
            f"{step.loss:+.4f}",
            f"{step.rollout_seconds + step.learning_seconds:.0f}",
        )
        for step in result.steps[-MAX_SHOWN:]
    ]
    return Group(shared.facts(rows, columns), Text(render.inert(f"adapter {result.adapter}"), "dim"))
