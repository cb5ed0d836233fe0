"""Checks before every endpoint: the caller's token, its rate limit, and that the request is not from a web page.

Without callers, the server only answers to names of this machine. Requests of web pages are recognized by their
headers, and refused: nothing here is for pages.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from scrout.base import ConfigError
from scrout.config.settings import Action, ApiSettings, Caller
from scrout.redact import redact
from scrout.server.access import Access, bearer, is_another_site, is_loopback, names_this_server, read_token, same
from scrout.server.api.schemas import Problem


class RequestRefused(HTTPException):
    """A refused request. `retry_s` says when to retry; None: unknown."""

    def __init__(self, status: int, title: str, detail: str, retry_s: float | None = None) -> None:
        super().__init__(status, detail, {} if retry_s is None else {"retry-after": str(max(1, round(retry_s)))})
        self.title = title


def not_understood(detail: str) -> RequestRefused:
    return RequestRefused(422, "Not understood", detail)


def problem(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    told = Problem(title=title, status=status, detail=redact(detail).encode(errors="replace").decode())
    return Response(told.model_dump_json(), status, headers, "application/problem+json")


class ApiAccess(Access):
    def __init__(self, app: ASGIApp, callers: Callers, public: set[str]) -> None:
        super().__init__(app)
        self._callers = callers
        self._public = public

    async def refusal(self, request: Request) -> Response | None:
        if not names_this_server(request.headers, anywhere=self._callers.named):
            return problem(
                421,
                "Another host",
                "This server answers requests to localhost only. To allow others, name callers in its scrout.toml.",
            )
        if is_another_site(request.headers) or "origin" in request.headers:
            return problem(403, "A page", "This server refuses requests of web pages. Send the request from a program.")
        if request.scope["path"] in self._public:
            request.state.caller = LOCAL
            return None
        caller = self._callers.of(request.headers)
        if caller is None:
            detail = "Send the header Authorization: Bearer TOKEN, with a token that the server's scrout.toml names."
            return problem(401, "A token is needed", detail, {"www-authenticate": "Bearer"})
        wait_s = self._callers.wait_s(caller)
        if wait_s:
            words = f"Caller {caller.name!r} may ask {caller.requests_a_minute} times a minute."
            return problem(429, "Too many requests", words, {"retry-after": str(max(1, round(wait_s)))})
        request.state.caller = caller
        return None


LOCAL = Caller(name="local", token_env="-")
"""Any user of this machine, if no caller is configured. It may do nothing that costs money."""


class Callers:
    def __init__(self, settings: ApiSettings) -> None:
        tokens = [read_token(one.token_env, f"api caller {one.name!r}") for one in settings.callers]
        if len(set(tokens)) < len(tokens):
            raise ConfigError("two callers of the API have the same token. Give each caller its own token.")
        self.tokens = tuple(tokens)
        """Secrets that no redaction rule would find."""
        self._known = tuple(zip(tokens, settings.callers, strict=True))
        self._quotas = {one.name: Quota(one.requests_a_minute) for one in settings.callers or (LOCAL,)}

    @property
    def named(self) -> bool:
        """False: no token is needed, and only this machine may send requests."""
        return bool(self._known)

    def of(self, headers: Mapping[str, str]) -> Caller | None:
        """The caller with this token; None: there is none."""
        if not self.named:
            return LOCAL
        given = bearer(headers)
        # Compares all of them, so that the time does not reveal a near match.
        found = [caller for token, caller in self._known if same(given, token)]
        return found[0] if found else None

    def wait_s(self, caller: Caller) -> float:
        """Count a request; returns the wait before it is answered. 0: none."""
        return self._quotas[caller.name].take()


def must_be_allowed(caller: Caller, action: Action) -> None:
    """Raise a RequestRefused that says how to allow it, unless the caller is allowed."""
    if action in caller.may:
        return
    if caller is LOCAL:
        how = f"no caller may {action}: add a caller with {action!r} in its `may` under [[api.callers]]"
    else:
        how = f"caller {caller.name!r} may not {action}: add {action!r} to its `may`"
    raise RequestRefused(403, "Not allowed", f"{how} in the server's scrout.toml.")


class Quota:
    """A rate limit per minute; all of a minute's requests may come in a tenth of it."""

    def __init__(self, a_minute: int) -> None:
        self._rate = a_minute / 60
        self._most = max(1.0, a_minute / 10)
        self._left = self._most
        self._at = time.monotonic()

    def take(self) -> float:
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


def refuse_open(host: str, settings: ApiSettings) -> None:
    """Require callers with tokens for an address that others can reach."""
    if not settings.callers and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines connect and run commands of your repositories. Name each allowed "
            f"caller, with a token, under [[api.callers]] in scrout.toml."
        )
