"""`scrout/auto`: one model's name that stands for the pool.

A conversation is routed once and then keeps its fixer, so that the endpoint's prompt cache stays useful. Every call
goes through the meter. A conversation is a run in the ledger, with the decision and one attempt that lasts as long as
the conversation; the fixer's caps apply to all of it. An idle conversation releases its reserved budget, and continues,
with the same fixer, in a new run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pydantic import JsonValue

from scrout import telemetry
from scrout.base import ConfigError, LedgerError, ModelError
from scrout.config.settings import Caller, Fixer, Settings, read_key
from scrout.fix.metered import account_of, served
from scrout.ledger.opening import attempts_folder
from scrout.ledger.store import Ledger, OpenRun
from scrout.models.proxy.apis import CHAT
from scrout.models.proxy.call import HOPELESS
from scrout.models.proxy.client import ProxyClient, open_proxy_client
from scrout.models.proxy.upstream import ConnectFailed, StreamBroken, StreamingResponse, Upstream
from scrout.money import known_usd, total_usd
from scrout.records import Attempt, Decision, Stop
from scrout.server.api.access import RequestRefused, must_be_allowed
from scrout.server.api.jobs import ending, too_small
from scrout.server.api.store import ApiStore, BudgetTooSmall, ConversationState, Spend
from scrout.server.cancellation import in_thread
from scrout.server.service import SharedRouter
from scrout.task import Task
from scrout.text import usd
from scrout.trajectory import FILE_NAME

MODEL = "scrout/auto"
ARM = "auto"
"""The task name of a conversation's run in the ledger."""
MAX_TALKS = 256
"""Maximum number of conversations with an open account; each has a socket and a file."""
MAX_FULL = 10_000
MAX_TASK_CHARS = 100_000
"""Maximum length of the opening for the router."""
SILENT_S = 600.0
"""An endpoint that is silent for this long has hung; clients give up by then."""
LATE_S = 1.0
"""The meter reports a cap when no call is in progress any more, but on another connection than the last answer."""
GRACE_S = 5.0
"""Time for answers in progress when a conversation reaches a cap, or the server ends."""
LEAST_USD = Decimal("0.01")
"""With less budget than this, no paid conversation is opened."""

Json = dict[str, JsonValue]


@dataclass(frozen=True)
class StreamedAnswer:
    status: int
    headers: dict[str, str]
    body: AsyncIterator[bytes]
    """Raises StreamBroken if it breaks off."""
    close: Callable[[], None]
    """Call this after the answer was passed on, or if it will not be."""


@dataclass
class _Talk:
    fixer: Fixer
    decision: Decision
    run: OpenRun
    spending: int
    cap_usd: Decimal | None
    """The reserved budget; None: it is free."""
    by_budget: bool
    """Whether that is less than the rest of the fixer's own cap."""
    proxy_endpoint: asyncio.Future[ProxyClient]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: it must end, even during a call."""
    closing: bool = False
    under_way: int = 0
    heard: float = field(default_factory=time.monotonic)
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: no call is in progress."""
    task: asyncio.Task[None] | None = None

    def enter(self) -> None:
        self.under_way += 1
        self.silent.clear()

    def leave(self) -> None:
        self.under_way -= 1
        self.heard = time.monotonic()
        if not self.under_way:
            self.silent.set()

    def quiet_s(self) -> float:
        return 0.0 if self.under_way else time.monotonic() - self.heard


