"""Options that several commands share, and their parsing."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import ValidationError

from scrout.base import RouteError, TaskError
from scrout.cli import render
from scrout.config.loading import discover, load
from scrout.config.settings import TIERS, RouteSettings, Settings
from scrout.files import follows_foreign_link, is_foreign_link, lies_in_repository
from scrout.git import find_repository
from scrout.task import MAX_ISSUE_BYTES, issue_text
from scrout.text import plural

if TYPE_CHECKING:
    from scrout.batch.tasks import UnusableRow

MAX_FILE_BYTES = 10_000_000
"""Maximum size of any other file that a user names."""

_GOALS = ("min_solve", "max_usd", "dial", "solve_usd")
POLICIES = ("value", "paper")
DIAL_WORDS = {"cheapest": 0.0, "cheap": 0.25, "balanced": 0.5, "strong": 0.75, "strongest": 1.0}

ISSUE_HELP = "A file, -, a number or address on a forge, or a text."
PATH = click.Path(path_type=Path)

F = TypeVar("F", bound=Callable[..., object])


def _position(value: str) -> float:
    """A dial's position, as a number or a word."""
    try:
        position = DIAL_WORDS[value] if value in DIAL_WORDS else float(value)
    except ValueError:
        position = -1.0
    if not 0 <= position <= 1:
        raise click.BadParameter(f"{value!r} is neither a number from 0 to 1 nor one of {', '.join(DIAL_WORDS)}.")
    return position


