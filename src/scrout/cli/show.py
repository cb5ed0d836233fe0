"""`scrout show`: one run in detail."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.cli import options, render
from scrout.ledger.opening import open_ledger
from scrout.redact import MARK


@click.command(name="show")
@click.argument("run_id", metavar="RUN")
@click.option("--patch", "patch_only", is_flag=True, help="Print the patch alone.")
@options.common
def command(run_id: str, repo: Path, patch_only: bool, as_json: bool) -> int:
    """Example: scrout show 20261115 --patch

    Show one run from issue to receipt. RUN is its id or the beginning of it, as `scrout runs` lists them.

    With --patch the exit code is 1 if secrets were cut from the stored patch, so that it differs from the original.
    """
    with open_ledger(options.read_settings(repo)) as book:
        run = book.run(run_id)
    if as_json:
        render.print_json(run)
    elif patch_only:
        render.print_patch(run.patch)
    else:
        render.print_view(render.story(run))
        render.print_patch(run.patch)
    cut = MARK in run.patch
    if cut:
        render.say(
            f"Secrets were cut from the stored patch; {MARK} stands in their place, so it may not apply or work. "
            "Run `scrout fix` again for the whole one."
        )
    return 1 if cut and patch_only else 0
