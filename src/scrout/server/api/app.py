"""The API as an ASGI application: authenticates the caller, handles the request, and explains refusals."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Annotated, TypeVar, cast

from fastapi import FastAPI, Header, Path, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BeforeValidator, JsonValue
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from scrout import __version__, telemetry
from scrout.base import FrozenModel, ScroutError
from scrout.config.folders import data_folder
from scrout.config.settings import Caller, Settings, read_key
from scrout.ledger.opening import open_ledger
from scrout.models.proxy.bounds import has_too_many_values
from scrout.models.proxy.upstream import StreamBroken
from scrout.redact import redact
from scrout.server.api.access import ApiAccess, Callers, RequestRefused, not_understood, problem, refuse_open
from scrout.server.api.conversations import MODEL, Conversations, StreamedAnswer
from scrout.server.api.description import CHAT, EVENTS, OF_A_JOB, PUBLIC, STARTED, answers, complete
from scrout.server.api.jobs import Form, Jobs
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
from scrout.server.serving import HttpServer, listen

MAX_BODY_KEYS = 100
"""Maximum number of keys in a request for a stage, which has a handful."""
MAX_CHAT_BYTES = 32_000_000
BEAT_S = 15.0
"""Keep-alive interval of a stream without events."""
PRUNE_S = 600.0
JSON = "application/json"
CHAT_PATH = "/v1/chat/completions"

_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?(e-?[0-9]{1,3})?", re.IGNORECASE)

T = TypeVar("T")


def _plain_number(given: object) -> object:
    """A number in a query: Python would also accept spaces, signs, underscores and digits of other scripts."""
    if isinstance(given, str) and not _NUMBER.fullmatch(given):
        raise ValueError("it is no number")
    return given


Wait = Annotated[
    float | None,
    BeforeValidator(_plain_number),
    Query(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the job's end. Without it a route is waited for, and others are not.",
    ),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_CHARS,
        pattern="^[!-~]+$",
        description="The same request with the same key gets the same job, however often it is sent.",
    ),
]
ConversationName = Annotated[
    str | None,
    Header(
        alias="X-Scrout-Conversation",
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern="^[!-~]+$",
        description="Tells conversations apart that begin alike.",
    ),
]
LastEvent = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern="^[0-9]{1,9}$",
        description="The last event that was received: those behind it are sent.",
    ),
]
JobId = Annotated[str, Path(json_schema_extra={"minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9-]+$"})]
Limit = Annotated[int, BeforeValidator(_plain_number), Query(ge=1, le=500)]


def create_app(service: Service, store: ApiStore, callers: Callers) -> FastAPI:
    """The API for one folder of repositories and one pool.

    It takes over the state of a killed server. `state.end` ends all work in progress.
    """
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
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pruning = asyncio.create_task(prune())
        yield
        pruning.cancel()
        await asyncio.wait({pruning})
        await end()
        store.close()

    app = FastAPI(
        title="scrout",
        version=__version__,
        description="Scout, then route: stages as jobs, and one model that stands for a pool of fixers.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _refused,
            RequestValidationError: _not_understood,
            ScroutError: _refused,
            Exception: _failed,
        },
    )
    endpoints.add_to(app)
    complete(app)
    for route in app.routes:
        if isinstance(route, Route) and route.methods and "GET" in route.methods:
            route.methods.add("HEAD")  # outside of the description
    # The outermost layer, so that even an answer to a fault has the headers; middleware is added inside of it.
    app.middleware_stack = ApiAccess(app.build_middleware_stack(), callers, PUBLIC)
    app.state.end, app.state.service = end, service
    return app


class _StrictRequest(Request):
    """A request with a JSON body of limited size, each key once."""

    async def body(self) -> bytes:
        if not hasattr(self, "_whole"):
            self._whole = bytes(await _read(self, MAX_BODY_BYTES))
        return self._whole

    async def json(self) -> JsonValue:
        document = await asyncio.to_thread(_json, await self.body())
        if isinstance(document, dict) and len(document) > MAX_BODY_KEYS:
            # Each unknown key would be reported, which takes a minute for as many as fit into a body.
            raise not_understood(f"the body has more than {MAX_BODY_KEYS} keys.")
        return document


class _StrictRoute(APIRoute):
    """Accepts only known parameters, each once: programs disagree about which of two values counts."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()
        known = [field.alias for field in self.dependant.query_params]
        words = ", ".join(f"`{name}`" for name in known) or "none"
        headers = [field.alias for field in self.dependant.header_params]

        async def strictly(request: Request) -> Response:
            for name in () if self.path in PUBLIC else request.query_params:
                if name not in known:
                    detail = f"no parameter is called {name[:60]!r}; this takes {words}."
                    raise not_understood(detail)
                if len(request.query_params.getlist(name)) > 1:
                    raise not_understood(f"`{name}` comes twice.")
            for name in headers:
                if len(request.headers.getlist(name)) > 1:
                    raise not_understood(f"`{name}` comes twice.")
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