class Conversations:
    def __init__(self, settings: Settings, store: ApiStore, ledger: Ledger) -> None:
        self._settings = speaking(settings)
        self._store = store
        self._routing = SharedRouter(self._settings)
        self._talks: dict[tuple[str, str], _Talk] = {}
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """Each exists as long as a request holds it or waits for it."""
        self._full: set[tuple[str, str]] = set()
        """Those that have reached their fixer's dollar cap: retrying each would make a run of every refusal."""
        self._ledger = ledger
        self._closing = False

    @property
    def usable(self) -> bool:
        return bool(self._settings.fixers)

    async def ask(self, caller: Caller, request: Json, name: str) -> StreamedAnswer:
        """Forward one request of a conversation.

        `name` is the caller's name for it; empty: its opening identifies it.
        """
        must_be_allowed(caller, "auto")
        if not self.usable:
            words = "no fixer of the pool can talk: it needs an entry of kind agent or mini under [[fixers]]."
            raise RequestRefused(404, "No fixer", words)
        if request.get("model") != MODEL:
            raise RequestRefused(
                404, "No such model", f"the model here is {MODEL!r}, not {str(request.get('model'))[:80]!r}."
            )
        opening = await asyncio.to_thread(opening_of, request)
        parts = ("name", name) if name else ("opening", *opening)
        key = (caller.name, await asyncio.to_thread(_digest, *parts))
        # One at a time: two first requests of one conversation must not both choose a fixer.
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            talk = self._talks.get(key)
            if talk and talk.closing and talk.task:  # its usage has to be known before it continues
                await asyncio.wait({talk.task})
                talk = None
            talk = talk or await self._open(caller, key, opening[-1][:MAX_TASK_CHARS])
            talk.enter()
        try:
            return await self._pass(talk, request)
        except BaseException:
            talk.leave()
            raise

    async def close(self) -> None:
        """Refuse new requests, and end all conversations after their current answers, up to a time limit."""
        self._closing = True
        for talk in list(self._talks.values()):
            talk.over.set()
        tasks = {talk.task for talk in self._talks.values() if talk.task}
        if tasks:
            await asyncio.wait(tasks)
        self._ledger.close()

    async def _open(self, caller: Caller, key: tuple[str, str], task_text: str) -> _Talk:
        await self._make_room()
        choice = await in_thread(lambda: self._choice(key, task_text))
        fixer, used = self._settings.fixer(choice.decision.fixer), choice.used
        if read_key(fixer.key_env) == "":
            raise RequestRefused(
                503, "No key", f"fixer {fixer.name!r} needs a key: {fixer.key_env} is not set at the server."
            )
        left_calls, max_cost_usd = fixer.cap_calls - used.calls, fixer.max_cost_usd
        remaining_usd = max(max_cost_usd - used.cost_usd, Decimal(0))
        if left_calls <= 0 or (max_cost_usd and not remaining_usd) or key in self._full:
            raise _used_up(fixer)
        if self._closing:
            raise ending()
        try:
            spending = self._store.hold(
                caller.name,
                caller.budget_usd,
                remaining_usd,
                least_usd=min(LEAST_USD, remaining_usd),
                conversation=key[1],
            )
        except BudgetTooSmall as small:
            raise RequestRefused(
                402, "Budget too small", too_small(caller, f"{fixer.name} costs money", small)
            ) from None
        try:
            task = Task(id=f"auto-{key[1][:10]}", text=task_text, repo=Path("/"), base_commit="")
            run = self._ledger.open(
                task, self._settings.digest(), sandbox="none", environment="none", arm=ARM, resume=False
            )
            run.watch = telemetry.watch(
                self._settings, run, task, batch="", arm=ARM, sandbox="none", attempts=attempts_folder()
            )
            self._store.belongs(spending, run.id, Decimal(0))
        except BaseException:
            self._store.settle(spending, Spend(Decimal(0)))
            raise
        held = self._store.held_usd(spending)
        talk = _Talk(
            fixer,
            choice.decision,
            run,
            spending,
            cap_usd=held if max_cost_usd else None,
            by_budget=held < remaining_usd,
            proxy_endpoint=asyncio.get_running_loop().create_future(),
        )
        self._talks[key] = talk
        talk.task = asyncio.create_task(self._last(key, talk, task, left_calls))
        return talk

    def _choice(self, key: tuple[str, str], task_text: str) -> ConversationState:
        known = self._store.choice(*key)
        kept = known and any(fixer.name == known.decision.fixer for fixer in self._settings.fixers)
        decision = known.decision if known and kept else self._routing.route(task_text)
        self._store.choose(*key, decision)
        return ConversationState(decision, known.used if known else Spend(Decimal(0)))

    async def _make_room(self) -> None:
        if len(self._talks) < MAX_TALKS:
            return
        longest = max(self._talks.values(), key=_Talk.quiet_s)
        if longest.under_way or not longest.task:
            raise RequestRefused(429, "Too many conversations", "all conversations are in use. Try again later.", 5)
        longest.over.set()
        await asyncio.wait({longest.task})

    async def _last(self, key: tuple[str, str], talk: _Talk, task: Task, left_calls: int) -> None:
        """Run the conversation: the decision, and an attempt until the conversation ends."""

        async def decided(*_: object) -> Decision:
            return talk.decision

        async def attempt(*_: object) -> Attempt:
            return await self._attempt(talk, left_calls)

        try:
            await talk.run.step("route", decided, task)
            tried = await talk.run.step("fix", attempt, task, talk.fixer.name)
            talk.run.close("unjudged")
            if tried.stop == "cap_usd" and not talk.by_budget:
                if len(self._full) >= MAX_FULL:
                    self._full.clear()
                self._full.add(key)
        except (ModelError, LedgerError, ConfigError, OSError) as error:
            _fail(talk.proxy_endpoint, error)
        finally:
            del self._talks[key]
            _fail(talk.proxy_endpoint, ModelError("a fault of scrout's; its log says which"))
            paid = talk.proxy_endpoint.result().receipts if talk.proxy_endpoint.exception() is None else []
            cost = known_usd(receipt.cost_usd for receipt in paid)
            self._store.settle(talk.spending, Spend(cost, len(paid)))

    async def _attempt(self, talk: _Talk, left_calls: int) -> Attempt:
        started, folder = time.monotonic(), attempts_folder() / talk.run.place
        account = account_of(talk.fixer, self._settings, folder / FILE_NAME, talk.cap_usd)
        stop: tuple[Stop, str] = ("finished", "")
        account = account.model_copy(update={"cap_calls": left_calls})
        async with served(talk.fixer, account) as account, open_proxy_client(account, talk.run.book) as proxy_endpoint:
            talk.proxy_endpoint.set_result(proxy_endpoint)
            over = asyncio.ensure_future(talk.over.wait())
            either: set[asyncio.Future[Any]] = {over, proxy_endpoint.ended}
            while not talk.closing:
                rest = self._settings.api.idle_s - talk.quiet_s()
                ended = (await asyncio.wait(either, timeout=max(rest, 0), return_when=asyncio.FIRST_COMPLETED))[0]
                talk.closing = bool(ended) or talk.quiet_s() >= self._settings.api.idle_s
            over.cancel()
            if talk.under_way:
                with suppress(TimeoutError):
                    await asyncio.wait_for(talk.silent.wait(), GRACE_S)
            if proxy_endpoint.ended.done():
                stop = proxy_endpoint.ended.result()
        return Attempt(
            fixer=talk.fixer.name,
            patch="",
            stop=stop[0],
            detail=stop[1] or "the conversation was over, or quiet",
            seconds=round(time.monotonic() - started, 3),
            calls=len(proxy_endpoint.receipts),
            cost_usd=total_usd(receipt.cost_usd for receipt in proxy_endpoint.receipts),
            receipts=tuple(proxy_endpoint.receipts),
            handoff="none",
            trace=str(folder),
        )

    async def _pass(self, talk: _Talk, request: Json) -> StreamedAnswer:
        try:
            proxy_endpoint = await asyncio.shield(talk.proxy_endpoint)
        except (ModelError, LedgerError, ConfigError, OSError) as error:
            raise RequestRefused(503, "Not possible", str(error)) from None
        body = await asyncio.to_thread(_dumped, talk, request)
        upstream = Upstream("http://socket", str(proxy_endpoint.socket))
        asking = asyncio.ensure_future(
            upstream.ask("POST", f"/v1/{CHAT.path}", {"content-type": "application/json"}, body)
        )
        try:
            # The meter leaves a call that no longer fits without an answer, and reports it on another connection.
            either: set[asyncio.Future[Any]] = {asking, proxy_endpoint.ended}
            await asyncio.wait(either, timeout=SILENT_S, return_when=asyncio.FIRST_COMPLETED)
            if proxy_endpoint.ended.done():
                await asyncio.wait({asking}, timeout=LATE_S)
            if not asking.done():
                raise _ended(talk, *proxy_endpoint.ended.result()) if proxy_endpoint.ended.done() else _hung(talk.fixer)
            reached = asking.result()
            if reached.status in HOPELESS:
                raise _unusable(talk.fixer, reached.status)
        except BaseException as error:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            upstream.close()
            if isinstance(error, ConnectFailed | StreamBroken):
                raise RequestRefused(502, "No answer", f"{talk.fixer.name} could not be reached ({error}).") from None
            raise

        def close() -> None:
            upstream.close()
            talk.leave()

        told = {
            "x-scrout-fixer": talk.fixer.name,
            "x-scrout-model": talk.fixer.model,
            "x-scrout-run": talk.run.id,
            "x-scrout-reason": talk.decision.reason,
        }
        # Framing headers belong to the connection behind this one.
        passed = {name: value for name, value in reached.headers.items() if name != "transfer-encoding"}
        headers = {**passed, **{name: _header(value) for name, value in told.items()}}
        return StreamedAnswer(reached.status, headers, _parts(reached), close)


