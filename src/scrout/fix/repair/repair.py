"""The free fixer: a search over small edits, guided by the verified reproduction. No model, no network.

An edit is proposed if the reproduction passes with it, no passing test or docstring example breaks, a passing test
executes the edited statement, and no edit of another statement does as well. Otherwise, nothing is proposed: a wrong
patch costs more than none.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import PurePosixPath
from zlib import crc32

from scrout.check.doctests import Example, held_examples
from scrout.config.settings import RepairSettings
from scrout.fix.repair.choice import Survivor, can_stand
from scrout.fix.repair.edits import PRIORS, Edit, edits_of
from scrout.fix.repair.hints import Hints, functions_named, hints
from scrout.fix.repair.naturalness import Naturalness
from scrout.fix.repair.source import Statement
from scrout.fix.repair.spectrum import Contrast, Spectrum, contrast_of
from scrout.fix.repair.suspects import Suspect, escaped, rank
from scrout.fix.repair.trials import STOPPED, EditTrial, Trials
from scrout.handoff import Handoff
from scrout.records import Attempt, GatedHandoff, Stop
from scrout.sandbox.replay import ExecutionTrace, Replay, replay
from scrout.sandbox.suite import Suite, belongs_to_tests, find_suite, related_tests, run_suite
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Base, Workspace
from scrout.text import duration, plural

MAX_SOURCE_BYTES = 500_000
"""Larger files are generated, and slow to parse."""
BEFORE_CONTRAST = 48
"""Number of candidates to try before waiting for the lines that passing tests ran."""
MOST_CONTRASTS = 3
"""Maximum number of test files to watch, if some are near the code."""
CONTRAST_TIMEOUT_S = 8.0
BATCHES = (32, 96, 96, 160)
"""Batch sizes of candidates that share an interpreter: small at first, because the first candidates are the
likeliest; then as the last.
"""
MOST_NEAR_TESTS = 300
"""Number of passing tests to try an edit on first."""
NONE_ESCAPED = 2.5
"""Factor for a default if the escaped exception mentions None."""
MOST_RIVALS = 8
"""Maximum number of edits at other places to try against an accepted one: with more of them, the tests cannot tell
enough.
"""
MOST_ACCEPTED = 3
"""Maximum number of edits of one statement that all tests accept, of which one is taken."""
FOR_TESTS = 0.4
"""Share of the time reserved for judging candidates that pass."""
SMALLEST = 1e-6
"""Scores with a smaller difference are equal."""
SAY_EVERY_S = 0.5

_NEAR = {"pytest": ("pytest", "-o", "addopts=", "-p", "no:cacheprovider", "-q"), "unittest": ("unittest", "-q", "-f")}
"""How tests near the code are run, keyed by their names."""

Progress = Callable[[str], None]
Accept = Callable[[str], Awaitable[str]]
"""Called with a patch; returns a reason to refuse it, or empty."""


def _silent(_: str) -> None:
    pass


async def repair(
    gated: GatedHandoff,
    task_sandbox: TaskSandbox,
    settings: RepairSettings,
    progress: Progress = _silent,
    name: str = "repair",
    accept: Accept | None = None,
) -> Attempt:
    """Search for a small edit after which the verified reproduction passes and no passing test fails.

    `accept` may refuse an edit that passes.
    """
    started = time.monotonic()

    def attempt(stop: Stop, detail: str, patch: str = "") -> Attempt:
        return Attempt(fixer=name, patch=patch, stop=stop, detail=detail, seconds=round(time.monotonic() - started, 3))

    reason = _why_not(gated, task_sandbox)
    if reason:
        return attempt("not_applicable", reason)
    search = _Search(gated.handoff, task_sandbox, settings, progress, accept)
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
            raise  # not one of this search
        stop = "timeout"
    finally:
        await search.close()
    if found is None:
        why = search.doubt or "no edit made the reproduction pass and kept the tests passing"
        return attempt(stop, f"{why}: {search.tally()}")
    return attempt("finished", f"{found}; {search.tally()}; {search.checked}", await search.patch(found))


def _why_not(gated: GatedHandoff, task_sandbox: TaskSandbox) -> str:
    """Why there is nothing to search with; empty: the search can start."""
    reproduction = gated.handoff.reproduction
    if not gated.kept or reproduction is None or not reproduction.command:
        return f"no verified reproduction to search with ({gated.reason or gated.verdict})"
    if gated.basis == "assumed":
        return "the reproduction is only assumed: nothing confirms that it shows what the issue tells of"
    if gated.verdict == "reproduced_exit_zero":
        return "the reproduction shows the bug with exit code 0, so its exit code cannot tell success"
    if not task_sandbox.environment.python:
        return f"only Python is repaired, and there is none to run ({task_sandbox.environment.label})"
    return ""


@dataclass(frozen=True)
class _File:
    """A source file as text, which can be encoded back to its bytes."""

    path: str
    text: str
    mark: bytes = b""
    """A UTF-8 byte order mark, which is not part of the source."""


@dataclass(frozen=True)
class _Candidate:
    file: _File
    edit: Edit
    statement: Statement
    score: float

    @property
    def place(self) -> tuple[str, int]:
        return self.file.path, self.statement.first_line

    def __str__(self) -> str:
        before, after = (_one_line(part) for part in (self.edit.before, self.edit.after))
        where = f"{self.file.path}:{self.edit.line}"
        if not before:
            return f"{self.edit.kind} at {where}: inserted `{after}`"
        if not after:
            return f"{self.edit.kind} at {where}: removed `{before}`"
        return f"{self.edit.kind} at {where}: `{before}` became `{after}`"

    def moved(self, line: int) -> int | None:
        """The line's position after the edit; None: it is part of the edit."""
        if line < self.statement.first_line:
            return line
        last = max(self.statement.last_line, self.edit.line + self.edit.before.count("\n"))
        return line + self.edit.after.count("\n") - self.edit.before.count("\n") if line > last else None

    def write(self, workspace: Workspace) -> None:
        workspace.write(self.file.path, self.file.mark + self.edit.apply(self.file.text).encode())


