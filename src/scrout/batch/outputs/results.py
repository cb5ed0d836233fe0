"""What a batch came to, as it is kept in summary.json: a record an arm, and arms beside each other."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from scrout.base import FrozenModel
from scrout.batch.folder import Batch
from scrout.batch.tasks import UnusableRow
from scrout.intervals import Estimate, wilson
from scrout.money import Component, Usd

Kind = Literal["spontaneous", "forced", "none"]
"""Whether the searcher handed over by itself, when it was told to, or not at all. Never pooled."""
Baseline = Literal["cheapest alone", "strongest alone", "cheapest with handoff"]
JudgedBy = Literal["grade", "check"]


class Share(FrozenModel):
    """So many of so many, with the 95% interval by Wilson's score."""

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
    """A limit, and what became of the attempts that ran into it."""

    stop: str
    hit: int
    rescued: int
    """Runs whose last attempt it stopped, and whose patch the check passed all the same."""
    rescued_by_grade: int | None
    """The same with a patch that was graded as resolved; None: nothing was graded."""


class Census(FrozenModel):
    """What the gate said of the handoffs of one kind."""

    kind: Kind
    handoffs: int
    kept: int
    verdicts: dict[str, int]


class Localization(FrozenModel):
    """How well the files that a searcher named fit those of the known answers."""

    kind: Kind
    tasks: int
    recall: float
    precision: float
    """Of a task without a file named: 0."""
    all_gold: Share
    """Tasks of which every changed file was named."""
    files: float
    """Named, a task."""


class FixerUse(FrozenModel):
    fixer: str
    chosen: int
    attempts: int
    solved: int
    """Runs that its attempt ended with a passed check."""


class RepositoryResult(FrozenModel):
    repository: str
    done: int
    graded: int = 0
    solved: int
    resolved: int | None
    cost_usd: Usd | None


class Graded(FrozenModel):
    resolved: Share
    """Of the graded tasks. Those that infrastructure failed, or whose controls failed, are left out."""
    infrastructure: int
    verdicts: dict[str, int]


class Costs(FrozenModel):
    by_component: dict[Component, Usd]
    """Of calls with a known price."""
    known_usd: Usd
    lost_usd: Usd
    """Of it, for steps that came to nothing: cut off, failed, or in a run that was made again."""
    estimated_usd: Usd
    """Of it, booked at the reserve, because nobody said what the call had cost."""
    calls: int
    unpriced_calls: int
    """Calls without a known price: while there are any, the true cost is unknown."""
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
    """Of those not run, tasks that were begun and not finished."""
    solved: Share
    """Of the tasks done, those whose patch the check passed. The check is no grade."""
    outcomes: dict[str, int]
    graded: Graded | None
    paid: Costs
    """What its own runs paid."""
    shared_usd: Usd
    """Scouting that it used and another arm paid for."""
    shared_unpriced_calls: int
    usd_a_task: Usd | None
    """What a task that is done would have cost with this arm alone, on average; None: unknown, or none is done."""
    usd_a_task_interval: Estimate | None
    usd_a_solve: Usd | None
    """The same for each task that the check passed; None: unknown, or there is none."""
    usd_a_resolve: Usd | None
    """The same for each task that was graded as resolved, of the graded tasks' cost."""
    seconds: float
    """Of all its runs' steps, shared scouting included; not the batch's duration."""
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
        """What this arm would have cost without the others; None: unknown."""
        return None if self.paid.usd is None or self.shared_unpriced_calls else self.paid.usd + self.shared_usd


class Comparison(FrozenModel):
    """An arm beside a baseline, on the tasks that both have done."""

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
    """Share of these tasks that drawing solo arms at random would solve for the arm's cost; None: fewer than two solo
    arms, an unknown cost, or less than any of them costs."""


class Summary(FrozenModel):
    form: Literal[1] = 1
    batch: Batch
    command: str = ""
    """What it was run with; empty: nobody said."""
    problems: tuple[UnusableRow, ...]
    costs: Costs
    """Of all arms: shared scouting is in it once."""
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]
    unreadable_grades: int
    """Lines of grades.jsonl that could not be read, or are of no arm of this batch."""
