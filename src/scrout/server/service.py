"""The stages as a service, with the commands' code: one folder, one configuration, any number of calls.

A scouting is a step of a run that stays open, so that `fix` on the same issue and commit reuses it and pays for it
once; so is the gate's verdict on it. A client's own handoff is replayed in a separate run.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Generic, TypeVar

from scrout import handoff
from scrout.base import FrozenModel, HandoffError, LedgerError, ModelError, TaskError
from scrout.config.settings import Settings
from scrout.handoff import Handoff
from scrout.ledger.opening import open_ledger
from scrout.ledger.store import Ledger, OpenRun
from scrout.money import Receipt
from scrout.pipeline import Kit, Stages, build_missing, open_kit, open_task, router, solve
from scrout.records import Decision, GatedHandoff, Run, Scouting, State
from scrout.route.feedback import own_folder
from scrout.route.router import Router
from scrout.sandbox.workspace import SourceRepository, count_changed, find_source
from scrout.server.cancellation import Say, in_thread
from scrout.task import Task, issue_text

MAX_KEPT = 10_000
"""Maximum number of cached decisions; the least recently used ones are removed."""
LOOK_S = 1.0
"""How often to check the résumés for changes."""

Print = tuple[tuple[str, int, int], ...]


class SharedRouter:
    """Routes tasks from any thread. Reads changed résumés again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one_at_a_time = threading.Lock()
        self._router: Router | None = None
        self._print: Print = ()
        self._looked = float("-inf")
        self._kept: OrderedDict[str, Decision] = OrderedDict()

    def route(self, text: str, state: State | None = None) -> Decision:
        key = hashlib.sha256(f"{state.model_dump_json() if state else ''}\0{text}".encode(errors="replace")).hexdigest()
        with self._one_at_a_time:
            chooser = self._fresh()
            if key not in self._kept:
                self._kept[key] = chooser.route(text, state)
                if len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def _fresh(self) -> Router:
        if self._router is None or time.monotonic() - self._looked >= LOOK_S:
            # Checked before reading, so that a change during the read is noticed next time.
            found = _print(own_folder(self._settings.route))
            if self._router is None or found != self._print:
                self._router, self._print = router(self._settings), found
                self._kept.clear()
            self._looked = time.monotonic()
        return self._router


def _print(folder: Path) -> Print:
    """A fingerprint of a folder's state."""
    found = []
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # removed since
            about = path.stat()
            found.append((str(path), about.st_mtime_ns, about.st_size))
    return tuple(found)


MOST_AT_ONCE = 4
"""Maximum number of concurrent calls in a sandbox; others wait."""
MAX_HANDOFF_CHARS = 100_000
"""Far more than any handoff, which has at most 4,096 bytes in wire form."""


T = TypeVar("T", bound=FrozenModel)


def _nobody(run_id: str, paid_usd: Decimal) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class ServiceResult(Generic[T]):
    """The result of a call, and its run."""

    run: str
    notes: tuple[str, ...]
    result: T


Opened = Callable[[str, Decimal], None]
"""Called with a call's run before its first step, and the run's cost so far, because an older run may be resumed."""


