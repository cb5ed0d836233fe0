"""The whole job: scout, gate, route, fix and check one task. Start reading at `solve`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path

from scrout import telemetry
from scrout.config.settings import Fixer, SandboxSettings, Settings
from scrout.fix.pool import completed, refuse_unpriced
from scrout.ledger.opening import attempts_folder, open_ledger
from scrout.ledger.store import Ledger, OpenRun
from scrout.money import Receipt, known_usd, total_usd
from scrout.records import Attempt, Check, Decision, GatedHandoff, Run, Scouting
from scrout.route.feedback import own_folder
from scrout.route.policy import goes_on, order
from scrout.route.router import Router
from scrout.sandbox.environment import find_environment
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.workspace import find_source, make_base
from scrout.scout.searcher import SEARCHERS, ScoutJob
from scrout.task import Task, task_id


async def solve(task: Task, kit: Kit) -> Run:
    """Scout, gate, route, fix and check one task.

    Every stage is a durable step, and every paid call is in the ledger.
    """
    stages = kit.open(task)
    scouting = await stages.scout()
    if kit.context.batch and scouting.stop == "endpoint":  # a single run continues without a handoff; a batch retries
        return stages.run.close("infrastructure")
    gated = await stages.gate(scouting)
    decision = await stages.route(scouting)
    attempts: list[Attempt] = []
    fixers = stages.order(gated, decision)  # the free one, then the chosen one; more with escalation
    for fixer in fixers:
        left_usd = stages.left_usd(fixers, attempts)
        if left_usd <= stages.run.lost_usd("fix") and fixer.max_cost_usd:
            break
        attempts.append(await stages.fix(gated, decision, fixer.name, left_usd))
        if not goes_on(fixer, await stages.check(gated, attempts[-1])):
            break
    return stages.run.close()


@dataclass(frozen=True)
class RunContext:
    """What a run is part of. The default: a run by itself."""

    batch: str = ""
    """The batch's id; empty: none."""
    label: str = ""
    """The batch's job."""
    router: Router | None = None
    """An embedder to share, made for these settings; None: created when it is needed."""
    attempts: Path = field(default_factory=attempts_folder)
    """Folder for trajectories."""
    fresh: bool = False
    """True: start over instead of resuming an interrupted run with the same task and settings."""
    opened: Callable[[OpenRun], None] = field(default=lambda run: None)
    """Called with the run before its first step."""


@dataclass(frozen=True)
class Kit:
    """The adapters that the stages of one task use."""

    settings: Settings
    ledger: Ledger
    task_sandbox: TaskSandbox
    progress: Callable[[str], None] = field(default=lambda words: None)
    """Called with a few words about the work in progress, at most several times per second."""
    context: RunContext = field(default_factory=RunContext)

    @property
    def environment(self) -> str:
        return self.task_sandbox.environment.label

    def open(self, task: Task) -> Stages:
        return Stages(self, task, self.open_run(task))

    def open_run(self, task: Task) -> OpenRun:
        """A new run in the ledger, or an interrupted one to resume."""
        if self.settings.scout.has_model:
            self.settings.scout.model.key()  # report a missing key before a run starts
        refuse_unpriced(self.settings)
        telemetry.require(self.settings)
        context = self.context
        sandbox = self.task_sandbox.tier.name
        run = self.ledger.open(
            task,
            self.settings.digest(),
            sandbox=sandbox,
            environment=self.environment,
            batch=context.batch,
            arm=context.label,
            resume=not context.fresh,
        )
        run.watch = telemetry.watch(
            self.settings,
            run,
            task,
            batch=context.batch,
            arm=context.label,
            sandbox=sandbox,
            attempts=context.attempts,
        )
        context.opened(run)
        return run


