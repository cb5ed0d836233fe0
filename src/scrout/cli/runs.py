"""`scrout runs`: past runs, newest first."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.cli import options, render
from scrout.pipeline import ledger


@click.command(name="runs")
@options.repository
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
@options.configuration
@options.as_json
def command(repo: Path, limit: int, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """List past runs, newest first. The repository only says which scrout.toml, and so which ledger, applies."""
    with ledger(options.read_settings(repo, config, overrides)) as book:
        past = book.runs(limit)
    if as_json:
        render.print_json(past)
    elif past:
        render.print_view(render.runs(past))
    else:
        render.say("no runs yet; start with `scrout demo` or `scrout fix`")
    return 0
