"""Tries many edits on the reproduction quickly: one interpreter in one sandbox, forked for each edit.

Works for a reproduction that is one plain Python command. Starting Python, a test runner and a project's dependencies
takes many times as long as a typical test, and happens once per batch. Trials of a batch share a workspace and a user,
so one could break or forge the next: a trial that passes is only a hint, which the caller confirms in a sandbox of its
own.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scrout.fix.repair.edit_site import Edit
from scrout.fix.repair.source import Statement
from scrout.fix.repair.source import parse as parse_source
from scrout.sandbox.task_sandbox import TaskSandbox, shell_argv
from scrout.sandbox.workspace import Workspace

_SCRIPT = (Path(__file__).with_name("inside") / "trials.py").read_text(encoding="utf-8")
_PYTHON = re.compile(r"(?:/\S+/)?python3?(?:\.\d+)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL = re.compile(r"[;&|<>`$(){}*?!#~\n\\]")
"""Characters that a shell may interpret. Brackets are not included, because test parameters use them."""
SLOWER = 5
"""Maximum duration of an edited run, as a multiple of the unedited one,"""
LEAST_S = 1.5
"""and its minimum: a machine may stall, and a test that gets farther than before takes longer."""
CANNOT = -1
"""The answer for an edit that cannot be tried warm,"""
STOPPED = 124
"""and for one at its time limit."""


@dataclass(frozen=True)
class Invocation:
    """A parsed Python command."""

    kind: Literal["module", "script"]
    name: str
    arguments: tuple[str, ...]
    settings: tuple[str, ...]
    """Assignments before the command."""


def parse(command: str) -> Invocation | None:
    """Parse a command as an invocation of Python; None if it needs a shell."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if _SHELL.search(re.sub(r"'[^']*'", "", command)):
        return None
    settings = []
    while words and _ASSIGNMENT.match(words[0]):
        settings.append(words.pop(0))
    if not words:
        return None
    program, *rest = words
    if program == "pytest":
        return Invocation("module", "pytest", tuple(rest), tuple(settings))
    if not _PYTHON.fullmatch(program) or not rest:
        return None
    if rest[0] == "-m" and len(rest) > 1:
        return Invocation("module", rest[1], tuple(rest[2:]), tuple(settings))
    if rest[0].startswith("-"):
        return None
    return Invocation("script", rest[0], tuple(rest[1:]), tuple(settings))


@dataclass(frozen=True)
class EditTrial:
    """One edit of one statement of one file."""

    path: str
    edit: Edit
    statement: Statement


