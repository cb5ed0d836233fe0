"""Runs one command and leaves no descendant of it behind, for tiers without a process namespace.

It starts as a separate program, isolated and without site-packages, so it imports little. It registers as subreaper, so
orphans become its children, even after setsid and a double fork. A command that may signal it can kill it, and its
children then escape: a tier for hostile code must forbid such signals.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Stopped(BaseException):
    """scrout asked to end the command, or scrout died."""


def descendants(pid: int) -> list[int]:
    """Every process below this one, not including itself."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def keep(parent: int, run: Callable[[], int]) -> int:
    """Run a function that starts processes; when it returns or scrout wants it ended, kill all of them.

    `parent` is scrout's process id, in case it died before the kernel was asked to report its death.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return 128 + signal.SIGTERM
    try:
        # Two steps: a signal just after the first one must not skip the killing of the rest.
        try:
            signal.signal(signal.SIGTERM, _stop)
            return run()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except Stopped:
        return 128 + signal.SIGTERM
    finally:
        _end_all()


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def _end_all() -> None:
    """Stops all processes first, so that none can fork while the list is processed."""
    deadline = time.monotonic() + 10
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                try:
                    os.kill(pid, number)
                except OSError:
                    continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue
        time.sleep(0.005)


def _run(argv: list[str]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    while True:
        done, status = os.wait()
        if done == pid:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), lambda: _run(sys.argv[2:])))
