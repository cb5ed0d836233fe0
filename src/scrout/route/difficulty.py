"""Predicts a task's difficulty from its features, and a fixer's probability of solving it from its ability.

A task is one number, its ease, alike for all fixers; a fixer is one number, its ability: the probability of a solve is
the logistic of their sum (a Rasch model whose items are described by features). So a new fixer needs no new fit: a few
outcomes give its ability, because the difficulty of their tasks is known.

Three things keep it honest on the little data there is. Ease is learned within repositories, so that a feature that
only distinguishes repositories has no effect. It is learned from the cost of attempts as much as from their success:
effort says more about a task than one bit. And most features are penalized until they prove useful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat, ValidationError

from scrout.base import FrozenModel, RouteError
from scrout.intervals import Z95
from scrout.route.outcome_table import Bools, Ints, combination, group_folds
from scrout.route.resume_store import file_name, read_all, write
from scrout.route.stats import Floats, fit_logistic, sigmoid

CORE = frozenset(
    {
        "log_chars",
        "log_text_chars",
        "top_confidence",
        "function_score",
        "log_function_lines",
        "log_suspect_lines",
        "log_suspect_commits",
    }
)
"""Features that transfer between all sets of tasks: the text's length, the scout's confidence in file and function,
and the size and change frequency of these.
"""
CORE_PENALTY = 100.0
PENALTIES = (1e5, 1e4, 3000.0, 1000.0, 300.0, 100.0)
"""Penalties of the other features, from disabled to free.

Cross-validation by repository chooses the first that is not worse than the best by more than its standard error: a
feature has to prove useful.
"""

REPOSITORY_SD = 0.5
"""Standard deviation of log odds between repositories that features do not explain: .14 among the 31 of SWE-bench
Multilingual with five tasks or more, .78 among the 10 of Verified. A new task's repository is one more sample.
"""
MAX_Z = 4.0
"""Features are clipped at this many standard deviations."""
REACH = 0.99
"""Share of the training tasks whose distance from the center is accepted. Beyond it, the fit would be a guess."""
INNER_FOLDS = 5
SUFFIX = ".difficulty.json"

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, eq=False)
class DifficultyData:
    """Training data of a head: tasks with their features and the results of several fixers.

    Tasks of one set were tried by the same fixers, so their rates are comparable.
    """

    features: Floats
    groups: tuple[str, ...]
    sets: tuple[str, ...]
    rate: Floats
    """The share of the set's fixers that solved the task."""
    log_cost: Floats
    """Mean over the set's fixers of the logarithm of the cost; nan: unknown."""

    def __post_init__(self) -> None:
        n = len(self.features)
        if not n == len(self.groups) == len(self.sets) == len(self.rate) == len(self.log_cost):
            raise RouteError(
                f"{n} tasks with features, and groups, sets, rates or costs of another number. Align them."
            )
        _refuse_nan(self.features)
        if not ((self.rate >= 0) & (self.rate <= 1)).all():
            raise RouteError("a task's solve rate is not a share from 0 to 1. Leave out tasks without outcomes.")

    def joined(self, other: DifficultyData) -> DifficultyData:
        """Both joined; repositories or sets with the same name stay separate."""
        groups, sets = (
            (*(f"1 {name}" for name in mine), *(f"2 {name}" for name in others))
            for mine, others in ((self.groups, other.groups), (self.sets, other.sets))
        )
        return DifficultyData(
            np.concatenate([self.features, other.features]),
            groups,
            sets,
            np.concatenate([self.rate, other.rate]),
            np.concatenate([self.log_cost, other.log_cost]),
        )

    def rows(self, mask: Bools) -> DifficultyData:
        at = np.flatnonzero(mask)
        groups, sets = (tuple(names[i] for i in at.tolist()) for names in (self.groups, self.sets))
        return DifficultyData(self.features[at], groups, sets, self.rate[at], self.log_cost[at])


@dataclass(frozen=True)
class Ability:
    """A fixer's ability in log odds, with its uncertainty."""

    value: float
    sd: float


@dataclass(frozen=True, eq=False)
class DifficultyEstimate:
    """A head's prediction for one or more tasks."""

    ease: Floats
    """Log odds to add to a fixer's ability."""
    cost_factor: Floats
    """Cost of an attempt relative to an average task."""
    far: Bools
    """Whether the task is unlike all training tasks."""


