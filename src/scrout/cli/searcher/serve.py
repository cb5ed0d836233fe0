"""`scrout searcher serve`: prints or runs the command that serves a checkpoint for the searcher."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import get_args

import click

from scrout.cli import options, render
from scrout.config.settings import SearcherSettings
from scrout.scout.serving import Engine, Serving, run, serving


@click.command(name="serve-searcher")
@click.argument("checkpoint", metavar="CHECKPOINT", type=options.PATH)
@click.option(
    "--engine", type=click.Choice(get_args(Engine)), default="vllm", show_default=True, help="Inference server."
)
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="On loopback.")
@click.option(
    "--layer",
    default=SearcherSettings().state_layer,
    show_default=True,
    help="Layer whose hidden state is kept, counted from the end.",
)
@click.option("--start", is_flag=True, help="Start the server, in the foreground, until it ends.")
@options.as_json
def command(checkpoint: Path, engine: Engine, port: int, layer: int, start: bool, as_json: bool) -> int:
    """Example: scrout searcher serve checkpoint/ --start

    Print the command that serves a checkpoint with pinned sampling and hidden states, and the settings for it.

    CHECKPOINT is a folder with config.json and weights. With --start the server runs here, and ends with this command.
    """
    plan = serving(checkpoint, engine, port, layer)
    if as_json:
        render.print_json(plan)
    elif not start:
        render.print_text(_told(plan))
    if not start:
        return 0
    render.say(f"starting {plan.engine} on port {port}; Ctrl-C ends it")
    code = run(plan)
    render.say(f"{plan.engine} ended with code {code}")
    return 0 if code == 0 else 1


def _told(plan: Serving) -> str:
    # One option per line: a command of 700 characters is unreadable.
    words = [shlex.quote(word) for word in plan.command]
    lines, line = [], ""
    for word in words:
        if word.startswith("--") and line:
            lines.append(line)
            line = f"  {word}"
        else:
            line = f"{line} {word}".strip() if not line.startswith("  ") else f"{line} {word}"
    parts = [" \\\n".join([*lines, line]), f"# For scrout.toml:\n{plan.settings}"]
    if plan.folder:
        note = f"# vLLM writes the states of every request to {plan.folder}, up to 0.2 GB each. With --start scrout\n"
        parts.insert(1, note + "# removes unused ones; without it they go only when the next state is read.")
    return "\n\n".join(parts)