class Trials:
    """Batches of trials of one reproduction: call `begin`, then `run`, and `close` at the end."""

    def __init__(self, task_sandbox: TaskSandbox, command: str, files: Mapping[str, str]) -> None:
        self.task_sandbox = task_sandbox
        self.files = files
        self.invocation = parse(command)
        self.warm = self.invocation is not None
        """Edits inside functions are tried in an interpreter that has everything imported."""
        self._exit_code = 1
        self._timeout_s = 0.0
        self._warm_s = 0.0
        self._cold_s = 0.0
        """Duration of the unedited run."""
        self._preload: tuple[str, ...] | None = None
        """Modules that the command imports from outside the repository; None: unknown yet."""
        self._own: tuple[str, ...] = ()
        """Modules of the repository that it imports."""
        self._tried = 0
        self._idle: list[Workspace] = []

    @property
    def possible(self) -> bool:
        """Whether the command can be tried like this."""
        return self.invocation is not None

    def begin(self, exit_code: int, seconds: float, timeout_s: float) -> None:
        """How the unedited command ends by itself, and how long it takes: in a fork it must end the same way."""
        self._exit_code, self._warm_s, self._cold_s, self._timeout_s = exit_code, seconds, seconds, timeout_s

    async def run(
        self, trials: Sequence[EditTrial], texts: Mapping[str, str], *, only_warm: bool = False
    ) -> list[int | None]:
        """How each trial ended; None: unknown, because the command cannot be tried like this or a trial ended the
        batch.
        """
        codes: dict[int, int] = {}
        inside = [index for index, trial in enumerate(trials) if trial.statement.outermost is not None]
        if self.warm and inside:
            codes |= await self._run_warm(inside, trials, texts)
        left = [index for index in range(len(trials)) if codes.get(index, CANNOT) == CANNOT]
        if left and self.invocation is not None and not only_warm:
            codes |= await self._run_cold(left, trials, texts)
        return [None if code == CANNOT else code for code in map(codes.get, range(len(trials)))]

    async def _run_warm(
        self, chosen: Sequence[int], trials: Sequence[EditTrial], texts: Mapping[str, str]
    ) -> dict[int, int]:
        rows = await self._order(self._warm_s, [trials[index] for index in chosen], texts, learn=True, warm=True)
        if not rows or rows[0].get("code") != self._exit_code:
            self.warm = False
            return {}
        self._warm_s = min(self._warm_s, _seconds(rows[0], self._warm_s))
        return _codes(rows, chosen)

    async def _run_cold(
        self, chosen: Sequence[int], trials: Sequence[EditTrial], texts: Mapping[str, str]
    ) -> dict[int, int]:
        rows = await self._order(self._cold_s, [trials[index] for index in chosen], texts, learn=True)
        if not rows or rows[0].get("code") != self._exit_code:
            return {}
        self._cold_s = min(self._cold_s, _seconds(rows[0], self._cold_s))
        self._preload = _names(rows[0].get("modules"))
        return _codes(rows, chosen)

    async def _order(
        self,
        seconds: float,
        trials: Sequence[EditTrial] = (),
        texts: Mapping[str, str] | None = None,
        *,
        learn: bool = False,
        warm: bool = False,
    ) -> list[dict[str, object]]:
        assert self.invocation is not None
        self._tried += len(trials)
        timeout_s = min(self._timeout_s, SLOWER * seconds + LEAST_S)
        with self._workspace() as workspace:
            order = {
                "root": str(self.task_sandbox.root(workspace)),
                "kind": self.invocation.kind,
                "name": self.invocation.name,
                "arguments": self.invocation.arguments,
                "argv": ["-c", _SCRIPT],
                # pytest itself imports the shareable modules before its first test.
                "preload": () if warm and self.invocation.name == "pytest" else self._preload,
                "own": self._own,
                "learn": learn,
                "warm": warm,
                "timeout_s": timeout_s,
                "slower": SLOWER,
                "least_s": LEAST_S,
                "first": self._tried,
                "texts": {trial.path: texts[trial.path] for trial in trials} if texts else {},
                "trials": [_described(trial, texts[trial.path]) for trial in trials] if texts else [],
            }
            line = " ".join(["exec", "env", *map(shlex.quote, self.invocation.settings), "python", '-c "$0"'])
            done = await self.task_sandbox.run(
                workspace,
                [*shell_argv(line), _SCRIPT],
                timeout_s=(len(trials) + 1) * timeout_s + 2 * self._timeout_s,
                stdin=json.dumps(order).encode(),
            )
        rows = [row for line in done.text.splitlines() if isinstance(row := _parsed(line), dict)]
        if rows and "loaded" in rows[0]:
            told = rows.pop(0)
            self._preload, self._own = _names(told.get("loaded")), _names(told.get("own"))
        return rows

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        """Reuses a workspace if possible, because it contains compiled files."""
        if self._idle:
            workspace = self._idle.pop()
        else:
            workspace = self.task_sandbox.fresh()
            for path, content in self.files.items():
                workspace.write(path, content.encode())
        try:
            yield workspace
        except BaseException:
            workspace.remove()
            raise
        self._idle.append(workspace)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().remove()


def _described(trial: EditTrial, text: str) -> dict[str, object]:
    source, outermost = parse_source(text), trial.statement.outermost
    owner, first, last = source.unit(trial.statement)
    return {
        "path": trial.path,
        "start": trial.edit.start,
        "end": trial.edit.end,
        "after": trial.edit.after,
        "owner": owner,
        "unit": (first, last),
        "def_line": source.line_at(source.whole(outermost)[0]) if outermost else 0,
        "def_name": outermost.name if outermost else "",
    }


def _codes(rows: Iterable[Mapping[str, object]], chosen: Sequence[int]) -> dict[int, int]:
    codes: dict[int, int] = {}
    for row in rows:
        index, code = row.get("trial"), row.get("code")
        if isinstance(index, int) and 0 <= index < len(chosen):
            codes[chosen[index]] = code if isinstance(code, int) else STOPPED
    return codes


def _seconds(row: Mapping[str, object], otherwise: float) -> float:
    seconds = row.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else otherwise


def _names(told: object) -> tuple[str, ...]:
    return tuple(name for name in told if isinstance(name, str)) if isinstance(told, list) else ()


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
