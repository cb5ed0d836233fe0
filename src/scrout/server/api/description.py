"""Additions to the API's OpenAPI 3.1 description that functions and records do not show."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from scrout.base import FrozenModel
from scrout.server.api.schemas import Answer, Job, Problem

PUBLIC = {"/openapi.json", "/healthz"}
"""These endpoints need no token."""
REFUSALS = {
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
"""Possible answers of every endpoint."""
BUDGET = "The caller's budget is too small."
ENDING = "The server is ending."
NOT_UNDERSTOOD = "What is asked for makes no sense, or its key came with another request."
REF = "#/components/schemas/{model}"

About = dict[Any, Any]


def answers(
    record: type[FrozenModel] | None = None, refusals: dict[int | str, str] | None = None, *, public: bool = False
) -> About:
    """Answers of an endpoint that returns 200 with a record, or any object, or an error."""
    whole = {"$ref": REF.format(model=record.__name__)} if record else {"type": "object"}
    responses: About = {200: {"description": "The answer.", "content": {"application/json": {"schema": whole}}}}
    if record:
        responses[200]["model"] = record
    content = {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}}
    for status, words in [*REFUSALS.items(), *(refusals or {}).items()]:
        responses[status] = {"description": words, "content": dict(content)}
    return {"responses": responses} | ({"openapi_extra": {"security": []}} if public else {})


def _headers(about: dict[str, str]) -> About:
    """Headers of an answer, with their descriptions."""
    return {
        name: {"description": words, "required": True, "schema": {"type": "string"}} for name, words in about.items()
    }


OF_A_JOB = answers(Job, {404: "There is no such job."})
STARTED = answers(Job, {402: BUDGET, 422: NOT_UNDERSTOOD, 503: ENDING})
for _status, _words in {200: "The job has ended.", 202: "The job is under way; Location says where it is."}.items():
    STARTED["responses"][_status] = {
        **STARTED["responses"][200],
        "description": _words,
        "headers": _headers({"Location": "Where the job is."}),
    }
EVENTS = answers(None, {404: "There is no such job."})
EVENTS["responses"][200] = {
    "description": "Events; the data of each are JSON.",
    "content": {"text/event-stream": {}},
}
CHAT = answers(
    None,
    {
        402: BUDGET,
        404: "There is no such model, or no fixer that can talk.",
        502: "The endpoint did not answer, or refuses the server.",
        503: "The endpoint cannot be asked, or the server is ending.",
        504: "The endpoint has said nothing for too long.",
        "default": "What else the endpoint answers.",
    },
)
for _status, _response in CHAT["responses"].items():
    if _status != 200:
        _response["content"]["application/json"] = {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {"description": "As OpenAI has it; most endpoints give an object with a message."}
                },
            }
        }
CHAT["responses"][200]["content"]["text/event-stream"] = {}
CHAT["responses"][200]["headers"] = _headers(
    {
        "X-Scrout-Fixer": "Who answers.",
        "X-Scrout-Model": "Its model.",
        "X-Scrout-Reason": "Why it was chosen.",
        "X-Scrout-Run": "The conversation in the ledger, for as long as its account is open.",
    }
)
CHAT["openapi_extra"] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "messages"],
                    "properties": {
                        "model": {"const": "scrout/auto"},
                        "messages": {"type": "array", "minItems": 1, "items": {"type": "object"}},
                        "stream": {"type": "boolean"},
                    },
                    "additionalProperties": True,
                }
            }
        },
    }
}


def complete(app: FastAPI) -> None:
    """Complete the description with tokens, refusals, and a job's result."""
    made = app.openapi()
    _, more = models_json_schema([(Problem, "serialization"), (Answer, "serialization")], ref_template=REF)
    known = made["components"]["schemas"]
    known |= more["$defs"]
    # A stored job's result is JSON without the router's vector, a State.
    known["Job"]["properties"]["result"] = {"anyOf": [{"$ref": REF.format(model="Answer")}, {"type": "null"}]}
    del known["Scouting"]["properties"]["state"], known["State"]
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
