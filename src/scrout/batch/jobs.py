"""What a batch consists of: each task in each arm, and what one of them came to."""

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
"""In place of a fixer's name: the router chooses."""
ARMS: tuple[Arm, ...] = get_args(Arm)


@dataclass(frozen=True)
class BatchJob:
    row: TaskRow
    arm: Arm
    fixer: str = ""
    """The only one that may try; empty: the router chooses."""

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
        """What it may cost at most, scouting included."""
        pool = self.settings(general).fixers
        # The budget of all attempts is as large as the largest cap among those that may try.
        fixing = max(fixer.max_cost_usd for fixer in pool)
        if general.fix.cap_usd is not None and fixing:
            fixing = general.fix.cap_usd if general.fix.escalate else min(fixing, general.fix.cap_usd)
        scouting = self.scouts and general.scout.searcher == "model"
        routing = general.route.embedder.max_cost_usd
        return fixing + routing + (general.scout.model.cap_usd if scouting else Decimal(0))


@dataclass(frozen=True)
class JobResult:
    outcome: RunOutcome | Literal["failed"]
    """`failed`: it could not be run, and `detail` says why; it is tried again when the batch is."""
    run: str = ""
    paid_usd: Decimal | None = Decimal(0)
    """What this try added to the ledger; calls without a known price count nothing. None: unknown, so that all that
    was held for it counts."""
    detail: str = ""
    scouted: bool = False
    """Whether its run holds a scouting that others of the task may take over."""
    lasting: bool = False
    """True: it failed for a fault of the task's own, such as a commit that is nowhere. Another try would fail alike."""

    @property
    def is_infrastructure(self) -> bool:
        return self.outcome in ("infrastructure", "failed")


def jobs_of(rows: Sequence[TaskRow], arms: Sequence[Arm], fixers: Sequence[str]) -> list[BatchJob]:
    """Every task in every arm, a task's jobs in a row; those that scout come first, so that the others can share it."""
    ordered = sorted(arms, key=lambda arm: ("handoff", "passthrough", "solo").index(arm))
    named = tuple(dict.fromkeys(fixers)) or ("",)
    return [BatchJob(row, arm, fixer) for row in rows for arm in dict.fromkeys(ordered) for fixer in named]


def refuse_unbounded(settings: Settings, cap_usd: Decimal | None) -> None:
    """A total that could be passed is refused before the first call."""
    if cap_usd is None:
        return
    if settings.route.embedder.has_endpoint and settings.route.embedder.price is None:
        raise ConfigError(
            "--cap-usd cannot limit the batch, because the price of the embedder's endpoint is unknown. Set "
            "route.embedder.price, with zeros for your own hardware, or leave out --cap-usd."
        )
    if settings.fix.caps == "paper":
        raise ConfigError(
            '--cap-usd cannot limit the batch, because fix.caps = "paper" lets each attempt pass its own cap. '
            "Set fix.caps = hard, or leave out --cap-usd."
        )
