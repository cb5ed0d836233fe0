"""Ways to spend on the same tasks: fixers alone, policies, the oracle; and how far above a random mix each one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.stats import DRAWS, Statistic, bootstraps, mean_of, ratio_of
from scrout.route.calibrate import Rule
from scrout.route.outcome_table import Bools, Ints, OutcomeTable
from scrout.route.stats import Floats, hull_at

Kind = Literal["alone", "handoff", "policy", "random", "oracle", "escalation"]


@dataclass(frozen=True, eq=False)
class Policy:
    """What one way solves and spends, task by task; shares of a task where chance decides."""

    name: str
    kind: Kind
    solved: Floats
    cost: Floats
    """Dollars."""
    family: str = ""
    """What settings of one policy have in common; empty: it has no setting."""
    choices: tuple[str, ...] = ()
    """The fixer of each task; empty: no one fixer has it."""
    unmeasured: Bools | None = None
    """Tasks whose outcome nobody measured, so that another one stands in; None: none."""
    cost_full: Floats | None = None
    """The cost, where `cost` counts less than was likely paid; None: it does not."""


class PolicyPoint(FrozenModel):
    """A way on the plane of cost and solve rate."""

    name: str
    kind: Kind
    family: str
    """What settings of one policy have in common; empty: it has no setting, or looks at no task."""
    solve: Estimate
    usd: Estimate
    """A task."""
    usd_per_solve: Estimate | None
    """BCa; None: nothing is solved."""
    over_mix: Estimate
    """Solve rate less that of the best random mix of fixers alone at the same cost."""
    over_constants: Estimate | None
    """The same, where the fixers with handoff may be mixed as well; None: no such fixer has every task."""
    shares: dict[str, float]
    """How often each fixer is taken; empty: no one fixer has a task."""
    unmeasured: int
    solve_low: float
    """If every unmeasured outcome is a failure."""
    solve_high: float
    """If every one is a solve."""
    usd_full: float
    """A task, with unmeasured attempts at their fixer's mean."""


def policy_points(
    ways: Sequence[Policy], alone: Sequence[Policy], handed: Sequence[Policy], draws: int = DRAWS
) -> tuple[PolicyPoint, ...]:
    """Each way with its intervals, beside mixes of the fixers alone, and of those with handoff too."""
    tasks = len(ways[0].solved)
    plain: dict[str, Statistic] = {}
    for at, way in enumerate(ways):
        plain[f"{at} solve"], plain[f"{at} usd"] = mean_of(way.solved), mean_of(way.cost)
        plain[f"{at} mix"] = over_mix(way, alone)
        if handed:
            plain[f"{at} constants"] = over_mix(way, [*alone, *handed])
    found = bootstraps(tasks, plain, draws=draws)
    per_solve = bootstraps(
        tasks,
        {str(at): ratio_of(way.cost, way.solved) for at, way in enumerate(ways) if way.solved.any()},
        method="bca",
        draws=draws,
    )
    return tuple(
        PolicyPoint(
            name=way.name,
            kind=way.kind,
            family=way.family,
            solve=found[f"{at} solve"],
            usd=found[f"{at} usd"],
            usd_per_solve=per_solve.get(str(at)),
            over_mix=_tidy(found[f"{at} mix"]),
            over_constants=_tidy(found[f"{at} constants"]) if handed else None,
            shares={name: way.choices.count(name) / tasks for name in dict.fromkeys(way.choices)},
            unmeasured=0 if way.unmeasured is None else int(way.unmeasured.sum()),
            solve_low=_bound(way, 0.0),
            solve_high=_bound(way, 1.0),
            usd_full=float((way.cost if way.cost_full is None else way.cost_full).mean()),
        )
        for at, way in enumerate(ways)
    )


def over_mix(way: Policy, fixers: Sequence[Policy]) -> Statistic:
    """The solve rate less that of the best random mix of the fixers at the same cost.

    What costs less than every fixer is held against the cheapest, which had more to spend.
    """
    costs, solves = (np.column_stack([getattr(one, name) for one in fixers]) for name in ("cost", "solved"))

    def statistic(shares: Floats) -> Floats:
        alone = shares @ costs
        return np.asarray(
            shares @ way.solved - hull_at(alone, shares @ solves, np.maximum(shares @ way.cost, alone.min(axis=1)))
        )

    return statistic


def saving_of(way: Policy, other: Policy) -> Statistic:
    """The share of the other's cost that is saved."""
    ratio = ratio_of(way.cost, other.cost)
    return lambda shares: 1 - ratio(shares)


def alone(table: OutcomeTable, kind: Kind = "alone", ending: str = "", shared_usd: float = 0.0) -> list[Policy]:
    """Every fixer on all tasks; `shared_usd` is what each task costs beside its fixer."""
    return [
        Policy(
            f"{fixer}{ending}",
            kind,
            table.resolved[:, at].astype(np.float64),
            table.cost[:, at] + shared_usd,
            choices=(fixer,) * len(table.ids),
        )
        for at, fixer in enumerate(table.fixers)
    ]


def oracle(ways: Sequence[Policy], name: str = "oracle") -> Policy:
    """For each task the cheapest that solves it; where none does, the cheapest."""
    solved, cost = (np.column_stack([getattr(way, name) for way in ways]) for name in ("solved", "cost"))
    right = solved > 0
    chosen = np.where(right.any(axis=1), np.where(right, cost, np.inf).argmin(axis=1), cost.argmin(axis=1))
    rows = np.arange(len(chosen))
    return Policy(name, "oracle", solved[rows, chosen], cost[rows, chosen])


def uniform_policy(ways: Sequence[Policy]) -> Policy:
    """Each fixer as often as any other."""
    return Policy(
        "any fixer at random",
        "random",
        np.mean([way.solved for way in ways], axis=0),
        np.mean([way.cost for way in ways], axis=0),
    )


def rule_policies(
    table: OutcomeTable,
    folds: Ints,
    probabilities: Floats,
    rule: Rule,
    settings: Mapping[str, float],
    *,
    family: str,
    shared_usd: float = 0.0,
) -> list[Policy]:
    """A rule at several settings, by probabilities and mean costs that the task had no part in."""
    values = np.array(list(settings.values()), dtype=np.float64)
    choices = np.zeros((len(values), len(table.ids)), dtype=np.int64)
    for fold in np.unique(folds):
        new = folds == fold
        choices[:, new] = rule.choices(probabilities[new], table.rows(~new).mean_costs, values)
    rows = np.arange(len(table.ids))
    return [
        Policy(
            name,
            "policy",
            table.resolved[rows, chosen].astype(np.float64),
            table.cost[rows, chosen] + shared_usd,
            family,
            tuple(table.fixers[at] for at in chosen),
        )
        for name, chosen in zip(settings, choices, strict=True)
    ]


def _bound(way: Policy, outcome: float) -> float:
    if way.unmeasured is None:
        return float(way.solved.mean())
    return float(np.where(way.unmeasured, outcome, way.solved).mean())


def _tidy(found: Estimate) -> Estimate:
    """Without the sign of a zero that sums of floats only come near to."""
    return Estimate(**{name: round(value, 12) + 0.0 for name, value in found})
