"""`scrout ledger`: the books, re-derived."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.cli import options, render
from scrout.ledger.audit import audit
from scrout.pipeline import ledger


@click.group(name="ledger")
def command() -> None:
    """Check that every total follows from its receipts."""


@command.command(name="audit")
@options.repository
@options.configuration
@options.as_json
def _audit(repo: Path, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Re-derive every run's total from its receipts. Exit code 1 if any figure differs."""
    with ledger(options.read_settings(repo, config, overrides)) as book:
        report = audit(book)
    if as_json:
        render.print_json(report)
    else:
        for problem in report.problems:
            click.echo(render.inert(problem))
        click.echo(f"{report.runs} runs, {report.receipts} receipts, {len(report.problems)} problems")
    return 1 if report.problems else 0
