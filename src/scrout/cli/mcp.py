"""`scrout mcp`: scrout as tools for the agent that you use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from scrout.base import ConfigError
from scrout.cli import options, render
from scrout.fix.pool import completed

PORT = 8787


@click.command(name="mcp")
@options.repository
@click.option("--http", is_flag=True, help="Serve streamable HTTP on loopback instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="With --http; 0 takes a free port."
)
@click.option(
    "--token-env",
    metavar="VAR",
    help="With --http: environment variable with the token, 24 characters or more, that every request carries.",
)
@click.option("--allow-fix", is_flag=True, help="Offer the tool fix, which may spend up to the caps of scrout.toml.")
@options.sandbox
@options.configuration
def command(repo: Path, http: bool, port: int, token_env: str | None, allow_fix: bool) -> int:
    """Example: scrout mcp --repo ~/shop

    Offer scout, gate, route, and with --allow-fix fix, as tools of the Model Context Protocol.

    Clients may name only repositories below --repo. With --http, --allow-fix needs a token: every user of this
    machine can reach loopback.
    """
    if token_env is not None and not http:
        raise click.UsageError("--token-env is for --http. Leave it out.")
    _must_have_sdk()
    from scrout.server.access import read_token

    token = read_token(token_env, "--token-env") if token_env is not None else None
    if http and allow_fix and token is None:
        raise ConfigError(
            "--http with --allow-fix lets every user of this machine spend your money. Put a token into a variable and "
            "name it with --token-env."
        )
    settings = completed(options.read_settings(repo), render.say)
    from scrout.server.service import Service, root_of

    service = Service(root_of(repo), settings)
    if not http:
        from scrout.server.mcp.server import serve_stdio

        asyncio.run(serve_stdio(service, allow_fix=allow_fix))
        return 0
    from scrout.server.mcp.server import serve_http

    def ready(address: str) -> None:
        render.say(f"serving {service.root} at {address}; Ctrl-C ends it")

    asyncio.run(serve_http(service, allow_fix=allow_fix, port=port, token=token, ready=ready))
    return 0


def _must_have_sdk() -> None:
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"scrout mcp needs {error.name!r}. Install it with: pip install 'scrout[mcp]', or in a clone pip install "
            "--editable '.[mcp]'"
        ) from None
