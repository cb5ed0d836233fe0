"""BM25 against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.index.bm25 import bm25, rarity

DOCUMENTS = st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9)), min_size=1, max_size=6)
WANTED = st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 9), min_size=1)


def plain(wanted: dict[str, float], documents: list[dict[str, int]]) -> list[float]:
    lengths = [sum(document.values()) for document in documents]
    mean = max(1, sum(lengths) / len(lengths))
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        score = 0.0
        for word, weight in wanted.items():
            holders = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
            count = document.get(word, 0)
            score += weight * idf * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * length / mean))
        scores.append(score)
    return scores


@given(WANTED, DOCUMENTS)
def test_scores_follow_the_formula(wanted: dict[str, float], documents: list[dict[str, int]]) -> None:
    column = {word: index for index, word in enumerate(wanted)}
    rows = [
        (column[word], number, count)
        for number, document in enumerate(documents)
        for word, count in document.items()
        if word in column
    ]
    term, document, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    lengths = np.array([sum(document.values()) for document in documents])
    scores = bm25(np.array(list(wanted.values())), term, document, count, lengths)
    assert scores.tolist() == pytest.approx(plain(wanted, documents))


def test_what_few_hold_is_worth_more() -> None:
    worth = rarity(np.array([0, 1, 5, 10]), 10)
    assert list(worth) == sorted(worth, reverse=True)
    assert worth[-1] > 0
