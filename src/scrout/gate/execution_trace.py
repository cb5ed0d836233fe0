"""Runs a claim's command under the gate's own witness, and reads what it reports."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from scrout.sandbox.outbox import has_more, read_outbox
from scrout.sandbox.replay import ExecutionTrace, Raised, Replay, is_traceable
from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Workspace, empty_folder

MAX_REPORT_BYTES = 5_000_000
"""Of all Python processes of a command together."""
_WATCH = "/opt/scrout/watch"
_OUTBOX = "/opt/scrout/outbox"
_FILES = "/opt/scrout/files"
_VARIABLES = ("PYTHONPATH", *(f"SCROUT_WATCH_{name}" for name in ("ROOT", "OUTBOX", "FILES", "KEY", "TRIAL")))
_EMPTY_ENVIRONMENT = re.compile(r"(?<![\w/.-])(?:/usr/bin/)?env[ \t]+(?:-i|-|--ignore-environment)(?=[ \t])")
_SETS_PYTHON = re.compile(r"\bPYTHON\w+=")
_FLAGS = re.compile(r"-[bBdEiIOPqsuvx]+[cm]?")
_OPTIONS = re.compile(r"(\bpython[0-9.]*)((?:[ \t]+(?:-[bBdEiIOPqsuvx]+[cm]?|-[WX][ \t]*\w+))+)(?=[ \t])")
INSIDE = ("SCROUT_WATCH", "/opt/scrout")
"""Words of the witness's own that no claim has a reason to know."""


@dataclass(frozen=True)
class Called:
    """A function of the repository that the claim called."""

    path: str
    line: int
    """Where its code begins, decorators included."""
    name: str
    times: int
    """In one process; the most of several."""
    results: tuple[str, ...]
    """What it gave, the last at the end: plain data, or the type of an exception; empty: something else."""

    @property
    def result(self) -> str:
        return self.results[-1] if self.results else ""


@dataclass(frozen=True)
class WatchedRun(Replay):
    """A replay under the witness."""

    tampered: str = ""
    """What the claim changed of the repository or of Python under it; empty: nothing that was seen."""
    escaped: tuple[Raised, ...] = ()
    """Exceptions that left a function or script of the claim's own."""
    fixed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By path of the claim's own code: variables whose values the repository did not change."""
    calls: tuple[Called, ...] = ()
    """The one that was called last stands last."""


async def run_watched(task_sandbox: TaskSandbox, workspace: Workspace, command: str, *, timeout_s: float) -> WatchedRun:
    """Run a shell command as `replay` does, and see who did what."""
    key = secrets.token_hex(16)
    variables, mounts, line = watching(task_sandbox, workspace, command, key)
    done = await task_sandbox.run(workspace, shell_argv(line), timeout_s=timeout_s, variables=variables, mounts=mounts)
    reports, unread = await asyncio.to_thread(_read_reports, workspace.outbox, key, task_sandbox.root(workspace))
    lines: dict[str, frozenset[int]] = {}
    fixed: dict[str, frozenset[str]] = {}
    for report in reports:
        for path, numbers in report.lines.items():
            lines[path] = lines.get(path, frozenset()) | numbers
        for path, names in report.fixed.items():
            fixed[path] = fixed.get(path, names) & names
    raised = tuple(event for report in reports for event in report.raised)
    return WatchedRun(
        command,
        done.exit_code,
        done.text,
        done.seconds,
        ExecutionTrace(lines, raised) if lines else None,
        tampered=next((report.tampered for report in reports if report.tampered), unread),
        escaped=tuple(event for report in reports for event in report.escaped),
        fixed=fixed,
        calls=_merged([call for report in reports for call in report.calls]),
    )


def _merged(calls: Sequence[Called]) -> tuple[Called, ...]:
    """Each function once, with what it did in all processes of the command."""
    found: dict[tuple[str, int], Called] = {}
    for call in calls:
        before = found.pop((call.path, call.line), None)
        if before:
            results = tuple(dict.fromkeys((*before.results, *call.results)))
            call = replace(call, times=max(before.times, call.times), results=results)
        found[call.path, call.line] = call
    return tuple(found.values())


