"""The seatbelt tier: macOS's own sandbox, for commands that run beside the user's.

Covered: no network, no writing but to the workspace and a scratch folder, no reading of the user's folders, no signals
to processes outside, no environment of the caller's, and an end of the process group. Not covered: bugs of the kernel,
the number of processes, their memory, and a daemon that leaves its group. Apple does not document the profile language
and marks it as deprecated, but it has not changed for a decade.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from scrout.config.settings import SandboxSettings
from scrout.sandbox.copies import WithoutMounts, at_host_paths, in_folder
from scrout.sandbox.probe import trial
from scrout.sandbox.process import begin_argv, kill_group, run_process
from scrout.sandbox.tier import Command, Completed, Copy, ProbedTier

PROGRAM = "/usr/bin/sandbox-exec"
_SYSTEM = (
    "/System",
    "/usr",
    "/bin",
    "/sbin",
    "/Library/Developer/CommandLineTools",
    "/Applications/Xcode.app",
    "/opt/homebrew",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
    "/private/etc/localtime",
    "/private/etc/passwd",
    "/private/etc/hosts",
    "/private/etc/ssl",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper", "/dev/tty")


class Seatbelt(WithoutMounts):
    """Runs commands under sandbox-exec, each with its own profile."""

    name: ClassVar[str] = "seatbelt"
    strength: ClassVar[int] = 1
    weakness: ClassVar[str] = (
        "weaker than bubblewrap: no mounts, no bound on processes, and daemons may outlive a command"
    )

    @classmethod
    def probe(cls, settings: SandboxSettings) -> ProbedTier:
        if sys.platform != "darwin":
            return ProbedTier(cls.name, None, f"not for {sys.platform}", "It is part of macOS.")
        if not Path(PROGRAM).is_file():
            return ProbedTier(cls.name, None, f"{PROGRAM} is missing", "Use the container tier: set sandbox.image.")
        return trial(cls(), cls.weakness)

    async def run(self, command: Command) -> Completed:
        here = at_host_paths(command)
        return await run_process(self.argv(here), command, end=kill_group, env=here.env)

    def argv(self, command: Command) -> list[str]:
        """The complete command line, for a command at host paths."""
        begin = begin_argv(command.limits, processes=False)
        return [PROGRAM, "-p", profile(command), *in_folder(command.cwd), *begin, *command.argv]


def profile(command: Command) -> str:
    """The profile: what the command may do. Everything else is denied."""
    view = command.view
    assert isinstance(view, Copy)
    writable = [view.folder, view.scratch, *(mount.source for mount in command.mounts if mount.writable)]
    readable = [*map(Path, _SYSTEM), *(mount.source for mount in command.mounts), *writable]
    return "\n".join(
        [
            "(version 1)",
            "(deny default)",
            "(allow process-fork)",
            "(allow process-exec)",
            "(allow signal (target same-sandbox))",
            "(allow process-info* (target same-sandbox))",
            "(allow sysctl-read)",
            '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
            "(allow ipc-posix-sem)",
            # Names and sizes along a path, which every lookup needs; not the folders' content.
            "(allow file-read-metadata)",
            '(allow file-read* (literal "/"))',
            f"(allow file-read* {_paths('subpath', readable)})",
            f"(allow file-write* {_paths('subpath', writable)})",
            f"(allow file-read* file-write-data file-ioctl {_paths('literal', map(Path, _DEVICES))})",
            *(["(allow network*)"] if command.network else []),
        ]
    )


def _paths(kind: str, paths: Iterable[Path]) -> str:
    # Profiles need paths without symlinks, and /tmp and /var are symlinks on macOS.
    return " ".join(f"({kind} {_quoted(os.path.realpath(path))})" for path in dict.fromkeys(paths))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


PART = Seatbelt
