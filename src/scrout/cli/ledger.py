"""`scrout ledger`: audits the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.cli import options, render
from scrout.cli.groups import CommandGroup
from scrout.ledger.audit import audit
from scrout.ledger.opening import open_ledger
from scrout.text import plural, usd

MANY = 500
"""Number of runs from which progress is shown: fewer take a second."""


@click.group(name="ledger", cls=CommandGroup)
def command() -> None:
    """Example: scrout ledger audit

    Check that every total follows from its receipts.
    """


@command.command(name="audit")
@options.common
def _audit(repo: Path, as_json: bool) -> int:
    """Example: scrout ledger audit

    Re-derive the total of every run and batch from its receipts. Exit code 1 if any figure differs.
    """
    with open_ledger(options.read_settings(repo)) as book, render.working() as progress:

        def tell(done: int, of: int) -> None:
            if of >= MANY and done % MANY == 0:
                progress(f"{done:,} of {of:,} runs audited")

        report = audit(book, tell)
    if as_json:
        render.print_json(report)
        return 1 if report.problems else 0
    for line in (*report.problems, *report.flags):
        click.echo(render.inert(line))
    for total in report.batches:
        estimated = f", {total.estimated} of them estimated" if total.estimated else ""
        unpriced = f", {total.unpriced} without a known price" if total.unpriced else ""
        click.echo(
            render.inert(
                f"batch {total.batch}: {plural(total.runs, 'run')}, {plural(total.receipts, 'receipt')}"
                f"{estimated}{unpriced}, {usd(total.paid_usd, exact=True)}"
            )
        )
    counts = {"run": report.runs, "receipt": report.receipts, "problem": len(report.problems)}
    click.echo(", ".join(plural(count, noun) for noun, count in counts.items()))
    return 1 if report.problems else 0
