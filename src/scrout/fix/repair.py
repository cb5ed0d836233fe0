"""The $0 fixer: a search over small edits, guided by the verified reproduction. No model, no network.

An edit counts when the reproduction then passes and no test that passed before fails. That is what a reproduction and
tests can tell and no more: where they say little, a wrong edit can pass them.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from heapq import merge
from pathlib import PurePosixPath

from scrout.config import RepairSettings
from scrout.fix.edits import PRIORS, Edit, edits
from scrout.fix.suspects import Suspect, escaped, rank
from scrout.handoff import Handoff
from scrout.records import Attempt, GatedHandoff, Stop
from scrout.sandbox.replay import Witness, replay
from scrout.sandbox.suite import Suite, belongs_to_tests, find_suite, related_tests, run_suite
from scrout.sandbox.workshop import Workshop
from scrout.sandbox.workspace import Base, Workspace

MAX_SOURCE_BYTES = 500_000
"""Larger files are generated ones, and slow to parse."""
BEFORE_CONTRAST = 120
"""Candidates to try before passing tests are watched for contrast: watching costs as much as many candidates."""
MOST_CONTRASTS = 6
"""Test files that are watched, each by itself."""
CONTRAST_TIMEOUT_S = 20.0
QUICK_SUITE_S = 10.0
"""A whole suite that takes no longer is run at once for an edit that the reproduction accepts; else related tests."""
NONE_ESCAPED = 2.5
"""How much likelier a guard or a default is when the exception that escaped speaks of None."""
SAY_EVERY_S = 0.5

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    pass


async def repair(
    gated: GatedHandoff,
    workshop: Workshop,
    settings: RepairSettings,
    progress: Progress = _silent,
    name: str = "repair",
) -> Attempt:
    """Search for a small edit after which the verified reproduction passes and no passing test fails."""
    started = time.monotonic()

    def attempt(stop: Stop, detail: str, patch: str = "") -> Attempt:
        return Attempt(fixer=name, patch=patch, stop=stop, detail=detail, seconds=round(time.monotonic() - started, 3))

    reason = _why_not(gated, workshop)
    if reason:
        return attempt("not_applicable", reason)
    search = _Search(gated.handoff, workshop, settings, progress)
    stop: Stop = "nothing_found"
    found: _Candidate | None = None
    try:
        async with asyncio.timeout(settings.max_seconds) as clock:
            reason = await search.prepare()
            if reason:
                return attempt("not_applicable", reason)
            found = await search.run()
    except _Untestable as error:
        return attempt("not_applicable", str(error))
    except TimeoutError:
        if not clock.expired():
            raise  # somebody else's
        stop = "timeout"
    if found is None:
        return attempt(stop, f"no edit made the reproduction pass and kept the tests passing: {search.tally()}")
    workspace = workshop.fresh()
    try:
        found.write(workspace)
        patch = await workshop.diff(workspace)
    finally:
        workspace.remove()
    return attempt("finished", f"{found}; {search.tally()}; {search.checked}", patch)


def _why_not(gated: GatedHandoff, workshop: Workshop) -> str:
    """Empty, or why there is nothing to search with."""
    reproduction = gated.handoff.reproduction
    if not gated.kept or reproduction is None or not reproduction.command:
        return f"no verified reproduction to search with ({gated.reason or gated.verdict})"
    if gated.verdict == "reproduced_exit_zero":
        return "the reproduction shows the bug with exit code 0, so its exit code cannot tell success"
    if not workshop.environment.python:
        return f"only Python is repaired, and there is none to run ({workshop.environment.label})"
    return ""


@dataclass(frozen=True)
class _File:
    """A source file as text, and how to get its bytes back."""

    path: str
    text: str
    mark: bytes = b""
    """A UTF-8 byte order mark, which is no part of the source."""


@dataclass(frozen=True)
class _Candidate:
    file: _File
    edit: Edit
    score: float

    def __str__(self) -> str:
        before, after = (_one_line(part) for part in (self.edit.before, self.edit.after))
        where = f"{self.file.path}:{self.edit.line}"
        if not before:
            return f"{self.edit.kind} at {where}: inserted `{after}`"
        if not after:
            return f"{self.edit.kind} at {where}: removed `{before}`"
        return f"{self.edit.kind} at {where}: `{before}` became `{after}`"

    def write(self, workspace: Workspace) -> None:
        workspace.write(self.file.path, self.file.mark + self.edit.apply(self.file.text).encode())


@dataclass(frozen=True)
class _Tests:
    """Tests that passed on the unchanged repository."""

    files: tuple[str, ...]
    """Empty: the whole suite."""
    passed: frozenset[str]
    seconds: float


class _Untestable(Exception):
    """The project has tests, but none passes here: an edit that fixes could not be told from one that only hides."""


class _Search:
    """One search: first `prepare`, then `run`."""

    def __init__(self, handoff: Handoff, workshop: Workshop, settings: RepairSettings, progress: Progress) -> None:
        assert handoff.reproduction is not None and handoff.reproduction.command is not None
        self.handoff = handoff
        self.files = handoff.reproduction.files
        self.command = handoff.reproduction.command
        self.workshop = workshop
        self.settings = settings
        self.progress = progress
        self.started = time.monotonic()
        self.jobs = settings.jobs or os.cpu_count() or 1
        self.slots = asyncio.Semaphore(self.jobs)
        self.timeout_s = workshop.limits.timeout_s
        self.sources: dict[str, _File] = {}
        self.suspects: tuple[Suspect, ...] = ()
        self.priors = PRIORS
        self.failing = Witness({}, ())
        self.suite: Suite | None = None
        self.tests_known = False
        self.related: _Tests | None = None
        self.whole: _Tests | None = None
        self.tried = 0
        self.said_at = 0.0
        self.checked = "the project has no tests to check it with"

    def tally(self) -> str:
        seconds = time.monotonic() - self.started
        edits_tried, suspected = _count(self.tried, "edit"), _count(len(self.suspects), "suspected statement")
        return f"{edits_tried} tried on {suspected} in {seconds:.1f} s"

    async def prepare(self) -> str:
        """Find the suspects; empty, or why there is nothing to search."""
        self._say("running the reproduction", now=True)
        async with self._workspace() as workspace, self._workspace() as watched:
            bare = asyncio.create_task(replay(self.workshop, workspace, self.command))
            watching = asyncio.create_task(replay(self.workshop, watched, self.command, watch=True))
            finding = asyncio.create_task(find_suite(self.workshop))
            await _finish(bare, watching, finding)
            plain, seen, self.suite = bare.result(), watching.result(), finding.result()
        if plain.exit_code == 0:
            return "the reproduction passes on the unchanged repository"
        self.timeout_s = min(self.timeout_s, 3 * plain.seconds + 2)
        # Without a witness, because the command sets PYTHONPATH itself or was killed, the scout's word has to do.
        self.failing = seen.witness or _claimed(self.handoff)
        paths = [path for path in self.failing.lines if path not in self.files and not belongs_to_tests(path)]
        self.sources = {file.path: file for file in _read(self.workshop.base, paths)}
        if not self.sources:
            return "the reproduction ran no Python code of the repository, and only Python is repaired"
        if any("NoneType" in frame.message for frame in escaped(self.failing.raised, self.files)):
            self.priors = PRIORS | {kind: PRIORS[kind] * NONE_ESCAPED for kind in ("guard", "default")}
        self.suspects = self._rank(())
        return "" if self.suspects else "the reproduction ran no statement that an edit could change"

    async def run(self) -> _Candidate | None:
        """The first candidate, in order, that reproduction and tests accept; None: there is none within the bounds."""
        async with aclosing(self._survivors()) as survivors:
            async for candidate in survivors:
                if await self._tests_accept(candidate):
                    return candidate
        return None

    async def _survivors(self) -> AsyncGenerator[_Candidate, None]:
        """Candidates that the reproduction accepts, in order, tried some at a time."""
        window: deque[tuple[_Candidate, asyncio.Task[bool]]] = deque()
        # Deeper than there are slots, so that one that hangs does not hold up the rest.
        depth = 4 * self.jobs
        try:
            async with aclosing(self._candidates()) as candidates:
                async for candidate in candidates:
                    window.append((candidate, asyncio.create_task(self._survives(candidate))))
                    if len(window) >= depth:
                        first, trial = window.popleft()
                        if await trial:
                            yield first
            while window:
                first, trial = window.popleft()
                if await trial:
                    yield first
        finally:
            await _abandon([trial for _, trial in window])

    async def _survives(self, candidate: _Candidate) -> bool:
        async with self.slots, self._workspace(candidate) as workspace:
            self.tried += 1
            self._say(f"{self.tried} edits tried, now {candidate}")
            done = await replay(self.workshop, workspace, self.command, timeout_s=self.timeout_s)
        return done.exit_code == 0

    async def _candidates(self) -> AsyncGenerator[_Candidate, None]:
        """Edits by suspicion times prior: first with what the failing run alone shows, later with contrast."""
        ordered = self._ordered()
        seen: set[tuple[str, Edit]] = set()
        while (candidate := next(ordered, None)) is not None and len(seen) < self.settings.max_candidates:
            if (candidate.file.path, candidate.edit) in seen:
                continue
            seen.add((candidate.file.path, candidate.edit))
            yield candidate
            if len(seen) == BEFORE_CONTRAST:
                self.suspects = self._rank(await self._contrasts())
                ordered = self._ordered()

    def _rank(self, passing: Sequence[Witness]) -> tuple[Suspect, ...]:
        texts = {path: file.text for path, file in self.sources.items()}
        return rank(texts, self.failing, passing, self.handoff, self.files)

    def _ordered(self) -> Iterator[_Candidate]:
        """Every edit of every suspect, best first. Lazy, because making one costs a compilation."""
        return merge(*(self._edits_of(suspect) for suspect in self.suspects), key=lambda candidate: -candidate.score)

    def _edits_of(self, suspect: Suspect) -> Iterator[_Candidate]:
        file = self.sources[suspect.path]
        for edit in edits(file.text, range(suspect.first_line, suspect.last_line + 1), self.priors):
            yield _Candidate(file, edit, suspect.score * edit.prior)

    async def _tests_accept(self, candidate: _Candidate) -> bool:
        """Whether what passed before still passes: related tests first where the whole suite is slow."""
        if self.suite is None:
            return True
        self._say(f"running tests on {candidate}", now=True)
        if not self.tests_known:
            self.tests_known = True
            self.whole = await self._baseline((), min(QUICK_SUITE_S, self._left_s() / 4))
            if self.whole is None:
                related = related_tests(self.workshop.base, list(self.sources))
                # Nearest first, so where all of them take too long the first ones may do.
                for files in dict.fromkeys((related, related[:2])):
                    if files and self.related is None:
                        self.related = await self._baseline(files, self._left_s() / 4)
        if self.related is not None and not await self._still_pass(candidate, self.related):
            return False
        if self.whole is None:
            self.whole = await self._baseline((), self._left_s() / 3)
        if self.whole is None and self.related is None:
            raise _Untestable(
                "no test of the project passes or finishes here even without an edit, so a fix could not be told from "
                "an accident; install what its tests need into its .venv"
            )
        if self.whole is None or self.whole.seconds > self._left_s() / 2:
            if self.related is None:
                return False  # no time left for any test
            known = len(self.related.passed)
            self.checked = f"{known} related tests still pass, and the whole suite could not be run in the time left"
            return True
        self.checked = f"all {len(self.whole.passed)} tests that passed before still pass"
        return await self._still_pass(candidate, self.whole)

    async def _still_pass(self, candidate: _Candidate, tests: _Tests) -> bool:
        assert self.suite is not None
        timeout_s = 3 * tests.seconds + 2
        async with self._workspace(candidate) as workspace:
            run = await run_suite(self.workshop, workspace, self.suite, tests.files, timeout_s=timeout_s)
        return run.finished and tests.passed <= run.passed

    async def _baseline(self, files: tuple[str, ...], timeout_s: float) -> _Tests | None:
        """These tests on the unchanged repository; None: they do not end in time, or none passes."""
        assert self.suite is not None
        async with self._workspace() as workspace:
            run = await run_suite(self.workshop, workspace, self.suite, files, timeout_s=timeout_s)
        return _Tests(files, run.passed, run.replay.seconds) if run.finished and run.passed else None

    async def _contrasts(self) -> list[Witness]:
        """What the nearest passing test files ran, one witness a file."""
        if self.suite is None:
            return []
        self._say("watching passing tests for contrast", now=True)
        files = related_tests(self.workshop.base, list(self.sources))[:MOST_CONTRASTS]
        seen = [asyncio.create_task(self._contrast(self.suite, file)) for file in files]
        await _finish(*seen)
        return [witness for task in seen if (witness := task.result()) is not None]

    async def _contrast(self, suite: Suite, file: str) -> Witness | None:
        async with self.slots, self._workspace() as workspace:
            run = await run_suite(self.workshop, workspace, suite, (file,), timeout_s=CONTRAST_TIMEOUT_S, watch=True)
        return run.replay.witness if run.passed and not run.failed else None

    @asynccontextmanager
    async def _workspace(self, candidate: _Candidate | None = None) -> AsyncIterator[Workspace]:
        """A fresh workspace with the reproduction's files and, where given, the edit."""
        workspace = self.workshop.fresh()
        try:
            for path, content in self.files.items():
                workspace.write(path, content.encode())
            if candidate is not None:
                candidate.write(workspace)
            yield workspace
        finally:
            workspace.remove()

    def _left_s(self) -> float:
        return max(0.1, self.started + self.settings.max_seconds - time.monotonic())

    def _say(self, text: str, *, now: bool = False) -> None:
        if now or time.monotonic() - self.said_at >= SAY_EVERY_S:
            self.said_at = time.monotonic()
            self.progress(text)


