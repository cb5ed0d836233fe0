"""Runs a command as the gate, the check and the grader do, and records what happened."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scrout.records import Evidence
from scrout.sandbox.outbox import read_outbox
from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Base, Workspace, empty_folder

TAIL_CHARACTERS = 2_000
MOST_REPORT_BYTES = 5_000_000
"""Limit for all Python processes of a command together."""
_WATCH = "/opt/scrout/watch"
_OUTBOX = "/opt/scrout/outbox"
_SETS_PYTHONPATH = re.compile(r"\bPYTHONPATH=")
# Only if every pytest run uses it: then the plugin is installed. Elsewhere, --no-cov would be an unknown option.
_OPTIONS = re.compile(rb"^[ \t]*+addopts[ \t]*+=[^\n]*+(?:\n[ \t][^\n]*+)*", re.MULTILINE)
_PYTEST_SETTINGS = ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")


@dataclass(frozen=True)
class Raised:
    """An exception passing through a frame of the repository."""

    path: str
    line: int
    function: str
    type: str
    message: str


@dataclass(frozen=True)
class ExecutionTrace:
    """The execution of the repository's Python code during a command.

    Reported from inside, so evidence, not proof.
    """

    lines: dict[str, frozenset[int]]
    """Keyed by path relative to the repository's root."""
    raised: tuple[Raised, ...]


@dataclass(frozen=True)
class Replay:
    """One run of one command."""

    command: str
    exit_code: int | None
    """None: stopped at the time limit."""
    output: str
    seconds: float
    execution_trace: ExecutionTrace | None = None
    """None: not requested, or no Python ran."""

    @property
    def killed(self) -> bool:
        return self.exit_code in (137, 143)

    def evidence(self, runs: int = 1) -> Evidence:
        return Evidence(
            command=self.command,
            exit_code=self.exit_code,
            runs=runs,
            output_tail=self.output[-TAIL_CHARACTERS:],
            seconds=round(self.seconds, 3),
        )


async def replay(
    task_sandbox: TaskSandbox,
    workspace: Workspace,
    command: str,
    *,
    timeout_s: float | None = None,
    watch: bool = False,
    aliases: tuple[str, ...] = (),
) -> Replay:
    """Run a shell command at the repository's root under pipefail; with `watch`, record which lines ran."""
    variables: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    line = command
    if watch:
        line = is_traceable(command, task_sandbox.base)
        variables = {
            "PYTHONPATH": _WATCH,
            "SCROUT_WATCH_ROOT": str(task_sandbox.base.repo),
            "SCROUT_WATCH_OUTBOX": _OUTBOX,
        }
        mounts = (
            Mount(Path(__file__).with_name("watch"), _WATCH),
            Mount(workspace.outbox, _OUTBOX, writable=True),
        )
    done = await task_sandbox.run(
        workspace, shell_argv(line), timeout_s=timeout_s, variables=variables, mounts=mounts, aliases=aliases
    )
    execution_trace = None
    if watch:
        execution_trace = await asyncio.to_thread(_read_witness, workspace.outbox, task_sandbox.root(workspace))
    return Replay(
        command=command,
        exit_code=done.exit_code,
        output=done.text,
        seconds=done.seconds,
        execution_trace=execution_trace,
    )


def is_traceable(command: str, base: Base) -> str:
    """Whether a command can be traced, and the command to run: tracing needs PYTHONPATH and no coverage tool in its
    place.
    """
    command = _SETS_PYTHONPATH.sub('PYTHONPATH="$PYTHONPATH:"', command)
    settings = (base.read(name) or b"" for name in _PYTEST_SETTINGS)
    # A command that does not use the settings' options needs no coverage plugin, and the plugin may be missing.
    covers = "-o addopts=" not in command and any(
        b"--cov" in options for text in settings for options in _OPTIONS.findall(text)
    )
    return f"export PYTEST_ADDOPTS=--no-cov; {command}" if covers else command


def _read_witness(outbox: Path, repo: Path) -> ExecutionTrace | None:
    lines: dict[str, set[int]] = {}
    raised: list[Raised] = []
    for report in read_outbox(outbox, MOST_REPORT_BYTES):
        try:
            told = json.loads(report)
            for path, numbers in told["lines"].items():
                ran = {int(number) for number in numbers}
                if ran and (inside := _relative(path, repo)) is not None:
                    lines.setdefault(inside, set()).update(ran)
            for path, line, function, kind, message in told["raised"]:
                if (inside := _relative(path, repo)) is not None:
                    raised.append(Raised(inside, int(line), _plain(function), _plain(kind), _plain(message)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            continue  # cut off by a kill, or forged: not evidence
    empty_folder(outbox)
    if not lines:
        return None
    return ExecutionTrace({path: frozenset(numbers) for path, numbers in lines.items()}, tuple(raised))


def _relative(path: str, repo: Path) -> str | None:
    """None: outside of the repository, or not a path. A script without a file keeps the name that Python gives it."""
    if path in ("<string>", "<stdin>"):
        return path
    pure = PurePosixPath(path)
    if not pure.is_relative_to(repo) or ".." in pure.parts:
        return None
    inside = str(pure.relative_to(repo))
    return inside if inside.isprintable() else None


def _plain(told: object) -> str:
    """Text without lone surrogates, which a record cannot store."""
    return str(told).encode(errors="replace").decode()
