"""Stages as jobs: one request starts a job, others watch and fetch it, and the caller's budget pays for it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

from scrout.base import ScroutError
from scrout.config.folders import cache_folder
from scrout.config.settings import Caller, Settings
from scrout.ledger.opening import open_ledger
from scrout.ledger.store import Ledger
from scrout.redact import redact, redact_dumped
from scrout.server.api.access import RequestRefused, must_be_allowed
from scrout.server.api.schemas import Answer, FixRequest, GateRequest, Job, RouteRequest, ScoutRequest, Stage, Status
from scrout.server.api.store import ApiStore, BudgetTooSmall, Spend
from scrout.server.cancellation import Say, cancellable, in_thread
from scrout.server.service import Service
from scrout.text import usd

MAX_SAID = 500
"""Number of a job's progress messages to keep for late listeners: the latest ones."""
MAX_WORDS = 300

Form = ScoutRequest | GateRequest | RouteRequest | FixRequest


@dataclass
class _Work:
    """A job in progress."""

    job: Job
    caller: str
    spending: int | None
    """The number of its reservation; None: it is free."""
    before_usd: Decimal = Decimal(0)
    """The cost of its run when the job opened it."""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_SAID))
    """The latest messages."""
    number: int = 0
    """The number of the last message."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """One per listener, set at each new message."""
    doing: asyncio.Task[Answer] | None = None
    """The stage's task, which can be cancelled."""
    task: asyncio.Task[None] | None = None
    """The whole job's task, up to its last entry."""

    async def report(self, _: int, words: str) -> None:
        self.number += 1
        self.said.append(words)
        self.job = self.job.model_copy(update={"said": words})
        self.tell()

    def after(self, number: int) -> list[tuple[int, str]]:
        """The messages after a number that are still kept."""
        first = self.number - len(self.said) + 1
        return [(first + index, words) for index, words in enumerate(self.said) if first + index > number]

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


