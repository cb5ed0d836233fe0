"""The design space of a router: what is looked at in a task, by what turns that into a probability.

Every probability is held out: folds are whole repositories, and what predicts a fold was fitted on the others alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from scrout.base import FrozenModel
from scrout.config.settings import EmbedderSettings
from scrout.intervals import Estimate
from scrout.lab.study.stats import Statistic, wilson
from scrout.route import text_counts
from scrout.route.embed import Embedder, HashedEmbedder, open_embedder
from scrout.route.heads import features as resume_features
from scrout.route.heldout import by_difficulty, by_resumes, standings
from scrout.route.outcome_table import Bools, Ints, OutcomeTable, group_folds
from scrout.route.stats import Floats

GROUPS = 6
"""Of a picture of reliability: fewer hide a bend, more are noise."""


class ReliabilityGroup(FrozenModel):
    attempts: int
    predicted: float
    """The mean of their probabilities."""
    solved: Estimate
    """The share that was solved, with Wilson's interval."""


def auc_of(probabilities: Floats, solved: Bools) -> Statistic:
    """The share of pairs of a solved and a failed attempt that the probabilities put in the right order; ties count
    half.

    Both have a row a task. With several columns all attempts are one crowd, and a task is drawn with all of its own;
    an attempt whose probability is nan takes no part.
    """
    return _share_in_order([_in_order(probabilities, solved, np.ones(len(probabilities), dtype=bool))])


def auc_within(probabilities: Floats, solved: Bools, folds: Ints) -> Statistic:
    """The same over pairs of one fixer and one fold alone: what is left when strength and luck of the fold are equal.

    Over folds together, a fold that is harder than the rest gets too high a probability, so even base rates fall below
    .5.
    """
    return _share_in_order(
        [
            _in_order(probabilities[:, [at]], solved[:, [at]], folds == fold)
            for at in range(probabilities.shape[1])
            for fold in np.unique(folds)
        ]
    )


def squared_error(probabilities: Floats, solved: Bools) -> Floats:
    """Of each task, the mean over its attempts: what Brier's score is the mean of."""
    known = np.isfinite(probabilities)
    errors = np.where(known, (np.where(known, probabilities, 0.0) - solved) ** 2, 0.0)
    return np.asarray(errors.sum(axis=1) / np.maximum(1, known.sum(axis=1)))


def reliability(probabilities: Floats, solved: Bools, groups: int = GROUPS) -> tuple[ReliabilityGroup, ...]:
    """What was predicted and what came, in groups of equal size from the lowest probability to the highest."""
    known = np.isfinite(probabilities)
    p, y = probabilities[known], solved[known]
    parts = np.array_split(np.argsort(p, kind="stable"), min(groups, p.size) or 1)
    return tuple(
        ReliabilityGroup(
            attempts=part.size, predicted=float(p[part].mean()), solved=wilson(int(y[part].sum()), part.size)
        )
        for part in parts
        if part.size
    )


_Pairs = Callable[[Floats], tuple[Floats, Floats]]
"""From shares of the tasks to the weight of pairs in the right order, and of all pairs."""


def _share_in_order(crowds: Sequence[_Pairs]) -> Statistic:
    def statistic(shares: Floats) -> Floats:
        found = [crowd(shares) for crowd in crowds]
        ordered, pairs = (np.sum([one[at] for one in found], axis=0) for at in (0, 1))
        in_order: Floats = np.divide(ordered, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)
        return in_order

    return statistic


def _in_order(probabilities: Floats, solved: Bools, rows: Bools) -> _Pairs:
    p, y = probabilities.reshape(len(probabilities), -1), solved.reshape(len(solved), -1)
    task, column = np.nonzero(np.isfinite(p) & rows[:, None])
    if not task.size:
        return lambda shares: (np.zeros(len(shares)), np.zeros(len(shares)))
    order = np.argsort(p[task, column], kind="stable")
    task, column = task[order], column[order]
    _, starts = np.unique(p[task, column], return_index=True)
    right = y[task, column]

    def pairs(shares: Floats) -> tuple[Floats, Floats]:
        weights = shares[:, task]
        won, failed = (np.add.reduceat(weights * kind, starts, axis=1) for kind in (right, ~right))
        ordered = (won * (np.cumsum(failed, axis=1) - failed / 2)).sum(axis=1)
        return ordered, won.sum(axis=1) * failed.sum(axis=1)

    return pairs


