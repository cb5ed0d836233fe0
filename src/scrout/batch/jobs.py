"""The jobs of a batch (each task in each arm), and the result of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

from scrout.base import ConfigError
from scrout.batch.tasks import TaskRow
from scrout.config.settings import Settings
from scrout.records import Arm, RunOutcome

ROUTED = "routed"
"""Used instead of a fixer's name if the router chooses."""
ARMS: tuple[Arm, ...] = get_args(Arm)


@dataclass(frozen=True)
class BatchJob:
    row: TaskRow
    arm: Arm
    fixer: str = ""
    """The only fixer that may try; empty: the router chooses."""

    @property
    def label(self) -> str:
        """The arm's name in the ledger and in every table."""
        return f"{self.arm}/{self.fixer or ROUTED}"

    @property
    def key(self) -> tuple[str, str]:
        return self.row.id, self.label

    @property
    def scouts(self) -> bool:
        return self.arm != "solo"

    def settings(self, general: Settings) -> Settings:
        return general.only(self.fixer) if self.fixer else general

    def worst_usd(self, general: Settings) -> Decimal:
        """Its maximum cost, scouting included."""
        pool = self.settings(general).fixers
        # The budget of all attempts is the largest cap of the fixers that may try.
        fixing = max(fixer.max_cost_usd for fixer in pool)
        if general.fix.cap_usd is not None and fixing:
            fixing = general.fix.cap_usd if general.fix.escalate else min(fixing, general.fix.cap_usd)
        scouting = self.scouts and general.scout.searcher == "model"
        routing = general.route.embedder.max_cost_usd
        return fixing + routing + (general.scout.model.cap_usd if scouting else Decimal(0))


@dataclass(frozen=True)
class JobResult:
    outcome: RunOutcome | Literal["failed"]
    """`failed`: it could not run; `detail` says why. It is retried when the batch continues."""
    run: str = ""
    paid_usd: Decimal | None = Decimal(0)
    """Cost that this try added to the ledger, without calls at unknown prices.

    None: unknown, so the whole reservation counts.
    """
    detail: str = ""
    scouted: bool = False
    """Whether its run has a scouting that other jobs of the task may reuse."""
    lasting: bool = False
    """True: the task itself is faulty, for example its commit does not exist. A retry would fail too."""

    @property
    def is_infrastructure(self) -> bool:
        return self.outcome in ("infrastructure", "failed")


def jobs_of(rows: Sequence[TaskRow], arms: Sequence[Arm], fixers: Sequence[str]) -> list[BatchJob]:
    """Every task in every arm, a task's jobs in a row.

    Jobs that scout come first, so that others can share the result.
    """
    ordered = sorted(arms, key=lambda arm: ("handoff", "passthrough", "solo").index(arm))
    named = tuple(dict.fromkeys(fixers)) or ("",)
    return [BatchJob(row, arm, fixer) for row in rows for arm in dict.fromkeys(ordered) for fixer in named]


def refuse_unbounded(settings: Settings, cap_usd: Decimal | None) -> None:
    """Refuse a total cap that calls could exceed, before the first call."""
    if cap_usd is None:
        return
    if settings.route.embedder.has_endpoint and settings.route.embedder.price is None:
        raise ConfigError(
            "--cap-usd cannot limit the batch, because the price of the embedder's endpoint is unknown. Set "
            "route.embedder.price, with zeros for your own hardware, or leave out --cap-usd."
        )
    if settings.fix.caps == "paper":
        raise ConfigError(
            '--cap-usd cannot limit the batch, because fix.caps = "paper" lets each attempt exceed its own cap. '
            "Set fix.caps = hard, or leave out --cap-usd."
        )
