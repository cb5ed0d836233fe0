"""`audit`: whether a pool of fixers leaves a router anything to win.

Three figures of a pool (its best fixer, how much the others' solves are contained in each other's, how many contested
tasks only one of them solves), and what routers that read the task's text make of it. First the three pools that the
paper prints, then every pool of four in the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import Paper, PublicName
from scrout.lab.study.sources.source import Source
from scrout.lab.study.stats import Paired, Statistic, bootstraps, holm, mean_of, paired, ratio_of
from scrout.records import Arm
from scrout.route.embed import HashedEmbedder
from scrout.route.outcome_table import Bools, Ints, group_folds
from scrout.route.stats import Floats

POOL = 4
"""Fixers of a pool, where every pool of a benchmark is looked at."""
MAX_POOLS = 5_000
"""Of one benchmark; more fixers than that takes are more than anyone routes among."""


class Overlap(FrozenModel):
    """A pool on the tasks that all of it tried. All figures are fractions, the shell too."""

    benchmark: str
    fixers: tuple[str, ...]
    n: int
    """Tasks that all of them tried."""
    best_fixer: str
    best: float
    """Share that the strongest one solves."""
    containment: float | None
    """Mean over the pairs: of what the weaker one solves, the share that the other does too. None: one solves none."""
    shell: float | None
    """Of the tasks that some solve and others don't, the share that exactly one solves. None: there is no such task."""
    any: float
    """Share that at least one solves: as much as a router that never errs."""


class OverlapIntervals(FrozenModel):
    """The same figures with intervals over resampled tasks."""

    best: Estimate
    containment: Estimate | None
    shell: Estimate | None


class Quantiles(FrozenModel):
    """How a figure is spread over pools."""

    lowest: float
    quarter: float
    median: float
    three_quarters: float
    highest: float


class PoolsOfFour(FrozenModel):
    """Every pool of four of one benchmark."""

    benchmark: str
    fixers: int
    pools: int
    fewest_tasks: int
    """Of any pool: it is measured on the tasks that all of it tried."""
    containment: Quantiles
    shell: Quantiles
    headroom: Quantiles
    """What a router that never errs would solve beyond the best fixer."""
    below_published: float | None
    """Share of the pools with a lower containment than the published one's. None: there is none."""
    each: tuple[Overlap, ...]


def overlap(name: str, outcomes: ArmOutcomes) -> Overlap:
    """The figures of a pool; every pair must be measured."""
    _refuse_odd(name, outcomes)
    everything = np.full((1, len(outcomes.resolved)), 1 / len(outcomes.resolved))
    rates = outcomes.resolved.mean(axis=0)
    return Overlap(
        benchmark=name,
        fixers=outcomes.fixers,
        n=len(outcomes.resolved),
        best_fixer=outcomes.fixers[int(rates.argmax())],
        best=float(rates.max()),
        containment=_known(float(containment_of(outcomes.resolved)(everything)[0])),
        shell=_known(float(shell_of(outcomes.resolved)(everything)[0])),
        any=float(outcomes.resolved.any(axis=1).mean()),
    )


def spread(outcomes: ArmOutcomes) -> OverlapIntervals:
    """The figures with intervals. The strongest fixer is the one that is so on all tasks."""
    resolved = outcomes.resolved
    strongest = int(resolved.mean(axis=0).argmax())
    found = bootstraps(
        len(resolved),
        {
            "best": mean_of(resolved[:, strongest]),
            "containment": containment_of(resolved),
            "shell": shell_of(resolved),
        },
    )
    containment, shell = (found[key] if np.isfinite(found[key].value) else None for key in ("containment", "shell"))
    return OverlapIntervals(best=found["best"], containment=containment, shell=shell)


