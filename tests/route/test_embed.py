from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.route.embed import MAX_CHARS, HashedEmbedder

EMBEDDER = HashedEmbedder()


def similarity(left: str, right: str) -> float:
    a, b = EMBEDDER.embed([left, right])
    return float(a @ b)


@given(st.lists(st.text(), max_size=5))
def test_any_text_gives_a_row_of_length_one_or_zeros(texts: list[str]) -> None:
    rows = EMBEDDER.embed(texts)
    assert rows.shape == (len(texts), EMBEDDER.size) and rows.dtype == np.float32
    for row in rows:
        length = float(np.linalg.norm(row))
        assert length == 0 or length == pytest.approx(1, abs=1e-5)


def test_values_are_pinned() -> None:
    # A change here changes what stored résumés mean: it needs a new name.
    assert EMBEDDER.name == "hashed-512-1"
    (row,) = EMBEDDER.embed(["parse_config raises KeyError in HTTPServer"])
    assert np.count_nonzero(row) == 42
    assert row[[15, 21, 38, 41]] == pytest.approx([0.15430336, -0.15430336, 0.15430336, 0.15430336], abs=1e-6)
    (letter,) = EMBEDDER.embed(["a"])
    assert np.flatnonzero(letter).tolist() == [389] and letter[389] == 1.0


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_bytes() -> None:
    code = (
        "import sys; from scrout.route.embed import HashedEmbedder;"
        "sys.stdout.write(HashedEmbedder().embed(['Ünïcode parseConfig fails'])[0].tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {EMBEDDER.embed(["Ünïcode parseConfig fails"])[0].tobytes().hex()}


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    assert np.array_equal(EMBEDDER.embed(["one", "two"])[1], EMBEDDER.embed(["two"])[0])


@pytest.mark.parametrize("text", ["", "  \n", "!?… --"])
def test_a_text_without_a_word_gives_zeros(text: str) -> None:
    assert not EMBEDDER.embed([text]).any()


def test_case_does_not_matter_and_identifiers_meet_plain_words() -> None:
    assert similarity("Decode FAILS", "decode fails") == pytest.approx(1)
    for identifier in ("parse_server_config", "parseServerConfig", "ParseServerConfig"):
        assert similarity(identifier, "parse server config") > similarity(identifier, "paint window colour") + 0.2
    # An acronym ends where the next word starts.
    assert similarity("HTTPServer", "http") > similarity("HTTPServer", "https")


def test_spelling_counts_even_when_no_word_is_shared() -> None:
    assert similarity("serialization", "serializers") > 0.3 > similarity("serialization", "threadpool")


def test_a_repeated_word_counts_by_its_logarithm() -> None:
    (row,) = EMBEDDER.embed(["a a a a z"])
    weights = np.sort(np.abs(row[row != 0]))
    assert weights[1] / weights[0] == pytest.approx(1 + math.log(4))


def test_what_follows_the_limit_is_not_read() -> None:
    head = ("word " * MAX_CHARS)[:MAX_CHARS]
    assert np.array_equal(*EMBEDDER.embed([head, head + " other tail"]))
