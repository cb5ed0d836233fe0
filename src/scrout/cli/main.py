"""`scrout`: finds the command, loads only its module, and turns errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click

from scrout import __version__

# name -> what it does. The module of the same name in this package (`-` written `_`) holds the command, loaded when it
# is needed.
COMMANDS = {
    "fix": "Scout, gate, route, fix and check one issue.",
    "run": "Scout, gate, route, fix and check many tasks, resumable and accounted for.",
    "plan": "Estimate what many tasks would cost and which to skip, before spending.",
    "grade": "Run the tests that judge each patch of a batch.",
    "tasks": "Show what a task file holds, and make tasks from published packages.",
    "scout": "Rank the files an issue is about, and try to reproduce it.",
    "gate": "Replay a handoff's claim and strip what is false.",
    "route": "Choose the fixer for an issue, and say why not the others.",
    "calibrate": "Measure the router on tasks with known outcomes, beside every simpler way to spend.",
    "study": "Recompute what outcomes say, from the paper's receipts or from your own runs.",
    "fixers": "Add, list, show and remove the résumés that fixers are chosen by.",
    "feedback": "Say what came of a run, so that the router learns from it.",
    "train": "Train a searcher of your own, from trajectories to the exam.",
    "serve": "Show runs, their stories, batches and costs in a browser.",
    "api": "Offer the stages as jobs over HTTP, and a model that stands for the pool.",
    "mcp": "Offer scout, gate, route and fix as tools of an agent.",
    "forge": "Act on labels of issues on GitHub and GitLab.",
    "runs": "List past runs, and prune their traces.",
    "show": "Tell the story of one run.",
    "ledger": "Check that every total follows from its receipts.",
    "demo": "Run the whole job on a bundled example.",
    "env": "Show, build and clear the environment of a repository.",
    "serve-searcher": "Print the command that serves a searcher's checkpoint, or start it.",
    "canary": "Check the searcher's server before any episode.",
    "doctor": "Say what this machine has, what is missing, and the next step.",
    "init": "Write a commented scrout.toml.",
    "trust": "Vouch for the scrout.toml of a repository.",
}

USER_ERROR = 2
INTERRUPTED = 130


class Commands(click.Group):
    """A group whose commands are imported one at a time, so that `scrout --version` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"scrout.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="scrout %(version)s")
def scrout() -> None:
    """Scout, then route: fix issues with the cheapest fixer that is likely to succeed."""


def main() -> NoReturn:
    """Entry point. 0 done, 1 not solved, 2 the user's error, 130 interrupted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A hangup that is ignored already was ignored on purpose, by nohup.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        code = scrout.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        # All is cleaned up: one more of them must not change the exit code.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        click.echo("interrupted", err=True)
        # Not sys.exit, which would wait for a thread that still reads an index.
        os._exit(INTERRUPTED)
    except Exception as error:
        code = _explain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _end(number: int, frame: FrameType | None) -> None:
    """Ended from outside, scrout cleans up as on Ctrl-C: no process, mount or stray file stays behind."""
    # A terminal that closes sends both, and the second must not cut the cleaning short.
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    if callable(on_ctrl_c):
        on_ctrl_c(number, frame)
    else:  # a shell's background job ignores Ctrl-C
        raise KeyboardInterrupt


def _explain(error: Exception) -> int:
    from scrout.base import ScroutError
    from scrout.cli.render import inert

    if isinstance(error, ScroutError):
        click.echo(inert(f"error: {error}"), err=True)
        return USER_ERROR
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        advice = "Check the path, its permissions and the free space."
        click.echo(inert(f"error: {error.strerror}{where}. {advice}"), err=True)
        return USER_ERROR
    raise error
