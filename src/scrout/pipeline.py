"""The whole job: scout, gate, route, fix and check one task. `solve` is the picture of it; Kit is the wiring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path

from scrout import telemetry
from scrout.config.settings import SandboxSettings, Settings
from scrout.fix.pool import completed, refuse_unpriced
from scrout.handoff import Handoff
from scrout.ledger.opening import attempts_folder, open_ledger
from scrout.ledger.store import Ledger, OpenRun
from scrout.money import known_usd
from scrout.records import Arm, Attempt, Check, Decision, GatedHandoff, Run, Scouting
from scrout.route.feedback import own_folder
from scrout.route.policy import order, proven_wrong
from scrout.route.router import Router
from scrout.sandbox.environment import find_environment
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.workspace import find_source, make_base
from scrout.task import Task, task_id


async def solve(task: Task, kit: Kit) -> Run:
    """Scout, gate, route, fix and check one task. Every step is durable; every paid call is in the ledger."""
    run = kit.open(task)
    scouting = await run.step("scout", partial(kit.scout, run=run), task)
    if kit.batch and scouting.stop == "endpoint":  # alone it goes on without; a batch tries again
        return run.close("infrastructure")
    gated = await run.step("gate", kit.gate, task, scouting)
    decision = await run.step("route", kit.route, task, scouting)
    attempts: list[Attempt] = []
    for fixer in kit.order(decision):  # one, unless escalation is on
        remaining_usd = kit.remaining_usd(run, decision, attempts)
        if remaining_usd <= 0 < kit.settings.fixer(fixer).max_cost_usd:
            break
        fix = partial(kit.fix, run=run, decision=decision, remaining_usd=remaining_usd)
        attempts.append(await run.step("fix", fix, task, gated, fixer))
        check = await run.step("check", kit.check, task, gated, attempts[-1])
        if not proven_wrong(check):
            break
    return run.close()


@dataclass(frozen=True)
class Kit:
    """One task's stages, wired to the adapters they use."""

    settings: Settings
    ledger: Ledger
    task_sandbox: TaskSandbox
    progress: Callable[[str], None] = field(default=lambda words: None)
    """Told in a few words what is going on, several times a second at most."""

    arm: Arm = "handoff"
    batch: str = ""
    """The batch that its run belongs to; empty: none."""
    label: str = ""
    """What of that batch it is."""
    router: Router | None = None
    """One that was made for these settings before; None: it is made when it is needed."""
    known: Run | None = None
    """A run of the same task that has scouted it: what that found is taken over, and paid once."""
    attempts: Path = field(default_factory=attempts_folder)
    """Where trajectories go."""
    fresh: bool = False
    """True: start over, also where an interrupted run of the same making could go on."""
    opened: Callable[[OpenRun], None] = field(default=lambda run: None)
    """Shown the run before its first step."""

    @property
    def environment(self) -> str:
        return self.task_sandbox.environment.label

    def open(self, task: Task) -> OpenRun:
        if self.settings.scout.searcher == "model":
            self.settings.scout.model.key()  # one that is missing is said before a run begins
        refuse_unpriced(self.settings)
        telemetry.require(self.settings)
        sandbox = self.task_sandbox.tier.name
        run = self.ledger.open(
            task,
            self.settings.digest(),
            sandbox=sandbox,
            environment=self.environment,
            batch=self.batch,
            arm=self.label,
            resume=not self.fresh,
        )
        run.watch = telemetry.watch(
            self.settings, run, task, batch=self.batch, arm=self.label, sandbox=sandbox, attempts=self.attempts
        )
        self.opened(run)
        return run

    async def scout(self, task: Task, *, run: OpenRun | None = None) -> Scouting:
        """`run` is what its calls are booked to; None: nothing keeps them."""
        if self.arm == "solo":
            return Scouting(handoff=Handoff(), text="", seconds=0, searcher="none", detail="the arm has no scout")
        if self.known and self.known.scouting:
            paid_by = self.known.scouting.paid_by or self.known.id
            return self.known.scouting.model_copy(update={"cost_usd": Decimal(0), "receipts": (), "paid_by": paid_by})
        self.progress("scouting the repository")
        settings = self.settings.scout
        if settings.searcher == "model":
            from scrout.scout.episode import episode

            if run is None:
                return await episode(task, self.task_sandbox, settings, self.progress)
            folder = self.attempts / run.place
            return await episode(task, self.task_sandbox, settings, self.progress, run.book, folder)
        from scrout.scout.recon.recon import recon

        return await recon(task, self.task_sandbox, settings, self.progress)

    async def gate(self, task: Task, scouting: Scouting) -> GatedHandoff:
        from scrout.gate.gate import gate, pass_through

        if self.arm == "passthrough":
            return await asyncio.to_thread(pass_through, scouting.handoff, self.task_sandbox)
        known = self.known.gated if self.known else None
        if self.arm == "handoff" and known and known.verdict != "not_replayed":
            return known
        self.progress("replaying the scout's claim")
        return await gate(task, scouting.handoff, self.task_sandbox, self.settings.gate)

    async def route(self, task: Task, scouting: Scouting) -> Decision:
        self.progress("choosing a fixer")

        def choose() -> Decision:
            return (self.router or router(self.settings)).route(task.text, scouting.state)

        return await asyncio.to_thread(choose)

    def order(self, decision: Decision) -> list[str]:
        return order(decision, self.settings.fixers, self.settings.fix.escalate, self.settings.route.anchor)

    def remaining_usd(self, run: OpenRun, decision: Decision, attempts: Sequence[Attempt]) -> Decimal:
        """What the next attempt may spend: all attempts at a task share one budget, interrupted ones too."""
        tries = [self.settings.fixer(name).max_cost_usd for name in self.order(decision)]
        whole = max(tries) if self.settings.fix.cap_usd is None else self.settings.fix.cap_usd
        spent = known_usd(one.cost_usd for attempt in attempts for one in attempt.receipts)
        return whole - spent - run.lost_usd("fix")

    async def fix(
        self,
        task: Task,
        gated: GatedHandoff,
        fixer: str,
        *,
        run: OpenRun,
        decision: Decision,
        remaining_usd: Decimal,
    ) -> Attempt:
        from scrout.fix.fix import fix
        from scrout.fix.prompt import mode_of

        self.progress(f"{fixer} is at work")
        entry = self.settings.fixer(fixer)
        return await fix(
            entry,
            task,
            gated,
            self.task_sandbox,
            self.settings,
            self.progress,
            run.book,
            folder=self.attempts / run.place,
            mode=mode_of(entry, self.settings.fix.handoff, decision),
            cap_usd=remaining_usd,
        )

    async def check(self, task: Task, gated: GatedHandoff, attempt: Attempt) -> Check:
        from scrout.check.check import check

        self.progress("checking the patch")
        return await check(gated, attempt, self.task_sandbox)


