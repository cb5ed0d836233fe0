"""`scrout train sft`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render
from scrout.text import usd

if TYPE_CHECKING:
    from scrout.lab.train.plan import TrainingPlan
    from scrout.lab.train.sft import SftResult


@click.command(name="sft")
@click.argument("checkpoint", type=click.Path(path_type=Path), metavar="CHECKPOINT")
@click.argument("pack", type=click.Path(path_type=Path), metavar="PACK")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="The run's folder. Required but for --plan."
)
@click.option("--plan", is_flag=True, help="Say what it would take in memory, hours and dollars, and start nothing.")
@click.option(
    "--preset",
    type=click.Choice(["small", "paper"]),
    default="small",
    show_default=True,
    help="Settings to begin with.",
)
@click.option("--rank", type=int, help="Of the adapter.")
@click.option("--alpha", type=int, help="The adapter's scale, over the rank.")
@click.option("--learning-rate", type=float, help="At its highest.")
@click.option("--epochs", type=float, help="How often every block is seen.")
@click.option("--steps", type=int, help="Optimizer steps, whatever the epochs say.")
@click.option("--micro-batch", type=int, help="Blocks that go through the model together.")
@click.option("--accumulation", type=int, help="Micro-batches of a step.")
@click.option("--checkpointing/--no-checkpointing", default=None, help="Compute activations again, or keep them.")
@click.option("--precision", type=click.Choice(["bfloat16", "float32"]), help="Of the base model's weights.")
@click.option("--save-every", type=int, help="Steps between checkpoints.")
@click.option("--seed", type=int, help="Of the adapter's start and the order of blocks.")
@click.option(
    "--held-out", type=click.Path(path_type=Path), metavar="PACK", help="Measure the loss on it, before and after."
)
@click.option("--device", default="", help="cpu, cuda, cuda:1; a GPU where there is one, unless given.")
@click.option("--attention", default="", help="flash_attention_2, sdpa, eager; the library's choice, unless given.")
@click.option("--gpu", default="", help="With --plan: for this GPU rather than for this machine.")
@click.option("--usd-per-hour", type=options.dollars, metavar="USD", help="With --plan: what the machine costs.")
@options.as_json
def command(
    checkpoint: Path,
    pack: Path,
    out: Path | None,
    plan: bool,
    preset: str,
    held_out: Path | None,
    device: str,
    attention: str,
    gpu: str,
    usd_per_hour: Any,
    as_json: bool,
    **given: Any,
) -> int:
    """Fine-tune a model on packed demonstrations with a LoRA adapter, or go on with a run that was cut off.

    CHECKPOINT is the base model's folder, PACK what `scrout train pack` made for it. The same command with the same
    folder goes on where it stopped.
    """
    from pydantic import ValidationError

    from scrout.base import ConfigError
    from scrout.lab.train.sft import PRESETS, SftSettings, finetune

    changed = {name: value for name, value in given.items() if value is not None}
    try:
        tuning = SftSettings.model_validate(PRESETS[preset].model_dump() | changed)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0]).replace("_", "-")
        raise ConfigError(f"--{name} {problem['input']}: {problem['msg']}. See scrout train sft --help.") from None
    if plan:
        from scrout.lab.train.plan import plan_run

        with render.working() as progress:
            planned = plan_run(checkpoint, pack, tuning, gpu, usd_per_hour, device, attention, progress)
        if as_json:
            render.print_json(planned)
        else:
            render.print_view(_planned(planned))
        return 0
    if out is None:
        raise click.UsageError("--out DIR is missing: the folder of the run. With --plan none is needed.")
    with render.working() as progress:
        tuned = finetune(checkpoint, pack, out, tuning, held_out, device, attention, progress)
    if as_json:
        render.print_json(tuned)
    else:
        render.print_view(_view(tuned))
    return 0


def _view(tuned: SftResult) -> RenderableType:
    rows = [
        ("steps", f"{tuned.run.steps:,}"),
        ("loss, first tenth of the steps", f"{tuned.first_loss:.4f}"),
        ("loss, last tenth", f"{tuned.last_loss:.4f}"),
    ]
    if tuned.held_out_before is not None and tuned.held_out_after is not None:
        rows.append(("held-out loss", f"{tuned.held_out_before:.4f} before, {tuned.held_out_after:.4f} after"))
    return Group(_table(rows), Text(f"adapter: {tuned.adapter}", "dim"))


def _planned(plan: TrainingPlan) -> RenderableType:
    rows = [
        ("on", plan.device),
        ("parameters", f"{plan.parameters:,}, of which {plan.trained:,} are trained"),
        ("steps", f"{plan.steps:,} of {plan.tokens_per_step:,.0f} tokens"),
        *((f"memory: {name}", f"{gb:.2f} GB") for name, gb in plan.memory_gb.items()),
        ("memory together", f"{plan.peak_gb:.1f} GB" + (f" of {plan.has_gb:.0f}" if plan.has_gb else "")),
        ("hours", f"{plan.hours:,.2f}"),
        ("cost", usd(plan.usd)),
    ]
    return Group(_table(rows), *(Text(render.inert(note), "dim") for note in plan.notes))


def _table(rows: list[tuple[str, str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*(Text(render.inert(cell)) for cell in row))
    return table
