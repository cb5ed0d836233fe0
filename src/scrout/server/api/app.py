"""The API as an ASGI application: who asks, what is asked, and the answer or why there is none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import TypeVar, cast

from pydantic import JsonValue, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from scrout.base import FrozenModel, ScroutError
from scrout.config.settings import Caller, Settings, read_key
from scrout.ledger.opening import open_ledger
from scrout.models.proxy.upstream import StreamBroken
from scrout.redact import redact
from scrout.server.api.access import ApiAccess
from scrout.server.api.callers import Callers
from scrout.server.api.conversations import MODEL, Conversations, StreamedAnswer
from scrout.server.api.jobs import Form, Jobs
from scrout.server.api.openapi import OPERATIONS, Operation, description
from scrout.server.api.problems import RequestRefused, problem
from scrout.server.api.schemas import (
    MAX_BODY_BYTES,
    MAX_KEY_CHARS,
    MAX_NAME_CHARS,
    MAX_WAIT_S,
    CallerBudget,
    FixRequest,
    GateRequest,
    Job,
    JobList,
    RouteRequest,
    ScoutRequest,
    Stage,
)
from scrout.server.api.store import ApiStore
from scrout.server.cancellation import in_thread
from scrout.server.service import Service

FORMS: dict[Stage, type[Form]] = {"scout": ScoutRequest, "gate": GateRequest, "route": RouteRequest, "fix": FixRequest}
MAX_CHAT_BYTES = 32_000_000
BEAT_S = 15.0
"""A stream that has nothing to say shows that it lives."""
PRUNE_S = 600.0
JSON = "application/json"

_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?(e-?[0-9]{1,3})?", re.IGNORECASE)

Handler = Callable[[Request, Caller], Awaitable[Response]]
T = TypeVar("T")


def create_app(service: Service, store: ApiStore, callers: Callers) -> Starlette:
    """The API over one folder of repositories and one pool. What a killed server left is taken over; `state.end` ends
    what is under way."""
    jobs = Jobs(service, store, [*callers.tokens, *_keys(service.settings)])
    conversations = Conversations(service.settings, store, open_ledger(service.settings))
    endpoints = _Endpoints(jobs, conversations, store)
    jobs.recover()

    async def end() -> None:
        await asyncio.gather(jobs.close(), conversations.close())

    async def prune() -> None:
        while True:
            await in_thread(partial(store.prune, service.settings.api.keep_days))
            await asyncio.sleep(PRUNE_S)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        pruning = asyncio.create_task(prune())
        yield
        pruning.cancel()
        await asyncio.wait({pruning})
        await end()
        store.close()

    handlers: dict[str, Handler] = {
        **{stage: endpoints.start(stage) for stage in FORMS},
        "jobs": endpoints.jobs,
        "job": endpoints.job,
        "call_off": endpoints.call_off,
        "events": endpoints.events,
        "budget": endpoints.budget,
        "models": endpoints.models,
        "chat": endpoints.chat,
        "openapi": endpoints.openapi,
        "health": endpoints.health,
    }
    by_path: dict[str, dict[str, Operation]] = {}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one

    def answering(methods: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:  # not a lambda: the framework must see that it is to be awaited
            asked = methods["GET" if request.method == "HEAD" else request.method]
            for name in () if asked.public else request.query_params:
                if name not in asked.query:
                    words = ", ".join(f"`{known}`" for known in asked.query) or "none"
                    raise RequestRefused(
                        422, "Not understood", f"no parameter is called {name[:60]!r}; this takes {words}."
                    )
            return await handlers[asked.name](request, request.state.caller)

        return answer

    app = Starlette(
        routes=[Route(path, answering(methods), methods=list(methods)) for path, methods in by_path.items()],
        exception_handlers={
            RequestRefused: _refused,
            HTTPException: _refused,
            ScroutError: _refused,
            Exception: _failed,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    # Around everything, so that even an answer to a fault has the rules; what is added as middleware lies within that.
    public = {one.path for one in OPERATIONS if one.public}
    app.middleware_stack = ApiAccess(app.build_middleware_stack(), callers, public)
    app.state.end, app.state.service = end, service
    return app


class _Passed(StreamingResponse):
    """An endpoint's answer, passed on as it comes in. One that breaks off is left without its end."""

    def __init__(self, spoken: StreamedAnswer) -> None:
        super().__init__(spoken.body, spoken.status, spoken.headers)
        self._close = spoken.close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(StreamBroken):
                await super().__call__(scope, receive, send)
        finally:
            self._close()


