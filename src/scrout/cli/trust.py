"""`scrout trust`: trusts a repository's current scrout.toml."""

from __future__ import annotations

from pathlib import Path

import click

from scrout.base import ConfigError, FrozenModel
from scrout.cli import options, render
from scrout.config.folders import FILE_NAME
from scrout.config.loading import distrust, trust


class TrustReport(FrozenModel):
    path: Path
    trusted: bool
    keys: tuple[str, ...] = ()


@click.command(name="trust")
@options.repository
@click.option("--revoke", is_flag=True, help="Stop trusting the file.")
@options.as_json
def command(repo: Path, revoke: bool, as_json: bool) -> int:
    """Example: scrout trust --repo ~/shop

    Trust the scrout.toml of a repository, so that it may set everything until it changes.

    Read the file first. It may name programs that run as you, endpoints that get your code and keys, and your
    paths. A changed or moved file is no longer trusted.
    """
    path = options.config_folder(repo) / FILE_NAME
    if not path.exists():
        raise ConfigError(f"{path} does not exist. Write one with `scrout init`.")
    if revoke:
        was = distrust(path)
        report = TrustReport(path=path, trusted=False)
        render.say(f"{path} is no longer trusted" if was else f"{path} was not trusted")
    else:
        report = TrustReport(path=path, trusted=True, keys=trust(path))
        render.say(f"{path} is trusted as it is now. It sets: {', '.join(report.keys) or 'nothing'}")
    if as_json:
        render.print_json(report)
    return 0
