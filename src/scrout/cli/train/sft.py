"""`scrout train sft`."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.text import Text

from scrout.cli import options, render
from scrout.cli.train import shared
from scrout.text import usd

if TYPE_CHECKING:
    from scrout.lab.train.plan import TrainingPlan
    from scrout.lab.train.sft import SftResult


@click.command(name="sft")
@click.argument("checkpoint", type=shared.PATH, metavar="CHECKPOINT")
@click.argument("pack", type=shared.PATH, metavar="PACK")
@click.option("--out", type=shared.PATH, metavar="DIR", help="Folder of the run; an existing run continues.")
@click.option("--plan", is_flag=True, help="Only estimate memory, hours and dollars.")
@shared.recipe
@click.option("--held-out", type=shared.PATH, metavar="PACK", help="Measure the loss on this pack, before and after.")
@click.option("--device", default="", help="cpu, cuda, cuda:1. Default: a GPU if there is one.")
@click.option("--attention", default="", metavar="NAME", help="flash_attention_2, sdpa or eager.")
@click.option("--gpu", default="", metavar="NAME", help="With --plan: for this GPU, not for this machine.")
@click.option("--usd-per-hour", type=options.dollars, metavar="USD", help="With --plan: price of the machine.")
@options.as_json
def command(
    checkpoint: Path,
    pack: Path,
    out: Path | None,
    plan: bool,
    recipe: str,
    changes: tuple[str, ...],
    held_out: Path | None,
    device: str,
    attention: str,
    gpu: str,
    usd_per_hour: Decimal | None,
    as_json: bool,
) -> int:
    """Example: scrout train sft Qwen2.5-Coder-7B-Instruct pack --recipe paper --out run

    Fine-tune CHECKPOINT on a pack with a LoRA adapter. The recipe is `small`, `paper` or a file. The same command
    continues an interrupted run.
    """
    from scrout.lab.train.recipe import read_recipe
    from scrout.lab.train.sft import PRESETS, finetune

    settings = read_recipe(recipe, changes, PRESETS)
    if plan:
        from scrout.lab.train.plan import plan_run

        with render.working() as progress:
            planned = plan_run(checkpoint, pack, settings, gpu, usd_per_hour, device, attention, progress)
        shared.show(planned, lambda: _planned(planned), as_json=as_json)
        return 0
    if out is None:
        raise click.UsageError("--out DIR is missing: the folder of the run. Only --plan works without it.")
    with render.working() as progress:
        result = finetune(checkpoint, pack, out, settings, held_out, device, attention, progress)
    shared.show(result, lambda: _view(result), as_json=as_json)
    return 0


def _view(result: SftResult) -> RenderableType:
    rows = [
        ("steps", f"{result.run.steps:,}"),
        ("loss, first tenth of the steps", f"{result.first_loss:.4f}"),
        ("loss, last tenth", f"{result.last_loss:.4f}"),
    ]
    if result.held_out_before is not None and result.held_out_after is not None:
        rows.append(("held-out loss", f"{result.held_out_before:.4f} before, {result.held_out_after:.4f} after"))
    return Group(shared.facts(rows), Text(f"adapter: {result.adapter}", "dim"))


def _planned(plan: TrainingPlan) -> RenderableType:
    rows = [
        ("on", plan.device),
        ("parameters", f"{plan.parameters:,}, of which {plan.trained:,} are trained"),
        ("steps", f"{plan.steps:,} of {plan.tokens_per_step:,.0f} tokens"),
        *((f"memory: {name}", f"{gb:.2f} GB") for name, gb in plan.memory_gb.items()),
        ("memory in total", f"{plan.peak_gb:.1f} GB" + (f" of {plan.has_gb:.0f}" if plan.has_gb else "")),
        ("hours", f"{plan.hours:,.2f}"),
        ("cost", usd(plan.usd)),
    ]
    return Group(shared.facts(rows), *(Text(render.inert(note), "dim") for note in plan.notes))
