"""Blocks: few, whole, apart, and what the searcher would see."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from scrout.base import TaskError
from scrout.cli.train.pack import command
from scrout.config.settings import SearcherSettings
from scrout.lab.train.pack import Pack, bins, fitted, min_bins, pack
from scrout.lab.train.tokenization import ChatTokenizer, views

MakeDemonstration = Callable[..., dict[str, Any]]
MakeCorpus = Callable[..., Path]
SmallDisk = Callable[[int, str], subprocess.CompletedProcess[str]]
SIZES = "-c scout.model.context_tokens=1024 -c scout.model.max_tokens=128"
SETTINGS = SearcherSettings(context_tokens=1024, max_tokens=128, margin_tokens=16)


@pytest.fixture(scope="module")
def template(tiny: Path) -> ChatTokenizer:
    return ChatTokenizer.load(tiny)


lengths = st.lists(st.integers(1, 60), max_size=60)


@given(lengths)
def test_bins_hold_everything_once_and_never_too_much(given_lengths: list[int]) -> None:
    found = bins(given_lengths, 60)
    assert sorted(index for share in found for index in share) == list(range(len(given_lengths)))
    assert all(0 < sum(given_lengths[index] for index in share) <= 60 for share in found)
    assert min_bins(given_lengths, 60) <= len(found)


def fewest(sizes: list[int], room: int) -> int:
    """The true minimum, by trying everything."""
    best = len(sizes)

    def place(at: int, rests: list[int]) -> None:
        nonlocal best
        if len(rests) >= best:
            return
        if at == len(sizes):
            best = len(rests)
            return
        for number in range(len(rests)):
            if rests[number] >= sizes[at]:
                rests[number] -= sizes[at]
                place(at + 1, rests)
                rests[number] += sizes[at]
        place(at + 1, [*rests, room - sizes[at]])

    place(0, [])
    return best


@given(st.lists(st.integers(1, 12), min_size=1, max_size=7))
def test_the_bound_never_passes_the_true_minimum(sizes: list[int]) -> None:
    true = fewest(sizes, 12)
    assert min_bins(sizes, 12) <= true <= len(bins(sizes, 12))
    assert min_bins(sizes, 12) >= -(-sum(sizes) // 12)


def test_the_bound_knows_that_large_ones_do_not_share() -> None:
    assert min_bins([7, 7, 7], 12) == 3
    assert min_bins([7, 7, 5, 5], 12) == 2
    assert min_bins([7, 7, 6], 12) == 3


def test_what_is_longer_than_a_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        bins([13], 12)


def test_a_pack_gives_back_every_document(
    tmp_path: Path, template: ChatTokenizer, demonstration: MakeDemonstration, corpus: MakeCorpus
) -> None:
    rows = [demonstration(number, turns=number % 3) for number in range(7)]
    card = pack(corpus(tmp_path / "corpus", *rows), tmp_path / "pack", template, SETTINGS)
    assert (card.demonstrations, card.documents, card.dropped) == (7, 7, {})
    assert card.min_blocks <= card.blocks < 7
    blocks = Pack(tmp_path / "pack")
    assert len(blocks) == card.blocks
    texts = []
    for number in range(len(blocks)):
        block = blocks[number]
        starts = [*np.flatnonzero(block.positions == 0), len(block.ids)]
        assert len(block.ids) <= card.block_tokens
        for first, last in pairwise(starts):
            assert list(block.positions[first:last]) == list(range(last - first))
            texts.append(template.tokenizer.decode(block.ids[first:last]))
    assert sorted(texts) == sorted(template.text(row["messages"]) for row in rows)
    assert sum(int(blocks[number].loss_mask.sum()) for number in range(len(blocks))) == card.loss_tokens
    assert not list((tmp_path / "pack").glob(".*"))


def test_a_long_one_becomes_what_the_searcher_would_see(
    tmp_path: Path, template: ChatTokenizer, demonstration: MakeDemonstration, corpus: MakeCorpus
) -> None:
    row = demonstration(1, turns=8, chars=700)
    card = pack(corpus(tmp_path / "corpus", row), tmp_path / "pack", template, SETTINGS)
    assert card.documents > 1
    blocks = Pack(tmp_path / "pack")
    learned, texts = [], []
    for number in range(len(blocks)):
        learned.append(template.tokenizer.decode(blocks[number].ids[blocks[number].loss_mask]))
        texts.append(template.tokenizer.decode(blocks[number].ids))
    said = [message["content"] for message in row["messages"] if message["role"] == "assistant"]
    # Every reply is learned once, whatever was dropped before it.
    assert sorted("".join(learned).split("<|im_end|>")) == sorted(["", *said])
    assert any("earlier turn" in text and "left out here" in text for text in texts)
    assert all("You search." in text and "issue 1" in text for text in texts)


def test_views_of_a_long_one_fit_into_the_context(
    tmp_path: Path, template: ChatTokenizer, demonstration: MakeDemonstration
) -> None:
    from scrout.lab.train.corpus.demonstration import Demonstration

    made = Demonstration.model_validate(demonstration(1, turns=8, chars=700))
    for view in fitted(made, template, SETTINGS):
        for index in view.trained_turns:
            assert template.count(view.messages[:index]) <= 1024 - 128 - 16
    assert views([]) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"role": "assistant", "content": "x y " * 400}, "a turn longer than the model may write"),
        ({"role": "assistant", "content": "<|im_start|>"}, "its text holds a token of the chat template"),
    ],
)
def test_what_cannot_be_learned_is_counted(
    tmp_path: Path,
    template: ChatTokenizer,
    change: dict[str, str],
    why: str,
    demonstration: MakeDemonstration,
    corpus: MakeCorpus,
) -> None:
    bad = demonstration(2, turns=1)
    bad["messages"][-1] = change
    card = pack(corpus(tmp_path / "corpus", demonstration(1, 1), bad), tmp_path / "pack", template, SETTINGS)
    assert (card.demonstrations, card.dropped) == (1, {why: 1})


def test_nothing_is_left_where_there_is_nothing_to_pack(
    tmp_path: Path, template: ChatTokenizer, corpus: MakeCorpus
) -> None:
    with pytest.raises(TaskError, match="gives no document"):
        pack(corpus(tmp_path / "corpus"), tmp_path / "pack", template, SETTINGS)
    assert not list((tmp_path / "pack").iterdir())
    with pytest.raises(TaskError, match="no whole pack"):
        Pack(tmp_path / "pack")


def test_a_block_holds_a_context(
    tmp_path: Path, template: ChatTokenizer, demonstration: MakeDemonstration, corpus: MakeCorpus
) -> None:
    with pytest.raises(TaskError, match="does not hold a context"):
        pack(corpus(tmp_path / "corpus", demonstration(1, 1)), tmp_path / "pack", template, SETTINGS, 512)


def test_the_command(tmp_path: Path, tiny: Path, demonstration: MakeDemonstration, corpus: MakeCorpus) -> None:
    rows = corpus(tmp_path / "corpus", demonstration(1, 1))
    arguments = [str(rows), "--checkpoint", str(tiny), "--out", str(tmp_path / "pack"), *SIZES.split()]
    told = CliRunner().invoke(command, [*arguments, "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["blocks"] == 1
    again = CliRunner().invoke(command, arguments)
    assert isinstance(again.exception, TaskError)
    assert "holds a pack already" in str(again.exception)


def test_only_what_the_card_is_about_is_packed(
    tmp_path: Path, template: ChatTokenizer, demonstration: MakeDemonstration, corpus: MakeCorpus
) -> None:
    folder = corpus(tmp_path / "corpus", demonstration(1, 1))
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(json.dumps(demonstration(2, 1)) + "\n")
    with pytest.raises(TaskError, match="it was changed"):
        pack(folder, tmp_path / "pack", template, SETTINGS)
    (folder / "card.json").unlink()
    with pytest.raises(TaskError, match="no card beside it"):
        pack(folder, tmp_path / "pack", template, SETTINGS)


def test_rows_of_another_kind_are_named(tmp_path: Path, template: ChatTokenizer, corpus: MakeCorpus) -> None:
    with pytest.raises(TaskError, match="no demonstration"):
        pack(corpus(tmp_path / "corpus", {"messages": []}), tmp_path / "pack", template, SETTINGS)


@pytest.mark.parametrize("name", ["documents.npy", "blocks.npy", "tokens.npy"])
def test_a_damaged_pack_is_no_pack(
    tmp_path: Path, template: ChatTokenizer, demonstration: MakeDemonstration, corpus: MakeCorpus, name: str
) -> None:
    pack(corpus(tmp_path / "corpus", demonstration(1, 1)), tmp_path / "pack", template, SETTINGS)
    path = tmp_path / "pack" / name
    kept = path.read_bytes()
    for broken in (b"", kept[:-4], np.lib.format.MAGIC_PREFIX):
        path.write_bytes(broken)
        with pytest.raises(TaskError, match="no whole pack"):
            Pack(tmp_path / "pack")
    path.write_bytes(kept)
    assert len(Pack(tmp_path / "pack")) == 1


def test_a_full_disk_leaves_no_pack(
    tmp_path: Path, tiny: Path, demonstration: MakeDemonstration, corpus: MakeCorpus, small_disk: SmallDisk
) -> None:
    rows = [demonstration(number, turns=2) for number in range(60)]
    made = corpus(tmp_path / "corpus", *rows)
    done = small_disk(40, f"train pack {made} --checkpoint {tiny} --out DISK/pack {SIZES}; ls -A DISK/pack")
    assert "No space left on device. Name a folder with room" in done.stderr
    assert not done.stdout.strip(), "nothing is left of it"
