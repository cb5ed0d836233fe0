"""The examples in a module's docstrings: which of them hold. Those that held before an edit must hold after it."""

from __future__ import annotations

import json
from pathlib import Path

from scrout.sandbox.workshop import Workshop, shell_argv
from scrout.sandbox.workspace import Workspace

TIMEOUT_S = 10.0
_SCRIPT = (Path(__file__).with_name("inside") / "doctests.py").read_text(encoding="utf-8")

Example = tuple[str, int]
"""The name of what has the docstring, and the example's number in it."""


async def passing_examples(workshop: Workshop, workspace: Workspace, path: str) -> frozenset[Example]:
    """Of the module in this file; none where it cannot be imported or does not end in time."""
    argv = [*shell_argv('exec python -c "$0"'), _SCRIPT]
    order = json.dumps({"path": path}).encode()
    done = await workshop.run(workspace, argv, timeout_s=TIMEOUT_S, stdin=order)
    try:
        return frozenset((str(name), int(number)) for name, number in json.loads(done.text))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return frozenset()
