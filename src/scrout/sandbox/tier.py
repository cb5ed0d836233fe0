"""The interface of isolation tiers.

A tier is a module in scrout.sandbox.tiers, or of another package by an entry point in the group `scrout.tiers`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from scrout.config import settings
from scrout.registry import Registry
from scrout.sandbox.output import Output

SANDBOX_UID = 61184
"""The uid of commands if scrout runs as root, because root is exempt from process limits. No account has this uid:
Debian and systemd leave 60578-61183 and 61185-65519 to others and the rest alone.
"""


def sandbox_user() -> int:
    """The uid of commands, for a tier that can switch users."""
    return os.geteuid() or SANDBOX_UID


@dataclass(frozen=True)
class Limits:
    """Limits of one command."""

    timeout_s: float = 60.0
    memory_mb: int = 4096
    """Writable memory of each process."""
    processes: int = 256
    file_mb: int = 512
    """Largest file it may write, and the size of /tmp."""
    total_memory_mb: int = 8192
    """Resident memory of all its processes together."""
    disk_mb: int = 2048
    """Maximum growth of a workspace, over all commands in it."""
    files: int = 500_000
    """Maximum number of files, folders and links added to a workspace."""
    open_files: int = 4096
    output_bytes: int = 400_000
    """Output that is kept: the first and the last half. The rest is dropped."""


@dataclass(frozen=True)
class Mount:
    """A host folder or file that a command can see."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Overlay:
    """A copy-on-write view: `lower` is never written, every change goes to `upper`."""

    lower: Path
    upper: Path
    work: Path
    target: str


@dataclass(frozen=True)
class Copy:
    """The repository as a plain copy, for tiers without overlays."""

    folder: Path
    target: str
    """Its path inside, for a tier that can mount."""
    scratch: Path
    """The folder to use as /tmp, for a tier that cannot mount."""
    base_bytes: int
    base_files: int
    """Its size when it was made."""


@dataclass(frozen=True)
class Command:
    """One command and everything it can see. Paths in argv, cwd and env are paths inside of the sandbox."""

    argv: Sequence[str]
    cwd: str
    view: Overlay | Copy
    """The repository."""
    mounts: Sequence[Mount] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """The complete environment; nothing is inherited from the caller."""
    aliases: Sequence[str] = ()
    """More absolute paths for the repository, for commands written in a container."""
    limits: Limits = Limits()
    stdin: bytes = b""
    output: Output | None = None
    """Collects the output, even if the command is stopped early; None: not needed."""
    network: bool = False
    """True: the host's network, including loopback. Only for building an environment, never for a claim or a fixer."""


@dataclass(frozen=True)
class Completed:
    """The result of a command."""

    exit_code: int | None
    """None: stopped at its time limit. 128 + n: killed by signal n."""
    output: bytes
    """Standard output and error interleaved, at most Limits.output_bytes, with a line where the middle was cut."""
    seconds: float

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", errors="replace")


class WarmSandbox(Protocol):
    """A sandbox that stays open for several shell commands. The first command starts it."""

    async def shell(self, text: str, timeout_s: float) -> Completed:
        """Run a command until it ends or its time is over; leaves no process behind."""
        ...

    async def close(self) -> None:
        """End the sandbox. The next command starts a new one."""
        ...


@dataclass(frozen=True)
class ProbedTier:
    """The result of trying a tier."""

    name: str
    tier: Tier | None
    """None: not usable here."""
    detail: str
    remedy: str = ""
    """The next step; empty: none."""


class Tier(Protocol):
    """An isolation tier."""

    name: ClassVar[str]
    strength: ClassVar[int]
    """scrout chooses the strongest tier that works. 0: no isolation, only used if the user names it."""
    weakness: ClassVar[str]
    """Weaknesses compared with the strongest tier; empty: none."""
    overlays: bool
    """Whether it can mount an Overlay; otherwise, every workspace is a Copy."""
    mounts: bool
    """Whether commands see a Mount at its target; otherwise, they see it at its host path."""
    brings_tools: bool
    """Whether interpreters and programs come from the tier, as in a container's image; otherwise, they are the host's.
    """

    @classmethod
    def probe(cls, settings: settings.SandboxSettings) -> ProbedTier:
        """Whether it works on this machine, and the next step if not. `scrout.sandbox.probe.trial` tries a tier."""
        ...

    @property
    def user(self) -> int:
        """The uid and gid that commands run as and that own a workspace's files."""
        ...

    async def run(self, command: Command) -> Completed:
        """Run a command until it ends or its time is over; leaves no process behind."""
        ...

    def standing(self, command: Command) -> WarmSandbox | None:
        """A warm sandbox for shell commands like this one; None: the tier has none."""
        ...


TIERS: Registry[type[Tier]] = settings.TIERS