class DifficultyHead:
    """A fitted model of ease and effort for one combination of feature spaces, whose vectors are concatenated."""

    mean_: Floats
    scale_: Floats
    ease_: Floats
    effort_: Floats
    slope_: float
    effort_slope_: float
    effort_norm_: float
    reach_: float
    penalty_: float
    effort_penalty_: float
    prior_mean_: float
    prior_sd_: float
    rows_: int

    def __init__(self, spaces: Sequence[str], names: Sequence[str]) -> None:
        self.spaces = tuple(sorted(spaces))
        self.names = tuple(names)

    @property
    def combination(self) -> str:
        return combination(self.spaces)

    def fit(self, lessons: DifficultyData) -> DifficultyHead:
        """Learn ease and effort; each is then scaled by its predictive value on held-out repositories."""
        if lessons.features.shape[1] != len(self.names):
            raise RouteError(f"{lessons.features.shape[1]} features and {len(self.names)} names. Name each feature.")
        folds = group_folds(lessons.groups, INNER_FOLDS)
        self.mean_ = lessons.features.mean(axis=0)
        sd = lessons.features.std(axis=0)
        self.scale_ = np.where(sd > 1e-9, sd, 1.0)
        z = self._standardized(lessons.features)
        target, effort = _targets(lessons)
        self.penalty_, self.effort_penalty_ = (
            self._choose(z, values, lessons.groups, folds) for values in (target, effort)
        )
        penalties, effort_penalties = self._penalties(self.penalty_), self._penalties(self.effort_penalty_)
        self.ease_ = _ridge(z, target, lessons.groups, penalties)
        self.effort_ = _ridge(z, effort, lessons.groups, effort_penalties)
        self.slope_ = _slope(_held_out(z, target, lessons.groups, folds, penalties), lessons)
        self.effort_slope_ = _effort_slope(_held_out(z, effort, lessons.groups, folds, effort_penalties), lessons)
        self.effort_norm_ = float(np.exp(self.effort_slope_ * (z @ self.effort_)).mean())
        self.reach_ = float(np.quantile(self._distance(lessons.features), REACH))
        self.rows_ = len(lessons.rate)
        return self

    def with_prior(self, abilities: Sequence[float]) -> DifficultyHead:
        """Set the prior of a new fixer: the distribution of the known ones."""
        self.prior_mean_ = float(np.mean(abilities))
        self.prior_sd_ = max(0.5, float(np.std(abilities))) * 1.5  # a new one may be weaker or stronger than all
        return self

    def judge(self, features: npt.ArrayLike) -> DifficultyEstimate:
        """Ease, effort and distance of tasks, a row each."""
        x = np.atleast_2d(np.asarray(features, dtype=np.float64))
        if x.shape[1] != len(self.names):
            raise RouteError(
                f"a task has {x.shape[1]} numbers where the head of {self.combination} knows {len(self.names)}. "
                "Fit the head again, or use the scout that it was fitted with."
            )
        _refuse_nan(x)
        z = self._standardized(x)
        factor = np.exp(self.effort_slope_ * (z @ self.effort_)) / self.effort_norm_
        return DifficultyEstimate(self.slope_ * (z @ self.ease_), factor, self._distance(x) > self.reach_)

    def ability(self, ease: npt.ArrayLike, resolved: npt.ArrayLike, groups: Sequence[str]) -> Ability:
        """Estimate a fixer's ability from outcomes: the posterior mode, with an effect for each repository."""
        offsets, y = np.asarray(ease, dtype=np.float64), np.asarray(resolved, dtype=np.float64)
        names = sorted(set(groups))
        own = np.zeros((len(y), len(names) + 1))
        own[:, 0] = 1.0
        own[np.arange(len(y)), [names.index(group) + 1 for group in groups]] = 1.0
        precision = np.append(1 / self.prior_sd_**2, np.full(len(names), 1 / REPOSITORY_SD**2))
        centre = np.append(self.prior_mean_, np.zeros(len(names)))
        w = fit_logistic(own, y, precision, offsets=offsets, centre=centre)
        p = sigmoid(own @ w + offsets)
        covariance = np.linalg.inv((own.T * (p * (1 - p))) @ own + np.diag(precision))
        return Ability(float(w[0]), float(np.sqrt(covariance[0, 0])))

    def probability(self, ability: Ability, ease: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        """The probability of a solve in an unknown repository, and its 95% interval from the uncertainty of the
        ability.
        """
        return _probabilities(np.float64(ability.value), np.float64(ability.sd), np.asarray(ease, dtype=np.float64))

    def probabilities(self, abilities: Sequence[Ability], ease: float) -> tuple[Floats, Floats, Floats]:
        """The same for one task and several fixers."""
        values, sds = np.array([(one.value, one.sd) for one in abilities]).T
        return _probabilities(values, sds, np.float64(ease))

    def to_json(self) -> str:
        arrays = {name: tuple(getattr(self, f"{name}_").tolist()) for name in _ARRAYS}
        numbers = {name: getattr(self, f"{name}_") for name in _NUMBERS}
        return _Stored.model_validate(
            {"spaces": self.spaces, "names": self.names, **arrays, **numbers}
        ).model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> DifficultyHead:
        """Load a fitted head; raises a RouteError if the text is not one."""
        try:
            stored = _Stored.model_validate_json(text)
        except ValidationError as error:
            raise RouteError(f"not a fitted head: {error}. Fit it again.") from None
        sizes = {len(stored.names), *(len(getattr(stored, name)) for name in _ARRAYS)}
        if len(sizes) > 1:
            raise RouteError(f"not a fitted head: its rows have {sorted(sizes)} numbers. Fit it again.")
        head = cls(stored.spaces, stored.names)
        for name in _ARRAYS:
            setattr(head, f"{name}_", np.array(getattr(stored, name)))
        for name in _NUMBERS:
            setattr(head, f"{name}_", getattr(stored, name))
        return head

    def _standardized(self, features: Floats) -> Floats:
        with np.errstate(over="ignore"):  # overflowing values are clipped with the others
            return np.asarray(np.clip((features - self.mean_) / self.scale_, -MAX_Z, MAX_Z))

    def _distance(self, features: Floats) -> Floats:
        """Root mean square of the standardized features, without clipping."""
        with np.errstate(over="ignore"):  # larger than any distance
            return np.asarray(np.sqrt((((features - self.mean_) / self.scale_) ** 2).mean(axis=1)))

    def _choose(self, z: Floats, y: Floats, groups: Sequence[str], folds: Ints) -> float:
        losses = [_losses(z, y, groups, folds, self._penalties(penalty)) for penalty in PENALTIES]
        best = min(losses, key=lambda loss: float(loss.mean()))
        return next(penalty for penalty, loss in zip(PENALTIES, losses, strict=True) if _not_worse(loss, best))

    def _penalties(self, penalty: float) -> Floats:
        return np.array([CORE_PENALTY if name in CORE else penalty for name in self.names])


_ARRAYS = ("mean", "scale", "ease", "effort")
_NUMBERS = (
    *("slope", "effort_slope", "effort_norm", "reach", "penalty", "effort_penalty"),
    *("prior_mean", "prior_sd", "rows"),
)


class _Stored(FrozenModel):
    version: Literal[1] = 1
    spaces: tuple[str, ...] = Field(min_length=1)
    names: tuple[str, ...] = Field(min_length=1)
    mean: tuple[FiniteFloat, ...]
    scale: tuple[PositiveFloat, ...]
    ease: tuple[FiniteFloat, ...]
    effort: tuple[FiniteFloat, ...]
    slope: FiniteFloat
    effort_slope: FiniteFloat
    effort_norm: PositiveFloat
    reach: Annotated[FiniteFloat, Field(ge=0)]
    penalty: PositiveFloat
    effort_penalty: PositiveFloat
    prior_mean: FiniteFloat
    prior_sd: PositiveFloat
    rows: int


def save(head: DifficultyHead, folder: Path) -> Path:
    """Write a fitted head into the folder, replacing the one of the same spaces; returns its path."""
    path = folder / _file_of(head)
    write(path, head.to_json().encode())
    return path


def load(*folders: Path) -> dict[tuple[str, ...], DifficultyHead]:
    """Every fitted head by its spaces, later folders winning."""
    heads = read_all(
        folders, SUFFIX, DifficultyHead.from_json, _file_of, lambda head: f"the head of {head.combination}"
    )
    return {head.spaces: head for head in heads}


def _file_of(head: DifficultyHead) -> str:
    return file_name(head.combination, SUFFIX, safe="+")


def _refuse_nan(features: Floats) -> None:
    if not np.isfinite(features).all():
        raise RouteError("a task's features contain values that are not numbers. Count or scout the task again.")


def _targets(lessons: DifficultyData) -> tuple[Floats, Floats]:
    """Ease, half from the solve rate and half from the cost; and effort. Both are standardized within each set."""
    sets = np.array(lessons.sets)
    solved, effort = np.zeros(len(sets)), np.zeros(len(sets))
    for name in dict.fromkeys(lessons.sets):
        of_set = sets == name
        solved[of_set] = _standard(lessons.rate[of_set])
        effort[of_set] = _standard(lessons.log_cost[of_set])
    return (solved - effort) / 2, effort


def _standard(values: Floats) -> Floats:
    """In standard deviations from the mean; unknown values are at the mean."""
    known = np.isfinite(values)
    if not known.any() or values[known].std() < 1e-9:
        return np.zeros(len(values))
    return np.where(known, (values - values[known].mean()) / values[known].std(), 0.0)


def _ridge(z: Floats, y: Floats, groups: Sequence[str], penalties: Floats) -> Floats:
    """Ridge regression within repositories."""
    z, y = _centred(z, groups), _centred(y[:, None], groups)[:, 0]
    return np.asarray(np.linalg.solve(z.T @ z + np.diag(penalties), z.T @ y))


def _centred(values: Floats, groups: Sequence[str]) -> Floats:
    """Minus the mean of its repository. A repository with one task has no variation, so all such count as one."""
    names, place, counts = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    place = np.where(counts[place] == 1, len(names), place)
    sums = np.zeros((len(names) + 1, values.shape[1]))
    np.add.at(sums, place, values)
    return values - (sums / np.maximum(1, np.bincount(place, minlength=len(names) + 1))[:, None])[place]


def _held_out(z: Floats, y: Floats, groups: Sequence[str], folds: Ints, penalties: Floats) -> Floats:
    """Each task's prediction by a fit on the other folds."""
    given = np.zeros(len(y))
    names = np.array(groups)
    for fold in np.unique(folds):
        rest = folds != fold
        given[~rest] = z[~rest] @ _ridge(z[rest], y[rest], names[rest].tolist(), penalties)
    return given


def _losses(z: Floats, y: Floats, groups: Sequence[str], folds: Ints, penalties: Floats) -> Floats:
    """Squared error of each task, within its repository."""
    given = _held_out(z, y, groups, folds, penalties)
    return np.asarray(_centred((y - given)[:, None], groups)[:, 0] ** 2)


def _not_worse(loss: Floats, best: Floats) -> bool:
    more = loss - best
    return bool(more.mean() <= more.std() / np.sqrt(len(more)))


def _slope(ease: Floats, lessons: DifficultyData) -> float:
    """The change of the solve rate's log odds per unit of held-out ease; at least 0."""
    names = sorted(set(lessons.groups)), sorted(set(lessons.sets))
    columns = [ease]
    columns += [np.array([group == name for group in lessons.groups], dtype=np.float64) for name in names[0]]
    columns += [np.array([one == name for one in lessons.sets], dtype=np.float64) for name in names[1]]
    precision = np.concatenate([[0.0], np.full(len(names[0]), 1 / REPOSITORY_SD**2), np.full(len(names[1]), 1e-6)])
    w = fit_logistic(np.column_stack(columns), lessons.rate, precision)
    return max(0.0, float(w[0]))


def _effort_slope(effort: Floats, lessons: DifficultyData) -> float:
    """The change of log cost per unit of held-out effort; at least 0."""
    known = np.isfinite(lessons.log_cost)
    if not known.any():
        return 0.0
    groups = [f"{one} {group}" for one, group, has in zip(lessons.sets, lessons.groups, known, strict=True) if has]
    x = _centred(effort[known, None], groups)[:, 0]
    y = _centred(lessons.log_cost[known, None], groups)[:, 0]
    return max(0.0, float(x @ y) / max(1e-9, float(x @ x)))


def _probabilities(
    value: Floats | np.float64, sd: Floats | np.float64, ease: Floats | np.float64
) -> tuple[Floats, Floats, Floats]:
    variance = REPOSITORY_SD**2
    middle = _averaged(value + ease, variance + sd**2)
    low, high = (_averaged(value + step * sd + ease, variance) for step in (-Z95, Z95))
    return middle, np.minimum(low, middle), np.maximum(high, middle)


def _averaged(log_odds: Floats | np.float64, variance: Floats | np.float64 | float) -> Floats:
    """The mean probability for normally distributed log odds: nearer to a half than the probability of the mean."""
    return sigmoid(log_odds / np.sqrt(1 + np.pi * variance / 8))
