"""The results of a batch, as stored in summary.json: a record per arm, and comparisons of arms."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from scrout.base import FrozenModel
from scrout.batch.folder import Batch
from scrout.batch.tasks import UnusableRow
from scrout.intervals import Estimate, wilson
from scrout.money import Component, Usd

Kind = Literal["spontaneous", "forced", "none"]
"""Whether the searcher gave its handoff by itself, on request, or not at all. Never pooled."""
Baseline = Literal["cheapest alone", "strongest alone", "cheapest with handoff"]
JudgedBy = Literal["grade", "check"]


class Share(FrozenModel):
    """A share, with the 95% interval by Wilson's score."""

    count: int
    of: int
    rate: float | None
    low: float
    high: float

    @staticmethod
    def make(count: int, of: int) -> Share:
        low, high = wilson(count, of)
        return Share(count=count, of=of, rate=count / of if of else None, low=low, high=high)


class Cap(FrozenModel):
    """A limit, and the attempts that reached it."""

    stop: str
    hit: int
    rescued: int
    """Runs whose last attempt it stopped, and whose patch still passed the check."""
    rescued_by_grade: int | None
    """The same with a patch that was graded as resolved; None: nothing was graded."""


class Census(FrozenModel):
    """The gate's verdicts on the handoffs of one kind."""

    kind: Kind
    handoffs: int
    kept: int
    verdicts: dict[str, int]


class Localization(FrozenModel):
    """How well the searcher's files match those of the known answers."""

    kind: Kind
    tasks: int
    recall: float
    precision: float
    """0 for a task without a named file."""
    all_gold: Share
    """Tasks whose changed files were all named."""
    files: float
    """Named files per task."""


class FixerUse(FrozenModel):
    fixer: str
    chosen: int
    attempts: int
    solved: int
    """Runs that this attempt ended with a passed check."""


class RepositoryResult(FrozenModel):
    repository: str
    done: int
    graded: int = 0
    solved: int
    resolved: int | None
    cost_usd: Usd | None


class Graded(FrozenModel):
    resolved: Share
    """Of the graded tasks. Those that infrastructure or a control failed are left out."""
    infrastructure: int
    verdicts: dict[str, int]


class Costs(FrozenModel):
    by_component: dict[Component, Usd]
    """Of calls with a known price."""
    known_usd: Usd
    lost_usd: Usd
    """The part for steps without a result: interrupted, failed, or in a run that was repeated."""
    estimated_usd: Usd
    """The part booked at the reserved amount, because the provider reported no usage."""
    calls: int
    unpriced_calls: int
    """Calls without a known price: if there are any, the true cost is unknown."""
    estimated_calls: int

    @property
    def usd(self) -> Decimal | None:
        return None if self.unpriced_calls else self.known_usd


class ArmResult(FrozenModel):
    arm: str
    tasks: int
    """Of the batch: done, failed by infrastructure, or not run."""
    done: int
    infrastructure: int
    """Runs that ended because an endpoint failed. They say nothing about the fixer."""
    not_run: int
    begun: int
    """Of those not run, tasks that were started and not finished."""
    solved: Share
    """Finished tasks whose patch passed the check. The check is not a grade."""
    outcomes: dict[str, int]
    graded: Graded | None
    paid: Costs
    """Payments of its own runs."""
    shared_usd: Usd
    """Scouting that it used and another arm paid for."""
    shared_unpriced_calls: int
    usd_a_task: Usd | None
    """Mean cost of a finished task with this arm alone; None: unknown, or none is finished."""
    usd_a_task_interval: Estimate | None
    usd_a_solve: Usd | None
    """The same per task that passed the check; None: unknown, or there is none."""
    usd_a_resolve: Usd | None
    """The same per task that was graded as resolved, of the graded tasks' cost."""
    seconds: float
    """Duration of all its runs' steps, shared scouting included; not the batch's duration."""
    seconds_a_task: float | None
    caps: tuple[Cap, ...]
    scout_stops: dict[str, int]
    census: tuple[Census, ...]
    """Empty: the arm has no scout."""
    localization: tuple[Localization, ...]
    """Empty: no answer is known, or the arm has no scout."""
    escalated: int
    fixers: tuple[FixerUse, ...]
    constant: bool
    repositories: tuple[RepositoryResult, ...]

    @property
    def alone_usd(self) -> Decimal | None:
        """The cost of this arm without the others; None: unknown."""
        return None if self.paid.usd is None or self.shared_unpriced_calls else self.paid.usd + self.shared_usd


class Comparison(FrozenModel):
    """An arm compared with a baseline, on the tasks that both have done."""

    arm: str
    baseline: Baseline
    baseline_arm: str
    judged_by: JudgedBy
    tasks: int
    usd_a_task: Usd | None
    baseline_usd_a_task: Usd | None
    saved: float | None
    """Share of the baseline's cost; negative: it costs more. None: unknown, or the baseline is free."""
    solved: int
    baseline_solved: int
    only_arm: int
    """Solved by the arm and not by the baseline."""
    only_baseline: int
    mix: float | None
    """Share of these tasks that a random mix of solo arms would solve for the arm's cost; None: fewer than two solo
    arms, an unknown cost, or less than any of them costs.
    """


class Summary(FrozenModel):
    form: Literal[1] = 1
    batch: Batch
    command: str = ""
    """Its command; empty: unknown."""
    problems: tuple[UnusableRow, ...]
    costs: Costs
    """Of all arms; shared scouting counts once."""
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]
    unreadable_grades: int
    """Lines of grades.jsonl that are not readable, or belong to no arm of this batch."""
