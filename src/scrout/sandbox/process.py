"""Starts, feeds, watches and ends the one process that every tier starts for a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cache
from pathlib import Path

from scrout.base import SandboxError
from scrout.programs import NEUTRAL, find_program
from scrout.sandbox.keeper import descendants
from scrout.sandbox.output import Output
from scrout.sandbox.tier import Command, Completed, Limits, Overlay

Process = asyncio.subprocess.Process

READY = "scrout: ready"
SAY_READY = f'echo "{READY}" >&2 && exec "$@" 2>&1'
"""For /bin/sh. The word goes to a separate stream, so that no command can imitate a broken sandbox."""

FIRST_LOOK_S = 0.5
"""Most commands end sooner and are never measured."""
_MEBIBYTE = 1024 * 1024


async def run_process(
    argv: Sequence[str],
    command: Command,
    *,
    end: Callable[[Process], Awaitable[None]],
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Completed:
    """Run a command line that prints READY to standard error before the actual command starts."""
    started = time.monotonic()
    process = await start(argv, env or {}, end, folder)
    output, complaint = command.output or Output(command.limits.output_bytes), Output(2_000)
    exit_code: int | None = None
    try:
        async with asyncio.timeout(command.limits.timeout_s):
            exit_code = await attend(_talk(process, command.stdin, output, complaint), process.pid, command, output)
    except TimeoutError:
        pass
    finally:
        await end(process)
        # Its streams may still be open, if another process holds their other end or they were not read to the end in
        # time.
        process._transport.close()  # type: ignore[attr-defined]
    if exit_code is not None and exit_code < 0:
        exit_code = 128 - exit_code
    said = complaint.joined().decode(errors="replace").strip()
    if exit_code is not None and READY not in said:
        raise SandboxError(f"{said or 'the sandbox ended before its command started'}. Run `scrout doctor`.")
    return Completed(exit_code=exit_code, output=output.joined(), seconds=time.monotonic() - started)


async def attend(talking: Coroutine[None, None, int], pid: int, command: Command, output: Output) -> int:
    """Wait for the exit code of `talking`. A command that exceeds a total limit first is reported as killed."""
    told, passed = asyncio.ensure_future(talking), asyncio.ensure_future(_watch(pid, command))
    try:
        await asyncio.wait((told, passed), return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            return told.result()
        output.add(f"\n[stopped: {passed.result()}]\n".encode())
        return 128 + signal.SIGKILL
    finally:
        for task in (told, passed):
            task.cancel()
        await asyncio.gather(told, passed, return_exceptions=True)


async def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    end: Callable[[Process], Awaitable[None]],
    folder: Path | None = None,
    stdout: int = asyncio.subprocess.PIPE,
) -> Process:
    """Start a sandbox, and clean up if that fails."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        # In its own session: Ctrl-C in the terminal reaches scrout alone, which then ends the tree itself. The
        # environment is passed completely, because commands may be able to read what their sandbox was started with.
        asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=stdout, stderr=pipe, env=dict(env), cwd=folder or NEUTRAL, start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # A process may exist even if starting failed half-way; end it here, because no other code knows of it.
        with contextlib.suppress(OSError):
            await end(await starting)
        raise
    except OSError as error:
        raise SandboxError(f"{argv[0]} could not be started: {error}. Run `scrout doctor`.") from None


async def _talk(process: Process, stdin: bytes, output: Output, complaint: Output) -> int:
    assert process.stdout is not None and process.stderr is not None
    reading = _drain(process.stdout, output), _drain(process.stderr, complaint)
    await asyncio.gather(_feed(process, stdin), *reading)
    return await process.wait()


