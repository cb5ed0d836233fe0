"""Estimates a batch before it spends anything: its cost, its solves, and tasks that are not worth running.

Each task's probability and expected cost come from the router. The ranges come from 2,000 simulated batches: an
attempt's cost varies as the costs in the fixer's résumé do, never beyond its cap; a fixer's ability is drawn once per
batch, within the interval of its probability, because an error in it affects every task alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
from pydantic import Field

from scrout.base import FrozenModel
from scrout.batch.tasks import TaskRow, UnusableRow
from scrout.config.settings import Settings
from scrout.intervals import Z95
from scrout.money import Usd
from scrout.records import Candidate, State
from scrout.route.router import Router
from scrout.route.stats import Floats
from scrout.text import percent, usd

DRAWS = 2000
SEED = 0
HOPELESS = 0.05
"""A probability below this, even at the upper end of its interval, is not worth paying for."""
SHORT = 40
"""Minimum length of an issue, in characters."""


class Range(FrozenModel):
    low: float
    expected: float
    high: float


class EstimatedTask(FrozenModel):
    id: str
    fixer: str
    p_solve: float | None
    expected_cost_usd: Usd | None
    skip: str = ""
    """Why it is not worth running; empty: it is."""


class BatchEstimate(FrozenModel):
    tasks: tuple[EstimatedTask, ...]
    unusable: tuple[str, ...] = ()
    """Rows that are not tasks, a sentence each."""
    cost_usd: Range
    """Of tasks that are not skipped and have a known cost."""
    solves: Range
    worst_usd: Usd
    """The sum of all caps. Only retries after infrastructure failures can add to it."""
    unknown_cost: int = 0
    """Tasks to run without any known cost; only `worst_usd` includes them."""
    unknown_probability: int = 0
    skipped: int = 0
    saved_usd: Usd = Field(default=Decimal(0))
    """Expected cost of the skipped tasks."""


def estimate(
    rows: Sequence[TaskRow],
    problems: Sequence[UnusableRow],
    settings: Settings,
    router: Router,
    worst_usd: Callable[[TaskRow], Decimal],
    state_of: Callable[[TaskRow], State | None] = lambda row: None,
) -> BatchEstimate:
    """Route every task and add up the results. Runs nothing, unless `state_of` scouts."""
    planned: list[EstimatedTask] = []
    chosen: list[Candidate | None] = []
    seen: dict[str, str] = {}
    for row in rows:
        decision = router.route(row.text, state_of(row))
        candidate = next((one for one in decision.candidates if one.fixer == decision.fixer), None)
        probability = candidate.p_solve if candidate else None
        cost_usd = candidate.expected_cost_usd if candidate else None
        skip = _skip(row, seen, candidate, settings)
        planned.append(
            EstimatedTask(id=row.id, fixer=decision.fixer, p_solve=probability, expected_cost_usd=cost_usd, skip=skip)
        )
        chosen.append(None if skip else candidate)
    kept = [(row, one) for row, task, one in zip(rows, planned, chosen, strict=True) if not task.skip]
    running = [one for _, one in kept if one is not None]
    costs, solves = _simulated(running, settings, router)
    return BatchEstimate(
        tasks=tuple(planned),
        unusable=tuple(f"{problem.source}: {problem.words}" for problem in problems),
        cost_usd=costs,
        solves=solves,
        worst_usd=sum((worst_usd(row) for row, _ in kept), Decimal(0)),
        unknown_cost=sum(one is None or one.expected_cost_usd is None for _, one in kept),
        unknown_probability=sum(one is None or one.p_solve is None for _, one in kept),
        skipped=len(rows) - len(kept),
        saved_usd=sum((task.expected_cost_usd or Decimal(0) for task in planned if task.skip), Decimal(0)),
    )


def _skip(row: TaskRow, seen: dict[str, str], candidate: Candidate | None, settings: Settings) -> str:
    text = " ".join(row.text.split())
    if len(text) < SHORT:
        return f"the issue has {len(text)} characters; that is too little to work from"
    same = seen.setdefault(f"{row.repo}\0{row.base_commit}\0{text}", row.id)
    if same != row.id:
        return f"it is the same issue as {same}"
    if candidate is None or candidate.p_solve is None or candidate.expected_cost_usd in (None, Decimal(0)):
        return ""  # nothing is known, or the attempt is free
    best = candidate.p_high if candidate.p_high is not None else candidate.p_solve
    if best < HOPELESS:
        return f"the best fixer for it solves at most {percent(best, 0)} of its like"
    worth = settings.route.solve_usd
    assert candidate.expected_cost_usd is not None
    if worth is not None and candidate.expected_cost_usd > worth * Decimal(candidate.p_solve):
        cost_per_solve = candidate.expected_cost_usd / Decimal(max(candidate.p_solve, 1e-9))
        return f"solving a task like it costs about {usd(cost_per_solve)}, and is worth {usd(worth)} to you"
    return ""


def _simulated(running: Sequence[Candidate], settings: Settings, router: Router) -> tuple[Range, Range]:
    rng = np.random.default_rng(SEED)
    costs, solves = np.zeros(DRAWS), np.zeros(DRAWS)
    expected_cost = expected_solves = 0.0
    by_fixer: dict[str, list[Candidate]] = {}
    for one in running:
        by_fixer.setdefault(one.fixer, []).append(one)
    for name, ones in by_fixer.items():
        spread, cap = _spread(name, settings, router), float(settings.fixer(name).cap_usd)
        shift = rng.standard_normal(DRAWS)
        for one in ones:
            if one.expected_cost_usd is not None:
                mean = float(one.expected_cost_usd)
                expected_cost += mean
                costs += np.minimum(cap, mean * rng.choice(spread, DRAWS)) if mean > 0 else 0.0
            if one.p_solve is not None:
                low, high = (one.p_low, one.p_high) if one.p_low is not None else (one.p_solve, one.p_solve)
                deviation = ((high if high is not None else one.p_solve) - (low or 0.0)) / (2 * Z95)
                expected_solves += one.p_solve
                solves += rng.random(DRAWS) < np.clip(one.p_solve + shift * deviation, 0, 1)
    return _range(costs, expected_cost), _range(solves, expected_solves)


def _spread(name: str, settings: Settings, router: Router) -> Floats:
    """Costs of single attempts as multiples of their mean."""
    resume = router.resume_of(settings.fixer(name))
    paid = [float(one.cost_usd) for one in resume.outcomes if one.cost_usd] if resume else []
    if len(paid) < 2:
        # Nothing is known about its variation; among fixers with known costs, it is about as large as the mean.
        return np.random.default_rng(SEED).exponential(1.0, 1000)
    return np.asarray(paid, dtype=np.float64) / float(np.mean(paid))


def _range(drawn: Floats, expected: float) -> Range:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Range(low=round(float(low), 4), expected=round(expected, 4), high=round(float(high), 4))
