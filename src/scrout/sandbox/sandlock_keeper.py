"""The separate process of each command of the sandlock tier. Imports little, because it starts for every command."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from typing import NoReturn, TypedDict

from scrout.sandbox.keeper import keep

LENGTH_DIGITS = 12


class SandlockSpec(TypedDict):
    """The JSON at the start of standard input, after its length."""

    readable: list[str]
    writable: list[str]
    env: dict[str, str]
    cwd: str
    processes: int
    memory_mb: int
    network: bool
    parent: int
    argv: list[str]


def main() -> NoReturn:
    """In the keeper: start the command that standard input specifies, wait for it, and leave no process behind."""
    left = int(os.read(0, LENGTH_DIGITS))
    text = b""
    while left and (chunk := os.read(0, left)):  # no further: the rest belongs to the command
        text, left = text + chunk, left - len(chunk)
    spec: SandlockSpec = json.loads(text)
    # Not sys.exit, because the library would wait for its own threads.
    os._exit(keep(spec["parent"], lambda: _run(spec)))


def _run(spec: SandlockSpec) -> int:
    import sandlock

    box = sandlock.Sandbox(
        fs_readable=spec["readable"],
        fs_writable=spec["writable"],
        clean_env=True,
        env=spec["env"],
        cwd=spec["cwd"],
        net_allow=["*:*"] if spec["network"] else [],
        max_processes=spec["processes"],
        max_memory=spec["memory_mb"] * 1024 * 1024,
    )
    running = box.popen(spec["argv"])
    ended, says_so = os.pipe()
    results = []

    def wait() -> None:
        results.append(running.wait())
        os.close(says_so)

    # In a thread, because no signal is handled while the library waits.
    threading.Thread(target=wait, daemon=True).start()
    select.select([ended], [], [])
    done = results[0]
    if done.reason is sandlock.ExitReason.EXITED:
        return int(done.exit_code)
    return 128 + (done.signal if done.signal > 0 else signal.SIGKILL)