def speaking(settings: Settings) -> Settings:
    """The settings with only those fixers whose endpoints are known to speak chat completions; the pool may be
    empty.
    """
    pool = tuple(fixer for fixer in settings.fixers if fixer.api == "chat")
    anchor = settings.route.anchor if any(fixer.name == settings.route.anchor for fixer in pool) else ""
    route = settings.route.model_copy(update={"anchor": anchor})
    return settings.model_copy(update={"fixers": pool, "route": route})


def opening_of(request: Json) -> list[str]:
    """A conversation's messages up to the first text of the user, which gives its topic."""
    turns = request.get("messages")
    opening = []
    for turn in turns if isinstance(turns, list) else []:
        if isinstance(turn, dict):
            opening.append(_words(turn.get("content")))
            if turn.get("role") == "user" and opening[-1].strip():
                return opening
    raise RequestRefused(
        400, "No user message", "`messages` has no text from the user, so there is nothing to route by."
    )


def _dumped(talk: _Talk, request: Json) -> bytes:
    try:
        # Not as escapes, because the meter limits a prompt's tokens by its bytes.
        return json.dumps({**request, "model": talk.fixer.model}, ensure_ascii=False).encode("utf-8", "replace")
    except RecursionError:
        raise RequestRefused(400, "Not understood", "the body is nested too deeply.") from None


