"""`scrout searcher`: the server of a searcher model."""

from __future__ import annotations

import click

from scrout.cli.groups import LazyGroup

COMMANDS = {
    "serve": "Print the command that serves a checkpoint, or run it.",
    "canary": "Check the server before any episode.",
}


@click.group(name="searcher", cls=LazyGroup, package=__name__, sections={"Commands": COMMANDS})
def command() -> None:
    """Example: scrout searcher serve checkpoint/ --start

    Serve a model that searches, and check its server.
    """
