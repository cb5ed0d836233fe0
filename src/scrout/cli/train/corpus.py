"""`scrout train`: a corpus of searches, and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render
from scrout.config import DialectName

if TYPE_CHECKING:
    from scrout.train.corpus.corpus import Card


@click.group(name="train")
def command() -> None:
    """Train a searcher of your own: build its corpus."""


@command.command(name="corpus")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SOURCES...")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new folder for it.")
@click.option(
    "--dialect",
    type=click.Choice(get_args(DialectName)),
    default="xml",
    show_default=True,
    help="How calls are written.",
)
@click.option("--tasks", type=click.Path(path_type=Path), metavar="FILE", help="Task file with the true patches.")
@click.option("--hold-out", type=click.Path(path_type=Path), metavar="FILE", help="Ids that are left out, one a line.")
@options.as_json
def _corpus(
    sources: tuple[Path, ...],
    out: Path,
    dialect: DialectName,
    tasks: Path | None,
    hold_out: Path | None,
    as_json: bool,
) -> int:
    """Cut demonstrations of searching out of trajectories of agents: files and folders of JSON, JSONL, .traj, Parquet.

    Nothing of the repositories that results are measured on becomes part of it.
    """
    from scrout.batch.tasks import read_tasks
    from scrout.train.corpus.corpus import Rules, build, read_held_out

    gold = {row.id: row.gold.files for row in read_tasks(tasks).rows if row.gold} if tasks else {}
    rules = Rules(dialect=dialect, held_out=read_held_out(hold_out) if hold_out else frozenset(), gold=gold)
    with render.working() as progress:
        card = build(sources, out, rules, progress)
    if as_json:
        render.print_json(card)
    else:
        render.print_view(_view(card))
    return 0 if card.demonstrations else 1


def _view(card: Card) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [
        ("trajectories read", f"{card.read:,}"),
        ("demonstrations", f"{card.demonstrations:,}"),
        ("on the shelf", f"{card.shelf:,}"),
        ("issues", f"{card.issues:,} of {card.repositories:,} repositories"),
        ("turns each", f"{card.turns:.1f}"),
        ("reproduction seen to fail", "-" if card.reproduced is None else f"{card.reproduced:.1%}"),
        *((f"from {name}", f"{count:,}") for name, count in card.layouts.items()),
        *((f"in {name}", f"{count:,}") for name, count in card.languages.items()),
        *((f"left out: {why}", f"{count:,}") for why, count in card.dropped.items()),
        ("hits of the blocklist", str(card.blocked_hits)),
    ]
    for row in rows:
        table.add_row(*(Text(render.inert(cell)) for cell in row))
    return Group(table, Text(f"sha256 {card.sha256}", "dim"))
