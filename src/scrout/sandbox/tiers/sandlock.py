"""The sandlock tier: Landlock and seccomp, for hosts that allow no user namespaces.

Covered: no network, only files that the command needs, none of the caller's environment, no signals to or views of
other processes, no capabilities, bounded processes, memory, file size and time, and an end of the whole process tree.
Weaker than bubblewrap: nothing is mounted, so commands see host paths, names and sizes of files that they cannot read,
and the repository as a copy elsewhere; editable installs still name the user's own tree. If scrout is root, commands
keep its uid, without its capabilities.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from scrout.config.settings import SandboxSettings
from scrout.sandbox.copies import WithoutMounts, at_host_paths
from scrout.sandbox.probe import missing_programs, trial
from scrout.sandbox.process import begin_argv, end_keeper, run_process, system_program
from scrout.sandbox.sandlock_keeper import LENGTH_DIGITS, SandlockSpec
from scrout.sandbox.tier import Command, Completed, Copy, ProbedTier
from scrout.sandbox.tiers.bubblewrap import HOST_FILES, NETWORK_FILES

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", *HOST_FILES)
_PUBLIC = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


class Sandlock(WithoutMounts):
    """Runs each command under a separate process with the sandlock library."""

    name: ClassVar[str] = "sandlock"
    strength: ClassVar[int] = 2
    weakness: ClassVar[str] = (
        "weaker than bubblewrap: no mounts, so commands see host paths, and editable installs your own tree"
    )

    @classmethod
    def probe(cls, settings: SandboxSettings) -> ProbedTier:
        if not sys.platform.startswith("linux"):
            step = "Run scrout on Linux, or in a Linux virtual machine."
            return ProbedTier(cls.name, None, f"not for {sys.platform}", step)
        if importlib.util.find_spec("sandlock") is None:
            return ProbedTier(cls.name, None, "the sandlock package is not installed", "pip install 'scrout[sandlock]'")
        if missing := missing_programs("bash", "setpriv"):
            return ProbedTier(cls.name, None, f"{missing} not found", "Install bash and util-linux.")
        return trial(cls(), cls.weakness)

    async def run(self, command: Command) -> Completed:
        folders = [str(Path(__file__).parents[3]), *sys.path]
        keeper = [sys.executable, "-I", "-c", _KEEPER, json.dumps(folders)]
        spec = json.dumps(_spec(at_host_paths(command))).encode()
        # Its standard input starts with the specification, because every user of the host can read arguments.
        given = replace(command, stdin=f"{len(spec):0{LENGTH_DIGITS}}".encode() + spec + command.stdin)
        return await run_process([*_drop_capabilities(), *keeper], given, end=end_keeper)


_KEEPER = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from scrout.sandbox.sandlock_keeper import main
main()
"""


def _drop_capabilities() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    capless = ("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--clear-groups", "--no-new-privs")
    return (system_program("setpriv"), *capless, "--")


def _spec(command: Command) -> SandlockSpec:
    view, limits = command.view, command.limits
    assert isinstance(view, Copy)
    writable = [view.folder, view.scratch, *(mount.source for mount in command.mounts if mount.writable)]
    readable = [*_SYSTEM, *_PUBLIC, *_DEVICES, *(str(mount.source) for mount in command.mounts)]
    return SandlockSpec(
        readable=[path for path in (*readable, *(NETWORK_FILES if command.network else ())) if Path(path).exists()],
        writable=[*map(str, writable), *_DEVICES[:3]],
        env=dict(command.env),
        cwd=command.cwd,
        processes=limits.processes,
        memory_mb=limits.total_memory_mb,
        network=command.network,
        parent=os.getpid(),
        argv=[*begin_argv(limits, processes=False), *command.argv],
    )


PART = Sandlock
