"""`scrout dashboard`: the dashboard."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from scrout.base import ConfigError
from scrout.cli import options, render

NEEDED = ("starlette", "uvicorn", "fastapi")


@click.command(name="serve")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen at; any but loopback needs a token."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free port.")
@click.option(
    "--token-env",
    "variable",
    default="",
    metavar="VAR",
    help="Environment variable with the token, 24 characters or more, that visitors need.",
)
@options.repository
@options.configuration
def command(host: str, port: int, variable: str, repo: Path) -> int:
    """Example: scrout dashboard --port 8765

    Show runs, batches, fixers and costs in a browser. It reads the ledger and changes nothing.

    The repository decides only which scrout.toml, and so which ledger and pool, applies.
    """
    refuse_missing("the dashboard")
    from scrout.server.dashboard.access import token_for
    from scrout.server.dashboard.app import serve

    token = token_for(host, variable)
    settings = options.read_settings(repo)
    with render.working() as progress:
        progress("reading the ledger")
        server = serve(settings, host, port, token)
    asks = "; it asks for the token" if token else ""
    render.say(f"the dashboard of {server.ledger} is at {server.url}{asks}. Ctrl-C ends it")
    server.run()
    return 0


def refuse_missing(what: str) -> None:
    """Raise a ConfigError that names the missing packages of a server."""
    if lacking := [name for name in NEEDED if find_spec(name) is None]:
        raise ConfigError(
            f"{what} needs packages that are not installed: {', '.join(lacking)}. Run pip install 'scrout[web]', or in "
            "a clone pip install --editable '.[web]'"
        )
