"""Probabilities of tasks from heads that were not fitted on them: the basis of every figure about a router.

Folds are whole repositories. For each fold, heads and résumés come from the other folds only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scrout.route.difficulty import DifficultyData, DifficultyHead
from scrout.route.embed import Vectors
from scrout.route.heads import ResumeHead
from scrout.route.outcome_table import Bools, Ints, OutcomeTable
from scrout.route.resume import ResumeVectors
from scrout.route.stats import Floats


def by_difficulty(
    table: OutcomeTable,
    features: Floats,
    names: Sequence[str],
    spaces: Sequence[str],
    folds: Ints,
    more: DifficultyData | None = None,
) -> Floats:
    """Probabilities from ease and ability, a row per task, a column per fixer; nan: the fixer has no outcome in the
    other folds.

    `more` is training data of other tasks, used in every fold.
    """
    probabilities = np.full(table.resolved.shape, np.nan)
    for fold in np.unique(folds):
        rest = folds != fold
        head = fit_difficulty(table.rows(rest), features[rest], names, spaces, more)
        probabilities[~rest] = predict(head, table.rows(rest), features[rest], features[~rest])
    return probabilities


def fit_difficulty(
    table: OutcomeTable,
    features: Floats,
    names: Sequence[str],
    spaces: Sequence[str],
    more: DifficultyData | None = None,
) -> DifficultyHead:
    """A head for the spaces, with the table's fixers as prior of a new one."""
    own = lessons(table, features)
    head = DifficultyHead(spaces, names).fit(own if more is None else own.joined(more))
    head.prior_mean_, head.prior_sd_ = 0.0, 10.0  # estimate the fixers without a prior
    ease = head.judge(features).ease
    known = [table.measured[:, at] for at in range(len(table.fixers))]
    abilities = [
        head.ability(ease[mask], table.resolved[mask, at], _where(table.groups, mask)).value
        for at, mask in enumerate(known)
        if mask.any()
    ]
    return head.with_prior(abilities)


def predict(head: DifficultyHead, table: OutcomeTable, known: Floats, new: Floats) -> Floats:
    """The probabilities of new tasks, from a table of known outcomes."""
    ease, at = head.judge(known).ease, head.judge(new).ease
    probabilities = np.full((len(new), len(table.fixers)), np.nan)
    for column in range(len(table.fixers)):
        mask = table.measured[:, column]
        if mask.any():
            ability = head.ability(ease[mask], table.resolved[mask, column], _where(table.groups, mask))
            probabilities[:, column] = head.probability(ability, at)[0]
    return probabilities


def lessons(table: OutcomeTable, features: Floats) -> DifficultyData:
    """Training data from a table. Tasks that were tried by the same fixers form a set; untried ones are left out."""
    tried = np.asarray(table.measured.any(axis=1))
    table, features = table.rows(tried), features[tried]
    measured = table.measured
    with np.errstate(divide="ignore", invalid="ignore"):
        paid = measured & (table.cost > 0)
        log_cost = np.where(paid, np.log(np.where(paid, table.cost, 1.0)), 0.0).sum(axis=1) / paid.sum(axis=1)
        rate = (table.resolved & measured).sum(axis=1) / measured.sum(axis=1)
    sets = tuple("".join("01"[has] for has in row) for row in measured.tolist())
    return DifficultyData(np.asarray(features, dtype=np.float64), table.groups, sets, rate, log_cost)


def by_resumes(table: OutcomeTable, vectors: Mapping[str, Vectors], folds: Ints) -> Floats:
    """The same by the paper's method: a head for each space, and the mean of their probabilities."""
    probabilities = np.zeros(table.resolved.shape)
    for space, rows in vectors.items():
        probabilities += _of_space(table, space, rows, folds) / len(vectors)
    return probabilities


def _of_space(table: OutcomeTable, space: str, rows: Vectors, folds: Ints) -> Floats:
    probabilities = np.full(table.resolved.shape, np.nan)
    for fold in np.unique(folds):
        rest = folds != fold
        known = standings(table, rows, rest)
        head = fit_resumes(table, space, rows, known, rest)
        new = np.flatnonzero(~rest)
        for at, standing in enumerate(known):
            if standing is not None:
                probabilities[new, at] = head.predict_proba(rows[new], [standing] * len(new))
    return probabilities


def standings(table: OutcomeTable, rows: Vectors, known: Bools) -> list[ResumeVectors | None]:
    """Each fixer's résumé vectors in a space, from the known tasks; None: it solved or failed all of them."""
    return [_standing(table, rows, at, known) for at in range(len(table.fixers))]


def fit_resumes(
    table: OutcomeTable, space: str, rows: Vectors, of_fixers: Sequence[ResumeVectors | None], known: Bools
) -> ResumeHead:
    """The paper's head for a space.

    As in the paper, a task's features come from centroids that include the task itself.
    """
    pairs = [
        (task, at, standing)
        for at, standing in enumerate(of_fixers)
        if standing is not None
        for task in np.flatnonzero(known & table.measured[:, at]).tolist()
    ]
    tasks = [task for task, _, _ in pairs]
    resolved = [bool(table.resolved[task, at]) for task, at, _ in pairs]
    return ResumeHead(space).fit(rows[tasks], [standing for _, _, standing in pairs], resolved)


def _standing(table: OutcomeTable, rows: Vectors, at: int, known: Bools) -> ResumeVectors | None:
    has = known & table.measured[:, at]
    resolved = table.resolved[has, at]
    if resolved.all() or not resolved.any():
        return None
    solved, failed = (rows[has][mask].mean(axis=0, dtype=np.float64) for mask in (resolved, ~resolved))
    return ResumeVectors(table.fixers[at], solved, failed, float(resolved.mean()))


def _where(names: Sequence[str], mask: Bools) -> list[str]:
    return [names[at] for at in np.flatnonzero(mask).tolist()]