@dataclass(frozen=True)
class _Tests:
    """Tests that passed on the unchanged repository."""

    files: tuple[str, ...]
    """Empty: the whole suite."""
    passed: frozenset[str]
    seconds: float
    failed: frozenset[str] = frozenset()


class _Untestable(Exception):
    """The project has tests, but none passes here, so an edit that fixes cannot be told from one that only hides."""


class _Search:
    """One search: call `prepare`, then `run`."""

    def __init__(
        self,
        handoff: Handoff,
        task_sandbox: TaskSandbox,
        settings: RepairSettings,
        progress: Progress,
        accept: Accept | None,
    ) -> None:
        assert handoff.reproduction is not None and handoff.reproduction.command is not None
        self.handoff = handoff
        self.files = handoff.reproduction.files
        self.command = handoff.reproduction.command
        self.task_sandbox = task_sandbox
        self.settings = settings
        self.progress = progress
        self.accept = accept
        self.started = time.monotonic()
        self.jobs = settings.jobs or os.cpu_count() or 1
        self.slots = asyncio.Semaphore(self.jobs)
        self.timeout_s = task_sandbox.limits.timeout_s
        self.sources: dict[str, _File] = {}
        self.suspects: tuple[Suspect, ...] = ()
        self.priors = PRIORS
        self.hints = Hints()
        self.wording: Naturalness | None = None
        self.failing = ExecutionTrace({}, ())
        self.passing: Spectrum = {}
        """Lines that passing tests ran, once known."""
        self.trials = Trials(task_sandbox, self.command, self.files)
        self.near: Trials | None = None
        """The same for tests near the code, once known."""
        self.fast = False
        """Whether several edits share a sandbox."""
        self.contrast: asyncio.Task[Contrast] | None = None
        self.suite: Suite | None = None
        self.whole_baseline: asyncio.Task[_Tests | None] | None = None
        self.kept: list[_Candidate] = []
        """Candidates that pass so far, and are not refused yet."""
        self.examples: dict[str, frozenset[Example]] = {}
        """Docstring examples of the suspect files that pass without an edit."""
        self.tried = 0
        self.waiting_score = 0.0
        """Best score of the candidates that wait for others to fill a batch."""
        self.doubt = ""
        """Why passing edits were not taken."""
        self.unmended: frozenset[str] = frozenset()
        """Tests that failed before, and still fail with the last accepted edit, if they were run."""
        self.said_at = 0.0
        self.checked = ""

    def tally(self) -> str:
        suspects = plural(len(self.suspects), "suspected statement")
        return f"{plural(self.tried, 'edit')} tried on {suspects} in {duration(time.monotonic() - self.started)}"

    async def prepare(self) -> str:
        """Find the suspects; returns why there is nothing to search, or empty."""
        self._say("running the reproduction", now=True)
        async with self._workspace() as workspace:
            watching = asyncio.create_task(replay(self.task_sandbox, workspace, self.command, watch=True))
            finding = asyncio.create_task(find_suite(self.task_sandbox))
            await _finish(watching, finding)
            seen, self.suite = watching.result(), finding.result() or self._own_suite()
        if seen.exit_code == 0:
            return "the reproduction passes on the unchanged repository"
        # Without an execution trace, because the command sets PYTHONPATH itself or was killed, rely on the scout's
        # files.
        self.failing = seen.execution_trace or _claimed(self.handoff)
        # Files that the command names define the expected behaviour, so they are never edited.
        own = {*self.files, *self._named()}
        paths = [path for path in self.failing.lines if path not in own and not belongs_to_tests(path)]
        self.sources = {file.path: file for file in _read(self.task_sandbox.base, paths)}
        if not self.sources:
            return "the reproduction ran no Python code of the repository, and only Python is repaired"
        self.wording = Naturalness(file.text for file in self.sources.values())
        self.timeout_s = min(self.timeout_s, 3 * seen.seconds + 2)
        if seen.exit_code is not None:
            self.trials.begin(seen.exit_code, seen.seconds, self.timeout_s)
        self.fast = self.trials.possible and seen.exit_code is not None
        frames = escaped(self.failing.raised, self.files)
        self.hints = hints(self._reproduction(), frames)
        if any("NoneType" in frame.message for frame in frames):
            self.priors = PRIORS | {"default": PRIORS["default"] * NONE_ESCAPED}
        self.suspects = self._rank({})
        if not self.suspects:
            return "the reproduction ran no statement that an edit could change"
        if self.suite is None:
            return "the project has no tests that run here, so a fix could not be told from an accident"
        self.contrast = asyncio.create_task(self._contrast())
        return ""

    def _own_suite(self) -> Suite | None:
        """The test files that a pytest command names: also tests, if none are found by name."""
        files = tuple(path for path in self._named() if self.task_sandbox.base.read(path) is not None)
        is_pytest = self.trials.invocation is not None and self.trials.invocation.name == "pytest"
        return Suite("pytest", files) if is_pytest and files else None

    def _reproduction(self) -> Iterator[str]:
        """The sources of the reproduction: tests that it names, its own files, files that it names."""
        named = {file.path: file.text for file in _read(self.task_sandbox.base, self._named())} | self.files
        for word in self._words():
            path, *names = word.split("::")
            if names and path in named:
                yield from functions_named(named[path], names[-1].partition("[")[0])
        yield from (self.files | named).values()

    def _named(self) -> list[str]:
        """Python files that the command names."""
        return [path for word in self._words() if (path := word.partition("::")[0]).endswith(".py")]

    def _words(self) -> list[str]:
        try:
            return shlex.split(self.command)
        except ValueError:
            return self.command.split()

    async def close(self) -> None:
        """End all background work."""
        await _abandon([task for task in (self.contrast, self.whole_baseline) if task is not None])
        self.trials.close()
        if self.near is not None:
            self.near.close()

    async def run(self) -> _Candidate | None:
        """The candidate that the reproduction, the tests and `accept` leave; None: none, or several are equally
        good.
        """
        async with aclosing(self._hinted()) as hinted:
            async for open_score, passed in hinted:
                self.kept += passed
                if not self.kept:
                    continue
                await self._know_passing()
                late = self._left_s() < FOR_TESTS * self.settings.max_seconds
                # Untried candidates cannot score higher than this.
                while (one := self._best(0.0 if late else open_score)) is not None:
                    if await self._accepts(one):
                        return await self._unless_others_would_do(one)
                if late:
                    return None
        await self._know_passing()
        while (one := self._best(0.0)) is not None:
            if await self._accepts(one):
                return await self._unless_others_would_do(one)
        return None

    def _best(self, least: float) -> _Candidate | None:
        """Remove and return the best candidate; None: none may be proposed."""
        standings = [(self._standing(one), -at) for at, one in enumerate(self.kept)]
        weight, at = max(standings, default=(0.0, 0))
        return self.kept.pop(-at) if weight and weight >= least else None

    def _standing(self, one: _Candidate) -> float:
        return can_stand(self._survivor(one), self.hints.strings)

    async def _unless_others_would_do(self, one: _Candidate) -> _Candidate | None:
        """An accepted candidate, or a better one of the same statement; None: one of another statement is as good."""
        accepted = [(len(self.unmended), one)]
        rivals = 0
        while (other := self._best(0.0)) is not None:
            if other.place == one.place:
                # Some tests that failed before still fail: an edit that also fixes those is better.
                if accepted[0][0] and len(accepted) < MOST_ACCEPTED and await self._accepts(other):
                    accepted.append((len(self.unmended), other))
                continue
            rivals += 1
            if rivals > MOST_RIVALS or await self._accepts(other):
                self.doubt = "edits at several places passed, and none could be told from an accident"
                return None
        return min(accepted, key=lambda pair: pair[0])[1]

    async def _accepts(self, one: _Candidate) -> bool:
        """Whether all judges accept an edit. A trial's result could be forged, so the command itself runs first."""
        self._say(f"running tests on {one}", now=True)
        self._begin_whole()
        watching = asyncio.create_task(self._replayed(one))
        contrasting = asyncio.create_task(self._contrast(one))
        await _finish(watching, contrasting)
        done, after = watching.result(), contrasting.result()
        if done.exit_code != 0 or (lost := await self._lost(one, done.execution_trace, after)) is None:
            return False
        if lost:
            self.doubt = f"an edit passed, but nothing runs {lost} any more"
            return False
        if not await self._tests_accept(one) or not await self._examples_hold(one):
            return False
        reason = await self.accept(await self.patch(one)) if self.accept is not None else ""
        if reason:
            self.doubt = f"an edit passed and was refused ({_one_line(reason)})"
        return not reason

    async def _replayed(self, one: _Candidate) -> Replay:
        async with self._workspace(one) as workspace:
            return await replay(self.task_sandbox, workspace, self.command, timeout_s=self.timeout_s, watch=True)

    async def _lost(self, one: _Candidate, execution_trace: ExecutionTrace | None, after: Contrast) -> str | None:
        """A line of the file that the reproduction or nearby tests ran before the edit, and no longer run with it,
        because skipping work hides failures.

        Empty: none, or no trace is available. None: nearby tests fail with the edit.
        """
        assert self.contrast is not None
        contrast = await self.contrast
        if not contrast.finished or not after.finished:
            return ""
        if not contrast.passed <= after.passed:
            return None
        if execution_trace is None or not self.failing.lines:
            return ""
        path = one.file.path
        before = self.failing.lines.get(path, frozenset()) | self.passing.get(path, {}).keys()
        now = execution_trace.lines.get(path, frozenset()) | after.spectrum.get(path, {}).keys()
        moved = ((line, one.moved(line)) for line in sorted(before))
        return next((f"{path}:{line}" for line, then in moved if then is not None and then not in now), "")

    async def _examples_hold(self, one: _Candidate) -> bool:
        """Whether the docstring examples of the file that passed before still pass."""
        path = one.file.path
        if ">>>" not in one.file.text:
            return True
        if path not in self.examples:
            async with self._workspace() as workspace:
                self.examples[path] = await held_examples(self.task_sandbox, workspace, path)
        if not self.examples[path]:
            return True
        async with self._workspace(one) as workspace:
            return self.examples[path] <= await held_examples(self.task_sandbox, workspace, path)

    async def patch(self, one: _Candidate) -> str:
        """The candidate as git would print it."""
        workspace = self.task_sandbox.fresh()
        try:
            one.write(workspace)
            return await self.task_sandbox.diff(workspace)
        finally:
            workspace.remove()

    def _survivor(self, one: _Candidate) -> Survivor:
        """The candidate with its current suspicion: the first ones are tried before it is known what tests run."""
        path, statement = one.file.path, one.statement
        scores = (known.score for known in self.suspects if (known.path, known.first_line) == one.place)
        suspicion = max(scores, default=0.0)
        passed = self.passing.get(path, {})
        tested = any(line in passed for line in range(statement.first_line, statement.last_line + 1))
        score = suspicion * min(1.0, one.edit.prior)
        return Survivor(path, statement.first_line, one.file.text, one.edit, score, tested)

    async def _hinted(self) -> AsyncGenerator[tuple[float, list[_Candidate]], None]:
        """The best score of the untried candidates, and those of the last batch that pass, or pass in a quick trial."""
        window: deque[tuple[float, asyncio.Task[list[_Candidate]]]] = deque()
        # With batches of one: more than there are slots, so that one that hangs does not delay the rest.
        depth = self.jobs if self.fast else 4 * self.jobs
        open_score = 1.0
        try:
            async with aclosing(self._batches()) as batches:
                batch = await anext(batches, None)
                while batch or window:
                    if batch and len(window) < depth:
                        window.append((batch[-1].score, asyncio.create_task(self._promising(batch))))
                        batch = await anext(batches, None)
                    elif await _soon(window[0][1]):
                        score, task = window.popleft()
                        open_score = max(min(open_score, score), self.waiting_score)
                        yield open_score, await task
                    else:
                        yield open_score, []
        finally:
            await _abandon(task for _, task in window)

    async def _batches(self) -> AsyncGenerator[list[_Candidate], None]:
        """The candidates in order, in batches; one at a time if each needs its own sandbox."""
        batch: list[_Candidate] = []
        aside: list[_Candidate] = []
        sizes = iter(BATCHES if self.fast else (1,))
        size = next(sizes)
        async with aclosing(self._candidates()) as candidates:
            async for candidate in candidates:
                # At module level, an edit takes an import for each trial: collect such candidates.
                cold = self.trials.warm and candidate.statement.outermost is None
                (aside if cold else batch).append(candidate)
                self.waiting_score = aside[0].score if aside else 0.0
                if len(batch) == size:
                    yield batch
                    batch, size = [], next(sizes, size)
                elif len(aside) == BATCHES[1]:
                    yield aside
                    aside, self.waiting_score = [], 0.0
        for rest in (batch, aside):
            if rest:
                yield rest

    async def _promising(self, batch: list[_Candidate]) -> list[_Candidate]:
        """Those of a batch, in order, that pass, or pass in a quick trial."""
        if not self.fast:
            return [candidate for candidate in batch if await self._survives(candidate)]
        async with self.slots:
            self.tried += len(batch)
            self._say(f"{self.tried} edits tried, now {batch[0]}")
            trials = [EditTrial(one.file.path, one.edit, one.statement) for one in batch]
            codes = await self.trials.run(trials, {one.file.path: one.file.text for one in batch})
            return await self._screened([one for one, code in zip(batch, codes, strict=True) if code in (0, None)])

    async def _screened(self, hinted: list[_Candidate]) -> list[_Candidate]:
        """The candidates that may be proposed and do not break nearby tests in a quick trial.

        Most that only fit the reproduction break one.
        """
        if hinted:
            await self._know_passing()
        hinted = [one for one in hinted if self._standing(one)]
        inside = [one for one in hinted if one.statement.outermost is not None]
        near = await self._near_trials() if inside else None
        if near is None:
            return hinted
        trials = [EditTrial(one.file.path, one.edit, one.statement) for one in inside]
        # If it cannot be tried warm, these tests do not load that code.
        codes = await near.run(trials, {one.file.path: one.file.text for one in inside}, only_warm=True)
        # A trial at its time limit says more about the machine than about the edit, which has just passed the
        # reproduction.
        broken = {id(one) for one, code in zip(inside, codes, strict=True) if code not in (0, None, STOPPED)}
        return [one for one in hinted if id(one) not in broken]

    async def _near_trials(self) -> Trials | None:
        """Trials of nearby tests that pass without an edit; None: there are none."""
        if self.near is None and self.contrast is not None:
            contrast = await self.contrast
            names = sorted(contrast.passed)[:MOST_NEAR_TESTS]
            if names and self.near is None and self.suite is not None:
                words = ["python", "-m", *_NEAR[self.suite.runner], *self.suite.options.split(), *names]
                self.near = Trials(self.task_sandbox, shlex.join(words), self.files)
                self.near.begin(0, contrast.seconds, 3 * contrast.seconds + 2)
        return self.near if self.near is not None and self.near.warm else None

    async def _survives(self, candidate: _Candidate) -> bool:
        # Test a hint immediately: waiting for a slot would mean waiting for a batch.
        async with nullcontext() if self.fast else self.slots, self._workspace(candidate) as workspace:
            self.tried += not self.fast
            self._say(f"{self.tried} edits tried, now {candidate}")
            done = await replay(self.task_sandbox, workspace, self.command, timeout_s=self.timeout_s)
        return done.exit_code == 0

    async def _candidates(self) -> AsyncGenerator[_Candidate, None]:
        """Edits by suspicion times prior: first from the failing run alone, later with contrast."""
        ordered = self._ordered()
        seen: set[tuple[str, Edit]] = set()
        while (candidate := next(ordered, None)) is not None and len(seen) < self.settings.max_candidates:
            if (candidate.file.path, candidate.edit) in seen:
                continue
            seen.add((candidate.file.path, candidate.edit))
            yield candidate
            if len(seen) == BEFORE_CONTRAST:
                await self._know_passing()
                ordered = self._ordered()

    async def _know_passing(self) -> None:
        """Wait for the lines that passing tests ran, and rank the suspects by them."""
        if self.contrast is None or self.passing:
            return
        contrast = await self.contrast
        if not contrast.passed:
            raise _Untestable(
                "no test near the code passes here, even without an edit, so no fix could be confirmed; install what "
                "the tests need into the project's .venv"
            )
        self.passing = contrast.spectrum
        self.suspects = self._rank(self.passing)

    def _rank(self, passing: Spectrum) -> tuple[Suspect, ...]:
        texts = {path: file.text for path, file in self.sources.items()}
        return rank(texts, self.failing, passing, self.handoff, self.files)

    def _ordered(self) -> Iterator[_Candidate]:
        """Every edit of every suspect, best first. Lazy, because each edit costs a compilation."""
        heap: list[tuple[float, int, _Candidate, Iterator[_Candidate]]] = []
        for place, suspect in enumerate(self.suspects):
            # No edit of this suspect or of a later one can score higher.
            while heap and -heap[0][0] >= suspect.score:
                yield from self._next(heap)
            self._push(heap, place, self._edits_of(suspect))
        while heap:
            yield from self._next(heap)

    def _next(self, heap: list[tuple[float, int, _Candidate, Iterator[_Candidate]]]) -> Iterator[_Candidate]:
        _, place, candidate, rest = heappop(heap)
        self._push(heap, place, rest)
        yield candidate

    def _push(
        self, heap: list[tuple[float, int, _Candidate, Iterator[_Candidate]]], place: int, rest: Iterator[_Candidate]
    ) -> None:
        if (candidate := next(rest, None)) is not None:
            heappush(heap, (-candidate.score, place, candidate, rest))

    def _edits_of(self, suspect: Suspect) -> Iterator[_Candidate]:
        file, statement = self.sources[suspect.path], suspect.statement
        for edit, _ in edits_of(file.text, [statement], self.priors, self.hints, self.wording):
            said = f"{self.settings.seed} {file.path} {edit.start} {edit.end} {edit.after}"
            # The seed decides the order of equally likely edits, and nothing else.
            tie = crc32(said.encode()) / 2**32 * SMALLEST
            yield _Candidate(file, edit, statement, suspect.score * min(1.0, edit.prior) + tie)

    async def _tests_accept(self, candidate: _Candidate) -> bool:
        """Whether tests that passed before still pass: the whole suite if it finishes in time, otherwise related
        tests.
        """
        assert self.whole_baseline is not None and self.contrast is not None
        whole = await self.whole_baseline
        if whole is None:
            contrast = await self.contrast
            related = _Tests(self._watched(), contrast.passed, contrast.seconds)
            known = len(related.passed)
            self.checked = f"{known} related tests still pass, and the whole suite could not be run in the time left"
            return await self._still_pass(candidate, related)
        self.checked = f"all {len(whole.passed)} tests that passed before still pass"
        return await self._still_pass(candidate, whole)

    def _begin_whole(self) -> None:
        """Run the whole suite without an edit in the background: without it, lack of time may let a wrong edit
        through.
        """
        if self.suite is not None and self.whole_baseline is None:
            self.whole_baseline = asyncio.create_task(self._baseline((), self._left_s() / 2))

    async def _still_pass(self, candidate: _Candidate, tests: _Tests) -> bool:
        assert self.suite is not None
        timeout_s = 3 * tests.seconds + 2
        async with self._workspace(candidate) as workspace:
            run = await run_suite(self.task_sandbox, workspace, self.suite, tests.files, timeout_s=timeout_s)
        self.unmended = tests.failed - run.passed
        return run.finished and tests.passed <= run.passed

    async def _baseline(self, files: tuple[str, ...], timeout_s: float) -> _Tests | None:
        """These tests on the unchanged repository; None: they do not finish in time, or none passes."""
        assert self.suite is not None
        async with self._workspace() as workspace:
            run = await run_suite(self.task_sandbox, workspace, self.suite, files, timeout_s=timeout_s)
        return _Tests(files, run.passed, run.replay.seconds, run.failed) if run.finished and run.passed else None

    async def _contrast(self, candidate: _Candidate | None = None) -> Contrast:
        """The lines that the nearest passing tests run, without an edit or with one."""
        assert self.suite is not None
        async with self._workspace(candidate) as workspace:
            suite, wanted = self.suite, list(self.sources)
            how = (CONTRAST_TIMEOUT_S, suite.runner, suite.options)
            return await contrast_of(self.task_sandbox, workspace, wanted, self._watched(), *how)

    def _watched(self) -> tuple[str, ...]:
        """Test files: those that the reproduction names, then those near the code it ran; all if there are none."""
        assert self.suite is not None
        near = [*self._named(), *related_tests(self.task_sandbox.base, list(self.sources))]
        known = tuple(path for path in dict.fromkeys(near) if path in self.suite.files)
        return known[:MOST_CONTRASTS] or self.suite.files

    @asynccontextmanager
    async def _workspace(self, candidate: _Candidate | None = None) -> AsyncIterator[Workspace]:
        """A new workspace with the reproduction's files and, if given, the edit."""
        workspace = self.task_sandbox.fresh()
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


