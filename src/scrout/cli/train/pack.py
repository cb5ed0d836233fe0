"""`scrout train pack`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scrout.cli import options, render
from scrout.cli.train import shared
from scrout.text import percent

if TYPE_CHECKING:
    from scrout.lab.train.pack import PackCard


@click.command(name="pack")
@click.argument("corpus", type=shared.PATH, metavar="CORPUS")
@click.option("--checkpoint", required=True, type=shared.PATH, metavar="DIR", help="The base model.")
@shared.out
@click.option("--block", type=int, metavar="N", help="Tokens per block. Default: the model's context.")
@options.configuration
@options.as_json
def command(
    corpus: Path,
    checkpoint: Path,
    out: Path,
    block: int | None,
    as_json: bool,
) -> int:
    """Example: scrout train pack corpus --checkpoint Qwen2.5-Coder-7B-Instruct --out pack

    Pack whole demonstrations into blocks of tokens, for one tokenizer, with the context_tokens, max_tokens and
    margin_tokens of [scout.model].
    """
    from scrout.lab.train.pack import pack
    from scrout.lab.train.tokenization import ChatTokenizer

    searcher = options.read_settings(Path()).scout.model
    with render.working() as progress:
        card = pack(corpus, out, ChatTokenizer.load(checkpoint), searcher, block, progress)
    shared.show(card, lambda: shared.facts(_rows(card)), as_json=as_json)
    return 0


def _rows(card: PackCard) -> Iterator[tuple[str, str]]:
    yield "demonstrations", f"{card.demonstrations:,}"
    yield "documents", f"{card.documents:,}"
    yield "tokens", f"{card.tokens:,}"
    yield "tokens with loss", f"{card.loss_tokens:,}"
    yield "blocks", f"{card.blocks:,} of {card.block_tokens:,}, at least {card.min_blocks:,} are needed"
    yield "filled", percent(card.fill)
    yield from ((f"left out: {why}", f"{count:,}") for why, count in card.dropped.items())
    yield "tokens per second", f"{card.tokens / max(card.seconds, 0.001):,.0f}"
