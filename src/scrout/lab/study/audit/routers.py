"""Five families of routers that know a task's text alone, each held out by repository, beside the best single fixer.

They are the families that the paper audits. Its settings are not told, so these are small and plain. They were set with
results in view, which all came out alike. Other seeds and settings move a family by a point or two, so which of them
leads says little.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scrout.base import FrozenModel
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.stats import Paired, holm, paired
from scrout.records import Arm
from scrout.route.embed import HashedEmbedder
from scrout.route.outcome_table import Bools, Ints, group_folds
from scrout.route.stats import Floats

NEIGHBOURS = 20
CLUSTERS = 8
DIMENSIONS = 32
HIDDEN = 16
SEED = 0
DRAWS = 2_000
MIN_TASKS = 25
"""Below it a fold teaches nothing."""


class Family(FrozenModel):
    """One way to choose, and what it solves beside the strongest fixer alone."""

    name: str
    rate: float
    beside_best: Paired
    """First the strongest fixer on every task, then this way."""
    p_holm: float | None
    """Corrected for the families that were looked at. None: it is no router, only what it would be without one."""
    shares: dict[str, float]
    """How often each fixer is taken."""


class Routed(FrozenModel):
    """Every family on one pool."""

    benchmark: str
    tasks: int
    repositories: int
    best_fixer: str
    """The one that solves most of these very tasks, which no router is told."""
    families: tuple[Family, ...]
    strongest: str
    """The family that solves most."""

    @property
    def leader(self) -> Family:
        return next(family for family in self.families if family.name == self.strongest)


@dataclass(frozen=True, eq=False)
class Tasks:
    """What a router may know of tasks."""

    vectors: Floats
    languages: Sequence[str]

    def of(self, mask: Bools) -> Tasks:
        return Tasks(self.vectors[mask], [self.languages[at] for at in np.flatnonzero(mask).tolist()])


Probabilities = Callable[[Tasks, Floats, Tasks], Floats]
"""From known tasks and whether each fixer solved them to probabilities on new ones: a row a task, a column a fixer."""


def routed(benchmark: Benchmark, fixers: Sequence[str], arm: Arm = "solo") -> Routed | str:
    """Every family on the tasks that the whole pool tried; or why there is none."""
    from threadpoolctl import threadpool_limits

    if not benchmark.texts:
        return f"{benchmark.name}: no texts of its tasks are here, so no router can be tried."
    known = benchmark.rows(
        benchmark.arm(arm).only(fixers).measured.all(axis=1)
        & np.array([bool(benchmark.texts.get(task)) for task in benchmark.ids])
    )
    if len(known.ids) < MIN_TASKS or len(set(known.repositories)) < 2:
        return (
            f"{benchmark.name}: {len(known.ids)} tasks of {len(set(known.repositories))} repositories have a text and "
            f"outcomes of the whole pool; a router that is held out by repository needs {MIN_TASKS} of 2."
        )
    resolved = known.arm(arm).only(fixers).resolved
    vectors = HashedEmbedder().embed([known.texts[task] for task in known.ids]).astype(np.float64)
    tasks = Tasks(vectors, [known.languages.get(task, "") for task in known.ids])
    folds = group_folds(known.repositories)
    best = resolved[:, int(resolved.mean(axis=0).argmax())]
    # With matrices as small as these, threads only wait for each other.
    with threadpool_limits(1):
        found = {
            name: _taken(probabilities, tasks, resolved, folds)
            for name, probabilities in {**FAMILIES, **_WITHOUT}.items()
        }
    beside = {name: paired(best, resolved[np.arange(len(best)), taken], DRAWS) for name, taken in found.items()}
    corrected = dict(zip(FAMILIES, holm([beside[name].p for name in FAMILIES]), strict=True))
    families = tuple(
        Family(
            name=name,
            rate=beside[name].second,
            beside_best=beside[name],
            p_holm=corrected.get(name),
            shares={fixer: float(np.mean(taken == at)) for at, fixer in enumerate(fixers)},
        )
        for name, taken in found.items()
    )
    return Routed(
        benchmark=benchmark.name,
        tasks=len(best),
        repositories=len(set(known.repositories)),
        best_fixer=fixers[int(resolved.mean(axis=0).argmax())],
        families=families,
        strongest=max((one for one in families if one.name in FAMILIES), key=lambda one: one.rate).name,
    )


def _taken(probabilities: Probabilities, tasks: Tasks, resolved: Bools, folds: Ints) -> Ints:
    """For each task the fixer with the highest probability, by what the other folds teach."""
    taken = np.zeros(len(folds), dtype=np.int64)
    for fold in np.unique(folds):
        new, rest = folds == fold, folds != fold
        solved = resolved[rest].astype(np.float64)
        said = probabilities(tasks.of(rest), solved, tasks.of(new))
        # Of fixers with the same probability, the one that solves more.
        taken[new] = (said + 1e-6 * solved.mean(axis=0)).argmax(axis=1)
    return taken


def _neighbours(known: Tasks, solved: Floats, new: Tasks) -> Floats:
    """What the nearest known tasks gave."""
    near = np.argsort(-(new.vectors @ known.vectors.T), axis=1, kind="stable")[:, :NEIGHBOURS]
    return np.asarray(solved[near].mean(axis=1), dtype=np.float64)


def _logistic(known: Tasks, solved: Floats, new: Tasks) -> Floats:
    """A logistic regression for each fixer."""
    from sklearn.linear_model import LogisticRegression

    probabilities = np.tile(solved.mean(axis=0), (len(new.vectors), 1))
    for at in np.flatnonzero((solved.min(axis=0) < 1) & (solved.max(axis=0) > 0)):
        head = LogisticRegression(C=1.0, max_iter=1000).fit(known.vectors, solved[:, at] > 0)
        probabilities[:, at] = head.predict_proba(new.vectors)[:, 1]
    return probabilities


def _network(known: Tasks, solved: Floats, new: Tasks) -> Floats:
    """One small network with an output for each fixer."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    seen, asked = _reduced(known, new)
    network = MLPClassifier((HIDDEN,), solver="lbfgs", alpha=10.0, max_iter=200, random_state=SEED)
    with warnings.catch_warnings():
        # Where it stops, it is good enough.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(seen, solved > 0)
    return np.asarray(network.predict_proba(asked), dtype=np.float64).reshape(len(asked), -1)


