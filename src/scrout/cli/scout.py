"""`scrout scout`: the handoff for one issue, as data, on the terminal, and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from scrout import pipeline
from scrout.base import TaskError
from scrout.cli import options, render
from scrout.cli.open_task import open_with_progress
from scrout.cli.run_async import run_async
from scrout.config.settings import SEARCHERS
from scrout.files import write_plain
from scrout.records import Scouting


@click.command(name="scout")
@click.option("--issue", "issue_source", help=options.ISSUE_HELP)
@options.comments
@click.option("--searcher", type=click.Choice(SEARCHERS.names()), help="recon, or the model under [scout.model].")
@click.option("--replay", "trace", type=options.PATH, metavar="TRACE", help="Repeat a recorded episode.")
@click.option("--subtree", metavar="DIR", help="Search only this folder, relative to the repository's root.")
@click.option("--html", "page", type=options.PATH, metavar="FILE", help="Also write an HTML page.")
@options.dirty
@options.sandbox
@options.common
def command(
    repo: Path,
    issue_source: str | None,
    searcher: str | None,
    trace: Path | None,
    subtree: str | None,
    page: Path | None,
    dirty: bool,
    as_json: bool,
) -> int:
    """Example: scrout scout --issue bug.md > handoff.txt

    Rank the files an issue is about, and try to reproduce it.

    Standard output gets the handoff in wire form, which `scrout gate` reads, or with --json the whole scouting.
    --replay makes the handoff from an unchanged trace alone, without model or sandbox. Exit code 1: the model gave
    no handoff.
    """
    if trace is not None:
        if issue_source is not None or page is not None:
            raise click.UsageError(
                "--replay takes the issue from the trace and has no repository, so it cannot be combined with "
                "--issue or --html."
            )
        named = {"--searcher": searcher, "--subtree": subtree}
        if given := ", ".join(option for option, value in named.items() if value is not None):
            raise click.UsageError(
                f"--replay repeats an episode as it was recorded, so {given} cannot be changed. Leave it out."
            )
        return _replay(trace, as_json)
    if issue_source is None:
        raise click.UsageError("Missing option '--issue' (or '--replay').")
    wanted = {"searcher": searcher, "subtree": subtree}
    chosen = {key: json.dumps(value, ensure_ascii=False) for key, value in wanted.items() if value is not None}
    settings = options.read_settings(repo, *(f"scout.{key}={value}" for key, value in chosen.items()))
    if settings.scout.searcher == "model":
        settings.scout.model.key()  # an error before the work, not after it
    if page:
        options.must_be_writable(page, "--html")
    text = options.read_issue(issue_source, repo)
    with open_with_progress(repo, text, settings, dirty=dirty) as (task, kit):
        base = kit.task_sandbox.base
        found = run_async(pipeline.scout(kit, task))
        where = f"{kit.task_sandbox.tier.name} sandbox, {kit.environment}"
    # This module reads and colours sources, which only this command needs.
    from scrout.scout import report

    if page:
        paths = [ref.path for ref in found.handoff.files[: report.MAX_FILES]]
        _write(report.page(task, found, report.read_sources(base, paths), where), page)
    best = [ref.path for ref in found.handoff.files[: render.CODE_FILES]]
    _print(found, as_json, lambda: report.read_sources(base, best))
    if page:
        render.say(f"page written to {page}")
    return _code(found)


def _replay(trace: Path, as_json: bool) -> int:
    from scrout.scout.episode import replay

    found = run_async(replay(trace))
    _print(found, as_json, lambda: {})
    render.say(f"replayed {trace}: nothing was asked, run or spent")
    return _code(found)


def _code(found: Scouting) -> int:
    return 0 if found.stop in ("finished", "forced") else 1


def _print(found: Scouting, as_json: bool, sources: Callable[[], dict[str, str]]) -> None:
    if as_json:
        render.print_json(found)
        return
    # The view comes last: on a terminal, it stays visible.
    render.print_text(f"{found.text}\n")
    render.talk.print(render.scouted(found, sources()))


def _write(text: str, page: Path) -> None:
    try:
        write_plain(page, text.encode(errors="surrogateescape"))
    except OSError as error:
        raise TaskError(f"--html {page}: {error.strerror}. Check the folder's permissions and free space.") from None
