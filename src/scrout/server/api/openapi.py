"""What the API is, in one table: addresses are made from it, and so is its description (OpenAPI 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.json_schema import models_json_schema

from scrout import __version__
from scrout.base import FrozenModel
from scrout.server.api.schemas import (
    MAX_KEY_CHARS,
    MAX_NAME_CHARS,
    MAX_WAIT_S,
    Answer,
    CallerBudget,
    FixRequest,
    GateRequest,
    Job,
    JobList,
    Problem,
    RouteRequest,
    ScoutRequest,
)

Schema = dict[str, Any]

REFUSALS: dict[int | str, str] = {
    400: "The request cannot be read.",
    401: "The token is missing or unknown.",
    403: "The caller may not do this.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    421: "The server is asked by a name that is not its own.",
    422: "What is asked for makes no sense.",
    429: "Too many requests, or too many at once; Retry-After says when to try again.",
    500: "A fault of scrout's.",
}
"""What any address may answer."""

REF = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Operation:
    """One address and what it takes and gives."""

    name: str
    method: str
    path: str
    summary: str
    answers: Mapping[int, tuple[str, type[FrozenModel] | Schema | None]]
    """By status, what it means and what the body holds; None: a stream, of which no schema can tell."""
    form: type[FrozenModel] | Schema | None = None
    """What the body holds; None: it has none."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    refusals: Mapping[int | str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    """Headers of what it answers, and what they say."""
    kind: str = "application/json"
    """Of what it answers."""
    public: bool = False
    """True: nobody is asked for a token."""


JOB_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9-]+$"}
WAIT: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": MAX_WAIT_S,
    "description": "Seconds to wait for the job's end. Without it a route is waited for, and others are not.",
}
KEY: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_KEY_CHARS,
    "pattern": "^[!-~]+$",
    "description": "The same request with the same key gets the same job, however often it is sent.",
}
STARTED = {200: ("The job has ended.", Job), 202: ("The job is under way; Location says where it is.", Job)}
OF_A_JOB: dict[int | str, str] = {404: "There is no such job."}
OF_A_START: dict[int | str, str] = {
    402: "The caller's budget is too small.",
    422: "What is asked for makes no sense, or its key came with another request.",
    503: "The server is ending.",
}
CHAT_FORM: Schema = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": {"const": "scrout/auto"},
        "messages": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        "stream": {"type": "boolean"},
    },
    "additionalProperties": True,
}
CONVERSATION: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_NAME_CHARS,
    "pattern": "^[!-~]+$",
    "description": "Tells conversations apart that begin alike.",
}
ANY: Schema = {"type": "object"}
TEXT: Schema = {"type": "string"}
CHAT_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"description": "As OpenAI has it; most endpoints give an object with a message."}},
}


def _start(stage: str, form: type[FrozenModel], summary: str) -> Operation:
    return Operation(
        name=stage,
        method="POST",
        path=f"/v1/{stage}",
        summary=summary,
        answers=STARTED,
        form=form,
        query={"wait": WAIT},
        headers={"Idempotency-Key": KEY},
        refusals=OF_A_START,
        told={"Location": "Where the job is."},
    )


OPERATIONS = (
    _start("scout", ScoutRequest, "Rank the files an issue is about, and try to reproduce it."),
    _start("gate", GateRequest, "Replay a handoff's claim, and strip what is false."),
    _start("route", RouteRequest, "Choose the fixer for an issue, and say why not the others. Runs nothing."),
    _start("fix", FixRequest, "Scout, gate, route, fix and check. Applies nothing."),
    Operation(
        name="jobs",
        method="GET",
        path="/v1/jobs",
        summary="The caller's jobs, newest first, without results.",
        answers={200: ("The jobs.", JobList)},
        query={"limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}},
    ),
    Operation(
        name="job",
        method="GET",
        path="/v1/jobs/{job}",
        summary="One job, with its result.",
        answers={200: ("The job.", Job)},
        query={"wait": WAIT},
        refusals=OF_A_JOB,
    ),
    Operation(
        name="call_off",
        method="DELETE",
        path="/v1/jobs/{job}",
        summary="End a job. One that has ended stays as it is.",
        answers={200: ("The job.", Job)},
        refusals=OF_A_JOB,
    ),
    Operation(
        name="events",
        method="GET",
        path="/v1/jobs/{job}/events",
        summary="What is said of a job while it works, as server-sent events: `progress`, and at its end `job`.",
        answers={200: ("Events; the data of each are JSON.", None)},
        headers={
            "Last-Event-ID": {
                "type": "string",
                "pattern": "^[0-9]{1,9}$",
                "description": "The last event that was received: those behind it are sent.",
            }
        },
        refusals=OF_A_JOB,
        kind="text/event-stream",
    ),
    Operation(
        name="budget",
        method="GET",
        path="/v1/budget",
        summary="What the caller may do, and what is left of today's budget.",
        answers={200: ("The budget.", CallerBudget)},
    ),
    Operation(
        name="models",
        method="GET",
        path="/v1/models",
        summary="The models of the endpoint, as OpenAI lists them: scrout/auto.",
        answers={200: ("The list.", ANY)},
    ),
    Operation(
        name="chat",
        method="POST",
        path="/v1/chat/completions",
        summary="A chat completion by the fixer that this conversation was routed to, once. Also streamed.",
        answers={200: ("The endpoint's answer.", ANY)},
        told={
            "X-Scrout-Fixer": "Who answers.",
            "X-Scrout-Model": "Its model.",
            "X-Scrout-Reason": "Why it was chosen.",
            "X-Scrout-Run": "The conversation in the ledger, for as long as its account is open.",
        },
        form=CHAT_FORM,
        headers={"X-Scrout-Conversation": CONVERSATION},
        refusals={
            402: "The caller's budget is too small.",
            404: "There is no such model, or no fixer that can talk.",
            502: "The endpoint did not answer, or refuses the server.",
            503: "The endpoint cannot be asked, or the server is ending.",
            504: "The endpoint has said nothing for too long.",
            "default": "What else the endpoint answers.",
        },
    ),
    Operation(
        name="openapi",
        method="GET",
        path="/openapi.json",
        summary="This description.",
        answers={200: ("OpenAPI 3.1.", ANY)},
        public=True,
    ),
    Operation(
        name="health",
        method="GET",
        path="/healthz",
        summary="Whether the server answers.",
        answers={200: ("It does.", ANY)},
        public=True,
    ),
)


def description() -> Schema:
    """The whole API."""
    records = (ScoutRequest, GateRequest, RouteRequest, FixRequest, Answer, Job, JobList, CallerBudget, Problem)
    _, schemas = models_json_schema(
        [(one, "serialization") for one in records], ref_template=REF.format(name="{model}")
    )
    known = schemas["$defs"]
    # A stored job's result is kept as JSON; the router's vector, a State, is left out of it.
    known["Job"]["properties"]["result"] = {"anyOf": [_schema(Answer), {"type": "null"}]}
    del known["Scouting"]["properties"]["state"], known["State"]
    paths: Schema = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "scrout",
            "version": __version__,
            "description": "Scout, then route: stages as jobs, and one model that stands for a pool of fixers.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": known, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _described(one: Operation) -> Schema:
    parameters = [
        *({"name": name, "in": "query", "required": False, "schema": schema} for name, schema in one.query.items()),
        *({"name": name, "in": "header", "required": False, "schema": schema} for name, schema in one.headers.items()),
    ]
    if "{job}" in one.path:
        parameters.append({"name": "job", "in": "path", "required": True, "schema": JOB_ID})
    told = {name: {"description": words, "required": True, "schema": TEXT} for name, words in one.told.items()}
    responses: Schema = {
        str(status): {"description": words, "headers": told, "content": {one.kind: _media(form)}}
        for status, (words, form) in one.answers.items()
    }
    refusal = {"application/problem+json": {"schema": _schema(Problem)}}
    if one.name == "chat":
        refusal["application/json"] = {"schema": CHAT_ERROR}
        responses["200"]["content"]["text/event-stream"] = {}
    for status, words in {**REFUSALS, **one.refusals}.items():
        responses[str(status)] = {"description": words, "content": refusal}
    described: Schema = {"operationId": one.name, "summary": one.summary}
    described |= {"parameters": parameters, "responses": responses}
    if one.form is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(one.form)}}}
    if one.public:
        described["security"] = []
    return described


def _media(form: type[FrozenModel] | Schema | None) -> Schema:
    return {} if form is None else {"schema": _schema(form)}


def _schema(form: type[FrozenModel] | Schema) -> Schema:
    return form if isinstance(form, dict) else {"$ref": REF.format(name=form.__name__)}