def _claimed(handoff: Handoff) -> Witness:
    """The handoff's regions as if they had run."""
    lines: dict[str, frozenset[int]] = {}
    for file in handoff.files:
        if not file.path.endswith(".py"):
            continue
        regions = [range(first, min(last, first + 2000) + 1) for first, last in file.regions] or [range(1, 2000)]
        lines[file.path] = frozenset(line for region in regions for line in region)
    return Witness(lines, ())


def _read(base: Base, paths: Iterable[str]) -> Iterator[_File]:
    """The files at the base commit, as far as they are UTF-8. Paths come from inside the sandbox: any may be forged."""
    for path in sorted(paths):
        parts: Sequence[str] = PurePosixPath(path).parts
        if not parts or parts[0] in ("/", ".git") or ".." in parts or not path.isprintable():
            continue
        data = base.read(path)
        if data is None or len(data) > MAX_SOURCE_BYTES:
            continue
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        try:
            yield _File(path, data[len(mark) :].decode(), mark)
        except UnicodeDecodeError:
            continue


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _one_line(source: str) -> str:
    """Source as part of a sentence: it is anyone's, so without control characters and not too much of it."""
    words = " ".join(source.split())
    return "".join(character for character in words[:100] if character.isprintable())


async def _finish(*tasks: asyncio.Task[object]) -> None:
    """Wait for all; when cut short, for their end."""
    try:
        await asyncio.gather(*tasks)
    finally:
        await _abandon(tasks)


async def _abandon(tasks: Iterable[asyncio.Task[object]]) -> None:
    """End what has not ended. Cancelled once each: twice, asyncio waits forever for a process it is just starting."""
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        if not task.cancelling():
            task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
