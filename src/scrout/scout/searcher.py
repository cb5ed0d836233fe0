"""What a searcher is: it looks at a task's repository and hands over what it found.

A searcher is a class in a module of scrout.scout.searchers, or of another package by an entry point in the group
`scrout.searchers`. Every command imports the one that its settings name, so it imports what it works with inside
`search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from scrout.config import settings
from scrout.config.settings import ScoutSettings
from scrout.money import Receipt
from scrout.records import Scouting
from scrout.registry import Registry
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.task import Task


@dataclass(frozen=True)
class ScoutJob:
    """One search: what the searcher is given, and whom it tells."""

    task: Task
    task_sandbox: TaskSandbox
    settings: ScoutSettings
    progress: Callable[[str], None] = lambda words: None
    record: Callable[[Receipt], None] = lambda receipt: None
    """Gets the receipt of each paid call."""
    folder: Path | None = None
    """Where the trajectory goes; None: beside the trace."""


class Searcher(Protocol):
    """Finds the code that an issue is about, and tries to reproduce the failure."""

    has_model: ClassVar[bool]
    """Whether it asks the model under [scout.model]."""

    async def search(self, job: ScoutJob) -> Scouting: ...


SEARCHERS: Registry[Searcher] = settings.SEARCHERS
