"""`scrout scout`: the handoff for one issue."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.cli import options, render
from scrout.cli.opening import opened
from scrout.cli.waiting import wait


@click.command(name="scout")
@options.repository
@options.issue
@options.dirty
@options.sandbox
@options.configuration
@options.as_json
def command(
    repo: Path, issue_source: str, dirty: bool, config: Path | None, overrides: tuple[str, ...], as_json: bool
) -> int:
    """Rank the files an issue is about, and try to reproduce it.

    Standard output gets the handoff in wire form, which `scrout gate` reads, or with --json the whole scouting.
    """
    settings = options.read_settings(repo, config, overrides)
    text = options.read_issue(issue_source)
    with opened(repo, text, settings, dirty=dirty) as (task, kit):
        found = wait(kit.scout(task))
    if as_json:
        render.print_json(found)
    else:
        render.talk.print(render.scouting(found))
        render.print_text(f"{found.text}\n")
    return 0
