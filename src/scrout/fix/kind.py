"""What a kind of fixer is: an entry of the pool that can make an attempt.

A kind is a subclass in a module of scrout.fix.kinds, or of another package by an entry point in the group
`scrout.fixers`. Its fields are the keys of its [[fixers]] entry. Every command imports the kinds of its pool, so a kind
imports what it works with inside its methods.
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
"""What a fixer in this process talks to. The host's name does not matter: the connection is the meter's socket."""
Ended = tuple[Stop, str]
"""How an attempt ended, and in words."""


@dataclass(frozen=True)
class FixJob:
    """One attempt: what a fixer is given, and whom it tells."""

    task: Task
    gated: GatedHandoff
    """All that survived the gate, whatever of it the fixer may read."""
    task_sandbox: TaskSandbox
    settings: Settings
    progress: Callable[[str], None]
    record: Callable[[Receipt], None]
    folder: Path
    """Where its trajectory and log go."""
    mode: HandoffMode = "full"
    """What of the handoff the fixer may read."""
    cap_usd: Decimal | None = None
    """What it may spend, if that is less than its own cap."""


@dataclass(frozen=True)
class ModelJob:
    """What a fixer with a model works on: a prompt, a workspace, and the way to its model through the meter."""

    prompt: str
    workspace: Workspace
    socket: Path
    """The meter's. It speaks the model's API, keeps the caps and adds the key."""
    given: FixJob

    @property
    def task_sandbox(self) -> TaskSandbox:
        return self.given.task_sandbox


class FixerKind(Fixer):
    """An entry of the pool that can make an attempt."""

    @abstractmethod
    async def attempt(self, job: FixJob) -> Attempt:
        """Try to fix the task. A failure of the model or the endpoint is an attempt too, with its stop."""


class ModelFixer(FixerKind):
    """A fixer with a model: it works behind the meter, and the difference in its workspace is its patch."""

    async def attempt(self, job: FixJob) -> Attempt:
        from scrout.fix.metered import attempt

        return await attempt(self, job)

    def refuse(self, task_sandbox: TaskSandbox) -> None:
        """Raise a ConfigError if it cannot run in this sandbox, before anything is paid."""

    def leftovers(self) -> tuple[str, ...]:
        """Paths that its program leaves in the repository for itself. They are no part of its patch."""
        return ()

    @abstractmethod
    async def work(self, job: ModelJob) -> Ended:
        """Change the workspace. At a cap this is cancelled, and the changes so far count."""