class _Endpoints:
    """What each address does."""

    def __init__(self, jobs: Jobs, conversations: Conversations, store: ApiStore) -> None:
        self._jobs = jobs
        self._conversations = conversations
        self._store = store
        self._description = description()

    def start(self, stage: Stage) -> Handler:
        async def started(request: Request, caller: Caller) -> Response:
            seconds = _wait(request)
            form = await _body(request, MAX_BODY_BYTES, partial(_form, FORMS[stage]))
            if isinstance(form, RouteRequest) and bool(form.issue.strip()) == bool(form.run):
                raise RequestRefused(
                    422, "Not understood", "pass `issue`, or the `run` that has scouted it; one of the two."
                )
            job = await self._jobs.start(caller, stage, form, _label(request, "Idempotency-Key", MAX_KEY_CHARS))
            if seconds is None:
                seconds = MAX_WAIT_S if stage == "route" else 0
            return _job(await self._jobs.wait(job, seconds), started=True)

        return started

    async def jobs(self, request: Request, caller: Caller) -> Response:
        limit = _query(request, "limit", 1, 500)
        if limit is not None and limit != int(limit):
            raise RequestRefused(422, "Not understood", "`limit` is a whole number.")
        found = self._jobs.jobs(caller, 50 if limit is None else int(limit))
        return _record(JobList(jobs=tuple(found)))

    async def job(self, request: Request, caller: Caller) -> Response:
        seconds = _wait(request)
        return _job(await self._jobs.wait(self._jobs.job(caller, request.path_params["job"]), seconds or 0))

    async def call_off(self, request: Request, caller: Caller) -> Response:
        return _job(await self._jobs.call_off(caller, request.path_params["job"]))

    async def events(self, request: Request, caller: Caller) -> Response:
        last = request.headers.get("last-event-id", "0")
        if not (last.isascii() and last.isdigit() and len(last) <= 9):
            raise RequestRefused(422, "Not understood", "`Last-Event-ID` is the number of an event of this job.")
        job = self._jobs.job(caller, request.path_params["job"])
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(self._told(caller, job, int(last)), media_type="text/event-stream")

    async def budget(self, request: Request, caller: Caller) -> Response:
        spent, held = self._store.today(caller.name)
        return _record(
            CallerBudget(
                caller=caller.name,
                may=caller.may,
                budget_usd=caller.budget_usd,
                spent_usd=spent,
                held_usd=held,
                remaining_usd=max(caller.budget_usd - spent - held, Decimal(0)),
                requests_a_minute=caller.requests_a_minute,
                jobs=caller.jobs,
            )
        )

    async def models(self, request: Request, caller: Caller) -> Response:
        about = {"id": MODEL, "object": "model", "created": 0, "owned_by": "scrout"}
        usable = self._conversations.usable and "auto" in caller.may
        return JSONResponse({"object": "list", "data": [about] if usable else []})

    async def chat(self, request: Request, caller: Caller) -> Response:
        """Its refusals have the form that clients of this protocol read."""
        try:
            name = _label(request, "X-Scrout-Conversation", MAX_NAME_CHARS)
            sent = await _body(request, MAX_CHAT_BYTES, _object)
            return _Passed(await _unless_gone(request, self._conversations.ask(caller, sent, name)))
        except RequestRefused as refused:
            kind = "insufficient_quota" if refused.status in (402, 429) else "invalid_request_error"
            error = {"message": redact(refused.detail), "type": kind, "param": None, "code": refused.title}
            return JSONResponse({"error": error}, refused.status, refused.headers)

    async def openapi(self, request: Request, caller: Caller) -> Response:
        return JSONResponse(self._description)

    async def health(self, request: Request, caller: Caller) -> Response:
        return JSONResponse({"status": "ok"})

    async def _told(self, caller: Caller, job: Job, after: int) -> AsyncIterator[str]:
        news = self._jobs.follow(job, after)
        words: str | None = ""
        while words is not None:
            coming = asyncio.ensure_future(anext(news))
            try:
                while not (await asyncio.wait({coming}, timeout=BEAT_S))[0]:
                    yield ": still at work\n\n"
            finally:
                coming.cancel()
            number, words = coming.result()
            if words is None:
                yield _event(number, "job", self._jobs.job(caller, job.id).model_dump(mode="json"))
            else:
                yield _event(number, "progress", {"said": words})


