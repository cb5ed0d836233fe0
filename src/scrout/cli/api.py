"""`scrout api`: scrout over HTTP, for programs."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.cli import options, render
from scrout.cli.dashboard import refuse_missing
from scrout.fix.pool import completed

PORT = 8766


@click.command(name="api")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; any but loopback needs callers in scrout.toml.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free port.")
@options.repository
@options.sandbox
@options.configuration
def command(host: str, port: int, repo: Path) -> int:
    """Example: scrout api --repo ~/projects

    Offer the stages over HTTP as jobs, and the model scrout/auto, which stands for the pool.

    Callers may name only repositories below --repo. [[api.callers]] in scrout.toml names them, their tokens, rights
    and budgets. Without callers only this machine may ask, and only for what is free.
    """
    refuse_missing("the API")
    from scrout.server.api.app import serve
    from scrout.server.service import Service, root_of

    settings = completed(options.read_settings(repo), render.say)
    service = Service(root_of(repo), settings)
    server = serve(service, host, port)
    names = ", ".join(caller.name for caller in settings.api.callers) or "everybody on this machine, for free"
    render.say(f"the API for {service.root} is at {server.url}, for {names}. Ctrl-C ends it")
    server.run()
    return 0