async def _feed(process: Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
        process.stdin.close()


async def _drain(stream: asyncio.StreamReader, output: Output) -> None:
    while chunk := await stream.read(65536):
        output.add(chunk)


async def _watch(pid: int, command: Command) -> str:
    """Returns a message once the command exceeds a total that the kernel does not limit."""
    pause_s = FIRST_LOOK_S
    while True:
        await asyncio.sleep(pause_s)
        began = time.monotonic()
        if passed := await asyncio.to_thread(_passed, pid, command):
            return passed
        # Measuring a large workspace takes time; spend a twentieth of one core at most.
        pause_s = max(FIRST_LOOK_S, 20 * (time.monotonic() - began))


def _passed(pid: int, command: Command) -> str:
    limits, view = command.limits, command.view
    if _resident_bytes(pid, limits.total_memory_mb * _MEBIBYTE) > limits.total_memory_mb * _MEBIBYTE:
        return f"its processes held more than {limits.total_memory_mb} MB of memory together"
    if isinstance(view, Overlay):
        folders, had_bytes, had_files = [view.upper], 0, 0
    else:
        folders, had_bytes, had_files = [view.folder, view.scratch], view.base_bytes, view.base_files
    used_bytes, used_files = 0, 0
    for folder in folders:
        size, count = measure(folder, had_files + limits.files)
        used_bytes, used_files = used_bytes + size, used_files + count
    if used_bytes > had_bytes + limits.disk_mb * _MEBIBYTE:
        return f"the workspace grew by more than {limits.disk_mb} MB"
    if used_files + _temporary_files(pid) > had_files + limits.files:
        return f"the workspace grew by more than {limits.files:,} files"
    return ""


def measure(folder: str | Path, most_files: int = 2**62) -> tuple[int, int]:
    """Bytes on disk and entries below a folder; counts at most `most_files`."""
    size, count, waiting = 0, 0, [os.fspath(folder)]
    while waiting and count <= most_files:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                count += 1
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                if count > most_files:
                    break
    return size, count


def _temporary_files(pid: int) -> int:
    """Entries in the sandbox's memory file systems, which exist only in its mount namespace."""
    for inner in _below(pid):
        with contextlib.suppress(OSError):
            held = [os.statvfs(f"/proc/{inner}/root{folder}") for folder in ("/tmp", "/dev/shm")]
            if os.stat(f"/proc/{inner}/root/tmp").st_dev != os.stat("/tmp").st_dev:  # noqa: PTH116
                return sum(one.f_files - one.f_ffree for one in held)
    return 0


def _resident_bytes(pid: int, bound: int) -> int:
    """Resident memory of all processes below. Shared pages are counted once; this is slow, so only near the limit."""
    below = _below(pid)
    total = sum(_resident(process) for process in below)
    return total if total <= bound else sum(_proportional(process) for process in below)


def _below(pid: int) -> list[int]:
    """Processes below this one. May miss a process that is just being created, until the next call."""
    if not _lists_children():
        return descendants(pid)
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
                below = [int(child) for child in Path(f"/proc/{parent}/task/{thread}/children").read_text().split()]
                found += below
                waiting += below
    return found


@cache
def _lists_children() -> bool:
    """Whether the kernel lists a thread's children; otherwise all processes have to be inspected."""
    me = os.getpid()
    return os.path.exists(f"/proc/{me}/task/{me}/children")  # noqa: PTH110


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


async def end_keeper(process: Process) -> None:
    """Ask a keeper to end its processes; kill it with its group if it does not answer."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(15):
                await process.wait()
    await kill_group(process)


async def kill_group(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@cache
def system_program(name: str) -> str:
    """The absolute path of a system program, because PATH inside may start with a folder of the repository."""
    found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") or find_program(name)
    return found or f"/usr/bin/{name}"  # a name alone would be searched on PATH


def run_system(name: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """Run a system program on the host to its end."""
    return subprocess.run([system_program(name), *args], cwd=NEUTRAL, capture_output=True, check=False)


def limits_script(limits: Limits, *, processes: bool) -> str:
    """Shell code in front of a command that sets the kernel's limits for each process."""
    bounds = [
        # Not -v: Go and Node reserve far more address space than they use.
        f"ulimit -d {limits.memory_mb * 1024}",
        f"ulimit -f {limits.file_mb * 2048}",
        f"ulimit -n {limits.open_files}",
        "ulimit -c 0",
    ]
    if processes:
        # The same limit has another letter in dash than in bash.
        bounds.append(f"{{ ulimit -u {limits.processes} 2> /dev/null || ulimit -p {limits.processes}; }}")
    return " && ".join(bounds)


def begin_argv(limits: Limits, *, processes: bool, say: str = SAY_READY) -> tuple[str, ...]:
    """Prefix of a command: its limits, then the word that the sandbox is ready."""
    return ("/bin/sh", "-c", f"{limits_script(limits, processes=processes)} && {say}", "sh")
