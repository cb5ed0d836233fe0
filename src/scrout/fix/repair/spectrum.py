"""The lines that the project's passing tests run, and how many tests run each: the contrast to the failing run.

It only orders a search. The counts come from inside the sandbox and may be forged, which only costs time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.workspace import Workspace

Spectrum = Mapping[str, Mapping[int, int]]
"""By path and line: the number of passing runs that ran the line."""


@dataclass(frozen=True)
class Contrast:
    """The lines that passing tests ran, and the names of these tests."""

    spectrum: Spectrum
    passed: frozenset[str] = frozenset()
    seconds: float = 0.0
    finished: bool = False
    """False: stopped at the time limit, so more tests may pass than these."""


_SCRIPT = (Path(__file__).with_name("inside") / "spectrum.py").read_text(encoding="utf-8")


async def contrast_of(
    task_sandbox: TaskSandbox,
    workspace: Workspace,
    wanted: Sequence[str],
    files: Sequence[str],
    seconds: float,
    runner: Literal["pytest", "unittest"] = "pytest",
    options: str = "",
) -> Contrast:
    """The contrast of these test files; empty: no result."""
    order = {
        "root": str(task_sandbox.root(workspace)),
        "wanted": wanted,
        "files": files,
        "seconds": seconds,
        "runner": runner,
        "options": options.split(),
    }
    line = 'exec python -c "$0"'
    argv = [*shell_argv(line), _SCRIPT]
    done = await task_sandbox.run(workspace, argv, timeout_s=seconds + 5, stdin=json.dumps(order).encode())
    try:
        told = json.loads(done.text)
        spectrum = {
            str(path): {int(line): int(count) for line, count in lines.items()}
            for path, lines in told["counts"].items()
        }
        passed = frozenset(str(name) for name in told["passed"])
        return Contrast(spectrum, passed, done.seconds, told["finished"] is True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return Contrast({})