SEED = 42
INNER_FOLDS = 4
PENALTIES = (1e4, 1e3, 1e2, 1e1, 1.0)
"""Of the logistic regression over plain features; chosen by folds of the repositories that it is fitted on."""
NETWORK_PENALTIES = (100.0, 30.0, 10.0, 1.0)
"""The same of a network."""
DIRECTIONS = 32
"""Of an embedding, for heads that do not compare directions."""
HIDDEN = (16,)
STEPS = 100


@dataclass(frozen=True, eq=False)
class Features:
    """What is looked at: a row a task."""

    name: str
    rows: Floats
    names: tuple[str, ...]
    directed: bool
    """Whether a cosine between two rows means something; of counts in mixed units it does not."""


Head = Callable[[OutcomeTable, Features, Ints], Floats]
"""Held-out probabilities of the table's fixers by features and folds; nan: unknown."""


def feature_sets(texts: Sequence[str]) -> list[Features]:
    """Everything that an installed scrout can see in a text: counts, an embedding, and both together.

    An embedding comes twice: whole, for heads that compare directions, and as its main directions for the others, which
    would drown in hundreds of columns. These are found without a look at any outcome.
    """
    counted = Features(
        "counts", np.array([text_counts.count(text) for text in texts], dtype=float), text_counts.NAMES, False
    )
    found = [counted]
    for name, embedder in embedders().items():
        rows = np.asarray(embedder.embed(texts), dtype=np.float64)
        found.append(Features(name, rows, _numbered(rows), True))
        main = _main_directions(rows)
        found.append(Features(name, main, _numbered(main), False))
    last = found[-1]
    both = np.concatenate([counted.rows, last.rows], axis=1)
    return [*found, Features(f"counts + {last.name}", both, (*counted.names, *last.names), False)]


def embedders() -> dict[str, Embedder]:
    """Those that run here without a server; MiniLM only where its extra is installed."""
    found: dict[str, Embedder] = {"hashed text": HashedEmbedder()}
    best = open_embedder(EmbedderSettings(kind="auto"))
    return found if best.name == HashedEmbedder.name else {**found, "MiniLM text": best}


def base_rates(table: OutcomeTable, folds: Ints) -> Floats:
    """Of each fixer on the other folds: what every look at a task has to beat."""
    probabilities = np.full(table.resolved.shape, np.nan)
    for fold in np.unique(folds):
        known = table.measured & (folds != fold)[:, None]
        solved, tried = (table.resolved & known).sum(axis=0), known.sum(axis=0)
        probabilities[folds == fold] = np.divide(solved, tried, out=np.full(len(tried), np.nan), where=tried > 0)
    return probabilities


def by_resume_head(table: OutcomeTable, seen: Features, folds: Ints) -> Floats:
    """The paper's: a logistic regression over six numbers of a task and a fixer's résumé."""
    return by_resumes(table, {seen.name: seen.rows.astype(np.float32)}, folds)


def by_difficulty_head(table: OutcomeTable, seen: Features, folds: Ints) -> Floats:
    """Ours: how easy the task looks, and how able the fixer is."""
    return by_difficulty(table, seen.rows, seen.names, [seen.name], folds)


HEADS: Mapping[str, Head] = {
    "résumés, LR": by_resume_head,
    "résumés, MLP": lambda table, seen, folds: _by_pairs(table, folds, _resume_inputs(table, seen), _NETWORKS),
    "difficulty": by_difficulty_head,
    "logistic": lambda table, seen, folds: _by_pairs(table, folds, _beside_fixer(table, seen), _LOGISTICS),
    "MLP": lambda table, seen, folds: _by_pairs(table, folds, _beside_fixer(table, seen), _NETWORKS),
}
DIRECTED = ("résumés, LR", "résumés, MLP")
"""Heads that compare directions: they take directed features, and the others those that are not."""


