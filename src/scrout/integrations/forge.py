"""The interface of a forge: a few queries, and two things that scrout writes there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from scrout.base import ScroutError, first_problem
from scrout.integrations.event import Event, Person
from scrout.integrations.markdown import plain
from scrout.models.chat import certificates

MAX_RESPONSE_BYTES = 20_000_000
TIMEOUT_S = 30
TRIES = 3
"""Retries of a request that reads.

A request that writes is sent once, because a failure does not tell whether it arrived.
"""
_PAUSE_S = 0.5
_PASSING = (429, 500, 502, 503, 504)


class ForgeError(ScroutError):
    """An event, a forge's answer, the budget or a result cannot be used."""


@dataclass(frozen=True)
class ForgeIssue:
    """The issue's current state on the forge, which may differ from when the label was added."""

    title: str
    body: str
    is_open: bool
    labels: frozenset[str]


@dataclass(frozen=True)
class IssueEdit:
    by: str
    at: datetime


class Forge(Protocol):
    """GitHub or GitLab, for one repository."""

    def issue(self, number: int) -> ForgeIssue: ...

    def labeller(self, event: Event, label: str) -> Person | None:
        """The person who added the label, according to the forge; None: it is not there, or was removed since."""

    def may_write(self, person: Person) -> bool:
        """Whether they may push to the repository, which a label requires."""

    def edits(self, event: Event) -> tuple[IssueEdit, ...]:
        """The latest changes of the issue's title and text."""

    def comment(self, number: int, body: str, mark: str, since: datetime) -> str:
        """Comment; returns the address. If scrout has already commented with this mark, no second comment is made."""

    def open_pull(self, *, head: str, base: str, title: str, body: str) -> str:
        """Open a pull request; returns the address, or that of the existing one for this head."""


class PullRefused(ForgeError):
    """The branch exists, but the forge does not let this token open a pull request."""


class Http:
    """Authenticated requests to one address; returns JSON of limited size."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        self._client = httpx.Client(
            base_url=base_url,
            headers=dict(headers),
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=True,
            verify=certificates(),
        )

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> JsonValue:
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, JsonValue]) -> JsonValue:
        return self._ask("POST", path, body=body)

    def query(self, path: str, body: Mapping[str, JsonValue]) -> JsonValue:
        """A POST that only reads."""
        return self._ask("POST", path, body=body, reads=True)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, JsonValue] | None = None,
        reads: bool = False,
    ) -> JsonValue:
        for left in reversed(range(TRIES if method == "GET" or reads else 1)):
            try:
                status, raw = self._send(method, path, params, body)
            except httpx.HTTPError as error:
                if not left:
                    what = type(error).__name__
                    raise ForgeError(f"{method} {path}: {what}. Check the address of the API.") from None
            else:
                if status not in _PASSING or not left:
                    return _read(method, path, status, raw)
            time.sleep(_PAUSE_S)
        raise AssertionError("unreachable")

    def _send(
        self, method: str, path: str, params: Mapping[str, str | int] | None, body: Mapping[str, JsonValue] | None
    ) -> tuple[int, bytes]:
        raw = bytearray()
        with self._client.stream(method, path, params=params, json=body) as response:
            for chunk in response.iter_bytes():
                raw += chunk
                if len(raw) > MAX_RESPONSE_BYTES:
                    raise ForgeError(f"{method} {path}: the answer is longer than {MAX_RESPONSE_BYTES:,} bytes.")
            return response.status_code, bytes(raw)


class Answered(ForgeError):
    """A status that is not a success."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def _read(method: str, path: str, status: int, raw: bytes) -> JsonValue:
    document: JsonValue = None
    with suppress(ValueError, RecursionError):
        document = json.loads(raw)
    if 200 <= status < 300 and document is not None:
        return document
    said = ""
    if isinstance(document, dict):
        said = plain(str(document.get("message") or document.get("error") or ""), 300)
    raise Answered(f"{method} {path}: status {status}{': ' if said else ''}{said}. {_advice(status)}", status)


def _advice(status: int) -> str:
    if status in (401, 403):
        return "Check the token, and the job's permissions."
    if status == 404:
        return "Either it is not there, or the token may not see it."
    return "Try again later." if status in _PASSING else "See docs/github.md."


class Part(BaseModel):
    """Some fields of an answer that has many more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


P = TypeVar("P", bound=Part)


def parsed(kind: type[P], answer: JsonValue) -> P:
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        what = kind.__name__.strip("_").lower()
        raise ForgeError(
            f"the forge's answer is not a valid {what} ({first_problem(error)}). Check the address of the API."
        ) from None


def listed(kind: type[P], answer: JsonValue) -> list[P]:
    if not isinstance(answer, list):
        raise ForgeError("the forge's answer is not a list. Check the address of the API.")
    return [parsed(kind, one) for one in answer]
