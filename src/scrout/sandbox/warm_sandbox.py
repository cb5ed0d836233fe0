"""A sandbox that stays open for several shell commands, so that only the first pays for its start.

Inside, bash is the first process of the process namespace: no command can kill or stop it. It reads commands from
standard input and reports the end of each on standard error, after it has killed the processes that the command left.
Commands inherit neither stream, and because bash was started from a file that they cannot read, the kernel does not let
them inspect it. Output has a separate pipe; when a command's end is reported, no process can write to the pipe any
more, so its content is complete.

A command that leaves something outside of the workspace (files in /tmp, shared memory), passes a limit, or brings the
sandbox down ends the sandbox: the next command gets a new one. Commands of one sandbox share the workspace. Not
covered: a command can lower the priority of the first process, and so of later commands.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from scrout.base import SandboxError
from scrout.config.folders import cache_folder
from scrout.files import atomic
from scrout.sandbox.output import Output
from scrout.sandbox.process import READY, Process, attend, start, system_program
from scrout.sandbox.tier import Command, Completed
from scrout.sandbox.workspace import private_folder

SHELL = "/opt/scrout/shell"
"""Path of the sandbox's unreadable bash."""

# With a trap, because an interrupt would end bash while it waits for a command. Commands do not inherit a trap, unlike
# an ignored signal. If scrout is not root, /dev belongs to the sandbox's user.
SERVER = f"""
trap : INT
set +h
shopt -s dotglob nullglob
unset SHLVL
exec 3>&2 2> /dev/null
look() {{
  seen=(/dev/* /dev/shm/* /tmp/* /tmp/home/*)
  for place in /dev/shm /tmp /tmp/home; do [[ -w $place && -x $place ]] || seen+=(closed); done
  for told in sysvipc/msg sysvipc/sem sysvipc/shm 1/limits; do mapfile -O ${{#seen[@]}} seen < /proc/$told; done
  seen="${{seen[*]}}"
}}
look
fresh=$seen
echo "{READY}" >&3
while IFS= read -r -d '' command; do
  bash -o pipefail -c "$command" < /dev/null 2>&1 3>&-
  code=$?
  while kill -KILL -1; do :; done
  unset seen
  look
  [[ $seen == "$fresh" ]] || code+=" used"
  echo "$code" >&3 || exit
done
"""


def unreadable_shell() -> Path:
    """A bash that no user can read, so that no command can inspect its process.

    All sandboxes share it and its memory.
    """
    bash = Path(system_program("bash"))
    seen = bash.stat()
    shell = private_folder(cache_folder() / "shells") / f"bash-{seen.st_size}-{seen.st_mtime_ns}"
    if not shell.exists():
        with atomic(shell) as file:
            shutil.copyfile(bash, file.name)
            os.fchmod(file.fileno(), 0o111)
    return shell


_STATUS = re.compile(rb"(\d{1,3})( used)?\n")


class BubblewrapWarmSandbox:
    """Starts its sandbox with the first command, and again after a command that ended it."""

    def __init__(self, argv: Sequence[str], command: Command, end: Callable[[Process], Awaitable[None]]) -> None:
        self.argv = argv
        self.command = command
        self._end = end
        self._process: Process | None = None
        self._pipe = (-1, -1)
        """Both ends of the output pipe: what a command does to its end also affects this one."""
        self._clean = False

    async def shell(self, text: str, timeout_s: float) -> Completed:
        """Run a shell command until it ends or its time is over; leaves no process behind."""
        started = time.monotonic()
        output = Output(self.command.limits.output_bytes)
        exit_code: int | None = None
        self._clean = False
        if self._process is not None and self._process.returncode is not None:
            await self.close()  # it died between commands
        try:
            async with asyncio.timeout(timeout_s):
                process = self._process or await self._start()
                exit_code = await attend(self._talk(process, text, output), process.pid, self.command, output)
        except TimeoutError:
            pass
        finally:
            if not self._clean:
                await self.close()
        return Completed(exit_code=exit_code, output=output.joined(), seconds=time.monotonic() - started)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            await self._end(process)
        finally:
            process.stdin.close()
            self._close_pipe()

    def _close_pipe(self) -> None:
        for end in self._pipe:
            os.close(end)

    async def _start(self) -> Process:
        self._pipe = reading, writing = os.pipe()
        os.set_blocking(reading, False)
        try:
            self._process = process = await start(self.argv, {}, self._end, stdout=writing)
        except BaseException:
            self._close_pipe()
            raise
        assert process.stderr is not None
        said = b""
        while (line := await process.stderr.readline()) != f"{READY}\n".encode():
            said += line
            if not line:
                why = said.decode(errors="replace").strip()[-2000:]
                raise SandboxError(f"{why or 'the sandbox ended before its command started'}. Run `scrout doctor`.")
        return process

    async def _talk(self, process: Process, text: str, output: Output) -> int:
        assert process.stdin is not None and process.stderr is not None
        loop, (reading, writing) = asyncio.get_running_loop(), self._pipe
        # All writers share its flags, and some programs set O_NONBLOCK permanently.
        fcntl.fcntl(writing, fcntl.F_SETFL, 0)
        loop.add_reader(reading, self._take, output)
        try:
            process.stdin.write(os.fsencode(text) + b"\0")
            status = _STATUS.fullmatch(await process.stderr.readline())
        finally:
            loop.remove_reader(reading)
            while self._take(output):
                pass
        if status is None:
            output.add(b"\n[stopped: the command brought its sandbox down]\n")
            return 128 + signal.SIGKILL
        self._clean = status[2] is None
        return int(status[1])

    def _take(self, output: Output) -> bool:
        """Read some of the pipe; False: it is empty."""
        try:
            output.add(os.read(self._pipe[0], 65536))
        except BlockingIOError:
            return False
        return True
