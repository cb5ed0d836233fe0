"""The learned part: three logistic models over named signals, kept in one readable file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from scrout.index.bm25 import Scores


@dataclass(frozen=True)
class Logistic:
    """A weighted sum of signals and the probability that it stands for."""

    weights: Mapping[str, float]
    bias: float

    def score(self, values: Mapping[str, Scores]) -> Scores:
        """The log odds of each row."""
        total = sum((weight * values[name] for name, weight in self.weights.items()), start=np.float64(0))
        return np.asarray(self.bias + total)

    def predict_proba(self, values: Mapping[str, Scores]) -> Scores:
        """The probability of each row."""
        return 1 / (1 + np.exp(-self.score(values)))


@dataclass(frozen=True)
class Model:
    """What was learned from tasks whose changed files are known."""

    shortlist: Logistic
    """Is this file changed? From what can be told without opening it."""
    files: Logistic
    """The same for the shortlist, with what its functions and neighbours say."""
    functions: Logistic
    """Is this function changed?"""


@cache
def load_model() -> Model:
    """The one that ships with the package; `scrout.lab.train.ranker` wrote it."""
    stored = json.loads((files(__package__) / "weights.json").read_text())
    return Model(**{name: Logistic(**stored[name]) for name in ("shortlist", "files", "functions")})
