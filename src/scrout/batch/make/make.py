"""Makes tasks from published packages: a mutation that breaks tests, an issue about it, and the answer.

All tests and scripts run in the sandbox. The same packages, versions, count and seed give the same tasks, as long as no
test run is near its time limit.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import os
import random
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from scrout.base import FrozenModel, TaskError
from scrout.batch.make.issues import ObservedFailure, gives_away, issue_with_code, issue_without_code
from scrout.batch.make.mutations import Mutation, compiles, mutations
from scrout.batch.make.packages import Package, open_package, split
from scrout.batch.make.scripts import (
    NOTES,
    PLUGIN,
    PLUGIN_SOURCE,
    FailingScript,
    NotedFailure,
    make_script,
    read_failures,
    sketch,
    without_tests,
)
from scrout.config.settings import SandboxSettings, Settings
from scrout.files import write_atomic
from scrout.sandbox.replay import ExecutionTrace, replay
from scrout.sandbox.reports import read_tracebacks
from scrout.sandbox.suite import Suite, SuiteRun, belongs_to_tests, run_suite, test_files
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.task import Gold, Task

LEAST_PASSING = 20
"""Minimum number of tests that pass with the bug: with fewer, broken patches go unnoticed."""
MOST_BROKEN = 40
"""Maximum number of tests that a bug may break: with more, the whole package is broken."""
SUITE_S = 120.0
"""Time limit for an untouched package's tests. A mutation gets four times their duration, and at least LEAST_S."""
LEAST_S = 30.0
SCRIPT_S = 20.0
TRIED_EACH = 25
SCRIPTS_TRIED = 4
FORMAT = 2
"""Version of stored results. A new number makes every package again."""
_EXAMPLE = "scrout_example.py"

Progress = Callable[[str], None]


class Origin(FrozenModel):
    """The origin of a task. It reveals the answer."""

    id: str
    package: str
    version: str
    operator: str
    path: str
    line: int
    function: str
    broken: int
    """Tests that fail with the bug, all of them hidden."""
    passing: int
    example: bool
    """True: the issue has code that shows the bug; False: it only describes the bug."""


class MadeTasks(FrozenModel):
    """The result for one package."""

    format: int = FORMAT
    requirement: str
    count: int
    seed: int
    version: str = ""
    origins: tuple[Origin, ...] = ()
    rows: tuple[str, ...] = ()
    tried: int = 0
    words: str = ""
    """Why there are no tasks, or fewer than requested; empty: all were made."""


@dataclass(frozen=True)
class _Wrong:
    path: str
    right: str
    wrong: str
    mutation: Mutation

    @property
    def changed(self) -> list[str]:
        lines = difflib.ndiff(self.right.splitlines(), self.wrong.splitlines())
        return [line[2:] for line in lines if line.startswith(("- ", "+ "))]


def make_tasks(
    requirements: Sequence[str],
    out: Path,
    tier: Tier,
    *,
    count: int = 8,
    seed: int = 1,
    jobs: int = 0,
    progress: Progress = lambda words: None,
) -> tuple[MadeTasks, ...]:
    """Make `count` tasks of each package in out/tasks.jsonl; keeps packages that an earlier call finished."""
    out = out.resolve()
    wanted = [split(requirement) for requirement in requirements]
    if len({name for name, _ in wanted}) < len(wanted):
        raise TaskError("a package is named twice. Name each once.")
    (out / "packages").mkdir(parents=True, exist_ok=True)
    done = []
    for (name, _), requirement in zip(wanted, requirements, strict=True):
        file, repo = out / "packages" / f"{name}.json", out / "repositories" / name
        asked = MadeTasks(requirement=requirement, count=count, seed=seed)
        made = _kept(file, asked, repo)
        if made is None:
            try:
                package = open_package(requirement, repo, tier, progress)
                made = asyncio.run(seed_package(package, asked, tier, jobs, progress))
            except TaskError as error:
                made = asked.model_copy(update={"words": str(error)})
            file.write_text(made.model_dump_json(indent=1), encoding="utf-8")
        done.append(made)
        _write(out, done)
    return tuple(done)


async def seed_package(
    package: Package, asked: MadeTasks, tier: Tier, jobs: int = 0, progress: Progress = lambda words: None
) -> MadeTasks:
    """The tasks of one prepared package; raises a TaskError if none can be made."""
    return await _Maker(package, tier, asked, jobs or os.cpu_count() or 1, progress).make()


