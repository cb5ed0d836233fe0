"""`scrout env`: shows, builds and clears the repository's environment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import click
from rich.text import Text

from scrout.base import FrozenModel
from scrout.cli import options, render
from scrout.cli.groups import CommandGroup
from scrout.config.settings import EnvironmentSettings
from scrout.sandbox.environment import find_environment, plan_environment
from scrout.sandbox.environment_build import build_environment
from scrout.sandbox.environment_cache import Slot, clear
from scrout.sandbox.probe import require_tier
from scrout.sandbox.workspace import Base, find_source, make_base
from scrout.text import duration

_MEGABYTE = 1_000_000
_SHOWN_LINES = 15
_STATES = {"built": ("built", "green"), "failed": ("failed", "red"), "not_built": ("not built", "yellow")}


class RecipeReport(FrozenModel):
    kind: str
    source: str
    lines: tuple[str, ...]
    state: Literal["built", "failed", "not_built"]
    folder: str
    size_bytes: int | None
    seconds: float | None
    failed_line: str
    reason: str
    """Why the build failed; empty: it did not."""
    output_tail: str


class EnvironmentReport(FrozenModel):
    repo: Path
    base_commit: str
    label: str
    python: str
    missing: str
    recipes: tuple[RecipeReport, ...]


@click.group(name="env", cls=CommandGroup)
def command() -> None:
    """Example: scrout env build

    Show, build and clear the repository's environment.
    """


@command.command(name="show")
@options.common
def _show(repo: Path, as_json: bool) -> int:
    """Example: scrout env show

    Show what commands of the repository run with, what its files ask for, and whether that was built.
    """
    settings = options.read_settings(repo).environment
    with render.working() as progress:
        progress("copying the repository")
        report = _report(_base(repo), settings)
    render.show(report, _view(report), as_json=as_json)
    return 0


@command.command(name="build")
@click.option("--force", is_flag=True, help="Build again, even if a build exists or has failed.")
@options.common
def _build(repo: Path, force: bool, as_json: bool) -> int:
    """Example: scrout env build --force

    Install what the repository asks for into a separate environment. Exit code 1 if a build failed.

    It runs code of the project and of its dependencies in a sandbox that has network. Your work tree does not change.
    """
    settings = options.read_settings(repo)
    with render.working() as progress:
        progress("copying the repository")
        base = _base(repo)
        tier = require_tier(settings.sandbox)
        asyncio.run(build_environment(base, tier, settings.environment, progress, force=force))
        report = _report(base, settings.environment)
    if not report.recipes:
        render.say(f"nothing to build: {report.label}")
    render.show(report, _view(report), as_json=as_json)
    return 1 if report.missing else 0


@command.command(name="clear")
@options.repository
@click.option("--all", "everything", is_flag=True, help="Clear every repository, not only this one.")
def _clear(repo: Path, everything: bool) -> int:
    """Example: scrout env clear --all

    Remove built environments, remembered failures and downloads. Use it while no scrout runs.
    """
    count, size_bytes = clear(None if everything else find_source(repo).repo)
    render.say(f"removed {count} built or failed environments ({size_bytes / _MEGABYTE:.0f} MB)")
    return 0


def _base(repo: Path) -> Base:
    source = find_source(repo)
    return make_base(source.repo, source.head)


def _report(base: Base, settings: EnvironmentSettings) -> EnvironmentReport:
    found = find_environment(base.repo, settings, base)
    return EnvironmentReport(
        repo=base.repo,
        base_commit=base.commit,
        label=found.label,
        python=found.python,
        missing=found.missing,
        recipes=tuple(_recipe(slot) for slot in plan_environment(base.repo, settings, base).slots),
    )


def _recipe(slot: Slot) -> RecipeReport:
    built, failed = slot.built(), slot.failed()
    return RecipeReport(
        kind=slot.recipe.kind,
        source=slot.recipe.source,
        lines=slot.recipe.lines,
        state="built" if built else "failed" if failed else "not_built",
        folder=str(slot.folder),
        size_bytes=built.size_bytes if built else None,
        seconds=built.seconds if built else None,
        failed_line=failed.line if failed and not built else "",
        reason=failed.reason if failed and not built else "",
        output_tail=failed.output_tail if failed and not built else "",
    )


def _view(report: EnvironmentReport) -> Text:
    lines = [_text(f"{report.repo} at {report.base_commit[:10]}"), _text(f"runs with {report.label}")]
    for recipe in report.recipes:
        lines.append(_text(f"{recipe.kind} environment for {recipe.source}: {_STATES[recipe.state][0]}"))
        lines[-1].stylize(_STATES[recipe.state][1], len(lines[-1]) - len(_STATES[recipe.state][0]))
        if recipe.size_bytes is not None:
            size_mb = recipe.size_bytes / _MEGABYTE
            lines.append(_text(f"  {recipe.folder}, {size_mb:.0f} MB, built in {duration(recipe.seconds)}"))
        lines += [_text(f"  $ {line}", "dim") for step in recipe.lines for line in step.splitlines()]
        if recipe.reason:
            lines.append(_text(f"  failed at {recipe.failed_line}" if recipe.failed_line else "  failed"))
            lines += [_text(f"  | {line}", "dim") for line in recipe.output_tail.splitlines()[-_SHOWN_LINES:]]
            lines.append(_text(f"  {recipe.reason}", "red"))
    if report.missing:
        lines.append(_text(f"missing: {report.missing}", "yellow"))
    return Text("\n").join(lines)


def _text(words: str, style: str = "") -> Text:
    """Text from a repository, without control characters."""
    return Text(render.inert(words), style)