def _clusters(known: Tasks, solved: Floats, new: Tasks) -> Floats:
    """What each fixer solves in the cluster that a task falls into, drawn toward what it solves everywhere."""
    from sklearn.cluster import KMeans

    seen, asked = _reduced(known, new)
    clusters = KMeans(min(CLUSTERS, len(np.unique(seen, axis=0))), n_init=3, random_state=SEED).fit(seen)
    return _by_group(clusters.labels_.tolist(), solved, clusters.predict(asked).tolist())


def _languages(known: Tasks, solved: Floats, new: Tasks) -> Floats:
    """What each fixer solves in the task's language, drawn toward what it solves everywhere."""
    return _by_group(known.languages, solved, new.languages)


def _nothing(known: Tasks, solved: Floats, new: Tasks) -> Floats:
    """What each fixer solves everywhere."""
    return np.tile(solved.mean(axis=0), (len(new.vectors), 1))


def _by_group(known: Sequence[object], solved: Floats, new: Sequence[object]) -> Floats:
    everywhere = solved.mean(axis=0)
    probabilities = np.tile(everywhere, (len(new), 1))
    for group in set(new):
        inside = np.array([one == group for one in known])
        # Counts as ten tasks, so that a group of few says little.
        drawn = (solved[inside].sum(axis=0) + 10 * everywhere) / (inside.sum() + 10)
        probabilities[[one == group for one in new]] = drawn
    return probabilities


def _reduced(known: Tasks, new: Tasks) -> tuple[Floats, Floats]:
    """In fewer dimensions, scaled as a whole: each scaled by itself, the least of them would be noise made large."""
    from sklearn.decomposition import PCA

    size = min(DIMENSIONS, *known.vectors.shape)
    pca = PCA(size, svd_solver="randomized", random_state=SEED).fit(known.vectors)
    seen, asked = pca.transform(known.vectors), pca.transform(new.vectors)
    scale = float(seen.std()) or 1.0
    return seen / scale, asked / scale


FAMILIES: Mapping[str, Probabilities] = {
    "k-NN over embeddings": _neighbours,
    "logistic head": _logistic,
    "MLP head": _network,
    "clustering": _clusters,
    "language rule": _languages,
}
_WITHOUT: Mapping[str, Probabilities] = {"no router: the best of the other folds": _nothing}