class Jobs:
    def __init__(self, service: Service, store: ApiStore, secrets: Sequence[str] = ()) -> None:
        self._service = service
        self._store = store
        self._secrets = tuple(secrets)
        """Secrets that no redaction rule would find."""
        self._at_work: dict[str, _Work] = {}
        self._closing = False

    def recover(self) -> None:
        """Take over the state of a killed server: settles its payments, and marks its jobs as interrupted."""
        with open_ledger(self._service.settings) as ledger:
            ledger.in_progress()  # report an unreadable ledger before the first request
            self._store.recover(partial(_billed, ledger))
        for job in self._store.unfinished():
            ended = _ended(job, "interrupted", error="the server was ended. Send the same request again.")
            self._store.change(ended.model_copy(update={"cost_usd": self._store.cost_usd(job.id)}))

    async def start(self, caller: Caller, stage: Stage, form: Form, key: str) -> Job:
        """Start a request's job. With a key, the same request gets the same job."""
        must_be_allowed(caller, stage)
        if isinstance(form, RouteRequest) and form.run:
            self._must_own(caller, form.run)
        asked = hashlib.sha256(form.model_dump_json().encode()).hexdigest()
        known = self._known(caller, stage, key, asked)
        if isinstance(form, ScoutRequest) and (known is None or known.status == "interrupted"):
            await self._must_be_there(form.repo)
            known = self._known(caller, stage, key, asked)  # another request with the same key may have come meanwhile
        if known and known.status != "interrupted":
            return known
        self._must_have_room(caller, stage)
        job = known or Job(id=f"job-{secrets.token_hex(12)}", stage=stage, status="running", created=_now())
        job = job.model_copy(update={"status": "running", "ended": None, "error": "", "cost_usd": None})
        work = _Work(job, caller.name, self._held(caller, form, job.id))
        try:
            if known:
                self._store.change(job)
            else:
                self._store.add(job, caller.name, key, asked)
        except BaseException:
            self._settle(work, Spend(Decimal(0)))
            raise
        self._at_work[job.id] = work
        work.doing = asyncio.create_task(cancellable(partial(self._do, work, form), work.report))
        work.task = asyncio.create_task(self._run(work))
        return job

    def job(self, caller: Caller, job_id: str) -> Job:
        work = self._at_work.get(job_id)
        if work and work.caller == caller.name:
            return work.job
        found = self._store.job(caller.name, job_id)
        if found is None:
            raise RequestRefused(
                404, "No such job", f"you have no job {job_id[:60]!r}. GET /v1/jobs lists those you have."
            )
        return found

    def jobs(self, caller: Caller, limit: int) -> list[Job]:
        return [self._newest(job).model_copy(update={"result": None}) for job in self._store.jobs(caller.name, limit)]

    async def wait(self, job: Job, seconds: float) -> Job:
        """The job once it has ended, or its current state when the time is over."""
        work = self._at_work.get(job.id)
        if work is None or work.task is None:
            return job
        if seconds > 0:
            await asyncio.wait({work.task}, timeout=seconds)
        return work.job

    async def call_off(self, caller: Caller, job_id: str) -> Job:
        """End a job and its sandbox. A finished job stays unchanged."""
        job, work = self.job(caller, job_id), self._at_work.get(job_id)
        if work is None:
            return job
        await _end(work)
        return work.job

    async def follow(self, job: Job, after: int) -> AsyncIterator[tuple[int, str | None]]:
        """Messages of a job, numbered from 1, starting after a number; None once it has ended."""
        work = self._at_work.get(job.id)
        number = after if work is None else min(after, work.number)  # a job that continues counts from 1 again
        while work is not None:
            news = work.news
            for told, words in work.after(number):
                number = told
                yield number, words
            if work.job.ended:
                break
            await news.wait()
        yield number + 1, None

    async def close(self) -> None:
        """Refuse new jobs, and end all; they count as interrupted."""
        self._closing = True
        await asyncio.gather(*(_end(work) for work in list(self._at_work.values())))

    def _known(self, caller: Caller, stage: Stage, key: str, asked: str) -> Job | None:
        """The job of a key; None: it is new, or there is no key."""
        found = self._store.by_key(caller.name, stage, key) if key else None
        if found is None:
            return None
        job, before = found
        if before != asked:
            raise RequestRefused(
                422, "Key used before", "this Idempotency-Key was used for another request. Use a new one."
            )
        return self._newest(job)

    def _newest(self, job: Job) -> Job:
        work = self._at_work.get(job.id)
        return work.job if work else job

    def _must_own(self, caller: Caller, run: str) -> None:
        """A caller must not learn another's issues and scoutings."""
        at_work = any(work.caller == caller.name and work.job.run == run for work in self._at_work.values())
        if not at_work and not self._store.owns(caller.name, run):
            raise RequestRefused(
                422, "No such run", f"you have no run {run[:100]!r}. Pass one that a job of yours names."
            )

    async def _must_be_there(self, repo: str) -> None:
        try:
            await in_thread(partial(self._service.source, repo))
        except ScroutError as error:
            raise RequestRefused(422, "No such repository", self._clean(str(error))) from None

    def _must_have_room(self, caller: Caller, stage: Stage) -> None:
        if self._closing:
            raise ending()
        own = [work.job for work in self._at_work.values() if work.caller == caller.name]
        busy = sum(job.stage != "route" for job in own)
        if stage != "route" and busy >= caller.jobs:
            detail = f"{busy} jobs of caller {caller.name!r} are under way, and it may have {caller.jobs} at a time."
            raise RequestRefused(429, "Too many jobs", f"{detail} Wait for one to end.", 5)

    def _held(self, caller: Caller, form: Form, job_id: str) -> int | None:
        most = max_cost_usd(self._service.settings, form)
        if not most:
            return None
        try:
            return self._store.hold(caller.name, caller.budget_usd, most, job=job_id)
        except BudgetTooSmall as small:
            why = f"this may cost {usd(most, exact=True)}"
            raise RequestRefused(402, "Budget too small", too_small(caller, why, small)) from None

    def _settle(self, work: _Work, bill: Spend) -> None:
        if work.spending is not None:
            self._store.settle(work.spending, bill)

    async def _run(self, work: _Work) -> None:
        """Run a job to its end, in whatever way, and book it."""
        ended = await self._outcome(work)
        try:
            if work.spending is not None:
                self._settle(work, await in_thread(partial(self._bill, work)))
            ended = ended.model_copy(update={"cost_usd": self._store.cost_usd(work.job.id)})
            self._store.change(ended)
        except ScroutError as error:  # the reservation stays: the next server settles it
            ended = _ended(work.job, "failed", error=self._clean(str(error)))
        finally:
            work.job = ended
            del self._at_work[ended.id]
            work.tell()

    async def _outcome(self, work: _Work) -> Job:
        assert work.doing
        try:
            answer = await work.doing
            return _ended(work.job, "done", result=await asyncio.to_thread(self._answered, answer))
        except asyncio.CancelledError:
            return _ended(work.job, "interrupted" if self._closing else "called_off")
        except ScroutError as error:
            return _ended(work.job, "failed", error=self._clean(str(error)))
        except OSError as error:
            return _ended(work.job, "failed", error=f"{error.strerror or error}. Check permissions and free space.")
        except Exception as error:  # a bug ends only its own job; the server's log has the details
            asyncio.get_running_loop().call_exception_handler({"message": f"{work.job.id} failed", "exception": error})
            return _ended(work.job, "failed", error=f"a fault of scrout's: {type(error).__name__}. Please report it.")

    async def _do(self, work: _Work, form: Form, say: Say) -> Answer:
        ask, opened = self._service, partial(self._opened, work)

        def tell(words: str) -> None:
            say(self._clean(words)[:MAX_WORDS])

        match form:
            case RouteRequest():
                return Answer(decision=await ask.route(form.issue, form.run))
            case GateRequest():
                gated = await ask.gate(form.issue, form.handoff, form.repo, dirty=form.dirty, say=tell, opened=opened)
                return Answer(gated=gated.result, notes=gated.notes)
            case FixRequest():
                fixed = await ask.fix(form.issue, form.repo, dirty=form.dirty, say=tell, opened=opened)
                return Answer(run=fixed.result, notes=fixed.notes)
            case ScoutRequest():
                scouted = await ask.scout(form.issue, form.repo, dirty=form.dirty, say=tell, opened=opened)
                return Answer(scouting=scouted.result, notes=scouted.notes)

    def _opened(self, work: _Work, run_id: str, paid_usd: Decimal) -> None:
        work.before_usd = paid_usd
        if work.spending is not None:
            self._store.belongs(work.spending, run_id, paid_usd)
        work.job = work.job.model_copy(update={"run": run_id})
        self._store.change(work.job)

    def _bill(self, work: _Work) -> Spend:
        if not work.job.run:
            return Spend(Decimal(0))
        with open_ledger(self._service.settings) as ledger:
            return Spend(max(ledger.paid_usd(work.job.run) - work.before_usd, Decimal(0)))

    def _clean(self, words: str) -> str:
        """Text without secrets and the server's own paths; invalid bytes become question marks."""
        for place, name in ((self._service.root, "."), (cache_folder(), "(cache)"), (Path.home(), "~")):
            words = words.replace(f"{place}/", f"{name}/").replace(str(place), name)
        return redact(words, self._secrets).encode(errors="replace").decode()

    def _answered(self, answer: Answer) -> dict[str, object]:
        """The same as JSON, without the scout's vector."""
        dumped = answer.model_dump(mode="json", exclude={"scouting": {"state"}, "run": {"scouting": {"state"}}})
        clean = json.loads(redact_dumped(json.dumps(dumped), self._secrets))
        text: dict[str, object] = json.loads(json.dumps(clean, ensure_ascii=False).encode(errors="replace"))
        return text


