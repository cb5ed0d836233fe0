"""Options that several commands share, and what they are read into."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, get_args

import click

from scrout.config import FILE_NAME, Settings, TierName, discover, load
from scrout.errors import TaskError
from scrout.git import text
from scrout.task import MAX_ISSUE_BYTES, issue_text

MAX_FILE_BYTES = 10_000_000
"""Of any other file that a user names."""

_TIER = "scrout.tier"

F = TypeVar("F", bound=Callable[..., object])


def _remember_tier(context: click.Context, _: click.Parameter, tier: str | None) -> None:
    """Kept with the context, so that a command need not pass it on: it is one more override."""
    context.meta[_TIER] = tier


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document to standard output.")
repository = click.option(
    "--repo",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="A git repository, or a folder in it.",
)
issue = click.option("--issue", "issue_source", required=True, help="File with the issue's text; - for standard input.")
sandbox = click.option(
    "--sandbox",
    type=click.Choice(get_args(TierName)),
    expose_value=False,
    callback=_remember_tier,
    help="Isolation tier; auto takes the strongest of this machine. unsafe has none.",
)
dirty = click.option("--dirty", is_flag=True, help="Work from the tree as it is, uncommitted changes included.")


def configuration(function: F) -> F:
    """--config FILE and -c key=value."""
    override = click.option("-c", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one setting.")
    file = click.option("--config", type=click.Path(path_type=Path), help="Use this scrout.toml, wherever it lies.")
    return file(override(function))


def read_settings(repo: Path, config: Path | None, overrides: tuple[str, ...]) -> Settings:
    """The file that was named, else the one that applies to the repository."""
    tier = click.get_current_context().meta.get(_TIER)
    if tier:
        overrides = (*overrides, f"sandbox.tier={tier}")
    if config:
        return load(config, overrides)
    top, trusted = repo, True
    try:
        if repo.is_dir():
            top = Path(text("rev-parse", "--show-toplevel", cwd=repo))
            trusted = not text("ls-files", "--", FILE_NAME, cwd=top)
    except TaskError as error:
        # Where git does not answer, nobody can say that the file did not come with a clone.
        trusted = "not a git repository" in str(error)
    return discover(top, overrides, trusted=trusted)


def read_issue(source: str) -> str:
    """The issue's text, from a file or from standard input."""
    return issue_text(read_file(source, "issue", MAX_ISSUE_BYTES), "standard input" if source == "-" else source)


def read_file(source: str, what: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """A file that the user named, - for standard input, or a TaskError that names it."""
    try:
        if source != "-":
            with Path(source).open("rb") as file:
                # A device never ends, so one byte too many is all that is asked for.
                raw = file.read(max_bytes + 1)
        else:
            # None: started with standard input closed.
            raw = sys.stdin.buffer.read(max_bytes + 1) if sys.stdin else b""
    except OSError as error:
        raise TaskError(f"the {what} {source}: {error.strerror}. Check the path.") from None
    if len(raw) > max_bytes:
        name = "from standard input" if source == "-" else source
        raise TaskError(f"the {what} {name} has more than {max_bytes:,} bytes. Pass its text without attachments.")
    return raw
