"""How well probabilities can be predicted from what is seen of a task, and what a router saves by them.

On the paper's files that is its label run, and beside it a control on its released router (shrinkage.py). Its own
design space rests on hidden states that were not released, so its rows stand here as published, unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from scrout.base import FrozenModel, RouteError, StudyError
from scrout.intervals import Estimate
from scrout.lab.study.calibrate_heads import (
    DIRECTED,
    HEADS,
    ReliabilityGroup,
    auc_of,
    auc_within,
    base_rates,
    embedders,
    feature_sets,
    held_out,
    reliability,
    squared_error,
)
from scrout.lab.study.policies import Policy, alone, over_mix, saving_of
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.sources.paper import FIXERS, KIMI, Absent, Paper
from scrout.lab.study.sources.source import Source
from scrout.lab.study.stats import SEED, Statistic, bootstraps, holm, mean_of, permutation
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
                said = held_out(head, table, features, folds)
                # The base rate where a head says nothing, so that all cells are about the same attempts.
                found[features.name, name] = np.where(np.isfinite(said), said, base)
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
    return head if head == BASE else f"{features}, {head}"


PERMUTATIONS = 1000
SPACES = ("text", "state", "blend")


class Swap(FrozenModel):
    """The paper's walk with other probabilities in place of its blend."""

    name: str
    diverted: Estimate
    """Tasks that go to another fixer than the cheapest; over permutations the mean and where 95% of them lie."""
    as_released: Estimate
    """Tasks that are decided as the paper's router did."""


class Order(FrozenModel):
    """How well probabilities order the tasks of one fixer."""

    fixer: str
    arm: Arm
    space: str
    tasks: int
    auc: Estimate
    p: float
    """Mann-Whitney, two-sided."""
    p_holm: float
    """Adjusted for all the looks of this table."""


class Shrinkage(FrozenModel):
    """The control, on the tasks of the paper's evaluation."""

    tasks: int
    theta: float
    swaps: tuple[Swap, ...]
    spread: dict[str, float]
    """Standard deviation of the cheapest fixer's probability over the tasks, by space."""
    text_theta: float
    """A theta for the text alone that decides about the cheapest fixer as the blend with a constant state does."""
    orders: tuple[Order, ...]
    blend_over_text: Estimate
    """AUC of the blend less that of the text, the cheapest fixer with handoff."""
    state_over_text: Estimate
    solved_where_text_diverts: float
    """Share that the cheapest fixer with handoff solves of the tasks that the text alone would take from it."""
    solved_elsewhere: float
    reliability: dict[str, tuple[ReliabilityGroup, ...]]
    """Of the cheapest fixer with handoff, by space."""


def shrinkage(paper: Paper) -> Shrinkage:
    """Every swap, and how the parts of the blend order tasks."""
    said = paper.routing
    handed = paper.evaluation.arm("handoff")
    kimi, column = FIXERS.index(KIMI), handed.column(KIMI)
    known = handed.measured[:, column]
    solved = handed.resolved[known, column]
    text_choice = _walked(said.text, said.theta)
    aucs = {space: auc_of(_of(paper, space)[known, kimi], solved) for space in SPACES}
    over = bootstraps(int(known.sum()), {space: _less(one, aucs["text"]) for space, one in aucs.items()})
    taken = text_choice[known] == kimi
    return Shrinkage(
        tasks=len(paper.evaluation.ids),
        theta=said.theta,
        swaps=_swaps(paper),
        spread={space: float(_of(paper, space)[:, kimi].std()) for space in SPACES},
        text_theta=float(2 * said.theta - said.state[:, kimi].mean()),
        orders=_orders(paper),
        blend_over_text=over["blend"],
        state_over_text=over["state"],
        solved_where_text_diverts=_share(solved[~taken]),
        solved_elsewhere=_share(solved[taken]),
        reliability={space: reliability(_of(paper, space)[known, kimi], solved) for space in SPACES},
    )


def _swaps(paper: Paper) -> tuple[Swap, ...]:
    said = paper.routing
    released = np.array([FIXERS.index(name) for name in said.decisions])
    generator = np.random.default_rng(SEED)
    shuffled = [generator.permutation(len(released)) for _ in range(PERMUTATIONS)]
    ways: Mapping[str, list[Floats]] = {
        "text and state, as released": [said.blend],
        "state at its mean": [(said.text + said.state.mean(axis=0)) / 2],
        f"state of another task ({PERMUTATIONS:,} permutations)": [
            (said.text + said.state[order]) / 2 for order in shuffled
        ],
        "text alone": [said.text],
        "state alone": [said.state],
        "text at its mean": [(said.text.mean(axis=0) + said.state) / 2],
    }
    found = []
    for name, probabilities in ways.items():
        choices = np.array([_walked(one, said.theta) for one in probabilities])
        diverted, same = (choices != FIXERS.index(KIMI)).sum(axis=1), (choices == released).sum(axis=1)
        found.append(Swap(name=name, diverted=_over(diverted), as_released=_over(same)))
    return tuple(found)


