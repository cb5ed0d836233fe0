"""`scrout train export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scrout.cli import options, render

if TYPE_CHECKING:
    from scrout.lab.train.export import Form
    from scrout.lab.train.lora import Precision


@click.command(name="export")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new folder for it.")
@click.option(
    "--form",
    type=click.Choice(["merged", "adapter"]),
    default="merged",
    show_default=True,
    help="Whole weights, or what is added to the base model's.",
)
@click.option("--base", type=click.Path(path_type=Path), metavar="DIR", help="The base model, where it was moved.")
@click.option(
    "--precision",
    type=click.Choice(["bfloat16", "float32"]),
    default="bfloat16",
    show_default=True,
    help="Of merged weights.",
)
@options.as_json
def command(run: Path, out: Path, form: Form, base: Path | None, precision: Precision, as_json: bool) -> int:
    """Write what a run of `sft` or `grpo` made, as vLLM and SGLang serve it.

    RUN is the run's folder, or an adapter's.
    """
    from scrout.lab.train.export import adapter_of, base_of, export, trained_on

    adapter = adapter_of(run)
    with render.working() as progress:
        progress("writing the weights")
        done = export(base or base_of(adapter), adapter, out, form, precision, trained_on(run))
    if as_json:
        render.print_json(done)
    else:
        render.print_text(f"{done.folder}: weights {done.digest}\nServe it: {done.serve}")
    return 0
