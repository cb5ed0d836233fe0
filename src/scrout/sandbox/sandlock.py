"""The sandlock tier: Landlock and seccomp, for hosts that allow no user namespaces.

Covered: no network, no reading or writing but of what the command needs, no environment of the caller's, no signals to
or views of processes outside, no capabilities, bounded processes, memory, file size and time, and an end of the whole
process tree. Weaker than bubblewrap: nothing is mounted, so commands see host paths, names and sizes of files
that they cannot read, and the repository as a copy elsewhere; editable installs still name the user's own tree. As
root, commands keep the user's number, without its capabilities.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from scrout.sandbox.bubblewrap import HOST_FILES
from scrout.sandbox.copies import at_host_paths
from scrout.sandbox.keeper import keep
from scrout.sandbox.process import BEGIN, end_keeper, prlimit_argv, run_process, system_program
from scrout.sandbox.tier import Command, Completed, Copy

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", *HOST_FILES)
_PUBLIC = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf")
_LENGTH_DIGITS = 12
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


class _Spec(TypedDict):
    readable: list[str]
    writable: list[str]
    env: dict[str, str]
    cwd: str
    processes: int
    memory_mb: int
    argv: list[str]


class Sandlock:
    """Runs each command under a process of its own that holds the sandlock library."""

    name = "sandlock"
    overlays = False
    mounts = False

    @property
    def user(self) -> int:
        return os.geteuid()

    async def run(self, command: Command) -> Completed:
        folders = [str(Path(__file__).parents[2]), *sys.path]
        keeper = [sys.executable, "-I", "-c", _KEEPER, json.dumps(folders)]
        spec = json.dumps(_spec(at_host_paths(command))).encode()
        # Its standard input carries the specification first, since arguments can be read by every user of the host.
        given = replace(command, stdin=f"{len(spec):0{_LENGTH_DIGITS}}".encode() + spec + command.stdin)
        return await run_process([*_drop_capabilities(), *keeper], given, end=end_keeper)


_KEEPER = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from scrout.sandbox.sandlock import main
sys.exit(main())
"""


def _drop_capabilities() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    capless = ("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--clear-groups", "--no-new-privs")
    return (system_program("setpriv"), *capless, "--")


def _spec(command: Command) -> _Spec:
    view, limits = command.view, command.limits
    assert isinstance(view, Copy)
    writable = [view.folder, view.scratch, *(mount.source for mount in command.mounts if mount.writable)]
    readable = [*_SYSTEM, *_PUBLIC, *_DEVICES, *(str(mount.source) for mount in command.mounts)]
    return _Spec(
        readable=[path for path in readable if Path(path).exists()],
        writable=[*map(str, writable), *_DEVICES[:3]],
        env=dict(command.env),
        cwd=command.cwd,
        processes=limits.processes,
        memory_mb=limits.total_memory_mb,
        argv=[*prlimit_argv(limits, processes=False), *BEGIN, *command.argv],
    )


def main() -> int:
    """In the keeper: start the command that standard input specifies, wait for it, and leave nothing behind."""
    left = int(os.read(0, _LENGTH_DIGITS))
    text = b""
    while left and (chunk := os.read(0, left)):  # no further: what follows is the command's
        text, left = text + chunk, left - len(chunk)
    spec: _Spec = json.loads(text)
    return keep(lambda: _run(spec))


def _run(spec: _Spec) -> int:
    import sandlock

    box = sandlock.Sandbox(
        fs_readable=spec["readable"],
        fs_writable=spec["writable"],
        clean_env=True,
        env=spec["env"],
        cwd=spec["cwd"],
        max_processes=spec["processes"],
        max_memory=spec["memory_mb"] * 1024 * 1024,
        name="sandbox",
    )
    done = box.popen(spec["argv"]).wait()
    if done.signal is not None and done.signal > 0:
        return 128 + int(done.signal)
    return int(done.exit_code)