def _kept(file: Path, asked: MadeTasks, repo: Path) -> MadeTasks | None:
    """The result of an earlier call with the same parameters, unless it failed."""
    try:
        made = MadeTasks.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    same = all(getattr(made, name) == getattr(asked, name) for name in ("format", "requirement", "count", "seed"))
    return made if same and made.rows and (repo / ".venv").is_dir() else None


def _write(out: Path, done: Sequence[MadeTasks]) -> None:
    for name, lines in (
        ("tasks.jsonl", [line for made in done for line in made.rows]),
        ("origins.jsonl", [origin.model_dump_json() for made in done for origin in made.origins]),
    ):
        write_atomic(out / name, "".join(f"{line}\n" for line in lines))


class _Maker:
    def __init__(self, package: Package, tier: Tier, asked: MadeTasks, jobs: int, progress: Progress) -> None:
        self.package = package
        self.tier = tier
        self.asked = asked
        self.jobs = asyncio.Semaphore(jobs)
        self.progress = progress
        self.usual: frozenset[str] = frozenset()
        self.suite = Suite("pytest", ())
        self.limit_s = SUITE_S

    async def make(self) -> MadeTasks:
        with self._task_sandbox(self.package.good) as task_sandbox:
            self.suite = Suite("pytest", test_files(task_sandbox.base))
            execution_trace = await self._untouched(task_sandbox)
            candidates = list(self._candidates(execution_trace))[: TRIED_EACH * self.asked.count]
            made: list[tuple[Origin, str]] = []
            taken: set[tuple[str, str]] = set()
            tried = 0
            # The same number on every machine, so that the selection does not depend on it.
            for start in range(0, len(candidates), 4):
                batch = [one for one in candidates[start : start + 4] if (one.path, one.mutation.function) not in taken]
                runs = await asyncio.gather(*(self._run(task_sandbox, {one.path: one.wrong}) for one in batch))
                for wrong, run in zip(batch, runs, strict=True):
                    tried += 1
                    place = (wrong.path, wrong.mutation.function)
                    if place in taken or len(made) == self.asked.count:
                        continue
                    task = await self._task(task_sandbox, wrong, run)
                    if task is not None:
                        made.append(task)
                        taken.add(place)
                    self.progress(
                        f"{self.package.name} {self.package.version}: {len(made)} of {self.asked.count} tasks from "
                        f"{tried} mutations"
                    )
                if len(made) == self.asked.count:
                    break
        if made:
            self.package.show(json.loads(made[-1][1])["base_commit"])
        few = f"{len(made)} of {self.asked.count} tasks: {tried} of {len(candidates)} mutations were tried."
        return self.asked.model_copy(
            update={
                "version": self.package.version,
                "origins": tuple(origin for origin, _ in made),
                "rows": tuple(row for _, row in made),
                "tried": tried,
                "words": "" if len(made) == self.asked.count else few,
            }
        )

    @contextmanager
    def _task_sandbox(self, commit: str) -> Iterator[TaskSandbox]:
        task = Task(id="make", text="", repo=self.package.repo, base_commit=commit)
        with open_task_sandbox(task, self.tier, Settings(sandbox=SandboxSettings(timeout_s=SUITE_S))) as task_sandbox:
            yield task_sandbox

    async def _untouched(self, task_sandbox: TaskSandbox) -> ExecutionTrace:
        """The tests that always pass, their duration, and the lines they run."""
        self.progress(f"{self.package.name} {self.package.version}: running its tests")
        first = await self._run(task_sandbox, {})
        again = await self._run(task_sandbox, {}, watch=True)
        name = f"{self.package.name} {self.package.version}"
        if not (first.finished and again.finished):
            raise TaskError(
                f"{name} cannot be used: its tests do not finish within {SUITE_S:g} seconds here. Try it alone."
            )
        self.usual = first.passed & again.passed
        if len(self.usual) <= LEAST_PASSING or not again.replay.execution_trace:
            tail = " ".join(first.replay.output.split())[-200:]
            raise TaskError(
                f"{name} cannot be used: {len(self.usual)} of its tests pass and run its code here, and more than "
                f"{LEAST_PASSING} must. The end of a run: {tail}"
            )
        self.limit_s = max(LEAST_S, 4 * first.replay.seconds)
        return again.replay.execution_trace

    async def _run(
        self, task_sandbox: TaskSandbox, files: Mapping[str, str], patches: Sequence[str] = (), *, watch: bool = False
    ) -> SuiteRun:
        async with self.jobs:
            workspace = task_sandbox.fresh()
            try:
                for path, text in files.items():
                    workspace.write(path, text.encode())
                for patch in patches:
                    said = await task_sandbox.apply(workspace, patch)
                    if said:
                        raise AssertionError(f"a patch of our own making does not apply: {said}")
                limit_s = SUITE_S if watch else self.limit_s
                return await run_suite(task_sandbox, workspace, self.suite, timeout_s=limit_s, watch=watch)
            finally:
                workspace.remove()

    def _candidates(self, execution_trace: ExecutionTrace) -> Iterator[_Wrong]:
        """Mutations of lines that tests run; operators take turns, so that no file and no operator dominates."""
        rng = random.Random(f"{self.asked.seed} {self.package.name} {self.package.version}")
        queues: dict[str, list[tuple[str, str, Mutation]]] = {}
        for path in sorted(execution_trace.lines):
            source = self.package.read(path) if path.endswith(".py") and not belongs_to_tests(path) else None
            if not source or not compiles(source):
                continue
            for mutation in mutations(source, execution_trace.lines[path], rng):
                queues.setdefault(mutation.operator, []).append((path, source, mutation))
        for operator in sorted(queues):
            rng.shuffle(queues[operator])
        names = sorted(queues)
        while names:
            rng.shuffle(names)
            for name in tuple(names):
                path, source, mutation = queues[name].pop()
                if not queues[name]:
                    names.remove(name)
                wrong = mutation.apply(source)
                if compiles(wrong):
                    yield _Wrong(path, source, wrong, mutation)

    async def _task(self, task_sandbox: TaskSandbox, wrong: _Wrong, run: SuiteRun) -> tuple[Origin, str] | None:
        """The task of a mutation; None: it cannot be described or judged."""
        broken = sorted((self.usual & run.failed) - run.passed)
        if not run.finished or not 1 <= len(broken) <= MOST_BROKEN or len(self.usual & run.passed) < LEAST_PASSING:
            return None
        hidden = self._hidden(broken)
        issue = await self._issue(task_sandbox, wrong, broken) if hidden is not None else None
        if hidden is None or issue is None:
            return None
        base = self.package.commit({wrong.path: wrong.wrong, **hidden})
        patch = self.package.diff(base, self.package.commit(hidden))
        test_patch = self.package.diff(base, self.package.commit({wrong.path: wrong.wrong}))
        passing = await self._judged(base, patch, test_patch, broken)
        if passing is None:
            return None
        self.package.keep(base)
        digest = hashlib.sha256(f"{base}\0{issue[0]}".encode()).hexdigest()
        task_id = f"{self.package.name}-{self.package.version}-{digest[:8]}"
        gold = Gold(
            patch=patch,
            test_patch=test_patch,
            files=(wrong.path,),
            fail_to_pass=tuple(broken),
            pass_to_pass=passing,
            test_command=self.suite.command(),
        )
        repo = f"repositories/{self.package.name}"
        row = {"id": task_id, "text": issue[0], "repo": repo, "base_commit": base, "gold": gold.model_dump(mode="json")}
        origin = Origin(
            id=task_id,
            package=self.package.name,
            version=self.package.version,
            operator=wrong.mutation.operator,
            path=wrong.path,
            line=wrong.mutation.line,
            function=wrong.mutation.function,
            broken=len(broken),
            passing=len(passing),
            example=issue[1],
        )
        return origin, json.dumps(row)

    def _hidden(self, broken: Sequence[str]) -> dict[str, str] | None:
        """The test files without the broken tests; None: some cannot be removed."""
        files: dict[str, str] = {}
        for path in sorted({name.partition("::")[0] for name in broken}):
            source = self.package.read(path)
            names = [name for name in broken if name.startswith(f"{path}::")]
            shown = without_tests(source, names) if source else None
            if shown is None or not compiles(shown):
                return None
            files[path] = shown
        return files

    async def _judged(self, base: str, patch: str, test_patch: str, broken: Sequence[str]) -> tuple[str, ...] | None:
        """Tests that pass with and without the fix; None: the task is not valid."""
        with self._task_sandbox(base) as task_sandbox:
            shown, unfixed, fixed = await asyncio.gather(
                self._run(task_sandbox, {}),
                self._run(task_sandbox, {}, [test_patch]),
                self._run(task_sandbox, {}, [test_patch, patch]),
            )
        passing = self.usual & unfixed.passed & fixed.passed
        right = (
            all(run.finished for run in (shown, unfixed, fixed))
            and not shown.failed & self.usual
            and len(shown.passed & self.usual) >= LEAST_PASSING
            and unfixed.failed.issuperset(broken)
            and fixed.passed.issuperset(broken)
            and not fixed.failed & self.usual
        )
        return tuple(sorted(passing)) if right and len(passing) >= LEAST_PASSING else None

    async def _issue(self, task_sandbox: TaskSandbox, wrong: _Wrong, broken: Sequence[str]) -> tuple[str, bool] | None:
        """The issue's text, and whether it has an example that shows the bug; None: impossible without revealing
        the answer.
        """
        rng = random.Random(f"{self.asked.seed} {wrong.path} {wrong.mutation}")
        names = rng.sample(broken, min(SCRIPTS_TRIED, len(broken)))
        failures = await self._failures(task_sandbox, wrong, names)
        for failure in failures:
            script = make_script(self._test_file(failure), failure)
            seen = await self._seen(task_sandbox, wrong, script) if script else None
            if seen is not None:
                text = issue_with_code(seen, rng)
                if not gives_away(text, wrong.path, wrong.changed):
                    return text, True
        for failure in failures:
            text = issue_without_code(self.package.name, failure, *sketch(self._test_file(failure), failure))
            if not gives_away(text, wrong.path, wrong.changed):
                return text, False
        return None

    def _test_file(self, failure: NotedFailure) -> str:
        return self.package.read(failure.test.partition("::")[0]) or ""

    async def _failures(self, task_sandbox: TaskSandbox, wrong: _Wrong, names: Sequence[str]) -> list[NotedFailure]:
        workspace = task_sandbox.fresh()
        try:
            workspace.write(wrong.path, wrong.wrong.encode())
            workspace.write(f"{PLUGIN}.py", PLUGIN_SOURCE.encode())
            command = f"python -m pytest -o addopts= -p no:cacheprovider -q -p {PLUGIN} {shlex.join(names)}"
            await replay(task_sandbox, workspace, command, timeout_s=self.limit_s)
            notes = (workspace.read(NOTES) or b"").decode(errors="replace")
        finally:
            workspace.remove()
        found = read_failures(notes, str(task_sandbox.root(workspace)))
        return [found[name] for name in names if name in found]

    async def _seen(self, task_sandbox: TaskSandbox, wrong: _Wrong, script: FailingScript) -> ObservedFailure | None:
        """The script's failure; None: it does not fail with the bug and pass without it."""
        good, _ = await self._example(task_sandbox, None, script.text)
        bad, said = await self._example(task_sandbox, wrong, script.text)
        tracebacks = read_tracebacks(said)
        if good != 0 or bad != 1 or not tracebacks:
            return None
        end = tracebacks[-1]
        if end.type != "AssertionError" or not end.frames[-1].path.endswith(_EXAMPLE):
            return ObservedFailure(script, error=end.type, message=end.message)
        if not script.left:
            return ObservedFailure(script)
        values = f"import json as _json\nprint(_json.dumps([repr({script.left}), repr({script.right})]))\n"
        _, said = await self._example(task_sandbox, wrong, f"{script.setup}\n{values}")
        try:
            got, expected = (str(value) for value in json.loads(said.splitlines()[-1]))
        except (ValueError, IndexError, TypeError):
            return ObservedFailure(script)
        told = got != expected and " at 0x" not in got + expected
        return ObservedFailure(script, got=got, expected=expected) if told else ObservedFailure(script)

    async def _example(self, task_sandbox: TaskSandbox, wrong: _Wrong | None, text: str) -> tuple[int | None, str]:
        workspace = task_sandbox.fresh()
        try:
            if wrong:
                workspace.write(wrong.path, wrong.wrong.encode())
            workspace.write(_EXAMPLE, text.encode(errors="replace"))
            done = await replay(task_sandbox, workspace, f"python {_EXAMPLE}", timeout_s=SCRIPT_S)
            return done.exit_code, done.output
        finally:
            workspace.remove()
