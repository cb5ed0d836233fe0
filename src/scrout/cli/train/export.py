"""`scrout train export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from scrout.cli import options, render
from scrout.cli.train import shared

if TYPE_CHECKING:
    from scrout.lab.train.lora import Form, Precision


@click.command(name="export")
@click.argument("run", type=shared.PATH, metavar="RUN")
@shared.out
@click.option("--form", type=click.Choice(["merged", "adapter"]), default="merged", show_default=True)
@click.option("--base", type=shared.PATH, metavar="DIR", help="The base model, if it was moved.")
@click.option("--precision", type=click.Choice(["bfloat16", "float32"]), default="bfloat16", show_default=True)
@options.as_json
def command(run: Path, out: Path, form: Form, base: Path | None, precision: Precision, as_json: bool) -> int:
    """Example: scrout train export run --out searcher

    Export the weights of an `sft` or `grpo` run as vLLM and SGLang load them: merged into the base model's, or the
    adapter alone. RUN is the run's folder, or an adapter's.
    """
    from scrout.lab.train.lora import adapter_of, base_of, export, trained_on

    adapter = adapter_of(run)
    with render.working() as progress:
        progress("writing the weights")
        done = export(base or base_of(adapter), adapter, out, form, precision, trained_on(run))
    words = f"{done.folder}: weights {done.digest}\nServe it: {done.serve}"
    shared.show(done, lambda: Text(render.inert(words)), as_json=as_json)
    return 0