def pools(benchmark: Benchmark, arm: Arm, published: Overlap | None = None) -> PoolsOfFour | str:
    """Every pool of four, each on the tasks that all four tried; or why there is none."""
    outcomes = benchmark.arm(arm)
    every = comb(len(outcomes.fixers), POOL)
    if every > MAX_POOLS:
        return (
            f"{benchmark.name}, {arm}: {len(outcomes.fixers)} fixers make {every} pools of {POOL}, more than are tried."
        )
    each = tuple(
        overlap(benchmark.name, benchmark.pool(pool, arm))
        for pool in combinations(outcomes.fixers, POOL)
        if outcomes.only(pool).measured.all(axis=1).any()
    )
    containments = [one.containment for one in each if one.containment is not None]
    shells = [one.shell for one in each if one.shell is not None]
    if not containments or not shells:
        return f"{benchmark.name}, {arm}: no pool of {POOL} whose fixers solve some tasks, and not all the same ones."
    beside = published.containment if published else None
    return PoolsOfFour(
        benchmark=benchmark.name,
        fixers=len(outcomes.fixers),
        pools=len(each),
        fewest_tasks=min(one.n for one in each),
        containment=_quantiles(containments),
        shell=_quantiles(shells),
        headroom=_quantiles([one.any - one.best for one in each]),
        below_published=float(np.mean([one < beside for one in containments])) if beside is not None else None,
        each=each,
    )


def _quantiles(values: Sequence[float]) -> Quantiles:
    ends = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return Quantiles(lowest=ends[0], quarter=ends[1], median=ends[2], three_quarters=ends[3], highest=ends[4])


def containment_of(resolved: Bools) -> Statistic:
    """Mean over the pairs of fixers: tasks that both solve, by those that the weaker one does."""
    solved = resolved.astype(np.float64)
    pairs = list(combinations(range(resolved.shape[1]), 2))
    both = np.column_stack([solved[:, a] * solved[:, b] for a, b in pairs])

    def containment(shares: Floats) -> Floats:
        each = shares @ solved
        weaker = np.column_stack([np.minimum(each[:, a], each[:, b]) for a, b in pairs])
        together = shares @ both
        parts = np.divide(together, weaker, out=np.full(together.shape, np.nan), where=weaker > 0)
        return np.asarray(parts.mean(axis=1), dtype=np.float64)

    return containment


def shell_of(resolved: Bools) -> Statistic:
    """Tasks that exactly one solves, by those that some but not all do."""
    solvers = resolved.sum(axis=1)
    return ratio_of(solvers == 1, (solvers > 0) & (solvers < resolved.shape[1]))


def _refuse_odd(name: str, outcomes: ArmOutcomes) -> None:
    if len(outcomes.fixers) < 2:
        raise StudyError(
            f"{name}: a pool of {len(outcomes.fixers)} ({', '.join(outcomes.fixers)}) leaves nothing to compare. "
            "Add outcomes of another fixer on the same tasks."
        )
    if not len(outcomes.resolved) or not outcomes.measured.all():
        raise StudyError(
            f"{name}: not every task was tried by all of {', '.join(outcomes.fixers)}. Leave the others out."
        )


def _known(figure: float) -> float | None:
    return figure if np.isfinite(figure) else None


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
PUBLISHED: Mapping[PublicName, tuple[str, ...]] = {
    "Verified": (
        "Claude 4.5 Opus (high reasoning)",
        "GPT-5 Mini",
        "GPT-5-2 (high reasoning)",
        "MiniMax M2.5 (high reasoning)",
    ),
    "Multilingual": ("Claude 4.6 Opus", "GPT-5 mini", "Gemini 3 Flash", "Minimax 2.5"),
    "Pro": (
        "claude-45sonnet-10132025",
        "claude-4sonnet-10132025",
        "gpt-5-250-turns-10132025",
        "kimi-k2-instruct-10132025",
    ),
}
"""The pools behind the three columns that the paper prints."""


class Claimed(FrozenModel):
    """What the paper prints of its best router."""

    benchmark: str
    change: float
    """Its solve rate less the best fixer's."""
    p: float


class Audit(FrozenModel):
    published: tuple[Overlap, ...]
    """The paper's pools; of one's own runs, the whole pool in each arm."""
    intervals: tuple[OverlapIntervals, ...]
    """Of `published`, in its order."""
    others: tuple[Overlap, ...]
    """Further pools of the data, which the paper does not print."""
    pools: tuple[PoolsOfFour, ...]
    routers: tuple[Routed, ...]
    claimed: tuple[Claimed, ...]
    notes: tuple[str, ...]


