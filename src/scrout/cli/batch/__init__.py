"""`scrout batch`: many tasks at once."""

from __future__ import annotations

import click

from scrout.cli.groups import LazyGroup

COMMANDS = {
    "plan": "Estimate what a batch would cost, before spending.",
    "run": "Run a batch of tasks, resumable and accounted for.",
    "grade": "Run the tests that judge each patch of a batch.",
    "show": "Show what a batch came to.",
}


@click.group(name="batch", cls=LazyGroup, package=__name__, sections={"Commands": COMMANDS})
def command() -> None:
    """Example: scrout batch run tasks.jsonl --out batch --repos clones/

    Plan, run, grade and show a batch of tasks.
    """
