"""The paper's heads: predict from a task's vector and a fixer's résumé whether the fixer solves the task.

One head per feature space serves every fixer: it sees a fixer only through six numbers from its résumé, so a new fixer
needs no new fit. By default, the router uses difficulty.py instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat, ValidationError

from scrout.base import FrozenModel, RouteError
from scrout.route.resume import ResumeVectors
from scrout.route.resume_store import file_name, read_all, write
from scrout.route.stats import Floats, fit_logistic, sigmoid

FEATURES = 6
LARGEST = float(np.finfo(np.float32).max)
"""Maximum size of a vector's numbers; the length of a larger vector overflows."""

SUFFIX = ".head.json"

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def features(vectors: npt.ArrayLike, standings: Sequence[ResumeVectors]) -> Floats:
    """Row i pairs task i with the résumé beside it: cos(x,s), cos(x,f), their difference d, p, cos(x,s)*p, d*p.

    x is the task, s and f the centroids of solved and failed tasks, p the base rate.
    """
    x = np.asarray(vectors, dtype=np.float64)
    if not (np.abs(x) <= LARGEST).all():
        raise RouteError(
            "a task's vector contains values that are not numbers or are too large. Embed or scout the task again."
        )
    s = _cosines(x, [standing.solved for standing in standings])
    f = _cosines(x, [standing.failed for standing in standings])
    p = np.array([standing.base_rate for standing in standings])
    return np.column_stack([s, f, s - f, p, s * p, (s - f) * p])


class ResumeHead:
    """Standardized features and a logistic regression with an L2 penalty, except on the intercept."""

    def __init__(self, space: str) -> None:
        self.space = space

    def fit(self, vectors: npt.ArrayLike, standings: Sequence[ResumeVectors], resolved: Sequence[bool]) -> ResumeHead:
        """Fit pairs: row i is a task, the résumé of a fixer that tried it, and whether it was solved."""
        y = np.asarray(resolved, dtype=np.float64)
        if not 0 < y.sum() < len(y):
            raise RouteError(f"{int(y.sum())} of {len(y)} outcomes are solved. A head needs some of both to be fitted.")
        x = features(vectors, standings)
        self.mean_ = x.mean(axis=0)
        self.scale_ = _scale(x)
        z = np.column_stack([(x - self.mean_) / self.scale_, np.ones(len(y))])
        *coef, self.intercept_ = fit_logistic(z, y, np.append(np.ones(FEATURES), 0.0)).tolist()
        self.coef_ = np.array(coef)
        self.rows_ = len(y)
        return self

    def predict_proba(self, vectors: npt.ArrayLike, standings: Sequence[ResumeVectors]) -> Floats:
        """The probability of a solve, one per pair."""
        z = (features(vectors, standings) - self.mean_) / self.scale_
        return sigmoid(z @ self.coef_ + self.intercept_)

    def to_json(self) -> str:
        return _Stored(
            space=self.space,
            mean=tuple(self.mean_.tolist()),
            scale=tuple(self.scale_.tolist()),
            coef=tuple(self.coef_.tolist()),
            intercept=self.intercept_,
            rows=self.rows_,
        ).model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> ResumeHead:
        """Load a fitted head; raises a RouteError if the text is not one."""
        try:
            stored = _Stored.model_validate_json(text)
        except ValidationError as error:
            raise RouteError(f"not a fitted head: {error}. Fit it again.") from None
        head = cls(stored.space)
        head.mean_, head.scale_, head.coef_ = (np.array(row) for row in (stored.mean, stored.scale, stored.coef))
        head.intercept_, head.rows_ = stored.intercept, stored.rows
        return head


class _Stored(FrozenModel):
    version: Literal[2] = 2
    space: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
    mean: tuple[FiniteFloat, ...] = Field(min_length=FEATURES, max_length=FEATURES)
    scale: tuple[PositiveFloat, ...] = Field(min_length=FEATURES, max_length=FEATURES)
    coef: tuple[FiniteFloat, ...] = Field(min_length=FEATURES, max_length=FEATURES)
    intercept: FiniteFloat
    rows: int


def save(head: ResumeHead, folder: Path) -> Path:
    """Write a fitted head into the folder, replacing the one of the same space; returns its path."""
    path = folder / _file_of(head)
    write(path, head.to_json().encode())
    return path


def load(*folders: Path) -> dict[str, ResumeHead]:
    """Every fitted head by space, later folders winning; none if the folder does not exist."""
    found = read_all(folders, SUFFIX, ResumeHead.from_json, _file_of, lambda head: f"the head of space {head.space!r}")
    return {head.space: head for head in found}


def _file_of(head: ResumeHead) -> str:
    return file_name(head.space, SUFFIX)


def _cosines(x: Floats, centroids: Sequence[Floats]) -> Floats:
    """Row by row. A vector of zeros has no direction: its cosine is 0."""
    c = np.array(centroids, dtype=np.float64)
    if x.shape != c.shape:
        raise RouteError(
            f"vectors of shape {x.shape} and centroids of shape {c.shape} do not pair. Build the résumés again."
        )
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(c, axis=1)
    products = np.einsum("ij,ij->i", x, c)
    cosines: Floats = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return cosines


def _scale(x: Floats) -> Floats:
    """Standard deviations; 1 for a column that is constant up to rounding, because it carries no information."""
    rows, eps = len(x), np.finfo(np.float64).eps
    variance = x.var(axis=0)
    constant = variance <= rows * eps * variance + (rows * eps * x.mean(axis=0)) ** 2
    return np.where(constant, 1.0, np.sqrt(variance))
