"""`scrout`: finds the command, loads only its module, and turns errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from scrout import __version__
from scrout.cli.groups import LazyGroup

# Section -> name -> description. The module of the same name in this package defines the command and is loaded when
# needed.
SECTIONS = {
    "Work": {
        "fix": "Scout, gate, route, fix and check one issue.",
        "scout": "Rank the files an issue is about, and try to reproduce it.",
        "gate": "Replay a handoff's claim and strip what is false.",
        "route": "Choose the fixer for an issue, and explain the choice.",
        "batch": "Plan, run, grade and show a batch of tasks.",
        "runs": "List past runs, and prune their traces.",
        "show": "Show one run from issue to receipt.",
        "feedback": "Record how a run ended, so that the router learns.",
        "ledger": "Check that every total follows from its receipts.",
    },
    "Set up": {
        "doctor": "List what this machine has and what is missing.",
        "init": "Write a commented scrout.toml.",
        "trust": "Trust the scrout.toml of a repository.",
        "env": "Show, build and clear the environment of a repository.",
        "fixers": "Manage the résumés that fixers are chosen by.",
        "demo": "Run the whole job on a bundled example.",
    },
    "Serve": {
        "dashboard": "Show runs, batches and costs in a browser.",
        "api": "Offer the stages over HTTP, and a model for the pool.",
        "mcp": "Offer scout, gate, route and fix as tools of an agent.",
        "forge": "Act on labels of issues on GitHub and GitLab.",
    },
    "Lab": {
        "study": "Recompute what outcomes say, the paper's or yours.",
        "calibrate": "Measure the router on tasks with known outcomes.",
        "tasks": "Inspect task files, and make tasks from packages.",
        "train": "Train a searcher of your own.",
        "searcher": "Serve a model that searches, and check its server.",
    },
}
COMMANDS = {name: about for section in SECTIONS.values() for name, about in section.items()}

USER_ERROR = 2
INTERRUPTED = 130


@click.group(
    cls=LazyGroup, package="scrout.cli", sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="scrout %(version)s")
def scrout() -> None:
    """Example: scrout fix --issue 123 (scout, gate, route, fix and check one issue)"""


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 not solved, 2 user error, 130 interrupted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # If SIGHUP is already ignored, nohup did that on purpose.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        code = scrout.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        # Cleanup is finished: another signal must not change the exit code.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        click.echo("interrupted", err=True)
        # Not sys.exit, which would wait for a thread that is still reading an index.
        os._exit(INTERRUPTED)
    except Exception as error:
        code = _explain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _end(number: int, frame: FrameType | None) -> None:
    """On SIGTERM or SIGHUP, clean up as on Ctrl-C: no process, mount or stray file is left."""
    # A terminal that closes sends both, and the second must not interrupt the cleanup.
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    if callable(on_ctrl_c):
        on_ctrl_c(number, frame)
    else:  # a shell's background job ignores Ctrl-C
        raise KeyboardInterrupt


def _explain(error: Exception) -> int:
    from scrout.base import ScroutError
    from scrout.text import inert

    if isinstance(error, ScroutError):
        click.echo(inert(f"error: {error}"), err=True)
        return USER_ERROR
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        advice = "Check the path, its permissions and the free space."
        click.echo(inert(f"error: {error.strerror}{where}. {advice}"), err=True)
        return USER_ERROR
    raise error
