"""BM25 over word counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

K1, B = 1.5, 0.75  # as in the literature

Scores = npt.NDArray[np.float64]


def bm25(
    wanted: npt.NDArray[np.float64],
    term: npt.NDArray[np.int64],
    document: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> Scores:
    """The score of each document for weighted terms; one row of term, document and count per occurrence."""
    scores = np.zeros(len(lengths))
    if len(term) == 0:
        return scores
    weight = wanted * rarity(np.bincount(term, minlength=len(wanted)), len(lengths))
    length = lengths / max(1.0, float(lengths.mean()))
    gain = weight[term] * count * (K1 + 1) / (count + K1 * (1 - B + B * length[document]))
    return np.bincount(document, gain, minlength=len(lengths)).astype(np.float64)


def rarity(holders: npt.NDArray[np.int64], documents: int) -> Scores:
    """The weight of a term that occurs in this many documents."""
    return np.asarray(np.log(1 + (documents - holders + 0.5) / (holders + 0.5)))