def dollars(value: str) -> Decimal:
    try:
        amount = Decimal(value.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise click.BadParameter(f"{value!r} is not an amount. Write dollars such as 0.50.")
    return amount


def _remembered(flag: str, **about: Any) -> Callable[[F], F]:
    """An option stored in the context, so that a command need not pass it to `read_settings`."""

    def remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
        context.meta[f"scrout.{parameter.name}"] = value

    return click.option(flag, expose_value=False, callback=remember, **about)


def _given(name: str) -> Any:
    return click.get_current_context().meta.get(f"scrout.{name}")


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document to standard output.")
repository = click.option(
    "--repo", type=PATH, default=Path(), show_default="the current folder", help="A git repository."
)
sandbox = _remembered(
    "--sandbox",
    type=click.Choice(["auto", *TIERS.names()]),
    metavar="TIER",
    help=f"Isolation: auto, {', '.join(TIERS.names())}.",
)
dirty = click.option("--dirty", is_flag=True, help="Include uncommitted changes and new files.")
comments = _remembered("--comments", is_flag=True, help="Read its comments on GitHub or GitLab too.")


def issue(function: F) -> F:
    """--issue, which is required, and --comments."""
    return click.option("--issue", "issue_source", required=True, help=ISSUE_HELP)(comments(function))


def clones(function: F) -> F:
    """--repos and --repo-url: folder of clones, and URL for others."""
    folders = click.option(
        "--repos", multiple=True, type=PATH, metavar="DIR", help="Folder with clones of the repositories."
    )
    url = click.option("--repo-url", default="", metavar="URL", help="Clone others from here; {repo}: owner/name.")
    return folders(url(function))


def tasks_repositories(function: F) -> F:
    """The repositories of a task file."""
    return click.option("--repo", type=PATH, help="The repository, if TASKS is a folder of issues.")(clones(function))


def configuration(function: F) -> F:
    """--config FILE and -c key=value, which `read_settings` reads."""
    override = _remembered("-c", multiple=True, metavar="KEY=VALUE", help="Override a setting: -c route.theta=0.4.")
    return _remembered("--config", type=PATH, metavar="FILE", help="Use this scrout.toml and no other.")(
        override(function)
    )


def common(function: F) -> F:
    """--repo, --config, -c and --json, which most commands have."""
    return repository(configuration(as_json(function)))


def goal(function: F) -> F:
    """The router's goal, overriding the settings."""
    flags: tuple[tuple[str, click.ParamType[Any] | Callable[[str], object], str | None, str], ...] = (
        ("--min-solve", click.FloatRange(0, 1), "P", "Cheapest fixer with this probability."),
        ("--max-usd", dollars, "USD", "Likeliest fixer that should cost no more."),
        ("--dial", _position, "D", "From 0 (cheapest) to 1 (strongest)."),
        ("--solve-usd", dollars, "USD", "Best fixer if a solve is worth this."),
        ("--policy", click.Choice(POLICIES), None, "paper: the cheapest that reaches theta."),
    )
    for flag, kind, metavar, words in reversed(flags):
        function = _remembered(flag, type=kind, metavar=metavar, help=words)(function)
    return function


def read_settings(repo: Path, *overrides: str) -> Settings:
    """The settings from the named file, otherwise those for the repository; the command's options override them."""
    overrides = (*(_given("c") or ()), *overrides)
    if tier := _given("sandbox"):
        overrides = (*overrides, f"sandbox.tier={tier}")
    # Also for a named file: from now on, no program in the repository is used in place of the host's.
    folder = config_folder(repo)
    file = _given("config")
    settings = load(file, overrides) if file else discover(folder, overrides)
    goal = {name: value for name in (*_GOALS, "policy") if (value := _given(name)) is not None}
    return _with_goal(settings, goal) if goal else settings


def _with_goal(settings: Settings, given: dict[str, Any]) -> Settings:
    """A goal replaces any other; a goal that only `value` supports also selects `value`."""
    goals = [f"--{name.replace('_', '-')}" for name in _GOALS if name in given]
    if len(goals) > 1:
        raise RouteError(f"{' and '.join(goals)} are both goals. Keep one of them.")
    if goals and given.get("policy") == "paper":
        raise RouteError(f"{goals[0]} is for --policy value, and the policy paper uses theta. Remove one of them.")
    kept = {key: value for key, value in settings.route.model_dump(exclude_unset=True).items() if key not in _GOALS}
    try:
        route = RouteSettings.model_validate(kept | ({"policy": "value"} if goals else {}) | given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise RouteError(f"--{str(problem['loc'][0]).replace('_', '-')}: {problem['msg']}. Try another.") from None
    return settings.model_copy(update={"route": route})


def config_folder(repo: Path) -> Path:
    """The folder whose scrout.toml applies: the repository's top, or the folder itself outside of a repository."""
    try:
        return find_repository(repo).name
    except TaskError:
        return repo.resolve()


def read_issue(source: str, repo: Path) -> str:
    """The issue's text: from a file, standard input, the repository's forge, or the argument itself."""
    if source != "-" and not _mode(Path(source)):
        if text := _fetched(source, repo):
            return issue_text(text.encode(), "the forge")
        if len(source.split()) > 1:
            return issue_text(source.encode("utf-8", "replace"), "--issue")
    return issue_text(read_file(source, "issue", MAX_ISSUE_BYTES), "standard input" if source == "-" else source)


def _fetched(source: str, repo: Path) -> str:
    """The text of an issue given by number or address; empty: the argument is neither."""
    from scrout.integrations.issue_source import fetch_issue, find_issue

    address = find_issue(source, repo)
    if address is None:
        return ""
    found = fetch_issue(address, comments=bool(_given("comments")))
    render.say(f"read issue {address.number} of {address.project} at {address.host}")
    if found.pictures:
        render.say(
            f"note: {plural(len(found.pictures), 'picture')} in the issue cannot be read: describe what it shows"
        )
    return found.text


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def read_file(source: str, what: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read a file that the user named, or standard input for -; raises a TaskError that names it."""
    if source != "-" and follows_foreign_link(Path(source)):
        raise TaskError(f"the {what} {source} is reached through a symlink in the repository. Name the file itself.")
    if source != "-" and stat.S_ISFIFO(_mode(Path(source))) and lies_in_repository(Path(source)):
        raise TaskError(
            f"the {what} {source} is a pipe in the repository, and reading it would never end. Name a file."
        )
    try:
        if source != "-":
            with Path(source).open("rb") as file:
                # A device never ends, so read only one byte too many.
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


def must_be_writable(path: Path, option: str) -> None:
    """Refuse a file that cannot be written, before the work starts."""
    if str(path) == "-":
        raise TaskError(f"{option} -: standard output carries data. Name a file.")
    if not path.parent.is_dir():
        raise TaskError(f"{option} {path}: the folder {path.parent} does not exist. Create it first.")
    if is_foreign_link(path):
        raise TaskError(f"{option} {path} is reached through a symlink, which may point anywhere. Name another file.")
    if (path.exists() and not path.is_file()) or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise TaskError(f"{option} {path} cannot be written. Name a file in a folder that you may write to.")


def report_unusable(problems: Sequence[UnusableRow], most: int = 10) -> None:
    """Report the unusable rows of a task file."""
    for problem in problems[:most]:
        render.say(f"warning: {problem.source} ({problem.id or 'no id'}): {problem.words}")
    if len(problems) > most:
        render.say(f"warning: {len(problems) - most} further rows cannot be used; the JSON lists all")


def names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
