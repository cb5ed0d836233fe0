"""Starting, feeding, watching and ending the one process that every tier starts for a command."""

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
"""For /bin/sh. The word goes to a stream of its own, so that no command can pass for a broken sandbox."""

FIRST_LOOK_S = 0.5
"""Most commands end sooner, and are not looked at."""
_MEBIBYTE = 1024 * 1024


async def run_process(
    argv: Sequence[str],
    command: Command,
    *,
    end: Callable[[Process], Awaitable[None]],
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Completed:
    """Run a command line that says READY on its standard error before the command itself begins."""
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
        # Its streams may be open still, where somebody holds their other end or nobody read to the end in time.
        process._transport.close()  # type: ignore[attr-defined]
    if exit_code is not None and exit_code < 0:
        exit_code = 128 - exit_code
    said = complaint.joined().decode(errors="replace").strip()
    if exit_code is not None and READY not in said:
        raise SandboxError(f"{said or 'the sandbox ended before its command started'}. Run `scrout doctor`.")
    return Completed(exit_code=exit_code, output=output.joined(), seconds=time.monotonic() - started)


async def attend(talking: Coroutine[None, None, int], pid: int, command: Command, output: Output) -> int:
    """The exit code that `talking` comes to. A command that passes a total of its limits before is told as killed."""
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
    """Start a sandbox, or leave nothing of it behind."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        # In a session of its own: a Ctrl-C in the terminal reaches scrout alone, which then ends the tree itself. The
        # environment is given whole, because commands may be able to read what their sandbox was started with.
        asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=stdout, stderr=pipe, env=dict(env), cwd=folder or NEUTRAL, start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Half started there is a process already, and nobody else would know of it.
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
    """Returns once a total that no limit of the kernel's holds is passed, with words for it."""
    pause_s = FIRST_LOOK_S
    while True:
        await asyncio.sleep(pause_s)
        began = time.monotonic()
        if passed := await asyncio.to_thread(_passed, pid, command):
            return passed
        # A large workspace takes a while to measure; a twentieth of one core is enough for that.
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
    """Bytes on disk and entries below a folder, counted no further than `most_files`."""
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
    """Entries in the memory file systems of the sandbox, which are inside its mount namespace alone."""
    for inner in _below(pid):
        with contextlib.suppress(OSError):
            held = [os.statvfs(f"/proc/{inner}/root{folder}") for folder in ("/tmp", "/dev/shm")]
            if os.stat(f"/proc/{inner}/root/tmp").st_dev != os.stat("/tmp").st_dev:  # noqa: PTH116
                return sum(one.f_files - one.f_ffree for one in held)
    return 0


def _resident_bytes(pid: int, bound: int) -> int:
    """What all processes below hold. Shared pages are counted once, which is slow, only where it could matter."""
    below = _below(pid)
    total = sum(_resident(process) for process in below)
    return total if total <= bound else sum(_proportional(process) for process in below)


def _below(pid: int) -> list[int]:
    """Processes below this one. One that is just being born may be missed, until the next look."""
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
    """Whether the kernel says which children a thread has; else all processes have to be looked at."""
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
    """Ask a keeper to end what it keeps; one that does not answer is killed with its group."""
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
    """A program by its absolute path: PATH inside may begin in a folder that came with the repository."""
    found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") or find_program(name)
    return found or f"/usr/bin/{name}"  # a name alone would be looked for on PATH


def run_system(name: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program of the system's on the host, to its end."""
    return subprocess.run([system_program(name), *args], cwd=NEUTRAL, capture_output=True, check=False)


def limits_script(limits: Limits, *, processes: bool) -> str:
    """For /bin/sh, in front of a command: the limits that the kernel holds for each process."""
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
    """In front of a command: its limits, then the word that the sandbox stands."""
    return ("/bin/sh", "-c", f"{limits_script(limits, processes=processes)} && {say}", "sh")
