"""What an episode is worth: what it found, times how well it was handed over.

    total = found * (files + reproduction * verified + commitment * committed + length * brevity) / sum of the weights

Everything is from 0 to 1. Nothing is earned without a file of the fix: no handoff, an empty one and a wrong one are
worth zero, however quick or willing they are. A file too many lowers `found`, so naming every file does not pay, and
a verified reproduction is worth more than all the turns that it took, so handing over at once does not pay either.

Infrastructure is never the model's fault: an episode that it ended has no reward, and nothing is learned from it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean, pstdev

from pydantic import Field, model_validator

from scrout.base import FrozenModel
from scrout.config.settings import SearcherSettings
from scrout.lab.train.episodes import infrastructure_failed
from scrout.records import Scouting

FLAT = 1e-9
"""Rewards of a group that differ by no more are all alike."""
FLOOR = 0.05
"""The least deviation of a group that is divided by, so that a difference of next to nothing stays one."""


class Weights(FrozenModel):
    """What counts how much."""

    files: float = Field(default=0.5, gt=0, le=1)
    """For the files alone."""
    reproduction: float = Field(default=0.3, ge=0, le=1)
    """For a reproduction that the gate kept."""
    commitment: float = Field(default=0.1, ge=0, le=1)
    """For a handoff that did not have to be demanded."""
    length: float = Field(default=0.1, ge=0, le=1)
    """For turns and tokens that were not used."""
    forced: float = Field(default=0.5, ge=0, le=1)
    """How much of the commitment a demanded handoff has."""
    beta: float = Field(default=2.0, gt=0, le=10)
    """How many times recall counts as much as precision."""

    @model_validator(mode="after")
    def _haste_does_not_pay(self) -> Weights:
        if self.length and self.length >= self.reproduction:
            raise ValueError(
                f"length {self.length:g} is not below reproduction {self.reproduction:g}: handing over at once would "
                "be worth more than a reproduction"
            )
        return self


class Reward(FrozenModel):
    """What one episode is worth, and why. Each part is from 0 to 1."""

    recall: float
    """Share of the fix's files that were handed over."""
    precision: float
    """Share of the files handed over that are the fix's; 0: there were none."""
    found: float
    """Both in one, recall weighing more."""
    verified: float | None
    """1: the gate kept the reproduction. None: it was not asked, and the weight is left out."""
    committed: float
    """1: the handoff came by itself, less: it was demanded. 0: there is none that can be read."""
    brevity: float
    """Share of the turns, or of the tokens where that is less, that were left."""
    total: float


def reward(
    scouting: Scouting,
    gold: Collection[str],
    allowed: SearcherSettings,
    verified: bool | None,
    weights: Weights | None = None,
    *,
    refused: bool = False,
) -> Reward | None:
    """The reward of an episode whose fix changes the files in `gold`; None: infrastructure ended it.

    `verified`: whether the gate kept its reproduction; None: it was not asked. `refused`: the endpoint did not take
    what the model had said, so that a crash is its own.
    """
    weights = weights or Weights()
    if infrastructure_failed(scouting, refused=refused):
        return None
    named, wanted = {ref.path for ref in scouting.handoff.files}, set(gold)
    right = len(named & wanted)
    recall, precision = right / len(wanted) if wanted else 0.0, right / len(named) if named else 0.0
    square = weights.beta**2
    found = (1 + square) * precision * recall / (square * precision + recall) if right else 0.0
    committed = {"finished": 1.0, "forced": weights.forced}.get(scouting.stop, 0.0) if named else 0.0
    brevity = 1 - min(_used(scouting, allowed), 1)
    parts = [
        (weights.files, 1.0),
        (weights.commitment, committed),
        (weights.length, brevity),
        *([] if verified is None else [(weights.reproduction, float(verified))]),
    ]
    return Reward(
        recall=recall,
        precision=precision,
        found=found,
        verified=None if verified is None else float(verified),
        committed=committed,
        brevity=brevity,
        total=found * sum(weight * part for weight, part in parts) / sum(weight for weight, _ in parts),
    )


def advantages(rewards: Sequence[float]) -> list[float] | None:
    """How much better than its group each episode was, in deviations; None: all are alike, and teach nothing."""
    if len(rewards) < 2 or max(rewards) - min(rewards) <= FLAT:
        return None
    mean, deviation = fmean(rewards), max(pstdev(rewards), FLOOR)
    return [(reward - mean) / deviation for reward in rewards]


def _used(scouting: Scouting, allowed: SearcherSettings) -> float:
    """Share of the turns, or of the tokens where that is more."""
    # An estimate stands for a call that was lost, which is not the model's doing.
    counted = (receipt.usage for receipt in scouting.receipts if not receipt.estimated)
    tokens = sum(usage.output_tokens + usage.reasoning_tokens for usage in counted)
    return max(scouting.turns / allowed.turns, tokens / (allowed.turns * allowed.max_tokens))
