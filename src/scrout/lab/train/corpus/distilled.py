"""An episode of recon's as a teacher (train/distill.py), in a layout of our own: one JSON document a line."""

from __future__ import annotations

from pydantic import JsonValue

from scrout import __version__
from scrout.base import FrozenModel

LAYOUT = "scrout"
ROOT = "/testbed"
"""What the repository's folder is called in an episode. The sandbox shows it there too."""


class ToolStep(FrozenModel):
    """One turn of an episode."""

    thought: str
    tool: str
    arguments: dict[str, JsonValue]
    observation: str


class FixAnswer(FrozenModel):
    """What the fix changed."""

    files: tuple[str, ...]
    """That were there before."""
    patch: str


class DistilledEpisode(FrozenModel):
    """One episode of recon's: a line of what `scrout train distill` writes."""

    layout: str = LAYOUT
    scrout: str = __version__
    issue_id: str
    repository: str
    base_commit: str
    issue: str
    root: str = ROOT
    steps: tuple[ToolStep, ...]
    gold: FixAnswer