class _Passed(StreamingResponse):
    """An endpoint's answer, streamed as it arrives. If it breaks off, the stream ends without its end mark."""

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
    def __init__(self, jobs: Jobs, conversations: Conversations, store: ApiStore) -> None:
        self._jobs = jobs
        self._conversations = conversations
        self._store = store

    def add_to(self, app: FastAPI) -> None:
        app.router.route_class = _StrictRoute
        for path, stage, summary in (
            ("/v1/scout", self.scout, "Rank the files an issue is about, and try to reproduce it."),
            ("/v1/gate", self.gate, "Replay a handoff's claim, and strip what is false."),
            ("/v1/route", self.route, "Choose the fixer for an issue, and say why not the others. Runs nothing."),
            ("/v1/fix", self.fix, "Scout, gate, route, fix and check. Applies nothing."),
        ):
            app.post(path, summary=summary, operation_id=stage.__name__, response_model=None, **STARTED)(stage)
        for method, path, answer, summary, about in (
            (app.get, "/v1/jobs", self.jobs, "The caller's jobs, newest first, without results.", answers(JobList)),
            (app.get, "/v1/jobs/{job}", self.job, "One job, with its result.", OF_A_JOB),
            (app.delete, "/v1/jobs/{job}", self.call_off, "End a job. One that has ended stays as it is.", OF_A_JOB),
            (
                app.get,
                "/v1/jobs/{job}/events",
                self.events,
                "What is said of a job while it works, as server-sent events: `progress`, and at its end `job`.",
                EVENTS,
            ),
            (
                app.get,
                "/v1/budget",
                self.budget,
                "What the caller may do, and what is left of today's budget.",
                answers(CallerBudget),
            ),
            (app.get, "/v1/models", self.models, "The models of the endpoint, as OpenAI lists them.", answers()),
            (
                app.post,
                CHAT_PATH,
                self.chat,
                "A chat completion by the fixer that this conversation was routed to, once. Also streamed.",
                CHAT,
            ),
            (app.get, "/openapi.json", self.openapi, "This description.", answers(public=True)),
            (app.get, "/healthz", self.health, "Whether the server answers.", answers(public=True)),
        ):
            method(path, summary=summary, operation_id=answer.__name__, response_model=None, **about)(answer)

    async def scout(self, request: Request, form: ScoutRequest, wait: Wait = None, key: Key = None) -> Response:
        return await self._start(request, "scout", form, wait, key)

    async def gate(self, request: Request, form: GateRequest, wait: Wait = None, key: Key = None) -> Response:
        return await self._start(request, "gate", form, wait, key)

    async def fix(self, request: Request, form: FixRequest, wait: Wait = None, key: Key = None) -> Response:
        return await self._start(request, "fix", form, wait, key)

    async def route(self, request: Request, form: RouteRequest, wait: Wait = None, key: Key = None) -> Response:
        if bool(form.issue.strip()) == bool(form.run):
            raise not_understood("pass either `issue` or the `run` that scouted it.")
        return await self._start(request, "route", form, MAX_WAIT_S if wait is None else wait, key)

    async def jobs(self, request: Request, limit: Limit = 50) -> Response:
        return _record(JobList(jobs=tuple(self._jobs.jobs(request.state.caller, limit))))

    async def job(self, request: Request, job: JobId, wait: Wait = None) -> Response:
        return _record(await self._jobs.wait(self._jobs.job(request.state.caller, job), wait or 0))

    async def call_off(self, request: Request, job: JobId) -> Response:
        return _record(await self._jobs.call_off(request.state.caller, job))

    async def events(self, request: Request, job: JobId, last: LastEvent = "0") -> Response:
        caller = request.state.caller
        found = self._jobs.job(caller, job)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(self._told(caller, found, int(last)), media_type="text/event-stream")

    async def budget(self, request: Request) -> Response:
        caller: Caller = request.state.caller
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

    async def models(self, request: Request) -> Response:
        about = {"id": MODEL, "object": "model", "created": 0, "owned_by": "scrout"}
        usable = self._conversations.usable and "auto" in request.state.caller.may
        return JSONResponse({"object": "list", "data": [about] if usable else []})

    async def chat(self, request: Request, name: ConversationName = None) -> Response:
        body = await _read(request, MAX_CHAT_BYTES)
        sent = await asyncio.to_thread(lambda: _object(_json(body)))
        return _Passed(await _unless_gone(request, self._conversations.ask(request.state.caller, sent, name or "")))

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(request.app.openapi())

    async def health(self) -> Response:
        return JSONResponse({"status": "ok"})

    async def _start(self, request: Request, stage: Stage, form: Form, wait: float | None, key: str | None) -> Response:
        job = await self._jobs.wait(await self._jobs.start(request.state.caller, stage, form, key or ""), wait or 0)
        return _record(job, 200 if job.ended else 202, {"location": f"/v1/jobs/{job.id}"})

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
    variables = [settings.scout.model.key_env, settings.route.embedder.key_env]
    return [key for name in (*variables, *(fixer.key_env for fixer in settings.fixers)) if (key := read_key(name))]


