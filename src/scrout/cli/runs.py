"""`scrout runs`: lists past runs, latest first, and prunes their traces."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from scrout.cli import options, render
from scrout.cli.groups import CommandGroup
from scrout.config.folders import data_folder
from scrout.config.settings import RetentionSettings, Settings
from scrout.ledger.opening import attempts_folder, open_ledger
from scrout.ledger.retention import Pruning, prune
from scrout.records import RunOutcome


@click.group(name="runs", cls=CommandGroup, invoke_without_command=True)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of runs.")
@click.option("--batch", default="", metavar="ID", help="Only those of this batch.")
@click.option("--arm", default="", metavar="NAME", help="Only those of this arm, such as solo/repair.")
@click.option("--outcome", type=click.Choice(get_args(RunOutcome)), help="Only those with this outcome.")
@options.common
@click.pass_context
def command(
    context: click.Context, repo: Path, limit: int, batch: str, arm: str, outcome: RunOutcome | None, as_json: bool
) -> int:
    """Example: scrout runs --outcome unverified

    List past runs, newest first. The repository decides only which scrout.toml, and so which ledger, applies.
    """
    if context.invoked_subcommand:
        _refuse_options(context)
        return 0
    with open_ledger(options.read_settings(repo)) as book:
        past = book.runs(limit, batch=batch, arm=arm, outcome=outcome)
    if as_json:
        render.print_json(past)
    elif past:
        render.print_view(render.runs(past))
    elif batch or arm or outcome:
        render.say("no run matches; `scrout runs` lists all")
    else:
        render.say("no runs yet; start with `scrout demo` or `scrout fix`")
    return 0


@command.command(name="prune")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@options.common
def _prune(repo: Path, dry_run: bool, as_json: bool) -> int:
    """Example: scrout runs prune --dry-run -c retention.days=30

    Remove and redact the traces that [retention] does not keep. Runs, receipts and totals stay.

    It never touches a run in progress, or a run of another ledger.
    """
    settings = options.read_settings(repo)
    folders = _attempts(settings)
    for folder in folders:  # book the payments of killed runs before their trajectories are removed
        open_ledger(settings, folder).close()
    with open_ledger(settings) as book:
        done = prune(book, folders, data_folder() / "traces", settings.retention, dry_run=dry_run)
    if as_json:
        render.print_json(done)
    else:
        _tell(done, settings)
    return 0


def _attempts(settings: Settings) -> list[Path]:
    """Folders of trajectories: in the user's data folder, or beside a batch's ledger."""
    beside = [Path(settings.ledger.path).absolute().with_name("attempts")] if settings.ledger.path else []
    return [*beside, attempts_folder()]


def _tell(done: Pruning, settings: Settings) -> None:
    for one in done.pruned:
        whose = f"run {one.run}" if one.run else f"trace {one.folder.name}"
        click.echo(render.inert(f"{whose}: {one.what} ({one.why}), {_megabytes(one.freed_bytes)}"))
    would = "would be freed" if done.dry_run else "freed"
    left = f", {done.left_alone} left alone (in progress, fresh or of another ledger)" if done.left_alone else ""
    render.say(
        f"{_megabytes(sum(one.freed_bytes for one in done.pruned))} {would}; "
        f"{done.kept} kept, {_megabytes(done.kept_bytes)}{left}"
    )
    if settings.retention == RetentionSettings():
        render.say("Everything is kept: no limit is set. Set one, such as -c retention.days=30.")


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def _refuse_options(context: click.Context) -> None:
    """The list's options have no effect on a subcommand."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"Write options after `{context.invoked_subcommand}`, not before it.")