def study(source: Source) -> Audit:
    """The audit of the paper's pools, or of one's own."""
    return _of_paper(source) if isinstance(source, Paper) else _of_own(source.comparable)


def published_pools(paper: Paper) -> tuple[Overlap, ...]:
    """The pools that the paper prints, as far as their outcomes are there."""
    return tuple(
        overlap(name, paper.comparable(name).pool(fixers)) for name, fixers in PUBLISHED.items() if paper.has(name)
    )


def _of_paper(paper: Paper) -> Audit:
    there = {name: fixers for name, fixers in PUBLISHED.items() if paper.has(name)}
    others = _others(paper)
    if not there and not others:
        paper.public("Verified")  # says what is missing, and where it comes from
    published = published_pools(paper)
    tried = [routed(paper.comparable(name), fixers) for name, fixers in there.items()]
    if paper.has("label run"):
        tried.append(routed(paper.label_run, paper.label_run.arm("solo").fixers))
    every = [pools(paper.comparable(name), "solo", one) for name, one in zip(there, published, strict=True)]
    printed = paper.published.get("audit", {}).get("rows", {}) if paper.has("published") else {}
    return Audit(
        published=published,
        intervals=tuple(spread(paper.comparable(name).pool(fixers)) for name, fixers in there.items()),
        others=others,
        pools=tuple(one for one in every if isinstance(one, PoolsOfFour)),
        routers=tuple(one for one in tried if isinstance(one, Routed)),
        claimed=tuple(
            Claimed(benchmark=name, change=row["router_minus_best"], p=row["p"]) for name, row in printed.items()
        ),
        notes=(
            *(f"{name}: its outcomes are not in the folder." for name in PUBLISHED if name not in there),
            *(one for one in (*every, *tried) if isinstance(one, str)),
        ),
    )


def _others(paper: Paper) -> tuple[Overlap, ...]:
    """The receipts' own pools: the label run in both arms, and the evaluation's fixers alone."""
    named: list[tuple[str, Benchmark, Arm]] = []
    if paper.has("label run"):
        named += [("label run", paper.label_run, "solo"), ("label run, with handoff", paper.label_run, "handoff")]
    if paper.has("evaluation"):
        named.append((paper.evaluation.name, paper.evaluation, "solo"))
    return tuple(overlap(name, benchmark.pool(benchmark.arm(arm).fixers, arm)) for name, benchmark, arm in named)


def _of_own(benchmark: Benchmark) -> Audit:
    """The whole pool in each arm in which two fixers have outcomes; of more than four fixers, every four."""
    fixers = {arm: list(outcomes.fixers) for arm, outcomes in benchmark.arms.items()}
    arms = [arm for arm, names in fixers.items() if len(names) > 1]
    if not arms:
        told = "; ".join(f"{arm}: {', '.join(names)}" for arm, names in fixers.items()) or "none"
        raise StudyError(
            f"{benchmark.source}: no arm has two fixers ({told}), and a pool of one leaves nothing to compare. "
            "Run the same tasks with another fixer."
        )
    alone = replace(benchmark, arms={arm: benchmark.arm(arm).only(fixers[arm]) for arm in arms})
    whole = {arm: alone.pool(fixers[arm], arm) for arm in arms}
    every = [pools(alone, arm) for arm in arms if len(fixers[arm]) > POOL]
    tried = [routed(alone, fixers[arm], arm) for arm in arms]
    return Audit(
        published=tuple(overlap(f"{benchmark.name}, {arm}", outcomes) for arm, outcomes in whole.items()),
        intervals=tuple(spread(outcomes) for outcomes in whole.values()),
        others=(),
        pools=tuple(one for one in every if isinstance(one, PoolsOfFour)),
        routers=tuple(one for one in tried if isinstance(one, Routed)),
        claimed=(),
        notes=tuple(dict.fromkeys(one for one in (*every, *tried) if isinstance(one, str))),
    )