def router(settings: Settings) -> Router:
    """The router over the shipped résumés and the user's own."""
    return Router(settings, own_folder(settings.route))


def open_task(repo: Path, text: str, *, dirty: bool = False, bounds: SandboxSettings | None = None) -> Task:
    """An issue of a local repository as a task: from HEAD, or from the work tree as it is."""
    source = find_source(repo)
    commit = make_base(source.repo, source.head, dirty=True, bounds=bounds).commit if dirty else source.head
    return Task(id=task_id(source.repo, commit, text), text=text, repo=source.repo, base_commit=commit, dirty=dirty)


async def build_missing(task: Task, settings: Settings, progress: Callable[[str], None]) -> None:
    """Where the settings allow it, build what the repository's environment lacks."""
    if not settings.environment.build:
        return
    from scrout.sandbox.environment_build import build_environment

    base = make_base(task.repo, task.base_commit, bounds=settings.sandbox)
    if find_environment(task.repo, settings.environment, base).missing:
        await build_environment(base, require_tier(settings.sandbox), settings.environment, progress)


@contextmanager
def open_kit(task: Task, settings: Settings, progress: Callable[[str], None] = lambda words: None) -> Iterator[Kit]:
    """Everything a task needs; workspaces are gone and the ledger is closed when the block ends."""
    tier = require_tier(settings.sandbox)
    with open_ledger(settings) as book, open_task_sandbox(task, tier, settings) as task_sandbox:
        yield Kit(settings, book, task_sandbox, progress)


def solve_issue(repo: Path, text: str, settings: Settings | None = None, *, dirty: bool = False) -> Run:
    """Solve one issue of a local repository: the plain call for library users."""
    settings = completed(settings or Settings())
    task = open_task(repo, text, dirty=dirty, bounds=settings.sandbox)
    with open_kit(task, settings) as kit:
        return asyncio.run(solve(task, kit))