def watching(
    task_sandbox: TaskSandbox, workspace: Workspace, command: str, key: str
) -> tuple[dict[str, str], tuple[Mount, ...], str]:
    """Variables, mounts and the command line with which the witness is loaded."""
    mounts = (
        Mount(Path(__file__).with_name("watch"), _WATCH),
        Mount(workspace.outbox, _OUTBOX, writable=True),
        Mount(_tracked(task_sandbox), _FILES),
    )
    variables = {
        "PYTHONPATH": _WATCH,
        "SCROUT_WATCH_ROOT": str(task_sandbox.base.repo),
        "SCROUT_WATCH_OUTBOX": _OUTBOX,
        "SCROUT_WATCH_FILES": _FILES,
        "SCROUT_WATCH_KEY": key,
    }
    line = _EMPTY_ENVIRONMENT.sub(_kept_variables, _without_isolation(command))
    return variables, mounts, is_traceable(line, task_sandbox.base)


def _kept_variables(match: re.Match[str]) -> str:
    return " ".join([match[0], *(f"{name}=${name}" for name in _VARIABLES)])


def _without_isolation(command: str) -> str:
    """The command without `python -I` and `-E`, which hide the witness; the next replay runs it as it is.

    A command that sets variables of Python itself stays as it is, since `-E` would have ignored them.
    """
    return command if _SETS_PYTHON.search(command) else _OPTIONS.sub(_watched_options, command)


def _watched_options(match: re.Match[str]) -> str:
    words = match[2].split()
    plain = [
        re.sub("[EI]", lambda flag: "sP" if flag[0] == "I" else "", word) if _FLAGS.fullmatch(word) else word
        for word in words
    ]
    return " ".join([match[1], *(word for word in plain if word != "-")])


def _tracked(task_sandbox: TaskSandbox) -> Path:
    """A list of the base commit's files, which are the repository's; all others are the claim's."""
    target = task_sandbox.workspaces.shared / "files"
    if not target.exists():
        names = task_sandbox.base.git("ls-tree", "-r", "-z", "--name-only", task_sandbox.base.commit)
        target.write_bytes(names)
        target.chmod(0o644)
    return target


@dataclass(frozen=True)
class _Report:
    """What one Python process told. Paths of the repository are relative to its root."""

    tampered: str
    lines: dict[str, frozenset[int]]
    raised: tuple[Raised, ...]
    escaped: tuple[Raised, ...]
    fixed: dict[str, frozenset[str]]
    calls: tuple[Called, ...]


def _read_reports(outbox: Path, key: str, repo: Path) -> tuple[list[_Report], str]:
    """What the processes of a command told, and whether some of it was left out, which may be what counts."""
    unread = "more reports are left than are read" if has_more(outbox, MAX_REPORT_BYTES) else ""
    reports = list(_reports(outbox, key, repo))
    empty_folder(outbox)
    return reports, unread


def _reports(outbox: Path, key: str, repo: Path) -> Iterator[_Report]:
    for content in read_outbox(outbox, MAX_REPORT_BYTES):
        try:
            secret, tampered, lines, raised, escaped, fixed, calls = json.loads(content)
            if secrets.compare_digest(str(secret).encode(), key.encode()):
                yield _Report(
                    _plain(tampered)[:300],
                    {_relative(path, repo): frozenset(map(int, numbers)) for path, numbers in lines},
                    tuple(_event(row, repo) for row in raised),
                    tuple(_event(row, repo) for row in escaped),
                    {_relative(path, repo): frozenset(map(_plain, names)) for path, names in fixed},
                    tuple(_called(row, repo) for row in calls),
                )
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            continue  # forged: no evidence


def _event(row: Sequence[object], repo: Path) -> Raised:
    path, line, function, kind, message = row
    return Raised(_relative(str(path), repo), int(str(line)), _plain(function), _plain(kind), _plain(message))


def _called(row: Sequence[object], repo: Path) -> Called:
    path, line, name, times, results = row
    given = tuple(map(_plain, results)) if isinstance(results, list) else ()
    return Called(_relative(str(path), repo), int(str(line)), _plain(name), int(str(times)), given)


def _relative(told: str, repo: Path) -> str:
    path = _plain(told)
    pure = PurePosixPath(path)
    return str(pure.relative_to(repo)) if pure.is_relative_to(repo) and ".." not in pure.parts else path


def _plain(told: object) -> str:
    """Text that a record can hold: printable, without halves of surrogate pairs."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(told).encode(errors="replace").decode())