def _keys(settings: Settings) -> list[str]:
    """Of all endpoints."""
    variables = [settings.scout.model.key_env, settings.route.embedder.key_env]
    return [key for name in (*variables, *(fixer.key_env for fixer in settings.fixers)) if (key := read_key(name))]


async def _unless_gone(request: Request, work: Coroutine[None, None, T]) -> T:
    """What the work gives; it is called off when nobody waits for it any more."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise RequestRefused(499, "Gone", "the caller has left.")
    finally:
        for one in (doing, leaving):
            one.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _body(request: Request, most: int, read: Callable[[JsonValue], T]) -> T:
    """What is read of the body; in a thread, since a long one takes its time."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise RequestRefused(415, "Not JSON", f"send the body as {JSON}.")
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise RequestRefused(413, "Too long", f"the body has more than {most:,} bytes. Send less.")
    except ClientDisconnect:
        raise RequestRefused(400, "Broken off", "the body broke off. Send it again.") from None
    return await asyncio.to_thread(lambda: read(_json(body)))


def _json(body: bytearray) -> JsonValue:
    try:
        return cast(JsonValue, json.loads(body, object_pairs_hook=_once, parse_constant=_number, parse_float=_number))
    except (ValueError, RecursionError):
        raise RequestRefused(
            400, "Not JSON", "the body cannot be read as JSON. Send one object, each key once."
        ) from None


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Of two values of one key, every reader takes another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _number(word: str) -> float:
    number = float(word)
    if not isfinite(number):
        raise ValueError(word)
    return number


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise RequestRefused(400, "Not understood", "the body is no JSON object.")
    return value


def _form(kind: type[Form], value: JsonValue) -> Form:
    try:
        return kind.model_validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise RequestRefused(422, "Not understood", f"`{where[:100]}`: {first['msg']}.") from None


def _label(request: Request, header: str, most: int) -> str:
    """What the caller calls something; empty: nothing."""
    given = request.headers.getlist(header)
    fits = len(given) == 1 and 0 < len(given[0]) <= most and all("!" <= one <= "~" for one in given[0])
    if given and not fits:
        raise RequestRefused(422, "Not understood", f"`{header}` has 1 to {most} letters, digits and signs of ASCII.")
    return given[0] if given else ""


def _wait(request: Request) -> float | None:
    return _query(request, "wait", 0, MAX_WAIT_S)


def _query(request: Request, name: str, least: float, most: float) -> float | None:
    """None: it is not asked for."""
    given = request.query_params.getlist(name)
    if not given:
        return None
    number = float(given[0]) if len(given) == 1 and _NUMBER.fullmatch(given[0]) else least - 1
    if not least <= number <= most:
        raise RequestRefused(422, "Not understood", f"`{name}` is a number from {least:g} to {most:g}.")
    return number


def _job(job: Job, *, started: bool = False) -> Response:
    if not started:
        return _record(job)
    return _record(job, 200 if job.ended else 202, {"location": f"/v1/jobs/{job.id}"})


def _record(record: FrozenModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(record.model_dump_json(), status, headers, JSON)


def _event(number: int, kind: str, data: object) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestRefused):
        return problem(error.status, error.title, error.detail, error.headers)
    if isinstance(error, HTTPException):
        known = {
            404: "Nothing has this address. See /openapi.json for those that are there.",
            405: "This address takes other methods; the header Allow names them.",
        }
        headers = error.headers or {}
        return problem(error.status_code, "Not possible", known.get(error.status_code, error.detail), headers)
    return problem(500, "Not possible", str(error))


def _failed(request: Request, error: Exception) -> Response:
    return problem(500, "A fault of scrout's", "The terminal that serves this says how; please report it.")
