"""`scrout fix`: the whole job on one issue."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click

from scrout.base import TaskError
from scrout.cli import options, render
from scrout.cli.open_task import open_with_progress
from scrout.cli.run_async import run_async
from scrout.config.settings import HandoffMode, Settings
from scrout.files import write_plain
from scrout.fix.pool import completed
from scrout.git import GitError, find_repository
from scrout.ledger.store import OpenRun
from scrout.pipeline import solve
from scrout.records import Run


@click.command(name="fix")
@options.issue
@options.dirty
@options.sandbox
@options.goal
@click.option("--fixer", help="Use this fixer instead of the router's choice.")
@click.option(
    "--handoff",
    type=click.Choice(get_args(HandoffMode)),
    metavar="MODE",
    help=f"The part of the handoff that the fixer gets: {', '.join(get_args(HandoffMode))}.",
)
@click.option("--escalate", is_flag=True, help="Try the next fixer if a patch proves wrong.")
@click.option("--out", type=options.PATH, help="Write the patch to this file.")
@click.option("--apply", "apply_patch", is_flag=True, help="Apply the patch, unless the check doubts it.")
@click.option("--fresh", is_flag=True, help="Start over; do not resume an interrupted run.")
@options.common
def command(
    repo: Path,
    issue_source: str,
    dirty: bool,
    fixer: str | None,
    handoff: HandoffMode | None,
    escalate: bool,
    out: Path | None,
    apply_patch: bool,
    fresh: bool,
    as_json: bool,
) -> int:
    """Example: scrout fix --issue 123

    Scout, gate, route, fix and check one issue.

    The patch goes to standard output or to --out. Your work tree changes only with --apply.
    Exit code 0: solved, the check passed. 1: not solved, or there is a patch that no run could prove.
    """
    settings = completed(options.read_settings(repo), render.say)
    if fixer:
        settings = settings.only(fixer)
    given = ({"handoff": handoff} if handoff else {}) | ({"escalate": True} if escalate else {})
    if handoff:  # the option of this run overrides a fixer's entry
        pool = tuple(entry.model_copy(update={"handoff": None}) for entry in settings.fixers)
        settings = settings.model_copy(update={"fixers": pool})
    settings = settings.model_copy(update={"fix": settings.fix.model_copy(update=given)})
    if out:
        options.must_be_writable(out, "--out")
    run = solve_with_progress(repo, options.read_issue(issue_source, repo), settings, dirty=dirty, fresh=fresh)
    deliver(run, settings, as_json=as_json, out=out)
    if apply_patch and run.patch:
        _apply_unless_wrong(run)
    return 0 if run.outcome == "solved" else 1


def solve_with_progress(repo: Path, text: str, settings: Settings, *, dirty: bool = False, fresh: bool = False) -> Run:
    with open_with_progress(repo, text, settings, dirty=dirty) as (task, kit):
        return run_async(solve(task, replace(kit, context=replace(kit.context, fresh=fresh, opened=_say_resumed))))


def _say_resumed(run: OpenRun) -> None:
    if run.resumed:
        render.say(f"note: continuing run {run.id}, which was interrupted. --fresh starts over.")


def deliver(run: Run, settings: Settings, *, as_json: bool = False, out: Path | None = None) -> None:
    """Write the summary and advice to standard error, the patch or the JSON to standard output or a file."""
    if not as_json:
        render.talk.print(render.story(run))
    _advise(run, settings)
    if out:
        _write(run, out)
    if as_json:
        render.print_json(run)
    elif not out:
        render.print_patch(run.patch)


def _write(run: Run, out: Path) -> None:
    if not run.patch:
        render.say(f"there is no patch; {out} was not written")
        return
    try:
        write_plain(out, run.patch.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise TaskError(
            f"--out {out}: {error.strerror}. The patch is kept: print it with `scrout show {run.id} --patch`."
        ) from None
    render.say(f"patch written to {out}")


def _advise(run: Run, settings: Settings) -> None:
    """The next step, if no fixer solved it."""
    last = run.attempts[-1] if run.attempts else None
    if run.outcome == "not_solved" and last and not last.patch and not settings.fixer(last.fixer).has_model:
        render.say(
            "The embedded fixer found nothing. It makes small edits guided by a failing reproduction; for more, add a "
            'model: a [[fixers]] entry of kind "agent" in scrout.toml (`scrout init` writes one to fill in).'
        )
    elif run.outcome == "unverified" and run.checks[-1].outcome == "doubtful":
        render.say("The check doubts this patch: it may be wrong for inputs that the report does not complain about.")
    elif run.outcome == "unverified":
        render.say("This patch is not proven: read it before you use it.")
    elif run.outcome == "infrastructure" and last:
        render.say(f"The endpoint failed, not the fixer: {last.detail}")


def _apply_unless_wrong(run: Run) -> None:
    if run.outcome not in ("solved", "unverified"):
        render.say("not applied: the check proved the patch wrong")
    elif run.checks[-1].outcome == "doubtful":
        render.say(f"not applied: the check doubts the patch. Print it with `scrout show {run.id} --patch`.")
    else:
        _apply(run)


def _apply(run: Run) -> None:
    if re.search("(?m)^copy (from|to) ", run.patch):
        # Either line makes git copy a file, which may be anywhere on the host. A workspace's patch never has one.
        raise TaskError(
            f"the patch copies a file, and was not applied. Look at it with `scrout show {run.id} --patch`."
        )
    try:
        with find_repository(run.task.repo).borrowed(with_work_tree=True) as git:
            git("apply", "--whitespace=nowarn", "-", stdin=run.patch.encode("utf-8", "surrogateescape"))
    except GitError as error:
        raise TaskError(
            f"the patch does not apply to your work tree, which was not changed: {error}. The patch was made for "
            f"{run.task.base_commit[:10]}; print it again with `scrout show {run.id} --patch`."
        ) from None
    render.say(f"applied to {run.task.repo}")
