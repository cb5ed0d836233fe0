"""One arm's design space: how well each cell predicts, and what the paper's walk saves by it at the matched rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.calibrate.design import DIRECTED, HEADS, base_rates, feature_sets, held_out
from scrout.lab.study.calibrate.probabilities import ReliabilityGroup, auc_of, auc_within, reliability, squared_error
from scrout.lab.study.policies import Policy, alone, over_mix, saving_of
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.stats import Statistic, bootstraps, holm, mean_of, permutation
from scrout.records import Arm
from scrout.route.calibrate import MIN_TASKS, Walk, constant_warning, matched, pick
from scrout.route.outcome_table import Bools, Ints, OutcomeTable, group_folds
from scrout.route.stats import Floats

BASE = "base rate"
RECIPE = "résumés, LR"
"""The paper's head."""
NOTHING = "nothing"
"""The feature set of a base rate."""


class MatchedCell(FrozenModel):
    """The paper's walk, at the cheapest theta that solves as much as the strongest fixer on the other folds."""

    theta: float
    """Chosen on all tasks."""
    by_fold: tuple[float, ...]
    short: int
    """Folds for which no theta reached the strongest fixer."""
    usd: float
    """A task."""
    saving: Estimate | None
    """Share of what the strongest fixer alone costs; None: that is nothing."""
    gain: Estimate
    """Solve rate less that of the strongest fixer alone."""
    over_mix: Estimate
    """Solve rate less that of the best random mix of fixers at the same cost."""
    folds_won: int
    """Folds in which it solves no less than the strongest fixer and costs less."""
    constant: str
    """What to say where it nearly always takes one fixer; empty: it does not."""


class DesignCell(FrozenModel):
    """One feature set under one head, in one arm."""

    features: str
    head: str
    auc: Estimate
    """Over all attempts, as the paper has it."""
    auc_within: Estimate | None
    """Over pairs of one fixer and one fold alone; None: no such pair differs."""
    brier: Estimate
    brier_gain: Estimate
    """Brier's score of the base rates less this one's: above 0 the features help."""
    p: float
    """Of that gain: paired permutation over tasks, two-sided."""
    p_holm: float
    """Adjusted for all cells of the arm."""
    matched: MatchedCell


class Space(FrozenModel):
    """The design space of one arm."""

    benchmark: str
    arm: Arm
    tasks: int
    """That every fixer tried, and whose text is known."""
    repositories: int
    folds: int
    fixers: tuple[str, ...]
    strongest: str
    strongest_solve: float
    strongest_usd: float
    cells: tuple[DesignCell, ...]
    """The first is the base rate."""
    reliability: dict[str, tuple[ReliabilityGroup, ...]]
    """Of the base rate, the cell with the lowest Brier's score and the paper's recipe, all fixers together."""


def design_space(benchmark: Benchmark, arm: Arm) -> Space:
    """Every feature set under every head that takes it, on the tasks that every fixer tried."""
    table = _table(benchmark, arm)
    folds = group_folds(table.groups)
    seen = feature_sets([benchmark.texts[task] for task in table.ids])
    base = base_rates(table, folds)
    found: dict[tuple[str, str], Floats] = {(NOTHING, BASE): base}
    for features in seen:
        for name, head in HEADS.items():
            if features.directed == (name in DIRECTED):
                found[features.name, name] = _known(held_out(head, table, features, folds), base)
    cells = _adjusted([_cell(table, folds, names, p, base) for names, p in found.items()])
    best = min(cells[1:], key=lambda cell: cell.brier.value)
    recipe = next(names for names in reversed(found) if names[1] == RECIPE)
    solve, costs = table.resolved.mean(axis=0), table.mean_costs
    strongest = int(solve.argmax())
    return Space(
        benchmark=benchmark.name,
        arm=arm,
        tasks=len(table.ids),
        repositories=len(set(table.groups)),
        folds=len(np.unique(folds)),
        fixers=table.fixers,
        strongest=table.fixers[strongest],
        strongest_solve=float(solve[strongest]),
        strongest_usd=float(costs[strongest]),
        cells=tuple(cells),
        reliability={
            named(*names): reliability(found[names], table.resolved)
            for names in dict.fromkeys([(NOTHING, BASE), (best.features, best.head), recipe])
        },
    )


