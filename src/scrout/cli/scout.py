"""`scrout scout`: the handoff for one issue, as data, as a picture on the terminal, and as a page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from scrout.cli import options, render
from scrout.cli.opening import opened
from scrout.cli.waiting import wait
from scrout.errors import TaskError


@click.command(name="scout")
@options.repository
@options.issue
@click.option("--subtree", metavar="DIR", help="Search only this folder, relative to the repository's root.")
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page to look at.")
@options.dirty
@options.sandbox
@options.configuration
@options.as_json
def command(
    repo: Path,
    issue_source: str,
    subtree: str | None,
    page: Path | None,
    dirty: bool,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Rank the files an issue is about, and try to reproduce it.

    Standard output gets the handoff in wire form, which `scrout gate` reads, or with --json the whole scouting.
    """
    if subtree is not None:
        overrides = (*overrides, f"scout.subtree={json.dumps(subtree, ensure_ascii=False)}")
    settings = options.read_settings(repo, config, overrides)
    if page:
        _must_be_writable(page)
    text = options.read_issue(issue_source)
    with opened(repo, text, settings, dirty=dirty) as (task, kit):
        base = kit.workshop.base
        found = wait(kit.scout(task))
        where = f"{kit.workshop.tier.name} sandbox, {kit.environment}"
    # Reads sources and colours them, which only this command does.
    from scrout.scout import report

    if page:
        paths = [ref.path for ref in found.handoff.files[: report.MAX_FILES]]
        _write(report.page(task, found, report.read_sources(base, paths), where), page)
    if as_json:
        render.print_json(found)
    else:
        # The picture comes last: on a terminal that shows both, it is what stays in sight.
        render.print_text(f"{found.text}\n")
        best = [ref.path for ref in found.handoff.files[: render.CODE_FILES]]
        render.talk.print(render.scouted(found, report.read_sources(base, best)))
    if page:
        render.say(f"page written to {page}")
    return 0


def _must_be_writable(page: Path) -> None:
    """Said before the work, not after it."""
    if str(page) == "-":
        raise TaskError("--html -: standard output carries the handoff. Name a file, for example --html scouting.html.")
    if not page.parent.is_dir():
        raise TaskError(f"--html {page}: there is no folder {page.parent}. Make it first.")
    if (page.exists() and not page.is_file()) or not os.access(page.parent, os.W_OK):
        raise TaskError(f"--html {page} cannot be written. Name a file in a folder of yours.")


def _write(text: str, page: Path) -> None:
    """All of it or nothing: a reader never sees half a page."""
    part = page.with_name(f".{os.getpid()}.scrout-part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(page)
    except OSError as error:
        raise TaskError(f"--html {page}: {error.strerror}. Check the folder's permissions and free space.") from None
    finally:
        part.unlink(missing_ok=True)