@dataclass(frozen=True)
class Stages:
    """The stages of one run. Each is a step in the ledger: its input identifies it, and its result is stored."""

    kit: Kit
    task: Task
    run: OpenRun

    async def scout(self) -> Scouting:
        return await self.run.step("scout", partial(scout, self.kit, run=self.run), self.task)

    async def gate(self, scouting: Scouting) -> GatedHandoff:
        return await self.run.step("gate", self._gate, self.task, scouting)

    async def _gate(self, task: Task, scouting: Scouting) -> GatedHandoff:
        from scrout.gate.gate import gate

        self.kit.progress("replaying the scout's claim")
        return await gate(task, scouting.handoff, self.kit.task_sandbox, self.kit.settings.gate)

    async def route(self, scouting: Scouting) -> Decision:
        return await self.run.step("route", self._route, self.task, scouting)

    async def _route(self, task: Task, scouting: Scouting) -> Decision:
        self.kit.progress("choosing a fixer")

        def choose() -> Decision:
            return (self.kit.context.router or router(self.kit.settings)).route(task.text, scouting.state)

        embedder = self.kit.settings.route.embedder
        if not embedder.has_endpoint:
            return await asyncio.to_thread(choose)
        from scrout.route.embedder_account import on_the_bill

        paid: list[Receipt] = []

        def book(receipt: Receipt) -> None:
            paid.append(receipt)
            self.run.book(receipt)

        async with on_the_bill(embedder, self.kit.context.attempts / self.run.place, book):
            decision = await asyncio.to_thread(choose)
        return decision.model_copy(update={"cost_usd": total_usd(receipt.cost_usd for receipt in paid)})

    def order(self, gated: GatedHandoff, decision: Decision) -> list[Fixer]:
        """The fixers that may try, in order."""
        settings = self.kit.settings
        free_first = settings.fix.free_first and gated.verified
        return order(
            decision,
            settings.fixers,
            free_first=free_first,
            escalate=settings.fix.escalate,
            anchor=settings.route.anchor,
        )

    def left_usd(self, fixers: Sequence[Fixer], attempts: Sequence[Attempt]) -> Decimal:
        """The rest of the budget that all attempts at a task share."""
        settings = self.kit.settings
        whole = max(fixer.max_cost_usd for fixer in fixers) if settings.fix.cap_usd is None else settings.fix.cap_usd
        spent = known_usd(one.cost_usd for attempt in attempts for one in attempt.receipts)
        return whole - spent

    async def fix(self, gated: GatedHandoff, decision: Decision, fixer: str, left_usd: Decimal) -> Attempt:
        # The cost of interrupted attempts is not part of the step's identity; otherwise, finished attempts would be
        # repeated and paid for again.
        return await self.run.step("fix", self._fix, self.task, gated, decision, fixer, left_usd)

    async def _fix(self, task: Task, gated: GatedHandoff, decision: Decision, fixer: str, left_usd: Decimal) -> Attempt:
        from scrout.fix.fix import fix
        from scrout.fix.kind import FixJob
        from scrout.fix.prompt import mode_of

        kit = self.kit
        kit.progress(f"{fixer} is at work")
        entry = kit.settings.fixer(fixer)
        job = FixJob(
            task,
            gated,
            kit.task_sandbox,
            kit.settings,
            kit.progress,
            self.run.book,
            folder=kit.context.attempts / self.run.place,
            mode=mode_of(entry, kit.settings.fix.handoff, decision),
            cap_usd=left_usd - self.run.lost_usd("fix"),
        )
        return await fix(entry, job)

    async def check(self, gated: GatedHandoff, attempt: Attempt) -> Check:
        return await self.run.step("check", self._check, self.task, gated, attempt)

    async def _check(self, task: Task, gated: GatedHandoff, attempt: Attempt) -> Check:
        from scrout.check.check import check

        self.kit.progress("checking the patch")
        return await check(task.text, gated, attempt, self.kit.task_sandbox)


async def scout(kit: Kit, task: Task, *, run: OpenRun | None = None) -> Scouting:
    """Scout a task. With `run`, its receipts are stored in the ledger."""
    kit.progress("scouting the repository")
    settings = kit.settings.scout
    job = ScoutJob(task, kit.task_sandbox, settings, kit.progress)
    if run is not None:
        job = replace(job, record=run.book, folder=kit.context.attempts / run.place)
    return await SEARCHERS.get(settings.searcher).search(job)


def router(settings: Settings) -> Router:
    """The router over the shipped résumés and the user's."""
    return Router(settings, own_folder(settings.route))


def open_task(repo: Path, text: str, *, dirty: bool = False, bounds: SandboxSettings | None = None) -> Task:
    """Make a task of a local repository's issue, at HEAD or with uncommitted changes."""
    source = find_source(repo)
    commit = make_base(source.repo, source.head, dirty=True, bounds=bounds).commit if dirty else source.head
    return Task(id=task_id(source.repo, commit, text), text=text, repo=source.repo, base_commit=commit, dirty=dirty)


async def build_missing(task: Task, settings: Settings, progress: Callable[[str], None]) -> None:
    """Build what the repository's environment lacks, if the settings allow it."""
    if not settings.environment.build:
        return
    from scrout.sandbox.environment_build import build_environment

    base = make_base(task.repo, task.base_commit, bounds=settings.sandbox)
    if find_environment(task.repo, settings.environment, base).missing:
        await build_environment(base, require_tier(settings.sandbox), settings.environment, progress)


@contextmanager
def open_kit(task: Task, settings: Settings, progress: Callable[[str], None] = lambda words: None) -> Iterator[Kit]:
    """Open everything a task needs. Removes workspaces and closes the ledger when the block ends."""
    tier = require_tier(settings.sandbox)
    with open_ledger(settings) as book, open_task_sandbox(task, tier, settings) as task_sandbox:
        yield Kit(settings, book, task_sandbox, progress)


def solve_issue(repo: Path, text: str, settings: Settings | None = None, *, dirty: bool = False) -> Run:
    """Solve one issue of a local repository. This is the function for library users."""
    settings = completed(settings or Settings())
    task = open_task(repo, text, dirty=dirty, bounds=settings.sandbox)
    with open_kit(task, settings) as kit:
        return asyncio.run(solve(task, kit))
