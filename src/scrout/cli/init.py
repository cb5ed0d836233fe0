"""`scrout init`: writes a scrout.toml for this machine, with every key as a comment."""

from __future__ import annotations

from importlib.resources import files as package_files
from pathlib import Path

import click

from scrout.base import ConfigError
from scrout.cli import render
from scrout.cli.options import config_folder
from scrout.config.folders import FILE_NAME, user_file
from scrout.config.loading import load, trust
from scrout.files import is_foreign_link, write_plain
from scrout.fix.discovery import Discovery, discover
from scrout.fix.pool import completed
from scrout.pipeline import router
from scrout.text import usd

TYPICAL_ISSUE = "A function raises a TypeError for an empty list. It should return an empty result."
"""A short issue, to estimate the usual costs of the pool."""

TEMPLATE = package_files("scrout").joinpath("templates", "scrout.toml").read_text(encoding="utf-8")


@click.command(name="init")
@click.option("--user", is_flag=True, help="Write it into your configuration folder, for every repository.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.option("--bare", is_flag=True, help="Do not search this machine: only the built-in repair is in the pool.")
def command(user: bool, force: bool, bare: bool) -> int:
    """Example: scrout init

    Write a commented scrout.toml into the current folder, with the agents, keys and local models of this machine.

    It looks for programs on your PATH, for keys by their names, and for model servers on this machine's usual ports.
    It contacts no other machine.
    """
    # The user's own file may be a symlink. One in a repository could point to any file.
    path = user_file().resolve() if user else Path(FILE_NAME)
    if is_foreign_link(path):
        raise ConfigError(f"{path} is a symlink, and scrout does not follow symlinks in a repository. Remove it first.")
    path.parent.mkdir(parents=True, exist_ok=True)
    config_folder(Path())  # from now on, no program in this repository is used
    found = Discovery((), ()) if bare else discover()
    text = TEMPLATE + "".join(f"\n{fixer.toml()}" for fixer in found.fixers)
    try:
        write_plain(path, text.encode(), replace=force)
    except FileExistsError:
        raise ConfigError(f"{path} exists. Edit it, or replace it with --force.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Check the folder.") from None
    if user:
        render.say(f"wrote {path}")
    else:
        trust(path.absolute())
        render.say(f"wrote {path}. Run `scrout trust` when you have changed it.")
    for note in found.notes:
        render.say(f"note: {note}")
    _tell_costs(path)
    return 0


def _tell_costs(path: Path) -> None:
    """List the new file's pool, cheapest first, with the cost of one issue."""
    settings = completed(load(path), render.say)
    if len(settings.fixers) == 1:
        render.say("The pool is repair alone: it costs nothing and makes small edits. Add a model for more.")
        return
    decision = router(settings).route(TYPICAL_ISSUE, None)
    render.say("The pool, cheapest first:")
    costs = {one.fixer: one.expected_cost_usd for one in decision.candidates}
    most = {fixer.name: fixer.max_cost_usd for fixer in settings.fixers}
    for fixer in sorted(settings.fixers, key=lambda one: (most[one.name], costs.get(one.name) or most[one.name])):
        usual = "" if costs.get(fixer.name) is None else f"about {usd(costs[fixer.name])} per attempt, "
        render.say(
            f"  {fixer.name}: {usual}{usd(most[fixer.name])} at most" if most[fixer.name] else f"  {fixer.name}: $0.00"
        )
    render.say(f"One issue costs {usd(max(most.values()))} at most. Try: scrout fix --issue 123")