async def _parts(reached: StreamingResponse) -> AsyncIterator[bytes]:
    try:
        while part := await asyncio.wait_for(reached.more(), SILENT_S):
            yield part
    except TimeoutError:
        raise StreamBroken("silent") from None


def _fail(proxy_endpoint: asyncio.Future[ProxyClient], error: Exception) -> None:
    """Give the error to all requests that wait for the endpoint, unless it was opened."""
    if not proxy_endpoint.done():
        proxy_endpoint.set_exception(error)
        proxy_endpoint.exception()  # there may be no waiting request


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _words(content: JsonValue) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    words = "\n".join(text for text in texts if isinstance(text, str))
    return words.encode(errors="replace").decode().replace("\0", "\ufffd")


def _header(value: str) -> str:
    """Text for a header."""
    flat = " ".join(value.split()).encode("ascii", "replace").decode()
    return "".join(character if character.isprintable() else "?" for character in flat)[:500]


def _used_up(fixer: Fixer) -> RequestRefused:
    caps = f"{fixer.cap_calls} calls and {usd(fixer.cap_usd)}"
    return RequestRefused(
        429, "Conversation used up", f"{fixer.name} has {caps} for one conversation. Begin another one."
    )


def _unusable(fixer: Fixer, status: int) -> RequestRefused:
    """Forwarded as it is, it would make the caller suspect its own request."""
    words = f"the endpoint of {fixer.name} answers with status {status}: see to its key, credit and `model`"
    return RequestRefused(502, "No answer", f"{words} at the server.")


def _hung(fixer: Fixer) -> RequestRefused:
    return RequestRefused(
        504, "No answer", f"{fixer.name} has said nothing for {SILENT_S:g} s. Try again, or another pool."
    )


def _ended(talk: _Talk, stop: Stop, detail: str) -> RequestRefused:
    if stop == "cap_usd" and talk.by_budget:
        words = f"{usd(talk.cap_usd, exact=True)} was left of the caller's budget, and this call may cost more."
        return RequestRefused(
            402, "Budget too small", f"{words} Wait for tomorrow (UTC), or raise `budget_usd` in scrout.toml."
        )
    if stop in ("cap_calls", "cap_usd"):
        return _used_up(talk.fixer)
    return RequestRefused(502, "No answer", detail)