async def _unless_gone(request: Request, work: Coroutine[None, None, T]) -> T:
    """The result of the work; cancels it if the client disconnects."""

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


async def _read(request: Request, most: int) -> bytearray:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise RequestRefused(415, "Not JSON", f"send the body as {JSON}.")
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise RequestRefused(413, "Too long", f"the body has more than {most:,} bytes. Send less.")
    except ClientDisconnect:
        raise RequestRefused(400, "Broken off", "the body is incomplete. Send it again.") from None
    return body or bytearray(b" ")  # an empty body is not JSON either


def _json(body: bytes | bytearray) -> JsonValue:
    if has_too_many_values(body):
        raise RequestRefused(413, "Too long", "the body has too many values. Send less.")
    try:
        return cast(JsonValue, json.loads(body, object_pairs_hook=_once, parse_constant=_number, parse_float=_number))
    except (ValueError, RecursionError):
        raise RequestRefused(
            400, "Not JSON", "the body cannot be read as JSON. Send one object, each key once."
        ) from None


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Programs disagree about which of two values of one key counts."""
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
        raise RequestRefused(400, "Not understood", "the body is not a JSON object.")
    return value


def _record(record: FrozenModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(record.model_dump_json(), status, headers, JSON)


def _event(number: int, kind: str, data: object) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


async def _not_understood(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    return await _refused(request, not_understood(f"`{where[:100]}`: {first['msg']}."))


async def _refused(request: Request, error: Exception) -> Response:
    if (
        isinstance(error, RequestRefused) and request.url.path == CHAT_PATH
    ):  # clients of this protocol expect another error format
        kind = "insufficient_quota" if error.status_code in (402, 429) else "invalid_request_error"
        about = {"message": redact(error.detail), "type": kind, "param": None, "code": error.title}
        return JSONResponse({"error": about}, error.status_code, error.headers)
    if isinstance(error, RequestRefused):
        return problem(error.status_code, error.title, error.detail, error.headers)
    if isinstance(error, HTTPException) and error.status_code == 404:
        return problem(404, "Not possible", "This path does not exist. See /openapi.json for the paths that do.")
    if isinstance(error, HTTPException) and error.status_code == 405:
        taken = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
        allow = ", ".join(sorted({method for route in taken for method in route.methods}))
        words = "This address takes other methods; the header Allow names them."
        return problem(405, "Not possible", words, {"allow": allow})
    if isinstance(error, HTTPException):
        return problem(error.status_code, "Not possible", error.detail, error.headers)
    return problem(500, "Not possible", str(error))


async def _failed(request: Request, error: Exception) -> Response:
    return problem(500, "A fault of scrout's", "The terminal that serves this says how; please report it.")


FILE = "api.db"


def capped(settings: Settings) -> Settings:
    """The settings with hard caps: under `paper`, the last call may exceed a cap, and so a caller's budget."""
    return settings.model_copy(update={"fix": settings.fix.model_copy(update={"caps": "hard"})})


def serve(service: Service, host: str, port: int) -> HttpServer:
    refuse_open(host, service.settings.api)
    telemetry.require(service.settings)
    callers = Callers(service.settings.api)
    service = replace(service, settings=capped(service.settings))
    listening = listen(host, port)
    try:
        app = create_app(service, ApiStore(data_folder() / FILE), callers)
    except BaseException:
        listening.close()
        raise
    return HttpServer(app, host, listening, app.state.end)
