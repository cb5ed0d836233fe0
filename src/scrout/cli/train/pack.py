"""`scrout train pack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render
from scrout.text import percent

if TYPE_CHECKING:
    from scrout.lab.train.pack import PackCard


@click.command(name="pack")
@click.argument("corpus", type=click.Path(path_type=Path), metavar="CORPUS")
@click.option("--checkpoint", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Of the base model.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new folder for it.")
@click.option("--context", type=int, default=32768, show_default=True, help="Tokens that the searcher will see.")
@click.option("--max-tokens", type=int, default=2048, show_default=True, help="Tokens that it may write in a turn.")
@click.option("--margin", type=int, default=256, show_default=True, help="Tokens that are left free beside both.")
@click.option("--block", type=int, help="Tokens of a block; as many as the context has, unless given.")
@options.as_json
def command(
    corpus: Path,
    checkpoint: Path,
    out: Path,
    context: int,
    max_tokens: int,
    margin: int,
    block: int | None,
    as_json: bool,
) -> int:
    """Make blocks of tokens of a corpus, whole demonstrations as the searcher will see them, for one tokenizer."""
    from pydantic import ValidationError

    from scrout.base import ConfigError
    from scrout.config.settings import SearcherSettings
    from scrout.lab.train.pack import pack
    from scrout.lab.train.tokenization import ChatTokenizer

    try:
        settings = SearcherSettings(context_tokens=context, max_tokens=max_tokens, margin_tokens=margin)
    except ValidationError as error:
        raise ConfigError(f"{error.errors()[0]['msg']}. Change --context, --max-tokens or --margin.") from None
    with render.working() as progress:
        card = pack(corpus, out, ChatTokenizer.load(checkpoint), settings, block, progress)
    if as_json:
        render.print_json(card)
    else:
        render.print_view(_view(card))
    return 0


def _view(card: PackCard) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [
        ("demonstrations", f"{card.demonstrations:,}"),
        ("documents", f"{card.documents:,}"),
        ("tokens", f"{card.tokens:,}"),
        ("of them learned", f"{card.loss_tokens:,}"),
        ("blocks", f"{card.blocks:,} of {card.block_tokens:,}, at least {card.min_blocks:,} are needed"),
        ("filled", percent(card.fill)),
        *((f"left out: {why}", f"{count:,}") for why, count in card.dropped.items()),
        ("tokens a second", f"{card.tokens / max(card.seconds, 0.001):,.0f}"),
    ]
    for row in rows:
        table.add_row(*(Text(render.inert(cell)) for cell in row))
    return table
