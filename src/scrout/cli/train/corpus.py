"""`scrout train corpus`."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scrout.base import ConfigError
from scrout.cli import options, render
from scrout.config.settings import DialectName
from scrout.money import Price
from scrout.text import percent, usd

if TYPE_CHECKING:
    from scrout.lab.train.corpus.corpus import CorpusCard
    from scrout.lab.train.corpus.notes import NotesModel


def _price(value: str) -> Price:
    parts = value.split(",")
    if len(parts) != 2:
        raise click.BadParameter(f"{value!r} is no price. Write dollars per million tokens in and out, as in 0.25,2.")
    return Price(input=options.dollars(parts[0].strip()), output=options.dollars(parts[1].strip()))


@click.command(name="corpus")
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
@click.option(
    "--observation-chars",
    type=click.IntRange(200),
    default=8_000,
    show_default=True,
    help="Most of a tool's answer; less is for short contexts.",
)
@click.option("--prompts", default="", metavar="DIR", help="What the searcher is told, as scout.model.prompts has it.")
@click.option("--notes-model", default="", metavar="NAME", help="Let this model write the notes of handoffs.")
@click.option("--notes-url", default="", metavar="URL", help="Its endpoint, such as http://127.0.0.1:8000/v1.")
@click.option("--notes-key-env", default="", metavar="VAR", help="Variable of the environment that holds its key.")
@click.option("--notes-price", type=_price, metavar="IN,OUT", help="What it costs: dollars per million tokens.")
@click.option("--notes-cap-usd", type=options.dollars, metavar="USD", help="No note is asked for beyond it.")
@options.as_json
def command(
    sources: tuple[Path, ...],
    out: Path,
    dialect: DialectName,
    tasks: Path | None,
    hold_out: Path | None,
    observation_chars: int,
    prompts: str,
    notes_model: str,
    notes_url: str,
    notes_key_env: str,
    notes_price: Price | None,
    notes_cap_usd: Decimal | None,
    as_json: bool,
) -> int:
    """Cut demonstrations of searching out of trajectories of agents: files and folders of JSON, JSONL, .traj, Parquet.

    Nothing of the repositories that results are measured on becomes part of it.
    """
    from scrout.batch.tasks import read_tasks
    from scrout.lab.train.corpus.corpus import CorpusRules, build, read_held_out
    from scrout.scout.prompts import read_prompts

    gold = {row.id: row.gold.files for row in read_tasks(tasks).rows if row.gold} if tasks else {}
    rules = CorpusRules(
        dialect=dialect,
        held_out=read_held_out(hold_out) if hold_out else frozenset(),
        gold=gold,
        notes_model=_notes_model(notes_model, notes_url, notes_key_env, notes_price, notes_cap_usd),
        observation_chars=observation_chars,
        prompts=read_prompts(prompts),
    )
    with render.working() as progress:
        card = build(sources, out, rules, progress)
    if as_json:
        render.print_json(card)
    else:
        render.print_view(_view(card))
    return 0 if card.demonstrations else 1


def _notes_model(model: str, url: str, key_env: str, price: Price | None, cap_usd: Decimal | None) -> NotesModel | None:
    from scrout.lab.train.corpus.notes import NotesModel

    if not model and not url:
        if key_env or price or cap_usd is not None:
            raise click.UsageError("options of the notes' model are given, and no model. Add --notes-model.")
        return None
    if not (model and url):
        raise click.UsageError("--notes-model and --notes-url belong together. Give both.")
    if cap_usd is not None and price is None:
        raise click.UsageError("--notes-cap-usd cannot be kept without a price. Add --notes-price IN,OUT.")
    key = os.environ.get(key_env) if key_env else None
    if key_env and not key:
        raise ConfigError(f"the variable {key_env} is not set. Export the key of {model} in it.")
    return NotesModel(model, url, key, price, cap_usd)


def _view(card: CorpusCard) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [
        ("trajectories read", f"{card.read:,}"),
        ("demonstrations", f"{card.demonstrations:,}"),
        ("in reserve", f"{card.reserve:,}"),
        ("issues", f"{card.issues:,} of {card.repositories:,} repositories"),
        ("turns each", f"{card.turns:.1f}"),
        ("reproduction seen to fail", percent(card.reproduced)),
        *((f"from {name}", f"{count:,}") for name, count in card.layouts.items()),
        *((f"in {name}", f"{count:,}") for name, count in card.languages.items()),
        *((f"left out: {why}", f"{count:,}") for why, count in card.dropped.items()),
        (f"notes by {card.notes_by or 'a model'}", f"{card.notes['model']:,}"),
        *([("what they cost", usd(card.notes_usd))] if card.notes_usd is not None else []),
        ("never trained on", f"{card.excluded_repositories} repositories, {card.excluded_issues:,} issues"),
        ("hits of the blocklist", str(card.blocked_hits)),
    ]
    for row in rows:
        table.add_row(*(Text(render.inert(cell)) for cell in row))
    return Group(table, Text(f"sha256 {card.sha256}", "dim"))