def _main_directions(rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    kept = min(DIRECTIONS, len(rows) - 1)
    return np.asarray(left[:, :kept] * sizes[:kept])


def _numbered(rows: Floats) -> tuple[str, ...]:
    return tuple(f"direction_{at}" for at in range(rows.shape[1]))


_Inputs = Callable[[Bools, Ints, Ints], Floats]
"""From the known tasks, and the tasks and fixers of pairs, to a row a pair; nan: nothing can be said of it."""
_Fitter = Callable[[Floats, Bools, Floats], Floats]
"""From known inputs and what came of them to the probabilities of new inputs."""


def held_out(head: Head, table: OutcomeTable, seen: Features, folds: Ints) -> Floats:
    """A head's probabilities. On matrices this small, threads cost more than they bring."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return head(table, seen, folds)


def _by_pairs(table: OutcomeTable, folds: Ints, inputs: _Inputs, fitters: Sequence[_Fitter]) -> Floats:
    probabilities = np.full(table.resolved.shape, np.nan)
    for fold in np.unique(folds):
        known = folds != fold
        task, column = np.nonzero(table.measured & known[:, None])
        new_task, new_column = np.nonzero(np.broadcast_to(~known[:, None], table.measured.shape))
        x, new = inputs(known, task, column), inputs(known, new_task, new_column)
        has, told = np.isfinite(x).all(axis=1), np.isfinite(new).all(axis=1)
        groups = [table.groups[at] for at in task[has]]
        y = table.resolved[task, column][has]
        if not told.any() or y.all() or not y.any():
            continue
        mean, scale = x[has].mean(axis=0), np.maximum(x[has].std(axis=0), 1e-9)
        scaled = (x[has] - mean) / scale
        fitter = _best(fitters, scaled, y, groups)
        probabilities[new_task[told], new_column[told]] = fitter(scaled, y, (new[told] - mean) / scale)
    return probabilities


def _resume_inputs(table: OutcomeTable, seen: Features) -> _Inputs:
    """Six numbers of a task and a fixer's résumé, as in the paper."""
    rows = seen.rows.astype(np.float32)

    def pairs(known: Bools, task: Ints, column: Ints) -> Floats:
        of_fixers = standings(table, rows, known)
        found = np.full((len(task), 6), np.nan)
        told = np.array([of_fixers[at] is not None for at in column])
        beside = [standing for at in column[told] if (standing := of_fixers[at]) is not None]
        if beside:
            found[told] = resume_features(rows[task[told]], beside)
        return found

    return pairs


def _beside_fixer(table: OutcomeTable, seen: Features) -> _Inputs:
    which = np.eye(len(table.fixers))
    return lambda known, task, column: np.concatenate([seen.rows[task], which[column]], axis=1)


def _best(fitters: Sequence[_Fitter], x: Floats, y: Bools, groups: Sequence[str]) -> _Fitter:
    """The one with the least log loss on folds of the repositories at hand; where they make no folds, the first."""
    if len(set(groups)) < 2:
        return fitters[0]
    folds = group_folds(groups, INNER_FOLDS)
    return min(fitters, key=lambda fitter: _log_loss(fitter, x, y, folds))


def _log_loss(fitter: _Fitter, x: Floats, y: Bools, folds: Ints) -> float:
    loss = 0.0
    for fold in np.unique(folds):
        rest = folds != fold
        if y[rest].all() or not y[rest].any():
            continue
        p = fitter(x[rest], y[rest], x[~rest])
        loss -= float(np.log(np.clip(np.where(y[~rest], p, 1 - p), 1e-9, None)).sum())
    return loss


def _fit_logistic(penalty: float, x: Floats, y: Bools, new: Floats) -> Floats:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1 / penalty, max_iter=1000).fit(x, y)
    return np.asarray(fitted.predict_proba(new)[:, 1])


def _fit_network(penalty: float, x: Floats, y: Bools, new: Floats) -> Floats:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():
        # The number of steps is part of the recipe: going on until nothing moves would fit the noise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = MLPClassifier(HIDDEN, solver="lbfgs", alpha=penalty, max_iter=STEPS, random_state=SEED).fit(x, y)
    return np.asarray(fitted.predict_proba(new)[:, 1])


_LOGISTICS: Sequence[_Fitter] = [partial(_fit_logistic, penalty) for penalty in PENALTIES]
_NETWORKS: Sequence[_Fitter] = [partial(_fit_network, penalty) for penalty in NETWORK_PENALTIES]
