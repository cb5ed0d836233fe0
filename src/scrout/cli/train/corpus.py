"""`scrout train corpus`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.text import Text

from scrout.cli import options, render
from scrout.cli.train import shared
from scrout.text import percent, usd

if TYPE_CHECKING:
    from scrout.lab.train.corpus.corpus import CorpusCard


@click.command(name="corpus")
@click.argument("sources", nargs=-1, required=True, type=shared.PATH, metavar="SOURCES...")
@shared.out
@click.option("--tasks", type=shared.PATH, metavar="FILE", help="Task file with the true patches.")
@click.option("--hold-out", type=shared.PATH, metavar="FILE", help="Ids of issues to leave out, one per line.")
@click.option("--notes", type=shared.PATH, metavar="FILE", help="TOML file that names a model to write notes.")
@options.configuration
@options.as_json
def command(
    sources: tuple[Path, ...],
    out: Path,
    tasks: Path | None,
    hold_out: Path | None,
    notes: Path | None,
    as_json: bool,
) -> int:
    """Example: scrout train corpus trajectories/ --out corpus

    Cut demonstrations of searching from trajectories of agents, as the searcher under [scout.model] will see them.
    SOURCES are files and folders of JSON, JSONL, .traj and Parquet. Benchmark repositories are left out.
    """
    from scrout.batch.tasks import read_tasks
    from scrout.lab.train.corpus.corpus import CorpusRules, build_corpus, read_held_out
    from scrout.lab.train.corpus.notes import read_notes_model
    from scrout.scout.prompts import read_prompts

    searcher = options.read_settings(Path()).scout.model
    rules = CorpusRules(
        dialect=searcher.dialect,
        held_out=read_held_out(hold_out) if hold_out else frozenset(),
        gold={row.id: row.gold.files for row in read_tasks(tasks).rows if row.gold} if tasks else {},
        notes_model=read_notes_model(notes) if notes else None,
        observation_chars=searcher.observation_chars,
        prompts=read_prompts(searcher.prompts),
    )
    with render.working() as progress:
        card = build_corpus(sources, out, rules, progress)
    shared.show(card, lambda: Group(shared.facts(_rows(card)), Text(f"sha256 {card.sha256}", "dim")), as_json=as_json)
    return 0 if card.demonstrations else 1


def _rows(card: CorpusCard) -> Iterator[tuple[str, str]]:
    yield "trajectories read", f"{card.read:,}"
    yield "demonstrations", f"{card.demonstrations:,}"
    yield "in reserve", f"{card.reserve:,}"
    yield "issues", f"{card.issues:,} of {card.repositories:,} repositories"
    yield "turns per demonstration", f"{card.turns:.1f}"
    yield "with a failing reproduction", percent(card.reproduced)
    for what, counts in (("from", card.layouts), ("in", card.languages), ("left out:", card.dropped)):
        yield from ((f"{what} {name}", f"{count:,}") for name, count in counts.items())
    yield f"notes by {card.notes_by or 'a model'}", f"{card.notes['model']:,}"
    if card.notes_usd is not None:
        yield "cost of the notes", usd(card.notes_usd)
    yield "excluded", f"{card.excluded_repositories} repositories, {card.excluded_issues:,} issues"
    yield "excluded ones found", str(card.blocked_hits)