def _claimed(handoff: Handoff) -> ExecutionTrace:
    """The handoff's regions as if they had run."""
    lines: dict[str, frozenset[int]] = {}
    for file in handoff.files:
        if not file.path.endswith(".py"):
            continue
        regions = [range(first, min(last, first + 2000) + 1) for first, last in file.regions] or [range(1, 2000)]
        lines[file.path] = frozenset(line for region in regions for line in region)
    return ExecutionTrace(lines, ())


def _read(base: Base, paths: Iterable[str]) -> Iterator[_File]:
    """The files at the base commit that are UTF-8. Paths come from inside the sandbox and may be forged."""
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


def _one_line(source: str) -> str:
    """Source as part of a sentence: it is untrusted, so without control characters, and shortened."""
    words = " ".join(source.split())
    return "".join(character for character in words[:100] if character.isprintable())


async def _finish(*tasks: asyncio.Task[object]) -> None:
    """Wait for all tasks; when cancelled, wait until they have ended."""
    try:
        await asyncio.gather(*tasks)
    finally:
        await _abandon(tasks)


async def _soon(task: asyncio.Task[list[_Candidate]]) -> bool:
    """Whether the task has ended; waits for a short time only, so that the caller can check the clock."""
    return bool((await asyncio.wait([task], timeout=SAY_EVERY_S))[0])


async def _abandon(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel unfinished tasks.

    Only once each: after a second cancel, asyncio waits forever for a process that is just starting.
    """
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        if not task.cancelling():
            task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