def max_cost_usd(settings: Settings, form: Form) -> Decimal:
    """The maximum cost of a request: scouting by a model, and the budget of all attempts."""
    if isinstance(form, RouteRequest) or (isinstance(form, GateRequest) and form.handoff.strip()):
        return Decimal(0)
    searcher = settings.scout.model
    scouting = searcher.cap_usd if settings.scout.has_model and searcher.costs else Decimal(0)
    if not isinstance(form, FixRequest):
        return scouting
    each, cap = [fixer.max_cost_usd for fixer in settings.fixers], settings.fix.cap_usd
    return scouting + (max(each) if cap is None else min(cap, sum(each, Decimal(0))))


def too_small(caller: Caller, why: str, small: BudgetTooSmall) -> str:
    left, whole = usd(small.remaining_usd, exact=True), usd(caller.budget_usd)
    return (
        f"{why}, and {left} is left of the {whole} that caller {caller.name!r} may spend today (UTC). "
        "Wait for what is under way, or for tomorrow, or raise `budget_usd` in scrout.toml."
    )


def ending() -> RequestRefused:
    return RequestRefused(503, "Ending", "this server is being ended. Send it again to the next one.", 5)


async def _end(work: _Work) -> None:
    """Cancel it, but only once: a second cancel would interrupt its cleanup."""
    if work.doing and not work.doing.cancelling():
        work.doing.cancel()
    if work.task:
        await asyncio.wait({work.task})


def _ended(job: Job, status: Status, **more: object) -> Job:
    return job.model_copy(update={"status": status, "ended": _now(), **more})


def _billed(ledger: Ledger, run_id: str) -> Spend | None:
    """A run's cost so far; None: this ledger does not have it."""
    if ledger.ended(run_id) is None:
        return None
    calls = sum(len(step.receipts) for step in ledger.steps(run_id) if step.name == "fix")
    return Spend(ledger.paid_usd(run_id), calls)


def _now() -> datetime:
    return datetime.now(UTC)