def _table(benchmark: Benchmark, arm: Arm) -> OutcomeTable:
    table = benchmark.table(arm)
    if len(table.fixers) < 2:
        raise StudyError(f"{', '.join(table.fixers)} is the only fixer. Run a batch with another one as well.")
    told = np.array([bool(benchmark.texts.get(task)) for task in table.ids], dtype=bool)
    whole = table.measured.all(axis=1)
    if (told & whole).sum() < MIN_TASKS:
        raise StudyError(
            f"{int((told & whole).sum())} tasks have a text and an outcome of every fixer, and it takes {MIN_TASKS}. "
            "Run more tasks, and name their texts with --tasks FILE."
        )
    return table.rows(told & whole).priced()


def _known(probabilities: Floats, base: Floats) -> Floats:
    """The base rate where a head says nothing, so that all cells are about the same attempts."""
    return np.where(np.isfinite(probabilities), probabilities, base)


def _cell(table: OutcomeTable, folds: Ints, names: tuple[str, str], probabilities: Floats, base: Floats) -> DesignCell:
    error = squared_error(probabilities, table.resolved)
    gained = squared_error(base, table.resolved) - error
    wanted: dict[str, Statistic] = {
        "auc": auc_of(probabilities, table.resolved),
        "within": auc_within(probabilities, table.resolved, folds),
        "brier": mean_of(error),
        "gain": mean_of(gained),
    }
    made = bootstraps(len(table.ids), wanted)
    p = permutation(gained) if names[1] != BASE else 1.0
    return DesignCell(
        features=names[0],
        head=names[1],
        auc=made["auc"],
        auc_within=made["within"] if np.isfinite(made["within"].value) else None,
        brier=made["brier"],
        brier_gain=made["gain"],
        p=p,
        p_holm=p,
        matched=_matched(table.with_probabilities(probabilities), folds),
    )


def _adjusted(cells: Sequence[DesignCell]) -> list[DesignCell]:
    looks = holm([cell.p for cell in cells[1:]])
    return [cells[0], *(cell.model_copy(update={"p_holm": p}) for cell, p in zip(cells[1:], looks, strict=True))]


def _matched(table: OutcomeTable, folds: Ints) -> MatchedCell:
    found = matched(table, folds, Walk())
    strongest = int(table.resolved.mean(axis=0).argmax())
    ours = Policy("routed", "policy", found.resolved, found.cost)
    fixers = alone(table)
    best = fixers[strongest]
    made = bootstraps(
        len(table.ids),
        {
            "saving": saving_of(ours, best),
            "gain": mean_of(ours.solved - best.solved),
            "mix": over_mix(ours, fixers),
        },
    )
    return MatchedCell(
        theta=pick(table, Walk()).setting,
        by_fold=tuple(one.setting for one in found.by_fold),
        short=sum(not one.reached for one in found.by_fold),
        usd=float(ours.cost.mean()),
        saving=made["saving"] if np.isfinite(made["saving"].value) else None,
        gain=made["gain"],
        over_mix=made["mix"],
        folds_won=sum(_won(ours, best, folds == fold) for fold in np.unique(folds)),
        constant=constant_warning(found.choices, table.fixers),
    )


def _won(ours: Policy, best: Policy, rows: Bools) -> bool:
    return bool(
        ours.solved[rows].sum() >= best.solved[rows].sum() and ours.cost[rows].sum() < best.cost[rows].sum() - 1e-9
    )


def named(features: str, head: str) -> str:
    """A cell's name."""
    return head if head == BASE else f"{features}, {head}"
