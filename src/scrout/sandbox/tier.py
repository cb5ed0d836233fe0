"""What every isolation tier takes and gives.

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
"""Whom commands run as when scrout is root, because root is exempt from process limits. No account has this number:
Debian and systemd leave 60578-61183 and 61185-65519 to others and the rest alone."""


def sandbox_user() -> int:
    """Whom commands run as under a tier that can become somebody else."""
    return os.geteuid() or SANDBOX_UID


@dataclass(frozen=True)
class Limits:
    """Bounds of one command."""

    timeout_s: float = 60.0
    memory_mb: int = 4096
    """Writable memory of each process."""
    processes: int = 256
    file_mb: int = 512
    """The largest file it may write, and the size of /tmp."""
    total_memory_mb: int = 8192
    """Resident memory of all its processes together."""
    disk_mb: int = 2048
    """What a workspace may grow by, over all commands in it."""
    files: int = 500_000
    """How many files, folders and links a workspace may grow by."""
    open_files: int = 4096
    output_bytes: int = 400_000
    """What is kept of its output: the first and the last half. The rest is read and dropped."""


@dataclass(frozen=True)
class Mount:
    """A host folder or file that a command sees."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Overlay:
    """A copy-on-write view: `lower` is never written, every change lands in `upper`."""

    lower: Path
    upper: Path
    work: Path
    target: str


@dataclass(frozen=True)
class Copy:
    """The repository as a plain copy, for tiers without overlays."""

    folder: Path
    target: str
    """Where commands see it, under a tier that mounts."""
    scratch: Path
    """What stands for /tmp under a tier that does not."""
    base_bytes: int
    base_files: int
    """How much it held when it was made."""


@dataclass(frozen=True)
class Command:
    """One command and all that it may see. Paths in argv, cwd and env are those inside."""

    argv: Sequence[str]
    cwd: str
    view: Overlay | Copy
    """The repository."""
    mounts: Sequence[Mount] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment: nothing of the caller's is inherited."""
    aliases: Sequence[str] = ()
    """Further absolute paths at which the repository is seen, for commands written in a container."""
    limits: Limits = Limits()
    stdin: bytes = b""
    output: Output | None = None
    """Collects what it prints, also where it is not waited for to the end; None: of no further use."""
    network: bool = False
    """True: the host's network, its loopback included. For building an environment, never for a claim or a fixer."""


@dataclass(frozen=True)
class Completed:
    """How a command ended."""

    exit_code: int | None
    """None: it was stopped at its time limit. 128 + n: it died of signal n."""
    output: bytes
    """Standard output and error as they came, at most Limits.output_bytes with a line where the middle went."""
    seconds: float

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", errors="replace")


class WarmSandbox(Protocol):
    """A sandbox that stays for one shell command after the other. It starts with the first of them."""

    async def shell(self, text: str, timeout_s: float) -> Completed:
        """Run a command to the end or to the time limit; afterwards no process of it is left."""
        ...

    async def close(self) -> None:
        """End it. The next command starts it anew."""
        ...


@dataclass(frozen=True)
class ProbedTier:
    """What a tier said when it was tried."""

    name: str
    tier: Tier | None
    """None: not usable here."""
    detail: str
    remedy: str = ""
    """The next step; empty: nothing to do."""


class Tier(Protocol):
    """A kind of isolation."""

    name: ClassVar[str]
    strength: ClassVar[int]
    """The strongest that works is chosen. 0: it isolates nothing and is only used if the user names it."""
    weakness: ClassVar[str]
    """What it leaves open that the strongest does not; empty: nothing."""
    overlays: bool
    """Whether it shows an Overlay; else every workspace is a Copy."""
    mounts: bool
    """Whether commands see things at a Mount's target; else they see them where they lie on the host."""
    brings_tools: bool
    """Whether interpreters and programs are the tier's own, as in a container's image; else they are the host's."""

    @classmethod
    def probe(cls, settings: settings.SandboxSettings) -> ProbedTier:
        """Whether it works on this machine, and the next step if not. `scrout.sandbox.probe.trial` tries a tier."""
        ...

    @property
    def user(self) -> int:
        """Whom commands run as, and so whose the files of a workspace are."""
        ...

    async def run(self, command: Command) -> Completed:
        """Run to the end or to the time limit; afterwards no process of it is left."""
        ...

    def standing(self, command: Command) -> WarmSandbox | None:
        """One sandbox for many shell commands with all but the argv of this one. None: there is no such thing here."""
        ...


TIERS: Registry[type[Tier]] = settings.TIERS
