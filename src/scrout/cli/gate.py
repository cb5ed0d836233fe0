"""`scrout gate`: replays the claim of a handoff from another program."""

from __future__ import annotations

from pathlib import Path

import click

from scrout import handoff
from scrout.base import HandoffError, TaskError
from scrout.cli import options, render
from scrout.cli.open_task import open_with_progress
from scrout.cli.run_async import run_async
from scrout.gate.gate import gate


@click.command(name="gate")
@click.option(
    "--handoff", "handoff_file", required=True, help="A file with the output of `scrout scout`; - for standard input."
)
@click.option("--issue", "issue_source", help="The issue, as for `scrout fix`: errors it names count as evidence.")
@options.dirty
@options.sandbox
@options.common
def command(repo: Path, handoff_file: str, issue_source: str | None, dirty: bool, as_json: bool) -> int:
    """Example: scrout gate --issue bug.md --handoff handoff.txt

    Replay a handoff's claim on the unpatched repository and strip what is false.

    Standard output gets the surviving handoff in wire form. The exit code is 0 for every verdict.
    """
    settings = options.read_settings(repo)
    if handoff_file == issue_source == "-":
        raise TaskError("--handoff - and --issue - cannot both read standard input. Put one of them into a file.")
    raw = options.read_file(handoff_file, "handoff")
    try:
        claimed = handoff.read(raw)
    except HandoffError as error:
        raise HandoffError(f"--handoff {handoff_file}: {error}") from None
    # Without the issue, no error can match it; the gate is then stricter, not looser.
    text = options.read_issue(issue_source, repo) if issue_source else "(no issue given)"
    with open_with_progress(repo, text, settings, dirty=dirty) as (task, kit):
        kit.progress("replaying the claim")
        result = run_async(gate(task, claimed, kit.task_sandbox, settings.gate))
    if as_json:
        render.print_json(result)
    else:
        render.talk.print(render.gated(result))
        render.print_text(f"{result.text}\n")
    return 0