def _orders(paper: Paper) -> tuple[Order, ...]:
    """Exploratory: every fixer and arm that was tried on many tasks, in every space."""
    found: list[Order] = []
    for arm, outcomes in paper.evaluation.arms.items():
        for column, fixer in enumerate(outcomes.fixers):
            known = outcomes.measured[:, column]
            solved = outcomes.resolved[known, column]
            if known.mean() < 0.5 or solved.all() or not solved.any():
                continue
            probabilities = {space: _of(paper, space)[known, FIXERS.index(fixer)] for space in SPACES}
            aucs = bootstraps(len(solved), {space: auc_of(p, solved) for space, p in probabilities.items()})
            for space, p in probabilities.items():
                # Probabilities that are all alike order nothing, and have no test.
                p_value = float(scipy_stats.mannwhitneyu(p[solved], p[~solved]).pvalue) if np.ptp(p) > 0 else 1.0
                found.append(
                    Order(
                        fixer=fixer, arm=arm, space=space, tasks=len(solved), auc=aucs[space], p=p_value, p_holm=p_value
                    )
                )
    adjusted = holm([one.p for one in found])
    return tuple(one.model_copy(update={"p_holm": p}) for one, p in zip(found, adjusted, strict=True))


def _walked(probabilities: Floats, theta: float) -> Ints:
    """The paper's walk: from cheap to expensive, and where nothing reaches theta to the last."""
    walk = Walk(anchor=len(FIXERS) - 1)
    chosen: Ints = walk.choices(probabilities, np.arange(len(FIXERS), dtype=np.float64), np.array([theta]))[0]
    return chosen


def _less(one: Statistic, other: Statistic) -> Statistic:
    return lambda shares: one(shares) - other(shares)


def _of(paper: Paper, space: str) -> Floats:
    said = paper.routing
    return {"text": said.text, "state": said.state, "blend": said.blend}[space]


def _over(numbers: Ints) -> Estimate:
    low, high = np.quantile(numbers, [0.025, 0.975])
    return Estimate(value=float(numbers.mean()), low=float(low), high=float(high))


def _share(solved: Bools) -> float:
    return float(solved.mean()) if solved.size else 0.0


class PublishedDesign(FrozenModel):
    """A row of the paper's design space, as printed."""

    name: str
    saving_lr_pct: float
    saving_mlp_pct: float
    folds: str
    brier: float
    usd_per_task: float


class Calibrations(FrozenModel):
    """What `scrout study calibrate` finds."""

    source: str
    spaces: tuple[Space, ...]
    published: tuple[PublishedDesign, ...]
    published_auc: dict[str, float]
    control: Shrinkage | None
    """None: the source is not the paper's, or its routing was not there."""
    embedders: tuple[str, ...]
    left_out: tuple[str, ...]
    """What the source lacks, and what to do."""


def study(source: Source) -> Calibrations:
    """The design space of every arm; on the paper's files the control, and its published rows."""
    left_out: list[str] = []
    benchmark = source.label_run if isinstance(source, Paper) else source.comparable
    spaces = []
    for arm in benchmark.arms:
        try:
            spaces.append(design_space(benchmark, arm))
        except (StudyError, RouteError) as error:
            left_out.append(f"{benchmark.name}, arm {arm}: {error}")
    control: Shrinkage | None = None
    printed: tuple[PublishedDesign, ...] = ()
    printed_auc: dict[str, float] = {}
    if isinstance(source, Paper):
        try:
            control = shrinkage(source)
        except Absent as error:
            left_out.append(f"shrinkage control: {error}")
        try:
            printed, printed_auc = _published(source.published)
        except Absent as error:
            left_out.append(f"published rows: {error}")
    if not spaces and control is None:
        raise StudyError("nothing to calibrate. " + " ".join(left_out))
    return Calibrations(
        source=str(source),
        spaces=tuple(spaces),
        published=printed,
        published_auc=printed_auc,
        control=control,
        embedders=tuple(embedders()),
        left_out=tuple(left_out),
    )


def _published(printed: Mapping[str, Any]) -> tuple[tuple[PublishedDesign, ...], dict[str, float]]:
    space = printed.get("design_space") or {}
    rows = tuple(PublishedDesign(name=name, **row) for name, row in space.get("rows", {}).items())
    return rows, dict(space.get("auc", {}))
