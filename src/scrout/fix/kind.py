"""The interface of fixer kinds: an entry of the pool that can make an attempt.

A kind is a subclass in a module of scrout.fix.kinds, or of another package by an entry point in the group
`scrout.fixers`. Its fields are the keys of its [[fixers]] entry. Every command imports the kinds of its pool, so a kind
imports its dependencies inside its methods.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from scrout.config.settings import Fixer, HandoffMode, Settings
from scrout.money import Receipt
from scrout.records import Attempt, GatedHandoff, Stop
from scrout.task import Task

if TYPE_CHECKING:
    from scrout.sandbox.task_sandbox import TaskSandbox
    from scrout.sandbox.workspace import Workspace

ENDPOINT = "http://meter/v1"
"""Endpoint URL for fixers in this process.

The host's name does not matter, because the connection uses the meter's socket.
"""
Ended = tuple[Stop, str]
"""How an attempt ended, and details in words."""


@dataclass(frozen=True)
class FixJob:
    """The input of one attempt."""

    task: Task
    gated: GatedHandoff
    """All that passed the gate, even if the fixer may not read all of it."""
    task_sandbox: TaskSandbox
    settings: Settings
    progress: Callable[[str], None]
    record: Callable[[Receipt], None]
    folder: Path
    """Folder for its trajectory and log."""
    mode: HandoffMode = "full"
    """The part of the handoff that the fixer may read."""
    cap_usd: Decimal | None = None
    """Its budget, if that is less than its own cap."""


@dataclass(frozen=True)
class ModelJob:
    """The input of a fixer with a model: a prompt, a workspace, and the meter's endpoint."""

    prompt: str
    workspace: Workspace
    socket: Path
    """The meter's URL. The meter speaks the model's API, enforces the caps and adds the key."""
    given: FixJob

    @property
    def task_sandbox(self) -> TaskSandbox:
        return self.given.task_sandbox


class FixerKind(Fixer):
    @abstractmethod
    async def attempt(self, job: FixJob) -> Attempt:
        """Try to fix the task. A failure of the model or the endpoint is also an attempt, with its stop."""


class ModelFixer(FixerKind):
    """A fixer with a model: it works behind the meter, and the changes in its workspace are its patch."""

    async def attempt(self, job: FixJob) -> Attempt:
        from scrout.fix.metered import attempt

        return await attempt(self, job)

    def refuse(self, task_sandbox: TaskSandbox) -> None:
        """Raise a ConfigError if it cannot run in this sandbox, before any payment."""

    def leftovers(self) -> tuple[str, ...]:
        """Paths in the repository that its program creates for itself. They are not part of its patch."""
        return ()

    @abstractmethod
    async def work(self, job: ModelJob) -> Ended:
        """Change the workspace. At a cap, this is cancelled, and the changes so far count."""