@dataclass(frozen=True)
class Service:
    """Runs stages on repositories in one folder."""

    root: Path
    """Nothing outside of it is accessible, with symlinks followed."""
    settings: Settings
    """For every call, whatever scrout.toml a repository has."""
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))

    @cached_property
    def routing(self) -> SharedRouter:
        return SharedRouter(self.settings)

    async def scout(
        self, issue: str, repo: str, *, dirty: bool, say: Say, opened: Opened = _nobody
    ) -> ServiceResult[Scouting]:
        async with self._opened(issue, repo, dirty, say, opened) as (task, kit, notes):
            stages = kit.open(task)
            return ServiceResult(stages.run.id, notes, await _scouted(stages))

    async def gate(
        self, issue: str, claim: str, repo: str, *, dirty: bool, say: Say, opened: Opened = _nobody
    ) -> ServiceResult[GatedHandoff]:
        """`claim` is a handoff; empty: the scout's own."""
        claimed = await asyncio.to_thread(read_handoff, claim) if claim.strip() else None
        async with self._opened(issue, repo, dirty, say, opened) as (task, kit, notes):
            if claimed is None:
                stages = kit.open(task)
                return ServiceResult(stages.run.id, notes, await stages.gate(await _scouted(stages)))
            stages = replace(kit, context=replace(kit.context, fresh=True, label="gate")).open(task)
            text = await asyncio.to_thread(handoff.render, claimed)
            brought = Scouting(handoff=claimed, text=text, seconds=0, searcher="client")
            gated = await stages.gate(brought)
            stages.run.close("unjudged")
            return ServiceResult(stages.run.id, notes, gated)

    async def route(self, issue: str, run_id: str) -> Decision:
        """Route by the issue's text, and by the scouting of a run if there is one.

        Nothing runs, and no fixer is paid.
        """
        if run_id:
            run = await in_thread(partial(self.run, run_id))
            if run.scouting is None:
                raise LedgerError(f"run {run_id} has no scouting. Call scout first, and pass the run that it names.")
            words, state = run.task.text, run.scouting.state
        else:
            words, state = await asyncio.to_thread(read_issue, issue), None
        return await in_thread(lambda: self.routing.route(words, state))

    async def fix(
        self, issue: str, repo: str, *, dirty: bool, say: Say, opened: Opened = _nobody
    ) -> ServiceResult[Run]:
        async with self._opened(issue, repo, dirty, say, opened) as (task, kit, notes):
            run = await solve(task, kit)
            return ServiceResult(run.id, notes, run)

    def run(self, run_id: str) -> Run:
        """One run of a repository in the folder, by its complete id."""
        with open_ledger(self.settings) as book:
            try:
                run = book.run(run_id)
            except LedgerError:
                run = None
        # Runs of other folders are treated as missing.
        if run is None or run.id != run_id or not run.task.repo.is_relative_to(self.root):
            raise LedgerError(f"there is no run {run_id[:100]!r} of this folder. Use an id that a tool has named.")
        return run

    def receipts(self, run_id: str) -> tuple[Receipt, ...]:
        with open_ledger(self.settings) as book:
            return book.receipts(self.run(run_id).id)

    def source(self, repo: str) -> SourceRepository:
        """The repository that a client names, if it is in the folder; empty: the folder's own."""
        refused = TaskError(
            f"repo {repo[:200]!r} is no repository inside of the folder that this server is for. Leave it out, or name "
            "one relative to that folder."
        )
        try:
            folder = (self.root / repo).resolve()
            allowed = folder.is_relative_to(self.root) and folder.is_dir()
        except (OSError, RuntimeError, ValueError):  # a symlink loop, a NUL, a name that is too long
            allowed = False
        if not allowed:
            raise refused
        found = find_source(folder)
        if not found.repo.is_relative_to(self.root):
            raise refused
        # Only the server's own work tree may have its git directory elsewhere.
        if found.repo != self.root and not found.store.is_relative_to(self.root):
            raise refused
        return found

    @asynccontextmanager
    async def _opened(
        self, issue: str, repo: str, dirty: bool, say: Say, opened: Opened
    ) -> AsyncIterator[tuple[Task, Kit, tuple[str, ...]]]:
        words = await asyncio.to_thread(read_issue, issue)
        if self._turn.locked():
            say("waiting for other calls to end")
        async with self._turn, AsyncExitStack() as stack:
            say("copying the repository")
            source = await in_thread(partial(self.source, repo))
            bounds = self.settings.sandbox
            changed = 0 if dirty else await in_thread(partial(count_changed, source, bounds))
            task = await in_thread(partial(open_task, source.repo, words, dirty=dirty, bounds=bounds))
            await build_missing(task, self.settings, say)
            kit = await in_thread(partial(stack.enter_context, open_kit(task, self.settings, say)))

            def tell(run: OpenRun, ledger: Ledger = kit.ledger) -> None:
                opened(run.id, ledger.paid_usd(run.id) if run.resumed else Decimal(0))

            yield task, replace(kit, context=replace(kit.context, opened=tell)), _notes(changed, kit)


async def _scouted(stages: Stages) -> Scouting:
    """The first step of a run that stays open; without a handoff, closes the run and raises a ModelError."""
    found = await stages.scout()
    if found.stop not in ("finished", "forced"):
        # If it stayed open, the next call would only repeat the failure.
        stages.run.close("infrastructure" if found.stop == "endpoint" else "not_solved")
        raise ModelError(
            f"the searcher gave no handoff ({found.stop}): {found.detail or 'nothing more is known'}. Call scout "
            "again, or have the user set scout.searcher to recon, which needs no model."
        )
    return found


def root_of(folder: Path) -> Path:
    """The root for a server in this folder: the repository around it, or the folder, which may contain several."""
    try:
        return find_source(folder).repo
    except TaskError:
        if not folder.is_dir():
            raise
        return folder.resolve()


def read_issue(issue: str) -> str:
    if not issue.strip():
        raise TaskError("the issue is empty. Pass its text: what is wrong, and how it shows.")
    return issue_text(issue.encode(errors="surrogatepass"), "this call")


def read_handoff(claim: str) -> Handoff:
    if len(claim) > MAX_HANDOFF_CHARS:
        raise HandoffError(
            f"the handoff has {len(claim):,} characters; at most {MAX_HANDOFF_CHARS:,} are read. Pass what scout gave."
        )
    return handoff.read(claim.encode(errors="surrogatepass"))


def _notes(changed: int, kit: Kit) -> tuple[str, ...]:
    """Notes for the caller; `changed`: number of paths that were left out."""
    notes = []
    if changed:
        notes.append(f"{changed} uncommitted changes were left out; dirty=true includes them.")
    if kit.task_sandbox.base.submodules:
        notes.append("Submodules were left empty.")
    if kit.task_sandbox.tier.strength == 0:
        notes.append("There is no isolation: commands of the repository run as the user.")
    if kit.task_sandbox.environment.missing:
        notes.append(kit.task_sandbox.environment.missing)
    return tuple(notes)
