"""`scrout searcher canary`: checks whether the searcher's server matches the settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from rich.text import Text

from scrout.base import ConfigError
from scrout.cli import options, render
from scrout.scout.canary import Canary, canary
from scrout.text import usd

_MARK = {"ok": ("ok", "green"), "note": ("--", "yellow"), "failed": ("!!", "red")}


@click.command(name="canary")
@click.option("--layer", is_flag=True, help="Also load the checkpoint here and compare the hidden states.")
@options.common
def command(repo: Path, layer: bool, as_json: bool) -> int:
    """Example: scrout searcher canary

    Check the server of [scout.model] with some small requests, before any episode. Exit code 1 if a check fails.
    """
    settings = options.read_settings(repo).scout.model
    for key in ("model", "base_url"):
        if not getattr(settings, key):
            raise ConfigError(
                f"scout.model.{key} is not set. `scrout searcher serve` prints settings for a checkpoint."
            )
    with render.working() as progress:
        progress(f"asking {settings.model}")
        found = asyncio.run(canary(settings, layer=layer))
    render.show(found, _view(found), as_json=as_json)
    if found.failed:
        render.say(f"no episode should start: {found.failed}")
    return 1 if found.failed else 0


def _view(found: Canary) -> Text:
    lines = []
    for finding in found.findings:
        mark, style = _MARK[finding.outcome]
        lines.append(Text.assemble((f"{mark:3}", style), f"{finding.name}: {render.inert(finding.detail)}"))
    lines.append(Text(f"   {found.calls} calls, {usd(found.cost_usd)}", "dim"))
    return Text("\n").join(lines)
