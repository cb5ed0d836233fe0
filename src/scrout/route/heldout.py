"""Chances of tasks that had no part in the fit: what every claim about a router is made of.

Folds are whole repositories. In each, heads and résumés come from the other folds alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scrout.route.difficulty import DifficultyHead, Lessons
from scrout.route.embed import Vectors
from scrout.route.heads import ResumeHead
from scrout.route.resume import Standing
from scrout.route.stats import Floats
from scrout.route.table import Bools, Ints, Table


def by_difficulty(
    table: Table,
    features: Floats,
    names: Sequence[str],
    spaces: Sequence[str],
    folds: Ints,
    more: Lessons | None = None,
) -> Floats:
    """A row a task, a column a fixer, by ease and ability; nan: the fixer has no outcome in the other folds.

    `more` are lessons of other tasks, which take part in every fold's fit.
    """
    chances = np.full(table.resolved.shape, np.nan)
    for fold in np.unique(folds):
        rest = folds != fold
        head = fit_difficulty(table.rows(rest), features[rest], names, spaces, more)
        chances[~rest] = predict(head, table.rows(rest), features[rest], features[~rest])
    return chances


def fit_difficulty(
    table: Table, features: Floats, names: Sequence[str], spaces: Sequence[str], more: Lessons | None = None
) -> DifficultyHead:
    """A head for the spaces, with the fixers of the table as what to expect of a new one."""
    own = lessons(table, features)
    head = DifficultyHead(spaces, names).fit(own if more is None else own.joined(more))
    head.prior_mean_, head.prior_sd_ = 0.0, 10.0  # to look at the fixers as they are
    ease = head.judge(features).ease
    known = [table.measured[:, at] for at in range(len(table.fixers))]
    abilities = [
        head.ability(ease[mask], table.resolved[mask, at], _where(table.groups, mask)).value
        for at, mask in enumerate(known)
        if mask.any()
    ]
    return head.with_prior(abilities)


def predict(head: DifficultyHead, table: Table, known: Floats, new: Floats) -> Floats:
    """The chances of new tasks, from the outcomes in a table of known ones."""
    ease, at = head.judge(known).ease, head.judge(new).ease
    chances = np.full((len(new), len(table.fixers)), np.nan)
    for column in range(len(table.fixers)):
        mask = table.measured[:, column]
        if mask.any():
            ability = head.ability(ease[mask], table.resolved[mask, column], _where(table.groups, mask))
            chances[:, column] = head.chance(ability, at)[0]
    return chances


def lessons(table: Table, features: Floats) -> Lessons:
    """What a head learns from a table. Tasks that were tried by the same fixers are a set; untried ones say nothing."""
    tried = np.asarray(table.measured.any(axis=1))
    table, features = table.rows(tried), features[tried]
    measured = table.measured
    with np.errstate(divide="ignore", invalid="ignore"):
        paid = measured & (table.cost > 0)
        log_cost = np.where(paid, np.log(np.where(paid, table.cost, 1.0)), 0.0).sum(axis=1) / paid.sum(axis=1)
        rate = (table.resolved & measured).sum(axis=1) / measured.sum(axis=1)
    sets = tuple("".join("01"[has] for has in row) for row in measured.tolist())
    return Lessons(np.asarray(features, dtype=np.float64), table.groups, sets, rate, log_cost)


def by_resumes(table: Table, vectors: Mapping[str, Vectors], folds: Ints) -> Floats:
    """The same by the paper's recipe: a head for each space, and the plain mean of what they say."""
    chances = np.zeros(table.resolved.shape)
    for space, rows in vectors.items():
        chances += _of_space(table, space, rows, folds) / len(vectors)
    return chances


def _of_space(table: Table, space: str, rows: Vectors, folds: Ints) -> Floats:
    chances = np.full(table.resolved.shape, np.nan)
    for fold in np.unique(folds):
        rest = folds != fold
        known = standings(table, rows, rest)
        head = fit_resumes(table, space, rows, known, rest)
        new = np.flatnonzero(~rest)
        for at, standing in enumerate(known):
            if standing is not None:
                chances[new, at] = head.predict_proba(rows[new], [standing] * len(new))
    return chances


def standings(table: Table, rows: Vectors, known: Bools) -> list[Standing | None]:
    """Each fixer in a space, by the outcomes of the known tasks; None: it solved or failed them all."""
    return [_standing(table, rows, at, known) for at in range(len(table.fixers))]


def fit_resumes(
    table: Table, space: str, rows: Vectors, of_fixers: Sequence[Standing | None], known: Bools
) -> ResumeHead:
    """The paper's head for a space. As there, a task's features come from centroids that hold the task itself."""
    pairs = [
        (task, at, standing)
        for at, standing in enumerate(of_fixers)
        if standing is not None
        for task in np.flatnonzero(known & table.measured[:, at]).tolist()
    ]
    tasks = [task for task, _, _ in pairs]
    resolved = [bool(table.resolved[task, at]) for task, at, _ in pairs]
    return ResumeHead(space).fit(rows[tasks], [standing for _, _, standing in pairs], resolved)


def _standing(table: Table, rows: Vectors, at: int, known: Bools) -> Standing | None:
    has = known & table.measured[:, at]
    resolved = table.resolved[has, at]
    if resolved.all() or not resolved.any():
        return None
    solved, failed = (rows[has][mask].mean(axis=0, dtype=np.float64) for mask in (resolved, ~resolved))
    return Standing(table.fixers[at], solved, failed, float(resolved.mean()))


def _where(names: Sequence[str], mask: Bools) -> list[str]:
    return [names[at] for at in np.flatnonzero(mask).tolist()]
