"""Is the scout's hidden state information, or only a shifted threshold? A control on the paper's own probabilities.

The paper blends two heads by their mean. A head that says nearly the same of every task pulls all blends together, and
the walk then stops at the cheapest fixer more often, whatever the head knows. So the state's probability is replaced by
its mean, which knows nothing, and by that of another task, which knows the wrong thing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import stats as scipy_stats

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.calibrate.probabilities import ReliabilityGroup, auc_of, reliability
from scrout.lab.study.sources.paper import FIXERS, KIMI, Paper
from scrout.lab.study.stats import SEED, Statistic, bootstraps, holm
from scrout.records import Arm
from scrout.route.calibrate import Walk
from scrout.route.outcome_table import Bools, Ints
from scrout.route.stats import Floats

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
    for arm, played in paper.evaluation.played.items():
        for column, fixer in enumerate(played.fixers):
            known = played.measured[:, column]
            solved = played.resolved[known, column]
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
