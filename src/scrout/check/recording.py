"""Runs a command while changed functions are recorded: which tests execute their changed lines, and what they do with
varied arguments. inside/sitecustomize.py is the part that runs in the sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from scrout.check.changed import ChangedFunction, numbers_in
from scrout.sandbox.outbox import read_outbox
from scrout.sandbox.replay import is_traceable
from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Workspace, empty_folder

MAX_REPORT_BYTES = 20_000_000
_RECORDER = "/opt/scrout/record"
_OUTBOX = "/opt/scrout/outbox"

Version = Literal["before", "after"]


Entry = tuple[str, int, str]
"""A function by its file, its first line and its name."""


Result = tuple[str, str, str, tuple[tuple[tuple[str, str], ...], ...]]


class Observed(BaseModel):
    """What a function did with one input."""

    kind: Literal["returned", "raised", "effect", "timeout", "none"]
    """`effect`: it would have changed something outside of its process, which it may not. `none`: it did not end."""
    shown: str = ""
    """The arguments, without the object that the method is of."""
    value: str = ""
    """Described without addresses; of an exception its type."""
    real: bool = False
    """False: None, False or something empty."""
    where: str = ""
    """The innermost function of the repository that the exception passed."""
    message: str = ""
    printed: str = ""
    changed: list[dict[str, str]] = Field(default_factory=list)
    """For each argument: the parts of it that the call changed."""
    lines: list[str] = Field(default_factory=list)
    """Executed lines of the changed functions, each as the function's number and the line's."""

    @property
    def result(self) -> Result:
        """All that came of it."""
        return self._result(())

    @property
    def visible_result(self) -> Result:
        """The same without private attributes, which a caller does not see."""
        return self._result(("_",))

    def _result(self, left_out: tuple[str, ...]) -> Result:
        parts = (
            sorted((name, to) for name, to in one.items() if not name.startswith(left_out)) for one in self.changed
        )
        return self.kind, self.value, self.printed, tuple(map(tuple, parts))


class RecordedCall(BaseModel):
    """One recorded call, and what came of its inputs. The first input is the call as it was."""

    target: str
    key: str
    """The same in both versions of the code for the same arguments."""
    context: str
    inputs: list[tuple[str, Observed]]

    @property
    def identity(self) -> tuple[str, str, str]:
        """The same in both versions."""
        return self.target, self.context, self.key


class _Report(BaseModel):
    """What one Python process told."""

    tests: dict[str, dict[str, bool]] = Field(default_factory=dict)
    calls: list[RecordedCall] = Field(default_factory=list)
    skipped: dict[str, int] = Field(default_factory=dict)
    entries: list[Entry] = Field(default_factory=list)


@dataclass(frozen=True)
class FunctionRecording:
    """What one command did with the changed functions."""

    exit_code: int | None = None
    output: str = ""
    tests: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """By test: the changed functions that it called, and whether it executed changed lines of them."""
    calls: tuple[RecordedCall, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Why inputs were left out, and how often."""
    entries: tuple[Entry, ...] = ()
    """Functions that tests or scripts called themselves, on the way to a changed one."""


@dataclass(frozen=True)
class Bounds:
    """How much is varied; nothing by default."""

    inputs: int = 0
    per_call: int = 20
    per_target: int = 12
    seconds: float = 10.0


async def record(
    task_sandbox: TaskSandbox,
    workspace: Workspace,
    command: str,
    functions: Sequence[ChangedFunction],
    version: Version,
    *,
    timeout_s: float,
    bounds: Bounds | None = None,
    entries: Sequence[Entry] = (),
    own: Collection[str] = (),
) -> FunctionRecording:
    """Run a shell command at the repository's root and record the changed functions, as this version has them.

    `entries` are varied too. `own` are files of the command's own, which only use the repository.
    """
    bounds = bounds or Bounds()
    targets = [_target(function, version) for function in functions]
    order = {
        "targets": [*(target for target in targets if target), *map(_entry_target, entries)],
        "own": list(own),
        "numbers": numbers_in(functions),
        "inputs": bounds.inputs,
        "per_call": bounds.per_call,
        "per_target": bounds.per_target,
        "seconds": bounds.seconds,
    }
    variables = {
        "PYTHONPATH": _RECORDER,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SCROUT_RECORD_ROOT": str(task_sandbox.base.repo),
        "SCROUT_RECORD_OUTBOX": _OUTBOX,
        "SCROUT_RECORD_ORDER": json.dumps(order),
    }
    mounts = (
        Mount(Path(__file__).with_name("inside") / "record", _RECORDER),
        Mount(workspace.outbox, _OUTBOX, writable=True),
    )
    line = is_traceable(command, task_sandbox.base)
    done = await task_sandbox.run(workspace, shell_argv(line), timeout_s=timeout_s, variables=variables, mounts=mounts)
    reports = await asyncio.to_thread(_read, workspace.outbox)
    tests: dict[str, dict[str, bool]] = {}
    skipped: dict[str, int] = {}
    for report in reports:
        for test, touched in report.tests.items():
            known = tests.setdefault(test, {})
            known.update({label: ran or known.get(label, False) for label, ran in touched.items()})
        for why, count in report.skipped.items():
            skipped[why] = skipped.get(why, 0) + count
    calls = tuple(call for report in reports for call in report.calls)
    found = tuple(dict.fromkeys(entry for report in reports for entry in report.entries))
    return FunctionRecording(done.exit_code, done.text, tests, calls, skipped, found)


def _target(function: ChangedFunction, version: Version) -> dict[str, object] | None:
    span, path = (function.after, function.path) if version == "after" else (function.before, function.old_path)
    if span is None or path is None:
        return None
    return {
        "label": function.label,
        "path": path,
        "function": span.node.name,
        "first": span.first,
        "last": span.last,
        "parameters": function.parameters,
        "lines": sorted(function.lines) if version == "after" else [],
        "changed": True,
    }


def _entry_target(entry: Entry) -> dict[str, object]:
    path, first, name = entry
    return {
        "label": f"{path}::{name}",
        "path": path,
        "function": name,
        "first": first,
        "last": first,
        "parameters": None,
        "lines": [],
        "changed": False,
    }


def _read(outbox: Path) -> list[_Report]:
    reports = []
    for content in read_outbox(outbox, MAX_REPORT_BYTES):
        try:
            reports.append(_Report.model_validate_json(content))
        except (ValidationError, ValueError):
            continue  # cut off by a kill, or forged: no evidence
    empty_folder(outbox)
    return reports
